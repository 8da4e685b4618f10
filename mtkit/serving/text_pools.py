"""Assigns texts to processes, so that slow texts don't delay fast ones."""

import asyncio
from contextlib import suppress
from typing import Any

from mtkit.serving.detection import SAMPLE_CHARACTERS, Detected
from mtkit.serving.request_errors import RequestError
from mtkit.serving.settings import Serving
from mtkit.serving.text_main import ProcessLimits
from mtkit.serving.text_process import Answer, ProcessPool
from mtkit.serving.text_tasks import (
    DetectLanguage,
    ParseBody,
    TranslatedDocument,
    TranslateDocuments,
    TranslatedTexts,
    TranslateTexts,
)

_QUICK_CHARACTERS = 4_000
"""Texts up to this length take milliseconds."""
_SHORT_CHARACTERS, _FEW_TAGS = 20_000, 200
"""HTML up to this length, and with at most so many tags, shares a process with other HTML."""
_QUICK_BYTES, _MANY_BYTES = 512 << 20, 1 << 30
_SECONDS = 15.0
_SECONDS_PER_MEGABYTE = 60.0
_FILE_NICENESS = 5


class TextProcesses:
    """Processes that handle untrusted texts."""

    def __init__(self, settings: Serving) -> None:
        self._settings = settings
        self._quick = ProcessPool("short texts", ProcessLimits(128, _QUICK_BYTES), 1)
        self._texts = ProcessPool("long texts", ProcessLimits(8, _MANY_BYTES), 2)
        self._bodies = ProcessPool("large requests", ProcessLimits(1, _QUICK_BYTES), 1)
        self._strangers = ProcessPool("requests without a key", ProcessLimits(1, _QUICK_BYTES), 1)
        self._files = ProcessPool(
            "files",
            ProcessLimits(1, settings.file_memory_mib << 20, _FILE_NICENESS),
            settings.file_processes,
        )

    async def load(self) -> None:
        """Starts what most requests need, so that none waits for it."""
        with suppress(RequestError):
            # Detection may not be installed.
            await self.detect("a", ("en",), "")

    async def parse(self, task: ParseBody, caller: str, *, is_known: bool) -> Any:
        """Returns a request's body; `is_known` callers have shown a key, or need none."""
        pool = self._bodies if is_known else self._strangers
        return await pool.run(task, caller, seconds=self._allow(len(task.content)))

    async def detect(self, text: str, languages: tuple[str, ...], caller: str) -> list[Detected]:
        """Returns the possible languages of a text, as `detect_language` does."""
        task = DetectLanguage(text[:SAMPLE_CHARACTERS], languages)
        found: list[Detected] = await self._quick.run(task, caller, seconds=_SECONDS)
        return found

    async def translate_texts(
        self, task: TranslateTexts, caller: str, answer: Answer
    ) -> TranslatedTexts:
        """Returns the translations of texts."""
        length = sum(map(len, task.texts))
        pool = self._quick if length <= _QUICK_CHARACTERS else self._texts
        translated: TranslatedTexts = await pool.run(
            task, caller, answer, seconds=self._allow(length)
        )
        return translated

    async def translate_documents(
        self, task: TranslateDocuments, caller: str, answer: Answer
    ) -> list[TranslatedDocument]:
        """Returns the translations of documents."""
        length = sum(map(len, task.contents))
        is_short = (
            task.form == "html"
            and length <= _SHORT_CHARACTERS
            and sum(content.count(b"<") for content in task.contents) <= _FEW_TAGS
        )
        pool = self._texts if is_short else self._files
        translated: list[TranslatedDocument] = await pool.run(
            task, caller, answer, seconds=self._allow(length)
        )
        return translated

    async def close(self) -> None:
        """Ends all processes."""
        pools = (self._quick, self._texts, self._bodies, self._strangers, self._files)
        await asyncio.gather(*(pool.close() for pool in pools))

    def _allow(self, length: int) -> float:
        """Returns a task's timeout between two questions, in seconds."""
        seconds = _SECONDS + _SECONDS_PER_MEGABYTE * length / 1e6
        return min(seconds, self._settings.request_seconds)
