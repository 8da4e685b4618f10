"""A unit's text as a translator sees it, with the tags and space between its words."""

import bisect
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from mtkit.documents.atoms import SPACE, AtomIndex, find_atoms
from mtkit.documents.document import (
    PLAIN,
    Document,
    EscapedText,
    LanguageCodes,
    Link,
    Node,
    Span,
    Unit,
    as_written,
    find_holders,
    walk,
)
from mtkit.documents.units import MarkupPart, make_units

_LINE_END = re.compile(r"\r?\n")
_MIN_WRAPPED = 50
"""Minimum characters of a line that may have been wrapped."""
_SPACES = re.compile(rf"((?:(?<!\S)|(?![ ]\S))[{SPACE}]+)")
"""Space at the edges of a text, next to other space, and anywhere except a single one between
words."""
_SPELLED = re.compile(f"[^A-Za-z0-9{SPACE}]")
"""Characters that a format may escape; other spellings aren't recorded."""
Slice = Callable[[int, int], str]
"""Returns the document's characters between two positions, with replacements."""
_MAX_POSITIONS = 100
"""Maximum candidate places in a translation for a protected text."""
_MANY = 64
"""With more texts of one length, the translation is read once for all of them."""
_MAX_SHORT = 64
"""Maximum characters of a text for that; a unit can only hold few longer texts."""
_MAX_TRIES = 1_000
"""Maximum places tried for a longer text, including parts of words."""
_Text = tuple[str, bool]
"""A text, and whether it may be a part of a word."""


def read_plain(text: str, _: LanguageCodes) -> Document:
    """Returns a text with its paragraphs."""
    document = Document(text)
    parts = []
    start = 0
    for found in [*_LINE_END.finditer(text), None]:
        end = len(text) if found is None else found.start()
        parts.append(MarkupPart("text", start, end, spelled=as_written(text[start:end])))
        if found is not None:
            start = found.end()
            following = _LINE_END.search(text, start)
            line = text[start : following.start() if following else len(text)]
            raw = found.group()
            if continues(parts[-1].spelled[0].text, line):
                parts.append(MarkupPart("text", end, start, spelled=as_written(raw)))
            else:
                parts.append(MarkupPart("edge", end, start))
    document.units = make_units(parts, PLAIN)
    return document


def continues(line: str, following: str) -> bool:
    """Checks that a line continues the sentence of the previous one.

    It does if it begins with a small letter, or with any letter after a full line that ends without
    punctuation. Indented lines and list items don't.
    """
    if not following[:1].isalpha() or not line.strip():
        return False
    ends = line.rstrip()[-1]
    if following[0].islower():
        return ends.isalnum() or ends in ",;-–—)\"'’"
    return len(line) >= _MIN_WRAPPED and (ends.isalnum() or ends == ",")


class Event(NamedTuple):
    """A tag or space at a position of the plain text, as the document writes it."""

    position: int
    kind: Literal["open", "close", "void", "space"]
    raw: str
    node: Node | None = None


@dataclass
class PlainText:
    """A unit's text without markup.

    Attributes:
        text: One line; runs of space are single spaces.
        events: Tags and irregular space, in document order.
        spellings: The document's spellings of escaped characters, in order.
        spans: The span in `text` of each node except texts, by its start in the document.
        atoms: Words and signs of `text`.
        cuts: Positions at which words are cut because one tag ends and another begins inside.
    """

    text: str = ""
    events: list[Event] = field(default_factory=list)
    spellings: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[int, Span] = field(default_factory=dict)
    atoms: list[Span] = field(default_factory=list)
    cuts: dict[str, set[int]] = field(default_factory=dict)

    @cached_property
    def index(self) -> AtomIndex:
        """Finds atoms by positions in `text`."""
        return AtomIndex(self.atoms)


def read_plain_text(unit: Unit, cut: Slice) -> PlainText:
    """Returns a unit's text as a translator sees it."""
    reader = _Reader(cut, find_holders(unit.nodes, _is_text))
    reader.read(unit.nodes)
    plain = reader.plain
    plain.text = "".join(reader.pieces)
    edges = {edge for start, end in reader.protected for edge in (start, end)}
    atoms = find_atoms(plain.text)
    plain.cuts = _find_cuts(plain, atoms)
    plain.atoms = split_atoms(atoms, edges | find_cut_places(plain.text, atoms, plain.cuts))
    return plain


def _find_cuts(plain: PlainText, atoms: Sequence[Span]) -> dict[str, set[int]]:
    """Returns the words in which an element begins after another tag, as in x<wbr><b>y</b>."""
    ends = sorted({event.position for event in plain.events if event.kind in ("close", "void")})
    cuts: dict[str, set[int]] = {}
    index: AtomIndex | None = None
    for event in plain.events:
        before = bisect.bisect_right(ends, event.position) - 1
        if event.kind == "open" and before >= 0:
            index = index or AtomIndex(atoms)
            number = index.find_ending_after(event.position)
            if number < len(atoms) and atoms[number][0] < ends[before]:
                start, end = atoms[number]
                cuts.setdefault(plain.text[start:end], set()).add(event.position - start)
    return cuts


def find_cut_places(text: str, atoms: Sequence[Span], cuts: Mapping[str, set[int]]) -> set[int]:
    """Returns the cuts inside a text's atoms, given the cut words."""
    if not cuts:
        return set()
    return {start + offset for start, end in atoms for offset in cuts.get(text[start:end], ())}


def split_atoms(atoms: Sequence[Span], edges: set[int]) -> list[Span]:
    """Returns atoms, split at edges inside them."""
    if not edges:
        return list(atoms)
    cut: list[Span] = []
    for start, end in atoms:
        inside = [edge for edge in range(start + 1, end) if edge in edges]
        cut += zip([start, *inside], [*inside, end], strict=True)
    return cut


class _Opened(NamedTuple):
    """An element whose children are being read, and the characters before it."""

    node: Node
    begin: int


class _Reader:
    def __init__(self, cut: Slice, holders: set[int]) -> None:
        self.plain = PlainText()
        self.pieces: list[str] = []
        self.protected: list[Span] = []
        self._cut, self._holders = cut, holders
        self._length = 0

    def read(self, nodes: Sequence[Node]) -> None:
        pending: list[Node | _Opened] = list(reversed(nodes))
        while pending:
            node = pending.pop()
            if isinstance(node, _Opened):
                node, begin = node
                self._note("close", self._cut(node.inner[1], node.end), node)
                self.plain.spans[node.start] = (begin, self._length)
            elif node.kind in ("element", "run") and id(node) in self._holders:
                self._note("open", self._cut(node.start, node.inner[0]), node)
                pending.append(_Opened(node, self._length))
                pending += reversed(node.children)
            else:
                self._read_alone(node)

    def _read_alone(self, node: Node) -> None:
        """Reads a node without children that have text."""
        begin = self._length
        match node.kind:
            case "text":
                self._read_text(node.spelled)
                return
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
                    return
        self.plain.spans[node.start] = (begin, self._length)

    def _read_text(self, spelled: Sequence[EscapedText]) -> None:
        for text, raw in spelled:
            if not text and not ("\n" in raw and self._ends_in_space()):
                # An empty piece, such as a line's end after a backslash in YAML.
                continue
            if text != raw and not text.strip(SPACE):
                self._note("space", raw)
                if not self._ends_in_space():
                    self._add(" ")
                continue
            if text != raw:
                self.plain.spellings[text].append(raw)
                self._add(text)
                continue
            for character in _SPELLED.findall(text):
                self.plain.spellings[character].append(character)
            for run in _SPACES.split(text):
                if run and run[0] in SPACE:
                    self._note("space", run)
                    if not self._ends_in_space():
                        self._add(" ")
                else:
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


def _is_text(node: Node) -> bool:
    return node.kind == "protected" or any(each.text.strip(SPACE) for each in node.spelled)


def find_protected(
    nodes: Sequence[Node], plain: PlainText, target: str, links: Sequence[Link]
) -> dict[int, Span]:
    """Returns the spans of protected texts in a translation, by the starts of their nodes.

    A text gets the position with most links to it, and among equals the one with the nearest
    relative position. Texts that were whole words are only found as such.
    """
    source = plain.text
    wanted: list[tuple[int, Span, _Text]] = []
    for node in walk(nodes):
        if node.kind != "protected":
            continue
        start, end = plain.spans[node.start]
        is_part = source[max(0, start - 1) : start].isalnum() or source[end : end + 1].isalnum()
        wanted.append((node.start, (start, end), (source[start:end], is_part)))
    if not wanted:
        return {}
    where = _find_all({text for _, _, text in wanted}, target)
    linked = _LinkedWords(links)
    is_taken = bytearray(len(target))
    found: dict[int, Span] = {}
    for key, span, text in wanted:
        places = [place for place in where[text] if 1 not in is_taken[place[0] : place[1]]]
        if places:
            found[key] = _choose(places, linked.find(span), span[0] / len(source) * len(target))
            start, end = found[key]
            is_taken[start:end] = b"\1" * (end - start)
    return found


def _choose(places: Sequence[Span], words: "_Words", share: float) -> Span:
    return max(places, key=lambda place: (words.count(place), -abs(place[0] - share)))


class _Words:
    """Words by their spans; counts quickly how many overlap a place."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = sorted(start for start, _ in spans)
        self._ends = sorted(end for _, end in spans)

    def count(self, place: Span) -> int:
        num_begun = bisect.bisect_left(self._starts, place[1])
        return num_begun - bisect.bisect_right(self._ends, place[0])


class _LinkedWords:
    """The translation's words that are linked to a source's words."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = sorted(links)
        self._starts = [source[0] for source, _ in self._links]
        # The maximum end of all words up to each.
        self._reach = list(itertools.accumulate((source[1] for source, _ in self._links), max))

    def find(self, span: Span) -> _Words:
        """Returns the words linked to those that overlap a span."""
        start, end = span
        index = bisect.bisect_left(self._starts, end) - 1
        found = []
        while index >= 0 and self._reach[index] > start:
            source, target = self._links[index]
            if source[1] > start:
                found.append(target)
            index -= 1
        return _Words(found)


def _find_all(texts: set[_Text], target: str) -> dict[_Text, list[Span]]:
    """Returns the first 100 places of each text in a translation."""
    of_length: defaultdict[int, list[_Text]] = defaultdict(list)
    for text in texts:
        of_length[len(text[0])].append(text)
    found: dict[_Text, list[Span]] = {text: [] for text in texts}
    for length, group in of_length.items():
        if len(group) > _MANY and length <= _MAX_SHORT:
            _find_together(group, length, target, found)
            continue
        for text in group:
            starts = _find_starts(text[0], target)
            tried = itertools.islice(starts, None if length <= _MAX_SHORT else _MAX_TRIES)
            fitting = (start for start in tried if _fits(text, start, target))
            found[text] = [
                (start, start + length) for start in itertools.islice(fitting, _MAX_POSITIONS)
            ]
    return found


def _find_together(
    texts: Sequence[_Text], length: int, target: str, found: dict[_Text, list[Span]]
) -> None:
    """Finds all texts of one length in a single pass over a translation."""
    wanted: defaultdict[str, list[_Text]] = defaultdict(list)
    for text in texts:
        wanted[text[0]].append(text)
    for start in range(len(target) - length + 1 if length else 0):
        for text in wanted.get(target[start : start + length], ()):
            if len(found[text]) < _MAX_POSITIONS and _fits(text, start, target):
                found[text].append((start, start + length))


def _find_starts(text: str, target: str) -> Iterator[int]:
    start = target.find(text) if text else -1
    while start >= 0:
        yield start
        start = target.find(text, start + 1)


def _fits(text: _Text, start: int, target: str) -> bool:
    """Checks that a text may be at a place: as whole words, or as a part of one."""
    characters, is_part = text
    end = start + len(characters)
    cuts_front = characters[0].isalnum() and target[max(0, start - 1) : start].isalnum()
    cuts_back = characters[-1].isalnum() and target[end : end + 1].isalnum()
    return is_part or not (cuts_front or cuts_back)
