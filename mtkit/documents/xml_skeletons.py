"""The skeletons of XML, office documents, XLIFF and TMX, as expat reads them."""

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple
from xml.parsers import expat

from mtkit.documents.document import Languages
from mtkit.documents.html_skeletons import (
    OF_LANGUAGE,
    Skeleton,
    UnreadableError,
    count_tags,
    freeze,
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


class _Event(NamedTuple):
    """What expat finds: `open` and `close` with a name, `text`, or `other` markup."""

    kind: str
    name: str
    attributes: frozenset[tuple[str, str]] = frozenset()


def _list_events(
    text: str,
    *,
    namespaces: bool = False,
    ignored: frozenset[str] = OF_LANGUAGE,
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


def read_xml(text: str) -> Skeleton:
    """Reads each element with the multiset of its own: which are blocks is the reader's to say."""
    opened: list[tuple[_Event, Counter[Hashable]]] = [(_Event("open", ""), Counter())]
    for event in _list_events(text):
        match event.kind:
            case "open":
                opened.append((event, Counter()))
            case "close":
                element, inside = opened.pop()
                opened[-1][1][hash((element, freeze(inside)))] += 1
            case "other":
                opened[-1][1][event] += 1
            case _:
                pass
    return [freeze(opened[0][1])]


def _shorten(name: str) -> str:
    """Returns an element's local name behind a short name of its namespace."""
    namespace, _, local = name.rpartition(" ")
    short = next((each for key, each in _NAMESPACE_NAMES.items() if key in namespace), namespace)
    return f"{short} {local}"


def read_office(text: str) -> Skeleton:
    """Returns the skeleton of a part of an office document."""
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
            self._add(freeze(self._paragraphs.pop()))
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
        return (freeze(self._tags), count_tags(self.read_text()))


class BilingualSkeleton:
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
