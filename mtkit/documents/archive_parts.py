"""Parts of an office document's archive: which is the main one, and text in untranslated ones."""

import posixpath
import urllib.parse
from collections.abc import Callable
from xml.parsers import expat

_ENDINGS = ("/main", ":text:1.0")
"""How the names of namespaces end whose paragraphs hold text."""
_CHART = "/chart"
_INSIDE = (None, "Internal")


class _EntityError(Exception):
    """A part declares entities, which could multiply."""


def find_paragraphs(part: bytes) -> list[str]:
    """Returns the texts of a part's paragraphs in order; none of a part that can't be read.

    Args:
        part: Its XML, of Office Open XML or OpenDocument.
    """
    finder = _TextFinder()
    is_read = _parse(part, finder.open, finder.close, finder.read)
    return finder.found if is_read else []


def find_root_namespace(part: bytes) -> str:
    """Returns the namespace of a part's root element; nothing of a part that can't be read."""
    names: list[str] = []
    is_read = _parse(part, lambda name, _: names.append(name))
    return names[0].rpartition(" ")[0] if is_read else ""


def find_main_part(relationships: bytes) -> str:
    """Returns the name of the part that an archive's relationships name as the document.

    Args:
        relationships: XML of `_rels/.rels`; if it names no such part, the result is empty.
    """
    targets: list[str] = []

    def read(name: str, attributes: dict[str, str]) -> None:
        is_main = attributes.get("Type", "").endswith("/officeDocument")
        if name.endswith(" Relationship") and is_main and attributes.get("TargetMode") in _INSIDE:
            targets.append(attributes.get("Target", ""))

    if not _parse(relationships, read) or not targets:
        return ""
    return posixpath.normpath("/" + urllib.parse.unquote(targets[0])).lstrip("/")


def _parse(
    part: bytes,
    begin: Callable[[str, dict[str, str]], None],
    end: Callable[[str], None] | None = None,
    read: Callable[[str], None] | None = None,
) -> bool:
    """Returns whether a part is well-formed and declares no entities, which could multiply."""
    parser = expat.ParserCreate(None, " ")
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = read
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(part, True)
    except (expat.ExpatError, _EntityError, LookupError, ValueError):
        return False
    return True


def _refuse_entity(*_: object) -> None:
    raise _EntityError


class _TextFinder:
    """Gathers the text of paragraphs, of old comments on slides, and of a chart's labels.

    Attributes:
        found: Texts so far.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self._texts: list[list[str]] = []
        """Pieces of the paragraphs that are open."""
        self._elements = [(False, False)]
        """Of each open element whether it is a paragraph, and whether its characters are text."""

    def open(self, name: str, attributes: dict[str, str]) -> None:
        """Begins an element."""
        del attributes
        namespace, _, local = name.rpartition(" ")
        is_known = namespace.endswith(_ENDINGS)
        is_alone = local == ("v" if namespace.endswith(_CHART) else "text")
        is_alone &= namespace.endswith(_CHART) or (is_known and "presentationml" in namespace)
        is_paragraph = is_alone or (is_known and local in ("p", "h"))
        if is_paragraph:
            self._texts.append([])
        is_text = is_alone or (is_known and (local == "t" or namespace.startswith("urn:")))
        self._elements.append((is_paragraph, is_text))

    def close(self, name: str) -> None:
        """Ends an element."""
        del name
        is_paragraph, _ = self._elements.pop()
        if is_paragraph:
            text = " ".join("".join(self._texts.pop()).split())
            self.found += [text] if any(map(str.isalpha, text)) else []

    def read(self, characters: str) -> None:
        """Reads characters."""
        if self._texts and self._elements[-1][1]:
            self._texts[-1].append(characters)
