"""XML text in the parts of a document."""

from mtkit.documents.document import Document, EscapedText, Escapes
from mtkit.documents.escaped_text import read_escaped_text
from mtkit.documents.units import MarkupPart, protect
from mtkit.text.xml_tokens import (
    ENTITY,
    XmlToken,
    escape_xml,
    find_cdata,
    read_entity,
    unescape_xml,
)

XML_TEXT = Escapes(escape_xml, unescape_xml)


def read_xml_spelled(text: str) -> tuple[EscapedText, ...]:
    """Returns an XML text with its entities decoded."""
    return read_escaped_text(text, ENTITY, read_entity)


def leave_cdata(document: Document, token: XmlToken) -> MarkupPart:
    """Returns the part of a CDATA section among other text, whose tags have no meaning outside."""
    inner = document.text[slice(*find_cdata(document.text, token))]
    document.skip(token.start, inner, "in CDATA")
    return protect((token.start, token.end), inner)
