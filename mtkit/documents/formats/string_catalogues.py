"""Strings of programs: gettext's PO files and JSON."""

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from mtkit.documents.document import (
    Document,
    Edit,
    EscapedText,
    Escapes,
    LanguageCodes,
    Span,
    Token,
    Unit,
    UnwritableError,
    mark_string,
    unit_text,
)
from mtkit.documents.escaped_text import read_escaped_lines
from mtkit.documents.formats.string_markup import copy_units, make_string_units
from mtkit.documents.units import MarkupPart
from mtkit.errors import fail_at
from mtkit.text.string_files.directives import FORMAT_FLAGS, find_fault
from mtkit.text.string_files.escapes import ESCAPE, read_escape, unescape
from mtkit.text.string_files.keyed import is_metadata, load_json
from mtkit.text.string_files.plural_forms import PluralForms
from mtkit.text.string_files.po import PoMessage, read_messages

_LANGUAGE = re.compile(r"^Language:[ \t]*+(\S++)", re.MULTILINE)
_JSON_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?|[\[\]{}]', re.DOTALL)
_OBJECT = re.compile(r"\s*+\{")
_CREDITS = ("translator-credits", "translator_credits", "translation-credits")
"""Messages of GNOME that name the translators."""
_LOCALES = ("@@locale", "language", "lang", "locale")


def read_json_strings(text: str, languages: LanguageCodes) -> Document:
    """Returns JSON with its strings; names of members stay as they are.

    Metadata of ARB and JSON-LD stay, too, in members such as `@greeting`. The code of the source
    language becomes that of the target language in `@@locale`, `locale` and the like, and as the
    name of the only member, `{"en": {...}}`.

    Raises:
        MtkitError: It is invalid JSON.
    """
    load_json(text)
    document = Document(text, are_program_strings=True)
    is_ascii = text.isascii()

    def escape(value: str) -> str:
        return json.dumps(value, ensure_ascii=is_ascii)[1:-1]

    key, depth, kept_from = "", 0, math.inf
    names: list[re.Match[str]] = []
    for found in _JSON_TOKEN.finditer(text):
        if found[1] is None:
            depth += 1 if found[0] in ("{", "[") else -1
            if depth < kept_from:
                kept_from = math.inf
        elif found[2] is not None:
            key = unescape(found[1])
            names += [found] if depth == 1 else []
            if depth <= kept_from:
                kept_from = depth if is_metadata(key) else math.inf
        elif depth == 1 and key in _LOCALES and languages.is_marked_source(found[1]):
            document.edits += languages.rename(found.span(1), found[1])
        elif depth < kept_from:
            parts = _read_string(text, [found.span(1)])
            units = make_string_units(document, parts, Escapes(escape), languages)
            document.units += [replace(unit, name=key) for unit in units]
        else:
            document.skip(found.start(1), found[1], "metadata", key)
    if len(names) == 1 and _OBJECT.match(text, names[0].end()):
        document.edits += languages.rename(names[0].span(1), names[0][1])
    return document


def _read_string(text: str, spans: Sequence[Span]) -> list[MarkupPart]:
    r"""Returns the lines of a string written in some spans; `\n` ends a line."""
    return [
        part
        for span in spans
        for part in read_escaped_lines(text, span, ESCAPE, read_escape, _ends_line)
    ]


def _ends_line(spelled: EscapedText) -> bool:
    return spelled.text in ("\n", "\r") and spelled.raw != spelled.text


def read_po_units(text: str, languages: LanguageCodes) -> Document:
    """Returns a PO file with the messages that have no translation yet.

    Translated messages stay, even fuzzy ones. The form for 1 is translated from the singular if
    there are several forms and `msgfmt -c` accepts it there, and the others from the plural.
    Translations with a fault that `msgfmt -c` rejects can't be written; those that aren't released
    (`inference.quality`) become fuzzy; a message that is fuzzy stays so.

    Raises:
        MtkitError: It contains anything but comments, keywords and strings.
    """
    document = Document(text, are_program_strings=True)
    plurals = PluralForms("")
    for message in read_messages(text):
        if (source := message.read(text, "msgid")) in _CREDITS:
            document.skip(message.start, source, "names of translators")
        elif source:
            _translate_message(document, message, plurals, languages)
        else:
            header = message.read(text, "msgstr")
            plurals = PluralForms(header)
            _check_language(text, message, header, languages)
    return document


def _check_language(text: str, message: PoMessage, header: str, languages: LanguageCodes) -> None:
    """Checks that a file's translations are in the target language, if it names one."""
    found = _LANGUAGE.search(header)
    if found is not None and not LanguageCodes(languages.target).is_source(found[1]):
        raise fail_at(
            text,
            message.start,
            f"its translations are in '{found[1]}' (Language), but the model's in "
            f"'{languages.target}'",
            "correct the header, or use a model of that language",
        )


def _translate_message(
    document: Document, message: PoMessage, plurals: PluralForms, languages: LanguageCodes
) -> None:
    """Adds the units of a message's forms that have no translation."""
    text = document.text
    singular, plural = (message.read(text, key) for key in ("msgid", "msgid_plural"))
    forms = message.list_forms()
    line_end = "\r\n" if "\r\n" in text else "\n"
    fuzzy = Edit(message.start, message.start, f"#, fuzzy{line_end}")
    is_fuzzy = "fuzzy" in message.flags
    mark = None if is_fuzzy else functools.partial(mark_string, fuzzy, None)
    num_before, is_whole = len(document.units), True
    for form, key in enumerate(forms):
        output = message.strings[key]
        # As msgfmt, which compares all forms with the plural.
        is_strict = not plural or len(forms) == 1 or form in plurals.frequent
        find = functools.partial(find_fault, message.flags, is_strict=is_strict)
        check = functools.partial(find, plural or singular)
        is_complete = not find(plural.strip("\n"), singular.strip("\n"))
        is_singular = len(forms) > 1 and form == plurals.find(1) and is_complete
        source = message.strings["msgid_plural" if plural and not is_singular else "msgid"]
        parts = _read_string(text, source)
        if any(start < end for start, end in output):
            value = "".join(each.text for part in parts for each in part.spelled)
            document.skip(source[0][0], value, "fuzzy, kept" if is_fuzzy else "already translated")
            continue
        units = make_string_units(document, parts, _C_TEXT, languages, keeps_breaks=True)
        copied = copy_units(text, units, source, output[0])
        is_whole = is_whole and bool(copied)
        if message.flags & FORMAT_FLAGS.keys():
            copied = [
                _check_unit(unit, message.flags, None if copied[1:] else check) for unit in copied
            ]
        if copied:
            copied[0] = replace(copied[0], mark=mark)
        if form and copied:
            # A message is written with all forms or none.
            copied[0] = replace(copied[0], follows=True)
        document.units += copied
    if not is_whole and len(document.units) > num_before:
        # A program would show nothing for the numbers of an empty form.
        del document.units[num_before:]
        document.skip(message.start, plural, "a plural with a form that stays")


def _check_unit(unit: Unit, flags: Iterable[str], check: Callable[[str], str] | None) -> Unit:
    """Returns a unit that can't be written with broken placeholders.

    `check` finds the fault of the whole string; None if the unit is only a part of it.
    """
    around = unit.before, unit.after
    if check is None:
        check, around = functools.partial(find_fault, flags, unit_text(unit)), ("", "")
    return replace(unit, join=functools.partial(_write_checked, check, around))


def _write_checked(
    check: Callable[[str], str], around: tuple[str, str], tokens: Sequence[Token]
) -> str:
    raw = "".join(token.raw for token in tokens)
    if fault := check(unescape(around[0] + raw + around[1])):
        raise UnwritableError(fault)
    return raw


def _escape_c(text: str) -> str:
    written = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r")
    return written.replace("\n", "\\n").replace("\t", "\\t")


# Numeric escapes would include the digits after them, so the result is read again.
_C_TEXT = Escapes(_escape_c, unescape)
