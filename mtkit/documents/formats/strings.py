"""Strings of programs: gettext's PO files and JSON."""

import json
import re
from collections.abc import Sequence

from mtkit.documents.document import Document, Escapes, Languages, Span, Spelled
from mtkit.documents.escaped_text import read_lines
from mtkit.documents.formats.string_markup import copy_units, make_string_units
from mtkit.documents.units import Part
from mtkit.text.string_files.escapes import ESCAPE, read_escape, unescape
from mtkit.text.string_files.keyed import load_json
from mtkit.text.string_files.po import PoMessage, read_messages

_JSON_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?', re.DOTALL)


def read_json_strings(text: str, languages: Languages) -> Document:
    """Returns JSON with its strings; names of members stay as they are.

    Raises:
        MtkitError: It is invalid JSON.
    """
    load_json(text)
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
        part for span in spans for part in read_lines(text, span, ESCAPE, read_escape, _ends_line)
    ]


def _ends_line(spelled: Spelled) -> bool:
    return spelled.text in ("\n", "\r") and spelled.raw != spelled.text


def read_po(text: str, languages: Languages) -> Document:
    """Returns a PO file with the messages that have no translation yet.

    Translated messages stay, also fuzzy ones. Form 0 of a plural is translated from the singular if
    there are several forms, and otherwise from the plural.

    Raises:
        MtkitError: It contains anything but comments, keywords and strings.
    """
    document = Document(text)
    for message in read_messages(text):
        if message.read(text, "msgid"):
            _translate_message(document, message, languages)
    return document


def _translate_message(document: Document, message: PoMessage, languages: Languages) -> None:
    """Adds the units of a message's forms that have no translation."""
    text = document.text
    forms = message.list_forms()
    for key in forms:
        output = message.strings[key]
        is_singular = key in ("msgstr", "msgstr[0]") and (key == "msgstr" or len(forms) > 1)
        has_plural = not is_singular and "msgid_plural" in message.strings
        source = message.strings["msgid_plural" if has_plural else "msgid"]
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


# Numeric escapes would include the digits after them, so the result is read again.
_C_TEXT = Escapes(_escape_c, unescape)
