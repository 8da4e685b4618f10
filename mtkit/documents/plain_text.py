"""A unit's text as a translator sees it, and what stood between its words."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mtkit.documents.atoms import SPACE, find_atoms
from mtkit.documents.document import Node, Span, Spelled, Unit

Slice = Callable[[int, int], str]
"""Characters of the document from one position to another, with what is replaced in them."""


class Event(NamedTuple):
    """A tag or space at a position of the plain text.

    Attributes:
        position: Characters before it.
        kind: What it is.
        raw: How the document writes it.
        node: Whose tag it is.
    """

    position: int
    kind: Literal["open", "close", "void", "space"]
    raw: str
    node: Node | None = None


@dataclass
class PlainText:
    """A unit's text without markup.

    Attributes:
        text: One line; runs of space are single spaces.
        events: Tags and space, in the order of the document.
        spellings: How the document spells characters that it escapes, in order.
        spans: Where each node but texts lies in `text`, by its start in the document.
        atoms: Words and signs of `text`.
    """

    text: str = ""
    events: list[Event] = field(default_factory=list)
    spellings: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[int, Span] = field(default_factory=dict)
    atoms: list[Span] = field(default_factory=list)


def read_plain_text(unit: Unit, cut: Slice) -> PlainText:
    """Returns what a translator sees of a unit."""
    reader = _Reader(cut)
    reader.visit(unit.nodes)
    plain = reader.plain
    plain.text = "".join(reader.pieces)
    edges = {edge for start, end in reader.protected for edge in (start, end)}
    plain.atoms = split_atoms(find_atoms(plain.text), edges)
    return plain


def split_atoms(atoms: Sequence[Span], edges: set[int]) -> list[Span]:
    """Returns atoms, cut in two where one of the edges lies inside."""
    cut: list[Span] = []
    for start, end in atoms:
        inside = [edge for edge in range(start + 1, end) if edge in edges] if edges else []
        cut += zip([start, *inside], [*inside, end], strict=True)
    return cut


class _Reader:
    def __init__(self, cut: Slice) -> None:
        self.plain = PlainText()
        self.pieces: list[str] = []
        self.protected: list[Span] = []
        self._cut = cut
        self._length = 0

    def visit(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            begin = self._length
            match node.kind:
                case "text":
                    self._read_text(node.spelled)
                    continue
                case "element" | "run" if _has_text(node):
                    self._note("open", self._cut(node.start, node.inner[0]), node)
                    self.visit(node.children)
                    self._note("close", self._cut(node.inner[1], node.end), node)
                case "protected":
                    self._note("open", self._cut(node.start, node.end), node)
                    self._add(" ".join("".join(each.text for each in node.spelled).split()))
                    self._note("close", "", node)
                    self.protected.append((begin, self._length))
                case _:
                    self._note("void", self._cut(node.start, node.end), node)
                    if (node.is_break or node.children) and not self._ends_in_space():
                        self._add(" ")
                        self.plain.spans[node.start] = (begin, begin)
                        continue
            self.plain.spans[node.start] = (begin, self._length)

    def _read_text(self, spelled: Sequence[Spelled]) -> None:
        for text, raw in spelled:
            if text != raw and not text.strip(SPACE):
                self._note("space", raw)
                if not self._ends_in_space():
                    self._add(" ")
                continue
            if text != raw:
                self.plain.spellings[text].append(raw)
                self._add(text)
                continue
            for run in _split_space(text):
                if run[0] in SPACE:
                    self._note("space", run)
                    if not self._ends_in_space():
                        self._add(" ")
                    continue
                for character in run:
                    if not (character.isascii() and character.isalnum()):
                        self.plain.spellings[character].append(character)
                self._add(run)

    def _add(self, text: str) -> None:
        if text:
            self.pieces.append(text)
            self._length += len(text)

    def _ends_in_space(self) -> bool:
        return not self.pieces or self.pieces[-1][-1] in SPACE

    def _note(
        self, kind: Literal["open", "close", "void", "space"], raw: str, node: Node | None = None
    ) -> None:
        self.plain.events.append(Event(self._length, kind, raw, node))


def _has_text(node: Node) -> bool:
    return any(
        child.kind == "protected"
        or any(each.text.strip(SPACE) for each in child.spelled)
        or _has_text(child)
        for child in node.children
    )


def _split_space(text: str) -> Iterator[str]:
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or (text[index] in SPACE) != (text[start] in SPACE):
            yield text[start:index]
            start = index
