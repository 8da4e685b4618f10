"""Where a translation's tags go: at the words that the source's words with them stand for.

Each element gets one run of target atoms, so that each tag of the source is in the translation
exactly once. The run is the one with the greatest sum of what its atoms say for it: an atom that
is linked to the element's words counts for it, one that is linked to other words alone counts
against it, and an atom without a link hardly against it. So the run ends at linked words, takes
unlinked ones in its middle along, and leaves out a word that a wrong link has far away. Elements
are placed from the outermost in, each inside the one that holds it and beside its neighbours.

A tag without text goes to the gap that the fewest links cross: from what stands before it to what
comes behind, or the reverse.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mtkit.documents.atoms import AtomLinks
from mtkit.documents.document import Span

_AGAINST = -1.0
"""Of an atom that is linked to words outside of an element alone."""
_UNLINKED = -0.01
"""Of an atom without a link: it bridges, but begins and ends nothing."""


@dataclass
class Mark:
    """An element or a tag without text, by the source atoms that it holds.

    Attributes:
        first: Index of its first source atom; of a tag without text, of the one behind it.
        last: Index behind its last source atom; equal to `first` for a tag without text.
        children: Marks inside it.
        follows: Of a tag without text: whether it belongs to the atom before it rather than to the
            one behind.
        fixed: Target atoms that are its own, already found; they are what it takes if they can be.
        target: Where it is placed: index of its first target atom, and behind its last.
    """

    first: int
    last: int
    children: list["Mark"] = field(default_factory=list)
    follows: bool = False
    fixed: Span | None = None
    target: Span = (0, 0)


class Placer:
    """Places the marks of one unit.

    Args:
        num_source: Source atoms.
        num_target: Target atoms.
        links: Which stand for each other.
    """

    def __init__(self, num_source: int, num_target: int, links: AtomLinks) -> None:
        self._num_source, self._num_target = num_source, num_target
        self._links = links
        self._of_target: list[list[int]] = [[] for _ in range(num_target)]
        for source, target in links:
            self._of_target[target].append(source)

    def place(self, marks: Sequence[Mark]) -> None:
        """Sets each mark's `target`, and those of marks inside it."""
        pending = [(list(marks), (0, self._num_target))]
        while pending:
            siblings, region = pending.pop()
            taken = self._place_elements(
                [each for each in siblings if each.first < each.last], region
            )
            for mark in siblings:
                if mark.first == mark.last:
                    gap = self._find_gap(mark, region, taken)
                    mark.target = (gap, gap)
                elif mark.children:
                    pending.append((mark.children, mark.target))

    def _place_elements(self, elements: Sequence[Mark], region: Span) -> list[Span]:
        """Places elements side by side, those with the most evidence first; returns where."""
        weighted = [(mark, self._weigh(mark, region)) for mark in elements]
        weighted.sort(key=lambda pair: (pair[0].fixed is None, -sum(max(0.0, w) for w in pair[1])))
        taken: list[Span] = []
        for mark, weights in weighted:
            if mark.fixed is not None and _is_free(mark.fixed, region, taken):
                mark.target = mark.fixed
            else:
                mark.target = self._choose_run(mark, weights, region, taken)
            if mark.target[0] < mark.target[1]:
                taken.append(mark.target)
        return taken

    def _weigh(self, mark: Mark, region: Span) -> list[float]:
        """Returns what each target atom of a region says for an element."""
        weights = []
        for target in range(*region):
            linked = self._of_target[target]
            inside = sum(mark.first <= source < mark.last for source in linked)
            if inside:
                weights.append(inside / len(linked))
            else:
                weights.append(_AGAINST if linked else _UNLINKED)
        return weights

    def _choose_run(
        self, mark: Mark, weights: Sequence[float], region: Span, taken: Sequence[Span]
    ) -> Span:
        best, run = 0.0, None
        for start, end in _free_runs(region, taken):
            total, first = 0.0, start
            for target in range(start, end):
                if total <= 0.0:
                    total, first = 0.0, target
                total += weights[target - region[0]]
                if total > best:
                    best, run = total, (first, target + 1)
        return run if run is not None else self._guess_run(mark, region, taken)

    def _guess_run(self, mark: Mark, region: Span, taken: Sequence[Span]) -> Span:
        """Returns the free atom nearest to where an element without links would be by its share.

        Where none is free, it is left without text.
        """
        middle = (mark.first + mark.last) / 2 / max(1, self._num_source) * self._num_target
        free = [
            index
            for start, end in _free_runs(region, taken)
            for index in range(start, end)
            if not self._of_target[index]
        ] or [index for run in _free_runs(region, taken) for index in range(*run)]
        if not free:
            gap = self._find_gap(mark, region, taken)
            return gap, gap
        nearest = min(free, key=lambda index: abs(index + 0.5 - middle))
        return nearest, nearest + 1

    def _find_gap(self, mark: Mark, region: Span, taken: Sequence[Span]) -> int:
        """Returns the gap of a region, not inside an element, that the fewest links cross."""
        start, end = region
        crossing = sum((source < mark.first) != (target < start) for source, target in self._links)
        share = mark.first / max(1, self._num_source) * self._num_target
        best: tuple[int, int, float] | None = None
        gap = start
        for index in range(start, end + 1):
            if index > start:
                for source in self._of_target[index - 1]:
                    crossing += 1 if source >= mark.first else -1
            if any(first < index < last for first, last in taken):
                continue
            is_beside = self._is_beside(mark, index)
            rank = (crossing, not is_beside, abs(index - share))
            if best is None or rank < best:
                best, gap = rank, index
        return gap

    def _is_beside(self, mark: Mark, gap: int) -> bool:
        """Returns whether the atom that a tag belongs to stands at a gap in translation, too."""
        if mark.follows:
            return gap > 0 and mark.first - 1 in self._of_target[gap - 1]
        return gap < self._num_target and mark.first in self._of_target[gap]


def _is_free(run: Span, region: Span, taken: Sequence[Span]) -> bool:
    return any(start <= run[0] and run[1] <= end for start, end in _free_runs(region, taken))


def _free_runs(region: Span, taken: Sequence[Span]) -> list[Span]:
    """Returns what is left of a region."""
    runs = []
    start = region[0]
    for first, last in sorted(taken):
        if start < first:
            runs.append((start, first))
        start = max(start, last)
    if start < region[1]:
        runs.append((start, region[1]))
    return runs
