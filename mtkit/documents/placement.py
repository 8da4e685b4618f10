"""Where a translation's tags go: at the words that the source's words with them stand for.

Each element gets one run of target atoms, so that each tag of the source is in the translation
exactly once. The run is the one with the greatest sum of what its atoms say for it: an atom that
is linked to the element's words counts for it, one that is linked to other words alone counts
against it, and an atom without a link hardly against it. So the run ends at linked words, takes
unlinked ones in its middle along, and leaves out a word that a wrong link has far away. Elements
are placed from the outermost in, each inside the one that holds it and beside its neighbours.

Signs at the edges of an element are as its words have them in the source: a full stop or comma
behind the run is taken in if the element ends with one, and left out if one stands behind the
element. Aligners link signs badly, and often not at all.

A tag without text goes to the gap that the fewest links cross: from what stands before it to what
comes behind, or the reverse.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mtkit.documents.atoms import AtomLinks, SignKind
from mtkit.documents.crossings import Crossings, SignEdges
from mtkit.documents.document import Span

_AGAINST = -1.0
"""Of an atom that is linked to words outside of an element alone."""
_UNLINKED = -0.01
"""Of an atom without a link: it bridges, but begins and ends nothing."""


_AtomKind = Literal["word", "sign", "linked"]
"""What an atom is to an element without links: a word or sign without any, or a linked atom."""


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
        replaces: Whether the atoms that it takes are left out: then it takes none that stand for
            anything else.
        target: Where it is placed: index of its first target atom, and behind its last.
    """

    first: int
    last: int
    children: list["Mark"] = field(default_factory=list)
    follows: bool = False
    fixed: Span | None = None
    replaces: bool = False
    target: Span = (0, 0)


@dataclass
class _Siblings:
    """Marks side by side, in the order of the source, as gaps are found for them.

    Attributes:
        marks: Those that are left.
        region: Where they are placed.
        elements: Where those with text are.
        gaps: Gaps found so far, by what says which is the best.
    """

    marks: Iterator[Mark]
    region: Span
    elements: list[Span]
    gaps: dict[tuple[int, bool], int] = field(default_factory=dict)


class Placer:
    """Places the marks of one unit.

    Time grows with the number of marks and links, times the logarithm of the number of atoms; and
    with the depth of elements that hold others with fewer words.

    Args:
        num_source: Source atoms.
        num_target: Target atoms.
        links: Which stand for each other.
        signs: What kind of sign each atom of the source and of the target is; without them links
            alone say where signs belong.
    """

    def __init__(
        self,
        num_source: int,
        num_target: int,
        links: AtomLinks,
        signs: tuple[Sequence[SignKind], Sequence[SignKind]] | None = None,
    ) -> None:
        self._num_source, self._num_target = num_source, num_target
        of_source, self._target_signs = signs or ([""] * num_source, [""] * num_target)
        self._edges = SignEdges(of_source, self._target_signs)
        self._of_source: list[list[int]] = [[] for _ in range(num_source)]
        self._num_links = [0] * num_target
        for source, target in links:
            self._of_source[source].append(target)
            self._num_links[target] += 1

    def place(self, marks: Sequence[Mark]) -> None:
        """Sets each mark's `target`, and those of marks inside it."""
        pending: list[tuple[Sequence[Mark], Span, Mark | None]] = [
            (marks, (0, self._num_target), None)
        ]
        needs_gaps = False
        while pending:
            siblings, region, parent = pending.pop()
            elements = [each for each in siblings if _has_text(each)]
            self._place_elements(elements, region, parent)
            needs_gaps = needs_gaps or len(elements) < len(siblings)
            for mark in elements:
                if _is_empty(mark.target):
                    needs_gaps = True
                elif mark.children:
                    pending.append((mark.children, mark.target, mark))
        if needs_gaps:
            self._place_in_gaps(marks)

    def _place_elements(self, elements: Sequence[Mark], region: Span, parent: Mark | None) -> None:
        """Places elements side by side, those with the most evidence first.

        One that no atom is left for gets none here.
        """
        if len(elements) == 1 and parent is not None and _repeats(elements[0], parent):
            # Its words' best run is in their best run, which is all of it.
            elements[0].target = region
            return
        found: dict[Span, list[tuple[int, float]]] = {}
        for mark in elements:
            words = (mark.first, mark.last)
            if words not in found:
                found[words] = self._find_evidence(words, region)
        # Rounded: as much is as much, in whatever order it is added up.
        evidence = {
            words: round(sum(weight for _, weight in of_one), 9) for words, of_one in found.items()
        }
        free = _FreeAtoms(region, self._num_links, self._target_signs)
        for mark in sorted(
            elements, key=lambda each: (each.fixed is None, -evidence[each.first, each.last])
        ):
            if mark.fixed is not None and free.holds(mark.fixed):
                mark.target = mark.fixed
            else:
                run = self._choose_run(mark, found[mark.first, mark.last], free)
                if not _is_empty(run):
                    run = self._edges.settle((mark.first, mark.last), run, free.is_free)
                mark.target = run
            free.take(mark.target)

    def _find_evidence(self, words: Span, region: Span) -> list[tuple[int, float]]:
        """Returns the atoms of a region that speak for an element, and how much each does."""
        inside: dict[int, int] = {}
        for targets in self._of_source[words[0] : words[1]]:
            for target in targets:
                if region[0] <= target < region[1]:
                    inside[target] = inside.get(target, 0) + 1
        return [(target, inside[target] / self._num_links[target]) for target in sorted(inside)]

    def _choose_run(
        self, mark: Mark, evidence: Sequence[tuple[int, float]], free: "_FreeAtoms"
    ) -> Span:
        best, run = 0.0, None
        total, first, done = 0.0, 0, 0
        for target, weight in evidence:
            if not free[target]:
                continue
            # Soon at 0 or less: so atoms far from those that speak for the element aren't visited.
            while total > 0.0 and done < target:
                total += _AGAINST if self._num_links[done] else _UNLINKED
                total = total if free[done] else 0.0
                done += 1
            if total <= 0.0:
                total, first = 0.0, target
            total += weight
            done = target + 1
            if total > best:
                best, run = total, (first, done)
        if run is not None:
            return run
        # As an element without links: by its share of the words.
        middle = (mark.first + mark.last) / 2 / max(1, self._num_source) * self._num_target
        nearest = free.find_nearest(middle - 0.5, self._list_kinds(mark))
        return (0, 0) if nearest is None else (nearest, nearest + 1)

    def _list_kinds(self, mark: Mark) -> Sequence[_AtomKind]:
        """Returns which atoms an element without links may get, the best kind first."""
        if mark.replaces:
            return ("word",)
        if self._edges.is_of_signs((mark.first, mark.last)):
            return ("sign", "word", "linked")
        return ("word", "sign", "linked")

    def _place_in_gaps(self, marks: Sequence[Mark]) -> None:
        """Places tags without text, and elements that no atom is left for."""
        crossings = Crossings(self._num_target, self._of_source)
        # In the order of the source, so that the counts change little from one to the next.
        stack = [_enter(marks, (0, self._num_target), crossings)]
        while stack:
            siblings = stack[-1]
            mark = next(siblings.marks, None)
            if mark is None:
                stack.pop()
                for run in siblings.elements:
                    crossings.open(run)
                if stack:
                    crossings.close(siblings.region)
            elif _has_text(mark) and not _is_empty(mark.target):
                if mark.children:
                    crossings.open(mark.target)
                    stack.append(_enter(mark.children, mark.target, crossings))
            else:
                gap = self._find_gap(mark, siblings, crossings)
                _place_all(mark, (gap, gap))

    def _find_gap(self, mark: Mark, siblings: _Siblings, crossings: Crossings) -> int:
        """Returns the gap of a region, not inside an element, that the fewest links cross."""
        key = (mark.first, mark.follows)
        gap = siblings.gaps.get(key)
        if gap is None:
            share = mark.first / max(1, self._num_source) * self._num_target
            # Where the atom that a tag belongs to stands at the gap in translation, too.
            if mark.follows:
                beside = [target + 1 for target in self._linked_to(mark.first - 1)]
            else:
                beside = self._linked_to(mark.first)
            gap = crossings.find_gap(mark.first, siblings.region, beside, share)
            siblings.gaps[key] = gap
        return gap

    def _linked_to(self, source: int) -> list[int]:
        return self._of_source[source] if 0 <= source < self._num_source else []


class _FreeAtoms:
    """The atoms of a region that no element has been given.

    Args:
        region: The region.
        num_links: Links of each target atom.
        signs: What kind of sign each is.
    """

    def __init__(self, region: Span, num_links: Sequence[int], signs: Sequence[SignKind]) -> None:
        self._start, self._end = region
        self._num_links, self._signs = num_links, signs
        self._taken: list[Span] = []
        self._is_free = bytearray(b"\1") * (self._end - self._start)
        self._nearest: dict[_AtomKind, _NearestAtom] = {}

    def __getitem__(self, index: int) -> int:
        return self._is_free[index - self._start]

    def is_free(self, index: int) -> bool:
        """Returns whether an atom is in the region, and free."""
        return self._start <= index < self._end and self._is_free[index - self._start] == 1

    def holds(self, run: Span) -> bool:
        """Returns whether all atoms of a run are free."""
        first, last = run[0] - self._start, run[1] - self._start
        return 0 <= first <= last <= len(self._is_free) and 0 not in self._is_free[first:last]

    def take(self, run: Span) -> None:
        """Notes that a run has been given away."""
        first, last = run[0] - self._start, run[1] - self._start
        self._is_free[first:last] = bytes(last - first)
        for nearest in self._nearest.values():
            for index in range(first, last):
                nearest.drop(index)

    def find_nearest(self, position: float, kinds: Sequence[_AtomKind]) -> int | None:
        """Returns the free atom nearest to a position, of the first kind that there is one of."""
        for kind in kinds:
            if kind not in self._nearest:
                self._nearest[kind] = _NearestAtom(
                    [
                        self._is_free[index - self._start] == 1 and self._find_kind(index) == kind
                        for index in range(self._start, self._end)
                    ]
                )
            found = self._nearest[kind].find(position - self._start)
            if found is not None:
                return found + self._start
        return None

    def _find_kind(self, index: int) -> _AtomKind:
        if self._num_links[index]:
            return "linked"
        return "sign" if self._signs[index] else "word"


class _NearestAtom:
    """Atoms of which the nearest to a position is found, and that may be dropped one by one.

    Each atom that isn't there points to one further on, and one further back, that may be.

    Args:
        is_there: Of each atom whether it is there.
    """

    def __init__(self, is_there: Sequence[bool]) -> None:
        self._size = len(is_there)
        # The first and last are beyond the ends.
        self._on = list(range(self._size + 2))
        self._back = list(self._on)
        for index, there in enumerate(is_there):
            if not there:
                self.drop(index)

    def drop(self, index: int) -> None:
        """Drops an atom."""
        self._on[index + 1] = index + 2
        self._back[index + 1] = index

    def find(self, position: float) -> int | None:
        """Returns the atom nearest to a position, of two the first; None if there is none."""
        place = min(max(math.floor(position), -1), self._size - 1)
        before = _follow(self._back, place + 1) - 1
        behind = _follow(self._on, place + 2) - 1
        found = [index for index in (before, behind) if 0 <= index < self._size]
        return min(found, key=lambda index: abs(index - position), default=None)


def _follow(pointers: list[int], index: int) -> int:
    """Returns the end of a path, and makes it shorter for the next time."""
    end = index
    while pointers[end] != end:
        end = pointers[end]
    while pointers[index] != end:
        pointers[index], index = end, pointers[index]
    return end


def _enter(marks: Sequence[Mark], region: Span, crossings: Crossings) -> _Siblings:
    """Returns marks for which gaps are to be found, none of them inside an element."""
    elements = [mark.target for mark in marks if _has_text(mark) and not _is_empty(mark.target)]
    for run in elements:
        crossings.close(run)
    return _Siblings(iter(marks), region, elements)


def _place_all(mark: Mark, target: Span) -> None:
    """Places a mark and what it holds."""
    pending = [mark]
    while pending:
        mark = pending.pop()
        mark.target = target
        if _has_text(mark):
            pending += mark.children


def _has_text(mark: Mark) -> bool:
    return mark.first < mark.last


def _is_empty(run: Span) -> bool:
    return run[0] == run[1]


def _repeats(mark: Mark, parent: Mark) -> bool:
    """Returns whether an element holds its parent's words, and neither is fixed."""
    return (
        mark.fixed is None
        and parent.fixed is None
        and (mark.first, mark.last) == (parent.first, parent.last)
    )
