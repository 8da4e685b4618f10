"""Another model for the lines whose translations are flagged."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mtkit.inference.request import LineWarning, Request
from mtkit.inference.translation import Translation
from mtkit.serving.catalogue import Catalogue, PathStep
from mtkit.serving.fair_queue import LineResult
from mtkit.serving.request_errors import LineFault, RequestError

_PAUSE_SECONDS = 60.0
"""How long it is skipped after it failed, so that not every request waits for it."""


class Fallback:
    """Translates flagged lines again: `serve.fallback`.

    Args:
        catalogue: All models.
        name: Its name.
        seconds: How long the lines of a request wait for it.
    """

    def __init__(self, catalogue: Catalogue, name: str, seconds: float) -> None:
        self._catalogue, self._name, self._seconds = catalogue, name, seconds
        self._paused_until = 0.0

    async def improve(
        self, step: PathStep, requests: Sequence[Request], found: Sequence[Translation]
    ) -> list[Translation]:
        """Returns translations with the names of their models, flagged ones by the fallback.

        The first translation stays, with a warning, if that of the fallback is flagged or missing.
        """
        named = [replace(each, model=step.service.model.name) for each in found]
        flagged = [index for index, each in enumerate(named) if each.flags]
        other = step._replace(service=self._catalogue.services[self._name])
        can_translate = other.service.model.languages.translates(step.source, step.target)
        if not flagged or not can_translate or other == step:
            return named
        own: dict[str, Any] = dict(
            zip(("source_language", "target_language"), other.find_model_codes(), strict=True)
        )
        asks = [replace(requests[index], settings=None, **own) for index in flagged]
        for index, answer in zip(flagged, await self._ask(other, asks), strict=True):
            if isinstance(answer, Translation) and not answer.flags:
                # Without an estimate, where others have one, it isn't released.
                released = None if named[index].released is None else answer.released or False
                named[index] = replace(answer, model=self._name, released=released)
                continue
            why = "'s is flagged, too" if isinstance(answer, Translation) else " gives no answer"
            fault = f"the first translation stays, since {self._name}{why}"
            note = LineWarning("no fallback", fault, requests[index].line or index + 1)
            named[index] = replace(named[index], warnings=(*named[index].warnings, note))
        return named

    async def _ask(
        self, step: PathStep, requests: Sequence[Request]
    ) -> Sequence[LineResult | None]:
        """Returns the answers; None if there are none for now."""
        loop, answers = asyncio.get_running_loop(), list[LineResult]()
        if loop.time() >= self._paused_until:
            with suppress(RequestError, TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._catalogue.make_ready(step.service)
                    answers = await step.service.answer(requests)
            if not answers or any(
                isinstance(each, LineFault) and each.is_fault_of_server for each in answers
            ):
                self._paused_until = loop.time() + _PAUSE_SECONDS
        return answers or [None] * len(requests)
