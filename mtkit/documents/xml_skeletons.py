"""Skeletons of XML, office documents, XLIFF and TMX, read with expat."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple
from xml.parsers import expat

from mtkit.documents.document import LanguageCodes
from mtkit.documents.html_skeletons import (
    OF_LANGUAGE,
    Skeleton,
    UnreadableError,
    count_tags,
    freeze_counts,
)

_OF_STATE = frozenset(("state", "state-qualifier", "target-language", "trgLang"))
_NAMESPACE_NAMES = {
    "wordprocessingml": "w",
    "drawingml": "a",
    "urn:oasis:names:tc:opendocument:xmlns:text:1.0": "text",
}
_RUN_PARENTS = (
    *("w p", "w hyperlink", "w ins", "w del", "w moveTo", "w moveFrom", "w smartTag", "w rt"),
    *("w fldSimple", "w sdtContent", "w customXml", "w bdo", "w dir", "w rubyBase", "a p"),
)
"""Allowed parents of a run (ECMA-376 part 1, 17.3.2.25 and 21.1.2.3.8)."""
_FORMATTING = {
    "w r": _RUN_PARENTS,
    "a r": _RUN_PARENTS,
    "w t": ("w r",),
    "a t": ("a r", "a fld"),
    "w noBreakHyphen": ("w r",),
    "text s": ("text p", "text h", "text span", "text a", "text meta", "text ruby-base"),
}
"""Elements whose number may change in translation, each with its allowed parents."""
_PARAGRAPHS = ("w p", "a p", "text p", "text h")


class _Event(NamedTuple):
    """An event of expat: `open` and `close` with a name, `text`, or `other` markup."""

    kind: str
    name: str
    attributes: frozenset[tuple[str, str]] = frozenset()


def _list_events(
    text: str,
    *,
    namespaces: bool = False,
    ignored: frozenset[str] = OF_LANGUAGE,
) -> list[_Event]:
    """Returns expat's events, without some attributes."""
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


def xml_skeleton(text: str) -> Skeleton:
    """Returns each element with the multiset of its content, in any order."""
    # mtkit's reader decides which elements are blocks.
    opened: list[tuple[_Event, Counter[Hashable]]] = [(_Event("open", ""), Counter())]
    for event in _list_events(text):
        match event.kind:
            case "open":
                opened.append((event, Counter()))
            case "close":
                element, inside = opened.pop()
                opened[-1][1][hash((element, freeze_counts(inside)))] += 1
            case "other":
                opened[-1][1][event] += 1
            case _:
                pass
    return [freeze_counts(opened[0][1])]


def _shorten(name: str) -> str:
    """Returns an element's local name after a short name of its namespace."""
    namespace, _, local = name.rpartition(" ")
    short = next((each for key, each in _NAMESPACE_NAMES.items() if key in namespace), namespace)
    return f"{short} {local}"


def office_skeleton(text: str) -> Skeleton:
    """Returns paragraphs of an office document's part, and their content without formatting."""
    items: list[Hashable] = []
    paragraphs: list[Counter[Hashable]] = []
    """The content of each open paragraph."""
    opened: list[str] = []
    depth = 0
    """Open elements in the formatting of a run."""

    def add(item: Hashable) -> None:
        if paragraphs:
            paragraphs[-1][item] += 1
        else:
            items.append(item)

    for event in _list_events(text, namespaces=True):
        if event.kind == "other":
            add(event)
        elif event.kind == "open":
            name, parent = _shorten(event.name), opened[-1] if opened else ""
            opened.append(name)
            key = (name, event.attributes, parent)
            if depth or name in ("w rPr", "a rPr"):
                depth += 1
            elif name in _PARAGRAPHS:
                paragraphs.append(Counter({key: 1}))
            elif name not in _FORMATTING:
                add(key)
            elif parent not in _FORMATTING[name]:
                add((name, parent))
        elif event.kind == "close":
            name = opened.pop()
            if depth:
                depth -= 1
            elif name in _PARAGRAPHS:
                add(freeze_counts(paragraphs.pop()))
            elif not paragraphs:
                items.append(name)
    return items


def _read_text(events: Iterable[_Event]) -> str:
    return "".join(event.name for event in events if event.kind == "text")


def _freeze(events: Sequence[_Event]) -> Hashable:
    """Returns the tags of an element, including HTML tags in its text."""
    tags = Counter(event for event in events if event.kind == "open")
    return freeze_counts(tags), count_tags(_read_text(events))


class BilingualSkeleton:
    """An XLIFF or TMX file without translations, and the inline tags of each translation.

    A unit without a translation has its source's tags, so that a translation adds nothing.
    """

    def __init__(self, languages: LanguageCodes) -> None:
        self._source, self._target = (
            LanguageCodes(languages.source),
            LanguageCodes(languages.target),
        )
        self._items: list[Hashable] = []
        self._contents: defaultdict[tuple[str, str], list[_Event]] = defaultdict(list)
        """Content of a unit's `source`, `seg-source` and `target`, and of their segments."""
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
                self._contents[side, segment] += []
            else:
                self._contents[side, segment].append(event)
        return self._items

    def _enter(self, name: str, event: _Event) -> str:
        """Returns the side whose text an element begins; records anything else."""
        if event.kind == "open" and name in ("source", "seg-source", "target"):
            self._contents[name, ""] += []
            return name
        if event.kind == "open" and name == "seg" and self._variant:
            self._contents[self._variant, ""] += []
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
        contents, self._contents = self._contents, defaultdict(list)
        source = contents[("source", "")]
        segments = [key for side, key in contents if side == "target" and key] or [""]
        for segment in segments:
            own = contents[("target", segment)]
            other = contents.get(("seg-source", segment)) if segment else source
            if other is None and len(segments) == 1:
                other = source
            is_there = other is None or _read_text(own).strip()
            self._items.append(_freeze(own if is_there or other is None else other))
        self._items.append(_read_text(source))
