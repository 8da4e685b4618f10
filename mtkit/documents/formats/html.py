"""HTML: blocks and inline tags by the positions of Python's tokenizer in the text."""

import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

from mtkit.documents.document import Document, Edit, Languages, Span, Unit, fail_at
from mtkit.documents.formats.html_elements import (
    HTML_TEXT,
    find_reason_to_leave,
    is_inline,
    is_void,
    is_wanted,
    read_attribute_units,
    read_attributes,
    read_spelled,
    read_visible,
    rewrite_languages,
)
from mtkit.documents.units import Part, make_units

_RAW_TEXT = ("title", "textarea")
_UNSEEN = frozenset(("applet", "audio", "canvas", "embed", "iframe", "script", "style", "template"))
"""Elements of which a reader sees no text."""
_CODE_ISLAND = re.compile(r"<\?(?=php\b|=|\s)(?:(?!\?>).)*+(?:\?>|\Z)|<%(?:(?!%>).)*+%>", re.DOTALL)
"""Code of a page's program: `<?php ... ?>`, `<%= ... %>`."""
_UNKNOWN_SECTION = re.compile(
    r"<!\[(?!(?:cdata|rcdata|temp|ignore|include|if|else|endif)\b)", re.IGNORECASE
)
"""The beginning of a section that Python's tokenizer fails at; to browsers it is a comment."""
_PRINTS = re.compile(r"<\?=|<\?php\s++echo\b|<%[=-]")
"""The beginning of code that writes some text of a sentence."""


def read_html(text: str, languages: Languages) -> Document:
    """Returns a page, or a piece of one, with its units.

    Raises:
        MtkitError: It ends inside a tag, a comment or a script; elements are nested too deeply.
    """
    document = Document(text)
    read_html_part(document, (0, len(text)), languages)
    return document


def read_html_part(document: Document, span: Span, languages: Languages) -> None:
    """Adds the units and edits of a part of a document that is HTML.

    Raises:
        MtkitError: As `read_html`; nothing has been added.
    """
    reader = _Reader(document.text, span, languages)
    reader.read()
    document.units += [*reader.units, *make_units(reader.parts, HTML_TEXT)]
    document.edits += reader.edits
    for skipped in reader.skipped:
        document.skip(*skipped)


@dataclass
class _Frame:
    """An open element that is left as it is, or one in it that is translated.

    Attributes:
        name: Its name.
        begin: Where what is left begins.
        reason: Why it is left, as `find_reason_to_leave` says; "" where it is translated.
        in_sentence: Whether it is part of a sentence.
        opened: Open elements in it by their names, itself among them.
    """

    name: str
    begin: int
    reason: tuple[str, str]
    in_sentence: bool = False
    opened: Counter[str] = field(default_factory=Counter)


class _Reader(HTMLParser):
    """Notes tokens with their positions; a token ends where the next begins."""

    def __init__(self, text: str, span: Span, languages: Languages) -> None:
        super().__init__(convert_charrefs=False)
        self.units: list[Unit] = []
        self.edits: list[Edit] = []
        self.parts: list[Part] = []
        self.skipped: list[tuple[int, str, str, str]] = []
        self._text, self._languages = text, languages
        self._start, self._end = span
        ends = re.compile("\n").finditer(text, *span)
        self._lines = [self._start, *(found.end() for found in ends)]
        self._tokens: list[tuple[str, int, str]] = []
        self._frames: list[_Frame] = []

    def read(self) -> None:
        self.feed(mask_code(self._text[self._start : self._end]))
        rest, element = self.rawdata, self.cdata_elem
        if element is not None:
            raise fail_at(self._text, self._position(), f"<{element}> without an end")
        if rest.startswith("<") and len(rest) > 1:
            raise fail_at(self._text, self._position(), "the document ends inside a tag or comment")
        self.close()
        self._tokens.append(("edge", self._end, ""))
        self._sort()

    def _position(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _note(self, kind: str, name: str = "") -> None:
        self._tokens.append((kind, self._position(), name))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("open", tag)
        if tag in _RAW_TEXT:
            self.set_cdata_mode(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("selfclosed", tag)

    def handle_endtag(self, tag: str) -> None:
        self._note("close", tag)

    def handle_data(self, data: str) -> None:
        self._note("text")

    def handle_entityref(self, name: str) -> None:
        self._note("text")

    def handle_charref(self, name: str) -> None:
        self._note("text")

    def handle_comment(self, data: str) -> None:
        self._note("comment")

    def handle_decl(self, decl: str) -> None:
        self._note("edge")

    def handle_pi(self, data: str) -> None:
        # What writes a word is part of the sentence.
        is_inline = _PRINTS.match(self._text, self._position()) is not None
        self._note("comment" if is_inline else "edge")

    def unknown_decl(self, data: str) -> None:
        self._note("edge")

    def _sort(self) -> None:
        """Makes parts and edits of the tokens."""
        for (kind, start, name), (_, end, _) in zip(self._tokens, self._tokens[1:], strict=False):
            is_tag = kind in ("open", "selfclosed")
            attributes = read_attributes(self._text, start, end) if is_tag else {}
            is_opening = kind == "open" and not is_void(name)
            if is_opening and name == "p" and self._frames and self._frames[-1].name == "p":
                # A paragraph ends where the next begins.
                self._close(len(self._frames) - 1, start, start)
            if kind == "close":
                ended, is_own = self._find_ended(name)
                self._close(ended, start, end if is_own else start)
                if is_own:
                    continue
            frame = self._frames[-1] if self._frames else None
            is_left = frame is not None and frame.reason[0] != ""
            if frame is not None and is_opening:
                frame.opened[name] += 1
            if is_left and not (is_opening and is_wanted(name, attributes, self._languages)):
                continue
            if frame is not None and is_left:
                frame.opened[name] -= 1
                frame.in_sentence = False
                self._leave(frame, end)
                self._open(name, start, ("", ""))
            else:
                reason = find_reason_to_leave(name, attributes, self._languages)
                if is_opening and reason[0]:
                    if frame is not None:
                        frame.opened[name] -= 1
                    self._open(name, start, reason)
                    continue
                self._add(kind, name, start, end)
            if attributes:
                self.edits += rewrite_languages(attributes, self._languages)
                self.units += read_attribute_units(self._text, name, attributes)
        for frame in self._frames:
            frame.in_sentence = False
        self._close(0, self._end, self._end)

    def _open(self, name: str, start: int, reason: tuple[str, str]) -> None:
        frame = _Frame(name, start, reason, in_sentence=is_inline(name))
        frame.opened[name] = 1
        self._frames.append(frame)

    def _find_ended(self, name: str) -> tuple[int, bool]:
        """Notes a closing tag; returns from which index on it ends frames, and if the first is its.

        Those within the element that is closed end with it.
        """
        for index in range(len(self._frames) - 1, -1, -1):
            frame = self._frames[index]
            if frame.opened[name] > 0:
                frame.opened[name] -= 1
                is_own = name == frame.name and not frame.opened[name]
                return index + (not is_own), is_own
        return len(self._frames), False

    def _close(self, index: int, start: int, end: int) -> None:
        """Ends a frame, and those in it, with a closing tag at a position."""
        while len(self._frames) > index:
            frame = self._frames.pop()
            if frame.reason[0]:
                self._leave(frame, end if len(self._frames) == index else start)
            elif self._frames:
                # What is left goes on.
                self._frames[-1].begin = start

    def _leave(self, frame: "_Frame", end: int) -> None:
        """Notes what is left as it is: a part of a sentence, or a block."""
        visible = read_visible(self._text[frame.begin : end])
        if frame.in_sentence:
            self.parts.append(Part("protected", frame.begin, end, spelled=visible))
        else:
            self.parts.append(Part("edge", frame.begin, end))
        if not (frame.in_sentence and frame.reason[0] == "code") and frame.name not in _UNSEEN:
            text = "".join(each.text for each in visible)
            self.skipped.append((frame.begin, text, *frame.reason))

    def _add(self, kind: str, name: str, start: int, end: int) -> None:
        match kind:
            case "text":
                spelled = read_spelled(self._text[start:end])
                self.parts.append(Part("text", start, end, spelled=spelled))
            case "comment":
                self.parts.append(Part("void", start, end))
            case "open" | "selfclosed" | "close" if is_inline(name):
                if is_void(name):
                    kind = "void"
                elif kind == "selfclosed":
                    # Browsers take `<b/>` for `<b>`.
                    kind = "open"
                is_break = name == "br"
                self.parts.append(Part(kind, start, end, name, is_break=is_break))  # type: ignore[arg-type]
            case _:
                self.parts.append(Part("edge", start, end))


def mask_code(text: str) -> str:
    """Returns a page with the code of its program replaced by as long an instruction of SGML."""
    masked = _CODE_ISLAND.sub(lambda found: f"<?{'x' * (len(found.group()) - 3)}>", text)
    return _UNKNOWN_SECTION.sub("<!x", masked)
