"""The served models, their languages, and a text's path through them."""

import asyncio
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mtkit.console import say, warn
from mtkit.errors import MtkitError, suggest
from mtkit.inference.request import Request
from mtkit.serving.metrics import Metrics
from mtkit.serving.model_service import ModelService, ServedModel
from mtkit.serving.request_errors import RequestError, busy
from mtkit.serving.settings import Serving
from mtkit.text.languages import find_language
from mtkit.text.letters import name_language

_LIBRARY_BYTES = 400 << 20
"""Approximate memory of a process without its weights."""
_OLD_CODES = {"zt": "zh-Hant", "pb": "pt-BR"}
"""Old codes of LibreTranslate."""


class PathStep(NamedTuple):
    """A model on a text's path, with the codes of its source and target language."""

    service: ModelService
    source: str
    target: str

    def find_model_codes(self) -> tuple[str, str]:
        """Returns the model's own codes of both; empty if it has no language tokens."""
        languages = self.service.model.languages
        return languages.source[self.source], languages.target[self.target]

    def make_request(
        self, text: str, line: int, prefix: str = "", sentence: int | None = None
    ) -> Request:
        """Returns the model's request for a line, or for a sentence of one."""
        source, target = self.find_model_codes()
        return Request(
            text,
            prefix,
            line=line,
            source_language=source,
            target_language=target,
            sentence=sentence,
        )


@dataclass(frozen=True)
class ModelPath:
    """The path of a text from one language into another.

    Attributes:
        steps: The models with their languages; empty from a language into itself.
        pivot: The language in between; None for a direct path.
    """

    steps: tuple[PathStep, ...]
    pivot: str | None = None


@dataclass(frozen=True)
class _Languages:
    """The languages of a set of models; `targets` are cached on first use."""

    models: tuple[ServedModel, ...]
    sources: tuple[str, ...]
    all: tuple[str, ...]
    targets: dict[str, list[str]] = field(default_factory=dict)


class Catalogue:
    """All models of a server; earlier ones of the same direction take precedence.

    Attributes:
        services: By name.

    Raises:
        MtkitError: No model has the pivot language, or the name of the fallback.
    """

    def __init__(self, models: Sequence[ServedModel], settings: Serving, metrics: Metrics) -> None:
        self._settings = settings
        self.services = {model.name: ModelService(model, settings, metrics) for model in models}
        self._loading = asyncio.Lock()
        self._known = _Languages((), (), ())
        pivot, known = settings.pivot, self.list_languages()
        if pivot is not None and not find_language(pivot, known):
            raise MtkitError(
                f'serve.pivot = "{pivot}": no model has this language{suggest(pivot, known)}',
                f"languages: {', '.join(known[:12])}",
            )
        fallback, names = settings.fallback, list(self.services)
        if fallback is not None and fallback not in names:
            raise MtkitError(
                f'serve.fallback = "{fallback}": no model has this name{suggest(fallback, names)}',
                f"models: {', '.join(names[:12])}",
            )

    @property
    def sources(self) -> list[str]:
        """Codes of source languages."""
        return list(self._languages.sources)

    @property
    def is_ready(self) -> bool:
        """Whether all models that should be loaded are."""
        services = self.services.values()
        return self._settings.load == "first-use" or all(each.is_ready for each in services)

    def list_targets(self, source: str) -> list[str]:
        """Returns the codes of a language's target languages, including itself."""
        targets = self._languages.targets
        if source not in targets:
            known = self._languages.all
            targets[source] = [code for code in known if self._find(source, code) is not None]
        return targets[source]

    def list_languages(self) -> list[str]:
        """Returns all codes, sorted."""
        return list(self._languages.all)

    def resolve(self, code: str) -> str:
        """Returns a language's served code: `en` for `EN`, `en-US`, `eng` and `eng_Latn`."""
        known = self._languages.all
        found = find_language(code, known) or find_language(_OLD_CODES.get(code.lower(), ""), known)
        if not found:
            raise RequestError(400, f"{code[:40]} is not supported")
        return found

    def find_path(self, source: str, target: str, model: str | None = None) -> ModelPath:
        """Returns the path from one language into another, through a given model or any."""
        if model is not None:
            service = self.services.get(model)
            if service is None:
                raise RequestError(400, f"no model named {model[:80]}")
            if not service.model.languages.translates(source, target):
                raise RequestError(400, f"{model} does not translate {source} into {target}")
            return ModelPath((PathStep(service, source, target),))
        model_path = self._find(source, target)
        if model_path is None:
            raise RequestError(
                400,
                f"{name_language(target)} ({target}) is not available as a target language from "
                f"{name_language(source)} ({source})",
            )
        return model_path

    async def make_ready(self, service: ModelService) -> None:
        """Loads a model if it isn't loaded, and unloads idle ones if memory is limited.

        Raises:
            RequestError: All other models are busy, or it can't be loaded for now.
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
                loaded = [
                    each
                    for each in self.services.values()
                    if each is not service and (each.is_ready or each.is_starting)
                ]
                if not loaded or needed + sum(each.measure_bytes() for each in loaded) <= limit:
                    break
                idle = [each for each in loaded if each.is_idle and each.is_ready]
                if not idle:
                    raise busy("all models in memory are busy", 5)
                oldest = min(idle, key=lambda each: each.used_at)
                say(f"{oldest.model.name}: unloaded, to make room for {service.model.name}")
                await oldest.unload()
            try:
                await service.start()
            except (MtkitError, OSError) as error:
                warn(f"{service.model.name}: {error}")
                raise busy(f"{service.model.name} can't be loaded at present", 30) from error

    async def start(self) -> None:
        """Loads the models, unless they wait for their first use."""
        if self._settings.load == "start":
            await asyncio.gather(*(service.start() for service in self.services.values()))

    async def reload(self) -> None:
        """Reloads models whose folders may have changed; after an error the old one stays."""
        for service in self.services.values():
            try:
                await service.reload()
            except (MtkitError, OSError) as error:
                warn(f"{service.model.name}: keeping the old model: {error}")
            else:
                say(f"{service.model.name}: loaded again")

    async def close(self) -> None:
        """Ends all processes."""
        await asyncio.gather(*(service.close() for service in self.services.values()))

    @property
    def _languages(self) -> _Languages:
        models = tuple([service.model for service in self.services.values()])
        known = self._known
        if len(models) != len(known.models) or any(map(operator.is_not, models, known.models)):
            sources = dict.fromkeys(code for model in models for code in model.languages.source)
            targets = {code for model in models for code in model.languages.target}
            self._known = _Languages(models, tuple(sources), tuple(sorted(targets.union(sources))))
        return self._known

    def _find(self, source: str, target: str) -> ModelPath | None:
        if source == target:
            return ModelPath(())
        direct = self._find_direct(source, target)
        if direct is not None:
            return ModelPath((direct,))
        if self._settings.pivot is None:
            return None
        pivot = find_language(self._settings.pivot, self._languages.all)
        first, second = self._find_direct(source, pivot), self._find_direct(pivot, target)
        if first is None or second is None:
            return None
        return ModelPath((first, second), pivot)

    def _find_direct(self, source: str, target: str) -> PathStep | None:
        for service in self.services.values():
            if service.model.languages.translates(source, target):
                return PathStep(service, source, target)
        return None
