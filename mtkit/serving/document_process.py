"""The server's side of a file in a process of its own."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from mtkit.inference.translation import Translation
from mtkit.serving.document_main import DocumentJob, Fault, Sentences, TranslatedDocument
from mtkit.serving.faults import RequestError
from mtkit.serving.messages import pack_message, receive_message, start_process
from mtkit.serving.settings import Serving

_MODULE = "mtkit.serving.document_main"
Answer = Callable[[Sequence[str]], Awaitable[list[Translation]]]
"""Translates the sentences of a file."""


class DocumentProcesses:
    """Processes that read files, so many at once.

    Args:
        settings: Limits.
    """

    def __init__(self, settings: Serving) -> None:
        self._settings = settings
        self._free = asyncio.Semaphore(settings.file_processes)

    async def translate(
        self,
        content: bytes,
        form: str,
        languages: tuple[str, str],
        answer: Answer,
        *,
        aligns: bool,
    ) -> TranslatedDocument:
        """Returns a file's translation, and what became of its texts.

        A caller that is cancelled ends the process.

        Args:
            content: The file.
            form: Its format.
            languages: Codes of its language and of the one translated into.
            answer: Translates its sentences.
            aligns: Whether words may be aligned.

        Raises:
            RequestError: The file is damaged, or takes too much memory or time; what `answer`
                raises.
        """
        job = DocumentJob(
            content,
            form,
            languages,
            aligns=aligns,
            max_bytes=self._settings.file_memory_mib << 20,
            max_seconds=math.ceil(self._settings.request_seconds),
            max_unpacked_bytes=self._settings.max_unpacked_bytes,
        )
        async with self._free:
            process = await start_process(_MODULE)
            try:
                return await self._attend(process, job, answer)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise RequestError(
                    400, "Invalid request: the file takes too much memory or time to read"
                ) from error
            finally:
                if process.returncode is None:
                    process.kill()
                await asyncio.shield(process.wait())

    async def _attend(
        self, process: asyncio.subprocess.Process, job: DocumentJob, answer: Answer
    ) -> TranslatedDocument:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pack_message(job))
        while True:
            match await receive_message(process.stdout):
                case Sentences(texts):
                    process.stdin.write(pack_message(await answer(texts)))
                case Fault(message, is_too_large=True):
                    raise RequestError(413, message)
                case Fault(message):
                    raise RequestError(400, f"Invalid request: {message}")
                case TranslatedDocument() as translated:
                    return translated
