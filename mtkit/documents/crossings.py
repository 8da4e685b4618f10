"""How many links cross each gap of a translation, and which gap of a region the fewest cross."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from mtkit.documents.atoms import SignKind
from mtkit.documents.document import Span

_BEFORE: frozenset[SignKind] = frozenset(("open", "quote"))
"""Signs that may belong to the word behind them."""
_BEHIND: frozenset[SignKind] = frozenset(("end", "pause", "quote", "close"))
"""Signs that may belong to the word before them."""

Tells = Callable[[int], bool]


class SignEdges:
    """Moves the edges of runs across signs, so that these are where the source has them.

    Args:
        source: What kind of sign each source atom is.
        target: The same of the target's.
    """

    def __init__(self, source: Sequence[SignKind], target: Sequence[SignKind]) -> None:
        self._source, self._target = source, target
        self._has_signs = any(source) and any(target)

    def is_of_signs(self, words: Span) -> bool:
        """Returns whether an element has signs alone."""
        return not _has_word(self._source, words)

    def settle(self, words: Span, run: Span, is_free: Tells) -> Span:
        """Returns a run with the signs at its edges that belong to it.

        A sign beside the run is taken in where the element has one of its kind at that edge and the
        run lacks it. One at the run's edge is left out where the element has none there, and the
        text beside the element has one of its kind. Elements and runs of signs alone stay.

        Args:
            words: The element's source atoms.
            run: The target atoms that it has so far.
            is_free: Tells of a target atom whether the run may take it.
        """
        start, end = run
        beside = (max(0, start - 1), start, end - 1, min(end, len(self._target) - 1))
        if not any(self._target[index] for index in beside):
            return run
        if not (
            self._has_signs and _has_word(self._source, words) and _has_word(self._target, run)
        ):
            return run
        (first, last), (start, end) = words, run
        num_source, num_target = len(self._source), len(self._target)
        before = _count_moved(
            _read(self._source, range(first, last), _BEFORE),
            _read(self._source, range(first - 1, -1, -1), _BEFORE),
            _read(self._target, range(start, end), _BEFORE),
            _read(self._target, takewhile(is_free, range(start - 1, -1, -1)), _BEFORE),
        )
        behind = _count_moved(
            _read(self._source, range(last - 1, first - 1, -1), _BEHIND),
            _read(self._source, range(last, num_source), _BEHIND),
            _read(self._target, range(end - 1, start - 1, -1), _BEHIND),
            _read(self._target, takewhile(is_free, range(end, num_target)), _BEHIND),
        )
        return start - before, end + behind


def _has_word(kinds: Sequence[SignKind], atoms: Span) -> bool:
    return any(not kinds[index] for index in range(*atoms))


def _read(
    kinds: Sequence[SignKind], indices: Iterable[int], belonging: frozenset[SignKind]
) -> list[SignKind]:
    """Returns the signs that come first at these indices."""
    return list(takewhile(belonging.__contains__, (kinds[index] for index in indices)))


def _count_moved(
    inside: list[SignKind], beside: list[SignKind], held: list[SignKind], following: list[SignKind]
) -> int:
    """Returns how many signs an edge moves out across; below 0, how many it moves in across.

    Args:
        inside: Signs at the edge of the element, from the edge in.
        beside: Signs outside of it, from the edge out.
        held: Signs at the edge of the run, from the edge in.
        following: Free signs outside of it, from the edge out.
    """
    wanted, has = inside[::-1], held[::-1]
    if has == wanted[: len(has)]:
        lacking = zip(wanted[len(has) :], following, strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], lacking)))
    num_left = 0
    while len(held) - num_left > len(inside) and held[num_left] in beside:
        num_left += 1
    return -num_left


class Crossings:
    """Counts of links that cross each gap between target atoms, for one source gap at a time.

    A link crosses if it leads from an atom before the source gap to one behind the target gap, or
    the reverse. A tree holds the differences between neighbouring gaps' counts, so that a link that
    changes sides, and the lowest count of a region, cost the logarithm of the number of gaps. The
    counts of all gaps may be wrong by the same number, which changes no comparison.

    Args:
        num_target: Target atoms; there is a gap before and behind each.
        of_source: Target atoms that each source atom is linked to.
    """

    def __init__(self, num_target: int, of_source: Sequence[Sequence[int]]) -> None:
        self._of_source = of_source
        self._source_gap = 0
        self._num_leaves = 1 << num_target.bit_length()
        self._sums = [0] * (2 * self._num_leaves)
        num_links = 0
        for targets in of_source:
            num_links += len(targets)
            for target in targets:
                self._sums[self._num_leaves + target + 1] += 1
        # Of each node the lowest sum of differences from its first gap to any of its gaps.
        self._lowest = list(self._sums)
        for node in range(self._num_leaves - 1, 0, -1):
            self._join(node)
        self._beyond_all = 2 * num_links + 1

    def close(self, run: Span) -> None:
        """Takes the gaps inside a run of target atoms out of the search."""
        self._raise_inside(run, self._beyond_all)

    def open(self, run: Span) -> None:
        """Lets the gaps inside a run that was closed be found again."""
        self._raise_inside(run, -self._beyond_all)

    def find_gap(self, source_gap: int, region: Span, beside: Iterable[int], share: float) -> int:
        """Returns the open gap of a region that the fewest links cross.

        Args:
            source_gap: Index of the source atom behind the gap that links are counted for.
            region: Target atoms; its gaps are those between them and at both ends.
            beside: Gaps that come first among those that equally few links cross.
            share: Position that it should else be nearest to.
        """
        self._move(source_gap)
        start, end = region
        middle = min(max(math.floor(share), start - 1), end)
        left, right = self._cover(start, middle), self._cover(middle + 1, end)
        nodes = left + right
        before = list(itertools.accumulate((self._sums[node] for node in nodes), initial=0))
        lows = [before[index] + self._lowest[node] for index, node in enumerate(nodes)]
        lowest = min(lows)
        found = [gap for gap in beside if start <= gap <= end and self._count(start, gap) == lowest]
        if not found:
            held = [index for index, low in enumerate(lows) if low == lowest]
            nearest = [index for index in held if index < len(left)][-1:]
            nearest += [index for index in held if index >= len(left)][:1]
            found = [
                self._descend(nodes[index], lowest - before[index], is_last=index < len(left))
                for index in nearest
            ]
        return min(found, key=lambda gap: (abs(gap - share), gap))

    def _move(self, source_gap: int) -> None:
        """Goes to a gap of the source: links of the atoms between change sides."""
        while self._source_gap < source_gap:
            for target in self._of_source[self._source_gap]:
                self._add(target + 1, -2)
            self._source_gap += 1
        while self._source_gap > source_gap:
            self._source_gap -= 1
            for target in self._of_source[self._source_gap]:
                self._add(target + 1, 2)

    def _raise_inside(self, run: Span, by: int) -> None:
        first, last = run
        if last - first > 1:
            self._add(first + 1, by)
            self._add(last, -by)

    def _add(self, gap: int, by: int) -> None:
        """Changes the counts of a gap and of all behind it."""
        node = gap + self._num_leaves
        self._sums[node] += by
        self._lowest[node] += by
        node >>= 1
        while node:
            self._join(node)
            node >>= 1

    def _join(self, node: int) -> None:
        left, right = 2 * node, 2 * node + 1
        self._sums[node] = self._sums[left] + self._sums[right]
        self._lowest[node] = min(self._lowest[left], self._sums[left] + self._lowest[right])

    def _cover(self, first: int, last: int) -> list[int]:
        """Returns the nodes that hold the gaps from one to another, and no others, in order."""
        left, right = [], []
        low, high = first + self._num_leaves, last + self._num_leaves + 1
        while low < high:
            if low & 1:
                left.append(low)
                low += 1
            if high & 1:
                high -= 1
                right.append(high)
            low >>= 1
            high >>= 1
        return left + right[::-1]

    def _count(self, start: int, gap: int) -> int:
        """Returns the count of a gap beside that of the gap before `start`."""
        return sum(self._sums[node] for node in self._cover(start, gap))

    def _descend(self, node: int, count: int, *, is_last: bool) -> int:
        """Returns the last gap, or the first, of a node that has a count beside its beginning."""
        while node < self._num_leaves:
            left, right = 2 * node, 2 * node + 1
            behind = count - self._sums[left]
            goes_right = self._lowest[right] == behind if is_last else self._lowest[left] != count
            node, count = (right, behind) if goes_right else (left, count)
        return node - self._num_leaves
