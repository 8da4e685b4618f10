"""Counts the links that cross each gap of a translation, and finds the gap with the fewest."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from mtkit.documents.atoms import PunctuationKind
from mtkit.documents.document import Span

_BEFORE: frozenset[PunctuationKind] = frozenset(("open", "quote"))
"""Signs that may belong to the next word."""
_AFTER: frozenset[PunctuationKind] = frozenset(("end", "pause", "quote", "close"))
"""Signs that may belong to the previous word."""

Predicate = Callable[[int], bool]


class SignEdges:
    """Moves the edges of runs across signs, so that the signs are where the source has them."""

    def __init__(
        self, source: Sequence[PunctuationKind], target: Sequence[PunctuationKind]
    ) -> None:
        self._source, self._target = source, target
        self._has_signs = any(source) and any(target)

    def is_of_signs(self, words: Span) -> bool:
        """Checks that an element has only signs."""
        return not _has_word(self._source, words)

    def settle(self, words: Span, run: Span, is_free: Predicate) -> Span:
        """Returns a run with the signs at its edges that belong to it.

        A sign next to the run is included if the element has one of its kind at that edge and the
        run lacks it. A sign at the run's edge is excluded if the element has none there, and the
        text next to the element has one of its kind. Elements and runs of signs only are unchanged.
        `words` are the element's source atoms.
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
            _read(self._source, range(last - 1, first - 1, -1), _AFTER),
            _read(self._source, range(last, num_source), _AFTER),
            _read(self._target, range(end - 1, start - 1, -1), _AFTER),
            _read(self._target, takewhile(is_free, range(end, num_target)), _AFTER),
        )
        return start - before, end + behind


def _has_word(kinds: Sequence[PunctuationKind], atoms: Span) -> bool:
    return any(not kinds[index] for index in range(*atoms))


def _read(
    kinds: Sequence[PunctuationKind], indices: Iterable[int], belonging: frozenset[PunctuationKind]
) -> list[PunctuationKind]:
    """Returns the signs that come first at these indices."""
    return list(takewhile(belonging.__contains__, (kinds[index] for index in indices)))


def _count_moved(
    inside: list[PunctuationKind],
    beside: list[PunctuationKind],
    held: list[PunctuationKind],
    following: list[PunctuationKind],
) -> int:
    """Returns how many signs an edge moves outwards; negative for inwards."""
    # `inside` and `held` are the signs at the edge of the element and of the run, from the edge in.
    # `beside` and `following` are the signs outside of them, from the edge out.
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

    A link crosses if it leads from before the source gap to after the target gap, or the reverse. A
    tree holds the differences between neighbouring counts, so that moving a link, and finding the
    minimum of a region, take logarithmic time. All counts may be wrong by the same number, which
    changes no comparison. `of_source` are the target atoms linked to each source atom.
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
        # For each node, the minimum sum of differences from its first gap to any of its gaps.
        self._lowest = list(self._sums)
        for node in range(self._num_leaves - 1, 0, -1):
            self._join(node)
        self._beyond_all = 2 * num_links + 1

    def close(self, run: Span) -> None:
        """Excludes the gaps inside a run of target atoms from the search."""
        self._raise_inside(run, self._beyond_all)

    def open(self, run: Span) -> None:
        """Includes the gaps inside a closed run again."""
        self._raise_inside(run, -self._beyond_all)

    def find_gap(self, source_gap: int, region: Span, beside: Iterable[int], share: float) -> int:
        """Returns the open gap of a region with the fewest crossing links.

        `source_gap` is the source atom after the gap. Among equals, gaps in `beside` come first,
        then the nearest to the position `share`.
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
        """Moves to a source gap: links of the atoms in between change sides."""
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
        """Changes the counts of a gap and of all after it."""
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
        """Returns the nodes that hold exactly the gaps from `first` to `last`, in order."""
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
        """Returns the count of a gap relative to that of the gap before `start`."""
        return sum(self._sums[node] for node in self._cover(start, gap))

    def _descend(self, node: int, count: int, *, is_last: bool) -> int:
        """Returns the last or first gap of a node with a count relative to its beginning."""
        while node < self._num_leaves:
            left, right = 2 * node, 2 * node + 1
            behind = count - self._sums[left]
            goes_right = self._lowest[right] == behind if is_last else self._lowest[left] != count
            node, count = (right, behind) if goes_right else (left, count)
        return node - self._num_leaves
