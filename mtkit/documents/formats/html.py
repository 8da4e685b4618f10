"""HTML: blocks and inline tags by the positions of Python's tokenizer in the text."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from mtkit.documents.document import Document, Edit, LanguageCodes, Span, Unit
from mtkit.documents.formats.html_elements import (
    HTML_TEXT,
    RUBY_TEXT,
    TEXT_ATTRIBUTES,
    Attributes,
    find_reason_to_leave,
    is_element,
    is_inline,
    is_void,
    is_wanted,
    read_attribute_units,
    read_attributes,
    read_spelled,
    read_visible,
    rewrite_languages,
)
from mtkit.documents.units import MarkupPart, make_units, protect
from mtkit.errors import fail_at
from mtkit.text.words import replace_spans
from mtkit.text.xml_tokens import MAX_DEPTH

_RAW_TEXT = ("title", "textarea")
_UNSEEN = frozenset(("applet", "audio", "canvas", "embed", "iframe", "script", "style", "template"))
"""Elements without visible text."""
_CODE_ISLAND = re.compile(
    r"<\?(?=php\b|=|\s)(?:(?!\?>).)*+(?:\?>|\Z)|<%(?:(?!%>).)*+%>|\{\u2e35{2,}+"
    r"|\{{2,3}[^{}]{1,500}\}{2,3}|\{%[^{}]{1,500}%\}|\{\#[^{}]{1,500}\#\}",
    re.DOTALL,
)
"""Code of a page's program: `<?php ... ?>`, `<%= ... %>`, `{{ a }}`, `{% if a %}`, `{# note #}`.

In Markdown it is masked.
"""
_ODD_COMMENT = re.compile(r"<!--(?:-?>)")
_TAG_OPENING = re.compile(r"<[A-Za-z/]")
_UNKNOWN_SECTION = re.compile(
    r"<!\[(?!(?:cdata|rcdata|temp|ignore|include|if|else|endif)\b)", re.IGNORECASE
)
"""Start of a section that Python's tokenizer fails at; to browsers it is a comment."""
_PRINTS = re.compile(r"<\?=|<\?php\s++echo\b|<%[=-]|\{(?!%)")
"""Start of code within a sentence: it prints text, or is a comment."""


def read_html(text: str, languages: LanguageCodes) -> Document:
    """Returns a page, or a piece of one, with its units.

    Raises:
        MtkitError: It ends inside a tag, comment or script, or is nested too deeply.
    """
    document = Document(text)
    read_html_part(document, (0, len(text)), languages)
    return document


def read_html_part(
    document: Document, span: Span, languages: LanguageCodes, masked: str = ""
) -> None:
    """Adds the units and edits of a part of a document that is HTML.

    `masked` is its text if templates in it are masked.

    Raises:
        MtkitError: As `read_html`; nothing has been added.
    """
    reader = _Reader(document.text, span, languages, masked)
    reader.read()
    document.units += [*reader.units, *make_units(reader.parts, HTML_TEXT)]
    document.edits += reader.edits
    for skipped in reader.skipped:
        document.skip(*skipped)


@dataclass
class _Frame:
    """An open element that is left untranslated, or a translated one inside it."""

    # `begin` is where the untranslated text begins. `reason` is as in `find_reason_to_leave`; empty
    # if it is translated. `opened` counts open elements inside by name, including itself.

    name: str
    begin: int
    reason: tuple[str, str]
    in_sentence: bool = False
    opened: Counter[str] = field(default_factory=Counter)

    def is_ended_by(self, name: str) -> bool:
        """Checks whether another element's beginning ends this one (HTML, 13.1.2.4)."""
        if self.name == "p":
            return is_element(name) and not is_inline(name)
        enders, holders = _ENDED_BY.get(self.name, ((), ()))
        return name in enders and not any(self.opened[each] for each in holders)


_ROWS = ("tr", "tbody", "tfoot", "thead")
_ENDED_BY: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "p": ((), ()),
    "li": (("li",), ("ul", "ol", "menu")),
    **dict.fromkeys(("dt", "dd"), (("dt", "dd"), ("dl",))),
    "option": (("option", "optgroup"), ("select",)),
    "optgroup": (("optgroup",), ("select",)),
    "tr": (_ROWS, ("table",)),
    **dict.fromkeys(("td", "th"), (("td", "th", *_ROWS), ("table",))),
    **dict.fromkeys(("tbody", "tfoot", "thead"), (("tbody", "tfoot", "thead"), ("table",))),
}
"""By element: those that end it when they begin, unless one of the others is open inside it."""


class _Reader(HTMLParser):
    """Collects tokens with their positions; a token ends where the next begins."""

    def __init__(self, text: str, span: Span, languages: LanguageCodes, masked: str) -> None:
        super().__init__(convert_charrefs=False)
        self.units: list[Unit] = []
        self.edits: list[Edit] = []
        self.parts: list[MarkupPart] = []
        self.skipped: list[tuple[int, str, str, str]] = []
        self._text, self._languages = text, languages
        self._start, self._end = span
        ends = re.compile("\n").finditer(text, *span)
        self._lines = [self._start, *(found.end() for found in ends)]
        self._tokens: list[tuple[str, int, str]] = []
        self._frames = [_Frame("", self._start, ("", ""))]
        """The page, and open elements that start or end an untranslated part."""
        self._given = masked or text[slice(*span)]
        self._masked = mask_code(self._given)

    def read(self) -> None:
        self.feed(self._masked)
        rest, element = self.rawdata, self.cdata_elem
        if element is not None:
            raise fail_at(self._text, self._position(), f"unclosed <{element}>")
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

    handle_entityref = handle_charref = handle_data  # type: ignore[assignment]

    def handle_comment(self, data: str) -> None:
        self._note("comment")

    def handle_decl(self, decl: str) -> None:
        self._note("edge")

    unknown_decl = handle_decl  # type: ignore[assignment]

    def handle_pi(self, data: str) -> None:
        # Code that prints a word is part of the sentence.
        start = self._position()
        is_inline = _PRINTS.match(self._text, start) is not None
        is_name = self._text.startswith("{{", start)
        self._note("name" if is_name else "comment" if is_inline else "edge")

    def _sort(self) -> None:
        """Turns tokens into parts and edits."""
        for (kind, start, name), (_, end, _) in zip(self._tokens, self._tokens[1:], strict=False):
            is_tag = kind in ("open", "selfclosed")
            is_opening = kind == "open" and not is_void(name)
            attributes = self._read_attributes(start, end) if is_tag else {}
            while is_tag and self._frames[-1].is_ended_by(name):
                self._close(len(self._frames) - 1, start, start)
            if kind == "close":
                ended, is_own = self._find_ended(name)
                self._close(ended, start, end if is_own else start)
                if is_own:
                    continue
            frame = self._frames[-1]
            is_wanted_here = is_opening and is_wanted(name, attributes, self._languages)
            if frame.reason[0] and not is_wanted_here:
                frame.opened[name] += is_opening
                continue
            if frame.reason[0]:
                frame.in_sentence = False
                self._leave(frame, end)
                self._open(name, start, ("", ""))
            else:
                reason = find_reason_to_leave(name, attributes, self._languages)
                if is_opening and reason[0]:
                    self._open(name, start, reason)
                    if reason[0] in ("code", "in unsupported elements"):
                        self._read_tag(name, attributes)
                    continue
                frame.opened[name] += is_opening
                self._add(kind, name, start, end)
            self.edits += rewrite_languages(self._text, attributes, self._languages)
            self._read_tag(name, attributes)
        for frame in self._frames:
            frame.in_sentence = False
        self._close(1, self._end, self._end)

    def _read_attributes(self, start: int, end: int) -> Attributes:
        """Returns a tag's attributes without those that contain code, which stay."""
        shift = self._start
        attributes = {}
        found = read_attributes(self._masked, start - shift, end - shift)
        for key, ((first, last), value) in found.items():
            span = (first + shift, last + shift)
            if self._masked[first:last] == self._text[slice(*span)]:
                attributes[key] = (span, value)
            elif key in TEXT_ATTRIBUTES:
                raw = _CODE_ISLAND.sub("", self._given[first:last])
                self.skipped.append((span[0], raw, "next to program code", key))
        return attributes

    def _read_tag(self, name: str, attributes: Attributes) -> None:
        if attributes:
            self.units += read_attribute_units(self._text, name, attributes)

    def _open(self, name: str, start: int, reason: tuple[str, str]) -> None:
        if len(self._frames) > MAX_DEPTH:
            fault = f"more than {MAX_DEPTH:,} nested translate marks"
            raise fail_at(self._text, start, fault)
        frame = _Frame(name, start, reason, in_sentence=is_inline(name))
        frame.opened[name] = 1
        self._frames.append(frame)

    def _find_ended(self, name: str) -> tuple[int, bool]:
        """Returns the first frame that a closing tag ends, and whether the tag is that frame's."""
        for index in range(len(self._frames) - 1, -1, -1):
            frame = self._frames[index]
            if index == 0 and (is_inline(name) or name in _ENDED_BY):
                # Many elements are never closed.
                break
            if frame.opened[name] > 0:
                frame.opened[name] -= 1
                is_own = name == frame.name and not frame.opened[name]
                return index + (not is_own), is_own
        return len(self._frames), False

    def _close(self, index: int, start: int, end: int) -> None:
        """Ends frames from an index on, with a closing tag at a position."""
        while len(self._frames) > index:
            frame = self._frames.pop()
            if frame.reason[0]:
                self._leave(frame, end if len(self._frames) == index else start)
            else:
                # The untranslated part continues.
                self._frames[-1].begin = start

    def _leave(self, frame: "_Frame", end: int) -> None:
        """Records an untranslated part of a sentence, or an untranslated block."""
        visible = read_visible(self._text[frame.begin : end])
        if frame.name in RUBY_TEXT:
            self.parts.append(MarkupPart("void", frame.begin, end))
        elif frame.in_sentence:
            self.parts.append(MarkupPart("protected", frame.begin, end, spelled=visible))
        else:
            self.parts.append(MarkupPart("edge", frame.begin, end))
        is_word = frame.in_sentence and frame.reason[0] == "code"
        if not is_word and frame.name not in _UNSEEN:
            text = "".join(each.text for each in visible)
            self.skipped.append((frame.begin, text, *frame.reason))

    def _add(self, kind: str, name: str, start: int, end: int) -> None:
        match kind:
            case "text":
                spelled = read_spelled(self._text[start:end])
                if spelled and _is_apart(self.parts, spelled[0].text):
                    edge = self.parts[-1].start
                    self.parts.insert(-1, MarkupPart("edge", edge, edge))
                self.parts.append(MarkupPart("text", start, end, spelled=spelled))
            case "name":
                self.parts.append(protect((start, end), self._text[start:end]))
            case "comment":
                self.parts.append(MarkupPart("void", start, end))
            case "open" | "selfclosed" | "close" if is_inline(name):
                if is_void(name):
                    kind = "void"
                elif kind == "selfclosed":
                    # Browsers read `<b/>` as `<b>`.
                    kind = "open"
                is_break = name == "br"
                self.parts.append(MarkupPart(kind, start, end, name, is_break=is_break))  # type: ignore[arg-type]
            case _:
                self.parts.append(MarkupPart("edge", start, end))


def _is_apart(parts: Sequence[MarkupPart], text: str) -> bool:
    """Checks that only CSS separates a text from the one before it: both are in inline elements.

    Such are the links of a menu, and elements between which a capital letter follows a small one.
    """
    if [each.kind for each in parts[-3:]] != ["text", "close", "open"]:
        return False
    before, after = "".join(each.text for each in parts[-3].spelled[-1:])[-1:], text[:1]
    if parts[-2].name == parts[-1].name == "a":
        return before.isalnum() and after.isalnum()
    return (before.islower() or before.isdigit()) and after.isupper()


def mask_code(text: str) -> str:
    """Returns a page with its program code replaced by as many characters.

    Outside tags the replacement is an SGML instruction, in a tag a word. Empty comments, and
    sections that Python's tokenizer fails at, become comments that it knows.
    """
    text = _ODD_COMMENT.sub(lambda found: f"<!{'x' * (len(found.group()) - 3)}>", text)
    text = _UNKNOWN_SECTION.sub("<!x", text)
    edits: list[tuple[Span, str]] = []
    done = 0
    in_tag = False
    for found in _CODE_ISLAND.finditer(text):
        before = text[done : found.start()]
        opened = max((each.start() for each in _TAG_OPENING.finditer(before)), default=-1)
        closed = before.rfind(">")
        in_tag = opened > closed if max(opened, closed) >= 0 else in_tag
        length, done = found.end() - found.start(), found.end()
        edits.append((found.span(), "x" * length if in_tag else f"<?{'x' * (length - 3)}>"))
    return replace_spans(text, edits)
