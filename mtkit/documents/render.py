"""A unit's translation as the document writes it, with its tags put back."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mtkit.documents.atoms import SPACE, AtomIndex, find_atoms, find_sign_kinds, link_atoms
from mtkit.documents.document import Node, Span, Token, TranslatedText, Unit, find_holders
from mtkit.documents.line_breaks import spread_breaks
from mtkit.documents.placement import Mark, Placer
from mtkit.documents.plain_text import Event, PlainText, find_cut_places, split_atoms
from mtkit.documents.protected_places import find_protected
from mtkit.documents.spelling import Speller

_Position = tuple[int, int]
"""Index of a target atom and characters of it before: (3, 0) is the gap in front of the fourth."""


class _Placed(NamedTuple):
    position: _Position
    event: Event


class _Located(NamedTuple):
    """Where a node's tags go by its words alone, and which of its parent's children it is."""

    start: _Position
    end: _Position
    order: int
    node: Node


@dataclass
class _Open:
    """An element whose children are being placed.

    Attributes:
        located: Its children that are left.
        cursor: Where the next may begin.
        limit: Where it ends.
        closing: Its closing tag, if it has one.
    """

    located: Iterator[_Located]
    cursor: _Position
    limit: _Position
    closing: Sequence[_Placed] = ()


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
        has_protected = any(node and node.kind == "protected" for *_, node in plain.events)
        self._holders = find_holders(unit.nodes, _is_text) if has_protected else None
        """Nodes that hold more than protected text; None where there is no such text."""
        self._fixed: dict[int, Span] = {}
        if has_protected:
            self._fixed = find_protected(unit.nodes, plain, self._target, self._links or ())
        edges = {edge for span in self._fixed.values() for edge in span}
        atoms = find_atoms(self._target)
        edges |= find_cut_places(self._target, atoms, plain.cuts)
        self._atoms = split_atoms(atoms, edges)
        self._source_index = AtomIndex(plain.atoms)
        self._of_gap: defaultdict[int, list[Event]] = defaultdict(list)
        self._num_tags: Counter[int] = Counter()
        self._of_node: defaultdict[int, list[Event]] = defaultdict(list)
        self._alone: set[Event] = set()
        """Tags without text that have space behind them."""
        before: Event | None = None
        for event in plain.events:
            gap = self._gap_of(event)
            if gap == 0 or plain.atoms[gap - 1][1] <= event.position:
                self._of_gap[gap].append(event)
                self._num_tags[gap] += event.kind != "space"
            if event.kind == "space" and before and before[:2] == (event.position, "void"):
                self._alone.add(before)
            before = event
            if event.node is not None:
                self._of_node[event.node.start].append(event)
        self._speller = Speller(unit.escapes, plain.spellings)

    def render(self) -> list[Token]:
        roots, marks = self._make_marks()
        if roots:
            links = link_atoms(
                self._source, self._target, (self._plain.atoms, self._atoms), self._links
            )
            signs = (
                find_sign_kinds(self._source, self._plain.atoms),
                find_sign_kinds(self._target, self._atoms),
            )
            Placer(len(self._plain.atoms), len(self._atoms), links, signs).place(roots)
        return self._write(self._collect(marks), self._find_swallowed(marks))

    def _make_marks(self) -> tuple[list[Mark], dict[int, Mark]]:
        """Returns the marks of all nodes but texts: the outermost, and each by its node's start."""
        roots: list[Mark] = []
        marks: dict[int, Mark] = {}
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

    def _make_mark(self, node: Node) -> Mark:
        start, end = self._plain.spans[node.start]
        first = self._source_index.find_ending_behind(start)
        last = self._source_index.find_beginning_at(end)
        if start == end:
            follows = start > 0 and self._source[start - 1] not in SPACE
            if follows and first < len(self._plain.atoms):
                first += self._plain.atoms[first][0] < start
            return Mark(first, first, follows=follows)
        mark = Mark(first, max(first, last), replaces=self._is_replacing(node))
        if node.kind == "protected" and node.start in self._fixed:
            mark.fixed = self._cover(self._fixed[node.start])
        return mark

    def _is_replacing(self, node: Node) -> bool:
        """Returns whether a node has protected text alone, in place of what it is placed at."""
        return self._holders is not None and id(node) not in self._holders

    def _cover(self, span: Span) -> Span:
        index = AtomIndex(self._atoms)
        return index.find_ending_behind(span[0]), index.find_beginning_at(span[1])

    def _find_swallowed(self, marks: dict[int, Mark]) -> set[int]:
        """Returns the target atoms whose place protected text takes."""
        swallowed: set[int] = set()
        if self._holders is None:
            return swallowed
        for event in self._plain.events:
            if event.node is not None and event.kind == "open" and event.node.kind == "protected":
                swallowed.update(range(*marks[event.node.start].target))
        return swallowed

    def _collect(self, marks: dict[int, Mark]) -> list[_Placed]:
        """Returns tags in the order of the translation, each inside its parent's."""
        placed: list[_Placed] = []
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
            placed.append(_Placed(start, first))
            closed = [_Placed(end, event) for event in closing]
            children = located.node.children if closing else ()
            stack.append(_Open(self._sort(children, marks), start, end, closed))
        return placed

    def _sort(self, nodes: Sequence[Node], marks: dict[int, Mark]) -> Iterator[_Located]:
        """Yields nodes that aren't text in the order of the translation."""
        located = [
            _Located(*self._locate(node, marks[node.start]), order, node)
            for order, node in enumerate(nodes)
            if node.kind != "text"
        ]
        return iter(sorted(located, key=lambda each: each[:3]))

    def _locate(self, node: Node, mark: Mark) -> tuple[_Position, _Position]:
        """Returns where a node's tags go: inside of a word where they were inside of the same."""
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

    def _write(self, placed: Sequence[_Placed], swallowed: set[int]) -> list[Token]:
        """Returns the translation's text and tags in order."""
        tagged = {each.position[0] for each in placed if not each.position[1]}
        breaks = spread_breaks(
            self._find_breaks(),
            self._target,
            self._atoms,
            tagged,
            without_space=self._unit.keeps_breaks,
        )
        tokens: list[Token] = []
        pending = list(placed)[::-1]
        last = len(self._atoms)
        stops = {0, last, *breaks, *(each.position[0] for each in placed)}
        for index in swallowed:
            stops |= {index, index + 1}
        ordered = sorted(stops)
        for index, following in zip(ordered, [*ordered[1:], last], strict=True):
            events = []
            while pending and pending[-1].position == (index, 0):
                events.append(pending.pop().event)
            if not (index in swallowed and index - 1 in swallowed and not events):
                tokens += self._write_gap(index, events, breaks.get(index))
            if index == last:
                break
            start, end = self._atoms[index]
            done = start
            while pending and pending[-1].position[0] == index:
                (_, offset), event = pending.pop()
                if index not in swallowed:
                    tokens += self._write_text(self._target[done : start + offset])
                    done = start + offset
                tokens.append(_as_token(event))
            # With the atoms behind it up to the next stop, which are written as they are.
            done = end if index in swallowed else done
            tokens += self._write_text(self._target[done : self._atoms[following - 1][1]])
        return tokens

    def _write_text(self, text: str) -> list[Token]:
        return [Token("text", self._speller.write(text))] if text else []

    def _write_gap(
        self, index: int, events: Sequence[Event], line_break: str | None
    ) -> list[Token]:
        """Returns what stands between two atoms: tags, and space where the translation has any."""
        start = self._atoms[index - 1][1] if index else 0
        end = self._atoms[index][0] if index < len(self._atoms) else len(self._target)
        space = self._target[start:end]
        if not (events or space or line_break) and self._at_edge(index) not in self._of_gap:
            return []
        if events or index in (0, len(self._atoms)):
            as_it_was = self._repeat_gap(index, events, space)
            if as_it_was is not None:
                return as_it_was
        if line_break is not None:
            before_it, _, behind_it = space.partition(" ")
            return [
                *self._write_text(before_it),
                Token("text", line_break),
                *self._write_text(behind_it.lstrip(" ")),
            ]
        if space in SPACE and any(_breaks(event) for event in events):
            space = ""
        before = 0
        while before < len(events) and not self._leads(events[before]):
            before += 1
        behind, space_behind, space_between = len(events), "", ""
        inserted = [
            number
            for number, event in enumerate(events)
            if _ends_protected(event) or (event in self._alone and self._leads(event))
        ]
        if inserted and before <= inserted[-1] and events[before].kind in ("open", "void"):
            # What takes no word's place here is like one more word.
            behind = inserted[-1] + 1
            while behind < len(events) and events[behind].kind == "close":
                behind += 1
            before_it = self._source[: events[before].position][-1:]
            space_between = " " if " " in self._target else ""
            is_spaced = space_between and before_it in ("", " ")
            space_behind = " " if is_spaced and index == 0 else space
            space = " " if is_spaced and index else space
        return [
            *map(_as_token, events[:before]),
            *self._write_text(space),
            *self._write_apart(events[before:behind], space_between),
            *self._write_text(space_behind),
            *map(_as_token, events[behind:]),
        ]

    def _write_apart(self, events: Sequence[Event], space: str) -> list[Token]:
        """Returns tags, with space between elements that had words between them."""
        tokens: list[Token] = []
        for number, event in enumerate(events):
            before = events[max(0, number - 1)]
            words = self._source[before.position : event.position]
            if (before.kind, event.kind) == ("close", "open") and " " in words:
                tokens += self._write_text(space)
            tokens.append(_as_token(event))
        return tokens

    def _leads(self, event: Event) -> bool:
        """Returns whether the space of a gap stands in front of a tag rather than behind it.

        A tag without text, such as a footnote's, stays with the word that it stood behind.
        """
        if event.kind != "void":
            return event.kind == "open"
        before, behind = (
            self._source[start : start + 1].strip(SPACE) if start >= 0 else ""
            for start in (event.position - 1, event.position)
        )
        return not before or bool(behind)

    def _repeat_gap(self, index: int, events: Sequence[Event], space: str) -> list[Token] | None:
        """Returns the gap of the source that has the same tags, as the document writes it."""
        gap = self._gap_of(events[0]) if events else self._at_edge(index)
        if self._num_tags[gap] != len(events):
            return None
        written = self._of_gap.get(gap, [])
        tags = [event for event in written if event.kind != "space"]
        atoms = self._plain.atoms
        start = atoms[gap - 1][1] if gap else 0
        end = atoms[gap][0] if gap < len(atoms) else len(self._source)
        if tags != list(events) or self._source[start:end].strip(SPACE) != space.strip(SPACE):
            return None
        edges = (index == 0, index == len(self._atoms))
        if edges != (gap == 0, gap == len(atoms)) or (
            not any(edges) and bool(space) != (start < end)
        ):
            return None
        tokens = []
        done = start
        for event in written:
            position = min(max(event.position, start), end)
            tokens += self._write_text(self._source[done:position].strip(SPACE))
            done = position
            if event.raw or event.kind != "space":
                tokens.append(_as_token(event))
        return tokens + self._write_text(self._source[done:end].strip(SPACE))

    def _at_edge(self, index: int) -> int:
        """Returns the gap at the source's beginning or end, as one at the translation's is."""
        return 0 if index == 0 else len(self._plain.atoms)

    def _gap_of(self, event: Event) -> int:
        return self._source_index.find_beginning_at(event.position)

    def _find_breaks(self) -> list[tuple[float, str]]:
        """Returns the space of the source's gaps without tags that isn't a single one.

        Each stands behind the share of the text before it, in order.
        """
        atoms = self._plain.atoms
        found = []
        for gap, events in self._of_gap.items():
            raw = "".join(event.raw for event in events)
            if 0 < gap < len(atoms) and self._num_tags[gap] == 0 and raw != " ":
                found.append((atoms[gap - 1][1] / atoms[-1][1], raw))
        return found


def _is_text(node: Node) -> bool:
    return node.kind == "text" and any(each.text.strip(SPACE) for each in node.spelled)


def _as_token(event: Event) -> Token:
    kind = "text" if event.kind == "space" else event.kind
    return Token(kind, event.raw, event.node)


def _ends_protected(event: Event) -> bool:
    return event.kind == "close" and event.node is not None and event.node.kind == "protected"


def _breaks(event: Event) -> bool:
    return event.node is not None and event.kind == "void" and event.node.is_break
