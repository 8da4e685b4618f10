"""Which models there are, which languages they translate, and which way a text goes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from babel.core import Locale, UnknownLocaleError

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.serving.faults import RequestError, busy
from mtkit.serving.metrics import Metrics
from mtkit.serving.model_service import ModelService, ServedModel
from mtkit.serving.settings import Serving

_LIBRARY_BYTES = 400 << 20
"""About what a process takes beside its weights."""


@dataclass(frozen=True)
class Way:
    """How a text gets from one language into another.

    Attributes:
        steps: The models that it passes, with the languages of each; none from a language into
            itself.
        pivot: The language between them; None for a direct way.
    """

    steps: tuple[tuple[ModelService, str, str], ...]
    pivot: str | None = None


class Catalogue:
    """All models of a server.

    Args:
        models: The models, the first of a direction before others of it.
        settings: Limits, and the pivot.
        metrics: Where they are counted.

    Attributes:
        services: The models at work, by name.
    """

    def __init__(self, models: Sequence[ServedModel], settings: Serving, metrics: Metrics) -> None:
        self._settings = settings
        self.services = {model.name: ModelService(model, settings, metrics) for model in models}
        self._loading = asyncio.Lock()

    @property
    def sources(self) -> list[str]:
        """Codes of languages that are translated from."""
        return list(dict.fromkeys(source for source, _ in self._directions()))

    @property
    def is_ready(self) -> bool:
        """Whether all models are loaded that should be."""
        services = self.services.values()
        return self._settings.load == "first-use" or all(each.is_ready for each in services)

    def list_targets(self, source: str) -> list[str]:
        """Returns the codes of languages that a language is translated into, itself included."""
        known = {code for direction in self._directions() for code in direction}
        return sorted(code for code in known if self._find(source, code) is not None)

    def list_languages(self) -> list[str]:
        """Returns all codes, sorted."""
        return sorted({code for direction in self._directions() for code in direction})

    def resolve(self, code: str) -> str:
        """Returns a language's code as models have it: `en` for `EN` and `en-US`, too.

        Raises:
            RequestError: No model knows it.
        """
        known = {_fold(each): each for each in self.list_languages()}
        folded = _fold(code)
        found = known.get(folded) or known.get(folded.split("-")[0])
        if found is None:
            raise RequestError(400, f"{code[:40]} is not supported")
        return found

    def find_way(self, source: str, target: str, model: str | None = None) -> Way:
        """Returns the way from one language into another.

        Args:
            source: A code that a model has.
            target: Another.
            model: The model to take; None for any.

        Raises:
            RequestError: There is no such model, or no way.
        """
        if model is not None:
            service = self.services.get(model)
            if service is None:
                raise RequestError(400, f"no model named {model[:80]}")
            if (source, target) not in _directions_of(service):
                raise RequestError(400, f"{model} does not translate {source} into {target}")
            return Way(((service, source, target),))
        way = self._find(source, target)
        if way is None:
            raise RequestError(
                400,
                f"{name_language(target)} ({target}) is not available as a target language from "
                f"{name_language(source)} ({source})",
            )
        return way

    async def make_ready(self, service: ModelService) -> None:
        """Sees to it that a model fits into the memory allowed; others that are idle make room.

        Raises:
            RequestError: They are all busy.
        """
        limit = self._settings.memory_gib * (1 << 30)
        if not limit or service.is_ready:
            return
        async with self._loading:
            if service.is_ready:
                return
            folder = service.model.source.folder
            needed = _LIBRARY_BYTES + max(
                (file.stat().st_size for file in folder.rglob("model.*")), default=0
            )
            while True:
                loaded = [each for each in self.services.values() if each.is_ready]
                if not loaded or needed + sum(each.measure_bytes() for each in loaded) <= limit:
                    break
                idle = [each for each in loaded if each.is_idle]
                if not idle:
                    raise busy("all models in memory are at work", 5)
                oldest = min(idle, key=lambda each: each.used_at)
                say(f"{oldest.model.name}: unloaded, to make room for {service.model.name}")
                await oldest.unload()
            try:
                await service.start()
            except MtkitError as error:
                warn(f"{service.model.name}: {error}")
                raise busy(f"{service.model.name} can't be loaded at present", 30) from error

    async def start(self) -> None:
        """Loads the models, if they aren't to wait for their first use.

        Raises:
            MtkitError: One can't be loaded.
        """
        if self._settings.load == "start":
            await asyncio.gather(*(service.start() for service in self.services.values()))

    async def reload(self) -> None:
        """Loads models again whose folders may hold new ones; a fault leaves the old one."""
        for service in self.services.values():
            try:
                await service.reload()
            except (MtkitError, OSError) as error:
                warn(f"{service.model.name} stays as it was: {error}")
            else:
                say(f"{service.model.name}: loaded again")

    async def close(self) -> None:
        """Ends all processes."""
        await asyncio.gather(*(service.close() for service in self.services.values()))

    def _directions(self) -> list[tuple[str, str]]:
        return [each for service in self.services.values() for each in _directions_of(service)]

    def _find(self, source: str, target: str) -> Way | None:
        if source == target:
            return Way(())
        direct = self._find_direct(source, target)
        if direct is not None:
            return Way(((direct, source, target),))
        pivot = self._settings.pivot
        if pivot is None:
            return None
        first, second = self._find_direct(source, pivot), self._find_direct(pivot, target)
        if first is None or second is None:
            return None
        return Way(((first, source, pivot), (second, pivot, target)), pivot)

    def _find_direct(self, source: str, target: str) -> ModelService | None:
        for service in self.services.values():
            if (source, target) in _directions_of(service):
                return service
        return None


def _directions_of(service: ModelService) -> list[tuple[str, str]]:
    config = service.model.config
    return [(config.source_language, config.target_language)]


def _fold(code: str) -> str:
    return code.lower().replace("_", "-")


def name_language(code: str) -> str:
    """Returns a language's English name, or its code where Babel knows none."""
    try:
        name = Locale.parse(code.replace("-", "_")).get_display_name("en")
    except (UnknownLocaleError, ValueError, TypeError):
        return code
    return name or code
