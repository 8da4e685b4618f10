"""Alignment error rate of a translator on pairs aligned by hand, or of another aligner's links.

    python benchmarks/alignment.py GOLD SOURCE TARGET --model FOLDER [--heads]
    python benchmarks/alignment.py GOLD SOURCE TARGET --links FILE
    python benchmarks/alignment.py GOLD SOURCE TARGET --corpus SOURCE TARGET [--pairs N]
        [--languages zh en] [--group N]

GOLD has a line for each pair: `i-j` for a sure link, `ipj` for a possible one, counted from 1.
SOURCE and TARGET have their words, separated by spaces; all may be gzipped. With `--reverse`, i is
a position in the target. A model aligns each source with the given target. FILE has a line
`0-0 1-2` for each pair. With --corpus, mtkit's own aligner learns from the first N pairs of two
text files, and aligns the pairs: each alone, all together (or --group N at a time), together
without the corpus, and each alone after also learning from them. A folder with a word aligner gets
a row for both. With --of-gold-words only links of source words that have gold links count.
"""

import argparse
import gzip
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import get_args

from mtkit.data.word_alignment.aligner import WordAligner
from mtkit.data.word_alignment.estimate import train_aligner
from mtkit.data.word_alignment.together import align_together
from mtkit.data.word_alignment.word_table import find_aligned_words
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.request import Request
from mtkit.inference.translation import WordAlignment
from mtkit.inference.translator import Translator
from mtkit.model.alignment_head import AlignmentHead, Position, find_word_aligner
from mtkit.model.config import read_config, read_settings
from mtkit.model.folder import load_model_folder
from mtkit.pipeline.align import align as align_pairs

Pairs = set[tuple[int, int]]
Gold = tuple[Pairs, Pairs]
"""Sure links, and possible ones, the sure among them."""


def read_lines(path: Path) -> list[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode("utf-8").removesuffix("\n").split("\n")


def read_gold(line: str, *, reverse: bool) -> Gold:
    sure: Pairs = set()
    possible: Pairs = set()
    for link in line.split():
        is_sure = "-" in link
        first, second = (int(number) - 1 for number in link.split("-" if is_sure else "p"))
        pair = (second, first) if reverse else (first, second)
        possible.add(pair)
        if is_sure:
            sure.add(pair)
    return sure, possible


def keep_words_of_gold(found: Iterable[Pairs], gold: Sequence[Gold]) -> list[Pairs]:
    """Returns the links of source words that gold links; it says nothing about the others."""
    return [
        {pair for pair in pairs if pair[0] in {source for source, _ in possible}}
        for pairs, (_, possible) in zip(found, gold, strict=True)
    ]


def measure(found: Iterable[Pairs], gold: Sequence[Gold]) -> tuple[float, float, float]:
    """Returns error rate, precision and recall (Och and Ney 2003, section 6)."""
    in_sure = in_possible = num_found = num_sure = 0
    for pairs, (sure, possible) in zip(found, gold, strict=True):
        in_sure += len(pairs & sure)
        in_possible += len(pairs & possible)
        num_found += len(pairs)
        num_sure += len(sure)
    error = 1 - (in_sure + in_possible) / (num_found + num_sure)
    return error, in_possible / max(num_found, 1), in_sure / num_sure


def join_words(line: str, language: str) -> tuple[str, list[int]]:
    """Returns text as a language writes it, and where each word ends in it."""
    gap = "" if language.split("-", maxsplit=1)[0] in ("zh", "ja") else " "
    words = line.split()
    ends, end = [], 0
    for word in words:
        ends.append(end + len(word))
        end += len(word) + len(gap)
    return gap.join(words), ends


def to_words(
    alignment: WordAlignment, source_ends: Sequence[int], target_ends: Sequence[int]
) -> Pairs:
    """Returns links between the words that were joined."""

    def find(span: tuple[int, int], ends: Sequence[int]) -> list[int]:
        starts = [0, *ends[:-1]]
        return [
            index
            for index, (start, end) in enumerate(zip(starts, ends, strict=True))
            if start < span[1] and span[0] < end
        ]

    return {
        (source, target)
        for link in alignment.links
        for source in find(link.source, source_ends)
        for target in find(link.target, target_ends)
    }


def join_pairs(
    sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]
) -> list[tuple[tuple[str, list[int]], tuple[str, list[int]]]]:
    return [
        (join_words(source, languages[0]), join_words(target, languages[1]))
        for source, target in zip(sources, targets, strict=True)
    ]


def align(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    languages: tuple[str, str],
) -> list[Pairs]:
    joined = join_pairs(sources, targets, languages)
    scored = translator.score([(source[0], target[0]) for source, target in joined])
    return [
        to_words(each.candidates[0].alignment or WordAlignment((), (), ()), source[1], target[1])
        for each, (source, target) in zip(scored, joined, strict=True)
    ]


def split_words(
    lines: Sequence[str], language: str
) -> tuple[list[list[str]], list[list[tuple[int, int]]], list[list[int]]]:
    """Returns the aligner's words of gold's lines, where they stand, and where gold's words end."""
    joined = [join_words(line, language) for line in lines]
    spans = [find_aligned_words(text) for text, _ in joined]
    words = [
        [text[start:end].casefold() for start, end in each]
        for (text, _), each in zip(joined, spans, strict=True)
    ]
    return words, spans, [ends for _, ends in joined]


def align_by_statistics(
    corpus: Sequence[Path],
    num_pairs: int | None,
    sides: tuple[Sequence[str], Sequence[str]],
    languages: Sequence[str],
    group: int | None,
) -> Iterator[tuple[str, list[Pairs]]]:
    """Yields the links of mtkit's own aligner: each pair alone, together, and learned from."""
    (sources, source_spans, source_ends), (targets, target_spans, target_ends) = (
        split_words(side, language) for side, language in zip(sides, languages, strict=True)
    )
    text = [
        [
            [line[start:end].casefold() for start, end in find_aligned_words(line)]
            for line in read_lines(path)[:num_pairs]
        ]
        for path in corpus
    ]
    size = group or len(sources)

    def align_groups(aligner: WordAligner) -> list[Pairs]:
        return [
            links
            for first in range(0, len(sources), size)
            for links in align_together(
                aligner, sources[first : first + size], targets[first : first + size]
            )
        ]

    def to_gold(found: Sequence[Pairs]) -> list[Pairs]:
        rows = zip(found, source_spans, target_spans, source_ends, target_ends, strict=True)
        return [
            to_words(WordAlignment(tuple(first), tuple(second), tuple(links)), *ends)
            for links, first, second, *ends in rows
        ]

    started_at = process_time()
    aligner = train_aligner(zip(*text, strict=True), tuple)
    print(f"{len(text[0]):,} pairs learned: {process_time() - started_at:.1f} s", file=sys.stderr)
    nothing = train_aligner([], tuple)
    both = [[*side, *given] for side, given in zip(text, (sources, targets), strict=True)]
    together = "together" if group is None else f"together, {group} at a time"
    for name, align_them in (
        ("each pair alone", lambda: aligner.align(sources, targets)),
        (together, lambda: align_groups(aligner)),
        (f"{together}, without the corpus", lambda: align_groups(nothing)),
        (
            "alone, also learned from",
            lambda: train_aligner(zip(*both, strict=True), tuple).align(sources, targets),
        ),
    ):
        started_at = process_time()
        found = align_them()
        print(f"{name}: {process_time() - started_at:.1f} s", file=sys.stderr)
        yield name, to_gold(found)


def align_by_folder(
    model: Path,
    sources: Sequence[str],
    targets: Sequence[str],
    languages: tuple[str, str],
) -> list[Pairs]:
    """Returns the links that `mtkit align` finds."""
    joined = join_pairs(sources, targets, languages)
    requests = [Request(source[0], prefix=target[0]) for source, target in joined]
    return [
        to_words(each, source[1], target[1])
        for each, (source, target) in zip(
            align_pairs(model, requests, together=True), joined, strict=True
        )
    ]


def print_errors(
    name: str, found: Iterable[Pairs], gold: Sequence[Gold], *, of_gold_words: bool = False
) -> None:
    if of_gold_words:
        found = keep_words_of_gold(found, gold)
    error, precision, recall = measure(found, gold)
    numbers = {"AER": error, "precision": precision, "recall": recall}
    print("\t".join([name, *(f"{key} {100 * value:.1f}" for key, value in numbers.items())]))


def list_heads(model: Path) -> list[AlignmentHead]:
    shape = read_config(model).model
    return [
        AlignmentHead(layer=layer, head=head, at=at)
        for at in get_args(Position)
        for layer in range(1, shape.num_decoder_layers + 1)
        for head in (None, *range(1, shape.num_heads + 1))
    ]


def open_with_head(model: Path, head: AlignmentHead) -> Translator:
    loaded = load_model_folder(model)
    return Translator.of(
        TorchEngine(loaded.translator, "cpu", alignment_heads=[head]),
        loaded.tokenizer,
        loaded.settings.model_copy(update={"alignments": True}),
        target_language=loaded.config.target_language,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("gold", "source", "target"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--links", type=Path)
    parser.add_argument("--corpus", type=Path, nargs=2)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--languages", nargs=2, default=("en", "fr"), help="those of --corpus")
    parser.add_argument("--group", type=int, help="pairs that are aligned together; all of them")
    parser.add_argument("--heads", action="store_true", help="every head, and each layer's mean")
    parser.add_argument("--reverse", action="store_true", help="gold has the target's word first")
    parser.add_argument(
        "--of-gold-words", action="store_true", help="count links of gold's source words alone"
    )
    options = parser.parse_args()
    show = partial(print_errors, of_gold_words=options.of_gold_words)
    gold = [read_gold(line, reverse=options.reverse) for line in read_lines(options.gold)]
    if options.links is not None:
        found = [
            {
                (int(first), int(second))
                for first, second in (link.split("-") for link in line.split())
            }
            for line in read_lines(options.links)
        ]
        show(str(options.links), found, gold)
        return
    sources, targets = read_lines(options.source), read_lines(options.target)
    if options.corpus is not None:
        for name, found in align_by_statistics(
            options.corpus, options.pairs, (sources, targets), options.languages, options.group
        ):
            show(name, found, gold)
        return
    config = read_config(options.model)
    languages = config.source_language, config.target_language
    settings = read_settings(options.model).model_copy(update={"alignments": True})
    translator = Translator(options.model, device="cpu", settings=settings)
    show("as recorded", align(translator, sources, targets, languages), gold)
    if find_word_aligner(options.model) is not None:
        show("together", align_by_folder(options.model, sources, targets, languages), gold)
    if options.heads:
        for head in list_heads(options.model):
            each = open_with_head(options.model, head)
            name = f"{head.at}, layer {head.layer}, " + (
                "mean" if head.head is None else f"head {head.head}"
            )
            show(name, align(each, sources, targets, languages), gold)


if __name__ == "__main__":
    main()
