"""The package's entry point: translates markup and files, and keeps everything else."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mtkit.documents import html_skeletons, skeletons, xml_skeletons
from mtkit.documents.archives import ARCHIVES, translate_archive
from mtkit.documents.document import Document, LanguageCodes, TextTranslator
from mtkit.documents.document_report import DocumentReport, SkippedText
from mtkit.documents.encodings import decode_document
from mtkit.documents.formats.bilingual import read_tmx, read_xliff
from mtkit.documents.formats.html import read_html
from mtkit.documents.formats.markdown import read_markdown
from mtkit.documents.formats.office_documents import read_office
from mtkit.documents.formats.string_catalogues import read_json_strings, read_po_units
from mtkit.documents.formats.subtitles import read_subtitles
from mtkit.documents.formats.xml import read_xml
from mtkit.documents.formats.yaml_strings import read_yaml
from mtkit.documents.html_skeletons import ReadSkeleton
from mtkit.documents.plain_text import read_plain
from mtkit.documents.translate_units import translate_document
from mtkit.documents.xml_skeletons import BilingualSkeleton
from mtkit.errors import MtkitError, fail_at, suggest
from mtkit.files import check_not_input, read_file, write_atomically
from mtkit.input_forms import FILE_FORMS


class _Format(NamedTuple):
    """A format of documents: the extensions of its files, and its readers of text and of markup."""

    endings: tuple[str, ...]
    read: Callable[[str, LanguageCodes], Document]
    read_skeleton: ReadSkeleton | None = None


_FORMATS = {
    "text": _Format((".txt",), read_plain),
    "html": _Format((".html", ".htm"), read_html, html_skeletons.html_skeleton),
    "xml": _Format((".xhtml", ".xml"), read_xml, xml_skeletons.xml_skeleton),
    "markdown": _Format((".md", ".markdown"), read_markdown, skeletons.markdown_skeleton),
    "srt": _Format((".srt",), read_subtitles, skeletons.subtitles_skeleton),
    "vtt": _Format((".vtt",), read_subtitles, skeletons.subtitles_skeleton),
    "po": _Format((".po",), read_po_units, skeletons.po_skeleton),
    "xliff": _Format((".xlf", ".xliff"), read_xliff),
    "tmx": _Format((".tmx",), read_tmx),
    "json": _Format((".json", ".arb"), read_json_strings, skeletons.json_skeleton),
    "yaml": _Format((".yaml", ".yml"), read_yaml, skeletons.yaml_skeleton),
    "docx": _Format((".docx",), read_office, xml_skeletons.office_skeleton),
    "pptx": _Format((".pptx",), read_office, xml_skeletons.office_skeleton),
    "odt": _Format((".odt",), read_office, xml_skeletons.office_skeleton),
}
EXTENSIONS = {ending: form for form, each in _FORMATS.items() for ending in each.endings}
"""The format of a file by its extension."""
FORMATS = tuple(_FORMATS)
_PLAIN = frozenset(["text", "markdown"])
_FOREIGN = frozenset([".doc", ".epub", ".mo", ".ods", ".pdf", ".ppt", ".rtf", ".xlsx"])
"""Extensions of files whose content can't be any of the formats."""
_MAX_BYTES = 64 << 20
_LONG_NUMBER = re.compile("&(?:amp;)*+#[0-9]{1000}")


def translate_file(
    source: Path,
    output: Path,
    translate: TextTranslator,
    languages: LanguageCodes,
    form: str | None = None,
) -> DocumentReport:
    """Writes the translation of a file atomically; returns a report on its texts.

    Without `form`, the file's extension decides.

    Raises:
        MtkitError: The file can't be read, is malformed, larger than 64 MiB, or of an unknown
            format.
    """
    form = choose_format(source, form)
    check_output_path(output, source, form)
    try:
        content = read_file(source.resolve(), max_bytes=_MAX_BYTES)
    except FileNotFoundError as error:
        raise MtkitError(f"{source}: no such file") from error
    try:
        translated, report = translate_content(content, form, translate, languages)
    except MtkitError as error:
        raise MtkitError(f"{source}: {error.message}", error.hint) from error
    # Of a symlink, the target is replaced.
    write_atomically(output.resolve(), translated)
    return report


def check_output_path(output: Path, source: Path, form: str) -> None:
    """Checks that a translation can be written, in its format, and isn't the source file itself."""
    ending, own_ending = output.suffix.lower(), source.suffix.lower()
    other = EXTENSIONS.get(ending, "another" if form in ARCHIVES or ending in _FOREIGN else form)
    is_same = ending in ("", own_ending) or {form, other} <= _PLAIN
    if other != form and not is_same and (own_ending, other) != (".xhtml", "html"):
        raise MtkitError(
            f"{output}: {source} is {form}, and so is its translation: mtkit can't convert formats",
            f"name a file that ends in {' or '.join(_FORMATS[form].endings)}",
        )
    check_writable(output, source)


def check_writable(output: Path, source: Path) -> None:
    """Checks that a translation has a folder, and isn't the source file itself."""
    if str(output) == "-":
        raise MtkitError(
            "--output -: a document isn't written to stdout", "name a file; or use stdin and stdout"
        )
    # A link of nothing, or in a loop, is an error now, not after the translation.
    folder = output.resolve().parent
    if output.is_dir():
        raise MtkitError(f"{output}: a folder, expected a file to write", "name a file in it")
    if output.exists() and not output.is_file():
        # It would be replaced.
        raise MtkitError(
            f"{output}: a device or a pipe, expected a file to write",
            "lines of stdin go to stdout: mtkit translate < FILE",
        )
    if not folder.is_dir():
        where = folder if output.is_symlink() else output.parent
        raise MtkitError(f"{where}: no such folder", f"make it first: mkdir -p {where}")
    check_not_input(output, [source])


def choose_format(source: Path, form: str | None) -> str:
    """Returns the given format, or that of a file's extension, if it is known."""
    if form is not None:
        if form not in FORMATS:
            raise MtkitError(
                f"no format '{form}'{suggest(form, FORMATS)}", f"formats: {', '.join(FORMATS)}"
            )
        return form
    found = EXTENSIONS.get(source.suffix.lower())
    if found is None:
        raise MtkitError(
            f"{source}: unknown file extension '{source.suffix}'",
            f"name its format with --input: {', '.join((*FILE_FORMS, *FORMATS))}",
        )
    return found


def translate_content(
    content: bytes, form: str, translate: TextTranslator, languages: LanguageCodes
) -> tuple[bytes, DocumentReport]:
    """Returns a document's translation in its encoding, and a report on its texts.

    Raises:
        MtkitError: It is malformed or of an unknown format, or its translation can't be read again.
    """
    choose_format(Path(), form)
    report = DocumentReport()

    def translate_part(part: bytes, name: str = "") -> bytes:
        text, encoding = decode_document(part, form)
        return encoding.encode(_translate(text, form, translate, languages, report, part=name))

    def skip(part: str, text: str, reason: str) -> None:
        report.skipped.append(SkippedText(text, reason, part=part))

    if form in ARCHIVES:
        return translate_archive(content, form, translate_part, skip), report
    return translate_part(content), report


def translate_markup(
    text: str, form: str, translate: TextTranslator, languages: LanguageCodes
) -> str:
    """Returns the translation of a document that is given as text."""
    return _translate(text, choose_format(Path(), form), translate, languages, DocumentReport())


def _translate(
    text: str,
    form: str,
    translate: TextTranslator,
    languages: LanguageCodes,
    report: DocumentReport,
    *,
    part: str = "",
) -> str:
    """Returns the translation of a document or a part of one; adds to the report."""
    if "\0" in text:
        fault = "a null character: this isn't text"
        hint = "text in UTF-32 has to be converted first: iconv -f utf-32 -t utf-8"
        raise fail_at(text, text.index("\0"), fault, hint)
    # Python can't parse numbers with thousands of digits.
    if found := _LONG_NUMBER.search(text):
        raise fail_at(text, found.start(), "a character reference of a thousand digits")
    document = _FORMATS[form].read(text, languages)
    written = translate_document(document, translate, choose_skeleton(form, languages))
    report.add(document, written, part)
    return written.text


def choose_skeleton(form: str, languages: LanguageCodes) -> ReadSkeleton | None:
    """Returns the reader of a format's skeletons; None for a format without markup.

    The reader may raise `UnreadableError`.
    """
    if form in ("xliff", "tmx"):
        return lambda text: BilingualSkeleton(languages).read(text)
    return _FORMATS[form].read_skeleton
