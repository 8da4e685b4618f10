"""Lines of text to lines of text: the front door of the room."""

import asyncio
import itertools
import math
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Literal, overload

from mtkit.errors import MtkitError
from mtkit.inference.batches import make_batches, search_in_batches
from mtkit.inference.engines.engine import Engine
from mtkit.inference.hypothesis import Hypothesis
from mtkit.inference.long_lines import join_translations
from mtkit.inference.notices import LineError, Notices
from mtkit.inference.parts import LONGEST_GIVEN, EncodedLine, LineEncoder
from mtkit.inference.search.endings import end_output
from mtkit.inference.translation import BLANK, Candidate, Request, ScoredPiece, Translation
from mtkit.inference.windows import (
    WINDOW_LINES,
    answer_window,
    answer_windows,
    take_arrivals,
    take_windows,
)
from mtkit.model.config import OpenedFolder, open_model_folder
from mtkit.model.digest import reading
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import SubwordTokenizer

EngineName = Literal["torch", "ctranslate2"]


class Translator:
    """Translates text with a model, or with several that speak together.

        translator = Translator("runs/x/model")
        translator.translate("The man sleeps.")              a text: its translation
        translator.translate(["A book.", "The man sleeps."]) a list: the list of translations
        for translation in translator.translate(file):       anything else: an iterator

    It may be called from several threads; they take turns.

    Args:
        model: A model folder, or those of an ensemble.
        engine: What runs it; as the folder says where it isn't given.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.
        settings: How to search; as the folder says where it isn't given.
        forks: Whether forks of this process may translate together, as many as
            `inference.processes` says: for a program with one thread that doesn't fork otherwise.

    Raises:
        MtkitError: There is no such device; there is no model, or it is damaged; models of an
            ensemble that don't fit together.
    """

    def __init__(
        self,
        model: str | Path | Sequence[str | Path],
        *,
        engine: EngineName | None = None,
        device: str = "auto",
        settings: Inference | None = None,
        forks: bool = False,
    ) -> None:
        folders = [Path(model)] if isinstance(model, str | Path) else [Path(each) for each in model]
        with reading(*folders):
            opened = [open_model_folder(folder) for folder in folders]
            _check_ensemble(folders, opened)
            settings = settings if settings is not None else opened[0].settings
            if engine is not None:
                settings = settings.model_copy(update={"engine": engine})
            if not forks:
                settings = settings.model_copy(update={"processes": 1})
            opened_engine = _open_engine(folders, settings, device)
        self._take(
            opened_engine,
            opened[0].tokenizer,
            settings,
            opened[0].config.target_language,
            warns=True,
        )

    @classmethod
    def of(
        cls,
        engine: Engine,
        tokenizer: SubwordTokenizer,
        settings: Inference,
        *,
        target_language: str = "",
        warns: bool = True,
    ) -> "Translator":
        """Returns a translator with an engine that is there already.

        Args:
            engine: What holds the model.
            tokenizer: What the model's text was cut with.
            settings: How to search.
            target_language: Its code; it says how parts of a long line are joined.
            warns: Whether it says so where a line was split or an output cut.
        """
        translator = cls.__new__(cls)
        translator._take(engine, tokenizer, settings, target_language, warns=warns)
        return translator

    def _take(
        self,
        engine: Engine,
        tokenizer: SubwordTokenizer,
        settings: Inference,
        target_language: str,
        *,
        warns: bool,
    ) -> None:
        self._engine, self._tokenizer, self._settings = engine, tokenizer, settings
        self._target_language, self._warns = target_language, warns
        # Asked for once: it is a list of the whole vocabulary.
        self._pieces = tokenizer.target_pieces
        self._lock = threading.Lock()

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
        """Returns the translation of a text, of each in a list, or an iterator of what is iterated.

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
            window_lines: Lines read before the first of them is translated; translations hardly
                depend on it, speed does. 1 answers each before the next is read.

        Raises:
            MtkitError: As `translate`; the lines before have been answered.
        """
        with Notices(is_heard=self._warns) as notices:
            windows = take_windows(lines, window_lines)
            for _, found in answer_windows(windows, partial(self.search, notices=notices)):
                yield from (translation.text for translation in found)

    async def translate_async(self, lines: Sequence[str]) -> list[str]:
        """Returns the translation of each line; other tasks of the event loop go on meanwhile."""
        return await asyncio.to_thread(self.translate, lines)

    async def stream_async(
        self, lines: AsyncIterable[str], *, window_lines: int = WINDOW_LINES
    ) -> AsyncIterator[str]:
        """Yields the translation of each line, in order; other tasks go on meanwhile.

        Lines that come while others are translated are translated together thereafter. A task that
        is cancelled stops reading at once; what the model has begun ends in its own thread.

        Args:
            lines: One sentence each, answered as they come.
            window_lines: Lines translated together at most, and read ahead at most.

        Raises:
            MtkitError: As `translate`; the lines before have been answered.
        """
        first_line = 1
        with Notices(is_heard=self._warns) as notices:
            search = partial(self.search, notices=notices)
            async with aclosing(take_arrivals(lines, window_lines)) as windows:
                async for window in windows:
                    found, fault = await asyncio.to_thread(
                        answer_window, window, search, first_line=first_line
                    )
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
        notices: Notices | None = None,
    ) -> list[Translation]:
        """Returns each line's translation with its scores and, as `n_best` says, its runners-up.

        Args:
            requests: Lines, or lines with the beginning of their translation.
            first_line: Number of the first of them: it is named in messages, and with the seed it
                decides what is sampled.
            notices: Where warnings go, if the lines are part of a longer stream.

        Raises:
            MtkitError: The engine can't do what the settings say. If it is a `LineError`, a prefix
                or tags are too long, or the model is broken.
        """
        if notices is None:
            with Notices(is_heard=self._warns) as own:
                return self.search(requests, first_line=first_line, notices=own)
        lines = [Request(request) if isinstance(request, str) else request for request in requests]
        longest = self._settings.max_source_tokens
        longest = min(longest, self._engine.max_tokens or longest)
        encoded = LineEncoder(self._tokenizer, longest, self._longest_given).encode(
            lines, first_line
        )
        sources = [part for line in encoded for part in line.parts]
        with self._lock:
            searched = iter(search_in_batches(self._engine, sources, self._settings))
        found = []
        for number, line in enumerate(encoded, first_line):
            hypotheses = [next(searched) for _ in line.parts]
            for of_part in hypotheses:
                self._check(of_part, number)
            candidates = [list(map(self._read_out, of_part)) for of_part in hypotheses]
            found.append(self._join(candidates) if candidates else BLANK)
        # Last, so that nothing is told twice where a fault has lines before it searched again.
        for number, (line, translation) in enumerate(zip(encoded, found, strict=True), first_line):
            _report(notices, number, line, translation, longest)
        return found

    def score(self, pairs: Sequence[tuple[str, str]], *, first_line: int = 1) -> list[Translation]:
        """Returns translations that are given, with the model's scores of them.

        Args:
            pairs: A line and its translation; where both are blank nothing is scored.
            first_line: Number of the first, for messages.

        Raises:
            LineError: One is longer than the model can take, or than 4,096 tokens where that has no
                end; the model is broken.
        """
        scored = [BLANK] * len(pairs)
        places = [place for place, pair in enumerate(pairs) if any(map(str.strip, pair))]
        sources = self._tokenizer.encode_source([_tidy(pairs[place][0]) for place in places])
        targets = self._tokenizer.encode_target([_tidy(pairs[place][1]) for place in places])
        for place, source, target in zip(places, sources, targets, strict=True):
            if max(len(source), len(target)) > self._longest_given:
                raise LineError(
                    first_line + place,
                    f"{max(len(source), len(target)):,} tokens, but a text that is scored has at "
                    f"most {self._longest_given:,}",
                    "score its sentences line by line",
                )
        lengths = [
            len(source) + len(target) for source, target in zip(sources, targets, strict=True)
        ]
        for batch in make_batches(lengths, self._settings.batch_tokens):
            with self._lock:
                log_probs = self._engine.score(
                    [sources[index] for index in batch], [targets[index] for index in batch]
                )
            for index, of_tokens in zip(batch, log_probs, strict=True):
                line = first_line + places[index]
                course = list(itertools.accumulate(of_tokens))
                hypothesis = end_output(targets[index], course, self._settings.length_penalty)
                self._check([hypothesis], line)
                candidate = self._read_out(hypothesis)
                scored[places[index]] = Translation(
                    (_with_text(candidate, _tidy(pairs[places[index]][1])),)
                )
        return scored

    @property
    def _longest_given(self) -> int:
        """Tokens at most of what can't be cut: targets that are given, sources that are scored."""
        return self._engine.max_tokens or LONGEST_GIVEN

    def _read_out(self, hypothesis: Hypothesis) -> Candidate:
        text = self._tokenizer.decode_target(hypothesis.tokens)
        return Candidate(
            text=text.replace("\n", " ").replace("\r", " "),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tuple(
                ScoredPiece(self._pieces[token], log_probability)
                for token, log_probability in zip(
                    hypothesis.tokens, hypothesis.token_log_probabilities, strict=False
                )
            ),
            reached_limit=hypothesis.reached_limit,
        )

    def _join(self, of_parts: Sequence[Sequence[Candidate]]) -> Translation:
        """Returns a line's translation; of several parts the k-th best are joined."""
        num_candidates = min(map(len, of_parts))
        candidates = tuple(
            self._join_candidates([candidates[rank] for candidates in of_parts])
            for rank in range(num_candidates)
        )
        return Translation(candidates, was_split=len(of_parts) > 1)

    def _join_candidates(self, parts: Sequence[Candidate]) -> Candidate:
        if len(parts) == 1:
            return parts[0]
        return Candidate(
            join_translations([part.text for part in parts], self._target_language),
            sum(part.score for part in parts),
            sum(part.log_probability for part in parts),
            tuple(token for part in parts for token in part.tokens),
            reached_limit=any(part.reached_limit for part in parts),
        )

    def _check(self, hypotheses: Sequence[Hypothesis], line: int) -> None:
        numbers = (number for one in hypotheses for number in (one.log_probability, one.score))
        if hypotheses and all(map(math.isfinite, numbers)):
            return
        rules = [
            f"inference.{key} = {value}"
            for key in ("min_length", "no_repeat_ngram")
            if (value := getattr(self._settings, key))
        ]
        raise LineError(
            line,
            "the model's probabilities are no numbers (NaN)"
            + (f", or no output goes with {' and '.join(rules)}" if rules else ""),
            ("take other settings; or " if rules else "")
            + "its training diverged: use an earlier checkpoint, or train with a lower rate",
        )


def _report(
    notices: Notices, number: int, line: EncodedLine, translation: Translation, longest: int
) -> None:
    if translation.was_split:
        notices.tell(
            "too long for the model",
            f"input line {number} has {line.num_tokens:,} tokens, more than {longest:,} "
            f"(inference.max_source_tokens): translated in {len(line.parts)} parts",
        )
    if translation.reached_limit:
        notices.tell(
            "cut at the limit of length",
            f"input line {number}: its translation was cut at the limit of its length "
            "(inference.max_extra_tokens)",
        )


def _tidy(line: str) -> str:
    return line.rstrip("\r\n")


def _with_text(candidate: Candidate, text: str) -> Candidate:
    return Candidate(text, candidate.score, candidate.log_probability, candidate.tokens)


def _open_engine(folders: Sequence[Path], settings: Inference, device: str) -> Engine:
    match settings.engine:
        case "torch":
            from mtkit.inference.engines.torch_engine import open_torch_engine

            return open_torch_engine(folders, settings, device)
        case "ctranslate2":
            from mtkit.inference.engines.ctranslate2_engine import open_ctranslate2_engine

            return open_ctranslate2_engine(folders, device)


def _check_ensemble(folders: Sequence[Path], opened: Sequence[OpenedFolder]) -> None:
    """Checks that models read and write the same, so that their probabilities can be averaged.

    Raises:
        MtkitError: There is none, or one has other languages or another tokenizer than the first.
    """
    if not opened:
        raise MtkitError("no model folder given", "name one, such as runs/x/model")
    wanted = _list_traits(opened[0])
    for folder, other in zip(folders[1:], opened[1:], strict=True):
        for what, trait in _list_traits(other).items():
            if trait != wanted[what]:
                raise MtkitError(
                    f"{folder} has {what} than {folders[0]}: they can't speak together",
                    "models of an ensemble are trained on the same prepared data, "
                    "with other seeds for example",
                )


def _list_traits(opened: OpenedFolder) -> dict[str, object]:
    """Returns what the models of an ensemble have in common, by what is said where they don't."""
    config, tokenizer = opened.config, opened.tokenizer
    return {
        "another source language": config.source_language,
        "another target language": config.target_language,
        "another tokenizer": tokenizer.models,
        "other tags before its sources": tokenizer.tags,
        "other rules of punctuation": tokenizer.punctuation,
    }
