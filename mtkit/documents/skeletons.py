"""A document's markup as another parser reads it, to compare two texts.

A skeleton has everything that translation doesn't change: blocks, keys and times in order, and for
each text the multiset of its inline markup, which may move. Parsers are Python's (expat, json,
html.parser), PyYAML, Babel and markdown-it, not mtkit's own readers.
"""

import contextlib
import io
import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import yaml
from babel.messages.pofile import PoFileError
from babel.messages.pofile import read_po as read_catalog
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    NodeEvent,
    ScalarEvent,
)

from mtkit.documents.formats.markdown import FRONT_MATTER
from mtkit.documents.formats.markdown_inline import AS_MARKUP, make_parser
from mtkit.documents.formats.markdown_masks import (
    DEFINITION,
    MASK,
    has_mdx,
    mask_page,
    mask_templates,
)
from mtkit.documents.formats.yaml_strings import RESOLVER, NodeRoles
from mtkit.documents.html_skeletons import (
    Skeleton,
    UnreadableError,
    count_tags,
    freeze_counts,
    html_skeleton,
)

_TIMES = re.compile(r"[^\n]*?\d[ \t]*-->[^\n]*")
_SUBTITLE_TAG = re.compile(r"<(/?)([A-Za-z]*)[^<>\n]*>|\{\\[^{}\n]*\}")


def json_skeleton(text: str) -> Skeleton:
    """Returns the skeleton of a JSON document."""
    try:
        value = json.loads(text, object_pairs_hook=_Members, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from error
    items: list[Hashable] = []
    pending: list[Any] = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, _Members):
            items.append(tuple(key for key, _ in value))
            pending += [each for _, each in value][::-1]
        elif isinstance(value, list):
            items.append(len(value))
            pending += value[::-1]
        else:
            items.append(count_tags(value) if isinstance(value, str) else value)
    return items


class _Members(list[tuple[str, Any]]):
    """An object's members, in order."""


def yaml_skeleton(text: str) -> Skeleton:
    """Returns the skeleton of a YAML document."""
    items: list[Hashable] = []
    roles = NodeRoles()
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, CollectionEndEvent):
                roles.end()
                items.append("end")
            elif isinstance(event, NodeEvent):
                is_key = roles.add(event) in ("key", "skip")
                items.append(_describe_node(event, is_key=is_key))
            else:
                items.append(type(event).__name__)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from error
    return items


def _describe_node(event: Any, *, is_key: bool) -> Hashable:
    if isinstance(event, AliasEvent):
        return ("alias", event.anchor)
    if isinstance(event, CollectionStartEvent):
        return (type(event).__name__, event.anchor, event.tag)
    assert isinstance(event, ScalarEvent)
    tag = event.tag or RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
    is_text = not is_key and tag in ("!", "tag:yaml.org,2002:str")
    value = count_tags(event.value) if is_text else event.value
    return ("scalar", event.anchor, event.tag, "str" if is_text else tag, value)


def po_skeleton(text: str) -> Skeleton:
    """Returns the skeleton of a gettext catalogue."""
    try:
        catalog = read_catalog(io.StringIO(text), abort_invalid=True)
    except (PoFileError, ValueError, LookupError, IndexError) as error:
        raise UnreadableError(str(error)) from error
    items: list[Hashable] = []
    for message in catalog:
        ids = message.id if isinstance(message.id, tuple | list) else (message.id,)
        strings = message.string if isinstance(message.string, tuple | list) else (message.string,)
        if not message.id:
            continue
        tags = [
            count_tags(string or ids[min(index, len(ids) - 1)])
            for index, string in enumerate(strings)
        ]
        # A translation that isn't released becomes fuzzy.
        flags = frozenset(message.flags) - {"fuzzy"}
        items.append((tuple(ids), message.context, flags, tuple(tags)))
    return items


def subtitles_skeleton(text: str) -> Skeleton:
    """Returns the skeleton of subtitles."""
    items: list[Hashable] = []
    counts: Counter[str] = Counter()
    lines = text.split("\n" if "\n" in text else "\r")
    for line in [*lines, "1 -->"]:
        if _TIMES.fullmatch(line):
            # Lines with the same tag may be merged.
            items += [freeze_counts(counts), line]
            counts = Counter()
            continue
        for found in _SUBTITLE_TAG.finditer(line):
            if found[2]:
                counts[found[2].lower()] += -1 if found[1] else 1
            else:
                counts[found.group()] += 1
    return items


def markdown_skeleton(text: str) -> Skeleton:
    """Returns the skeleton of a Markdown page."""
    parser = make_parser()
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    items: list[Hashable] = [text[:start]]
    if text.startswith("---"):
        with contextlib.suppress(UnreadableError):
            items = [*yaml_skeleton(text[:start])]
    body = text[start:]
    is_mdx = has_mdx(body)
    templates = MASK.finditer(mask_templates(body, [], is_mdx=is_mdx))
    items.append(freeze_counts(Counter(body[slice(*each.span())] for each in templates)))
    try:
        tokens = parser.parse(mask_page(body, is_mdx=is_mdx).text)
    except RecursionError as error:
        raise UnreadableError(str(error)) from error
    for token in tokens:
        if token.type == "inline":
            label = DEFINITION.match(token.content)
            items.append((label and label.group(), _count_inline(token.children or [])))
        elif token.type == "html_block":
            items.append(tuple(html_skeleton(token.content)))
        elif token.nesting >= 0:
            code = token.content if token.type in ("fence", "code_block") else ""
            items.append((token.type, token.tag, token.info, token.level, code))
    return items


_TYPES = {"em": "em_open", "strong": "strong_open", "s": "s_open", "break": "hardbreak"}
"""Types of markdown-it's tokens by markup."""


def _count_inline(tokens: Iterable[Any]) -> Hashable:
    counts: Counter[Hashable] = Counter()
    for token in tokens:
        match token.type:
            case "text" | "text_special" | "softbreak":
                pass
            case "link_open":
                counts[("link", token.attrs["href"])] += 1
            case "image":
                counts[("image", token.attrs["src"])] += 1
            case "code_inline":
                counts[("code", token.content)] += 1
            case "html_inline":
                name = re.match(r"</?[A-Za-z][^\s/>]*", token.content)
                tag = name.group()[1:].lower() if name else "!"
                if not tag.startswith("/"):
                    counts[_TYPES.get(AS_MARKUP.get(tag, ""), f"<{tag}>")] += 1
            case _ if token.nesting >= 0:
                counts[token.type] += 1
            case _:
                pass
    return freeze_counts(counts)
