"""Strings of YAML, by the positions of PyYAML's tokens: no value is made, so nothing is run.

A library that parses and writes YAML (ruamel.yaml among them) keeps comments but breaks lines and
quotes by its own rules. Here only the characters of a string change, and of plain ones the quotes
if the translation needs any.
"""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import yaml
from yaml.events import AliasEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent
from yaml.scanner import Scanner
from yaml.tokens import ScalarToken

from mtkit.documents.document import PLAIN, Document, Escapes, Languages, Spelled, Token
from mtkit.documents.formats.plain import continues
from mtkit.documents.units import MAX_DEPTH, Part, make_units
from mtkit.errors import MtkitError

_STRING = "tag:yaml.org,2002:str"
_QUOTED = re.compile(
    r"(?P<end>\\\r?\n[ \t]*)|(?P<fold>[ \t]*(?:\r?\n[ \t]*)+)"
    r"|(?P<escape>\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.))"
)
_FOLD = re.compile(r"(?P<fold>[ \t]*(?:\r?\n[ \t]*)+)|(?P<quote>'')")
_UNPRINTABLE = re.compile("[\x7f-\x84\x86-\x9f\ufeff]")


def read_yaml(text: str, _: Languages) -> Document:
    """Returns YAML with the strings that are values or items; keys stay as they are.

    Raises:
        MtkitError: It is no YAML, or nested too deeply.
    """
    document = Document(text)
    try:
        tokens = {
            token.end_mark.index: token
            for token in yaml.scan(text, Loader=yaml.SafeLoader)
            if isinstance(token, ScalarToken)
        }
        for event, in_flow in _find_values(text):
            token = tokens.get(event.end_mark.index)
            if token is not None and token.value == event.value and _is_string(event):
                _add_string(document, token, in_flow=in_flow)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise MtkitError(f"{line}invalid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise MtkitError(f"invalid YAML: {error}") from error
    except (RecursionError, ValueError) as error:
        raise MtkitError(f"invalid YAML: {error}") from error
    return document


def _find_values(text: str) -> Iterator[tuple[ScalarEvent, bool]]:
    """Yields scalars that are values or items, and whether each stands in brackets."""
    opened: list[str] = []
    """What holds the next node: `key` or `value` of a mapping, or `item`; `skip` within a key."""
    num_flow: list[bool] = [False]
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        is_start = isinstance(event, MappingStartEvent | SequenceStartEvent)
        if isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
            num_flow.pop()
            continue
        if not is_start and not isinstance(event, ScalarEvent | AliasEvent):
            continue
        role = opened[-1] if opened else "item"
        if role in ("key", "value"):
            opened[-1] = "value" if role == "key" else "key"
        if isinstance(event, ScalarEvent) and role in ("value", "item"):
            yield event, num_flow[-1]
        if is_start:
            if len(opened) >= MAX_DEPTH:
                raise MtkitError(f"more than {MAX_DEPTH:,} values inside one another")
            is_mapping = isinstance(event, MappingStartEvent)
            inner = "key" if is_mapping else "item"
            opened.append("skip" if role in ("key", "skip") else inner)
            num_flow.append(num_flow[-1] or bool(event.flow_style))


def _is_string(event: ScalarEvent) -> bool:
    if event.tag not in (None, "!", _STRING):
        return False
    if event.style is not None or event.tag is not None:
        return True
    return _resolve(event.value) == _STRING


@functools.cache
def _find_resolver() -> yaml.resolver.Resolver:
    return yaml.resolver.Resolver()


def _resolve(value: str) -> str:
    return str(_find_resolver().resolve(yaml.ScalarNode, value, (True, False)))


def _add_string(document: Document, token: ScalarToken, *, in_flow: bool) -> None:
    start, end = token.start_mark.index, token.end_mark.index
    text = document.text
    match token.style:
        case "|" | ">" as style:
            parts = _read_block(text, start, end, is_folded=style == ">")
            document.units += make_units(parts, PLAIN)
        case '"':
            parts = _read_quoted(text, start + 1, end - 1)
            document.units += make_units(parts, Escapes(_escape_double))
        case "'":
            parts = _read_folded(text, start + 1, end - 1)
            document.units += make_units(parts, Escapes(lambda value: value.replace("'", "''")))
        case _:
            parts = _read_folded(text, start, end)
            units = make_units(parts, PLAIN)
            if len(parts) == 1 and units:
                write = functools.partial(_write_plain, text[start:end], in_flow)
                document.units.append(replace(units[0], join=write))


def _read_block(text: str, start: int, end: int, *, is_folded: bool) -> list[Part]:
    """Returns the lines of a block; those that go on with a sentence belong to it."""
    first = text.find("\n", start, end) + 1
    lines = text[first:end].splitlines(keepends=True) if first else []
    filled = [line for line in lines if line.strip()]
    given = re.match(r"[|>][+-]?([1-9])", text[start:end])
    # With a number given, what is more than the shortest indentation is text; it stays as it is.
    indent = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    if given is None and filled:
        indent = len(filled[0]) - len(filled[0].lstrip(" "))
    parts: list[Part] = []
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
            parts.append(Part("text", before, begin, spelled=(Spelled("\n", raw),)))
        else:
            parts.append(Part("edge", before, begin))
        parts.append(Part("text", begin, stop, spelled=(Spelled(own, own),)))
        previous, before = own, stop
        if is_folded and own.startswith((" ", "\t")):
            previous = ""
    return parts


def _read_folded(text: str, start: int, end: int) -> list[Part]:
    """Returns the paragraphs of a plain string, or of one in single quotes."""
    return _split(text, start, end, _FOLD)


def _read_quoted(text: str, start: int, end: int) -> list[Part]:
    """Returns the lines of a string in double quotes."""
    return _split(text, start, end, _QUOTED)


def _split(text: str, start: int, end: int, pattern: re.Pattern[str]) -> list[Part]:
    parts: list[Part] = []
    spelled: list[Spelled] = []
    done = begin = start
    for found in pattern.finditer(text, start, end):
        if done < found.start():
            spelled.append(Spelled(text[done : found.start()], text[done : found.start()]))
        raw, done = found.group(), found.end()
        value = _read_special(found)
        if value == "\n" and (found.lastgroup == "escape" or raw.count("\n") > 1):
            parts.append(Part("text", begin, found.start(), spelled=tuple(spelled)))
            parts.append(Part("edge", found.start(), done))
            spelled, begin = [], done
        else:
            spelled.append(Spelled(value, raw))
    if done < end:
        spelled.append(Spelled(text[done:end], text[done:end]))
    return [*parts, Part("text", begin, end, spelled=tuple(spelled))]


def _read_special(found: re.Match[str]) -> str:
    raw = found.group()
    match found.lastgroup:
        case "fold":
            return "\n"
        case "quote":
            return "'"
        case "end":
            return ""
        case _ if raw[1] in "xuU" and len(raw) > 2:
            return chr(int(raw[2:], 16))
        case _:
            return str(Scanner.ESCAPE_REPLACEMENTS.get(raw[1], raw[1]))


def _escape_double(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", written)


def _write_plain(source: str, in_flow: bool, tokens: Sequence[Token]) -> str:
    """Returns a plain string, in quotes where it would be read as something else without."""
    raw = "".join(token.raw for token in tokens)
    if raw == source:
        return raw
    value = re.sub(r"[ \t]*\r?\n[ \t]*", " ", raw)
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
