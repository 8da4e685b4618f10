"""All that handlers of requests need."""

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from mtkit.serving.access import Access
from mtkit.serving.bodies import Body, parse_body
from mtkit.serving.catalogue import Catalogue
from mtkit.serving.faults import RequestError
from mtkit.serving.metrics import Metrics
from mtkit.serving.settings import Serving
from mtkit.serving.stored_files import FileStore
from mtkit.serving.text_lanes import TextProcesses
from mtkit.serving.text_tasks import ParseBody
from mtkit.serving.translate_texts import TextTranslation

_QUICK_BYTES = 32 << 10
"""A body so long is parsed in milliseconds."""


@dataclass(frozen=True)
class Office:
    """A server's parts.

    Attributes:
        settings: Limits.
        catalogue: The models.
        translation: Translates with them.
        processes: Work on strangers' texts.
        access: Lets callers in.
        files: Translated files.
        metrics: Counters.
    """

    settings: Serving
    catalogue: Catalogue
    translation: TextTranslation
    processes: TextProcesses
    access: Access
    files: FileStore
    metrics: Metrics

    async def read_body(self, request: Request, kind: type[Body] | None) -> Any:
        """Returns a request's body; a long one is parsed by another process.

        Args:
            request: The request.
            kind: What the body is; None for an `UploadForm`.

        Raises:
            RequestError: It is neither JSON nor a form, or lacks something.
        """
        content = await request.body()
        # Many pieces were joined: others have their turn before they are copied again.
        await asyncio.sleep(0)
        content_type = request.headers.get("content-type", "")
        max_texts = self.settings.max_texts
        task = ParseBody(content, content_type, request.url.query, kind, max_texts)
        if len(content) <= _QUICK_BYTES:
            return parse_body(content, content_type, task.query, kind, max_texts)
        sender = request.state.waiting
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                return await self.processes.parse(
                    task, sender.caller, is_known=self.access.is_known(sender)
                )
        except TimeoutError as error:
            raise RequestError(504, "the request could not be read in time") from error

    def note(self, request: Request, texts: list[str]) -> None:
        """Puts how much is asked into the log's line, and the texts only if the settings say so."""
        request.state.texts, request.state.characters = len(texts), sum(map(len, texts))
        if self.settings.log_texts:
            request.state.logged = texts
