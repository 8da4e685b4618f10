"""Translation memories (TMX, https://www.gala-global.org/tmx-14b), read unit by unit.

Memories are untrusted, so entities matter. External entities aren't fetched: using one is an
undefined entity, which is an error. expat stops internal ones that multiply, once their text
exceeds 8 MiB and a hundred times the input (2.4.1 and later,
https://libexpat.github.io/doc/api/latest/).
"""

import codecs
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import IO
from xml.parsers import expat

import webencodings

from mtkit.data.sources.lines import check_has_content, opening
from mtkit.data.sources.tables import TableColumns, list_names
from mtkit.data.sources.values import RawRows, ValueSource
from mtkit.errors import MtkitError
from mtkit.storage import Location
from mtkit.text.string_files.read_strings import find_declared_encoding
from mtkit.text.string_files.xliff import CODES, is_line_break

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_OLD_LANGUAGE = "lang"
"""The attribute before TMX 1.4."""
_MAX_LANGUAGES = 100
_CHARACTER = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:([0-9]{1,50})|[xX]([0-9a-fA-F]{1,50}));"
)
"""A control, or a character reference."""
_HEAD_BYTES = 200
"""Bytes at the beginning that may declare the encoding."""
_MAX_REFERENCE = 64
"""Maximum bytes of a character reference."""


@contextmanager
def open_tmx(path: Location, wanted: TableColumns) -> Iterator[ValueSource]:
    """Opens a translation memory; skips units that lack one of both languages."""
    check_has_content(path)
    with opening(path) as stream:
        rows = _read_units(path, stream, wanted.languages)
        yield ValueSource(rows, tuple(wanted.columns), str(path))


def _read_units(path: Location, stream: IO[bytes], languages: tuple[str, str]) -> RawRows:
    """Yields both sides of each unit, or None if it lacks one."""
    num_units = num_pairs = 0
    found: set[str] = set()
    for unit in _parse(path, stream):
        num_units += 1
        variants = _read_variants(unit)
        if len(found) < _MAX_LANGUAGES:
            found.update(variants)
        source, target = (_choose(variants, language) for language in languages)
        if source is None or target is None:
            yield None
        else:
            num_pairs += 1
            yield source.encode(), target.encode()
    if num_units == 0:
        raise MtkitError(f"{path}: no translation unit (<tu>) in it", "is the file complete?")
    if num_pairs == 0:
        raise MtkitError(
            f"{path}: none of its {num_units:,} units has both '{languages[0]}' and "
            f"'{languages[1]}'; languages found: {list_names(found)}",
            "check data.source_language and data.target_language; 'en' matches 'en-US', but "
            "'en-US' doesn't match 'en'",
        )


class _Writable:
    """A stream of XML in which characters that XML doesn't allow are U+FFFD; filters find it.

    Without it, a single such character, which some tools write, would end the whole memory. UTF-16
    is passed through unchanged.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._rest = b""
        self._is_wide: bool | None = None
        self._mark = b"&#xFFFD;"

    def read(self, size: int = -1) -> bytes:
        """Returns some bytes; never splits a reference."""
        read = self._stream.read(size)
        content = self._rest + read
        if self._is_wide is None:
            self._is_wide = content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            if find_declared_encoding(content[:_HEAD_BYTES]) in (None, webencodings.UTF8):
                # A reference in CDATA would be text.
                self._mark = "\ufffd".encode()
        if self._is_wide:
            return content
        begun = content.rfind(b"&", -_MAX_REFERENCE)
        is_whole = not read or begun < 0 or b";" in content[begun:]
        end = len(content) if is_whole else begun
        self._rest = content[end:]
        written = _CHARACTER.sub(self._make_writable, content[:end])
        # An empty result would mean the end.
        return written if written or not read else self.read(size)

    def _make_writable(self, found: re.Match[bytes]) -> bytes:
        """Returns a character, or U+FFFD if XML 1.0 doesn't allow it (section 2.2)."""
        decimal, hexadecimal = found.groups()
        code = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else 0
        is_writable = (
            code in (9, 10, 13)
            or 0x20 <= code < 0xD800
            or 0xE000 <= code < 0xFFFE
            or 0x10000 <= code < 0x110000
        )
        return found.group() if is_writable else self._mark


def _parse(path: Location, stream: IO[bytes]) -> Iterator[ET.Element]:
    """Yields each `tu` element, and drops it when the next is requested."""
    above: list[ET.Element] = []
    try:
        for event, element in ET.iterparse(_Writable(stream), events=("start", "end")):
            if event == "start":
                if not above and _local_name(element) != "tmx":
                    raise MtkitError(
                        f"{path}: the root element is <{_local_name(element)}>, not <tmx>",
                        "choose a translation memory",
                    )
                above.append(element)
                continue
            above.pop()
            if _local_name(element) == "tu" and above:
                yield element
                # All of its parent's children, or an empty one would remain for each unit.
                above[-1].clear()
    except ET.ParseError as error:
        raise MtkitError(
            f"{path}:{error.position[0]}: not well-formed XML: {expat.ErrorString(error.code)} "
            f"(column {error.position[1] + 1})",
            f"`xmllint --noout {path.name}` shows more; is the file complete, and is it in the "
            "encoding that its first line declares?",
        ) from error
    except (LookupError, ValueError) as error:
        # Python's parser raises these for an unknown encoding.
        raise MtkitError(
            f"{path}:1: its encoding can't be read: {error}",
            "convert it to UTF-8: iconv -f ENCODING -t UTF-8, and declare that in its first line",
        ) from error


def _read_variants(unit: ET.Element) -> dict[str, str]:
    """Returns a unit's sentences by language code, the first of each."""
    variants: dict[str, str] = {}
    for variant in unit:
        language = variant.get(_LANGUAGE) or variant.get(_OLD_LANGUAGE)
        if language is None or _local_name(variant) != "tuv":
            continue
        for child in variant:
            if _local_name(child) == "seg":
                variants.setdefault(language, _text_of(child))
                break
    return variants


def _choose(variants: dict[str, str], wanted: str) -> str | None:
    """Returns the sentence in a language: exact code first, then any case, then a region."""
    if wanted in variants:
        return variants[wanted]
    code = _normalize(wanted)
    codes = {_normalize(language): text for language, text in reversed(variants.items())}
    if code in codes:
        return codes[code]
    for language, text in variants.items():
        if _normalize(language).startswith(f"{code}-"):
            return text
    return None


@lru_cache
def _normalize(language: str) -> str:
    return language.lower().replace("_", "-")


def _text_of(segment: ET.Element) -> str:
    """Returns a segment's text without the markup of other formats; a line break is a space."""
    if len(segment) == 0:
        return segment.text or ""
    parts: list[str] = []
    # No recursion, because elements may be nested deeper than Python's stack.
    pending: list[ET.Element | str] = [segment]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        parts.append(node.text or "")
        for child in reversed(node):
            pending.append(child.tail or "")
            if _local_name(child) not in CODES:
                pending.append(child)
            elif is_line_break(child.attrib, child.text or ""):
                pending.append(" ")
    return "".join(parts)


def _local_name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]
