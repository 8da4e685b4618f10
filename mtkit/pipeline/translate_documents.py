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


def translate_path(translator: Translator, source: Path, output: Path, form: str | None) -> None:
    """Writes the translation of a file, as `translate_file` does."""
    translate_file(source, output, _sentences(translator), Languages(*translator.languages), form)


def translate_stdin(translator: Translator, form: str) -> None:
    """Writes the translation of the document on stdin to stdout, once all of it is translated.

    Raises:
        MtkitError: It is broken or longer than 64 MiB; stdout takes no more.
    """
    content = sys.stdin.buffer.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise MtkitError(f"stdin: a document of more than {_MAX_BYTES >> 20} MiB")
    try:
        translated = translate_bytes(
            content, form, _sentences(translator), Languages(*translator.languages)
        )
    except MtkitError as error:
        raise MtkitError(f"stdin: {error.message}", error.hint) from error
    write_lines(sys.stdout.buffer, translated, num_before=0)


def _sentences(translator: Translator) -> SentenceTranslator:
    return SentenceTranslator(translator, translator.languages[1])
