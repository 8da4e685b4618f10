"""Strings of programs: gettext's PO files and JSON."""

import json
import re
from collections.abc import Sequence

from mtkit.documents.document import Document, Escapes, Languages, Span, Spelled, fail_at
from mtkit.documents.escaped_text import read_lines, read_utf16
from mtkit.documents.formats.string_markup import copy_units, make_string_units
from mtkit.documents.units import Part
from mtkit.errors import MtkitError

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a character in two halves
    r"|(?:\\(?:x[0-9a-fA-F]++|[0-7]{1,3}))++|\\(?:u[0-9a-fA-F]{4}|.)",
    re.DOTALL,
)
_CONTROLS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_JSON_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?', re.DOTALL)
_PO_TOKEN = re.compile(
    r"[ \t\r\n\v\f]++|#[^\n]*+"
    r"|(?P<keyword>msgctxt|msgid_plural|msgid|msgstr|domain)"
    r"(?P<form>[ \t]*+\[[ \t]*+\d++[ \t]*+\])?+"
    r'(?=["\s#])|"(?P<string>(?:[^"\\\n]|\\.)*+)"',
    re.DOTALL,
)


def read_json_strings(text: str, languages: Languages) -> Document:
    """Returns JSON with its strings; names of members stay as they are.

    Raises:
        MtkitError: It is invalid JSON.
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
        if found.group(2) is None:
            parts = _read_string(text, [found.span(1)])
            document.units += make_string_units(document, parts, Escapes(escape), languages)
    return document


def _read_string(text: str, spans: Sequence[Span]) -> list[Part]:
    r"""Returns the lines of a string written in some spans; `\n` ends a line."""
    return [
        part for span in spans for part in read_lines(text, span, _ESCAPE, _read_escape, _ends_line)
    ]


def _ends_line(spelled: Spelled) -> bool:
    return spelled.text in ("\n", "\r") and spelled.raw != spelled.text


def _read_escape(found: re.Match[str]) -> str:
    """Returns the value of an escape of JSON or C."""
    raw = found.group()
    first = raw[1]
    if first in _CONTROLS:
        return _CONTROLS[first]
    if first == "u" and len(raw) > 2:
        return read_utf16(raw[2:6] + raw[8:])
    if first == "\n":
        return ""
    if first in "01234567" or (first == "x" and len(raw) > 2):
        numbers = raw[1:].split("\\")
        octets = (int(each[1:], 16) if each[0] == "x" else int(each, 8) for each in numbers)
        return bytes(octet & 0xFF for octet in octets).decode("utf-8", errors="replace")
    return first


def read_po(text: str, languages: Languages) -> Document:
    """Returns a PO file with the messages that have no translation yet.

    Translated messages stay, also fuzzy ones. Form 0 of a plural is translated from the singular if
    there are several forms, and otherwise from the plural.

    Raises:
        MtkitError: It contains anything but comments, keywords and strings.
    """
    document = Document(text)
    message: dict[str, list[Span]] = {}
    for keyword, strings in [*_read_entries(text), ("end", [])]:
        if keyword in ("msgid", "msgctxt", "domain", "end") and "msgid" in message:
            _translate_message(document, message, languages)
            message = {}
        message[keyword] = strings
    return document


def _read_entries(text: str) -> list[tuple[str, list[Span]]]:
    """Returns the keywords of messages with their forms, and the spans of their strings."""
    entries: list[tuple[str, list[Span]]] = []
    position = 0
    while position < len(text):
        found = _PO_TOKEN.match(text, position)
        if found is None or (found["string"] is not None and not entries):
            raise fail_at(text, position, "expected a comment, a keyword or a string in quotes")
        position = found.end()
        if found["keyword"] is not None:
            form = re.sub(r"\s", "", found["form"] or "")
            entries.append((found["keyword"] + form, []))
        elif found["string"] is not None:
            entries[-1][1].append(found.span("string"))
    return entries


def _translate_message(
    document: Document, message: dict[str, list[Span]], languages: Languages
) -> None:
    """Adds the units of a message's forms that have no translation."""
    text = document.text
    if not any(start < end for start, end in message["msgid"]):
        return
    forms = [key for key in message if key.startswith("msgstr") and message[key]]
    for key in forms:
        output = message[key]
        is_singular = key in ("msgstr", "msgstr[0]") and (key == "msgstr" or len(forms) > 1)
        source = message[
            "msgid" if is_singular or "msgid_plural" not in message else "msgid_plural"
        ]
        parts = _read_string(text, source)
        if any(start < end for start, end in output):
            value = "".join(each.text for part in parts for each in part.spelled)
            document.skip(source[0][0], value, "already translated")
            continue
        units = make_string_units(document, parts, _C_TEXT, languages, keeps_breaks=True)
        document.units += copy_units(text, units, source, output[0])


def _escape_c(text: str) -> str:
    written = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r")
    return written.replace("\n", "\\n").replace("\t", "\\t")


def _read_c(raw: str) -> str:
    return _ESCAPE.sub(_read_escape, raw)


# Numeric escapes would include the digits after them, so the result is read again.
_C_TEXT = Escapes(_escape_c, _read_c)
