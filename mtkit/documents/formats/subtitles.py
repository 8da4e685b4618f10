r"""Subtitles: SubRip (.srt) and WebVTT (https://www.w3.org/TR/webvtt1/).

Each cue's text is a unit, with as many lines in translation as before; where lines begin with a
dash, each is another speaker's and a unit of its own. Where each line stands in the same tag by
itself, `<i>`, it is one text in it. Identifiers, times, notes, styles and regions stay as they are,
and so do tags, `{\an8}` among them.
"""

import itertools
import re
from typing import Literal

from mtkit.documents.document import PLAIN, Document, Escapes, Languages, Span, Spelled, fail_at
from mtkit.documents.formats.html_elements import read_spelled
from mtkit.documents.units import Part, make_units
from mtkit.documents.xml_tokens import unescape_xml

_BLOCK = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_TIMES = re.compile(
    r"^[ \t]*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}[ \t]*-->[ \t]*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}.*$",
    re.MULTILINE,
)
_TAG = re.compile(r"<(/?)([A-Za-z]*)[^<>\n]*>|\{\\[^{}\n]*\}")
_LINE = re.compile(r"[^\n]+")
_IN_TAG = re.compile(
    r"[ \t]*+(?P<open><(?P<name>[A-Za-z]++)[^<>\n]*+>)[^<\n]*+(?P<close></(?P=name)>)[ \t]*+\r?"
)
"""A line that stands in a tag by itself, and has no others."""
_DASH = "[-\u2010\u2013\u2014]"
_SPEAKER = re.compile(
    r"(?:^|(?<=\n))(?:[ \t]|<[^<>\n]*>|\{\\[^{}\n]*\})*"
    rf"({_DASH}(?:[ \t]+(?!{_DASH}|\s)|(?!{_DASH}|[\s\d])))"
)
"""The dash in front of what a speaker says."""
_OTHERS = ("WEBVTT", "NOTE", "STYLE", "REGION")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


_WEBVTT = Escapes(_escape, unescape_xml)
_SUBRIP = PLAIN


def read_subtitles(text: str, _: Languages) -> Document:
    """Returns subtitles with their cues.

    Raises:
        MtkitError: A block has no line of times.
    """
    document = Document(text)
    is_webvtt = text.startswith("WEBVTT")
    if text.strip() and not _TIMES.search(text) and not is_webvtt:
        raise fail_at(text, 0, "no cue in it", "expected: 00:00:01,000 --> 00:00:02,000")
    for block in _BLOCK.finditer(text):
        if is_webvtt and block.group().startswith(_OTHERS):
            continue
        times = _TIMES.search(text, block.start(), block.end())
        if times is None or text.count("\n", block.start(), times.start()) > 1:
            raise fail_at(
                text,
                block.start(),
                "a block without times",
                "expected: 00:00:01,000 --> 00:00:02,000",
            )
        parts = _read_cue(text, times.end(), block.end(), is_webvtt=is_webvtt)
        escapes = _WEBVTT if is_webvtt else _SUBRIP
        document.units += make_units(parts, escapes, keeps_breaks=True)
    return document


def _read_cue(text: str, start: int, end: int, *, is_webvtt: bool) -> list[Part]:
    parts: list[Part] = []
    # The line of times stays whatever comes first in the cue.
    done = start = start + text[start:end].find("\n") + 1
    dashes = [found.span(1) for found in _SPEAKER.finditer(text[:end], start)]

    def add_text(first: int, last: int) -> None:
        for dash in (*(each for each in dashes if first <= each[0] < last), (last, last)):
            if first < dash[0]:
                raw = text[first : dash[0]]
                spelled = read_spelled(raw) if is_webvtt else (Spelled(raw, raw),)
                parts.append(Part("text", first, dash[0], spelled=spelled))
            if dash[0] < dash[1]:
                parts.append(Part("edge", *dash))
            first = dash[1]

    seams = {} if dashes else dict(_find_seams(text, start, end))
    for found in _TAG.finditer(text, start, end):
        if found.start() < done:
            # The second tag of a seam.
            continue
        add_text(done, found.start())
        if found.start() in seams:
            done = seams[found.start()]
            space = Spelled(" ", text[found.start() : done])
            parts.append(Part("text", found.start(), done, spelled=(space,)))
            continue
        done = found.end()
        name = (found.group(2) or "").lower()
        if not name:
            parts.append(Part("void", found.start(), done))
        else:
            kind: Literal["open", "close"] = "close" if found.group(1) else "open"
            parts.append(Part(kind, found.start(), done, name))
    add_text(done, end)
    return parts


def _find_seams(text: str, start: int, end: int) -> list[Span]:
    """Returns where lines meet that stand in the same tag, each by itself: `</i>` to `<i>`."""
    lines = [_IN_TAG.fullmatch(text, *line.span()) for line in _LINE.finditer(text, start, end)]
    tags = {None if line is None else line["open"] for line in lines}
    if None in tags or len(tags) > 1:
        return []
    return [
        (one.start("close"), other.end("open"))
        for one, other in itertools.pairwise(filter(None, lines))
    ]
