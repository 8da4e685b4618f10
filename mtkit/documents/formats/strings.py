"""Strings of programs: gettext's PO files and JSON."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from mtkit.documents.document import (
    Document,
    Escapes,
    Languages,
    Node,
    Span,
    Spelled,
    Unit,
    fail_at,
)
from mtkit.documents.formats.string_tags import find_string_tags
from mtkit.documents.units import Part, make_units
from mtkit.errors import MtkitError

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?')


def read_json_strings(text: str, _: Languages) -> Document:
    """Returns JSON with its strings; names of members stay as they are.

    Raises:
        MtkitError: It is no JSON.
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise MtkitError(f"line {error.lineno}: invalid JSON: {error.msg}") from error
    except RecursionError as error:
        raise MtkitError("invalid JSON: nested too deeply") from error
    except ValueError as error:
        raise MtkitError(f"invalid JSON: {error}") from error
    document = Document(text)
    is_ascii = text.isascii()

    def escape(value: str) -> str:
        return json.dumps(value, ensure_ascii=is_ascii)[1:-1]

    for found in _JSON_STRING.finditer(text):
        if found.group(1) is None:
            parts = _read_string(text, [(found.start() + 1, found.end() - 1)])
            document.units += make_units(parts, Escapes(escape))
    return document


def _read_string(text: str, spans: Sequence[Span]) -> list[Part]:
    """Returns the text and the tags of a string that is written in some spans."""
    pending = find_string_tags(text, spans)[::-1]
    parts: list[Part] = []
    for start, end in spans:
        done = start
        while pending and pending[-1].start < end:
            tag = pending.pop()
            parts += [*_split_lines(text, done, tag.start), tag]
            done = tag.end
        parts += _split_lines(text, done, end)
    return parts


def _split_lines(text: str, start: int, end: int) -> list[Part]:
    r"""Returns a string's lines; an escaped newline within a sentence is a space in it."""
    parts: list[Part] = []
    done = start
    spelled: list[Spelled] = []
    for found in _ESCAPE.finditer(text, start, end):
        if found.start() < done:
            continue
        if done < found.start():
            spelled.append(Spelled(text[done : found.start()], text[done : found.start()]))
        raw = found.group()
        done = found.end()
        if raw[1] == "u" and 0xD800 <= int(raw[2:], 16) < 0xDC00:
            second = _ESCAPE.match(text, done, end)
            if second is not None and second.group()[1] == "u":
                raw += second.group()
                done = second.end()
        value = _read_escape(raw)
        if value in ("\n", "\r"):
            parts += [_as_text(spelled, start, found.start()), Part("edge", found.start(), done)]
            spelled, start = [], done
        else:
            spelled.append(Spelled(value, raw))
    if done < end:
        spelled.append(Spelled(text[done:end], text[done:end]))
    return [*parts, _as_text(spelled, start, end)]


def _as_text(spelled: list[Spelled], start: int, end: int) -> Part:
    return Part("text", start, end, spelled=tuple(spelled))


def _read_escape(raw: str) -> str:
    try:
        value = json.loads(f'"{raw}"')
    except ValueError:
        return raw
    return str(value)


class _Entry(NamedTuple):
    """A keyword of a message with its strings."""

    keyword: str
    strings: list[Span]
    number: int
    """Of the message."""


def read_po(text: str, _: Languages) -> Document:
    """Returns a PO file with the messages that have no translation yet.

    Those that have one, also a fuzzy one, stay as they are. Form 0 of a plural is translated from
    the singular where there are several forms, and from the plural otherwise.

    Raises:
        MtkitError: A line is neither a comment, a keyword nor a string.
    """
    document = Document(text)
    message: dict[str, list[Span]] = {}
    for entry in [*_read_entries(text), _Entry("end", [], -1)]:
        if (
            entry.keyword in ("msgid", "msgctxt", "end")
            and "msgid" in message
            and (entry.keyword != "msgid" or "msgid" in message)
        ):
            document.units += _translate_message(text, message)
            message = {}
        message[entry.keyword] = entry.strings
    return document


def _read_entries(text: str) -> Iterator[_Entry]:
    keyword, strings, number = "", list[Span](), 0
    position = 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        start = position + len(line) - len(line.lstrip())
        position += len(line)
        if not stripped or stripped.startswith("#"):
            continue
        found = re.match(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]+(?=\")", stripped)
        if found:
            if keyword:
                yield _Entry(keyword, strings, number)
            keyword, strings = found.group(1), []
            number += keyword == "msgid"
        begin = start + (found.end() if found else 0)
        string = _STRING.match(text, begin)
        if string is None or not keyword or text[string.end() : position].strip():
            raise fail_at(text, start, "expected a comment, a keyword or a string in quotes")
        strings.append((string.start() + 1, string.end() - 1))
    if keyword:
        yield _Entry(keyword, strings, number)


def _translate_message(text: str, message: dict[str, list[Span]]) -> Iterator[Unit]:
    if not any(start < end for start, end in message["msgid"]):
        return
    forms = [key for key in message if key.startswith("msgstr")]
    for key in forms:
        spans = message[key]
        if any(start < end for start, end in spans):
            continue
        is_singular = key in ("msgstr", "msgstr[0]") and (key == "msgstr" or len(forms) > 1)
        source = (
            message["msgid" if is_singular else "msgid_plural"]
            if (is_singular or "msgid_plural" in message)
            else message["msgid"]
        )
        yield from _copy_with_units(text, source, spans[0])


def _copy_with_units(text: str, source: list[Span], output: Span) -> Iterator[Unit]:
    """Yields one unit: a message's text, written into its empty translation."""
    parts = [_as_message(text, part) for part in _read_string(text, source)]
    if any(part.kind != "text" for part in parts):
        units = make_units(parts, Escapes(_escape_c), keeps_breaks=True)
        if len(units) == 1:
            [unit] = units
            before, after = (
                "".join(text[max(start, first) : min(end, last)] for start, end in source)
                for first, last in ((0, unit.start), (unit.end, len(text)))
            )
            start, end = output
            yield replace(unit, start=start, end=end, output=output, before=before, after=after)
            return
    parts = [_as_message(text, part) for span in source for part in _split_lines(text, *span)]
    spelled = tuple(each for part in parts for each in part.spelled)
    if any(character.isalpha() for each in spelled for character in each.text):
        node = Node("text", source[0][0], source[-1][1], spelled=spelled)
        yield Unit((node,), *output, Escapes(_escape_c), output=output, keeps_breaks=True)


def _as_message(text: str, part: Part) -> Part:
    """Returns a part of a message, in which a line break is no end of a block."""
    if part.kind != "edge":
        return part
    return part._replace(kind="text", spelled=(Spelled("\n", text[part.start : part.end]),))


def _escape_c(text: str) -> str:
    written = text.replace("\\", "\\\\").replace('"', '\\"')
    return written.replace("\n", "\\n").replace("\t", "\\t")
