"""Where the line breaks of a source, and its other wide space, go in a translation."""

import bisect
from collections.abc import Collection, Sequence

from mtkit.documents.atoms import UNSPACED, find_sign_kinds
from mtkit.documents.document import Span

_SELDOM_FIRST = ("end", "pause", "close", "quote")
"""Signs that no line begins with, unless there is space before them."""
_SELDOM_LAST = ("open", "quote")
"""Signs that no line ends with, unless there is space behind them."""


def spread_breaks(
    breaks: Sequence[tuple[float, str]],
    target: str,
    atoms: Sequence[Span],
    taken: Collection[int],
    *,
    without_space: bool,
) -> dict[int, str]:
    """Returns which gaps of a translation get which breaks; a gap has the index of the atom behind.

    Each goes to the gap that is nearest to it by the share of the text before it, in the order of
    the source. Those that no gap is left for are left out.

    Args:
        breaks: Those of the source, in order: the share of the text before, and how it is written.
        target: The translation.
        atoms: Where its words and signs are.
        taken: Gaps where no break goes.
        without_space: Whether lines may also break between the characters of scripts without
            spaces, such as Chinese; and anywhere if there is no other place.
    """
    if not breaks:
        return {}
    gaps = [gap for gap in range(1, len(atoms)) if gap not in taken]
    is_spaced = {gap: " " in target[atoms[gap - 1][1] : atoms[gap][0]] for gap in gaps}
    if not without_space:
        gaps = [gap for gap in gaps if is_spaced[gap]]
    else:
        kinds = find_sign_kinds(target, atoms)
        is_unspaced = [UNSPACED.match(target, start) is not None for start, _ in atoms]
        good = [
            gap
            for gap in gaps
            if is_spaced[gap]
            or (
                (is_unspaced[gap - 1] or is_unspaced[gap])
                and kinds[gap] not in _SELDOM_FIRST
                and kinds[gap - 1] not in _SELDOM_LAST
            )
        ]
        gaps = good if len(good) >= len(breaks) else gaps
    shares = [atoms[gap - 1][1] / atoms[-1][1] for gap in gaps]
    found: dict[int, str] = {}
    first = 0
    for share, raw in breaks:
        if first >= len(gaps):
            break
        nearest = bisect.bisect_left(shares, share, lo=first)
        if nearest == len(gaps) or (
            nearest > first and share - shares[nearest - 1] < shares[nearest] - share
        ):
            nearest -= 1
        found[gaps[nearest]] = raw
        first = nearest + 1
    return found
