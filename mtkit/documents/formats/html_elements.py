"""HTML's elements, attributes and entities: which are inline, which stay, how text is written."""

import functools
import html
import html.entities
import re
from collections.abc import Sequence

from mtkit.documents.document import (
    Edit,
    EscapedText,
    Escapes,
    LanguageCodes,
    Node,
    Span,
    Token,
    Unit,
)
from mtkit.documents.escaped_text import read_escaped_text
from mtkit.text.languages import find_direction

# fmt: off
_INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "data", "del", "dfn",
    "em", "font", "i", "img", "input", "ins", "mark", "nobr", "q", "rb", "rp", "rt", "rtc",
    "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "u", "wbr",
))
_CODE = frozenset(("code", "kbd", "math", "samp", "svg", "tt", "var"))
"""Inline elements whose text stays."""
RUBY_TEXT = frozenset(("rp", "rt", "rtc"))
"""Ruby annotations, which stay with their characters."""
_SKIPPED = frozenset((
    "applet", "audio", "canvas", "embed", "frameset", "iframe", "listing", "noembed",
    "object", "plaintext", "pre", "script", "style", "template", "textarea", "video", "xmp",
))
"""Elements that stay, and aren't part of a sentence."""
_VOID = frozenset((
    "area", "base", "basefont", "br", "col", "embed", "frame", "hr", "img", "input", "link",
    "meta", "param", "source", "track", "wbr",
))
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "button", "caption", "center",
    "colgroup", "dd", "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption",
    "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup",
    "html", "label", "legend", "li", "main", "menu", "nav", "ol", "optgroup", "option", "p",
    "search", "section", "select", "summary", "table", "tbody", "td", "tfoot", "th", "thead",
    "title", "tr", "ul",
))
# fmt: on
TEXT_ATTRIBUTES = (
    *("title", "alt", "placeholder", "abbr"),
    *("aria-label", "aria-description", "aria-placeholder", "aria-roledescription"),
    *("aria-valuetext",),
)
"""Visible attributes of any element."""
_META_NAMES = (
    *("description", "keywords", "og:title", "og:description", "og:image:alt"),
    *("twitter:title", "twitter:description", "twitter:image:alt"),
)
_TAG_START = re.compile(r"<[A-Za-z/!?]")
"""Start of what HTML doesn't read as text."""
_UNENDED = sorted((name for name in html.entities.html5 if name[-1] != ";"), key=len, reverse=True)
"""Names of entities that don't need a semicolon: `&copyright` begins with one."""
_ENTITY_PATTERN = r"&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[A-Za-z][A-Za-z0-9]*+;|(?:{}){})"
_ENTITY = re.compile(_ENTITY_PATTERN.format("|".join(_UNENDED), ""))
_IN_ATTRIBUTE = re.compile(_ENTITY_PATTERN.format("|".join(_UNENDED), "(?![A-Za-z0-9=])"))
_ATTRIBUTE = re.compile(
    r"""(?<![\s/])[\s/]++([^\s/>=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"'][^\s>]*+)))?""",
    re.DOTALL,
)
"""An attribute's name and value in a known tag. The match starts where space starts, so that long
space is read once."""


def escape_tags(text: str) -> str:
    """Returns a text with `&` and `<` escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _read(raw: str) -> str:
    return "" if _TAG_START.search(raw) else html.unescape(raw)


HTML_TEXT = Escapes(functools.partial(html.escape, quote=False), _read)


def read_spelled(text: str, *, in_attribute: bool = False) -> tuple[EscapedText, ...]:
    """Returns HTML text with its entities decoded; in attributes, `&copy=` isn't one."""
    return read_escaped_text(text, _IN_ATTRIBUTE if in_attribute else _ENTITY, _read_entity)


def _read_entity(found: re.Match[str]) -> str | None:
    value = html.unescape(found.group())
    return None if value == found.group() else value


Attributes = dict[str, tuple[Span, str]]
"""For each attribute of a tag, the span of its value without quotes, and its text."""


def read_attributes(text: str, start: int, end: int) -> Attributes:
    """Returns the attributes of a tag at these positions."""
    raw = text[start:end]
    found: Attributes = {}
    if "=" not in raw and "translate" not in raw:
        return found
    name = re.match(r"<[^\s/>]+", raw)
    for attribute in _ATTRIBUTE.finditer(raw, name.end() if name else 1):
        group = next((each for each in (2, 3, 4) if attribute.group(each) is not None), None)
        if group is None:
            found.setdefault(attribute.group(1).lower(), ((start, start), ""))
            continue
        first, last = attribute.span(group)
        span = (start + first, start + last)
        found.setdefault(attribute.group(1).lower(), (span, html.unescape(attribute.group(group))))
    return found


def is_inline(name: str) -> bool:
    """Checks that an element is part of a sentence."""
    return name in _INLINE or name in _CODE or "-" in name


def is_void(name: str) -> bool:
    """Checks that an element has no closing tag."""
    return name in _VOID


def is_element(name: str) -> bool:
    """Checks that HTML has an element with this name."""
    return name in _BLOCKS or name in _INLINE or name in _CODE or name in _SKIPPED or name in _VOID


def _read_wishes(attributes: Attributes) -> dict[str, str]:
    return {key: attributes[key][1] for key in ("translate", "class", "lang") if key in attributes}


def find_reason_to_leave(
    name: str, attributes: Attributes, languages: LanguageCodes
) -> tuple[str, str]:
    """Returns why an element stays untranslated, as in `Document.skip`; "" if it doesn't."""
    values = _read_wishes(attributes)
    wish, classes = values.get("translate", "").lower(), values.get("class", "").split()
    language = values.get("lang", "")
    if wish == "no" or ("notranslate" in classes and wish != "yes"):
        return "marked translate=no", ""
    if language and not languages.is_source(language):
        return "marked as another language", language
    if name in ("svg", "math") or name in RUBY_TEXT:
        return "in unsupported elements", name
    if name in _CODE or name == "pre":
        is_wanted = wish in ("", "yes") and "translate" in (values.keys() | classes)
        return ("", "") if is_wanted else ("code", "")
    return ("in unsupported elements", name) if name in _SKIPPED else ("", "")


def is_wanted(name: str, attributes: Attributes, languages: LanguageCodes) -> bool:
    """Checks that an element is translated even inside an untranslated one."""
    values = _read_wishes(attributes)
    says_so = (
        values.get("translate", "no").lower() in ("", "yes")
        or "translate" in values.get("class", "").split()
        or (values.get("lang", "") != "" and languages.is_marked_source(values["lang"]))
    )
    return says_so and not find_reason_to_leave(name, attributes, languages)[0]


def read_visible(raw: str) -> tuple[EscapedText, ...]:
    """Returns an element's visible text, without its tags."""
    return read_spelled(re.sub(r"<[^<>]*+>", "", raw))


_MAX_BEFORE_VALUE = 64
_NAME_BEFORE_VALUE = re.compile(r"(?:xml:)?lang\s*+=\s*+[\"']?\Z", re.IGNORECASE)


def rewrite_languages(text: str, attributes: Attributes, languages: LanguageCodes) -> list[Edit]:
    """Returns the edits that give a tag the target language, and its direction of writing."""
    edits: list[Edit] = []
    for key in ("lang", "xml:lang"):
        if key in attributes:
            edits += languages.rename(*attributes[key])
    if attributes.get("http-equiv", ((0, 0), ""))[1].lower() == "content-language":
        return languages.rename(*attributes.get("content", ((0, 0), "")))
    if not edits:
        return edits
    direction = find_direction(languages.target)
    if direction != find_direction(languages.source):
        span, given = attributes.get("dir", (None, ""))
        if span is not None and given.lower() in ("ltr", "rtl"):
            edits.append(Edit(*span, direction))
        elif span is None:
            start = max(0, edits[0].start - _MAX_BEFORE_VALUE)
            name = _NAME_BEFORE_VALUE.search(text[start : edits[0].start])
            if name is not None:
                place = start + name.start()
                edits.append(Edit(place, place, f'dir="{direction}" '))
    return sorted(edits, key=lambda edit: edit.start)


def read_attribute_units(text: str, name: str, attributes: Attributes) -> list[Unit]:
    """Returns the units of a tag's visible attributes."""
    keys = list(TEXT_ATTRIBUTES)
    if name == "meta" and any(
        attributes.get(key, ((0, 0), ""))[1].lower() in _META_NAMES
        for key in ("name", "property", "itemprop")
    ):
        keys.append("content")
    kind = attributes.get("type", ((0, 0), ""))[1].lower()
    if name in ("option", "optgroup", "track"):
        keys.append("label")
    elif name == "input" and kind in ("submit", "button", "reset"):
        keys.append("value")
    return [
        _make_attribute_unit(text, *attributes[key][0])
        for key in keys
        if key in attributes and any(map(str.isalpha, attributes[key][1]))
    ]


def _make_attribute_unit(text: str, start: int, end: int) -> Unit:
    quote = text[start - 1]
    node = Node("text", start, end, spelled=read_spelled(text[start:end], in_attribute=True))
    if quote in "\"'":
        return Unit((node,), start, end, make_attribute_escapes(quote))
    return Unit((node,), start, end, make_attribute_escapes('"'), join=_quote)


def _quote(tokens: Sequence[Token]) -> str:
    """Returns the value of an unquoted attribute, with quotes if it needs them now."""
    value = "".join(token.raw for token in tokens)
    return value if re.fullmatch(r"[^\s\"'=<>`]+", value) else f'"{value}"'


def make_attribute_escapes(quote: str) -> Escapes:
    """Returns the escapes of an attribute's value between quotes."""
    written = "&quot;" if quote == '"' else "&#39;"

    return Escapes(
        lambda text: escape_tags(text).replace(quote, written),
        lambda raw: "" if quote in raw else html.unescape(raw),
    )
