r"""HTML in strings that a format escapes: `<b>Start<\/b>`, `\u003cp\u003e`, `&lt;b&gt;`, CDATA.

A format's reader decodes a string into parts, each character with its spelling. Tags are found in
the decoded text and get the positions of their characters. Other elements than HTML's count if they
are closed, as a program's components are, `<bold>...</bold>`: `<file>` in a usage line is text.
"""

import bisect
import html
import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from mtkit.documents.document import (
    Document,
    EscapedText,
    Escapes,
    LanguageCodes,
    Span,
    Unit,
    as_written,
)
from mtkit.documents.formats.html_elements import (
    escape_tags,
    find_reason_to_leave,
    is_element,
    is_inline,
    is_void,
    read_attributes,
)
from mtkit.documents.units import MarkupPart, make_units, protect

_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9-]*+)(?:[\s/](?:[^<>"']++|"[^"]*+"|'[^']*+')*+)?+>"""
    r"|<!--(?:(?!-->).)*+-->",
    re.DOTALL,
)
_COMPONENT = re.compile(r"[A-Z]\w*[a-z]\w*", re.ASCII)
"""Name of a component of JSX."""
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_LEFT = {
    "ICU plural": re.compile(
        r".*?\{\s{0,8}[\w.-]{1,64}\s{0,8},\s{0,8}(?:plural|select|selectordinal)\s{0,8},.*",
        re.DOTALL,
    ),
    "identifier": re.compile(
        r":[a-z_]\w*+|\#[0-9a-fA-F]{3,8}|[a-z]{2}-[A-Z]{2}"  # :month, #ff0000, en-US
        r"|[A-Za-z0-9]++(?:_[A-Za-z0-9]++)++|[a-z0-9]++(?:[A-Z][a-z0-9]++)++"  # a_name, aName
        r"|[a-z0-9_-]++(?:\.[a-z0-9_-]++)++",  # a.key
        re.ASCII,
    ),
}
"""Strings that stay, by the reason: a whole text that is a sentence for each number, and names."""
_OBJECT = "\ufffc"
"""Replaces the format's own tags in the decoded text."""
_MAX_SEARCHED = 100
"""Maximum open tags among which a closing one searches its partner."""


class _Tag(NamedTuple):
    """A tag in the decoded text, and the start of its partner, or -1.

    A component is an element of a program, and part of a sentence.
    """

    start: int
    end: int
    name: str
    is_closing: bool
    is_component: bool = False
    partner: int = -1

    @property
    def is_inline(self) -> bool:
        """Whether it is part of a sentence."""
        return self.is_component or is_inline(self.name)


class _Character(NamedTuple):
    """A decoded character, its span in the document, and its part unless that is text."""

    text: str
    start: int
    end: int
    part: MarkupPart | None = None


def make_string_units(
    document: Document,
    parts: Sequence[MarkupPart],
    escapes: Escapes,
    languages: LanguageCodes,
    *,
    keeps_breaks: bool = False,
) -> list[Unit]:
    """Returns the units of a string; HTML tags and entities in it stay unchanged.

    `parts` are the decoded string in order: texts, edges at line ends, tags of the format. With
    `keeps_breaks`, lines are one text that keeps its line breaks. Otherwise each line is a text,
    unless HTML blocks define where texts end.
    """
    text = document.text
    decoded = "".join(each.text for part in parts for each in part.spelled)
    for reason, pattern in _LEFT.items():
        if pattern.fullmatch(decoded):
            document.skip(parts[0].start, decoded, reason)
            return []
    if "<" not in decoded and "&" not in decoded:
        parts = [_as_space(text, part) for part in parts] if keeps_breaks else parts
        return make_units(parts, escapes, keeps_breaks=keeps_breaks)
    characters = _list_characters(text, parts)
    tags = _find_tags("".join(each.text for each in characters))
    joins_lines = keeps_breaks or any(tag.name and not tag.is_inline for tag in tags)
    is_html = any(
        not tag.is_component and (tag.partner >= 0 or tag.is_closing or is_void(tag.name))
        for tag in tags
    )
    reader = _Reader(document, characters, languages, joins_lines=joins_lines, is_html=is_html)
    parts = reader.read(tags)
    if is_html:
        escapes = _write_as_html(escapes)
    return make_units(parts, escapes, keeps_breaks=keeps_breaks)


def _write_as_html(escapes: Escapes) -> Escapes:
    """Returns the escapes of HTML text inside a format's string."""
    read = escapes.read
    return Escapes(
        lambda text: escapes.escape(escape_tags(text)),
        None if read is None else lambda raw: html.unescape(read(raw)),
    )


def copy_units(
    text: str,
    units: Sequence[Unit],
    spans: Sequence[Span],
    output: Span,
    edges: tuple[str, str] = ("", ""),
) -> list[Unit]:
    """Returns a string's units, whose translations are written elsewhere as one string.

    `spans` are those of the string in the document; `edges` are written around its translation.
    """
    if not units:
        return []
    starts = [start for start, _ in spans]

    def cut(first: int, last: int) -> str:
        begin = max(0, bisect.bisect_right(starts, first) - 1)
        inside = itertools.takewhile(lambda span: span[0] < last, spans[begin:])
        return "".join(text[max(start, first) : min(end, last)] for start, end in inside)

    copied = []
    ends = [*(unit.start for unit in units[1:]), spans[-1][1]]
    for index, (unit, end) in enumerate(zip(units, ends, strict=True)):
        is_first, is_last = index == 0, index == len(units) - 1
        start, stop = output if is_first else (output[1], output[1])
        copied.append(
            replace(
                unit,
                start=start,
                end=stop,
                output=(start, stop),
                before=edges[0] + cut(spans[0][0], unit.start) if is_first else "",
                after=cut(unit.end, end) + (edges[1] if is_last else ""),
                follows=not is_first,
            )
        )
    return copied


def _as_space(text: str, part: MarkupPart) -> MarkupPart:
    """Returns a part of a text in which a line's end is space."""
    if part.kind != "edge":
        return part
    return part._replace(kind="text", spelled=(EscapedText("\n", text[part.start : part.end]),))


def _list_characters(text: str, parts: Sequence[MarkupPart]) -> list[_Character]:
    characters: list[_Character] = []
    for part in parts:
        if part.kind != "text":
            shown = "\n" if part.kind == "edge" else _OBJECT
            characters.append(_Character(shown, part.start, part.end, part))
            continue
        position = part.start
        for value, raw in part.spelled:
            if value == raw:
                characters += [
                    _Character(each, index, index + 1) for index, each in enumerate(value, position)
                ]
            else:
                end = position + len(raw)
                characters += [_Character(each, position, end) for each in value]
            position += len(raw)
    return characters


def _find_tags(decoded: str) -> list[_Tag]:
    """Returns the tags of elements, and comments, with their partners."""
    tags: list[_Tag] = []
    opened: list[int] = []
    # HTML's own `<link>` has no closing tag.
    has_links = "</link>" in decoded
    for found in _TAG.finditer(decoded):
        written = found["name"] or ""
        name = written.lower()
        is_component = name != "" and (
            not (is_element(name) or "-" in name)
            or _COMPONENT.fullmatch(written) is not None
            or (has_links and name == "link")
        )
        index = len(tags)
        tags.append(_Tag(*found.span(), name, bool(found["end"]), is_component))
        is_void_tag = is_void(name) and not is_component
        if not name or is_void_tag or decoded[found.end() - 2] == "/":
            continue
        if not found["end"]:
            opened.append(index)
            continue
        for depth in range(len(opened) - 1, max(-1, len(opened) - 1 - _MAX_SEARCHED), -1):
            if tags[opened[depth]].name == name:
                partner = opened[depth]
                del opened[depth:]
                tags[index] = tags[index]._replace(partner=tags[partner].start)
                tags[partner] = tags[partner]._replace(partner=found.start())
                break
    # `<file>` or `<file-name>` alone is a placeholder's name.
    return [tag for tag in tags if not _is_name(tag, decoded)]


def _is_name(tag: _Tag, decoded: str) -> bool:
    if tag.is_component:
        return tag.partner < 0 and decoded[tag.end - 2] != "/"
    is_bare = tag.end - tag.start == len(tag.name) + 2
    return "-" in tag.name and is_bare and tag.partner < 0


class _Reader:
    """Makes parts of a decoded string."""

    # `joins_lines`: a line's end is space in a text. `is_html`: the string is certainly HTML.

    def __init__(
        self,
        document: Document,
        characters: Sequence[_Character],
        languages: LanguageCodes,
        *,
        joins_lines: bool,
        is_html: bool,
    ) -> None:
        self._document, self._text, self._languages = document, document.text, languages
        self._characters, self._joins_lines, self._is_html = characters, joins_lines, is_html
        self._decoded = "".join(each.text for each in characters)
        self._parts: list[MarkupPart] = []
        self._spelled: list[EscapedText] = []
        self._span = (0, 0)
        """The span of the current text in the document."""

    def read(self, tags: Sequence[_Tag]) -> list[MarkupPart]:
        done = 0
        ends = {tag.start: tag.end for tag in tags}
        for tag in tags:
            if tag.start < done:
                # In an untranslated element.
                continue
            self._read_text(done, tag.start)
            attributes = read_attributes(self._decoded, tag.start, tag.end)
            reason, detail = find_reason_to_leave(tag.name, attributes, self._languages)
            if tag.partner > tag.start and reason:
                done = ends[tag.partner]
                visible = html.unescape(_TAG.sub("", self._decoded[tag.start : done]))
                kind: Literal["protected", "edge"] = "protected" if tag.is_inline else "edge"
                part = MarkupPart(kind, *self._locate(tag.start, done), spelled=as_written(visible))
                if kind == "edge" or reason != "code":
                    self._document.skip(part.start, visible, reason, detail)
            else:
                part, done = self._make_part(tag), tag.end
            self._parts.append(part)
        self._read_text(done, len(self._characters))
        return self._parts

    def _make_part(self, tag: _Tag) -> MarkupPart:
        span = self._locate(tag.start, tag.end)
        if tag.name and not tag.is_inline:
            return MarkupPart("edge", *span)
        if tag.partner >= 0:
            return MarkupPart("close" if tag.is_closing else "open", *span, tag.name)
        raw = self._decoded[tag.start : tag.end]
        is_bare = tag.name and not is_void(tag.name) and raw.lower() == f"<{tag.name}>"
        if is_bare and not self._is_html:
            # It may be a placeholder's name: `mv <s> <t>`.
            return protect(span, raw)
        return MarkupPart("void", *span, tag.name, is_break=tag.name == "br")

    def _locate(self, start: int, end: int) -> Span:
        return self._characters[start].start, self._characters[end - 1].end

    def _read_text(self, start: int, end: int) -> None:
        """Adds parts for a range of the decoded text without tags."""
        entities = {each.start(): each for each in _ENTITY.finditer(self._decoded, start, end)}
        while start < end:
            character = self._characters[start]
            entity = entities.get(start)
            following = start + 1
            if character.part is not None:
                self._end_text()
                part = character.part
                self._parts.append(_as_space(self._text, part) if self._joins_lines else part)
            elif entity is not None and html.unescape(entity.group()) != entity.group():
                following = entity.end()
                self._add(html.unescape(entity.group()), *self._locate(start, following))
            else:
                while following < end and self._continues(following, entities):
                    following += 1
                self._add(self._decoded[start:following], *self._locate(start, following))
            start = following
        self._end_text()

    def _continues(self, index: int, entities: Collection[int]) -> bool:
        """Checks that a character has the same escape as the one before, or none."""
        before, character = self._characters[index - 1], self._characters[index]
        if character.part is not None or index in entities:
            return False
        if (character.start, character.end) == (before.start, before.end):
            return True
        return character.start == before.end and all(
            self._text[each.start : each.end] == each.text for each in (before, character)
        )

    def _add(self, value: str, start: int, end: int) -> None:
        begin = self._span[0] if self._spelled else start
        self._spelled.append(EscapedText(value, self._text[start:end]))
        self._span = (begin, end)

    def _end_text(self) -> None:
        if self._spelled:
            self._parts.append(MarkupPart("text", *self._span, spelled=tuple(self._spelled)))
            self._spelled = []
