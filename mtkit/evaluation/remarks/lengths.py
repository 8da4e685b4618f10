"""Checks that no text is missing, at a line's end or in all."""

import re
from collections import Counter
from collections.abc import Iterator

from mtkit.evaluation.remarks.remark import Remark, of_all
from mtkit.evaluation.remarks.side import Side

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
