"""Translates texts and documents of a request with the models of a catalogue."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mtkit.console import warn
from mtkit.documents.translate_file import EXTENSIONS
from mtkit.inference.request import BAD_ANSWER, Request
from mtkit.inference.translation import Hypothesis, Translation
from mtkit.model.config import read_settings
from mtkit.recipe.inference import Inference
from mtkit.serving.catalogue import Catalogue, ModelPath, PathStep
from mtkit.serving.detection import SAMPLE_CHARACTERS, Detected
from mtkit.serving.fair_queue import LineRequest, LineResult, RenderedLine, RenderRequest
from mtkit.serving.fallback import Fallback
from mtkit.serving.model_service import ModelService
from mtkit.serving.request_errors import LineFault, RequestError
from mtkit.serving.text_pools import TextProcesses
from mtkit.serving.text_tasks import (
    DetectionQuestion,
    Route,
    Sentences,
    TranslatedDocument,
    TranslateDocuments,
    TranslatedTexts,
    TranslateTexts,
    find_one_sentence,
    join_translated_texts,
    too_many_sentences,
)

_PLAIN_CHARACTERS = 1_000
"""Texts up to this length with one plain sentence don't need a separate process."""
_MIN_CONFIDENCE = 50.0
"""Minimum confidence that a text is already in its target language."""
_MANY_LINES = 100


@dataclass
class ResolvedPath:
    """The path of a request, with the detected language, if it was requested."""

    model_path: ModelPath
    detected: Detected | None = None


def _refuse_lost(translations: Sequence[Translation]) -> None:
    for translation in translations:
        for warning in translation.warnings:
            if warning.kind == BAD_ANSWER and not translation.text:
                # The LLM server's message may contain an address: only for the log.
                warn(warning.fault)
                raise RequestError(500, "the language model gave no usable answer")


class TextTranslation:
    """Translates texts, lines and documents."""

    def __init__(
        self,
        catalogue: Catalogue,
        processes: TextProcesses,
        *,
        max_sentences: int,
        max_unpacked_bytes: int,
        fallback: Fallback | None = None,
    ) -> None:
        self.catalogue, self._processes, self._fallback = catalogue, processes, fallback
        self._max_sentences, self._max_unpacked_bytes = max_sentences, max_unpacked_bytes

    async def detect(self, text: str, caller: str) -> list[Detected]:
        """Returns the possible languages of a text, of all served ones, best first."""
        return await self._processes.detect(text, tuple(self.catalogue.list_languages()), caller)

    async def choose_source(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        caller: str,
        sources: Sequence[str] = (),
    ) -> tuple[str, Detected | None]:
        """Returns the source language of texts, and what was detected if it is `auto`.

        All texts are in one language, among `sources` or all source languages. Texts that are
        surely already in the target language are detected as such.
        """
        if source.lower() != "auto":
            return self.catalogue.resolve(source), None
        sample, known = "", list(sources or self.catalogue.sources)
        for text in texts:
            sample += text[:SAMPLE_CHARACTERS] + "\n"
            if len(sample) > SAMPLE_CHARACTERS:
                break
        found = await self._processes.detect(sample, tuple(dict.fromkeys([*known, target])), caller)
        best = found[0]
        if best.language not in known and best.confidence < _MIN_CONFIDENCE:
            best = next((each for each in found if each.language in known), Detected(known[0], 0.0))
        return best.language, best

    async def translate_texts(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        *,
        caller: str = "",
        num_alternatives: int = 0,
    ) -> tuple[TranslatedTexts, ResolvedPath]:
        """Returns texts' translations, and their path; line breaks stay.

        Raises:
            RequestError: There is no such path, or a line can't be translated.
        """
        num_lines = sum(text.count("\n") + 1 for text in texts)
        if num_lines > self._max_sentences:
            raise too_many_sentences(num_lines, self._max_sentences)
        target = self.catalogue.resolve(target)
        source, detected = await self.choose_source(texts, source, target, caller)
        model_path = self.catalogue.find_path(source, target)

        async def answer(question: Any) -> list[Translation]:
            assert isinstance(question, Sentences)
            return await self.translate_lines(
                question.texts,
                model_path,
                first_line=question.first_line,
                num_alternatives=num_alternatives,
                refuses_lost=True,
            )

        is_short = sum(map(len, texts)) <= _PLAIN_CHARACTERS
        plain = list(map(find_one_sentence, texts)) if is_short else [None]
        if None not in plain:
            spans = [each for each in plain if each is not None]
            sentences = [
                text[start:end]
                for text, of_text in zip(texts, spans, strict=True)
                for start, end in of_text
            ]
            found = await answer(Sentences(sentences))
            joined = join_translated_texts([[text] for text in texts], spans, found, target)
        else:
            route = _describe(model_path, source, target)
            task = TranslateTexts(list(texts), route, self._max_sentences)
            joined = await self._processes.translate_texts(task, caller, answer)
        return joined, ResolvedPath(model_path, detected)

    async def translate_lines(
        self,
        lines: Sequence[str],
        model_path: ModelPath,
        *,
        first_line: int = 1,
        num_alternatives: int = 0,
        aligns: bool = False,
        are_program_strings: bool = False,
        refuses_lost: bool = False,
    ) -> list[Translation]:
        """Returns each line's translation along a path; the last model may align words.

        Samples depend on the lines' numbers, from `first_line`.

        With `refuses_lost` a line that a large language model doesn't translate is an error, for
        texts whose response has no field for warnings.
        """
        if not model_path.steps:
            return [_echo(line) for line in lines]
        texts = list(lines)
        for index, step in enumerate(model_path.steps):
            requests = [
                step.make_request(text, number, sentence=0)
                for number, text in enumerate(texts, first_line)
            ]
            settings = None
            if num_alternatives:
                settings = _request_candidates(
                    decoding_settings(step.service), num_alternatives + 1
                )
            elif aligns and index == len(model_path.steps) - 1:
                own = decoding_settings(step.service)
                settings = own.model_copy(update={"alignments": True})
            if settings is not None or are_program_strings:
                requests = [
                    replace(request, settings=settings, is_program_string=are_program_strings)
                    for request in requests
                ]
            found = await self.ask(step, requests)
            if refuses_lost:
                _refuse_lost(found)
            texts = [translation.text for translation in found]
        return found if len(model_path.steps) == 1 else drop_estimates(found)

    async def ask(self, step: PathStep, requests: Sequence[Request]) -> list[Translation]:
        """Returns a model's translations, or the fallback's for flagged ones.

        Raises:
            RequestError: A line is invalid, or the queue is full.
        """
        answers = await self._ask(step.service, requests)
        found = [each for each in answers if isinstance(each, Translation)]
        return (
            found if self._fallback is None else await self._fallback.improve(step, requests, found)
        )

    async def render(
        self, step: PathStep, requests: Sequence[Request], *, scores: bool = False
    ) -> list[RenderedLine]:
        """Returns a model's translations as JSON, or its scores if prefixes are translations.

        Raises:
            RequestError: A line is invalid, or the queue is full.
        """
        if self._fallback is not None and not scores:
            translations = await self.ask(step, requests)
            return await render_all([each.text for each in requests], translations)
        found = await self._ask(step.service, [RenderRequest(each, scores) for each in requests])
        return [each for each in found if isinstance(each, RenderedLine)]

    async def _ask(
        self, service: ModelService, requests: Sequence[LineRequest]
    ) -> list[LineResult]:
        await self.catalogue.make_ready(service)
        if len(requests) > _MANY_LINES:
            # They took milliseconds to make: other tasks run first.
            await asyncio.sleep(0)
        found = await service.answer(requests)
        for line, answer in enumerate(found, 1):
            if isinstance(answer, LineFault) and not answer.is_of_neighbour:
                status = 500 if answer.is_fault_of_server else 400
                raise RequestError(status, answer.message, line=line)
        return found

    async def translate_documents(
        self,
        contents: Sequence[bytes],
        form: str,
        source: str,
        target: str,
        *,
        caller: str,
        max_characters: int | None = None,
    ) -> tuple[list[TranslatedDocument], ResolvedPath]:
        """Returns translated documents with their markup, and their path.

        All documents are in one language and one format, given by its name or a file extension.
        `max_characters` limits all their text.

        Raises:
            RequestError: The format is unknown, a document is damaged, or there is too much text.
        """
        kind = EXTENSIONS.get(form.lower(), form)
        if kind not in EXTENSIONS.values():
            raise RequestError(400, "Invalid request: file format not supported")
        target = self.catalogue.resolve(target)
        known: ResolvedPath | None = None
        route: Route | None = None

        def use(source: str, detected: Detected | None) -> Route:
            nonlocal known
            known = ResolvedPath(self.catalogue.find_path(source, target), detected)
            return _describe(known.model_path, source, target)

        async def answer(question: Any) -> Any:
            nonlocal route
            if isinstance(question, DetectionQuestion):
                route = use(*await self.choose_source([question.text], source, target, caller))
                return route
            assert isinstance(question, Sentences)
            assert known is not None
            assert route is not None
            aligns = route.aligns and question.needs_alignments
            return await self.translate_lines(
                question.texts,
                known.model_path,
                first_line=question.first_line,
                aligns=aligns,
                are_program_strings=question.are_program_strings,
            )

        if source.lower() != "auto":
            route = use(self.catalogue.resolve(source), None)
        task = TranslateDocuments(
            list(contents),
            kind,
            target,
            route,
            self._max_unpacked_bytes,
            max_characters,
            self._max_sentences,
        )
        documents = await self._processes.translate_documents(task, caller, answer)
        assert known is not None
        return documents, known


def drop_estimates(found: Sequence[Translation]) -> list[Translation]:
    """Returns a last step's translations as not released: models only estimate their own step."""
    return [
        each if each.released is None else replace(each, quality=None, released=False)
        for each in found
    ]


async def render_all(lines: Sequence[str], found: Sequence[Translation]) -> list[RenderedLine]:
    """Returns lines' translations as JSON; other tasks run in between."""
    rendered = []
    for line, each in zip(lines, found, strict=True):
        rendered.append(RenderedLine.of(line, each))
        await asyncio.sleep(0)
    return rendered


def _describe(model_path: ModelPath, source: str, target: str) -> Route:
    """Returns a path for finding sentences; only a single model aligns words."""
    services = [step.service for step in model_path.steps]
    settings = decoding_settings(services[0]) if services else Inference()
    aligns = len(services) == 1 and services[0].model.has_alignments
    return Route(source, target, settings, aligns)


def decoding_settings(service: ModelService) -> Inference:
    """Returns a model's decoding defaults."""
    source = service.model.source
    return source.settings if source.settings is not None else read_settings(source.folder)


def _request_candidates(settings: Inference, n_best: int) -> Inference:
    beam_size = max(settings.beam_size, n_best)
    return settings.model_copy(update={"beam_size": beam_size, "n_best": n_best})


def _echo(line: str) -> Translation:
    return Translation((Hypothesis((), 0.0, 0.0, is_finished=True, text=line.strip()),))
