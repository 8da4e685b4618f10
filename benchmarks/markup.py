"""Tags put back through word alignments, by Bergamot's way, and by proportional positions.

python benchmarks/markup.py tags DATA [--sentences N]   inline tags placed by the gold alignments
python benchmarks/markup.py tags DATA --model MODEL     by those of models, of either pair of
                                                        languages; in running text, too
python benchmarks/markup.py pages FOLDER                pages of HTML: the DOM but for text
python benchmarks/markup.py speed MODEL < lines.txt     lines with markup compared with bare lines
"""

import argparse
import gc
import gzip
import html
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, get_args

from alignment import align, read_lines
from lxml import html as lxml_html

from mtkit.documents.atoms import PunctuationKind, find_atoms, find_punctuation_kinds
from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.paragraph_translator import SentenceTranslator
from mtkit.documents.placement import PlacedTag, TagPlacer
from mtkit.documents.translate_file import translate_markup
from mtkit.inference.translator import Translator
from mtkit.model.config import read_settings
from mtkit.recipe.inference import Engine

Links = list[tuple[int, int]]
Signs = tuple[list[PunctuationKind], list[PunctuationKind]]
_ENGLISH_FIRST = (("enfr", "en", "fr"), ("zhen", "zh", "en"))
_MAX_TAG_WORDS = 5


class Sentence(NamedTuple):
    """Words of both sides, their links, tagged source words and where their tags belong."""

    num_source: int
    num_target: int
    signs: Signs
    links: Links
    tags: list[tuple[int, int]]
    gold: list[tuple[int, int]]
    pair: int


def make_sentences(
    data: Path, num_sentences: int, sets: Sequence[tuple[str, str, str]] = _ENGLISH_FIRST
) -> list[Sentence]:
    """Returns sentences with 1 to 4 tags, nested or apart, whose gold targets are contiguous."""
    rng = random.Random(1)
    pairs = [
        (*pair, number) for each in sets for number, pair in enumerate(_read_pairs(data, *each))
    ]
    made: list[Sentence] = []
    while len(made) < num_sentences:
        signs, links, number = rng.choice(pairs)
        num_source, num_target = map(len, signs)
        tags: list[tuple[int, int]] = []
        gold: list[tuple[int, int]] = []
        wanted = rng.randint(1, 4)
        for _ in range(50):
            first = rng.randrange(num_source)
            last = min(num_source, first + rng.randint(1, _MAX_TAG_WORDS))
            found = sorted({target for source, target in links if first <= source < last})
            if not found or found[-1] - found[0] + 1 != len(found):
                continue
            span, there = (first, last), (found[0], found[-1] + 1)
            if all(
                _fit(span, other) and _agree(span, other, there, beyond)
                for other, beyond in zip(tags, gold, strict=True)
            ):
                tags.append(span)
                gold.append(there)
            if len(tags) == wanted:
                break
        if tags:
            made.append(Sentence(num_source, num_target, signs, links, tags, gold, number))
    return made


def _read_pairs(data: Path, name: str, *languages: str) -> Iterator[tuple[Signs, Links]]:
    folder = data / "word_alignments"
    source, target, gold = (
        gzip.decompress((folder / f"{name}.{each}.gz").read_bytes()).decode().split("\n")[:-1]
        for each in (*languages, "gold")
    )
    for left, right, line in zip(source, target, gold, strict=True):
        links = [
            (int(first) - 1, int(second) - 1)
            for first, kind, second in re.findall(r"(\d+)([-p])(\d+)", line)
            if kind == "-"
        ]
        yield (_find_signs(left), _find_signs(right)), links


def _find_signs(line: str) -> list[PunctuationKind]:
    return [
        kind for word in line.split() for kind in find_punctuation_kinds(word, [(0, len(word))])
    ]


def _fit(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Returns whether two spans differ and are nested or apart."""
    apart = one[1] <= other[0] or other[1] <= one[0]
    return one != other and (apart or _holds(one, other) or _holds(other, one))


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _agree(
    one: tuple[int, int], other: tuple[int, int], there: tuple[int, int], beyond: tuple[int, int]
) -> bool:
    """Returns whether two tags' gold places are to each other as the tags are."""
    if _holds(one, other):
        return _holds(there, beyond)
    if _holds(other, one):
        return _holds(beyond, there)
    return there[1] <= beyond[0] or beyond[1] <= there[0]


def place_ours(sentence: Sentence, links: Links) -> list[tuple[int, int]]:
    """Returns where mtkit puts tags."""
    marks = [PlacedTag(*tag) for tag in sentence.tags]
    roots: list[PlacedTag] = []
    for mark in sorted(marks, key=lambda each: (each.first, -each.last)):
        holders = [
            each
            for each in marks
            if each is not mark and each.first <= mark.first and mark.last <= each.last
        ]
        inner = min(holders, key=lambda each: each.last - each.first, default=None)
        (roots if inner is None else inner.children).append(mark)
    TagPlacer(sentence.num_source, sentence.num_target, links, sentence.signs).place(roots)
    return [mark.target for mark in marks]


def place_as_bergamot(sentence: Sentence, links: Links) -> list[list[int]]:
    """Returns the target words that each tag covers in Bergamot's way, rebuilt.

    Each target word takes the tags of the source word that it is aligned to most, so a tag may
    open several times. Soft alignments have such a source word for each target word; a word
    without a gold link takes that of the word before it.
    """
    aligned: list[int] = []
    for target in range(sentence.num_target):
        sources = [source for source, other in links if other == target]
        aligned.append(sources[0] if sources else aligned[-1] if aligned else 0)
    return [
        [target for target, source in enumerate(aligned) if first <= source < last]
        for first, last in sentence.tags
    ]


def place_by_share(sentence: Sentence) -> list[tuple[int, int]]:
    """Returns where tags are by the share of the words before them alone."""
    ratio = sentence.num_target / sentence.num_source
    return [(round(first * ratio), round(last * ratio)) for first, last in sentence.tags]


def disturb(links: Links, share: float, sentence: Sentence, rng: random.Random) -> Links:
    """Returns links of which a share is dropped and as many are random ones."""
    kept = [link for link in links if rng.random() >= share]
    wrong = {
        (rng.randrange(sentence.num_source), rng.randrange(sentence.num_target))
        for _ in range(len(links) - len(kept))
    }
    return sorted({*kept, *wrong})


def measure_tags(data: Path, num_sentences: int) -> None:
    sentences = make_sentences(data, num_sentences)
    num_tags = sum(len(sentence.tags) for sentence in sentences)
    print(f"{len(sentences):,} sentences, {num_tags:,} tags placed exactly:")
    print("links disturbed | mtkit | Bergamot's way | proportional")
    for share in (0.0, 0.1, 0.2, 0.3):
        rng = random.Random(2)
        counts = [0, 0, 0]
        for sentence in sentences:
            links = disturb(sentence.links, share, sentence, rng)
            ours = place_ours(sentence, links)
            theirs = place_as_bergamot(sentence, links)
            plain = place_by_share(sentence)
            for index, gold in enumerate(sentence.gold):
                counts[0] += ours[index] == gold
                counts[1] += theirs[index] == list(range(*gold))
                counts[2] += plain[index] == gold
        print(f"{share:.0%} | " + " | ".join(f"{count / num_tags:.1%}" for count in counts))


def measure_tags_by_models(data: Path, models: Sequence[Path], num_sentences: int) -> None:
    for model in models:
        translator = Translator(model)
        settings = translator.settings.model_copy(update={"alignments": True})
        translator = Translator(model, settings=settings)
        names = translator.resolve_languages()
        [known] = [each for each in _ENGLISH_FIRST if each[1:] == names]
        sentences = make_sentences(data, num_sentences, [known])
        num_tags = sum(len(sentence.tags) for sentence in sentences)
        lines = [read_lines(data / f"word_alignments/{known[0]}.{side}.gz") for side in known[1:]]
        found = align(translator, lines[0], lines[1], (known[1], known[2]))
        count = sum(
            place == gold
            for sentence in sentences
            for place, gold in zip(
                place_ours(sentence, sorted(found[sentence.pair])), sentence.gold, strict=True
            )
        )
        print(
            f"{model}: {len(sentences):,} sentences, {num_tags:,} tags, "
            f"placed exactly by its links {count / num_tags:.1%}"
        )
        measure_running_text(translator, sentences, lines, known[1:])


def measure_running_text(
    translator: Translator,
    sentences: Sequence[Sentence],
    lines: Sequence[Sequence[str]],
    languages: tuple[str, str],
) -> None:
    """Prints the share of tags placed exactly in text with punctuation next to words, as in pages.

    Tags that end with punctuation have their own row, and those that precede it.
    """
    joined = [
        [_join_text(line.split(), language) for line in side]
        for side, language in zip(lines, languages, strict=True)
    ]
    scored = translator.score(
        [(source[0], target[0]) for source, target in zip(*joined, strict=True)]
    )
    counts: Counter[tuple[str, bool]] = Counter()
    for sentence in sentences:
        (source, source_spans), (target, target_spans) = (side[sentence.pair] for side in joined)
        alignment = scored[sentence.pair].candidates[0].alignment
        assert alignment is not None, "asked for"
        links = tuple((link.source, link.target) for link in alignment.links)
        made = TranslatedText(target, links)
        page = _write_tags(source, [_cover(source_spans, tag) for tag in sentence.tags])
        answer = translate_markup(
            page, "html", lambda asked, text=made: [text] * len(asked), LanguageCodes()
        )
        placed = _read_tags(answer)
        for number, (tag, gold) in enumerate(zip(sentence.tags, sentence.gold, strict=True)):
            is_exact = placed.get(number) == _cover(target_spans, gold)
            counts["all", is_exact] += 1
            end = _cover(source_spans, tag)[1]
            if not source[end - 1].isalnum():
                counts["that end with punctuation", is_exact] += 1
            elif source[end : end + 1].strip() and not source[end].isalnum():
                counts["before punctuation", is_exact] += 1
    for kind in dict.fromkeys(kind for kind, _ in counts):
        total = counts[kind, True] + counts[kind, False]
        print(f"  running text, tags {kind}: {counts[kind, True] / total:.1%} of {total:,}")


def _join_text(words: Sequence[str], language: str) -> tuple[str, list[tuple[int, int]]]:
    """Returns words as running text, and the span of each in it."""
    text, spans = "", []
    for word in words:
        is_apart = text and language != "zh" and word not in _CLOSING and text[-1] not in _OPENING
        text += f" {word}" if is_apart else word
        spans.append((len(text) - len(word), len(text)))
    return text, spans


_CLOSING, _OPENING = tuple(".,;:!?)]%"), tuple("(['’")


def _cover(spans: Sequence[tuple[int, int]], words: tuple[int, int]) -> tuple[int, int]:
    return spans[words[0]][0], spans[words[1] - 1][1]


def _write_tags(text: str, tags: Sequence[tuple[int, int]]) -> str:
    """Returns HTML with each tag as an element with its number."""
    edges = [(end, 0, -start, "</b>") for start, end in tags]
    edges += [(start, 1, -end, f"<b id={number}>") for number, (start, end) in enumerate(tags)]
    parts, done = ["<p>"], 0
    for position, _, _, tag in sorted(edges):
        parts += [html.escape(text[done:position], quote=False), tag]
        done = position
    return "".join([*parts, html.escape(text[done:], quote=False), "</p>"])


def _read_tags(page: str) -> dict[int, tuple[int, int]]:
    """Returns the span of each numbered element in the text of a page."""
    length, opened = 0, []
    found: dict[int, tuple[int, int]] = {}
    for tag, text in re.findall(r"(<[^>]*>)|([^<]+)", page):
        if number := re.match(r"<b id=(\d+)>", tag):
            opened.append((int(number[1]), length))
        elif tag == "</b>":
            key, start = opened.pop()
            found[key] = start, length
        length += len(html.unescape(text))
    return found


def reverse_words(texts: Sequence[str]) -> list[TranslatedText]:
    """Translates into the same words in capitals, the last first: all tags have to move."""
    translated = []
    for text in texts:
        atoms = find_atoms(text)
        words = [text[start:end].upper() for start, end in atoms][::-1]
        line = " ".join(words)
        places = []
        start = 0
        for word in words:
            places.append((start, start + len(word)))
            start += len(word) + 1
        translated.append(TranslatedText(line, tuple(zip(atoms, places[::-1], strict=True))))
    return translated


def keep_text(texts: Sequence[str]) -> list[TranslatedText]:
    """Translates into the text itself, with links from each word to itself."""
    return [
        TranslatedText(text, tuple((atom, atom) for atom in find_atoms(text))) for text in texts
    ]


def measure_pages(folder: Path) -> None:
    counts = {"pages": 0, "same bytes": 0, "same tags": 0}
    for path in sorted(folder.rglob("*.html")):
        content = path.read_bytes()
        try:
            text = content.decode()
        except UnicodeDecodeError:
            continue
        counts["pages"] += 1
        counts["same bytes"] += translate_markup(text, "html", keep_text, LanguageCodes()) == text
        turned = translate_markup(text, "html", reverse_words, LanguageCodes())
        is_same = _list_tags(text) == _list_tags(turned)
        counts["same tags"] += is_same
        if not is_same:
            print(path)
    print(counts)


def _list_tags(page: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Returns a page's elements as libxml2 reads them: name, name of the parent, attributes.

    Sorted, since words and the elements around them change places in a translation.
    """
    changed = ("title", "alt", "placeholder", "aria-label", "aria-description", "content")
    return sorted(
        (
            str(element.tag),
            "" if (parent := element.getparent()) is None else str(parent.tag),
            sorted((key, value) for key, value in element.attrib.items() if key not in changed),
        )
        for element in lxml_html.document_fromstring(page.encode(), parser=_PARSER).iter()
    )


_PARSER = lxml_html.HTMLParser(encoding="utf-8", huge_tree=True)


def measure_speed(
    model: Path, engine: Engine, beam_size: int, rounds: int, *, by_clock: bool
) -> None:
    """Prints how fast lines with markup are compared with bare ones.

    For CPU time all of it runs in this process; for wall time in several, as in the command.
    """
    lines = [line.rstrip("\n") for line in sys.stdin]
    update = {"beam_size": beam_size, "engine": engine}
    settings = read_settings(model).model_copy(update=update)
    translator = Translator(model, device="cpu", settings=settings)
    now = time.perf_counter if by_clock else time.process_time
    sentences = SentenceTranslator(translator)
    rng = random.Random(1)
    page = "\n".join(f"<p>{_tag_some(line, rng)}</p>" for line in lines)
    ratios = []
    translator.translate(lines[:100])
    # As `mtkit translate` does.
    gc.freeze()
    for _ in range(rounds):
        gc.set_threshold(50_000)
        started_at = now()
        translator.translate(lines)
        bare = now() - started_at
        gc.set_threshold(1_000_000)
        started_at = now()
        translate_markup(page, "html", sentences, LanguageCodes())
        ratios.append(bare / (now() - started_at))
        print(f"{len(lines) / bare:.1f} lines a second bare, ratio with markup {ratios[-1]:.3f}")
    print(f"median of the ratios: {median(ratios):.3f}")


def _tag_some(line: str, rng: random.Random) -> str:
    words = line.replace("&", "&amp;").replace("<", "&lt;").split()
    first = rng.randrange(max(1, len(words) - 1))
    return " ".join(
        [*words[:first], f"<b>{' '.join(words[first : first + 2])}</b>", *words[first + 2 :]]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("tags", "pages", "speed"))
    parser.add_argument("where", type=Path)
    parser.add_argument("--model", type=Path, action="append", help="tags: by its own links")
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", choices=get_args(Engine), default="auto")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--clock", action="store_true", help="speed: wall time instead of CPU time")
    arguments = parser.parse_args()
    match arguments.what:
        case "tags" if arguments.model:
            measure_tags_by_models(arguments.where, arguments.model, arguments.sentences)
        case "tags":
            measure_tags(arguments.where, arguments.sentences)
        case "pages":
            measure_pages(arguments.where)
        case _:
            measure_speed(
                arguments.where,
                arguments.engine,
                arguments.beam_size,
                arguments.rounds,
                by_clock=arguments.clock,
            )


if __name__ == "__main__":
    main()
