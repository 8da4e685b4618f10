"""How many links cross each gap of a translation, and which gap of a region the fewest cross."""

import itertools
import math
from collections.abc import Iterable, Sequence

from mtkit.documents.document import Span


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
