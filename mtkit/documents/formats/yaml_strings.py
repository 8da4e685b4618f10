"""Strings of YAML, by the positions of PyYAML's tokens: no values are constructed, so nothing runs.

A library that parses and writes YAML, such as ruamel.yaml, keeps comments but breaks lines and
quotes strings by its own rules. Here only the characters of a string change; plain ones get quotes
if the translation needs them.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import yaml
from yaml.events import AliasEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent
from yaml.scanner import Scanner
from yaml.tokens import ScalarToken

from mtkit.documents.document import (
    PLAIN,
    Document,
    EscapedText,
    Escapes,
    LanguageCodes,
    Token,
    UnwritableError,
    as_written,
)
from mtkit.documents.escaped_text import read_escaped_lines
from mtkit.documents.formats.string_markup import make_string_units
from mtkit.documents.plain_text import continues
from mtkit.documents.units import MarkupPart
from mtkit.errors import MtkitError
from mtkit.text.string_files.escapes import read_utf16
from mtkit.text.xml_tokens import MAX_DEPTH

_STRING = "tag:yaml.org,2002:str"


class _Resolver(yaml.resolver.Resolver):  # type: ignore[misc]
    """Knows YAML 1.1, and the numbers of 1.2 that 1.1 has as text (yaml.org/spec/1.2.2, 10.3.2)."""


_Resolver.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+)\Z"),
    list("-+.0123456789"),
)
RESOLVER = _Resolver()
_FOLDED = r"(?P<fold>(?:[ \t]++(?=\r?\n))?+(?:\r?\n[ \t]*+)++)|(?P<space>[ \t]++)"
_QUOTED = re.compile(
    r"(?P<end>\\\r?\n[ \t]*+)|(?P<escape>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.))|" + _FOLDED
)
_FOLD = re.compile(rf"(?P<quote>'')|{_FOLDED}")
_LINE_FOLD = re.compile(r"(?<![ \t])[ \t]*+\r?\n[ \t]*+")
_SINGLE = Escapes(lambda text: text.replace("'", "''"))
_LANGUAGE_KEY = re.compile(
    r"(?:(?:[ \t]*+(?:\#[^\n]*+)?|---[ \t]*+)\n)*+"  # comments, blank lines, the document's start
    r"(?P<quote>[\"']?)(?P<code>[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*+)(?P=quote)"
    r":[ \t]*+(?:\#[^\n]*+)?\n"
    r"(?:(?:[ \t#][^\n]*+)?\n)*+(?:[ \t#][^\n]*+)?\Z"
)
"""A text whose only key on the left is a language's, `en:`, as in Rails."""
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def read_yaml(text: str, languages: LanguageCodes) -> Document:
    """Returns YAML with the strings that are values or items; keys stay as they are.

    A source language's code that is the only key of the document becomes the target's.

    Raises:
        MtkitError: It is invalid YAML, or nested too deeply.
    """
    document = Document(text, are_program_strings=True)
    try:
        for _, token, in_flow in find_strings(text):
            add_string(document, token, languages, in_flow=in_flow)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise MtkitError(f"{line}invalid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise MtkitError(f"invalid YAML: {error}") from error
    except (RecursionError, ValueError) as error:
        raise MtkitError(f"invalid YAML: {error}") from error
    if found := _LANGUAGE_KEY.match(text.replace("\r\n", " \n")):
        for edit in languages.rename(found.span("code"), found["code"]):
            # `no` alone means false.
            is_name = found["quote"] or _names_text(edit.text)
            document.edits.append(edit if is_name else edit._replace(text=f'"{edit.text}"'))
    return document


class NodeRoles:
    """The role of each node: `key` or `value` of a mapping, or `item`; `skip` within a key."""

    def __init__(self) -> None:
        self._opened: list[str] = []

    @property
    def depth(self) -> int:
        """The number of open collections."""
        return len(self._opened)

    def add(self, event: yaml.events.NodeEvent) -> str:
        """Returns the role of the next node, which may begin a collection."""
        role = self._opened[-1] if self._opened else "item"
        if role in ("key", "value"):
            self._opened[-1] = "value" if role == "key" else "key"
        if isinstance(event, yaml.CollectionStartEvent):
            inner = "key" if isinstance(event, MappingStartEvent) else "item"
            self._opened.append("skip" if role in ("key", "skip") else inner)
        return role

    def end(self) -> None:
        """Ends a collection."""
        self._opened.pop()


class _Parser(yaml.SafeLoader):  # type: ignore[misc]
    """Keeps the last scalar's token next to its event."""

    scalar: ScalarToken | None = None

    def get_token(self) -> yaml.Token:
        token = super().get_token()
        if isinstance(token, ScalarToken):
            self.scalar = token
        return token


def find_strings(text: str) -> Iterator[tuple[str, ScalarToken, bool]]:
    """Yields strings that are values or items, and whether each is in brackets.

    Before each is its key if it is a value of the outermost mapping, else nothing.
    """
    # Events come as the text is read, so that the depth is known before all of it is.
    roles = NodeRoles()
    in_flow_levels: list[bool] = [False]
    parser = _Parser(text)
    key = ""
    while parser.check_event():
        event = parser.get_event()
        is_start = isinstance(event, MappingStartEvent | SequenceStartEvent)
        if isinstance(event, yaml.CollectionEndEvent):
            roles.end()
            in_flow_levels.pop()
            continue
        if not is_start and not isinstance(event, ScalarEvent | AliasEvent):
            continue
        role = roles.add(event)
        if role == "key" and roles.depth == 1:
            key = getattr(event, "value", "")
        elif isinstance(event, ScalarEvent) and role in ("value", "item"):
            token = parser.scalar
            is_its_own = token and token.end_mark.index == event.end_mark.index
            if token and is_its_own and token.value == event.value and _is_string(event):
                yield key if roles.depth == 1 else "", token, in_flow_levels[-1]
        if is_start:
            if roles.depth > MAX_DEPTH:
                raise MtkitError(f"more than {MAX_DEPTH:,} values inside one another")
            in_flow_levels.append(in_flow_levels[-1] or bool(event.flow_style))


def _is_string(event: ScalarEvent) -> bool:
    if event.tag not in (None, "!", _STRING):
        return False
    return event.style is not None or event.tag is not None or _names_text(event.value)


def _names_text(plain: str) -> bool:
    """Checks that a plain scalar is a string, not a number, a truth value or a date."""
    return bool(RESOLVER.resolve(yaml.ScalarNode, plain, (True, False)) == _STRING)


def add_string(
    document: Document, token: ScalarToken, languages: LanguageCodes, *, in_flow: bool
) -> None:
    """Adds the units of a string."""
    start, end = token.start_mark.index, token.end_mark.index
    text = document.text

    def _read(pattern: re.Pattern[str], quote: int = 0) -> list[MarkupPart]:
        span = (start + quote, end - quote)
        return read_escaped_lines(text, span, pattern, _read_special, _ends_paragraph)

    match token.style:
        case "|" | ">" as style:
            parts = _read_block(text, start, end, is_folded=style == ">")
            document.units += make_string_units(document, parts, PLAIN, languages)
        case '"':
            parts = _read(_QUOTED, 1)
            document.units += make_string_units(document, parts, Escapes(_escape_double), languages)
        case "'":
            parts = _read(_FOLD, 1)
            document.units += make_string_units(document, parts, _SINGLE, languages)
        case _:
            units = make_string_units(document, _read(_FOLD), PLAIN, languages)
            for unit in units:
                before, after = text[start : unit.start], text[unit.end : end]
                write = functools.partial(_write_plain, (before, after), in_flow)
                if len(units) > 1:
                    write = functools.partial(_write_in_plain, write)
                    document.units.append(replace(unit, join=write))
                else:
                    document.units.append(replace(unit, start=start, end=end, join=write))


def _read_block(text: str, start: int, end: int, *, is_folded: bool) -> list[MarkupPart]:
    """Returns the lines of a block; lines that continue a sentence belong to it."""
    first = text.find("\n", start, end) + 1
    lines = re.findall(r"[^\n]*+\n|[^\n]++", text[first:end]) if first else []
    filled = [line for line in lines if line.strip()]
    given = re.match(r"[|>][+-]?([1-9])", text[start:end])
    # With an explicit indentation, any beyond the shortest is text, and stays as it is.
    indent = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    if given is None and filled:
        indent = len(filled[0]) - len(filled[0].lstrip(" "))
    parts: list[MarkupPart] = []
    previous, before = "", first
    position = first
    for line in lines:
        content = line.strip("\r\n")
        own = content[indent:]
        begin, stop = position + len(content) - len(own), position + len(content)
        position += len(line)
        if not own.strip():
            previous = ""
            continue
        is_joined = continues(previous, own)
        if is_folded:
            is_joined = bool(previous) and not own.startswith((" ", "\t"))
        if is_joined:
            raw = text[before:begin]
            parts.append(MarkupPart("text", before, begin, spelled=(EscapedText("\n", raw),)))
        else:
            parts.append(MarkupPart("edge", before, begin))
        parts.append(MarkupPart("text", begin, stop, spelled=as_written(own)))
        previous, before = own, stop
        if is_folded and own.startswith((" ", "\t")):
            previous = ""
    return parts


def _ends_paragraph(spelled: EscapedText) -> bool:
    """Checks that a line's end is more than space: an escape, or a blank line."""
    raw = spelled.raw
    return spelled.text == "\n" and (raw.startswith("\\") or raw.count("\n") > 1)


def _read_special(found: re.Match[str]) -> str:
    raw = found.group()
    if found.lastgroup != "escape":
        return {"fold": "\n", "quote": "'", "end": ""}.get(found.lastgroup or "", raw)
    if raw[1] not in "xuU" or len(raw) == 2:
        return str(Scanner.ESCAPE_REPLACEMENTS.get(raw[1], raw[1]))
    if raw[1] == "u":
        return read_utf16(raw[2:6] + raw[8:])
    code = int(raw[2:], 16)
    # A lone surrogate is invalid.
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


def _escape_double(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", written)


def _write_plain(around: tuple[str, str], in_flow: bool, tokens: Sequence[Token]) -> str:
    """Returns a plain string, in quotes if it would otherwise be read as something else."""
    # `around` is the rest of the string before and after the text; `in_flow` means in brackets.
    raw = around[0] + "".join(token.raw for token in tokens) + around[1]
    value = _LINE_FOLD.sub(" ", raw)
    line = f"[{value}]" if in_flow else f"k: {value}"
    try:
        events = list(yaml.parse(line, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, ValueError):
        events = []
    found = [each for each in events if isinstance(each, ScalarEvent)]
    is_read = (
        len(found) == (1 if in_flow else 2)
        and not any(isinstance(each, AliasEvent) for each in events)
        and found[-1].value == value
        and found[-1].style is None
        and _is_string(found[-1])
    )
    return raw if is_read else f'"{_escape_double(value)}"'


def _write_in_plain(write: Callable[[Sequence[Token]], str], tokens: Sequence[Token]) -> str:
    """Returns one of several texts of a plain string, which can't get its own quotes."""
    if write(tokens).startswith('"'):
        raise UnwritableError
    return "".join(token.raw for token in tokens)
