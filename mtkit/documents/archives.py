"""Documents that are zip archives of XML: Word, PowerPoint and OpenDocument texts.

Only the parts that hold text are read as XML; pictures, macros and all others are copied.
"""

import io
import posixpath
import re
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from xml.parsers import expat

from mtkit.errors import MtkitError

_ENDINGS = ("/main", ":text:1.0")
"""How the names of namespaces end whose paragraphs hold text."""
_CHART = "/chart"
_INSIDE = (None, "Internal")
_MAX_XML_BYTES = 64 << 20
"""Of all parts together when unpacked, beside twice the archive's own size: pictures hardly shrink,
and of XML this is thousands of pages."""
_MAX_PARTS = 10_000
_COMPRESSIONS = frozenset([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
"""Those of which `zipfile` unpacks no more than it is asked for."""
_RELATIONSHIPS = "_rels/.rels"
_REASON = "in parts that aren't translated"


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


@dataclass(frozen=True)
class Archive:
    """A kind of such documents.

    Attributes:
        needed: The main part, without which it is no document of this kind.
        parts: Names of the parts that hold text, from the folder of the main part on.
        unread: Such names of parts that aren't translated and hold no text that a reader sees.
        language: What the namespace of the main part's root holds, where `_rels/.rels` may name
            another part as the main one.
    """

    needed: str
    parts: re.Pattern[str]
    unread: re.Pattern[str]
    language: str = ""


ARCHIVES = {
    "docx": Archive(
        "word/document.xml",
        re.compile(r"(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml"),
        re.compile(r"(?:glossary|theme|diagrams/(?!data)).*"),
        "wordprocessingml",
    ),
    "pptx": Archive(
        "ppt/presentation.xml",
        re.compile(r"(?:slides/slide|notesSlides/notesSlide)\d+\.xml"),
        re.compile(
            r"(?:slideLayouts|slideMasters|notesMasters|handoutMasters|theme|diagrams/(?!data)).*"
        ),
        "presentationml",
    ),
    "odt": Archive(
        "content.xml", re.compile(r"(?:content|styles)\.xml"), re.compile(r".*(?<!/content\.xml)")
    ),
}


def translate_archive(
    content: bytes,
    form: str,
    translate_part: Callable[[bytes, str], bytes],
    skip: Callable[[str, str, str], None],
) -> bytes:
    """Returns an archive whose parts with text have been translated.

    Args:
        content: The archive.
        form: A key of `ARCHIVES`.
        translate_part: Translates the XML of a part, given its name.
        skip: Gets each paragraph of a part that isn't translated: the part's name, the text, and
            the reason.

    Raises:
        MtkitError: It is damaged, encrypted, too large, or a document of another kind; what is
            raised for a part.
    """
    kind = ARCHIVES[form]
    written = io.BytesIO()
    try:
        with (
            zipfile.ZipFile(io.BytesIO(content)) as source,
            zipfile.ZipFile(written, "w") as target,
        ):
            members = source.infolist()
            _check(members, _MAX_XML_BYTES + 2 * len(content))
            main = _find_main(source, kind, form)
            target.comment = source.comment
            for member in members:
                part = _read(source, member)
                name = _find_name(member.filename, main, kind)
                if kind.parts.fullmatch(name):
                    part = _translate(member.filename, part, translate_part)
                elif name.endswith(".xml") and not kind.unread.fullmatch(name):
                    for text in find_paragraphs(part):
                        skip(member.filename, text, _REASON)
                target.writestr(member, part)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        raise MtkitError(
            f"damaged, or no {form} document: {error}", "open it in an office program and save it"
        ) from error
    return written.getvalue()


def _check(members: list[zipfile.ZipInfo], max_bytes: int) -> None:
    names = [member.filename for member in members]
    if len(names) > _MAX_PARTS or len(set(names)) < len(names):
        raise MtkitError(f"more than {_MAX_PARTS:,} parts, or two of the same name")
    num_bytes = sum(member.file_size for member in members)
    if num_bytes > max_bytes:
        raise MtkitError(f"{num_bytes:,} bytes when unpacked, expected {max_bytes:,} at most")
    if any(member.flag_bits & 1 for member in members):
        raise MtkitError("encrypted", "remove its password first")
    if any(member.compress_type not in _COMPRESSIONS for member in members):
        raise MtkitError(
            "compressed in a way that no office program does",
            "open it in an office program and save it",
        )


def _find_main(source: zipfile.ZipFile, kind: Archive, form: str) -> str:
    """Returns the name of the main part: that which the relationships name, or the usual one."""
    # Names of parts that differ in case alone are the same.
    names = {member.filename.lower(): member for member in source.infolist()}
    main = kind.needed
    relationships = names.get(_RELATIONSHIPS) if kind.language else None
    if relationships is not None:
        main = find_main_part(_read(source, relationships)) or main
    found = names.get(main.lower())
    if found is None:
        raise MtkitError(f"no {form} document: it has no part {main}")
    if main != kind.needed and kind.language not in find_root_namespace(_read(source, found)):
        raise MtkitError(f"no {form} document: {main} is of another kind")
    return found.filename


def _find_name(name: str, main: str, kind: Archive) -> str:
    """Returns the name of a part from the main part's folder on; nothing if it lies elsewhere."""
    folder = main[: main.rfind("/") + 1]
    if name == main:
        return kind.needed.rpartition("/")[2]
    return name[len(folder) :] if name.startswith(folder) else ""


def _read(source: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with source.open(member) as stream:
        # What it says of its size may be untrue.
        part = stream.read(member.file_size + 1)
    if len(part) != member.file_size:
        raise zipfile.BadZipFile(f"{member.filename} has another size than it says")
    return part


def _translate(name: str, part: bytes, translate_part: Callable[[bytes, str], bytes]) -> bytes:
    try:
        return translate_part(part, name)
    except MtkitError as error:
        raise MtkitError(f"{name}, {error.message}", error.hint) from error
