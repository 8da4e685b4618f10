"""A document's markup as another parser than mtkit's reader sees it, to compare two texts by.

A skeleton has everything that translation leaves alone: blocks, keys and times in order, and of
each text the multiset of its inline markup, which may move. Parsers are Python's (expat, json,
html.parser), PyYAML, Babel and markdown-it.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any, NamedTuple
from xml.parsers import expat

import yaml
from babel.messages.pofile import PoFileError, read_po
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from mtkit.documents.document import Languages
from mtkit.documents.formats.html import mask_code
from mtkit.documents.formats.html_elements import TEXT_ATTRIBUTES, is_element, is_inline
from mtkit.documents.formats.markdown import FRONT_MATTER
from mtkit.documents.formats.markdown_masks import MASK, mask_page, mask_templates

Skeleton = Sequence[Hashable]
ReadSkeleton = Callable[[str], Skeleton]

_TRANSLATED = frozenset((*TEXT_ATTRIBUTES, "content", "label", "value"))
"""Attributes of HTML that may be translated."""
_OF_LANGUAGE = frozenset(("lang", "xml:lang"))
_OF_STATE = frozenset(("state", "state-qualifier", "target-language", "trgLang"))
_TIMES = re.compile(r"[^\n]*?\d[ \t]*-->[^\n]*")
_SUBTITLE_TAG = re.compile(r"<(/?)([A-Za-z]*)[^<>\n]*>|\{\\[^{}\n]*\}")
_NAMESPACE_NAMES = {
    "wordprocessingml": "w",
    "drawingml": "a",
    "urn:oasis:names:tc:opendocument:xmlns:text:1.0": "text",
}
_RUN_PARENTS = (
    *("w p", "w hyperlink", "w ins", "w del", "w moveTo", "w moveFrom", "w smartTag", "w rt"),
    *("w fldSimple", "w sdtContent", "w customXml", "w bdo", "w dir", "w rubyBase", "a p"),
)
"""What a run may stand in (ECMA-376 part 1, 17.3.2.25 and 21.1.2.3.8)."""
_FORMATTING = {
    "w r": _RUN_PARENTS,
    "a r": _RUN_PARENTS,
    "w t": ("w r",),
    "a t": ("a r", "a fld"),
    "w noBreakHyphen": ("w r",),
    "text s": ("text p", "text h", "text span", "text a", "text meta", "text ruby-base"),
}
"""Elements that a translation may have more or fewer of, each with what it may stand in."""
_PARAGRAPHS = ("w p", "a p", "text p", "text h")


class UnreadableError(ValueError):
    """A text isn't of its format."""


def choose_skeleton(form: str, languages: Languages) -> ReadSkeleton | None:
    """Returns what reads the skeleton of a format's documents; None of one without markup.

    What it returns raises `UnreadableError`.
    """
    if form in ("xliff", "tmx"):
        return lambda text: _BilingualSkeleton(languages).read(text)
    return _READERS.get(form)


def _freeze(counts: Mapping[Any, int]) -> Hashable:
    return frozenset(counts.items())


class _HtmlSkeleton(HTMLParser):
    """Notes blocks in order, and the inline tags between them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.items: list[Hashable] = []
        self._inline: Counter[Hashable] = Counter()

    def read(self, text: str) -> list[Hashable]:
        """Returns the skeleton of a page."""
        self.feed(mask_code(text))
        self.close()
        self._add("end")
        return self.items

    def _add(self, item: Hashable) -> None:
        if self._inline:
            self.items.append(_freeze(self._inline))
            self._inline = Counter()
        self.items.append(item)

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        key = (tag, frozenset(each for each in attrs if each[0] not in _TRANSLATED | _OF_LANGUAGE))
        if is_inline(tag):
            self._inline[key] += 1
        else:
            self._add(key)
        if tag in ("title", "textarea"):
            self.set_cdata_mode(tag)

    def handle_endtag(self, tag: str) -> None:
        if is_inline(tag):
            self._inline[f"/{tag}"] += 1
        else:
            self._add(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem in ("script", "style"):
            self._add(data)

    def handle_comment(self, data: str) -> None:
        self._inline[("!", data)] += 1

    def handle_decl(self, decl: str) -> None:
        self._add(decl)

    def handle_pi(self, data: str) -> None:
        self._inline[("?", data)] += 1

    def unknown_decl(self, data: str) -> None:
        self._add(data)


def _read_html(text: str) -> Skeleton:
    return _HtmlSkeleton().read(text)


class _HtmlTags(HTMLParser):
    """Counts the tags of HTML in a string of another format."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.counts: Counter[Hashable] = Counter()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if is_element(tag) or ("-" in tag and attrs):
            self.counts[(tag, frozenset(attrs))] += 1

    def handle_endtag(self, tag: str) -> None:
        if is_element(tag) or "-" in tag:
            self.counts[f"/{tag}"] += 1


def _count_tags(decoded: str) -> Hashable:
    if "<" not in decoded:
        return frozenset()
    parser = _HtmlTags()
    # A tag without an end is text. `close` would search behind each one, in quadratic time.
    parser.feed(decoded)
    return _freeze(parser.counts)


class _Event(NamedTuple):
    """What expat finds: `open` and `close` with a name, `text`, or `other` markup."""

    kind: str
    name: str
    attributes: frozenset[tuple[str, str]] = frozenset()


def _list_events(
    text: str,
    *,
    namespaces: bool = False,
    ignored: frozenset[str] = _OF_LANGUAGE,
) -> list[_Event]:
    """Returns what expat finds, without some attributes."""
    events: list[_Event] = []
    parser = expat.ParserCreate("utf-8", " " if namespaces else None)
    parser.buffer_text = True
    parser.specified_attributes = True

    def open_element(name: str, attributes: dict[str, str]) -> None:
        kept = frozenset(each for each in attributes.items() if each[0] not in ignored)
        events.append(_Event("open", name, kept))

    parser.StartElementHandler = open_element
    parser.EndElementHandler = lambda name: events.append(_Event("close", name))
    parser.CharacterDataHandler = lambda data: events.append(_Event("text", data))
    parser.CommentHandler = lambda data: events.append(_Event("other", data))
    parser.ProcessingInstructionHandler = lambda *both: events.append(
        _Event("other", " ".join(both))
    )
    try:
        parser.Parse(text.encode("utf-8", errors="surrogatepass"), True)
    except expat.ExpatError as error:
        raise UnreadableError(str(error)) from error
    return events


def _read_xml(text: str) -> Skeleton:
    """Reads each element with the multiset of its own: which are blocks is the reader's to say."""
    opened: list[tuple[_Event, Counter[Hashable]]] = [(_Event("open", ""), Counter())]
    for event in _list_events(text):
        match event.kind:
            case "open":
                opened.append((event, Counter()))
            case "close":
                element, inside = opened.pop()
                opened[-1][1][hash((element, _freeze(inside)))] += 1
            case "other":
                opened[-1][1][event] += 1
            case _:
                pass
    return [_freeze(opened[0][1])]


def _shorten(name: str) -> str:
    """Returns an element's local name behind a short name of its namespace."""
    namespace, _, local = name.rpartition(" ")
    short = next((each for key, each in _NAMESPACE_NAMES.items() if key in namespace), namespace)
    return f"{short} {local}"


def _read_office(text: str) -> Skeleton:
    return _OfficeSkeleton().read(text)


class _OfficeSkeleton:
    """A part of an office document: paragraphs, and what is in each but the looks of its runs."""

    def __init__(self) -> None:
        self._items: list[Hashable] = []
        self._paragraphs: list[Counter[Hashable]] = []
        """What is in each open paragraph."""
        self._opened: list[str] = []
        self._depth = 0
        """Open elements in the formatting of a run."""

    def read(self, text: str) -> Skeleton:
        """Returns the skeleton."""
        for event in _list_events(text, namespaces=True):
            match event.kind:
                case "open":
                    self._open(_shorten(event.name), event)
                case "close":
                    self._close()
                case "other":
                    self._add(event)
                case _:
                    pass
        return self._items

    def _add(self, item: Hashable) -> None:
        if self._paragraphs:
            self._paragraphs[-1][item] += 1
        else:
            self._items.append(item)

    def _open(self, name: str, event: _Event) -> None:
        parent = self._opened[-1] if self._opened else ""
        self._opened.append(name)
        if self._depth or name in ("w rPr", "a rPr"):
            self._depth += 1
            return
        key = (name, event.attributes, parent)
        if name in _PARAGRAPHS:
            self._paragraphs.append(Counter({key: 1}))
        elif name not in _FORMATTING:
            self._add(key)
        elif parent not in _FORMATTING[name]:
            self._add((name, parent))

    def _close(self) -> None:
        name = self._opened.pop()
        if self._depth:
            self._depth -= 1
        elif name in _PARAGRAPHS:
            self._add(_freeze(self._paragraphs.pop()))
        elif not self._paragraphs:
            self._items.append(name)


class _Content:
    """The text of an element and the inline tags in it."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._tags: Counter[Hashable] = Counter()

    def add(self, event: _Event) -> None:
        """Adds what is found in the element."""
        if event.kind == "text":
            self._texts.append(event.name)
        elif event.kind == "open":
            self._tags[event] += 1

    def read_text(self) -> str:
        """Returns the text."""
        return "".join(self._texts)

    def freeze(self) -> Hashable:
        """Returns the tags, those of HTML in the text among them."""
        return (_freeze(self._tags), _count_tags(self.read_text()))


class _BilingualSkeleton:
    """All of an XLIFF or TMX file but translations, and the inline tags that each of these has.

    A unit without a translation has those of its source, so that a translation adds nothing.
    """

    def __init__(self, languages: Languages) -> None:
        self._source, self._target = Languages(languages.source), Languages(languages.target)
        self._items: list[Hashable] = []
        self._contents: dict[tuple[str, str], _Content] = {}
        """Of a unit: `source`, `seg-source` and `target`, and their segments by number."""
        self._variant = ""

    def read(self, text: str) -> Skeleton:
        """Returns the skeleton."""
        side, segment, depth = "", "", 0
        for event in _list_events(text, ignored=_OF_STATE):
            name = event.name.rpartition(":")[2] if event.kind in ("open", "close") else ""
            if not side:
                side = self._enter(name, event)
                depth, segment = int(side != ""), ""
                continue
            depth += {"open": 1, "close": -1}.get(event.kind, 0)
            if depth == 0:
                side = ""
            elif event.kind == "open" and name == "mrk" and ("mtype", "seg") in event.attributes:
                segment = dict(event.attributes).get("mid", "")
                self._find(side, segment)
            else:
                self._find(side, segment).add(event)
        return self._items

    def _find(self, side: str, segment: str) -> _Content:
        return self._contents.setdefault((side, segment), _Content())

    def _enter(self, name: str, event: _Event) -> str:
        """Returns the side whose text an element begins; notes anything else."""
        if event.kind == "open" and name in ("source", "seg-source", "target"):
            self._find(name, "")
            return name
        if event.kind == "open" and name == "seg" and self._variant:
            self._find(self._variant, "")
            return self._variant
        if name == "tuv" and event.kind == "open":
            attributes = dict(event.attributes)
            code = attributes.get("xml:lang", attributes.get("lang", ""))
            is_source = ("source", "") not in self._contents and self._source.is_source(code)
            is_target = not is_source and self._target.is_source(code)
            self._variant = "source" if is_source else "target" if is_target else ""
        if event.kind != "text" and self._variant != "target":
            self._items.append(event)
        if name == "tuv" and event.kind == "close":
            self._variant = ""
        if name in ("trans-unit", "segment", "tu") and event.kind == "close":
            self._end_unit()
        return ""

    def _end_unit(self) -> None:
        contents, self._contents = self._contents, {}
        source = contents.get(("source", ""), _Content())
        target = contents.get(("target", ""), _Content())
        segments = [key for side, key in contents if side == "target" and key]
        if not segments:
            segments = [""]
        for segment in segments:
            own = contents.get(("target", segment), target)
            other = contents.get(("seg-source", segment)) if segment else source
            if other is None and len(segments) == 1:
                other = source
            is_there = own.read_text().strip() or other is None
            self._items.append(own.freeze() if is_there or other is None else other.freeze())
        self._items.append(source.read_text())


def _read_json(text: str) -> Skeleton:
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
            items.append(_count_tags(value) if isinstance(value, str) else value)
    return items


class _Members(list[tuple[str, Any]]):
    """An object's members, in order."""


def _read_yaml(text: str) -> Skeleton:
    items: list[Hashable] = []
    opened: list[str] = []
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, CollectionEndEvent):
                opened.pop()
                items.append("end")
            elif isinstance(event, NodeEvent):
                role = opened[-1] if opened else "item"
                if role in ("key", "value"):
                    opened[-1] = "value" if role == "key" else "key"
                items.append(_describe_node(event, is_key=role in ("key", "skip")))
                if isinstance(event, CollectionStartEvent):
                    inner = "key" if isinstance(event, MappingStartEvent) else "item"
                    opened.append("skip" if role in ("key", "skip") else inner)
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
    tag = event.tag or _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
    is_text = not is_key and tag in ("!", "tag:yaml.org,2002:str")
    value = _count_tags(event.value) if is_text else event.value
    return ("scalar", event.anchor, event.tag, "str" if is_text else tag, value)


_RESOLVER = yaml.resolver.Resolver()


def _read_po(text: str) -> Skeleton:
    try:
        catalog = read_po(io.StringIO(text), abort_invalid=True)
    except (PoFileError, ValueError, LookupError, IndexError) as error:
        raise UnreadableError(str(error)) from error
    items: list[Hashable] = []
    for message in catalog:
        ids = message.id if isinstance(message.id, tuple | list) else (message.id,)
        strings = message.string if isinstance(message.string, tuple | list) else (message.string,)
        if not message.id:
            continue
        tags = [
            _count_tags(string or ids[min(index, len(ids) - 1)])
            for index, string in enumerate(strings)
        ]
        items.append((tuple(ids), message.context, frozenset(message.flags), tuple(tags)))
    return items


def _read_subtitles(text: str) -> Skeleton:
    items: list[Hashable] = []
    counts: Counter[str] = Counter()
    lines = text.split("\n" if "\n" in text else "\r")
    for line in [*lines, "1 -->"]:
        if _TIMES.fullmatch(line):
            # Lines in the same tag may become one.
            items += [_freeze(counts), line]
            counts = Counter()
            continue
        for found in _SUBTITLE_TAG.finditer(line):
            if found[2]:
                counts[found[2].lower()] += -1 if found[1] else 1
            else:
                counts[found.group()] += 1
    return items


def _read_markdown(text: str) -> Skeleton:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.block.ruler.at("reference", _read_reference)
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    items: list[Hashable] = [text[:start]]
    body = text[start:]
    templates = MASK.finditer(mask_templates(body))
    items.append(_freeze(Counter(body[slice(*each.span())] for each in templates)))
    try:
        tokens = parser.parse(mask_page(body).text)
    except RecursionError as error:
        raise UnreadableError(str(error)) from error
    for token in tokens:
        if token.type == "inline":
            items.append(_count_inline(token.children or []))
        elif token.type == "html_block":
            items.append(tuple(_read_html(token.content)))
        elif token.nesting >= 0:
            code = token.content if token.type in ("fence", "code_block") else ""
            items.append((token.type, token.tag, token.info, token.level, code))
    return items


def _read_reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Reads a link's target, but not the text of a footnote."""
    position = state.bMarks[start] + state.tShift[start]
    return not state.src.startswith("[^", position) and reference(state, start, end, silent)


_AS_MARKUP = {"<em>": "em_open", "<strong>": "strong_open", "<del>": "s_open", "<br>": "hardbreak"}
"""Tags that say the same as markup does."""


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
                tag = f"{name.group().lower()}>" if name else "<!>"
                if not tag.startswith("</"):
                    counts[_AS_MARKUP.get(tag, tag)] += 1
            case _ if token.nesting >= 0:
                counts[token.type] += 1
            case _:
                pass
    return _freeze(counts)


_READERS: dict[str, ReadSkeleton] = {
    "html": _read_html,
    "xml": _read_xml,
    "docx": _read_office,
    "pptx": _read_office,
    "odt": _read_office,
    "json": _read_json,
    "yaml": _read_yaml,
    "po": _read_po,
    "markdown": _read_markdown,
    "srt": _read_subtitles,
    "vtt": _read_subtitles,
}
