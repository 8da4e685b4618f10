"""Lines of text to lines of text: the front door of the room."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import overload

from mtkit.inference.engines.engine import Engine
from mtkit.inference.line import TextModel
from mtkit.inference.line_pipeline import LinePipeline
from mtkit.inference.open_translator import AnswersLines, open_translator
from mtkit.inference.request import Request
from mtkit.inference.streams.byte_lines import (
    WINDOW_LINES,
    WarningPrinter,
    answer_window,
    answer_windows,
    take_windows,
)
from mtkit.inference.translation import FinishTranslations, Translation
from mtkit.recipe.inference import EngineChoice, Inference
from mtkit.recipe.parsing import Linearization
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.tokenizer import SubwordTokenizer


class Translator:
    """Translates text with a model, or with an ensemble of several.

        translator = Translator("runs/x/model")
        translator.translate("The man sleeps.")              a text: its translation
        translator.translate(["A book.", "The man sleeps."]) a list: the list of translations
        for translation in translator.translate(file):       anything else: an iterator

    It may be called from several threads; their batches take turns.

    Args:
        model: A model folder, or those of an ensemble; or what answers lines, with which the other
            arguments but `warns` have no effect.
        engine: Runs the network; the folder's default if not given, for `auto` CTranslate2 in a
            folder that was exported for it.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.
        settings: Search settings; the folder's defaults if not given.
        source_language: The language of lines that name none, for a model of several.
        target_language: The language that they are translated into.
        forks: Whether to translate in `inference.processes` forks of this process. Only for a
            program with one thread that doesn't fork otherwise.
        warns: Whether to warn when a line was split or an output cut.

    Attributes:
        batches_at_once: Batches of `inference.batch_tokens` that it shares out among threads or
            processes; 1 where all of it searches one batch.

    Raises:
        MtkitError: There is no such device; there is no model, or it is damaged; models of an
            ensemble that differ in language, vocabulary or text processing; a language that the
            model hasn't.
    """

    def __init__(
        self,
        model: str | Path | Sequence[str | Path] | AnswersLines,
        *,
        engine: EngineChoice | None = None,
        device: str = "auto",
        settings: Inference | None = None,
        source_language: str = "",
        target_language: str = "",
        forks: bool = False,
        warns: bool = True,
    ) -> None:
        if isinstance(model, AnswersLines):
            self._lines = model
        else:
            folders = [model] if isinstance(model, str | Path) else model
            self._lines = open_translator(
                [Path(folder) for folder in folders],
                engine=engine,
                device=device,
                settings=settings,
                source_language=source_language,
                target_language=target_language,
                forks=forks,
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
        """Returns a translator that uses an engine opened before.

        Args:
            engine: Runs the model.
            tokenizer: The model's tokenizer.
            settings: Search settings.
            source_language: The code of the language that it reads.
            target_language: That of the language that it writes.
            warns: Whether to warn when a line was split or an output cut.
            continues: Whether the model is a causal language model, which continues lines.
            linearization: What a parser's trees look like as targets; None for a translator.
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
        """Search settings of requests that have none of their own."""
        return self._lines.settings

    @property
    def languages(self) -> TranslatorLanguages:
        """What it reads and writes, and what requests have that name no language."""
        return self._lines.languages

    def resolve_languages(self, source: str = "", target: str = "") -> tuple[str, str]:
        """Returns the model's codes of two languages, as `TranslatorLanguages.resolve` does.

        Args:
            source: A code in any common form: `de`, `deu`, `deu_Latn`; the default where it is
                empty.
            target: The same.

        Raises:
            MtkitError: The model hasn't one of them, or needs one and has no default.
        """
        return self.languages.resolve(source, target)

    @property
    def aligns(self) -> bool:
        """Whether there are alignments: by a word aligner, or a head that was chosen for them."""
        return self._lines.aligns

    @property
    def terms_summary(self) -> str:
        """What became of the terms of `inference.glossary` so far; empty where there were none."""
        return self._lines.terms_summary

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
        translated in parts, with a warning.

        Args:
            lines: One sentence each; the end of a line that still has its newline is dropped.
            window_lines: As `stream` takes it.

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

        Args:
            lines: One sentence each.
            window_lines: Lines read before the first of them is translated. More is faster; 1
                answers each line before the next is read. Translations are equal up to near-ties.

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

        Lines that arrive while others are translated form the next batch. A cancelled task stops
        reading at once; a batch that the model has begun finishes in its own thread.

        Args:
            lines: One sentence each, answered as they come.
            window_lines: Lines translated together at most, and read ahead at most.

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
            requests: Lines, or lines with a target prefix or settings of their own; those with
                equal settings share batches.
            first_line: Number of the first line, used in messages and, with the seed, for
                sampling.
            warns: Whether to print warnings; each translation carries its own in any case.

        Raises:
            MtkitError: The engine doesn't support the settings. If it is a `LineError`, a prefix
                or tags are too long, or the model is broken.
        """
        return self.search_ahead(requests, first_line=first_line, warns=warns)()

    def search_ahead(
        self,
        requests: Sequence[str | Request],
        *,
        first_line: int = 1,
        warns: bool = True,
    ) -> FinishTranslations:
        """Searches as `search` does, and returns what makes translations of what is found.

        So another thread can make them while this one searches for the next: words are aligned
        then, parts joined, and warnings printed.

        Args:
            requests: As `search` takes them.
            first_line: The same.
            warns: The same.

        Raises:
            MtkitError: As `search`.
        """
        lines = [Request(request) if isinstance(request, str) else request for request in requests]
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
            pairs: A line and its translation, or a request whose prefix that is; where both are
                blank nothing is scored.
            first_line: Number of the first, for messages.

        Raises:
            LineError: A text is longer than the model takes, or than 4,096 tokens if the model has
                no limit; the model is broken.
        """
        requests = [
            pair if isinstance(pair, Request) else Request(pair[0], prefix=pair[1])
            for pair in pairs
        ]
        return self._lines.score(requests, first_line=first_line)
