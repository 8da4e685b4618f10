"""Checks that the text wasn't cut into pieces, tokenised, lowercased, or saved on Windows."""

import re
from collections.abc import Iterator

from mtkit.evaluation.remarks.side import Remark, Side

_ESCAPE = re.compile(r"&(?:quot|apos|amp|lt|gt|#91|#93|#124);| @-@ ")
PIECE = re.compile(r"\w@@(?: |$)|▁", re.MULTILINE)


def find_pieces(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark on each side that is cut into a tokenizer's pieces."""
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
    """Yields a remark where a side looks tokenised and shouldn't, or isn't and should be."""
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
    """Yields a remark where one side alone has next to no capitals."""
    lower, upper = sorted((hypothesis, reference), key=lambda side: side.share_with_capitals)
    low, high = lower.share_with_capitals, upper.share_with_capitals
    if len(hypothesis.lines) >= 10 and low < 0.02 and high > 0.5:
        yield Remark(
            "lowercased",
            f"{high:.0%} of the {upper.name} contain a capital letter, but {low:.0%} of the "
            f"{lower.name}. Restore their case, or ignore case: "
            "--set evaluation.lowercase=true.",
        )
