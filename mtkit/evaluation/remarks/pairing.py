"""Checks that each side is what its name says, and that lines match."""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from mtkit.evaluation.remarks.side import Remark, Side, of_all

_ESCAPE = re.compile(r"&(?:quot|apos|amp|lt|gt|#91|#93|#124);| @-@ ")
PIECE = re.compile(r"\w@@(?: |$)|▁", re.MULTILINE)
_LAST_MARK = re.compile(r"[.!?。！？…।؟។၊།:;](?:[\"'”“’»)\]」』 ]|&(?:quot|apos);)*$")
_CAUSE = (
    "Usually the model is barely trained; if it isn't, raise the limit on output length "
    "(inference.max_extra_tokens)."
)
_UNKNOWN = re.compile(r"<unk>|⁇")


def find_pieces(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark on each side that consists of a tokenizer's pieces."""
    for side in (hypothesis, reference):
        found = side.count(PIECE)
        if found >= max(1, 0.01 * len(side.lines)):
            yield Remark(
                "pieces",
                f"{side.describe(found)} contain subword pieces ('@@' or '▁') instead of words. "
                "Join them first: sed -r 's/(@@ )|(@@ ?$)//g' for BPE, spm_decode for "
                "SentencePiece.",
            )


def find_tokenized(hypothesis: Side, reference: Side, tokenizer: str) -> Iterator[Remark]:
    """Yields a remark if a side looks tokenised and shouldn't be, or the reverse."""
    sides = {"hypotheses": hypothesis.is_tokenized, "references": reference.is_tokenized}
    if set(sides.values()) == {True, False}:
        one, other = sorted(sides, key=lambda name: not sides[name])
        yield Remark(
            "one-side-tokenized",
            f"The {one} look tokenised, with spaces before commas and full stops, but the {other} "
            f"don't. Detokenise the {one}, or use the original ones.",
        )
    elif set(sides.values()) == {True} and tokenizer != "none":
        yield Remark(
            "tokenized",
            "Hypotheses and references look tokenised, with spaces before commas and full stops, "
            f"and '{tokenizer}' would tokenise them again. Score plain text, or use "
            "--set evaluation.tokenize=none.",
        )
    elif set(sides.values()) == {False} and tokenizer == "none":
        yield Remark(
            "plain",
            "Hypotheses and references look like plain text, with commas and full stops attached "
            "to words, but evaluation.tokenize is 'none'. Score with "
            "--set evaluation.tokenize=auto.",
        )
    escaped = {side: side.count(_ESCAPE) for side in (hypothesis, reference)}
    difference = abs(escaped[hypothesis] - escaped[reference])
    if True not in sides.values() and difference >= 0.01 * len(hypothesis.lines):
        side = max(escaped, key=escaped.__getitem__)
        yield Remark(
            "escaped",
            f"{side.describe(escaped[side])} contain a tokeniser's marks, such as "
            "'&quot;' or '@-@', but the other side doesn't. Detokenise them fully.",
        )


def find_bytes(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark on each side with a byte order mark or carriage returns."""
    for side in (hypothesis, reference):
        if side.raw[0].startswith("\ufeff"):
            yield Remark(
                "byte-order-mark",
                f"The {side.name} begin with a byte order mark, which counts as part of the first "
                "word. Remove it: sed -i '1s/^\\xEF\\xBB\\xBF//'.",
            )
        returns = sum(line.endswith("\r") for line in side.raw)
        if returns > 0.5 * len(side.raw):
            yield Remark(
                "carriage-return",
                f"{side.describe(returns)} end in a carriage return, as files from "
                "Windows do; this doesn't change scores. Remove them: sed -i 's/\\r$//'.",
            )


def find_lowercased(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark if only one side has almost no capitals."""
    lower, upper = sorted((hypothesis, reference), key=lambda side: side.share_with_capitals)
    low, high = lower.share_with_capitals, upper.share_with_capitals
    if len(hypothesis.lines) >= 10 and low < 0.02 and high > 0.5:
        yield Remark(
            "lowercased",
            f"{high:.0%} of the {upper.name} contain a capital letter, but {low:.0%} of the "
            f"{lower.name}. Restore their case, or ignore case: "
            "--set evaluation.lowercase=true.",
        )


def find_cuts(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields remarks on text that is truncated, missing, or far too long."""
    num_lines = len(hypothesis.lines)
    ratio = len(hypothesis.text) / max(1, len(reference.text))
    if num_lines >= 10 and not 0.7 < ratio < 1.5:
        meaning = (
            f"translations are cut off or incomplete. {_CAUSE}"
            if ratio < 1
            else "translations may repeat themselves. Look at the longest lines."
        )
        yield Remark(
            "length",
            f"The hypotheses have {ratio:.0%} of the references' characters: {meaning}",
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
            f"where the reference has one: they may be cut off. {_CAUSE}",
        )
    for unit, lengths in (
        ("characters", Counter(map(len, hypothesis.lines))),
        ("words", Counter(len(line.split()) for line in hypothesis.lines)),
    ):
        longest = max(lengths)
        # Fewer lines have lengths near the maximum, unless something cuts there.
        before = lengths[longest - 1] + lengths[longest - 2] + lengths[longest - 3]
        if longest > 10 and lengths[longest] >= max(5, 0.01 * num_lines, 2 * before):
            yield Remark(
                "cut",
                f"{hypothesis.describe(lengths[longest])} are exactly {longest:,} {unit} "
                "long, and none is longer: they were probably cut at a limit. Raise that limit.",
            )
            return


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
    """Yields a remark on the longest range of lines that fit a neighbouring line far better."""
    num_lines = len(hypothesis.lines)
    if num_lines < 12:
        return
    ours, theirs = hypothesis.sets, reference.sets
    unmoved = np.array([_overlap(*pair) for pair in zip(ours, theirs, strict=True)])
    for step, word in ((1, "next"), (-1, "previous")):
        moved = np.zeros(num_lines)
        inner = range(max(0, -step), num_lines - max(0, step))
        moved[inner.start : inner.stop] = [_overlap(ours[i], theirs[i + step]) for i in inner]
        # The range with the largest sum of gains: where the running sum rises most.
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


def find_swap(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark if the references contain marks that only machines leave."""
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
