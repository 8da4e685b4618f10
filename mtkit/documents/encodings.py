"""A document's bytes as text and back, with what the document itself says of its encoding."""

import codecs
import re

from mtkit.errors import MtkitError

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_XML = re.compile(r"""\A\s*+<\?xml\s[^<>]*?encoding\s*+=\s*+["']([A-Za-z0-9._:-]++)["']""")
_HTML = re.compile(
    r"""<meta\s[^<>]{0,200}?charset\s*+=\s*+["']?+([A-Za-z0-9._:-]++)""", re.IGNORECASE
)
_PO = re.compile(
    r'"Content-Type:[ \t]*+[a-z]++/[a-z]++;[ \t]*+charset=([A-Za-z0-9._:-]++)', re.IGNORECASE
)
_HEAD = 65_536
"""Characters at a document's beginning in which its encoding is declared."""
_DECLARATIONS = {
    "html": (_HTML, _XML),
    "xml": (_XML,),
    "xliff": (_XML,),
    "tmx": (_XML,),
    "docx": (_XML,),
    "pptx": (_XML,),
    "odt": (_XML,),
    "po": (_PO,),
}
_UNICODE = ("utf-8", "utf-16", "utf-16-le", "utf-16-be")


class Encoding:
    """How a document is encoded.

    Args:
        mark: The byte order mark that it begins with.
        name: Python's name of the encoding that is read and written.
        form: The document's format.
    """

    def __init__(self, mark: bytes, name: str, form: str) -> None:
        self._mark, self._name, self._form = mark, name, form

    def encode(self, text: str) -> bytes:
        """Returns a translation in this encoding.

        A declaration of an encoding that can't write the text is made to say UTF-8.
        """
        if self._name == "utf-8" and not text.isascii():
            text = _declare_utf8(text, self._form)
        return self._mark + text.encode(self._name)


def decode(content: bytes, form: str) -> tuple[str, Encoding]:
    """Returns a document's text, and how its translation is encoded: UTF-8, or as its mark says.

    Raises:
        MtkitError: It is in another encoding, and doesn't declare it.
    """
    mark = next((each for each in _MARKS if content.startswith(each)), b"")
    name = _MARKS.get(mark, "utf-8")
    try:
        return content[len(mark) :].decode(name), Encoding(mark, name, form)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, len(mark) + error.start) + 1
        declared = _find_declared(content[:_HEAD].decode("latin-1"), form)
        if form != "po" and declared is not None and declared[0] not in _UNICODE:
            try:
                return content.decode(declared[0]), Encoding(b"", "utf-8", form)
            except ValueError:
                pass
        charset = declared[0] if declared is not None and declared[0] != "utf-8" else "windows-1252"
        hint = f"convert it first, for example: iconv -f {charset} -t utf-8"
        if form == "po":
            hint = "convert it first: msgconv -t UTF-8 FILE"
        raise MtkitError(f"line {line}: invalid {name.upper()}", hint) from error


def _find_declared(text: str, form: str) -> tuple[str, tuple[int, int]] | None:
    """Returns the encoding that a document declares, by Python's name, and where it does."""
    for pattern in _DECLARATIONS.get(form, ()):
        found = pattern.search(text, 0, _HEAD)
        if found is not None:
            try:
                return codecs.lookup(found[1]).name, found.span(1)
            except LookupError:
                return found[1], found.span(1)
    return None


def _declare_utf8(text: str, form: str) -> str:
    declared = _find_declared(text, form)
    if declared is None or declared[0] == "utf-8":
        return text
    start, end = declared[1]
    return f"{text[:start]}{'UTF-8' if text[start:end].isupper() else 'utf-8'}{text[end:]}"
