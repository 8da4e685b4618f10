"""Files of one language with keys: .properties, Fluent, Apple's .strings, JSON, Android's."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mtkit.errors import MtkitError, fail_at
from mtkit.text.line_counter import LineCounter
from mtkit.text.string_files import android
from mtkit.text.string_files.escapes import read_utf16, unescape
from mtkit.text.xml_tokens import find_cdata, find_inside, read_xml_tokens


class KeyedString(NamedTuple):
    """A string, its key, and its line in the file, from 1; 0 if unknown."""

    key: str
    text: str
    line: int = 0


_JAVA_ESCAPE = re.compile(
    r"\\(?:\n[ \t\f]*+|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|u[0-9a-fA-F]{4}|.)"
)
_PROPERTY = re.compile(
    r"[ \t\f]*+(?:[#!][^\n]*+|(?P<key>(?:[^\\ \t\f\n\r=:]++|\\(?:\n[ \t\f]*+|.))*+)"
    r"[ \t\f]*+[=:]?+[ \t\f]*+(?P<value>(?:[^\\\n]++|\\(?:\n|.))*+))(?:\n|\Z)"
)


def read_properties(text: str) -> Iterator[KeyedString]:
    """Yields the strings of a .properties file of Java.

    https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html
    """
    text = _read_line_ends(text)
    position, line = 0, 1
    while position < len(text):
        found = _PROPERTY.match(text, position)
        if found is None:
            raise fail_at(text, position, "a backslash at the end of the file", "is it complete?")
        if found["key"]:
            key, value = (_JAVA_ESCAPE.sub(_read_java, found[each]) for each in ("key", "value"))
            yield KeyedString(key, value, line)
        line += found.group().count("\n")
        position = found.end()


def _read_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_java(found: re.Match[str]) -> str:
    raw = found.group()[1:]
    if raw[0] == "u" and len(raw) > 1:
        return read_utf16(raw[1:5] + raw[7:])
    if raw[0] == "\n":
        return ""
    return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(raw[0], raw[0])


_FLUENT_ENTRY = re.compile(r"(?P<key>-?[A-Za-z][\w-]*+)[ ]*+=(?P<value>.*+)", re.ASCII | re.DOTALL)
_FLUENT_ATTRIBUTE = re.compile(r"[ ]++\.(?P<key>[A-Za-z][\w-]*+)[ ]*+=(?P<value>.*+)", re.ASCII)
_METADATA = re.compile(r"@@?(?!value$)[A-Za-z_]\w*")
_LITERAL = re.compile(r'\{[ \n]*+"((?:[^"\\\n]|\\[^\n])*+)"[ \n]*+\}')
_BEGINS_CHOICE = re.compile(r"\{(?:(?!->)[^{}])*+->")
_CHOICE = re.compile(_BEGINS_CHOICE.pattern + r"[ ]*+\n(?P<variants>(?:[^{}]++|\{[^{}]*+\})*+)\}")
_VARIANT = re.compile(r"[ ]*+\*?+\[[ ]*+(?P<key>[\w.-]++)[ ]*+\](?P<value>.*+)", re.DOTALL)


def read_fluent(text: str) -> Iterator[KeyedString]:
    """Yields the strings of a Fluent file (https://projectfluent.org/fluent/guide/).

    An attribute has the key `message.attribute`; each variant of a string that is one choice,
    `message[variant]`. Other choices are left out, as one string has several texts there.
    Placeables stay as they are written, except literals.
    """
    key = owner = ""
    lines: list[str] = []
    start = 0
    for number, line in enumerate([*_read_line_ends(text).split("\n"), "#"], 1):
        found = _FLUENT_ENTRY.fullmatch(line)
        attribute = _FLUENT_ATTRIBUTE.fullmatch(line) if owner else None
        is_end = bool(line) and line[0] not in " }"
        if is_end or attribute is not None:
            yield from _read_pattern(key, lines, start)
            key, lines = "", []
        if is_end:
            owner = ""
        if found is not None:
            key = owner = found["key"]
        elif attribute is not None:
            key = f"{owner}.{attribute['key']}"
        begun = found or attribute
        if begun is not None:
            lines, start = [begun["value"]], number
        elif key:
            lines.append(line)


def _read_pattern(key: str, lines: list[str], line: int) -> Iterator[KeyedString]:
    if not key:
        return
    value = _join_pattern(lines)
    choice = _CHOICE.fullmatch(value)
    if choice is None:
        if not _BEGINS_CHOICE.search(value):
            yield KeyedString(key, _read_literals(value), line)
        return
    variants: list[tuple[str, list[str]]] = []
    for each in choice["variants"].split("\n"):
        found = _VARIANT.fullmatch(each)
        if found is not None:
            variants.append((found["key"], [found["value"]]))
        elif variants:
            variants[-1][1].append(each)
    for name, texts in variants:
        yield KeyedString(f"{key}[{name}]", _read_literals(_join_pattern(texts)), line)


def _join_pattern(lines: list[str]) -> str:
    """Returns a pattern without its indentation, which is that of its least indented line."""
    first, *rest = lines
    indent = min((len(each) - len(each.lstrip(" ")) for each in rest if each.strip()), default=0)
    return "\n".join([first.lstrip(" "), *(each[indent:] for each in rest)]).strip()


def _read_literals(pattern: str) -> str:
    return _LITERAL.sub(lambda found: unescape(found[1]), pattern)


_APPLE = re.compile(
    r"[ \t\r\n]++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/"
    r'|(?P<key>"(?:[^"\\]|\\.)*+"|[\w.-]++)\s*+=\s*+"(?P<value>(?:[^"\\]|\\.)*+)"\s*+;',
    re.DOTALL,
)
_APPLE_UNICODE = re.compile(r"\\U(?=[0-9a-fA-F]{4})")


def read_apple(text: str) -> Iterator[KeyedString]:
    """Yields the strings of a .strings file of macOS and iOS."""
    position, line = 0, 1
    while position < len(text):
        found = _APPLE.match(text, position)
        if found is None:
            raise MtkitError(f'line {line}: expected a comment or "key" = "text";')
        if found["key"] is not None:
            key = found["key"]
            key = _read_apple(key[1:-1]) if key.startswith('"') else key
            yield KeyedString(key, _read_apple(found["value"]), line)
        line += found.group().count("\n")
        position = found.end()


def _read_apple(raw: str) -> str:
    return unescape(_APPLE_UNICODE.sub(r"\\u", raw))


def load_json(text: str) -> Any:
    """Returns the value of a JSON file.

    Raises:
        MtkitError: It is invalid.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise MtkitError(f"line {error.lineno}: invalid JSON: {error.msg}") from error
    except RecursionError as error:
        raise MtkitError("invalid JSON: nested too deeply") from error
    except ValueError as error:
        raise MtkitError(f"invalid JSON: {error}") from error


def is_metadata(name: str) -> bool:
    """Checks that a member of a JSON object is no text: ARB's `@greeting`, JSON-LD's `@type`."""
    return _METADATA.fullmatch(name) is not None


def read_json_values(text: str) -> Iterator[KeyedString]:
    """Yields the strings of JSON by their paths, `menu.items[2]`, without metadata."""
    pending: list[tuple[str, Any]] = [("", load_json(text))]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield KeyedString(path, value)
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", each) for index, each in enumerate(value)][::-1]
        elif isinstance(value, dict):
            before = f"{path}." if path else ""
            members = [(before + key, each) for key, each in value.items() if not is_metadata(key)]
            pending += members[::-1]


def read_android_strings(text: str) -> Iterator[KeyedString]:
    """Yields the strings of Android's resources, without tags: `files[other]` of plurals."""
    tokens = read_xml_tokens(text)
    lines = LineCounter(text)
    for string in android.find_strings(text, tokens):
        line = lines.find(tokens[string.element].start)
        pieces = [
            android.unescape_android(
                text[slice(*find_cdata(text, each))], keeps_entities=each.kind == "cdata"
            )
            for each in find_inside(tokens, string.element)
            if each.kind in ("text", "cdata")
        ]
        if string.is_translatable:
            yield KeyedString(string.key, "".join(pieces).strip(), line)
