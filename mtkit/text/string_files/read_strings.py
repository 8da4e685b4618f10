"""Reads files of programs' strings: pairs of translated ones, and keyed strings of one language."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import webencodings

from mtkit.errors import MtkitError
from mtkit.text.line_counter import LineCounter
from mtkit.text.string_files import keyed
from mtkit.text.string_files.keyed import KeyedString
from mtkit.text.string_files.mo import read_catalogue
from mtkit.text.string_files.plural_forms import PluralForms
from mtkit.text.string_files.po import read_messages
from mtkit.text.string_files.xliff import read_languages, read_segments

_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_CHARSET = re.compile(rb"""(?:charset|encoding)\s*+=\s*+["']?+([A-Za-z0-9._:-]++)""", re.IGNORECASE)
_LANGUAGE = re.compile(r"^Language:[ \t]*+(\S++)", re.MULTILINE)
_HEAD = 65_536
"""Bytes at the beginning of a file that may declare its encoding."""


class StringPair(NamedTuple):
    """A string and its translation, and where they are.

    Attributes:
        line: Line in the file, from 1; 0 in a .mo file.
        key: The id of an XLIFF segment, the number of a .mo file's message; else empty.
        languages: What its XLIFF file declares of both sides; else empty.
    """

    source: str
    target: str
    line: int = 0
    key: str = ""
    languages: tuple[str, str] = ("", "")


def read_translations(content: bytes, form: str) -> Iterator[StringPair]:
    """Yields the finished translations of a file with both languages, in order.

    `form` is a key of `PAIR_FORMS`. Texts may have several lines. Messages without a translation,
    fuzzy and obsolete ones and headers are left out, and contexts are ignored. Of plurals, the
    singular is paired with the form for 1, and the plural with the only other form, or none.

    Raises:
        MtkitError: The file is malformed, or in an unknown encoding.
    """
    for pair in PAIR_FORMS[form](content):
        if pair.source.strip() and pair.target.strip():
            yield pair


def find_languages(content: bytes, form: str) -> Iterator[tuple[str, str]]:
    """Yields the source and target language that a file with both names; empty if it names none.

    A PO or MO file names only the target's.
    """
    if form == "xliff":
        yield from read_languages(_decode(content))
        return
    if form == "mo":
        header = dict(read_catalogue(content)).get(b"", b"").decode("latin-1")
    else:
        text = _decode(content)
        messages = (each for each in read_messages(text) if not each.read(text, "msgid"))
        header = next((each.read(text, "msgstr") for each in messages), "")
    if found := _LANGUAGE.search(header):
        yield "", found[1]


def read_strings(content: bytes, form: str) -> Iterator[KeyedString]:
    """Yields the strings of a file in one language with their keys, in order.

    `form` is a key of `STRING_FORMS`. A key may come several times. Blank strings are left out.

    Raises:
        MtkitError: The file is malformed, or in an unknown encoding.
    """
    fallback = "iso-8859-1" if form == "properties" else ""
    for string in STRING_FORMS[form](_decode(content, fallback)):
        if string.text.strip():
            yield string


def find_byte_order_mark(content: bytes) -> tuple[bytes, str]:
    """Returns a file's byte order mark, and its encoding; without one empty, and UTF-8."""
    mark = next((each for each in _BYTE_ORDER_MARKS if content.startswith(each)), b"")
    return mark, _BYTE_ORDER_MARKS.get(mark, "utf-8")


def _decode(content: bytes, fallback: str = "") -> str:
    """Returns a file's text, decoded by its BOM, as UTF-8, or as it declares."""
    mark, name = find_byte_order_mark(content)
    try:
        return content[len(mark) :].decode(name)
    except UnicodeDecodeError as error:
        found = (
            webencodings.lookup(fallback) if fallback else find_declared_encoding(content[:_HEAD])
        )
        line = content.count(b"\n", 0, len(mark) + error.start) + 1
        if found is None or mark:
            fault = f"line {line}: invalid {name.upper()}"
            raise MtkitError(fault, "convert it to UTF-8: iconv") from error
    try:
        return str(found.codec_info.decode(content, "strict")[0])
    except UnicodeDecodeError as error:
        raise MtkitError(f"neither UTF-8 nor {found.name}", "convert it to UTF-8: iconv") from error


def find_declared_encoding(content: bytes) -> webencodings.Encoding | None:
    """Returns the encoding that a file or its header declares, by its name on the web."""
    declared = _CHARSET.search(content)
    return webencodings.lookup(declared[1].decode()) if declared else None


def _read_po(content: bytes) -> Iterator[StringPair]:
    text = _decode(content)
    plurals = PluralForms("")
    lines = LineCounter(text)
    for message in read_messages(text):
        source = message.read(text, "msgid")
        forms = [message.read(text, key) for key in message.list_forms()]
        if not source:
            plurals = PluralForms("".join(forms))
        elif "fuzzy" not in message.flags and forms:
            line = lines.find(message.strings["msgid"][0][0])
            for each in _pair_forms(source, message.read(text, "msgid_plural"), forms, plurals):
                yield StringPair(*each, line=line)


def _read_mo(content: bytes) -> Iterator[StringPair]:
    plurals = PluralForms("")
    encoding = webencodings.UTF8
    for number, (key, value) in enumerate(read_catalogue(content), 1):
        if not key:
            encoding = find_declared_encoding(value) or webencodings.UTF8
            plurals = PluralForms(value.decode("latin-1"))
            continue
        try:
            sources, forms = (
                str(encoding.codec_info.decode(each, "strict")[0]).split("\0")
                for each in (key, value)
            )
        except UnicodeDecodeError as error:
            raise MtkitError(f"message {number}: invalid {encoding.name.upper()}") from error
        source = sources[0].rpartition("\4")[2]
        plural = sources[1] if len(sources) > 1 else ""
        for each in _pair_forms(source, plural, forms, plurals):
            yield StringPair(*each, key=f"message {number}")


def _pair_forms(
    source: str, plural: str, forms: list[str], plurals: PluralForms
) -> Iterator[tuple[str, str]]:
    """Yields the pairs of a message's forms."""
    singular = plurals.find(1)
    if not plural:
        yield source, forms[0]
    elif len(forms) == 1:
        yield plural, forms[0]
    elif singular < len(forms):
        yield source, forms[singular]
        others = forms[:singular] + forms[singular + 1 :]
        if len(others) == 1:
            yield plural, others[0]


def _read_xliff(content: bytes) -> Iterator[StringPair]:
    text = _decode(content)
    lines = LineCounter(text)
    for each in read_segments(text):
        line = lines.find(each.position)
        yield StringPair(each.source, each.target, line, each.key, each.languages)


PAIR_FORMS: dict[str, Callable[[bytes], Iterator[StringPair]]] = {
    "po": _read_po,
    "mo": _read_mo,
    "xliff": _read_xliff,
}
"""Formats of files with both languages."""
STRING_FORMS: dict[str, Callable[[str], Iterator[KeyedString]]] = {
    "properties": keyed.read_properties,
    "fluent": keyed.read_fluent,
    "apple-strings": keyed.read_apple,
    "json": keyed.read_json_values,
    "android": keyed.read_android_strings,
}
"""Formats of files with one language."""
