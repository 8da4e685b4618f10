"""Where the line breaks of a source, and its other wide space, go in a translation."""

import bisect
from collections.abc import Collection, Sequence

from mtkit.documents.atoms import find_sign_kinds
from mtkit.documents.document import Span

_NEVER_FIRST = ("end", "pause", "close", "quote")
"""Signs that no line begins with, unless there is space before them."""
_NEVER_LAST = ("open", "quote")
"""Signs that no line ends with, unless there is space behind them."""


def spread_breaks(
    breaks: Sequence[tuple[float, str]],
    target: str,
    atoms: Sequence[Span],
    tagged: Collection[int],
    *,
    without_space: bool,
) -> dict[int, str]:
    """Returns the breaks of the target's gaps: that before an atom has the atom's index.

    Each goes to the gap that is nearest to it by the share of the text before it, in the order of
    the source. Those that no gap is left for are left out.

    Args:
        breaks: Those of the source, in order: the share of the text before, and how it is written.
        target: The translation.
        atoms: Where its words and signs are.
        tagged: Gaps that have tags; none of these is taken.
        without_space: Whether lines may also break where there is no space, as between the
            characters of Chinese; beside signs only if there is no other place.
    """
    if not breaks:
        return {}
    gaps = [gap for gap in range(1, len(atoms)) if gap not in tagged]
    is_spaced = {gap: " " in target[atoms[gap - 1][1] : atoms[gap][0]] for gap in gaps}
    if not without_space:
        gaps = [gap for gap in gaps if is_spaced[gap]]
    else:
        kinds = find_sign_kinds(target, atoms)
        good = [
            gap
            for gap in gaps
            if is_spaced[gap] or not (kinds[gap] in _NEVER_FIRST or kinds[gap - 1] in _NEVER_LAST)
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
