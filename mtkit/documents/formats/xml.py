"""XML of any kind: elements among text are inline, the others are blocks."""

import bisect
import html
from collections.abc import Sequence

from mtkit.documents.document import Document, Edit, EscapedText, LanguageCodes
from mtkit.documents.formats.android_resources import read_resources
from mtkit.documents.formats.html_elements import is_element, is_inline
from mtkit.documents.units import MarkupPart, make_units, protect
from mtkit.documents.xml_text import XML_TEXT, read_xml_spelled
from mtkit.text.xml_tokens import XmlToken, end_of, find_attribute, join_token_text, read_xml_tokens

# fmt: off
_SKIPPED = frozenset(
    (
        "code", "codeblock", "codeph", "command", "computeroutput", "filename", "literal",
        "literallayout", "math", "pre", "programlisting", "screen", "script", "style", "svg",
        "userinput",
    )
)
# fmt: on
"""Local names of elements whose text stays, in HTML, DocBook and DITA."""
_LANGUAGE = "xml:lang"


def read_xml(text: str, languages: LanguageCodes) -> Document:
    """Returns a document of an unknown kind with its units.

    Comments, CDATA and elements with `translate="no"` stay as they are.
    """
    tokens = read_xml_tokens(text)
    document = Document(text)
    root = next((token for token in tokens if token.kind in ("open", "empty")), None)
    if root is not None and root.name == "resources":
        read_resources(document, tokens, languages)
        return document
    parts: list[MarkupPart] = []
    inline = _find_inline(text, tokens)
    if root is not None and root.name in ("html", "body", "div"):
        inline = {index for index in inline if not _is_block(tokens[index])}
    wanted = [index for index, token in enumerate(tokens) if _is_wanted(token)]
    modes: list[tuple[int, str]] = []
    """Ends of open elements that start or end an untranslated part, with the reason."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        is_inline = index in inline
        while modes and index > modes[-1][0]:
            modes.pop()
        reason, detail = _find_reason_to_leave(token, languages)
        is_left = bool(modes and modes[-1][1])
        if token.kind == "open" and is_left and _is_wanted(token) and not reason:
            modes.append((token.partner, ""))
        elif token.kind == "open" and reason and not is_left:
            following = bisect.bisect_right(wanted, index)
            if following < len(wanted) and wanted[following] < token.partner:
                # It stays piece by piece.
                modes.append((token.partner, reason))
            else:
                inside = tokens[index : token.partner + 1]
                parts.append(_leave(text, inside, is_inline, inside[-1].end))
                if not (is_inline and reason == "code"):
                    document.skip(token.start, join_token_text(text, inside), reason, detail)
                index = token.partner + 1
                continue
        index += 1
        if modes and modes[-1][1]:
            parts.append(MarkupPart("edge", token.start, token.end))
            document.skip(token.start, join_token_text(text, [token]), modes[-1][1])
            continue
        if token.kind in ("open", "empty"):
            _rewrite_language(document, token, languages)
        elif token.kind == "cdata" and not is_inline:
            document.skip(token.start, join_token_text(text, [token]), "in CDATA")
        parts.append(_make_part(text, token, is_inline=is_inline))
    document.units = make_units(parts, XML_TEXT)
    return document


def _is_block(token: XmlToken) -> bool:
    """Checks that a tag is that of an XHTML block."""
    return is_element(token.name) and not is_inline(token.name)


def _is_wanted(token: XmlToken) -> bool:
    """Checks that an element is translated even inside an untranslated one."""
    return "yes" in (token.attributes.get("translate"), token.attributes.get("its:translate"))


def _find_inline(text: str, tokens: Sequence[XmlToken]) -> set[int]:
    """Returns the indices of the tags among text, or inside such an element."""
    parents: list[int] = []
    opened = [-1]
    for index, token in enumerate(tokens):
        if token.kind == "close":
            opened.pop()
        parents.append(opened[-1])
        if token.kind == "open":
            opened.append(index)
    has_text = {
        parent
        for parent, token in zip(parents, tokens, strict=True)
        if token.kind == "text" and text[token.start : token.end].strip()
    }
    inline: set[int] = set()
    for index, parent in enumerate(parents):
        if tokens[index].kind != "close" and (parent in has_text or parent in inline):
            inline |= {index, end_of(tokens, index)}
    return inline


def _find_reason_to_leave(token: XmlToken, languages: LanguageCodes) -> tuple[str, str]:
    """Returns why an element stays untranslated, as in `Document.skip`; "" if it doesn't."""
    if "no" in (token.attributes.get("translate"), token.attributes.get("its:translate")):
        return "marked translate=no", ""
    language = token.attributes.get(_LANGUAGE, "")
    if not languages.is_source(language):
        return "marked as another language", language
    is_code = token.name.rpartition(":")[2].lower() in _SKIPPED and not _is_wanted(token)
    return ("code", "") if is_code else ("", "")


def _rewrite_language(document: Document, token: XmlToken, languages: LanguageCodes) -> None:
    for key in (_LANGUAGE, "lang"):
        code = token.attributes.get(key, "")
        span = find_attribute(document.text, token, key) if code and languages.target else None
        if span is not None and languages.is_marked_source(code):
            document.edits.append(Edit(*span, languages.target))


def _leave(text: str, tokens: Sequence[XmlToken], is_inline: bool, end: int) -> MarkupPart:
    if not is_inline:
        return MarkupPart("edge", tokens[0].start, end)
    visible = [
        spelled
        for token in tokens
        if token.kind == "text"
        for spelled in read_xml_spelled(text[token.start : token.end])
    ]
    return MarkupPart("protected", tokens[0].start, end, spelled=tuple(visible))


def _make_entity(text: str, start: int, end: int) -> MarkupPart:
    """Returns an entity of an unread DTD: the public ones are HTML's."""
    raw = text[start:end]
    shown = html.unescape(raw)
    if shown == raw:
        # Nothing says what it is.
        return protect((start, end), raw)
    return MarkupPart("text", start, end, spelled=(EscapedText(shown, raw),))


def _make_part(text: str, token: XmlToken, *, is_inline: bool) -> MarkupPart:
    start, end = token.start, token.end
    match token.kind:
        case "text":
            return MarkupPart("text", start, end, spelled=read_xml_spelled(text[start:end]))
        case "open" | "close" as kind if is_inline:
            return MarkupPart(kind, start, end, token.name)
        case "other" if text[start] == "&":
            return _make_entity(text, start, end)
        case "empty" | "other" if is_inline:
            return MarkupPart("void", start, end)
        case "cdata" if is_inline:
            return protect((start, end), join_token_text(text, [token]))
        case _:
            return MarkupPart("edge", start, end)
