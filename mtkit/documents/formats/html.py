"""HTML: blocks and inline tags by the positions of Python's tokenizer in the text."""

import html
import re
from collections.abc import Sequence
from html.parser import HTMLParser

from mtkit.documents.document import (
    Document,
    Edit,
    Escapes,
    Languages,
    Node,
    Span,
    Spelled,
    Token,
    Unit,
    fail_at,
)
from mtkit.documents.units import Part, make_units

# fmt: off
_INLINE = frozenset(
    (
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "data", "del", "dfn",
        "em", "font", "i", "img", "input", "ins", "mark", "nobr", "q", "rb", "rp", "rt", "rtc",
        "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "u", "wbr",
    )
)
_CODE = frozenset(
    (
        "code", "kbd", "math", "samp", "svg", "tt", "var",
    )
)
"""Inline elements whose text is left as it is."""
_SKIPPED = frozenset(
    (
        "applet", "audio", "canvas", "embed", "frameset", "iframe", "listing", "noembed",
        "object", "plaintext", "pre", "script", "style", "template", "textarea", "video", "xmp",
    )
)
"""Elements that are left as they are, and are no part of a sentence."""
_VOID = frozenset(
    (
        "area", "base", "basefont", "br", "col", "embed", "frame", "hr", "img", "input", "link",
        "meta", "param", "source", "track", "wbr",
    )
)
# fmt: on
_TEXT_ATTRIBUTES = ("title", "alt", "placeholder", "aria-label", "aria-description")
_META_NAMES = ("description", "keywords", "og:title", "og:description", "twitter:title")
_RAW_TEXT = ("title", "textarea")
_TAG_START = re.compile(r"<[A-Za-z/!?]")
"""What isn't read as text though it may be meant so."""
_ENTITY = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z][A-Za-z0-9]*;?)")
_ATTRIBUTE = re.compile(
    r"""(?<![\s/])[\s/]++([^\s/>=]++)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+)))?""", re.DOTALL
)
"""An attribute's name and value, in a tag that the tokenizer has found. It begins where space
begins, so that long space is read once."""


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _read(raw: str) -> str:
    return "" if _TAG_START.search(raw) else html.unescape(raw)


HTML_TEXT = Escapes(_escape, _read)


def read_spelled(text: str) -> tuple[Spelled, ...]:
    """Returns a text of HTML, with what its entities stand for."""
    spelled = []
    done = 0
    for found in _ENTITY.finditer(text):
        value = html.unescape(found.group())
        if value == found.group():
            continue
        if found.start() > done:
            run = text[done : found.start()]
            spelled.append(Spelled(run, run))
        spelled.append(Spelled(value, found.group()))
        done = found.end()
    if done < len(text):
        spelled.append(Spelled(text[done:], text[done:]))
    return tuple(spelled)


def read_html(text: str, languages: Languages) -> Document:
    """Returns a page, or a piece of one, with its units.

    Raises:
        MtkitError: It ends inside a tag, a comment or a script; elements are nested too deeply.
    """
    document = Document(text)
    read_html_part(document, (0, len(text)), languages)
    return document


def read_html_part(document: Document, span: Span, languages: Languages) -> None:
    """Adds the units and edits of a part of a document that is HTML.

    Raises:
        MtkitError: As `read_html`; nothing has been added.
    """
    reader = _Reader(document.text, span, languages)
    reader.read()
    document.units += [*reader.units, *make_units(reader.parts, HTML_TEXT)]
    document.edits += reader.edits


Attributes = dict[str, tuple[Span, str]]
"""Of each attribute of a tag where its value stands, without its quotes, and its text."""


def read_attributes(text: str, start: int, end: int) -> Attributes:
    """Returns the attributes of a tag that stands at these positions of a text."""
    raw = text[start:end]
    found: Attributes = {}
    if "=" not in raw:
        return found
    name = re.match(r"<[^\s/>]+", raw)
    for attribute in _ATTRIBUTE.finditer(raw, name.end() if name else 1):
        group = next((each for each in (2, 3, 4) if attribute.group(each) is not None), None)
        if group is None:
            continue
        first, last = attribute.span(group)
        span = (start + first, start + last)
        found.setdefault(attribute.group(1).lower(), (span, html.unescape(attribute.group(group))))
    return found


def is_inline(name: str) -> bool:
    """Returns whether an element is part of a sentence."""
    return name in _INLINE or name in _CODE or "-" in name


def is_void(name: str) -> bool:
    """Returns whether an element has no closing tag."""
    return name in _VOID


def is_left(name: str, attributes: Attributes, languages: Languages) -> bool:
    """Returns whether an element is left as it is."""
    if name in _SKIPPED or name in _CODE:
        return True
    if attributes.get("translate", ((0, 0), ""))[1].lower() == "no":
        return True
    if "notranslate" in attributes.get("class", ((0, 0), ""))[1].split():
        return True
    language = attributes.get("lang", ((0, 0), ""))[1]
    return bool(language) and not languages.is_source(language)


def read_visible(raw: str) -> tuple[Spelled, ...]:
    """Returns what a reader sees of an element, without its tags."""
    return read_spelled(re.sub(r"<[^>]*>", "", raw))


def rewrite_languages(attributes: Attributes, languages: Languages) -> list[Edit]:
    """Returns the edits that give a tag the language of the translation."""
    edits = []
    for key in ("lang", "xml:lang"):
        if key in attributes and languages.target:
            (start, end), language = attributes[key]
            if language.strip() and languages.is_source(language):
                edits.append(Edit(start, end, languages.target))
    return edits


def read_attribute_units(text: str, name: str, attributes: Attributes) -> list[Unit]:
    """Returns the units of a tag's attributes that a reader sees."""
    keys = list(_TEXT_ATTRIBUTES)
    if name == "meta" and any(
        attributes.get(key, ((0, 0), ""))[1].lower() in _META_NAMES for key in ("name", "property")
    ):
        keys.append("content")
    return [
        _make_attribute_unit(text, *attributes[key][0])
        for key in keys
        if key in attributes and any(map(str.isalpha, attributes[key][1]))
    ]


def _make_attribute_unit(text: str, start: int, end: int) -> Unit:
    quote = text[start - 1]
    node = Node("text", start, end, spelled=read_spelled(text[start:end]))
    if quote in "\"'":
        return Unit((node,), start, end, make_attribute_escapes(quote))
    return Unit((node,), start, end, make_attribute_escapes('"'), join=_quote)


class _Reader(HTMLParser):
    """Notes tokens with their positions; a token ends where the next begins."""

    def __init__(self, text: str, span: Span, languages: Languages) -> None:
        super().__init__(convert_charrefs=False)
        self.units: list[Unit] = []
        self.edits: list[Edit] = []
        self.parts: list[Part] = []
        self._text, self._languages = text, languages
        self._start, self._end = span
        ends = re.compile("\n").finditer(text, *span)
        self._lines = [self._start, *(found.end() for found in ends)]
        self._tokens: list[tuple[str, int, str]] = []

    def read(self) -> None:
        self.feed(self._text[self._start : self._end])
        rest, element = self.rawdata, self.cdata_elem
        if element is not None:
            raise fail_at(self._text, self._position(), f"<{element}> without an end")
        if rest.startswith("<") and len(rest) > 1:
            raise fail_at(self._text, self._position(), "the document ends inside a tag or comment")
        self.close()
        self._tokens.append(("edge", self._end, ""))
        self._sort()

    def _position(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _note(self, kind: str, name: str = "") -> None:
        self._tokens.append((kind, self._position(), name))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("open", tag)
        if tag in _RAW_TEXT:
            self.set_cdata_mode(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("selfclosed", tag)

    def handle_endtag(self, tag: str) -> None:
        self._note("close", tag)

    def handle_data(self, data: str) -> None:
        self._note("text")

    def handle_entityref(self, name: str) -> None:
        self._note("text")

    def handle_charref(self, name: str) -> None:
        self._note("text")

    def handle_comment(self, data: str) -> None:
        self._note("comment")

    def handle_decl(self, decl: str) -> None:
        self._note("edge")

    def handle_pi(self, data: str) -> None:
        self._note("edge")

    def unknown_decl(self, data: str) -> None:
        self._note("edge")

    def _sort(self) -> None:
        """Makes parts and edits of the tokens."""
        skipped: list[str] = []
        """Open elements that aren't translated, the outermost first; all in it are inside."""
        begin, in_sentence = 0, False
        for (kind, start, name), (_, end, _) in zip(self._tokens, self._tokens[1:], strict=False):
            is_tag = kind in ("open", "selfclosed")
            attributes = read_attributes(self._text, start, end) if is_tag else {}
            if skipped:
                if kind == "open" and name == skipped[0]:
                    skipped.append(name)
                elif kind == "close" and name == skipped[0]:
                    skipped.pop()
                    if not skipped:
                        self._leave(begin, end, in_sentence=in_sentence)
                continue
            if attributes:
                self.edits += rewrite_languages(attributes, self._languages)
            if kind == "open" and name not in _VOID and is_left(name, attributes, self._languages):
                skipped.append(name)
                begin, in_sentence = start, is_inline(name)
                continue
            self._add(kind, name, start, end)
            if attributes:
                self.units += read_attribute_units(self._text, name, attributes)
        if skipped:
            self._leave(begin, self._end, in_sentence=False)

    def _leave(self, start: int, end: int, *, in_sentence: bool) -> None:
        """Notes what is left as it is: a part of a sentence, or a block."""
        if in_sentence:
            visible = read_visible(self._text[start:end])
            self.parts.append(Part("protected", start, end, spelled=visible))
        else:
            self.parts.append(Part("edge", start, end))

    def _add(self, kind: str, name: str, start: int, end: int) -> None:
        match kind:
            case "text":
                spelled = read_spelled(self._text[start:end])
                self.parts.append(Part("text", start, end, spelled=spelled))
            case "comment":
                self.parts.append(Part("void", start, end))
            case "open" | "selfclosed" | "close" if is_inline(name):
                if name in _VOID:
                    kind = "void"
                elif kind == "selfclosed":
                    # Browsers take `<b/>` for `<b>`.
                    kind = "open"
                is_break = name == "br"
                self.parts.append(Part(kind, start, end, name, is_break=is_break))  # type: ignore[arg-type]
            case _:
                self.parts.append(Part("edge", start, end))


def _quote(tokens: Sequence[Token]) -> str:
    """Returns the value of an attribute that has no quotes, with them where it needs them now."""
    value = "".join(token.raw for token in tokens)
    return value if re.fullmatch(r"[^\s\"'=<>`]+", value) else f'"{value}"'


def make_attribute_escapes(quote: str) -> Escapes:
    """Returns how the value of an attribute is written between quotes."""
    written = "&quot;" if quote == '"' else "&#39;"

    def escape(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(quote, written)

    def read(raw: str) -> str:
        return "" if quote in raw else html.unescape(raw)

    return Escapes(escape, read)
