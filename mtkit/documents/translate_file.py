"""The front door of the room: markup and files, translated with all else as it was."""

import re
from collections.abc import Callable
from pathlib import Path

from mtkit.documents.archives import ARCHIVES, translate_archive
from mtkit.documents.document import Document, Languages, TextTranslator, fail_at, read_text
from mtkit.documents.encodings import decode
from mtkit.documents.formats.bilingual import read_tmx, read_xliff
from mtkit.documents.formats.html import read_html
from mtkit.documents.formats.markdown import read_markdown
from mtkit.documents.formats.office import read_office
from mtkit.documents.formats.plain import read_plain
from mtkit.documents.formats.strings import read_json_strings, read_po
from mtkit.documents.formats.subtitles import read_subtitles
from mtkit.documents.formats.xml import read_xml
from mtkit.documents.formats.yaml_strings import read_yaml
from mtkit.documents.report import BROKEN_MARKUP, Report, SkippedText
from mtkit.documents.skeletons import choose_skeleton
from mtkit.documents.translate_units import translate_document
from mtkit.errors import MtkitError, suggest
from mtkit.files import write_atomically
from mtkit.foreign_files import read_file
from mtkit.input_forms import DOCUMENT_FORMS

ENDINGS = {
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "xml",
    ".xml": "xml",
    ".md": "markdown",
    ".markdown": "markdown",
    ".srt": "srt",
    ".vtt": "vtt",
    ".po": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".tmx": "tmx",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".docx": "docx",
    ".pptx": "pptx",
    ".odt": "odt",
}
"""The format of a file by the ending of its name."""
FORMATS = ("text", *DOCUMENT_FORMS)
_MAX_BYTES = 64 << 20
_LONG_NUMBER = re.compile("&(?:amp;)*+#[0-9]{1000}")


def translate_file(
    source: Path,
    output: Path,
    translate: TextTranslator,
    languages: Languages,
    form: str | None = None,
) -> Report:
    """Writes the translation of a file atomically; returns what became of its texts.

    Args:
        source: The file.
        output: Where its translation goes.
        translate: What translates its texts.
        languages: Of the file and of its translation.
        form: One of `FORMATS`; by default what the file's ending says.

    Raises:
        MtkitError: The file can't be read, is broken or larger than 64 MiB, or of no known format.
    """
    form = choose_format(source, form)
    check_output(output, source)
    try:
        content = read_file(source, max_bytes=_MAX_BYTES)
    except FileNotFoundError as error:
        raise MtkitError(f"{source}: no such file") from error
    try:
        translated, report = translate_content(content, form, translate, languages)
    except MtkitError as error:
        raise MtkitError(f"{source}: {error.message}", error.hint) from error
    write_atomically(output, translated)
    return report


def check_output(output: Path, source: Path) -> None:
    """Checks that the translation of a file could be written.

    Raises:
        MtkitError: It is a folder, its folder isn't there, or it is the file itself.
    """
    if output.is_dir():
        raise MtkitError(f"{output}: a folder, expected a file to write", "name a file in it")
    if not output.parent.is_dir():
        raise MtkitError(
            f"{output.parent}: no such folder", f"make it first: mkdir -p {output.parent}"
        )
    if output.exists() and source.exists() and output.samefile(source):
        raise MtkitError(
            f"{output}: the translation would take the place of the document itself",
            "name another file with --output",
        )


def choose_format(source: Path, form: str | None) -> str:
    """Returns the format of a file.

    Raises:
        MtkitError: It has none that is known.
    """
    if form is not None:
        if form not in FORMATS:
            raise MtkitError(
                f"no format '{form}'{suggest(form, FORMATS)}", f"formats: {', '.join(FORMATS)}"
            )
        return form
    found = ENDINGS.get(source.suffix.lower())
    if found is None:
        raise MtkitError(
            f"{source}: files that end in '{source.suffix}' aren't known",
            f"name its format with --input: {', '.join(FORMATS)}",
        )
    return found


def translate_content(
    content: bytes, form: str, translate: TextTranslator, languages: Languages
) -> tuple[bytes, Report]:
    """Returns a document's translation in its encoding, and what became of its texts.

    Raises:
        MtkitError: It is broken; its translation can't be read again; no such format.
    """
    choose_format(Path(), form)
    report = Report()

    def translate_part(part: bytes, name: str = "") -> bytes:
        text, encoding = decode(part, form)
        return encoding.encode(_translate(text, form, translate, languages, report, part=name))

    def skip(part: str, text: str, reason: str) -> None:
        report.skipped.append(SkippedText(text, reason, part=part))

    if form in ARCHIVES:
        return translate_archive(content, form, translate_part, skip), report
    return translate_part(content), report


def translate_markup(text: str, form: str, translate: TextTranslator, languages: Languages) -> str:
    """Returns the translation of a document that is given as text.

    Raises:
        MtkitError: As `translate_content`.
    """
    return _translate(text, choose_format(Path(), form), translate, languages, Report())


def _translate(
    text: str,
    form: str,
    translate: TextTranslator,
    languages: Languages,
    report: Report,
    *,
    part: str = "",
) -> str:
    """Returns a document translated, or a part of one; adds to the report."""
    if "\0" in text:
        fault = "a null character: this isn't text"
        hint = "text in UTF-32 has to be converted first: iconv -f utf-32 -t utf-8"
        raise fail_at(text, text.index("\0"), fault, hint)
    # Python reads no number of thousands of digits.
    if found := _LONG_NUMBER.search(text):
        raise fail_at(text, found.start(), "a character's number of a thousand digits")
    document = _READERS[form](text, languages)
    translated, kept = translate_document(document, translate, choose_skeleton(form, languages))
    for unit in kept:
        document.skip(unit.start, read_text(unit), BROKEN_MARKUP)
    report.add(document, num_translated=len(document.units) - len(kept), part=part)
    return translated


_READERS: dict[str, Callable[[str, Languages], Document]] = {
    "text": read_plain,
    "html": read_html,
    "xml": read_xml,
    "markdown": read_markdown,
    "srt": read_subtitles,
    "vtt": read_subtitles,
    "po": read_po,
    "xliff": read_xliff,
    "tmx": read_tmx,
    "json": read_json_strings,
    "yaml": read_yaml,
    "docx": read_office,
    "pptx": read_office,
    "odt": read_office,
}
