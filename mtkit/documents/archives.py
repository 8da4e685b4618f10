"""Documents that are zip archives of XML: Word, PowerPoint and OpenDocument texts.

Only parts with text are read as XML; pictures, macros and all other parts are copied.
"""

import io
import posixpath
import re
import struct
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from xml.parsers import expat

from mtkit.errors import MtkitError

_NAMESPACE_SUFFIXES = ("/main", ":text:1.0")
"""Suffixes of the namespaces whose paragraphs hold text."""
_CHART = "/chart"
_INSIDE = (None, "Internal")
_MAX_XML_BYTES = 64 << 20
"""Of all unpacked parts, plus twice the archive's size for pictures, which hardly shrink. It is
enough for thousands of pages of XML."""
_MAX_PARTS = 10_000
_COMPRESSIONS = frozenset([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
"""For these, `zipfile` unpacks no more than requested."""
_RELATIONSHIPS = "_rels/.rels"
ZIP_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,
)
"""What `zipfile` raises for a damaged archive."""
_REASON = "in parts that aren't translated"


class _EntityError(Exception):
    """A part declares entities, which could multiply."""


def find_paragraphs(part: bytes) -> list[str]:
    """Returns the texts of a part's paragraphs in order; empty for a malformed part."""
    finder = _TextFinder()
    is_read = _parse(part, finder.open, finder.close, finder.read)
    return finder.found if is_read else []


def find_root_namespace(part: bytes) -> str:
    """Returns the namespace of a part's root element; empty for a malformed part."""
    names: list[str] = []
    is_read = _parse(part, lambda name, _: names.append(name))
    return names[0].rpartition(" ")[0] if is_read else ""


def find_main_part(relationships: bytes) -> str:
    """Returns the main part's name according to the XML of `_rels/.rels`; empty if it has none."""
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
    """Parses a part; returns whether it is well-formed and declares no entities."""
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
    """Collects the text of paragraphs, of old comments on slides, and of a chart's labels."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._texts: list[list[str]] = []
        """Pieces of the open paragraphs."""
        self._elements = [(False, False)]
        """For each open element: whether it is a paragraph, and whether its characters are text."""

    def open(self, name: str, attributes: dict[str, str]) -> None:
        del attributes
        namespace, _, local = name.rpartition(" ")
        is_known = namespace.endswith(_NAMESPACE_SUFFIXES)
        is_alone = local == ("v" if namespace.endswith(_CHART) else "text")
        is_alone &= namespace.endswith(_CHART) or (is_known and "presentationml" in namespace)
        is_paragraph = is_alone or (is_known and local in ("p", "h"))
        if is_paragraph:
            self._texts.append([])
        is_text = is_alone or (is_known and (local == "t" or namespace.startswith("urn:")))
        self._elements.append((is_paragraph, is_text))

    def close(self, name: str) -> None:
        del name
        is_paragraph, _ = self._elements.pop()
        if is_paragraph:
            text = " ".join("".join(self._texts.pop()).split())
            self.found += [text] if any(map(str.isalpha, text)) else []

    def read(self, characters: str) -> None:
        if self._texts and self._elements[-1][1]:
            self._texts[-1].append(characters)


@dataclass(frozen=True)
class Archive:
    """A kind of archive.

    Attributes:
        needed: The main part, which every such document has.
        parts: Names of the parts with text, relative to the main part's folder.
        unread: Names of untranslated parts that have no visible text.
        language: Part of the namespace of the main part's root, if `_rels/.rels` may name another
            main part.
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
    """Returns an archive with translated parts.

    `skip` receives each paragraph of an untranslated part: the part's name, the text, and the
    reason.

    Raises:
        MtkitError: The archive is damaged, encrypted, too large, or another kind of document.
    """
    kind = ARCHIVES[form]
    written = io.BytesIO()
    with _reporting_damage(form):
        source = zipfile.ZipFile(io.BytesIO(content))
        members = source.infolist()
        _check(members, _MAX_XML_BYTES + 2 * len(content))
        main = _find_main(source, kind, form)
    with zipfile.ZipFile(written, "w") as target:
        target.comment = source.comment
        for member in members:
            with _reporting_damage(form):
                part = _read(source, member)
            name = _find_name(member.filename, main, kind)
            if kind.parts.fullmatch(name):
                part = _translate(member.filename, part, translate_part)
            elif name.endswith(".xml") and not kind.unread.fullmatch(name):
                for text in find_paragraphs(part):
                    skip(member.filename, text, _REASON)
            target.writestr(member, part)
    return written.getvalue()


@contextmanager
def _reporting_damage(form: str) -> Iterator[None]:
    try:
        yield
    except ZIP_FAULTS as error:
        raise MtkitError(
            f"damaged, or not a {form} file: {error}", "open it in an office program and save it"
        ) from error


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
            "compressed with a method that office programs don't use",
            "open it in an office program and save it",
        )


def _find_main(source: zipfile.ZipFile, kind: Archive, form: str) -> str:
    """Returns the name of the main part, from the relationships or the usual one."""
    # Part names are case-insensitive.
    names = {member.filename.lower(): member for member in source.infolist()}
    main = kind.needed
    relationships = names.get(_RELATIONSHIPS) if kind.language else None
    if relationships is not None:
        main = find_main_part(_read(source, relationships)) or main
    found = names.get(main.lower())
    if found is None:
        raise MtkitError(f"not a {form} file: it has no part {main}")
    if main != kind.needed and kind.language not in find_root_namespace(_read(source, found)):
        raise MtkitError(f"not a {form} file: {main} is of another kind")
    return found.filename


def _find_name(name: str, main: str, kind: Archive) -> str:
    """Returns a part's name relative to the main part's folder; empty if it is elsewhere."""
    folder = main[: main.rfind("/") + 1]
    if name == main:
        return kind.needed.rpartition("/")[2]
    return name[len(folder) :] if name.startswith(folder) else ""


def _read(source: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with source.open(member) as stream:
        # The declared size may be wrong.
        part = stream.read(member.file_size + 1)
    if len(part) != member.file_size:
        raise zipfile.BadZipFile(f"{member.filename}: wrong size")
    return part


def _translate(name: str, part: bytes, translate_part: Callable[[bytes, str], bytes]) -> bytes:
    try:
        return translate_part(part, name)
    except MtkitError as error:
        raise MtkitError(f"{name}, {error.message}", error.hint) from error
