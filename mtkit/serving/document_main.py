"""A file in a process of its own: reads it, asks the server for its sentences, and writes it.

A stranger's file that takes too much memory or time ends with this process, and harms no other.
"""

import io
import os
import resource
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from mtkit.documents.document import Languages
from mtkit.documents.report import Report
from mtkit.documents.sentences import SentenceTranslator
from mtkit.documents.translate_file import translate_content
from mtkit.errors import MtkitError
from mtkit.inference.translation import FinishTranslations, Request, Translation
from mtkit.recipe.inference import Inference
from mtkit.serving.messages import pack_message, read_message
from mtkit.standard_streams import open_standard_streams


@dataclass(frozen=True)
class DocumentJob:
    """A file to translate.

    Attributes:
        content: The file.
        form: Its format.
        languages: Codes of its language and of the one translated into.
        aligns: Whether words may be aligned.
        max_bytes: Memory of the process.
        max_seconds: Processor time of the process.
        max_unpacked_bytes: Of all members of an archive together.
    """

    content: bytes
    form: str
    languages: tuple[str, str]
    aligns: bool
    max_bytes: int
    max_seconds: int
    max_unpacked_bytes: int


@dataclass(frozen=True)
class Sentences:
    """What the process asks: translations of these."""

    texts: list[str]


@dataclass(frozen=True)
class TranslatedDocument:
    """The file's translation, and what became of its texts."""

    content: bytes
    report: Report


@dataclass(frozen=True)
class Fault:
    """What is wrong with the file, in words.

    Attributes:
        message: The words.
        is_too_large: Whether it unpacks to more than is allowed.
    """

    message: str
    is_too_large: bool = False


class _Asking:
    """The server as a translator of sentences."""

    def __init__(self, tasks: BinaryIO, results: BinaryIO, *, aligns: bool) -> None:
        self.settings, self.aligns = Inference(), aligns
        self._tasks, self._results = tasks, results

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Returns what gives each sentence's translation."""
        self._results.write(pack_message(Sentences([each.text for each in requests])))
        self._results.flush()
        found: list[Translation] = read_message(self._tasks)
        return lambda: found


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (allowed, allowed))


def _translate(job: DocumentJob, tasks: BinaryIO, results: BinaryIO) -> TranslatedDocument | Fault:
    asking = _Asking(tasks, results, aligns=job.aligns)
    source, target = job.languages
    sentences = SentenceTranslator(asking, target, source_language=source)
    try:
        num_bytes = _measure_unpacked(job.content)
        if num_bytes > job.max_unpacked_bytes:
            return Fault(
                f"the file unpacks to {num_bytes:,} bytes, and {job.max_unpacked_bytes:,} are "
                "allowed",
                is_too_large=True,
            )
        return TranslatedDocument(
            *translate_content(job.content, job.form, sentences, Languages(*job.languages))
        )
    except MtkitError as error:
        return Fault(error.message)
    except MemoryError:
        return Fault("it takes too much memory to read")


def _measure_unpacked(content: bytes) -> int:
    """Returns what a zip archive unpacks to; `zipfile` unpacks no more. 0 of another file."""
    if not content.startswith(b"PK"):
        return 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        # It is reported in the words of its format.
        return 0


def main() -> None:
    """Translates the file that comes on stdin."""
    open_standard_streams()
    tasks = sys.stdin.buffer
    # What a library prints must not get among the answers.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        job: DocumentJob = read_message(tasks)
        _limit(resource.RLIMIT_AS, job.max_bytes)
        _limit(resource.RLIMIT_CPU, job.max_seconds)
        answer: Any = _translate(job, tasks, results)
        results.write(pack_message(answer))
        results.flush()
    except (EOFError, BrokenPipeError):
        # The caller has left.
        os._exit(0)


if __name__ == "__main__":
    main()
