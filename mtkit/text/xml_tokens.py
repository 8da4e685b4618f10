"""XML by its tokens, each with its position in the text.

expat finds them and checks that the document is well-formed. Nothing is fetched: expat requests
external entities and gets none. A document that declares its own entities is rejected, so none can
multiply; one that uses entities of a public DTD keeps them as they are.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from xml.parsers import expat

from mtkit.errors import MtkitError
from mtkit.text.words import Span

MAX_DEPTH = 1_000
"""Maximum nesting of elements; no human-written document has more."""
CDATA = "<![CDATA["
_ATTRIBUTE = re.compile(r"""(?<!\s)\s++([^\s=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
ENTITY = re.compile(r"&(?:#[0-9]++|#x[0-9a-fA-F]++|[^\s;&]++);")


@dataclass(frozen=True)
class XmlToken:
    """A token of a document.

    Attributes:
        kind: `open`, `close`, `empty` (`<a/>`), `text`, `cdata`, or `other`: comments,
            instructions, the document type, entities of a DTD.
        start: Start in the text.
        name: Of an element; as `NAMESPACE LOCAL` if namespaces are read.
        attributes: Named in the same way.
        partner: Index of the token that closes an element, or opens it.
    """

    kind: Literal["open", "close", "empty", "text", "cdata", "other"]
    start: int
    end: int
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    partner: int = -1


def read_xml_tokens(text: str, *, namespaces: bool = False) -> list[XmlToken]:
    """Returns all tokens of a document; together they are its text.

    Raises:
        MtkitError: It isn't well-formed, declares entities, or is nested too deeply.
    """
    return _TokenReader(text, namespaces=namespaces).read()


class _TokenReader:
    def __init__(self, text: str, *, namespaces: bool) -> None:
        self._text = text
        self._bytes = text.encode("utf-8", errors="surrogatepass")
        self._found: list[tuple[str, int, str, Mapping[str, str]]] = []
        self._depth = 0
        self._in_cdata = False
        # The declared encoding was that of the original bytes, not of these.
        self._parser = expat.ParserCreate("utf-8", " " if namespaces else None)
        self._parser.buffer_text = False
        # Attributes from a document type aren't in the text, and could be long for each element.
        self._parser.specified_attributes = True
        self._parser.StartElementHandler = self._open
        self._parser.EndElementHandler = self._close
        self._parser.CharacterDataHandler = self._read_text
        self._parser.StartCdataSectionHandler = self._begin_cdata
        self._parser.EndCdataSectionHandler = self._end_cdata
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.DefaultHandler = self._read_other
        self._parser.SkippedEntityHandler = self._read_other

    def read(self) -> list[XmlToken]:
        try:
            self._parser.Parse(self._bytes, True)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            raise MtkitError(
                f"line {error.lineno}: not well-formed XML: {message} (column {error.offset + 1})",
                "is the file complete?",
            ) from error
        return self._finish()

    def _note(self, kind: str, name: str = "", attributes: Mapping[str, str] | None = None) -> None:
        self._found.append((kind, self._parser.CurrentByteIndex, name, attributes or {}))

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MtkitError(
                f"line {self._parser.CurrentLineNumber}: more than {MAX_DEPTH:,} elements inside "
                "one another"
            )
        self._note("open", name, attributes)

    def _close(self, name: str) -> None:
        self._depth -= 1
        self._note("close", name)

    def _read_text(self, _: str) -> None:
        if not self._in_cdata:
            self._note("text")

    def _begin_cdata(self) -> None:
        self._in_cdata = True
        self._note("cdata")

    def _end_cdata(self) -> None:
        self._in_cdata = False

    def _refuse_entity(self, name: str, *_: Any) -> None:
        raise MtkitError(
            f"line {self._parser.CurrentLineNumber}: it declares the entity '{name}'; documents "
            "that do aren't read, since entities can fetch files and multiply",
            "resolve them first: xmllint --noent --nonet FILE",
        )

    def _read_other(self, *_: Any) -> None:
        if not self._in_cdata:
            self._note("other")

    def _finish(self) -> list[XmlToken]:
        """Returns tokens by positions in characters; tags of empty elements are joined."""
        ends = [start for _, start, _, _ in self._found[1:]] + [len(self._bytes)]
        positions = self._count_characters([0, *ends])
        tokens: list[XmlToken] = []
        opened: list[int] = []
        start = 0
        for (kind, _, name, attributes), end in zip(self._found, positions[1:], strict=True):
            if kind == "close":
                partner = opened.pop()
                first = tokens[partner]
                if start == end or (partner == len(tokens) - 1 and self._is_empty(first)):
                    tokens[partner] = XmlToken("empty", first.start, end, name, first.attributes)
                else:
                    tokens[partner] = XmlToken(
                        "open", first.start, first.end, name, first.attributes, len(tokens)
                    )
                    tokens.append(XmlToken("close", start, end, name, partner=partner))
            elif kind == "text" and tokens and tokens[-1].kind == "text":
                tokens[-1] = XmlToken("text", tokens[-1].start, end)
            else:
                if kind == "open":
                    opened.append(len(tokens))
                tokens.append(XmlToken(kind, start, end, name, attributes))  # type: ignore[arg-type]
            start = end
        return tokens

    def _is_empty(self, token: XmlToken) -> bool:
        return self._text[token.start : token.end].endswith("/>")

    def _count_characters(self, positions: list[int]) -> list[int]:
        """Converts rising positions from bytes to characters."""
        if len(self._bytes) == len(self._text):
            return positions
        counted = []
        done = characters = 0
        for position in positions:
            characters += len(self._bytes[done:position].decode("utf-8", errors="surrogatepass"))
            done = position
            counted.append(characters)
        return counted


def find_local_name(token: XmlToken) -> str:
    """Returns an element's name without its prefix."""
    return token.name.rpartition(":")[2]


def children(tokens: Sequence[XmlToken], parent: int) -> Iterator[int]:
    """Yields the indices of an element's own content: elements, texts and anything else."""
    index = parent + 1
    while index < tokens[parent].partner:
        yield index
        index = end_of(tokens, index) + 1


def read_entity(found: re.Match[str]) -> str:
    """Returns the character of a match of `ENTITY`."""
    name = found.group()[1:-1]
    if name.startswith("#"):
        return chr(int(name[2:], 16) if name[1] == "x" else int(name[1:]))
    return html.unescape(found.group())


def escape_xml(text: str) -> str:
    """Returns a text as XML writes it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;")


def unescape_xml(raw: str) -> str:
    """Returns the decoded text; empty if the text isn't allowed in XML."""
    rest = ENTITY.sub("", raw)
    is_text = "&" not in rest and "<" not in rest and "]]>" not in raw
    return ENTITY.sub(read_entity, raw) if is_text else ""


def end_of(tokens: Sequence[XmlToken], index: int) -> int:
    """Returns the index of an element's closing tag, or a token's own index."""
    return tokens[index].partner if tokens[index].kind == "open" else index


def find_inside(tokens: Sequence[XmlToken], index: int) -> Sequence[XmlToken]:
    """Returns all tokens in an element."""
    return tokens[index + 1 : end_of(tokens, index)]


def find_cdata(text: str, token: XmlToken) -> Span:
    """Returns the span of a CDATA section's characters."""
    raw = text[token.start : token.end]
    end = token.end - len("]]>") * raw.endswith("]]>")
    return token.start + len(CDATA) * raw.startswith(CDATA), end


def is_cdata_alone(text: str, tokens: Sequence[XmlToken]) -> bool:
    """Checks that tokens are one CDATA section with only space around it."""
    return [each.kind for each in tokens if text[each.start : each.end].strip()] == ["cdata"]


def join_token_text(text: str, tokens: Sequence[XmlToken]) -> str:
    """Returns the text of some tokens, without their tags."""
    return "".join(
        unescape_xml(text[token.start : token.end])
        if token.kind == "text"
        else text[slice(*find_cdata(text, token))]
        for token in tokens
        if token.kind in ("text", "cdata")
    )


def find_attribute(text: str, token: XmlToken, name: str) -> Span | None:
    """Returns the span of an attribute's value, by the name as written; None without one."""
    for found in _ATTRIBUTE.finditer(text, token.start, token.end):
        if found.group(1) == name:
            return found.span(2 if found.group(2) is not None else 3)
    return None
