"""Paragraphs of Word, PowerPoint (Office Open XML, ECMA-376) and OpenDocument texts.

In Word and PowerPoint all text is in runs, each with its formatting. Runs with a paragraph's most
common formatting are its plain text; the others are inline elements, placed like those of HTML.
Where the translation enters or leaves such an element, runs are closed and opened. Tabs and line
breaks end a unit.
"""

import re
from collections.abc import Sequence

from mtkit.documents.document import Document, EscapedText, LanguageCodes
from mtkit.documents.formats.office_runs import (
    HYPHEN,
    RUN_TEXT,
    Paragraph,
    ParagraphItem,
    TextRun,
    add_runs,
    wrap_unit,
)
from mtkit.documents.units import MarkupPart, make_units
from mtkit.documents.xml_text import XML_TEXT, read_xml_spelled
from mtkit.text.xml_tokens import XmlToken, children, join_token_text, read_xml_tokens

_NAMESPACE = re.compile(
    r"http://(?:schemas\.openxmlformats\.org|purl\.oclc\.org/ooxml)/"
    r"(?:wordprocessingml|drawingml)(?:/2006)?/main|"
    r"urn:oasis:names:tc:opendocument:xmlns:text:1\.0|"
    r"urn:org:documentfoundation:names:experimental:office:xmlns:loext:1\.0"
)
_UNSEEN = re.compile(
    r"<(?:\w+:)?(?:lang|noProof|rtl|cs|szCs|bCs|iCs)\b[^>]*/>|"
    r'\s(?:dirty|err|lang|altLang|smtClean)="[^"]*"'
)
"""Invisible differences between formattings."""
_SPACE_BETWEEN = re.compile(r">\s+<")
_NO_LOOK = re.compile(r"<(?:\w+:)?rPr\s*(?:/>|></(?:\w+:)?rPr\s*>)")
_RUN_HOLDERS = frozenset(
    ["hyperlink", "ins", "moveTo", "smartTag", "fldSimple", "sdt", "customXml", "bdo", "dir"]
)
"""Elements of a paragraph that hold runs."""
_TEXT_HOLDERS = frozenset(["span", "a", "meta", "ruby", "content-control"])
"""Elements of a paragraph of OpenDocument that hold text; the last is LibreOffice's own."""
_CONTENT = {"sdt": "sdtContent", "ruby": "ruby-base"}
"""The child that holds all text of such an element."""
_PROPERTIES = frozenset(["smartTagPr", "customXmlPr", "fldData"])
"""First children that aren't part of the element's text."""
_RUN_EDGES = frozenset(["tab", "br", "cr", "ptab", "pPr", "endParaRPr", "fldChar", "instrText"])
_TEXT_EDGES = frozenset(["tab", "line-break"])
_REMOVED = frozenset(["del", "moveFrom", "deletion"])
"""Elements with deleted text, kept only for undo."""
_UNREAD = _REMOVED | {"instrText", "delText", "delInstrText", "fldData", "binData"}
_UNREAD |= {"rt", "ruby-text", "note-citation"}
"""Elements whose text is invisible, or needs no translation."""
_FIELD = re.compile(r"fldCharType\s*=\s*[\"'](\w*)|\Z")
_INSTRUCTION = re.compile(r"\binstr\s*+=\s*+[\"']([^\"']*+)")
_LINK = "HYPERLINK"
"""Prefix of a field's instruction if its result is a link's text."""
_TAG_NAME = re.compile(r"<([^\s/>]+)")
_REASON = "in unsupported elements"


def read_office(text: str, _: LanguageCodes) -> Document:
    """Returns a part of a document or presentation, with its units."""
    tokens = read_xml_tokens(text, namespaces=True)
    document = Document(text)
    index = 0
    while index < len(tokens):
        token = tokens[index]
        name = _name(token) if token.kind == "open" else ""
        if name in _REMOVED:
            index = token.partner
        elif name in ("p", "h"):
            reader = _RunReader if _has_runs(token) else _Reader
            reader(document, tokens, index).read()
        index += 1
    return document


def _name(token: XmlToken) -> str:
    """Returns the local name of a paragraph's element; empty in another namespace."""
    namespace, _, name = token.name.rpartition(" ")
    return name if _NAMESPACE.fullmatch(namespace) else ""


def _has_runs(token: XmlToken) -> bool:
    return not token.name.startswith("urn:")


class _Reader:
    """Reads a paragraph of OpenDocument from its first token: texts, tags and edges."""

    holders, edges = _TEXT_HOLDERS, _TEXT_EDGES

    def __init__(self, document: Document, tokens: Sequence[XmlToken], index: int) -> None:
        self.document, self.tokens = document, tokens
        self.text = document.text
        self.parts: list[MarkupPart] = []
        self._paragraph = index
        self._holders: dict[int, int] = {}
        """Indices of elements that hold text, by the index of the token that ends the text."""

    def read(self) -> None:
        """Adds the paragraph's units to the document."""
        index, end = self._paragraph + 1, self.tokens[self._paragraph].partner
        while index < end:
            token = self.tokens[index]
            if token.kind == "close":
                index = self.leave(index)
            elif token.kind in ("open", "empty"):
                index = self.read_element(index)
            else:
                self.read_text(index)
                index += 1
        self.add_units()

    def add_units(self) -> None:
        self.document.units += make_units(self.parts, XML_TEXT)

    def read_text(self, index: int) -> None:
        """Reads text, or anything else that isn't a tag."""
        token = self.tokens[index]
        if token.kind == "text":
            spelled = read_xml_spelled(self.text[token.start : token.end])
            self.add(MarkupPart("text", token.start, token.end, spelled=spelled))
        else:
            self.add_left(index)

    def read_element(self, index: int) -> int:
        """Reads an element, or its tag if it holds text; returns the next index."""
        name = _name(self.tokens[index])
        if name == "s":
            start, end = self.find_span(index)
            spelled = EscapedText(" ", self.text[start:end])
            self.add(MarkupPart("text", start, end, spelled=(spelled,)))
        elif name in self.edges:
            self.add(MarkupPart("edge", *self.find_span(index)))
        elif name not in self.holders or (content := self._find_content(index)) is None:
            self.add_left(index)
        else:
            return self.enter(index, content)
        return self.skip(index)

    def enter(self, index: int, content: int) -> int:
        """Reads the beginning of an element that holds text; returns the next index."""
        # `content` is the element in it that holds the text, or the element itself.
        holder, last = self.tokens[index], content
        for child in children(self.tokens, content):
            token = self.tokens[child]
            if _name(token) in _PROPERTIES and token.kind in ("open", "empty"):
                last = self.skip(child) - 1
            elif token.kind != "text" or self.text[token.start : token.end].strip():
                break
        self._holders[self.tokens[content].partner] = index
        self.add(MarkupPart("open", holder.start, self.tokens[last].end, holder.name))
        return last + 1

    def leave(self, index: int) -> int:
        """Reads the end of an element that holds text; returns the next index."""
        holder = self.tokens[self._holders[index]]
        end = self.tokens[holder.partner].end
        self.add(MarkupPart("close", self.tokens[index].start, end, holder.name))
        return holder.partner + 1

    def add(self, part: MarkupPart) -> None:
        self.parts.append(part)

    def add_left(self, index: int) -> None:
        """Adds something that stays, and records its visible text."""
        self.note_skipped(index)
        self.add(MarkupPart("void", *self.find_span(index)))

    def note_skipped(self, index: int, last: int | None = None) -> None:
        """Records visible text that stays, unless it is in its own paragraphs.

        It is that of one element, or of all up to the last one.
        """
        token = self.tokens[index]
        if token.kind not in ("open", "cdata", "text"):
            return
        pieces: list[str] = []
        opened = [True]
        end = self.skip(index if last is None else last)
        while index < end:
            each = self.tokens[index]
            name = _name(each)
            if each.kind == "open":
                if name in _UNREAD or name in ("p", "h"):
                    index = each.partner
                else:
                    opened.append(name != "")
            elif each.kind == "close":
                opened.pop()
            elif each.kind in ("text", "cdata") and opened[-1]:
                pieces.append(join_token_text(self.text, [each]))
            index += 1
        detail = self.find_tag_name(token) if token.kind == "open" else ""
        detail = detail if last is None else "field"
        self.document.skip(token.start, "".join(pieces), _REASON, detail)

    def find_tag(self, index: int) -> str:
        """Returns a tag as it is written."""
        return self.text[self.tokens[index].start : self.tokens[index].end]

    def find_tag_name(self, token: XmlToken) -> str:
        """Returns the name of an element as it is written."""
        found = _TAG_NAME.match(self.text, token.start)
        return found.group(1) if found else ""

    def _find_content(self, index: int) -> int | None:
        """Returns the element that holds another one's text; None without one."""
        name = _CONTENT.get(_name(self.tokens[index]))
        if name is None:
            return index if self.tokens[index].kind == "open" else None
        return self.find_child(index, name)

    def find_child(self, index: int, name: str) -> int | None:
        """Returns the index of an element's non-empty child."""
        for child in children(self.tokens, index):
            if self.tokens[child].kind == "open" and _name(self.tokens[child]) == name:
                return child
        return None

    def find_span(self, index: int) -> tuple[int, int]:
        """Returns the span of an element or text with all its content."""
        return self.tokens[index].start, self.tokens[self.skip(index) - 1].end

    def skip(self, index: int) -> int:
        """Returns the index after an element or text with all its content."""
        token = self.tokens[index]
        return (token.partner if token.kind == "open" else index) + 1


class _RunReader(_Reader):
    """Reads a paragraph of Word or PowerPoint, whose text is in runs."""

    holders, edges = _RUN_HOLDERS, _RUN_EDGES

    def __init__(self, document: Document, tokens: Sequence[XmlToken], index: int) -> None:
        super().__init__(document, tokens, index)
        is_word = "wordprocessingml" in tokens[index].name
        self._items = Paragraph(document.text, keeps_space=not is_word)
        self._opened: list[TextRun | None] = [None]
        """Open runs; None for elements that hold runs and for the paragraph."""
        self._fields: dict[int, int | None] = {}
        """The last run of each field that stays, by the first; None for others."""

    def add_units(self) -> None:
        items = self._items
        parts = add_runs(self.parts, items.starts, items.find_plain_look())
        self.document.units += [wrap_unit(unit, items) for unit in make_units(parts, RUN_TEXT)]

    def read_text(self, index: int) -> None:
        """Reads anything that isn't a tag: between runs there is no text."""
        token = self.tokens[index]
        if token.kind != "text" or self.text[token.start : token.end].strip():
            self.add_left(index)

    def read_element(self, index: int) -> int:
        """Reads an element, or its tag if it holds text; returns the next index."""
        name = _name(self.tokens[index])
        if self._opened[-1] is not None:
            return self._read_in_run(index, name)
        if name == "fldSimple" and not self._is_link(index):
            self.add_left(index)
            return self.skip(index)
        if name != "r" or self.tokens[index].kind == "empty":
            return super().read_element(index)
        inside = [_name(self.tokens[child]) for child in self._list_content(index)]
        if "fldChar" in inside and (last := self._find_field_end(index)) is not None:
            self.note_skipped(index, last)
            start, (_, end) = self.tokens[index].start, self.find_span(last)
            self.add(MarkupPart("void", start, end))
            return self.skip(last)
        if any(map(self._is_text, self._list_content(index))):
            self._opened.append(self._make_run(index))
            return index + 1
        for child in self._list_content(index):
            self.note_skipped(child)
        self.add(
            MarkupPart("void" if _RUN_EDGES.isdisjoint(inside) else "edge", *self.find_span(index))
        )
        return self.skip(index)

    def _is_link(self, index: int) -> bool:
        """Checks that a simple field is a link."""
        found = _INSTRUCTION.search(self.find_tag(index))
        return found is not None and found[1].strip().upper().startswith(_LINK)

    def _find_field_end(self, index: int) -> int | None:
        """Returns the last run of a field that begins in a run, if it stays; links' texts don't.

        None if the field doesn't end in this paragraph, or other text is in its first or last run.
        """
        if index not in self._fields:
            self._match_fields(index)
        return self._fields.get(index)

    def _match_fields(self, index: int) -> None:
        """Finds the last run of each field that begins in a run or a later one next to it."""
        opened: list[tuple[int, list[str]]] = []
        unsuited: set[int] = set()
        while self.tokens[index].kind != "close":
            bounds, has_text = [], False
            for child in children(self.tokens, index) if self._is_run(index) else ():
                name = _name(self.tokens[child])
                kind = ""
                if name == "fldChar":
                    kind = _FIELD.findall(self.find_tag(child))[0]
                    self._fields.setdefault(index)
                if kind == "begin":
                    opened.append((index, []))
                    bounds.append(opened[0][0])
                elif kind == "end" and opened:
                    bounds.append(opened[0][0])
                    first, told = opened.pop()
                    stays = told and not "".join(told).strip().upper().startswith(_LINK)
                    self._fields[first] = index if stays else None
                elif name == "instrText" and opened:
                    inside = self.tokens[child + 1 : self.tokens[child].partner]
                    opened[-1][1].append(join_token_text(self.text, inside))
                elif name == "t" and not opened:
                    has_text = True
            unsuited.update(bounds if has_text else ())
            index = self.skip(index)
        self._fields |= dict.fromkeys([*unsuited, *(first for first, _ in opened)])

    def _is_run(self, index: int) -> bool:
        return self.tokens[index].kind == "open" and _name(self.tokens[index]) == "r"

    def leave(self, index: int) -> int:
        """Reads the end of a run, or of an element that holds runs; returns the next index."""
        if self._opened[-1] is None:
            return super().leave(index)
        self._opened.pop()
        return index + 1

    def add(self, part: MarkupPart) -> None:
        """Adds the next part, and its item."""
        before = self._opened[-1]
        if part.kind == "open":
            self._opened.append(None)
        elif part.kind == "close":
            self._opened.pop()
        span = (part.start, part.end)
        self._add_item(part, ParagraphItem(*span, before, self._opened[-1], span))

    def _add_item(self, part: MarkupPart, item: ParagraphItem) -> None:
        super().add(part)
        self._items.add(item)

    def _read_in_run(self, index: int, name: str) -> int:
        """Reads an element of a run; returns the index after it, or after its tag."""
        if self._is_text(index) and name == "ruby":
            base = self.find_child(index, "rubyBase")
            assert base is not None, "it is text"
            return self.enter(index, base)
        if self._is_text(index):
            self._read_characters_of(index)
        elif name in _RUN_EDGES:
            self.add(MarkupPart("edge", *self.find_span(index)))
        elif name != "rPr":
            self.add_left(index)
        return self.skip(index)

    def _read_characters_of(self, index: int) -> None:
        """Reads an element of a run that holds characters, or is one."""
        run, token = self._opened[-1], self.tokens[index]
        start, end = outer = self.find_span(index)
        if _name(token) == "noBreakHyphen":
            spelled: tuple[EscapedText, ...] = (EscapedText(HYPHEN, self.text[start:end]),)
            prefix = self.find_tag_name(token).removesuffix("noBreakHyphen")
            tag, closing = f"<{prefix}t>", f"</{prefix}t>"
        else:
            start, end = token.end, self.tokens[token.partner].start
            spelled = read_xml_spelled(self.text[start:end])
            tag, closing = self.text[outer[0] : start], self.text[end : outer[1]]
        part = MarkupPart("text", start, end, spelled=spelled)
        self._add_item(
            part, ParagraphItem(start, end, run, run, outer, tag, closing, start == outer[0])
        )

    def _is_text(self, index: int) -> bool:
        """Checks that an element of a run holds text to translate, or is a character of it."""
        token = self.tokens[index]
        match _name(token):
            case "t" if token.kind == "open":
                return token.partner == index + 2 and self.tokens[index + 1].kind == "text"
            case "ruby":
                return self.find_child(index, "rubyBase") is not None
            case name:
                return name == "noBreakHyphen" and token.kind in ("open", "empty")

    def _list_content(self, index: int) -> list[int]:
        """Returns the indices of a run's content without formatting and space between tags."""
        return [
            child
            for child in children(self.tokens, index)
            if _name(self.tokens[child]) != "rPr"
            and (
                self.tokens[child].kind != "text"
                or self.text[slice(*self.find_span(child))].strip()
            )
        ]

    def _make_run(self, index: int) -> TextRun:
        token = self.tokens[index]
        look = ""
        for child in children(self.tokens, index):
            if _name(self.tokens[child]) == "rPr":
                look = self.text[slice(*self.find_span(child))]
        content = self._list_content(index)
        closing = self.tokens[token.partner]
        return TextRun(
            token.start,
            closing.end,
            self.text[token.start : token.end] + look,
            self.text[closing.start : closing.end],
            _NO_LOOK.sub("", _UNSEEN.sub("", _SPACE_BETWEEN.sub("><", look))),
            (self.find_span(content[0])[0], self.find_span(content[-1])[1]),
        )
