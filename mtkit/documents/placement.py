"""Places a translation's tags at the words that correspond to the source's tagged words.

Each element gets one run of target atoms, so that each tag of the source is in the translation
exactly once. The run has the maximum sum of evidence: an atom that is linked to the element's words
counts for it, one that is only linked to other words against it, and an unlinked one hardly against
it. So a run ends at linked words, includes unlinked ones in its middle, and excludes a distant word
with a wrong link. Elements are placed from the outermost inwards, each inside its parent and next
to its neighbours.

Signs at the edges of an element are as in the source: a full stop or comma after the run is
included if the element ends with one, and excluded if one follows the element. Aligners link signs
badly, and often not at all.

A tag without text goes to the gap with the fewest crossing links: from what is before it to what
comes after, or the reverse.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mtkit.documents.atoms import AtomLinks, PunctuationKind
from mtkit.documents.crossings import Crossings, SignEdges
from mtkit.documents.document import Span

_AGAINST = -1.0
"""Evidence of an atom that is only linked to words outside an element."""
_UNLINKED = -0.01
"""Evidence of an unlinked atom: it bridges, but begins and ends nothing."""


_AtomKind = Literal["word", "sign", "linked", "linked sign"]
"""Kinds of atoms for an element without links: an unlinked word or sign, or a linked one."""


@dataclass
class PlacedTag:
    """An element or a tag without text, with the source atoms that it holds.

    Attributes:
        first: Its first source atom; for a tag without text, the next one.
        last: The index after its last source atom; `first` for a tag without text.
        follows: A tag without text belongs to the atom before it, not to the next.
        fixed: Known target atoms, which it takes if they are free.
        replaces: Its target atoms are omitted, so it takes none that are linked elsewhere.
        target: Its target atoms, once it is placed.
    """

    first: int
    last: int
    children: list["PlacedTag"] = field(default_factory=list)
    follows: bool = False
    fixed: Span | None = None
    replaces: bool = False
    target: Span = (0, 0)


@dataclass
class _Siblings:
    """Adjacent marks in source order, while gaps are found for them."""

    # `region` holds them all; `elements` are the runs of those with text. `gaps` are cached by what
    # determines them.

    marks: Iterator[PlacedTag]
    region: Span
    elements: list[Span]
    gaps: dict[tuple[int, bool], int] = field(default_factory=dict)


class TagPlacer:
    """Places the marks of one unit.

    Time grows with the number of marks and links, times the logarithm of the number of atoms; and
    with the depth of elements that hold others with fewer words. `signs` are the kinds of sign of
    source and target atoms; without them only links decide where signs belong.
    """

    def __init__(
        self,
        num_source: int,
        num_target: int,
        links: AtomLinks,
        signs: tuple[Sequence[PunctuationKind], Sequence[PunctuationKind]] | None = None,
    ) -> None:
        self._num_source, self._num_target = num_source, num_target
        of_source, self._target_signs = signs or ([""] * num_source, [""] * num_target)
        self._edges = SignEdges(of_source, self._target_signs)
        self._of_source: list[list[int]] = [[] for _ in range(num_source)]
        self._num_links = [0] * num_target
        for source, target in links:
            self._of_source[source].append(target)
            self._num_links[target] += 1

    def place(self, marks: Sequence[PlacedTag]) -> None:
        """Sets the `target` of each mark and its descendants."""
        pending: list[tuple[Sequence[PlacedTag], Span, PlacedTag | None]] = [
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

    def _place_elements(
        self, elements: Sequence[PlacedTag], region: Span, parent: PlacedTag | None
    ) -> None:
        """Places adjacent elements, those with the most evidence first."""
        # An element without a free atom isn't placed here.
        if len(elements) == 1 and parent is not None and _repeats(elements[0], parent):
            # It has its parent's words, so its best run is the parent's.
            elements[0].target = region
            return
        found: dict[Span, list[tuple[int, float]]] = {}
        for mark in elements:
            words = (mark.first, mark.last)
            if words not in found:
                found[words] = self._find_evidence(words, region)
        # Rounded, so that sums don't depend on the order of addition.
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
        """Returns the atoms of a region with evidence for an element, and how much."""
        inside: dict[int, int] = {}
        for targets in self._of_source[words[0] : words[1]]:
            for target in targets:
                if region[0] <= target < region[1]:
                    inside[target] = inside.get(target, 0) + 1
        return [(target, inside[target] / self._num_links[target]) for target in sorted(inside)]

    def _choose_run(
        self, mark: PlacedTag, evidence: Sequence[tuple[int, float]], free: "_FreeAtoms"
    ) -> Span:
        best, run = 0.0, None
        total, first, done = 0.0, 0, 0
        for target, weight in evidence:
            if not free[target]:
                continue
            # It is soon 0 or less, so atoms far from the element's evidence aren't visited.
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
        kinds = self._list_kinds(mark)
        if run is None:
            # Like an element without links: by its relative position.
            middle = (mark.first + mark.last) / 2 / max(1, self._num_source) * self._num_target
        elif kinds[0] == "sign" or not all(self._target_signs[slice(*run)]):
            return run
        else:
            # A link or an emphasis of words is more than a comma.
            middle, kinds = sum(run) / 2, [kind for kind in kinds if "sign" not in kind]
        nearest = free.find_nearest(middle - 0.5, kinds)
        return run or (0, 0) if nearest is None else (nearest, nearest + 1)

    def _list_kinds(self, mark: PlacedTag) -> Sequence[_AtomKind]:
        """Returns the kinds of atoms that an element without links may get, the best first."""
        if mark.replaces:
            return ("word",)
        if self._edges.is_of_signs((mark.first, mark.last)):
            return ("sign", "word", "linked", "linked sign")
        return ("word", "sign", "linked", "linked sign")

    def _place_in_gaps(self, marks: Sequence[PlacedTag]) -> None:
        """Places tags without text, and elements without a free atom."""
        crossings = Crossings(self._num_target, self._of_source)
        # In source order, so that the counts change little from one to the next.
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

    def _find_gap(self, mark: PlacedTag, siblings: _Siblings, crossings: Crossings) -> int:
        """Returns the gap of a region, outside elements, with the fewest crossing links."""
        key = (mark.first, mark.follows)
        gap = siblings.gaps.get(key)
        if gap is None:
            share = mark.first / max(1, self._num_source) * self._num_target
            # Gaps next to the translation of the atom that the tag belongs to.
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
    """The free atoms of a region."""

    def __init__(
        self, region: Span, num_links: Sequence[int], signs: Sequence[PunctuationKind]
    ) -> None:
        self._start, self._end = region
        self._num_links, self._signs = num_links, signs
        self._taken: list[Span] = []
        self._is_free = bytearray(b"\1") * (self._end - self._start)
        self._nearest: dict[_AtomKind, _NearestAtom] = {}

    def __getitem__(self, index: int) -> int:
        return self._is_free[index - self._start]

    def is_free(self, index: int) -> bool:
        """Checks that an atom is in the region, and free."""
        return self._start <= index < self._end and self._is_free[index - self._start] == 1

    def holds(self, run: Span) -> bool:
        """Checks that all atoms of a run are free."""
        first, last = run[0] - self._start, run[1] - self._start
        return 0 <= first <= last <= len(self._is_free) and 0 not in self._is_free[first:last]

    def take(self, run: Span) -> None:
        """Marks a run as taken."""
        first, last = run[0] - self._start, run[1] - self._start
        self._is_free[first:last] = bytes(last - first)
        for nearest in self._nearest.values():
            for index in range(first, last):
                nearest.drop(index)

    def find_nearest(self, position: float, kinds: Sequence[_AtomKind]) -> int | None:
        """Returns the free atom nearest to a position, of the first kind that has one."""
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
            return "linked sign" if self._signs[index] else "linked"
        return "sign" if self._signs[index] else "word"


class _NearestAtom:
    """Atoms that may be dropped one by one; finds the one nearest to a position."""

    # Union-find: each dropped atom points to a later one and to an earlier one.

    def __init__(self, is_there: Sequence[bool]) -> None:
        self._size = len(is_there)
        # The first and last entries are beyond the ends.
        self._on = list(range(self._size + 2))
        self._back = list(self._on)
        for index, there in enumerate(is_there):
            if not there:
                self.drop(index)

    def drop(self, index: int) -> None:
        self._on[index + 1] = index + 2
        self._back[index + 1] = index

    def find(self, position: float) -> int | None:
        """Returns the atom nearest to a position, the first of two; None if there is none."""
        place = min(max(math.floor(position), -1), self._size - 1)
        before = _follow(self._back, place + 1) - 1
        behind = _follow(self._on, place + 2) - 1
        found = [index for index in (before, behind) if 0 <= index < self._size]
        return min(found, key=lambda index: abs(index - position), default=None)


def _follow(pointers: list[int], index: int) -> int:
    """Returns the end of a path, with path compression."""
    end = index
    while pointers[end] != end:
        end = pointers[end]
    while pointers[index] != end:
        pointers[index], index = end, pointers[index]
    return end


def _enter(marks: Sequence[PlacedTag], region: Span, crossings: Crossings) -> _Siblings:
    """Prepares marks for finding gaps outside their elements."""
    elements = [mark.target for mark in marks if _has_text(mark) and not _is_empty(mark.target)]
    for run in elements:
        crossings.close(run)
    return _Siblings(iter(marks), region, elements)


def _place_all(mark: PlacedTag, target: Span) -> None:
    """Places a mark and its descendants."""
    pending = [mark]
    while pending:
        mark = pending.pop()
        mark.target = target
        if _has_text(mark):
            pending += mark.children


def _has_text(mark: PlacedTag) -> bool:
    return mark.first < mark.last


def _is_empty(run: Span) -> bool:
    return run[0] == run[1]


def _repeats(mark: PlacedTag, parent: PlacedTag) -> bool:
    """Checks that an element holds its parent's words, and neither is fixed."""
    return (
        mark.fixed is None
        and parent.fixed is None
        and (mark.first, mark.last) == (parent.first, parent.last)
    )
