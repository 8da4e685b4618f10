"""Texts and documents of a request to translations, by the models of a catalogue."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from mtkit.documents.document import Languages, TranslatedText
from mtkit.documents.translate_file import ENDINGS, translate_bytes, translate_markup
from mtkit.errors import MtkitError
from mtkit.inference.segment import cut_line, join_parts
from mtkit.inference.translation import BLANK, Hypothesis, Request, Translation
from mtkit.model.config import read_settings
from mtkit.recipe.inference import Inference
from mtkit.serving.catalogue import Catalogue, Way
from mtkit.serving.detection import Detected, Detector
from mtkit.serving.fair_queue import Ask
from mtkit.serving.faults import LineFault, RequestError
from mtkit.serving.model_service import ModelService

if TYPE_CHECKING:
    # Loaded where a model flags.
    from mtkit.evaluation.flags.flag import Flag


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
    """

    def __init__(self, catalogue: Catalogue, detector: Detector) -> None:
        self.catalogue, self._detector = catalogue, detector

    async def load(self) -> None:
        """Loads what detects languages, so that no request waits for it."""
        await asyncio.to_thread(self._detector.load)

    async def detect(self, text: str) -> list[Detected]:
        """Returns the languages that a text may be in, of all that are served, best first."""
        languages = self.catalogue.list_languages()
        return await asyncio.to_thread(self._detector.detect, text, languages)

    async def choose_source(
        self, texts: Sequence[str], source: str
    ) -> tuple[str, list[Detected] | None]:
        """Returns the source language of texts, and what was detected if that was asked for.

        Args:
            texts: The texts, which are in one language.
            source: Its code, or `auto`.
        """
        if source.lower() != "auto":
            return self.catalogue.resolve(source), None
        text = "\n".join(texts)
        sources = self.catalogue.sources
        detected = (await asyncio.to_thread(self._detector.detect, text, sources))[0]
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
        """
        spans = [cut_line(paragraph, lambda _: True) for paragraph in paragraphs]
        sentences = [
            paragraph[start:end]
            for paragraph, of_paragraph in zip(paragraphs, spans, strict=True)
            for start, end in of_paragraph
        ]
        found = iter(await self.translate_lines(sentences, way, num_alternatives=num_alternatives))
        target = way.steps[-1][2] if way.steps else ""
        translations = []
        for of_paragraph in spans:
            sentences_found = [next(found) for _ in of_paragraph]
            parts = [each.candidates for each in sentences_found]
            of_sentences = [each.flags for each in sentences_found if each.flags is not None]
            flags = tuple(chain.from_iterable(of_sentences)) if of_sentences else None
            joined = Translation(join_parts(parts, target), flags=flags) if parts else BLANK
            translations.append(joined)
        return translations

    async def translate_lines(
        self, lines: Sequence[str], way: Way, *, num_alternatives: int = 0
    ) -> list[Translation]:
        """Returns each line's translation along a way."""
        if not way.steps:
            return [_echo(line) for line in lines]
        requests = [Request(line, line=number) for number, line in enumerate(lines, 1)]
        for step, (service, _, _) in enumerate(way.steps):
            if num_alternatives and step == len(way.steps) - 1:
                settings = _ask_for(decoding_settings(service), num_alternatives + 1)
                requests = [replace(request, settings=settings) for request in requests]
            found = await self.ask(service, requests)
            requests = [
                Request(translation.text, line=number)
                for number, translation in enumerate(found, 1)
            ]
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

    async def translate_markup(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Returns texts of HTML translated, their tags kept.

        Raises:
            RequestError: It can't be parsed, or is nested too deeply.
        """
        way = self.catalogue.find_way(source, target)
        languages = (source, target)
        return [str(await self._document(text, "html", way, languages)) for text in texts]

    async def translate_document(
        self, content: bytes, ending: str, source: str, target: str, *, max_characters: int
    ) -> bytes:
        """Returns a file's translation in its own format.

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
        result = await self._document(content, kind, way, (source, target), max_characters)
        assert isinstance(result, bytes)
        return result

    async def _document(
        self,
        content: str | bytes,
        kind: str,
        way: Way,
        pair: tuple[str, str],
        max_characters: int | None = None,
    ) -> str | bytes:
        """Runs what parses documents in a thread of its own, its texts through the queue."""
        loop = asyncio.get_running_loop()
        num_characters = 0
        running: list[Future[list[Translation]]] = []

        def translate(texts: Sequence[str]) -> list[TranslatedText]:
            nonlocal num_characters
            num_characters += sum(map(len, texts))
            if max_characters is not None and num_characters > max_characters:
                raise RequestError(
                    400, f"Invalid request: the file exceeds text limit ({max_characters})"
                )
            waiting = asyncio.run_coroutine_threadsafe(self.translate_paragraphs(texts, way), loop)
            running.append(waiting)
            return [TranslatedText(each.text) for each in waiting.result()]

        languages = Languages(*pair)
        try:
            found: str | bytes
            if isinstance(content, bytes):
                found = await asyncio.to_thread(
                    translate_bytes, content, kind, translate, languages
                )
            else:
                found = await asyncio.to_thread(
                    translate_markup, content, kind, translate, languages
                )
        except MtkitError as error:
            raise RequestError(400, f"Invalid request: {error.message}") from error
        finally:
            # Where the caller has left, the thread ends with what it waits for.
            for waiting in running:
                waiting.cancel()
        return found


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
