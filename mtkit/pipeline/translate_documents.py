"""What `mtkit translate` does with a document: a file, or all of stdin."""

import sys
from pathlib import Path

from mtkit.documents.document import Languages
from mtkit.documents.sentences import SentenceTranslator
from mtkit.documents.translate_file import translate_bytes, translate_file
from mtkit.errors import MtkitError
from mtkit.inference.streams.byte_lines import write_lines
from mtkit.inference.translate import Translator

_MAX_BYTES = 64 << 20


def translate_given(
    translator: Translator, source: Path | None, output: Path | None, form: str | None
) -> None:
    """Writes the translation of a file into another, or of the document on stdin to stdout.

    Args:
        translator: What translates.
        source: The file; None for stdin.
        output: Where its translation goes.
        form: The document's format; by default what the file's ending says.

    Raises:
        MtkitError: As `translate_file`; stdout takes no more.
    """
    if source is not None and output is not None:
        languages = Languages(*translator.resolve_languages())
        translate_file(source, output, _sentences(translator), languages, form)
    elif form is not None:
        _translate_stdin(translator, form)


def _translate_stdin(translator: Translator, form: str) -> None:
    """Writes the translation of the document on stdin, once all of it is translated."""
    content = sys.stdin.buffer.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise MtkitError(f"stdin: a document of more than {_MAX_BYTES >> 20} MiB")
    try:
        translated = translate_bytes(
            content, form, _sentences(translator), Languages(*translator.resolve_languages())
        )
    except MtkitError as error:
        raise MtkitError(f"stdin: {error.message}", error.hint) from error
    write_lines(sys.stdout.buffer, translated, num_before=0)


def _sentences(translator: Translator) -> SentenceTranslator:
    source, target = translator.resolve_languages()
    return SentenceTranslator(translator, target, source_language=source)
