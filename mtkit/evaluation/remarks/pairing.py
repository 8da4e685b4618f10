"""Checks that each side is what it is called, and that lines belong together."""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from mtkit.evaluation.remarks.forms import PIECE
from mtkit.evaluation.remarks.side import Remark, Side, of_all

_LAST_MARK = re.compile(r"[.!?。！？…।؟។၊།:;](?:[\"'”“’»)\]」』 ]|&(?:quot|apos);)*$")


def find_cuts(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields remarks on text that breaks off, is missing, or is far too much."""
    num_lines = len(hypothesis.lines)
    ratio = len(hypothesis.text) / max(1, len(reference.text))
    if num_lines >= 10 and not 0.7 < ratio < 1.5:
        meaning, cure = (
            ("translations are cut off or incomplete", "raise the limit on output length")
            if ratio < 1
            else ("translations may repeat themselves", "look at the longest lines")
        )
        yield Remark(
            "length",
            f"The hypotheses have {ratio:.0%} of the references' characters: {meaning}. Look at "
            f"some, and {cure}.",
        )
    complete = [
        ours
        for ours, theirs in zip(hypothesis.lines, reference.lines, strict=True)
        if ours and _LAST_MARK.search(theirs)
    ]
    open_ended = sum(not _LAST_MARK.search(line) for line in complete)
    if open_ended >= max(5, 0.1 * len(complete)):
        yield Remark(
            "open-ended",
            f"{of_all(open_ended, len(complete))} hypotheses end without a full stop or similar "
            "where the reference has one: they may be cut off. Look at the longest, and raise the "
            "limit on output length if they are.",
        )
    for unit, lengths in (
        ("characters", Counter(map(len, hypothesis.lines))),
        ("words", Counter(len(line.split()) for line in hypothesis.lines)),
    ):
        longest = max(lengths)
        # Lengths thin out towards the longest, unless something cuts there.
        before = lengths[longest - 1] + lengths[longest - 2] + lengths[longest - 3]
        if longest > 10 and lengths[longest] >= max(5, 0.01 * num_lines, 2 * before):
            yield Remark(
                "cut",
                f"{hypothesis.describe(lengths[longest])} are exactly {longest:,} {unit} "
                "long, and none is longer: they were probably cut at a limit. Raise that limit.",
            )
            return


_UNKNOWN = re.compile(r"<unk>|⁇")


def find_copies(hypothesis: Side, reference: Side, source: Side | None) -> Iterator[Remark]:
    """Yields remarks on lines that equal the other side's or their source."""
    with_text = [
        (ours, theirs)
        for ours, theirs in zip(hypothesis.lines, reference.lines, strict=True)
        if ours
    ]
    same = sum(ours == theirs for ours, theirs in with_text)
    if len(with_text) >= 10 and same >= 0.95 * len(with_text):
        yield Remark(
            "copied-reference",
            f"{of_all(same, len(with_text))} hypotheses equal their reference. Unless the task is "
            "that easy, the references were scored instead of a system's output: check both files.",
        )
    if source is None:
        return
    copied, in_references = (
        sum(
            bool(line) and line == other
            for line, other in zip(side.lines, source.lines, strict=True)
        )
        for side in (hypothesis, reference)
    )
    num_lines = len(source.lines)
    if copied - in_references >= max(3, 0.1 * num_lines):
        yield Remark(
            "copied-source",
            f"{hypothesis.describe(copied)} equal their source sentence, but only "
            f"{in_references:,} references. The system copies instead of translating, or the "
            "sources were scored: check the file, and the training data for untranslated pairs.",
        )
    if in_references >= max(3, 0.5 * num_lines):
        yield Remark(
            "copied-source",
            f"{reference.describe(in_references)} equal their source sentence: give the "
            "translation, not the source, as the reference.",
        )


def find_shift(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark on the longest stretch of lines that fit a neighbouring line far better."""
    num_lines = len(hypothesis.lines)
    if num_lines < 12:
        return
    ours, theirs = hypothesis.sets, reference.sets
    unmoved = np.array([_overlap(*pair) for pair in zip(ours, theirs, strict=True)])
    for step, word in ((1, "next"), (-1, "previous")):
        moved = np.zeros(num_lines)
        inner = range(max(0, -step), num_lines - max(0, step))
        moved[inner.start : inner.stop] = [_overlap(ours[i], theirs[i + step]) for i in inner]
        # The stretch of the largest sum of gains: where the running sum rises most.
        sums = np.concatenate([[0.0], np.cumsum(moved - unmoved)])
        rises = sums - np.minimum.accumulate(sums)
        end = int(rises.argmax())
        start = int(sums[: end + 1].argmin())
        if end - start < 10:
            continue
        at_home, away = unmoved[start:end].mean(), moved[start:end].mean()
        if away > at_home + 0.1 and away > 2 * at_home:
            yield Remark(
                "shifted",
                f"Hypotheses {start + 1:,} to {end:,} share {away:.0%} of their words with the "
                f"{word} line's reference, but {at_home:.0%} with their own: a line is missing or "
                f"extra on one side, near line {start + 1:,}. Align the lines again.",
            )


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / ((len(one) + len(other)) or 1)


def find_exchange(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark where the references hold marks that machines alone leave."""
    if hypothesis.count(_UNKNOWN) or hypothesis.count(PIECE):
        return
    found = reference.count(_UNKNOWN) + reference.count(PIECE)
    if found:
        yield Remark(
            "exchanged",
            f"{reference.describe(found)}, but no hypotheses, contain what "
            "only machines write, such as '<unk>' or '@@': hypotheses and references may be "
            "swapped. Check the order of the files.",
        )


def find_empty(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark on each side that is empty where the other has text."""
    for side, other in ((hypothesis, reference), (reference, hypothesis)):
        empty = [
            number
            for number, pair in enumerate(zip(side.lines, other.lines, strict=True), start=1)
            if not pair[0] and pair[1]
        ]
        if empty:
            yield Remark(
                "empty",
                f"{side.describe(len(empty))} are empty where the {other.name} have text, the "
                f"first in line {empty[0]:,}. Find out where the text was lost.",
            )
