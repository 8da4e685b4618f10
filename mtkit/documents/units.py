"""Turns a document's texts and tags into units: blocks of text with balanced tags.

A unit ends where a block does, at a tag without a partner in its block, and at two consecutive line
breaks. So the tags in a unit are always well-formed, whatever the document is.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from mtkit.documents.atoms import find_punctuation_kinds, is_symbol
from mtkit.documents.document import (
    EscapedText,
    Escapes,
    Node,
    Span,
    Unit,
    as_written,
    find_holders,
    walk,
)
from mtkit.errors import MtkitError
from mtkit.text.xml_tokens import MAX_DEPTH

_MAX_SEARCHED = 100
"""Maximum open inline tags among which a closing one searches its partner."""

_NUMBER = re.compile(r"\s*(?:\(?\d+(?:\.\d+)*[.)]|\d+(?:\.\d+)+)\s*")
"""The number of a heading or a paragraph."""
_NOTE = re.compile(r"\[\d{1,4}\]|\(\d{1,4}\)")
"""A footnote mark."""
_RAISED = re.compile(rf"{_NOTE.pattern}|\d{{1,4}}(?:[,–-]\d{{1,4}})*+")
_MAX_SYMBOL_TEXTS = 4
_OPTIONS = re.compile(
    r"\s*+(?:--[\[A-Za-z][^\s,|=]*+|-<[^<>]*+>|-[A-Za-z0-9<][^\s,|=]?+)"
    r"(?>[\s,|]*+=(?:[<\[][^<>\[\]]*+[>\]])?+[^\s,|=]*+"
    r"|[\s,|]++(?:-[^\s,|=]*+|[<\[][^<>\[\]]*+[>\]][^\s,|=]*+|[^\s,|=>]*+>[^\s,|=]*+))*+\s*+"
)
"""Options of a command, with their arguments: `-o <file>`, `--format=<fmt>`."""

RUN = "run"
"""The name of the tags around a run with its own formatting."""


class MarkupPart(NamedTuple):
    """A text, an inline tag or the edge of a block.

    Attributes:
        kind: `text`; `open`, `close` and `void`: tags; `joint`: of two runs; `protected`; `edge`:
            of a block.
        start: Start in the document's text.
        name: Of a tag: an opening and a closing one with the same name are partners; `RUN` for
            runs.
        spelled: Characters of a text, or of a protected part.
        is_break: A tag that breaks the line.
    """

    kind: Literal["text", "open", "close", "void", "joint", "protected", "edge"]
    start: int
    end: int
    name: str = ""
    spelled: tuple[EscapedText, ...] = ()
    is_break: bool = False


def protect(span: Span, visible: str) -> MarkupPart:
    """Returns a part that stays unchanged, with its visible text."""
    return MarkupPart("protected", *span, spelled=as_written(visible))


def make_units(
    parts: Sequence[MarkupPart], escapes: Escapes, *, keeps_breaks: bool = False
) -> list[Unit]:
    """Returns the units of a document's parts that have something to translate.

    Raises:
        MtkitError: Inline elements are nested more than 1,000 deep.
    """
    partners = _find_partners(parts)
    units = []
    for first, last in _find_runs(parts, partners):
        nodes = _trim(_build(parts[first:last], first, partners))
        if nodes and _has_letters(nodes):
            units.append(
                Unit(nodes, nodes[0].start, nodes[-1].end, escapes, keeps_breaks=keeps_breaks)
            )
    return units


def _find_partners(parts: Sequence[MarkupPart]) -> dict[int, int]:
    """Returns the index of each tag's partner, for pairs without an edge inside."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    last_break = -1
    num_broken = 0
    """The number of open tags with an edge inside."""
    for index, part in enumerate(parts):
        match part.kind:
            case "open":
                opened.append(index)
                if len(opened) - num_broken > MAX_DEPTH:
                    raise MtkitError(f"more than {MAX_DEPTH:,} tags inside one another")
            case "close":
                depth = _find_open(parts, opened, part.name)
                if depth is None or depth < len(opened) - 1:
                    # It has no partner, or tags that were opened since have none.
                    num_broken = len(opened) if depth is None else depth + 1
                if depth is not None:
                    if depth >= num_broken:
                        partners[index] = opened[depth]
                        partners[opened[depth]] = index
                    del opened[depth:]
                    num_broken = min(num_broken, depth)
            case "edge":
                num_broken = len(opened)
            case "void" if part.is_break:
                if last_break >= 0 and _is_space(parts[last_break + 1 : index]):
                    num_broken = len(opened)
                last_break = index
            case _:
                pass
    return partners


def _find_open(parts: Sequence[MarkupPart], opened: Sequence[int], name: str) -> int | None:
    for depth in range(len(opened) - 1, max(-1, len(opened) - 1 - _MAX_SEARCHED), -1):
        if parts[opened[depth]].name == name:
            return depth
    return None


def _is_space(parts: Sequence[MarkupPart]) -> bool:
    return all(
        part.kind == "text" and not any(each.text.strip() for each in part.spelled)
        for part in parts
    )


def _find_runs(parts: Sequence[MarkupPart], partners: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yields ranges of parts without an edge, an unpaired tag, or two consecutive breaks."""
    # Such ranges hold whole elements: an element that holds an edge has no partner here.
    first = 0
    last_break = -2
    for index, part in enumerate(parts):
        is_edge = part.kind == "edge"
        is_edge |= part.kind in ("open", "close") and index not in partners
        if part.kind == "void" and part.is_break:
            is_edge |= last_break >= first and _is_space(parts[last_break + 1 : index])
            last_break = index
        if is_edge:
            yield first, index
            first = index + 1
    yield first, len(parts)


def _build(parts: Sequence[MarkupPart], offset: int, partners: dict[int, int]) -> list[Node]:
    """Returns the nodes of balanced parts, the first of which has the index `offset`."""
    levels: list[list[Node]] = [[]]
    opened: list[MarkupPart] = []
    for index, part in enumerate(parts, offset):
        match part.kind:
            case "open":
                opened.append(part)
                levels.append([])
            case "close":
                children, begin = levels.pop(), opened.pop()
                inner = (begin.end, part.start)
                is_left = part.name != RUN and _ends_word(parts, index - offset)
                if children and not (is_left and _is_symbol(children, part.name)):
                    kind: Literal["run", "element"] = "run" if part.name == RUN else "element"
                    node = Node(kind, begin.start, part.end, inner, tuple(children))
                else:
                    node = Node("void", begin.start, part.end)
                levels[-1].append(node)
            case "text" | "protected" | "void" | "joint" as alone:
                levels[-1].append(
                    Node(alone, part.start, part.end, spelled=part.spelled, is_break=part.is_break)
                )
            case _:
                raise AssertionError(f"no part of a unit at {index}")
    return levels[0]


def _is_symbol(nodes: Sequence[Node], name: str) -> bool:
    """Checks that an element is a symbol or a footnote mark: nothing to translate.

    A superscript number is a footnote mark or an exponent.
    """
    inner = [child for node in nodes for child in (node.children or (node,))]
    if len(inner) > _MAX_SYMBOL_TEXTS or any(node.kind != "text" for node in inner):
        return False
    text = _read(inner)
    note = _RAISED if name in ("sup", "<sup>") else _NOTE
    return text == text.strip() and (is_symbol(text) or note.fullmatch(text) is not None)


def _ends_word(parts: Sequence[MarkupPart], close: int) -> bool:
    """Checks that a closing tag is followed by space, by closing punctuation, or by nothing."""
    if close + 1 == len(parts):
        return True
    following = parts[close + 1]
    if following.kind != "text":
        return False
    first = _read_spelled(following.spelled)[:1].strip()
    return not first or find_punctuation_kinds(first, [(0, 1)])[0] in ("end", "pause", "close")


def _read_spelled(spelled: Sequence[EscapedText]) -> str:
    return "".join(each.text for each in spelled)


def _read(nodes: Sequence[Node]) -> str:
    return "".join(_read_spelled(node.spelled) for node in nodes)


def _is_number(node: Node) -> bool:
    """Checks that an element is the number of a heading or the like: `2.1.`, `(3)`."""
    texts = node.children
    return (
        node.kind == "element"
        and all(each.kind == "text" for each in texts)
        and _NUMBER.fullmatch(_read(texts)) is not None
    )


def _trim(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Removes space, tags and a heading's number around the text, and elements that hold it all."""
    holders = find_holders(nodes, _is_text)

    def is_beside(index: int, inward: int) -> bool:
        node = nodes[index]
        if id(node) not in holders:
            return True
        # An entity is a separate text even inside a word.
        neighbour = index + inward
        is_apart = not 0 <= neighbour < len(nodes) or nodes[neighbour].kind != "text"
        return node.kind == "text" and is_apart and is_symbol(_read((node,)))

    while True:
        first, last = 0, len(nodes)
        while first < last and (is_beside(first, 1) or _is_number(nodes[first])):
            first += 1
        while first < last and is_beside(last - 1, -1):
            last -= 1
        nodes = nodes[first:last]
        if len(nodes) != 1 or nodes[0].kind != "element":
            return tuple(nodes)
        nodes = nodes[0].children


def _is_text(node: Node) -> bool:
    return node.kind == "protected" or (
        node.kind == "text" and any(each.text.strip() for each in node.spelled)
    )


def _has_letters(nodes: Sequence[Node]) -> bool:
    """Checks that there is a word to translate, and not only options of a command."""
    if all(node.kind == "text" for node in nodes) and _OPTIONS.fullmatch(_read(nodes)):
        return False
    return any(
        any(map(str.isalpha, each.text))
        for node in walk(nodes)
        if node.kind == "text"
        for each in node.spelled
    )
