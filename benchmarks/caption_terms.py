"""Terms of real captions: what a glossary of each line makes of its translation.

    python benchmarks/caption_terms.py DATA LEXICON MODEL... [--lines N] [--terms N]

DATA is Multi30k's folder, LEXICON the `lexicon.json` that `mtkit prepare` makes for
`data.augment.terms`, and each MODEL a model folder; the first needs a word aligner. A caption's
terms are words of test2016, or runs of up to three, that the aligner links to words of the
reference, chosen as those of training examples are. A term's target is the most frequent form of
its stem in training text: the reference's terms (as in arXiv 1906.01105), in base form. A form is
right if the reference has it. A term is rare if training text has it with this translation at most
three times. Seconds are CPU time, without loading.
"""

import argparse
import gzip
import json
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import sacrebleu

from mtkit import Request, Term, Translator
from mtkit.data.augmentation.aligned_terms import LinkedPair, TermLexicon, find_linked_terms
from mtkit.data.word_alignment.aligner import WordAligner
from mtkit.data.word_alignment.word_table import find_aligned_words
from mtkit.recipe.inference import GlossarySection
from mtkit.text.term_forms import are_forms, find_uses, knows_terms
from mtkit.text.tokenizer import SubwordTokenizer

_MAX_RARE = 3
_COUNTED = ("used", "inflected", "missed", "right")
_COLUMNS = ("model", "glossary", "terms", "used", "inflected", "missed", "right form")


class TermOfCaption(NamedTuple):
    """A term as a glossary has it, the form that the reference has, and whether it is rare."""

    source: str
    target: str
    right: str
    is_rare: bool


def read_captions(data: Path, num_lines: int) -> list[tuple[str, str]]:
    sides = (
        gzip.decompress((data / f"test_2016_flickr.{language}.gz").read_bytes()).decode()
        for language in ("en", "de")
    )
    return list(zip(*(side.split("\n")[:-1][:num_lines] for side in sides), strict=True))


def find_terms(
    pairs: Sequence[tuple[str, str]], lexicon_file: Path, aligner: WordAligner, max_terms: int
) -> list[list[TermOfCaption]]:
    """Returns each caption's terms, single words before runs of several."""
    lexicon = TermLexicon.load(lexicon_file)
    translations = json.loads(lexicon_file.read_text(encoding="utf-8"))["translations"]
    texts = [
        [[side[start:end].casefold() for start, end in find_aligned_words(side)] for side in pair]
        for pair in pairs
    ]
    linked = aligner.align([source for source, _ in texts], [target for _, target in texts])
    rng = random.Random(1)
    found = []
    for (source, target), links in zip(pairs, linked, strict=True):
        line = " ".join(f"{first}-{second}" for first, second in sorted(links))
        pair = LinkedPair(source, target, line, find_aligned_words)
        terms = find_linked_terms(pair, lexicon.common)
        rng.shuffle(terms)
        of_line: dict[str, TermOfCaption] = {}
        for term in sorted(terms, key=lambda each: each.num_words)[:max_terms]:
            english, german = source[slice(*term.source)], target[slice(*term.target)]
            known = translations.get(english.casefold(), {})
            count = sum(number for form, number in known.items() if are_forms(form, german))
            base = lexicon.find_base(english, german)
            told = TermOfCaption(english, base, german, count <= _MAX_RARE)
            of_line.setdefault(english.casefold(), told)
        found.append(list(of_line.values()))
    return found


def count_forms(
    texts: Sequence[str], terms: Sequence[Sequence[TermOfCaption]], *, only_rare: bool
) -> list[str]:
    """Returns the number of terms, and the shares used, inflected, missed and rightly formed."""
    counts: Counter[str] = Counter()
    for text, of_line in zip(texts, terms, strict=True):
        uses = find_uses(text, [(term.target, False) for term in of_line])
        words = re.sub(r"\W+", " ", f" {text} ").casefold()
        for use, term in zip(uses, of_line, strict=True):
            if term.is_rare or not only_rare:
                counts[use.form] += 1
                counts["right"] += f" {term.right.casefold()} " in words
    total = counts["used"] + counts["inflected"] + counts["missed"]
    return [f"{total:,}", *(f"{counts[form] / max(total, 1):.1%}" for form in _COUNTED)]


def translate(
    model: Path, sources: Sequence[str], terms: Sequence[Sequence[TermOfCaption]], way: str
) -> tuple[list[str], float]:
    """Returns translations, and the CPU seconds that they took."""
    translator = Translator(model, device="cpu")
    settings = translator.settings.model_copy(update={"glossary": GlossarySection(way=way)})
    translator = Translator(model, device="cpu", settings=settings)
    requests = [
        Request(source, glossary=tuple(Term(term.source, term.target) for term in of_line))
        for source, of_line in zip(sources, terms, strict=True)
    ]
    translator.search(requests[:8])
    started_at = time.process_time()
    found = translator.search(requests)
    return [each.text for each in found], time.process_time() - started_at


def main() -> None:
    """Prints a table: each model without a glossary and with it, all terms and rare ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("lexicon", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--lines", type=int, default=1_000)
    parser.add_argument("--terms", type=int, default=2, help="of a line, at most")
    parser.add_argument("--write", type=Path, help="a folder for the translations")
    arguments = parser.parse_args()
    pairs = read_captions(arguments.data, arguments.lines)
    sources, references = map(list, zip(*pairs, strict=True))
    aligner = WordAligner.load(arguments.models[0] / "word_aligner.safetensors")
    terms = find_terms(pairs, arguments.lexicon, aligner, arguments.terms)
    nothing: list[list[TermOfCaption]] = [[] for _ in terms]
    print(f"| {' | '.join(_COLUMNS)} | rare: used | right form | BLEU | seconds |")
    print("|---" * (len(_COLUMNS) + 4) + "|")
    for model in arguments.models:
        reads = knows_terms(SubwordTokenizer.load(model).source_vocabulary)
        ways = ("annotation", "constraints", "both") if reads else ("constraints",)
        for way, given in (("none", nothing), *((each, terms) for each in ways)):
            texts, seconds = translate(model, sources, given, "auto" if way == "none" else way)
            rare = count_forms(texts, terms, only_rare=True)
            bleu = sacrebleu.corpus_bleu(texts, [references]).score
            name = model.parent.name if model.name == "model" else model.name
            counted = count_forms(texts, terms, only_rare=False)
            row = [name, way, *counted, f"{rare[1]} of {rare[0]}", rare[4]]
            print(f"| {' | '.join([*row, f'{bleu:.1f}', f'{seconds:.1f}'])} |", flush=True)
            if arguments.write:
                arguments.write.mkdir(parents=True, exist_ok=True)
                told = [
                    json.dumps({"source": source, "terms": of_line, "text": text})
                    for source, of_line, text in zip(sources, terms, texts, strict=True)
                ]
                (arguments.write / f"{name}.{way}.jsonl").write_text("\n".join(told) + "\n")


if __name__ == "__main__":
    main()
