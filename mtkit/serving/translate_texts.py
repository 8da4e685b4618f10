"""Texts and documents of a request to translations, by the models of a catalogue."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mtkit.documents.document import Languages
from mtkit.documents.sentences import SentenceTranslator
from mtkit.documents.translate_file import ENDINGS, translate_content
from mtkit.errors import MtkitError
from mtkit.inference.paragraphs import find_protected, join_sentences
from mtkit.inference.translation import FinishTranslations, Hypothesis, Request, Translation
from mtkit.model.config import read_settings
from mtkit.recipe.inference import Inference
from mtkit.recipe.protection import Protect
from mtkit.serving.catalogue import Catalogue, Way
from mtkit.serving.detection import Detected, Detector
from mtkit.serving.document_main import TranslatedDocument
from mtkit.serving.document_process import DocumentProcesses
from mtkit.serving.fair_queue import Ask
from mtkit.serving.faults import LineFault, RequestError
from mtkit.serving.model_service import ModelService
from mtkit.text.sentences import find_sentences
from mtkit.text.words import Span

if TYPE_CHECKING:
    # Loaded where a model flags.
    from mtkit.evaluation.flags.flag import Flag

_SHORT_CHARACTERS, _FEW_TAGS = 20_000, 200
"""HTML so long, and of so many tags, is read in the server's own process, in milliseconds."""
_QUICK_CHARACTERS = 4_000
"""Sentences of so much text are found at once: a thread's turn takes longer than a short text."""


@dataclass(frozen=True)
class TranslatedTexts:
    """What became of a request's texts.

    Attributes:
        texts: Translations, one for each text.
        alternatives: Others of each text, without equal ones.
        scores: Of each text the mean log-probability of a token, line by line; None for a blank
            line.
        detected: Source language of each text, where it was to be detected.
        pivot: The language that they went through; None where they went directly.
        flags: Of each text what looks wrong, line by line; None where the model doesn't flag.
    """

    texts: list[str]
    alternatives: list[list[str]]
    scores: list[list[float | None]]
    detected: list[Detected] | None = None
    pivot: str | None = None
    flags: "list[list[list[Flag]]] | None" = None


class TextTranslation:
    """Translates texts, lines and documents.

    Args:
        catalogue: The models.
        detector: Detects languages.
        processes: Read files.
        max_sentences: Of a request's texts.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        detector: Detector,
        processes: DocumentProcesses,
        *,
        max_sentences: int,
    ) -> None:
        self.catalogue, self._detector, self._processes = catalogue, detector, processes
        self._max_sentences = max_sentences

    async def load(self) -> None:
        """Loads what detects languages and finds sentences, so that no request waits for it."""
        await asyncio.to_thread(self._detector.load)
        await asyncio.to_thread(find_sentences, "A sentence.")

    async def detect(self, text: str) -> list[Detected]:
        """Returns the languages that a text may be in, of all that are served, best first."""
        languages = self.catalogue.list_languages()
        return await asyncio.to_thread(self._detector.detect, text, languages)

    async def choose_source(
        self, texts: Sequence[str], source: str, sources: Sequence[str] = ()
    ) -> tuple[str, list[Detected] | None]:
        """Returns the source language of texts, and what was detected if that was asked for.

        Args:
            texts: The texts, which are in one language.
            source: Its code, or `auto`.
            sources: Codes that may be detected; all that are served if not given. Where there is
                but one, nothing is detected.
        """
        if source.lower() != "auto":
            return self.catalogue.resolve(source), None
        if len(sources) == 1:
            return sources[0], None
        text, known = "\n".join(texts), sources or self.catalogue.sources
        detected = (await asyncio.to_thread(self._detector.detect, text, known))[0]
        return detected.language, [detected] * len(texts)

    async def translate_texts(
        self, texts: Sequence[str], source: str, target: str, *, num_alternatives: int = 0
    ) -> TranslatedTexts:
        """Returns texts' translations; line breaks stay where they are.

        Args:
            texts: Texts of any number of lines.
            source: Code of their language, or `auto`.
            target: Code of the language translated into.
            num_alternatives: Other translations that are asked for.

        Raises:
            RequestError: There is no such way, or a line can't be translated.
        """
        target = self.catalogue.resolve(target)
        source, detected = await self.choose_source(texts, source)
        way = self.catalogue.find_way(source, target)
        lines = [text.split("\n") for text in texts]
        flat = [line for of_text in lines for line in of_text]
        found = await self.translate_paragraphs(flat, way, num_alternatives=num_alternatives)
        translated, alternatives, scores = [], [], []
        flags: list[list[list[Flag]]] = []
        rest = iter(found)
        for of_text in lines:
            mine = [next(rest) for _ in of_text]
            best = "\n".join(map(_restore_spaces, of_text, mine, [0] * len(mine)))
            others = dict.fromkeys(
                "\n".join(map(_restore_spaces, of_text, mine, [rank] * len(mine)))
                for rank in range(1, max(len(each.candidates) for each in mine))
            )
            translated.append(best)
            alternatives.append([other for other in others if other and other != best])
            scores.append([_mean_log_probability(each) for each in mine])
            flags.append([list(each.flags or ()) for each in mine])
        are_flagged = any(each.flags is not None for each in found)
        told = flags if are_flagged else None
        return TranslatedTexts(translated, alternatives, scores, detected, way.pivot, told)

    async def translate_paragraphs(
        self, paragraphs: Sequence[str], way: Way, *, num_alternatives: int = 0
    ) -> list[Translation]:
        """Returns each paragraph's translation along a way, sentence by sentence.

        Args:
            paragraphs: Texts without a line break.
            way: The models.
            num_alternatives: Other translations that are asked for.

        Raises:
            RequestError: They have too many sentences, or one can't be translated.
        """
        language, target, protect = _describe_way(way)

        def find(paragraph: str) -> list[Span]:
            return find_sentences(paragraph, language, find_protected(paragraph, protect))

        if sum(map(len, paragraphs)) <= _QUICK_CHARACTERS:
            spans = list(map(find, paragraphs))
        else:
            spans = await asyncio.to_thread(lambda: list(map(find, paragraphs)))
        num_sentences = sum(map(len, spans))
        if num_sentences > self._max_sentences:
            raise RequestError(
                400,
                f"Invalid request: request ({num_sentences} sentences) exceeds text limit "
                f"({self._max_sentences})",
            )
        sentences = [
            paragraph[start:end]
            for paragraph, of_paragraph in zip(paragraphs, spans, strict=True)
            for start, end in of_paragraph
        ]
        found = iter(await self.translate_lines(sentences, way, num_alternatives=num_alternatives))
        return [
            join_sentences(paragraph, of_paragraph, [next(found) for _ in of_paragraph], target)
            for paragraph, of_paragraph in zip(paragraphs, spans, strict=True)
        ]

    async def translate_lines(
        self,
        lines: Sequence[str],
        way: Way,
        *,
        num_alternatives: int = 0,
        settings: Inference | None = None,
    ) -> list[Translation]:
        """Returns each line's translation along a way.

        Args:
            lines: Sentences.
            way: The models.
            num_alternatives: Other translations that are asked for.
            settings: Of the last model, where there are no alternatives.
        """
        if not way.steps:
            return [_echo(line) for line in lines]
        texts = list(lines)
        for index, step in enumerate(way.steps):
            requests = [
                step.make_request(text, number, sentence=0) for number, text in enumerate(texts, 1)
            ]
            if num_alternatives:
                settings = _ask_for(decoding_settings(step.service), num_alternatives + 1)
            if settings is not None and index == len(way.steps) - 1:
                requests = [replace(request, settings=settings) for request in requests]
            found = await self.ask(step.service, requests)
            texts = [translation.text for translation in found]
        return found

    async def ask(self, service: ModelService, asks: Sequence[Ask]) -> list[Translation]:
        """Returns a model's answers.

        Raises:
            RequestError: A line is at fault, or the queue is full.
        """
        await self.catalogue.make_ready(service)
        found = []
        for line, answer in enumerate(await service.answer(asks), 1):
            if isinstance(answer, LineFault):
                status = 500 if answer.is_fault_of_server else 400
                raise RequestError(status, answer.message, line=line)
            found.append(answer)
        return found

    async def translate_markup(
        self, texts: Sequence[str], source: str, target: str
    ) -> list[TranslatedDocument]:
        """Returns texts of HTML translated, their tags kept, and what is skipped in them.

        Raises:
            RequestError: It can't be parsed, or is nested too deeply.
        """
        way = self.catalogue.find_way(source, target)
        languages = (source, target)
        return [await self._translate_html(text, way, languages) for text in texts]

    async def translate_document(
        self, content: bytes, ending: str, source: str, target: str, *, max_characters: int
    ) -> TranslatedDocument:
        """Returns a file's translation in its own format, and what became of its texts.

        Args:
            content: The file.
            ending: Of its name, such as `.docx`.
            source: Code of its language.
            target: Code of the language translated into.
            max_characters: Of all its text.

        Raises:
            RequestError: Its format isn't known, it is damaged, or has too much text.
        """
        way = self.catalogue.find_way(source, target)
        kind = ENDINGS.get(ending.lower())
        if kind is None:
            raise RequestError(400, "Invalid request: file format not supported")
        return await self._translate_apart(content, kind, way, (source, target), max_characters)

    async def _translate_apart(
        self,
        content: bytes,
        kind: str,
        way: Way,
        pair: tuple[str, str],
        max_characters: int | None = None,
    ) -> TranslatedDocument:
        """Returns a document's translation; a process of its own reads it."""
        queued = _QueuedSentences(self, way, asyncio.get_running_loop())
        num_characters = 0

        async def answer(texts: Sequence[str]) -> list[Translation]:
            nonlocal num_characters
            num_characters += sum(map(len, texts))
            if max_characters is not None and num_characters > max_characters:
                raise RequestError(
                    400, f"Invalid request: the file exceeds text limit ({max_characters})"
                )
            return await self.translate_lines(texts, way, settings=queued.choose_settings())

        return await self._processes.translate(content, kind, pair, answer, aligns=queued.aligns)

    async def _translate_html(
        self, text: str, way: Way, pair: tuple[str, str]
    ) -> TranslatedDocument:
        """Returns a text's translation: a thread reads a short one, a process another."""
        content = text.encode(errors="replace")
        if len(text) > _SHORT_CHARACTERS or text.count("<") > _FEW_TAGS:
            return await self._translate_apart(content, "html", way, pair)
        queued = _QueuedSentences(self, way, asyncio.get_running_loop())
        translate = SentenceTranslator(queued, pair[1], source_language=pair[0])
        try:
            return TranslatedDocument(
                *await asyncio.to_thread(
                    translate_content, content, "html", translate, Languages(*pair)
                )
            )
        except MtkitError as error:
            raise RequestError(400, f"Invalid request: {error.message}") from error
        finally:
            # Where the caller has left, the thread ends with what it waits for.
            queued.cancel()


class _QueuedSentences:
    """The models of a way, as a document's thread asks them.

    Args:
        translation: Asks them.
        way: They.
        loop: The event loop that they belong to.

    Attributes:
        settings: The last model's decoding defaults.
        aligns: Whether its words may be aligned, which its process decides; never through a third
            language.
    """

    def __init__(
        self, translation: TextTranslation, way: Way, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._translation, self._way, self._loop = translation, way, loop
        self._running: list[Future[list[Translation]]] = []
        self._is_cancelled = False
        services = [step.service for step in way.steps]
        self.settings = decoding_settings(services[-1]) if services else Inference()
        self.aligns = len(services) == 1 and services[0].model.has_alignments

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Returns what gives each sentence's translation."""
        if self._is_cancelled:
            raise CancelledError
        texts, settings = [request.text for request in requests], requests[0].settings
        work = self._translation.translate_lines(texts, self._way, settings=settings)
        waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._running.append(waiting)
        found = waiting.result()
        return lambda: found

    def choose_settings(self) -> Inference | None:
        """Returns the settings that ask for alignments; None where there are none to ask for."""
        return self.settings.model_copy(update={"alignments": True}) if self.aligns else None

    def cancel(self) -> None:
        """Takes what is asked out of the queue, and asks no more."""
        self._is_cancelled = True
        for waiting in self._running:
            waiting.cancel()


def _describe_way(way: Way) -> tuple[str, str, Protect | None]:
    """Returns whose rules find sentences, the language that is written, and what must stay."""
    if not way.steps:
        return "", "", None
    first = decoding_settings(way.steps[0].service)
    chosen = first.paragraphs.language if first.paragraphs is not None else ""
    return chosen or way.steps[0].source, way.steps[-1].target, first.protect


def decoding_settings(service: ModelService) -> Inference:
    """Returns a model's decoding defaults."""
    source = service.model.source
    return source.settings if source.settings is not None else read_settings(source.folder)


def _ask_for(settings: Inference, n_best: int) -> Inference:
    beam_size = max(settings.beam_size, n_best)
    return settings.model_copy(update={"beam_size": beam_size, "n_best": n_best})


def _echo(line: str) -> Translation:
    return Translation((Hypothesis((), 0.0, 0.0, is_finished=True, text=line.strip()),))


def _restore_spaces(line: str, translation: Translation, rank: int) -> str:
    """Returns a candidate, or the last there is, with the space that its line had at the ends."""
    text = translation.candidates[min(rank, len(translation.candidates) - 1)].text
    before = line[: len(line) - len(line.lstrip())]
    return before + text + line[len(line.rstrip()) :] if text else before


def _mean_log_probability(translation: Translation) -> float | None:
    best = translation.candidates[0]
    return best.log_probability / len(best.token_ids) if best.token_ids else None
