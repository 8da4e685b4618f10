"""Translates a document for `mtkit translate`: a file, or all of stdin."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from mtkit.console import say, warn
from mtkit.documents.document import LanguageCodes
from mtkit.documents.document_report import DocumentReport
from mtkit.documents.paragraph_translator import SentenceTranslator
from mtkit.documents.translate_file import translate_content, translate_file
from mtkit.errors import MtkitError
from mtkit.inference.streams.byte_lines import WarningPrinter, write_lines
from mtkit.inference.translator import Translator

_MAX_BYTES = 64 << 20


def translate_given(
    translator: Translator,
    source: Path | None,
    output: Path | None,
    form: str | None,
    *,
    as_json: bool = False,
) -> None:
    """Translates a file into another, or the document on stdin to stdout.

    A summary goes to stderr, or for a file as JSON to stdout. `form` is by default the file's
    ending.
    """
    if source is not None and output is not None:
        languages = LanguageCodes(*translator.resolve_languages())
        report = translate_file(source, output, _sentences(translator), languages, form)
        if as_json:
            line = json.dumps(report.to_json(), ensure_ascii=False)
            write_lines(sys.stdout.buffer, f"{line}\n".encode(), num_before=0)
        _report(report, str(source))
    elif form is not None:
        _translate_stdin(translator, form)


def _report(report: DocumentReport, name: str) -> None:
    for warning in report.list_warnings(name):
        warn(warning)
    with WarningPrinter() as printer:
        printer.print(replace(each, place=f"{name}:{each.place}") for each in report.warnings)
    if report.num_translated:
        say(report.describe())


def _translate_stdin(translator: Translator, form: str) -> None:
    """Writes the translation of the document on stdin, once all of it is translated."""
    content = sys.stdin.buffer.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise MtkitError(f"stdin: a document of more than {_MAX_BYTES >> 20} MiB")
    try:
        translated, report = translate_content(
            content, form, _sentences(translator), LanguageCodes(*translator.resolve_languages())
        )
    except MtkitError as error:
        raise MtkitError(f"stdin: {error.message}", error.hint) from error
    write_lines(sys.stdout.buffer, translated, num_before=0)
    _report(report, "stdin")


def _sentences(translator: Translator) -> SentenceTranslator:
    source, target = translator.resolve_languages()
    return SentenceTranslator(translator, target, source_language=source)
