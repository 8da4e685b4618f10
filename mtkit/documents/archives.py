"""Documents that are zip archives of XML: Word, PowerPoint and OpenDocument texts.

Only the parts that hold text are read as XML; pictures, macros and all others are copied.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from mtkit.errors import MtkitError

_MAX_XML_BYTES = 64 << 20
"""Of all parts together when unpacked, beside twice the archive's own size: pictures hardly shrink,
and of XML this is thousands of pages."""
_MAX_PARTS = 10_000
_COMPRESSIONS = frozenset([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
"""Those of which `zipfile` unpacks no more than it is asked for."""


@dataclass(frozen=True)
class Archive:
    """A kind of such documents.

    Attributes:
        needed: The part without which it is no document of this kind.
        parts: Names of the parts that hold text.
    """

    needed: str
    parts: re.Pattern[str]


ARCHIVES = {
    "docx": Archive(
        "word/document.xml",
        re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml"),
    ),
    "pptx": Archive(
        "ppt/presentation.xml",
        re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide)\d+\.xml"),
    ),
    "odt": Archive("content.xml", re.compile(r"(?:content|styles)\.xml")),
}


def translate_archive(content: bytes, form: str, translate_part: Callable[[bytes], bytes]) -> bytes:
    """Returns an archive whose parts with text have been translated.

    Args:
        content: The archive.
        form: A key of `ARCHIVES`.
        translate_part: Translates the XML of a part.

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
            _check(members, kind, form, _MAX_XML_BYTES + 2 * len(content))
            target.comment = source.comment
            for member in members:
                part = _read(source, member)
                if kind.parts.fullmatch(member.filename):
                    part = _translate(member.filename, part, translate_part)
                target.writestr(member, part)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        raise MtkitError(
            f"damaged, or no {form} document: {error}", "open it in an office program and save it"
        ) from error
    return written.getvalue()


def _check(members: list[zipfile.ZipInfo], kind: Archive, form: str, max_bytes: int) -> None:
    names = [member.filename for member in members]
    if kind.needed not in names:
        raise MtkitError(f"no {form} document: it has no part {kind.needed}")
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


def _read(source: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with source.open(member) as stream:
        # What it says of its size may be untrue.
        part = stream.read(member.file_size + 1)
    if len(part) != member.file_size:
        raise zipfile.BadZipFile(f"{member.filename} has another size than it says")
    return part


def _translate(name: str, part: bytes, translate_part: Callable[[bytes], bytes]) -> bytes:
    try:
        return translate_part(part)
    except MtkitError as error:
        raise MtkitError(f"{name}, {error.message}", error.hint) from error
