"""Writes a translation in runs: each text, tag and element where the schema allows it.

The texts, tags and elements of a paragraph are its items. Everything between two of them only ends
runs and texts and begins others. Where two items follow each other as in the source, it is copied;
elsewhere runs are closed and opened as the next item needs it.
"""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mtkit.documents.atoms import SPACE
from mtkit.documents.document import Escapes, Node, Token, Unit, walk
from mtkit.documents.units import RUN, MarkupPart
from mtkit.text.xml_tokens import escape_xml, unescape_xml

HYPHEN = "\u2011"
"""The character of `w:noBreakHyphen`."""
_SIGN = re.compile(r"(<[^<>]*>(?:</[^<>]*>)?)")
"""An element that is a character; all other `<` in a text are escaped."""

RUN_TEXT = Escapes(escape_xml, lambda raw: unescape_xml(_SIGN.sub(HYPHEN, raw)))


@dataclass(frozen=True)
class TextRun:
    """A run of the source.

    Attributes:
        opening: Its opening tag and its formatting.
        look: Its visible formatting.
        content: The span after its formatting.
    """

    start: int
    end: int
    opening: str
    closing: str
    look: str
    content: tuple[int, int]


@dataclass(frozen=True)
class ParagraphItem:
    """A text, a tag or an element of a paragraph.

    Attributes:
        before: The run that it begins in.
        after: The run that it ends in.
        outer: Its span with the tags of its text element.
        tag: The tag that opens a text's element; empty for other items.
        closing: The tag that closes it.
        is_sign: A character that is written as an element.
    """

    start: int
    end: int
    before: TextRun | None
    after: TextRun | None
    outer: tuple[int, int]
    tag: str = ""
    closing: str = ""
    is_sign: bool = False

    @property
    def look(self) -> str | None:
        """The formatting of an item inside one run."""
        return self.before.look if self.before is not None and self.before is self.after else None


@dataclass
class Paragraph:
    """The items of a paragraph whose text is in runs.

    Attributes:
        text: The document's.
        keeps_space: Whether outer space of a text counts without `xml:space`.
        starts: Items by start.
        ends: Items by end.
        next_starts: The start of the next item, by an item's end.
    """

    text: str
    keeps_space: bool
    starts: dict[int, ParagraphItem] = field(default_factory=dict)
    ends: dict[int, ParagraphItem] = field(default_factory=dict)
    next_starts: dict[int, int] = field(default_factory=dict)
    _last: int = -1

    def add(self, item: ParagraphItem) -> None:
        """Adds the next item."""
        if self._last >= 0:
            self.next_starts[self._last] = item.start
        self.starts[item.start] = self.ends[item.end] = item
        self._last = item.end

    def find_plain_look(self) -> str:
        """Returns the formatting of most characters."""
        counts: dict[str, int] = {}
        for item in self.starts.values():
            if item.tag and item.look is not None:
                length = 1 if item.is_sign else item.end - item.start
                counts[item.look] = counts.get(item.look, 0) + length
        return max(counts, key=lambda look: counts[look], default="")


def add_runs(
    parts: Sequence[MarkupPart], items: Mapping[int, ParagraphItem], plain: str
) -> list[MarkupPart]:
    """Adds tags around runs that aren't plain, and joints between texts of equal formatting."""
    added: list[MarkupPart] = []
    group: list[MarkupPart] = []
    look: str | None = None
    for part in parts:
        item = None if part.kind == "edge" else items.get(part.start)
        own = None if item is None else item.look
        if own is None or own != look:
            added += _group(group, items, is_plain=look == plain)
            group, look = [], own
        group.append(part)
    return added + _group(group, items, is_plain=look == plain)


def _group(
    parts: Sequence[MarkupPart], items: Mapping[int, ParagraphItem], *, is_plain: bool
) -> list[MarkupPart]:
    """Returns parts of the same formatting as an element, from the first text to the last."""
    texts = [index for index, part in enumerate(parts) if part.kind == "text"]
    is_space = not any(each.text.strip(SPACE) for index in texts for each in parts[index].spelled)
    added: list[MarkupPart] = []
    if is_space and 1 < len(texts) < len(parts):
        # An element of space only has no other elements in it.
        for is_text, several in itertools.groupby(parts, lambda part: part.kind == "text"):
            alike = list(several)
            added += _group(alike, items, is_plain=is_plain) if is_text else alike
        return added
    for index, part in enumerate(parts):
        if part.kind == "text" and not is_plain and index == texts[0]:
            start = items[part.start].outer[0]
            added.append(MarkupPart("open", start, start, RUN))
        elif part.kind == "text" and index > 0 and parts[index - 1].kind == "text":
            added.append(MarkupPart("joint", parts[index - 1].end, part.start))
        added.append(part)
        if part.kind == "text" and not is_plain and index == texts[-1]:
            added.append(MarkupPart("close", part.end, part.end, RUN))
    return added


def wrap_unit(unit: Unit, paragraph: Paragraph) -> Unit:
    """Returns a unit whose translation closes and opens runs as needed."""
    frame = _find_frame(unit, paragraph)

    def join(tokens: Sequence[Token]) -> str:
        return _Writer(paragraph, frame).write(tokens)

    return dataclasses.replace(
        unit, start=frame.start, end=frame.end, output=(frame.start, frame.end), join=join
    )


@dataclass(frozen=True)
class _Frame:
    """The position of a unit's translation."""

    # `outside` and `behind` are the runs open at its start and end. `plain` is a text that isn't in
    # a run with its own formatting, if there is one.

    start: int
    end: int
    outside: TextRun | None
    behind: TextRun | None
    first: ParagraphItem
    last: ParagraphItem
    plain: ParagraphItem


def _find_frame(unit: Unit, paragraph: Paragraph) -> _Frame:
    head, tail = unit.nodes[0], unit.nodes[-1]
    first = paragraph.starts[head.children[0].start if head.kind == "run" else head.start]
    last = paragraph.ends[tail.children[-1].end if tail.kind == "run" else tail.end]
    start, outside = first.outer[0], first.before
    if outside is not None and start == outside.content[0]:
        start, outside = outside.start, None
    end, behind = last.outer[1], last.after
    if behind is not None and end == behind.content[1]:
        end, behind = behind.end, None
    plain = paragraph.starts[_find_plain(unit.nodes).start]
    return _Frame(start, end, outside, behind, first, last, plain)


def _find_plain(nodes: Sequence[Node]) -> Node:
    """Returns the first text outside runs with their own formatting, or else the first."""
    texts = [node for node in walk(nodes) if node.kind == "text"]
    in_runs = {id(each) for node in walk(nodes) if node.kind == "run" for each in node.children}
    return next((node for node in texts if id(node) not in in_runs), texts[0])


class _Writer:
    """Writes one translation, item by item."""

    def __init__(self, paragraph: Paragraph, frame: _Frame) -> None:
        self._paragraph, self._frame = paragraph, frame
        self._text = paragraph.text
        self._pieces: list[str] = []
        self._at = frame.start
        """The end of the last written item in the source; -1 if it has none."""
        self._run = frame.outside
        """The open run."""
        self._tag = -1
        """The piece that opens the current text; -1 without one."""
        self._item = self._plain = frame.plain
        """The item whose tags the text gets, and the last plain one."""
        self._own: ParagraphItem | None = None
        """The first text of the open element with its own formatting."""
        self._is_apart = False
        """Whether the next text belongs to another item than the last."""

    def write(self, tokens: Sequence[Token]) -> str:
        """Returns the unit's replacement."""
        for token in tokens:
            node = token.node
            if token.kind == "text" or node is None:
                self._add_text(token.raw)
            elif node.kind == "run":
                self._own = self._paragraph.starts[node.children[0].start]
                if token.kind == "void":
                    self._add_space(node.children)
                if token.kind != "open":
                    self._own = None
            elif node.kind == "joint":
                self._is_apart = self._at == node.start
            else:
                self._add_tag(token, node)
        return self._finish()

    def _add_space(self, nodes: Sequence[Node]) -> None:
        """Adds an element of space only."""
        for node in nodes:
            if node.kind == "joint":
                self._is_apart = self._at == node.start
            else:
                self._add_text(self._text[node.start : node.end])

    def _add_tag(self, token: Token, node: Node) -> None:
        """Adds a tag or an element, inside the run that it belongs to, or outside any."""
        start = node.inner[1] if token.kind == "close" else node.start
        end = node.inner[0] if token.kind == "open" else node.end
        item = self._paragraph.starts[start]
        if self._find_next() is item:
            self._pass_to(item)
        elif item.before is None:
            self._leave_run()
        else:
            self._enter(item.before)
        self._pieces.append(token.raw)
        self._run, self._at = self._paragraph.ends[end].after, end
        self._is_apart = False

    def _add_text(self, raw: str) -> None:
        for piece in _SIGN.split(raw):
            if piece.startswith("<"):
                self._add_sign(piece)
            elif piece:
                self._add_characters(piece)

    def _add_characters(self, raw: str) -> None:
        """Adds characters to a text with their formatting."""
        model = self._own or self._plain
        following = self._find_next()
        is_open = self._tag >= 0 and self._run is not None and self._run.look == model.look
        is_next = following is not None and bool(following.tag) and not following.is_sign
        if following is not None and is_next and following.look == model.look:
            if self._is_apart or not is_open:
                self._pass_to(following)
        elif not is_open:
            assert model.before is not None, "text stands in runs"
            self._enter(model.before)
            self._open_text(model)
        self._pieces.append(raw)
        # Characters replace the sign, so nothing of the source follows them.
        self._at = -1 if self._item.is_sign else self._item.end
        self._is_apart = False
        if self._own is None:
            self._plain = self._item

    def _add_sign(self, raw: str) -> None:
        """Adds a character that is an element, after the text."""
        model = self._own or self._plain
        following = self._find_next()
        if following is not None and following.is_sign and following.look == model.look:
            self._pass_to(following)
            self._at = following.end
        else:
            assert model.before is not None, "text stands in runs"
            self._enter(model.before)
            self._at = -1
        self._pieces.append(raw)
        self._is_apart = False

    def _find_next(self) -> ParagraphItem | None:
        """Returns the unit's item after the last one in the source."""
        if self._at == self._frame.start:
            return self._frame.first
        start = self._paragraph.next_starts.get(self._at, -1)
        return self._paragraph.starts[start] if 0 <= start < self._frame.end else None

    def _pass_to(self, item: ParagraphItem) -> None:
        """Copies what is before the next item of the source."""
        self._keep_space()
        self._tag = -1
        end = item.start if item.is_sign else item.start - len(item.tag)
        self._pieces.append(self._text[self._at : end])
        self._run = item.before
        if item.tag and not item.is_sign:
            self._open_text(item)

    def _open_text(self, item: ParagraphItem) -> None:
        self._tag, self._item = len(self._pieces), item
        self._pieces.append(item.tag)

    def _enter(self, run: TextRun) -> None:
        """Ends a text and opens a run, unless one with the same formatting is open."""
        self._leave_text()
        if self._run is None or self._run.look != run.look:
            self._leave_run()
            self._pieces.append(run.opening)
            self._run = run

    def _leave_run(self) -> None:
        self._leave_text()
        if self._run is not None:
            self._pieces.append(self._run.closing)
            self._run = None

    def _leave_text(self) -> None:
        if self._tag >= 0:
            self._keep_space()
            self._pieces.append(self._item.closing)
            self._tag = -1

    def _keep_space(self) -> None:
        """Adds `xml:space` to the current text's tag if its outer space needs it."""
        if self._tag < 0 or self._paragraph.keeps_space:
            return
        tag, text = self._pieces[self._tag], "".join(self._pieces[self._tag + 1 :])
        is_source = text == self._text[self._item.start : self._item.end]
        if text != text.strip() and not is_source and "xml:space" not in tag:
            self._pieces[self._tag] = tag[:-1] + ' xml:space="preserve">'

    def _finish(self) -> str:
        """Returns the result, with the same run open as after the unit."""
        if self._at == self._frame.last.end:
            self._keep_space()
            self._pieces.append(self._text[self._at : self._frame.end])
        elif self._frame.behind is None:
            self._leave_run()
        else:
            self._enter(self._frame.behind)
        return "".join(self._pieces)
