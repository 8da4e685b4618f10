"""Translates lines of text; the package's entry point."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import overload

from mtkit.inference.engines.engine import Engine
from mtkit.inference.line import TextModel
from mtkit.inference.line_pipeline import LinePipeline
from mtkit.inference.open_translator import LineTranslator, open_translator
from mtkit.inference.request import Request
from mtkit.inference.streams.byte_lines import (
    WINDOW_LINES,
    WarningPrinter,
    answer_window,
    answer_windows,
    take_windows,
)
from mtkit.inference.translation import FinishTranslations, Translation
from mtkit.recipe.inference import Inference
from mtkit.recipe.parsing import Linearization
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.tokenizer import SubwordTokenizer


def _as_request(given: str | Request) -> Request:
    if isinstance(given, str):
        return Request(given)
    if isinstance(given, Request):
        return given
    raise TypeError(f"a line is of type {type(given).__name__}, expected str or Request")


def _as_pair(given: tuple[str, str] | Request) -> Request:
    if isinstance(given, Request):
        return given
    are_texts = not isinstance(given, str) and all(isinstance(each, str) for each in given)
    if not are_texts or len(given) != 2:
        raise TypeError("expected pairs of a line and its translation, or Requests")
    return Request(given[0], prefix=given[1])


class Translator:
    """Translates text with a model, or with an ensemble of several.

        translator = Translator("runs/x/model")
        translator.translate("The man sleeps.")              a text: its translation
        translator.translate(["A book.", "The man sleeps."]) a list: the list of translations
        for translation in translator.translate(file):       anything else: an iterator

    Several threads may call it; on PyTorch their batches run one at a time.

    Args:
        model: A model folder, or those of an ensemble; or a `LineTranslator`, for which the other
            arguments except `warns` have no effect.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU if there is one.
        settings: Search settings; the folder's defaults if None.
        source_language: The language of lines that name none, for a multilingual model.
        target_language: The language that they are translated into.
        warns: Whether to warn when a line was split or an output cut.

    Attributes:
        batches_at_once: Batches of `inference.batch_tokens` that it distributes to threads or
            processes; 1 if all threads search the same batch.

    Raises:
        MtkitError: The device or the model is missing; the model is damaged, or lacks a language;
            models of an ensemble differ in language, vocabulary or text processing.
    """

    def __init__(
        self,
        model: str | Path | Sequence[str | Path] | LineTranslator,
        *,
        device: str = "auto",
        settings: Inference | None = None,
        source_language: str = "",
        target_language: str = "",
        warns: bool = True,
    ) -> None:
        if isinstance(model, LineTranslator):
            self._lines = model
        else:
            folders = [model] if isinstance(model, str | Path) else model
            self._lines = open_translator(
                [Path(folder) for folder in folders],
                device=device,
                settings=settings,
                source_language=source_language,
                target_language=target_language,
            )
        self._warns, self.batches_at_once = warns, self._lines.batches_at_once

    @classmethod
    def of(
        cls,
        engine: Engine,
        tokenizer: SubwordTokenizer,
        settings: Inference,
        *,
        source_language: str = "",
        target_language: str = "",
        warns: bool = True,
        continues: bool = False,
        linearization: Linearization | None = None,
    ) -> "Translator":
        """Returns a translator that uses an open engine.

        Args:
            engine: Runs the model.
            tokenizer: The model's tokenizer.
            settings: Search settings.
            source_language: The code of the language that it reads.
            target_language: The code of the language that it writes.
            warns: Whether to warn when a line was split or an output cut.
            continues: Whether the model is a causal language model, which continues lines.
            linearization: The form of a parser's trees as targets; None for a translator.
        """
        languages = TranslatorLanguages.of(tokenizer.languages, source_language, target_language)
        model = TextModel(
            tokenizer,
            languages,
            target_language,
            continues=continues,
            linearization=linearization,
        )
        return cls(LinePipeline(engine, model, settings), warns=warns)

    @property
    def settings(self) -> Inference:
        """Search settings of requests without their own."""
        return self._lines.settings

    @property
    def languages(self) -> TranslatorLanguages:
        """The languages that it reads and writes, and the defaults of requests."""
        return self._lines.languages

    def resolve_languages(self, source: str = "", target: str = "") -> tuple[str, str]:
        """Returns the model's codes of two languages; empty ones mean the defaults.

        Codes may have any common form: `de`, `deu`, `deu_Latn`.

        Raises:
            MtkitError: The model lacks one of them, or needs one and has no default.
        """
        return self.languages.resolve(source, target)

    @property
    def aligns(self) -> bool:
        """Whether there are alignments, from a word aligner or from a head chosen for them."""
        return self._lines.aligns

    @property
    def summary(self) -> str:
        """Summary of a glossary's terms or of LLM requests; empty without either."""
        return self._lines.summary

    @overload
    def translate(self, lines: str) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, lines: Sequence[str], *, window_lines: int = ...
    ) -> list[str]: ...
    @overload
    def translate(self, lines: Iterable[str], *, window_lines: int = ...) -> Iterator[str]: ...
    def translate(
        self, lines: str | Iterable[str], *, window_lines: int = WINDOW_LINES
    ) -> str | list[str] | Iterator[str]:
        """Returns the translation of a text, a list of translations for a list, or an iterator.

        A blank line's translation is an empty string. A line that is too long for the model is
        translated in parts, with a warning. A newline at a line's end is dropped. `window_lines` is
        as in `stream`.

        Raises:
            MtkitError: A line can't be translated, or the model is broken.
        """
        if isinstance(lines, str):
            return self.search([lines])[0].text
        if isinstance(lines, Sequence):
            return list(self.stream(lines, window_lines=window_lines))
        return self.stream(lines, window_lines=window_lines)

    def stream(self, lines: Iterable[str], *, window_lines: int = WINDOW_LINES) -> Iterator[str]:
        """Yields the translation of each line, in order.

        `window_lines` are read before the first of them is translated. More is faster; 1 answers
        each line before the next is read. Translations are equal up to near-ties.

        Raises:
            MtkitError: As `translate`; the lines before have been answered.
        """
        with WarningPrinter(is_silent=not self._warns) as printer:
            windows = take_windows(lines, window_lines)
            for _, found in answer_windows(windows, self._answer, printer):
                yield from (translation.text for translation in found)

    async def translate_async(self, lines: Sequence[str]) -> list[str]:
        """Returns the translation of each line; other tasks of the event loop run meanwhile."""
        import asyncio

        return await asyncio.to_thread(self.translate, lines)

    async def stream_async(
        self, lines: AsyncIterable[str], *, window_lines: int = WINDOW_LINES
    ) -> AsyncIterator[str]:
        """Yields the translation of each line, in order; other tasks run meanwhile.

        Lines that arrive while others are translated form the next batch, of at most
        `window_lines`. A cancelled task stops reading at once; a batch that has begun finishes in
        its own thread.

        Raises:
            MtkitError: As `translate`; the lines before have been answered.
        """
        import asyncio

        from mtkit.inference.streams.arrivals import take_arrivals

        first_line = 1
        with WarningPrinter(is_silent=not self._warns) as printer:
            async with aclosing(take_arrivals(lines, window_lines)) as windows:
                async for window in windows:
                    found, fault = await asyncio.to_thread(
                        answer_window, window, self._answer, first_line
                    )
                    printer.print_all(found)
                    for translation in found:
                        yield translation.text
                    if fault is not None:
                        raise fault
                    first_line += len(window)

    def search(
        self,
        requests: Sequence[str | Request],
        *,
        first_line: int = 1,
        warns: bool = True,
    ) -> list[Translation]:
        """Returns each line's translation with its scores and its `n_best` list.

        Args:
            requests: Lines, or lines with their own prefix or settings; equal settings share
                batches.
            first_line: Number of the first line for messages and, with the seed, for sampling.
            warns: Whether to print warnings; each translation has its own in any case.

        Raises:
            MtkitError: The engine doesn't support the settings.
            LineError: A prefix or tags are too long, or the model is broken.
        """
        return self.search_ahead(requests, first_line=first_line, warns=warns)()

    def search_ahead(
        self,
        requests: Sequence[str | Request],
        *,
        first_line: int = 1,
        warns: bool = True,
    ) -> FinishTranslations:
        """Searches as `search` does, and returns a function that makes the translations.

        Another thread can call it while this one searches further: it aligns words, joins parts and
        prints warnings. Arguments and errors are as in `search`.
        """
        if isinstance(requests, str):
            raise TypeError("got a str, expected a list of lines")
        lines = list(map(_as_request, requests))
        finish = self._lines.search_ahead(lines, first_line=first_line)
        if not (self._warns and warns):
            return finish

        def finish_and_warn() -> list[Translation]:
            found = finish()
            with WarningPrinter() as printer:
                printer.print_all(found)
            return found

        return finish_and_warn

    def _answer(self, requests: Sequence[str | Request], first_line: int) -> list[Translation]:
        return self.search(requests, first_line=first_line, warns=False)

    def score(
        self, pairs: Sequence[tuple[str, str] | Request], *, first_line: int = 1
    ) -> list[Translation]:
        """Returns given translations with the model's scores of them.

        Args:
            pairs: A line and its translation, or a request with the translation as its prefix; a
                pair that is blank on both sides isn't scored.
            first_line: Number of the first line, for messages.

        Raises:
            LineError: A text is too long for the model, or longer than 4,096 tokens if the model
                has no limit; or the model is broken.
        """
        requests = list(map(_as_pair, pairs))
        return self._lines.score(requests, first_line=first_line)
