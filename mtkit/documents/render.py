"""A unit's translation as the document writes it, with its tags restored."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mtkit.documents.atoms import SPACE, AtomIndex, find_atoms, find_punctuation_kinds, link_atoms
from mtkit.documents.document import Node, Token, TranslatedText, Unit, find_holders
from mtkit.documents.placement import PlacedTag, TagPlacer
from mtkit.documents.plain_text import (
    Event,
    PlainText,
    find_cut_places,
    find_protected,
    split_atoms,
)
from mtkit.documents.write_unit import Position, PositionedTag, UnitWriter


class _Located(NamedTuple):
    """The positions of a node's tags by its words only, and its index in its parent."""

    start: Position
    end: Position
    order: int
    node: Node


@dataclass
class _Open:
    """An element whose children are being placed, between `cursor` and `limit`."""

    located: Iterator[_Located]
    cursor: Position
    limit: Position
    closing: Sequence[PositionedTag] = ()


def render_unit(unit: Unit, plain: PlainText, translated: TranslatedText) -> str:
    """Returns a unit's translation with all of its tags, each once and well nested."""
    tokens = _Renderer(unit, plain, translated).render()
    return "".join(token.raw for token in tokens) if unit.join is None else unit.join(tokens)


class _Renderer:
    def __init__(self, unit: Unit, plain: PlainText, translated: TranslatedText) -> None:
        self._unit, self._plain = unit, plain
        self._source = plain.text
        self._target = translated.text.strip(SPACE)
        self._links = translated.links
        shift = len(translated.text) - len(translated.text.lstrip(SPACE))
        if shift and self._links:
            self._links = tuple(
                (source, (start - shift, end - shift)) for source, (start, end) in self._links
            )
        self._holders = find_holders(unit.nodes, _is_text)
        """Nodes that have more than protected text."""
        self._fixed = find_protected(unit.nodes, plain, self._target, self._links or ())
        edges = {edge for span in self._fixed.values() for edge in span}
        atoms = find_atoms(self._target)
        edges |= find_cut_places(self._target, atoms, plain.cuts)
        self._atoms = split_atoms(atoms, edges)
        self._index = AtomIndex(self._atoms)
        self._of_node: defaultdict[int, list[Event]] = defaultdict(list)
        for event in plain.events:
            if event.node is not None:
                self._of_node[event.node.start].append(event)

    def render(self) -> list[Token]:
        roots, marks = self._make_marks()
        if roots:
            indices = self._plain.index, self._index
            links = link_atoms(self._source, self._target, indices, self._links)
            signs = (
                find_punctuation_kinds(self._source, self._plain.atoms),
                find_punctuation_kinds(self._target, self._atoms),
            )
            TagPlacer(len(self._plain.atoms), len(self._atoms), links, signs).place(roots)
        writer = UnitWriter(self._unit, self._plain, self._target, self._atoms)
        return writer.write(self._collect(marks), self._find_swallowed(marks))

    def _make_marks(self) -> tuple[list[PlacedTag], dict[int, PlacedTag]]:
        """Returns the outermost marks of nodes except texts, and all by their node's start."""
        roots: list[PlacedTag] = []
        marks: dict[int, PlacedTag] = {}
        pending = [(self._unit.nodes, roots)]
        while pending:
            nodes, made = pending.pop()
            for node in nodes:
                if node.kind == "text":
                    continue
                mark = marks[node.start] = self._make_mark(node)
                made.append(mark)
                if node.kind != "protected" and len(self._of_node[node.start]) > 1:
                    pending.append((node.children, mark.children))
        return roots, marks

    def _make_mark(self, node: Node) -> PlacedTag:
        start, end = self._plain.spans[node.start]
        first = self._plain.index.find_ending_after(start)
        last = self._plain.index.find_beginning_at(end)
        if start == end:
            follows = start > 0 and self._source[start - 1] not in SPACE
            if follows and first < len(self._plain.atoms):
                first += self._plain.atoms[first][0] < start
            return PlacedTag(first, first, follows=follows)
        # A node with only protected text replaces the atoms where it is placed.
        mark = PlacedTag(first, max(first, last), replaces=id(node) not in self._holders)
        if node.start in self._fixed:
            begin, finish = self._fixed[node.start]
            first, last = (
                self._index.find_ending_after(begin),
                self._index.find_beginning_at(finish),
            )
            mark.fixed = (first, last)
        return mark

    def _find_swallowed(self, marks: dict[int, PlacedTag]) -> set[int]:
        """Returns the target atoms that protected text replaces."""
        return {
            index
            for kind, node in ((event.kind, event.node) for event in self._plain.events)
            if node is not None and kind == "open" and node.kind == "protected"
            for index in range(*marks[node.start].target)
        }

    def _collect(self, marks: dict[int, PlacedTag]) -> list[PositionedTag]:
        """Returns tags in the order of the translation, each inside its parent's."""
        placed: list[PositionedTag] = []
        stack = [_Open(self._sort(self._unit.nodes, marks), (0, 0), (len(self._atoms), 0))]
        while stack:
            inside = stack[-1]
            located = next(inside.located, None)
            if located is None:
                stack.pop()
                placed += inside.closing
                continue
            start = min(max(located.start, inside.cursor), inside.limit)
            end = min(max(located.end, start), inside.limit)
            inside.cursor = end
            first, *closing = self._of_node[located.node.start]
            placed.append(PositionedTag(start, first))
            closed = [PositionedTag(end, event) for event in closing]
            children = located.node.children if closing else ()
            stack.append(_Open(self._sort(children, marks), start, end, closed))
        return placed

    def _sort(self, nodes: Sequence[Node], marks: dict[int, PlacedTag]) -> Iterator[_Located]:
        """Yields nodes except texts in the order of the translation."""
        located = [
            _Located(*self._locate(node, marks[node.start]), order, node)
            for order, node in enumerate(nodes)
            if node.kind != "text"
        ]
        return iter(sorted(located, key=lambda each: each[:3]))

    def _locate(self, node: Node, mark: PlacedTag) -> tuple[Position, Position]:
        """Returns the positions of a node's tags: inside a word if they were in the same one."""
        start, end = self._plain.spans[node.start]
        first, last = mark.target
        begin, finish = (first, 0), (last, 0)
        if first < last and self._is_same(mark.first, first):
            begin = (first, max(0, start - self._plain.atoms[mark.first][0]))
        if first < last and self._is_same(mark.last - 1, last - 1):
            atom_start, atom_end = self._plain.atoms[mark.last - 1]
            finish = (last - 1, end - atom_start) if end < atom_end else finish
        if (
            start == end
            and mark.first > 0
            and first > 0
            and self._is_same(mark.first - 1, first - 1)
        ):
            atom_start, atom_end = self._plain.atoms[mark.first - 1]
            if atom_start < start < atom_end:
                begin = finish = (first - 1, start - atom_start)
        return begin, finish

    def _is_same(self, source: int, target: int) -> bool:
        start, end = self._plain.atoms[source]
        target_start, target_end = self._atoms[target]
        return self._source[start:end] == self._target[target_start:target_end]


def _is_text(node: Node) -> bool:
    return node.kind == "text" and any(each.text.strip(SPACE) for each in node.spelled)
