"""XML of any kind: elements among text are inline, the others are blocks."""

import html
from collections.abc import Sequence

from mtkit.documents.document import Document, Edit, Languages, Spelled
from mtkit.documents.units import Part, make_units
from mtkit.documents.xml_tokens import (
    XML_TEXT,
    XmlToken,
    find_attribute,
    read_xml_spelled,
    read_xml_tokens,
)

# fmt: off
_SKIPPED = frozenset(
    (
        "code", "codeblock", "codeph", "command", "computeroutput", "filename", "literal",
        "literallayout", "math", "pre", "programlisting", "screen", "script", "style", "svg",
        "userinput",
    )
)
# fmt: on
"""Local names of elements whose text is left as it is: those of HTML, DocBook and DITA."""
_LANGUAGE = "xml:lang"


def read_xml(text: str, languages: Languages) -> Document:
    """Returns a document of an unknown kind with its units.

    Comments, CDATA and elements with `translate="no"` are left as they are.

    Raises:
        MtkitError: As `read_xml_tokens`.
    """
    tokens = read_xml_tokens(text)
    document = Document(text)
    parts: list[Part] = []
    inline = _find_inline(text, tokens)
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind in ("open", "empty"):
            _rewrite_language(document, token, languages)
        if token.kind == "open" and _is_skipped(token, languages):
            end = tokens[token.partner].end
            parts.append(_leave(text, tokens[index : token.partner + 1], index in inline, end))
            index = token.partner
        else:
            parts.append(_make_part(text, token, is_inline=index in inline))
        index += 1
    document.units = make_units(parts, XML_TEXT)
    return document


def _find_inline(text: str, tokens: Sequence[XmlToken]) -> set[int]:
    """Returns the indices of the tags that stand among text, or inside of such an element."""
    has_text: set[int] = set()
    opened = [-1]
    for index, token in enumerate(tokens):
        if token.kind == "open":
            opened.append(index)
        elif token.kind == "close":
            opened.pop()
        elif token.kind == "text" and text[token.start : token.end].strip():
            has_text.add(opened[-1])
    inline: set[int] = set()
    opened = [-1]
    for index, token in enumerate(tokens):
        match token.kind:
            case "open":
                if opened[-1] in has_text or opened[-1] in inline:
                    inline |= {index, token.partner}
                opened.append(index)
            case "close":
                opened.pop()
            case _ if opened[-1] in has_text or opened[-1] in inline:
                inline.add(index)
            case _:
                pass
    return inline


def _is_skipped(token: XmlToken, languages: Languages) -> bool:
    if token.name.rpartition(":")[2].lower() in _SKIPPED:
        return True
    if "no" in (token.attributes.get("translate"), token.attributes.get("its:translate")):
        return True
    return not languages.is_source(token.attributes.get(_LANGUAGE, ""))


def _rewrite_language(document: Document, token: XmlToken, languages: Languages) -> None:
    for key in (_LANGUAGE, "lang"):
        code = token.attributes.get(key, "")
        span = find_attribute(document.text, token, key) if code and languages.target else None
        if span is not None and languages.is_source(code):
            document.edits.append(Edit(*span, languages.target))


def _leave(text: str, tokens: Sequence[XmlToken], is_inline: bool, end: int) -> Part:
    if not is_inline:
        return Part("edge", tokens[0].start, end)
    visible = [
        spelled
        for token in tokens
        if token.kind == "text"
        for spelled in read_xml_spelled(text[token.start : token.end])
    ]
    return Part("protected", tokens[0].start, end, spelled=tuple(visible))


def _make_part(text: str, token: XmlToken, *, is_inline: bool) -> Part:
    start, end = token.start, token.end
    match token.kind:
        case "text":
            return Part("text", start, end, spelled=read_xml_spelled(text[start:end]))
        case "open" | "close" as kind if is_inline:
            return Part(kind, start, end, token.name)
        case "other" if text[start] == "&":
            # An entity of a DTD that isn't read: the public ones are HTML's.
            raw = text[start:end]
            return Part("text", start, end, spelled=(Spelled(html.unescape(raw), raw),))
        case "empty" | "other" if is_inline:
            return Part("void", start, end)
        case "cdata" if is_inline:
            inner = text[start:end].removeprefix("<![CDATA[").removesuffix("]]>")
            return Part("protected", start, end, spelled=(Spelled(inner, inner),))
        case _:
            return Part("edge", start, end)
