r"""Subtitles: SubRip (.srt) and WebVTT (https://www.w3.org/TR/webvtt1/).

A cue begins at a line of times, and the line before it may be its number. Its text is a unit that
keeps its number of lines. A blank line splits it. If lines begin with a dash, each is another
speaker's and its own unit. If each line has the same tag around it, such as `<i>`, they are one
text in it. Numbers, times, notes, styles and regions stay as they are, and so do tags, including
`{\an8}`.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from mtkit.documents.document import (
    PLAIN,
    Document,
    EscapedText,
    Escapes,
    LanguageCodes,
    Span,
    Token,
    Unit,
    as_written,
)
from mtkit.documents.formats.html_elements import escape_tags, read_spelled
from mtkit.documents.units import MarkupPart, make_units
from mtkit.errors import fail_at
from mtkit.text.xml_tokens import unescape_xml

_TIME = r"\d++(?:[ \t]?:[ \t]?\d++){1,3}(?:[ \t]?[.,][ \t]?\d++)?"
_TIMES = re.compile(rf"[ \t]*+{_TIME}[ \t]*+-->[ \t]*+{_TIME}")
_DAMAGED_TIMES = re.compile(rf"[ \t]*+{_TIME}\D{{1,12}}{_TIME}[ \t]*+")
_NUMBER = re.compile(r"[ \t]*+[-+#]?\d++(?:\.\d*+)?[ \t]*+")
_HEADER = re.compile(r"WEBVTT(?![^ \t\r\n])")
_NOTE = re.compile(r"NOTE(?:[ \t]|\Z)")
_SETTINGS = re.compile(r"(?:STYLE|REGION)[ \t]*+")
_TAG = re.compile(
    r"<rt[^<>\r\n]*+>[^<>\r\n]*+</rt>|<(?P<end>/?)(?P<name>[A-Za-z]*+)[^<>\r\n]*+>"
    r"|\{\\(?P<style>[ibus])(?P<is_on>[01])\}|\{\\[^{}\r\n]*+\}"
)
_LANGUAGE = re.compile(r"Language:[ \t]*+([A-Za-z0-9-]++)[ \t]*+")
_IN_TAG = re.compile(
    r"[ \t]*+(?P<open><(?P<name>[A-Za-z]++)[^<>\r\n]*+>)[^<\r\n]*+(?P<close></(?P=name)>)[ \t]*+"
)
"""A line with a tag around it, and no others."""
_DASH = "[-\u2010\u2013\u2014]"
_SPEAKER = re.compile(
    r"(?:[ \t]|<[^<>\r\n]*+>|\{\\[^{}\r\n]*+\})*+"
    rf"({_DASH}(?:[ \t]++(?!{_DASH}|\s|\Z)|(?!{_DASH}|[\s\d]|\Z)))"
)
"""The dash before a speaker's words."""
_LINE_END = r"(?>\r\n|\n|\r)"
_EMPTY_LINES = re.compile(rf"({_LINE_END})(?:[ \t]*+{_LINE_END})++")


_WEBVTT = Escapes(escape_tags, unescape_xml)


class _Line(NamedTuple):
    """A line without its end, and its start in the document's text."""

    start: int
    text: str
    is_times: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


def read_subtitles(text: str, languages: LanguageCodes) -> Document:
    """Returns subtitles with their cues; the language in a header becomes the target.

    Raises:
        MtkitError: It isn't WebVTT and has no line of times.
    """
    document = Document(text)
    lines = list(_read_lines(text))
    if _HEADER.match(text):
        _read_webvtt(document, lines)
        for line in itertools.takewhile(lambda line: line.text, lines):
            if found := _LANGUAGE.fullmatch(text, line.start, line.end):
                document.edits += languages.rename(found.span(1), found[1])
    elif any(line.is_times for line in lines):
        _read_subrip(document, lines)
    elif text.strip():
        raise fail_at(text, 0, "no cues", "expected: 00:00:01,000 --> 00:00:02,000")
    return document


def _read_lines(text: str) -> Iterator[_Line]:
    """Yields all lines; lone carriage returns end those of a file without line feeds."""
    mark = "\n" if "\n" in text else "\r"
    start = 0
    for line in text.split(mark):
        content = line.removesuffix("\r")
        yield _Line(start, content, "-->" in content and _has_times(content))
        start += len(line) + 1


def _has_times(line: str) -> bool:
    """Checks that a line with an arrow is one of times, in any notation."""
    return _TIMES.match(line) is not None or not any(map(str.isalpha, line))


def _read_subrip(document: Document, lines: Sequence[_Line]) -> None:
    """Adds the cues of SubRip, which end where the next one's number or times begin."""
    # Times with a damaged arrow stay as they are, too.
    lines = [
        line._replace(is_times=line.is_times or bool(_DAMAGED_TIMES.fullmatch(line.text)))
        for line in lines
    ]
    firsts = [index for index, line in enumerate(lines) if line.is_times]
    # If the first cue has a name, cues have names; otherwise only numbers come before times.
    heads = [_find_head(lines, firsts[0], has_names=True)]
    has_names = heads[0] < firsts[0] and not _NUMBER.fullmatch(lines[heads[0]].text)
    heads += [_find_head(lines, first, has_names=has_names) for first in firsts[1:]]
    _skip_lines(document, lines[: heads[0]])
    for first, end in zip(firsts, [*heads[1:], len(lines)], strict=True):
        _read_cue(document, lines[first + 1 : end], is_webvtt=False)


def _find_head(lines: Sequence[_Line], times: int, *, has_names: bool) -> int:
    """Returns the first line of a cue: its number or name before its times, or the times."""
    before = lines[times - 1] if times else None
    if before is None or before.is_times:
        return times
    is_alone = times < 2 or lines[times - 2].is_blank
    if _NUMBER.fullmatch(before.text) or (has_names and is_alone and not before.is_blank):
        return times - 1
    return times


def _read_webvtt(document: Document, lines: Sequence[_Line]) -> None:
    """Adds the cues of WebVTT, whose blocks end at empty lines and lines of times."""
    in_header, has_cues = True, False
    for is_empty, group in itertools.groupby(lines, lambda line: not line.text):
        if is_empty:
            continue
        block = list(group)
        firsts = [index for index, line in enumerate(block) if line.is_times]
        if not firsts or firsts[0] > 1:
            rest = block[: firsts[0] if firsts else None]
            is_settings = not has_cues and _SETTINGS.fullmatch(block[0].text)
            if not (in_header or is_settings or _NOTE.match(block[0].text)):
                _skip_lines(document, rest)
        ends = [
            index - (index - 1 > first and _NUMBER.fullmatch(block[index - 1].text) is not None)
            for first, index in itertools.pairwise(firsts)
        ]
        for first, end in zip(firsts, [*ends, len(block)][: len(firsts)], strict=True):
            _read_cue(document, block[first + 1 : end], is_webvtt=True)
            has_cues = True
        in_header = False


def _skip_lines(document: Document, lines: Sequence[_Line]) -> None:
    """Records text outside cues, block by block."""
    for is_blank, group in itertools.groupby(lines, lambda line: line.is_blank):
        block = list(group)
        if not is_blank:
            text = document.text[block[0].start : block[-1].end]
            document.skip(block[0].start, text, "outside of cues")


def _read_cue(document: Document, lines: Sequence[_Line], *, is_webvtt: bool) -> None:
    """Adds the units of a cue's lines."""
    escapes = _WEBVTT if is_webvtt else PLAIN
    for is_blank, group in itertools.groupby(lines, lambda line: line.is_blank):
        if is_blank:
            continue
        parts = _read_parts(document.text, list(group), is_webvtt=is_webvtt)
        document.units += [
            dataclasses.replace(unit, join=functools.partial(_join, document.text, unit, is_webvtt))
            for unit in make_units(parts, escapes, keeps_breaks=True)
        ]


def _join(text: str, unit: Unit, is_webvtt: bool, tokens: Sequence[Token]) -> str:
    """Returns a unit's translation without empty lines, and without an arrow in WebVTT."""
    # A line with an arrow would begin a cue.
    source = text[unit.start : unit.end]
    raw = "".join(token.raw for token in tokens)
    if raw == source:
        return raw
    if is_webvtt and "-->" in raw:
        raw = "".join(
            "".join(token.raw for token in run).replace("-->", "--&gt;" if is_text else "-->")
            for is_text, run in itertools.groupby(tokens, lambda token: token.kind == "text")
        )
    return _EMPTY_LINES.sub(r"\1", raw)


def _read_parts(text: str, lines: Sequence[_Line], *, is_webvtt: bool) -> list[MarkupPart]:
    """Returns the parts of adjacent lines."""
    parts: list[MarkupPart] = []
    done, end = lines[0].start, lines[-1].end
    speakers = (_SPEAKER.match(text, line.start, line.end) for line in lines)
    marks = [MarkupPart("edge", *found.span(1)) for found in speakers if found]
    marks = marks or [
        MarkupPart("text", *seam, spelled=(EscapedText(" ", text[slice(*seam)]),))
        for seam in _find_seams(text, lines)
    ]
    marks += map(_read_tag, _TAG.finditer(text, done, end))
    for mark in [*sorted(marks, key=lambda each: each.start), MarkupPart("edge", end, end)]:
        if mark.start < done:
            # A tag at a seam.
            continue
        if done < mark.start:
            raw = text[done : mark.start]
            spelled = read_spelled(raw) if is_webvtt else as_written(raw)
            parts.append(MarkupPart("text", done, mark.start, spelled=spelled))
        parts.append(mark)
        done = mark.end
    return parts[:-1]


def _read_tag(found: re.Match[str]) -> MarkupPart:
    """Returns a tag, a style that is turned on or off, or what stays as it is."""
    name, style = (found["name"] or "").lower(), found["style"]
    kind: Literal["open", "close"] = "close" if found["end"] or found["is_on"] == "0" else "open"
    name = f"{{{style}" if style else name
    return MarkupPart(kind, *found.span(), name) if name else MarkupPart("void", *found.span())


def _find_seams(text: str, lines: Sequence[_Line]) -> list[Span]:
    """Returns where lines with the same tag around them meet: `</i>` to `<i>`."""
    found = [_IN_TAG.fullmatch(text, line.start, line.end) for line in lines]
    tags = {None if line is None else line["open"] for line in found}
    if None in tags or len(tags) > 1:
        return []
    return [
        (one.start("close"), other.end("open"))
        for one, other in itertools.pairwise(filter(None, found))
    ]
