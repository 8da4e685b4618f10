"""Lines of text to lines of text: the front door of the room."""

import asyncio
import itertools
import math
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

from mtkit.console import warn
from mtkit.data.tokenizer import SubwordTokenizer
from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.hypothesis import Hypothesis
from mtkit.inference.long_lines import cut_line, join_translations
from mtkit.inference.model_config import OpenedFolder, open_model_folder
from mtkit.inference.search.endings import end_output
from mtkit.inference.translation import BLANK, Candidate, Request, ScoredPiece, Translation
from mtkit.recipe.inference import Inference

WINDOW_LINES = 1_024
"""Lines read ahead: enough to batch sentences of like length, few enough to stream."""
_LEAST_COUNTED_TOKENS = 8
"""A source counts for this many tokens at least, since each hypothesis of a step takes a row of the
vocabulary's size however short its source is."""
_WARNINGS_OF_A_KIND = 5

EngineName = Literal["torch", "ctranslate2"]


class Translator:
    """Translates text with a model, or with several that speak together.

        translator = Translator("runs/x/model")
        translator.translate("The man sleeps.")              a text: its translation
        translator.translate(["A book.", "The man sleeps."]) a list: the list of translations
        for translation in translator.translate(file):       anything else: one by one, as it comes

    It may be called from several threads; they take turns.

    Args:
        model: A model folder, or those of an ensemble.
        engine: What runs it; as the folder says where it isn't given.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.
        settings: How to search; as the folder says where it isn't given.

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
    ) -> None:
        folders = [Path(model)] if isinstance(model, str | Path) else [Path(each) for each in model]
        opened = [open_model_folder(folder) for folder in folders]
        settings = settings if settings is not None else opened[0].settings
        if engine is not None:
            settings = settings.model_copy(update={"engine": engine})
        _check_ensemble(folders, opened)
        self._take(
            _open_engine(folders, settings, device),
            opened[0].tokenizer,
            settings,
            opened[0].config.target_language,
            _Notices(is_heard=True),
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
        translator._take(engine, tokenizer, settings, target_language, _Notices(warns))
        return translator

    def _take(
        self,
        engine: Engine,
        tokenizer: SubwordTokenizer,
        settings: Inference,
        target_language: str,
        notices: "_Notices",
    ) -> None:
        self._engine, self._tokenizer, self._settings = engine, tokenizer, settings
        self._target_language = target_language
        # Asked for once: it is a list of the whole vocabulary.
        self._pieces = tokenizer.target_pieces
        self._lock = threading.Lock()
        self._notices = notices

    @overload
    def translate(self, lines: str) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, lines: Sequence[str]) -> list[str]: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, lines: Iterable[str]) -> Iterator[str]: ...
    def translate(self, lines: str | Iterable[str]) -> str | list[str] | Iterator[str]:
        """Returns the translation of a text, of each in a list, or one by one of what is iterated.

        A blank line's translation is an empty string. A line that is too long for the model is
        translated in parts, with a warning.

        Args:
            lines: One sentence each; the end of a line that still has its newline is dropped.

        Raises:
            MtkitError: The model is broken.
        """
        if isinstance(lines, str):
            return self.search([lines])[0].text
        if isinstance(lines, Sequence):
            return list(self.stream(lines))
        return self.stream(lines)

    def stream(self, lines: Iterable[str], *, window_lines: int = WINDOW_LINES) -> Iterator[str]:
        """Yields the translation of each line, in order.

        Args:
            lines: One sentence each.
            window_lines: Lines read before the first of them is translated; translations hardly
                depend on it, speed does.
        """
        iterator, first_line = iter(lines), 1
        while window := list(itertools.islice(iterator, window_lines)):
            yield from (found.text for found in self.search(window, first_line=first_line))
            first_line += len(window)
        self.end_stream()

    async def translate_async(self, lines: Sequence[str]) -> list[str]:
        """Returns the translation of each line; other tasks of the event loop go on meanwhile."""
        return await asyncio.to_thread(self.translate, lines)

    async def stream_async(
        self, lines: AsyncIterable[str], *, window_lines: int = WINDOW_LINES
    ) -> AsyncIterator[str]:
        """Yields the translation of each line, in order; other tasks go on meanwhile.

        Args:
            lines: One sentence each, as they come.
            window_lines: Lines awaited before the first of them is translated; 1 answers each at
                once.
        """
        window: list[str] = []
        first_line = 1
        async for line in lines:
            window.append(line)
            if len(window) == window_lines:
                for found in await asyncio.to_thread(self.search, window, first_line=first_line):
                    yield found.text
                first_line += len(window)
                window = []
        for found in await asyncio.to_thread(self.search, window, first_line=first_line):
            yield found.text
        self.end_stream()

    def search(
        self, requests: Sequence[str | Request], *, first_line: int = 1
    ) -> list[Translation]:
        """Returns each line's translation with its scores and, as `n_best` says, its runners-up.

        Args:
            requests: Lines, or lines with the beginning of their translation.
            first_line: Number of the first of them: it is named in messages, and with the seed it
                decides what is sampled.

        Raises:
            MtkitError: The model is broken, or the engine can't do what the settings say.
        """
        lines = [Request(request) if isinstance(request, str) else request for request in requests]
        parts = self._encode(lines, first_line)
        found: list[list[list[Candidate]]] = [[] for _ in lines]
        with self._lock:
            searched = self._search_all([part.source for part in parts])
        for part, hypotheses in zip(parts, searched, strict=True):
            self._check(hypotheses, first_line + part.place)
            found[part.place].append(list(map(self._read_out, hypotheses[: self._settings.n_best])))
        return [
            self._join(of_parts, first_line + place) if of_parts else BLANK
            for place, of_parts in enumerate(found)
        ]

    def score(self, pairs: Sequence[tuple[str, str]], *, first_line: int = 1) -> list[Translation]:
        """Returns translations that are given, with the model's scores of them.

        Args:
            pairs: A line and its translation; where both are blank nothing is scored.
            first_line: Number of the first, for messages.

        Raises:
            MtkitError: One is longer than the model's positions reach, or the model is broken.
        """
        scored = [BLANK] * len(pairs)
        places = [place for place, pair in enumerate(pairs) if any(map(str.strip, pair))]
        sources = self._tokenizer.encode_source([_tidy(pairs[place][0]) for place in places])
        targets = self._tokenizer.encode_target([_tidy(pairs[place][1]) for place in places])
        longest = self._engine.max_tokens
        for place, source, target in zip(places, sources, targets, strict=True):
            if longest is not None and max(len(source), len(target)) > longest:
                raise MtkitError(
                    f"input line {first_line + place}: {max(len(source), len(target)):,} tokens, "
                    f"but the model takes at most {longest:,} (model.max_positions)",
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

    def end_stream(self) -> None:
        """Says how many more lines there were of those that only the first few were named of."""
        self._notices.sum_up()

    def _encode(self, lines: Sequence[Request], first_line: int) -> list["_Part"]:
        """Returns the parts to translate, in order; blank lines have none."""
        places = [place for place, line in enumerate(lines) if line.text.strip()]
        texts = [_tidy(lines[place].text) for place in places]
        prefixes = {
            place: tuple(self._tokenizer.encode_target([lines[place].prefix])[0][:-1])
            for place in places
            if lines[place].prefix
        }
        longest = min(self._settings.max_source_tokens, self._engine.max_tokens or math.inf)
        parts = []
        for place, text, tokens in zip(
            places, texts, self._tokenizer.encode_source(texts), strict=True
        ):
            line = first_line + place
            pieces = [tokens]
            if len(tokens) > longest:
                pieces = self._cut(text, longest)
                self._notices.tell(
                    "too long for the model",
                    f"input line {line} has {len(tokens):,} tokens, more than {longest:,} "
                    f"(inference.max_source_tokens): translated in {len(pieces)} parts",
                )
            for number, piece in enumerate(pieces):
                # Characters that the tokenizer drops, control codes for one, leave nothing.
                if piece[:-1]:
                    prefix = prefixes.get(place, ()) if number == 0 else ()
                    parts.append(_Part(place, EncodedSource(piece, prefix, (line, number))))
        return parts

    def _cut(self, text: str, longest: float) -> list[list[int]]:
        """Returns the tokens of a line's parts, each with the tags that the line begins with."""
        tags, rest = self._tokenizer.split_tags(text)

        def encode(part: str) -> list[int]:
            return self._tokenizer.encode_source([tags + part])[0]

        return [encode(part) for part in cut_line(rest, lambda part: len(encode(part)) <= longest)]

    def _search_all(self, sources: Sequence[EncodedSource]) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in sources]
        lengths = [len(source.tokens) for source in sources]
        for batch in make_batches(lengths, self._settings.batch_tokens):
            hypotheses = self._engine.search([sources[index] for index in batch], self._settings)
            for index, of_source in zip(batch, hypotheses, strict=True):
                found[index] = of_source
        return found

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

    def _join(self, of_parts: Sequence[Sequence[Candidate]], line: int) -> Translation:
        """Returns a line's translation; of several parts the k-th best are joined."""
        num_candidates = min(map(len, of_parts))
        candidates = tuple(
            self._join_candidates([candidates[rank] for candidates in of_parts])
            for rank in range(num_candidates)
        )
        if candidates[0].reached_limit:
            self._notices.tell(
                "cut at the limit of length",
                f"input line {line}: its translation was cut at the limit of its length "
                "(inference.max_extra_tokens)",
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
        if hypotheses and not math.isnan(hypotheses[0].log_probability):
            return
        rules = [
            f"inference.{key} = {value}"
            for key in ("min_length", "no_repeat_ngram")
            if (value := getattr(self._settings, key))
        ]
        raise MtkitError(
            f"input line {line}: the model's probabilities are no numbers (NaN)"
            + (f", or no output goes with {' and '.join(rules)}" if rules else ""),
            "its training diverged: use an earlier checkpoint, or train with a lower learning rate",
        )


@dataclass(frozen=True)
class _Part:
    """A line, or a part of one that was too long, and the line's place among those asked for."""

    place: int
    source: EncodedSource


class _Notices:
    """Warnings about lines: the first few of each kind, then how many more there were."""

    def __init__(self, is_heard: bool) -> None:
        self._is_heard = is_heard
        self._counts: dict[str, int] = {}

    def tell(self, kind: str, text: str) -> None:
        """Prints a warning, unless there were enough of its kind."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._is_heard and self._counts[kind] <= _WARNINGS_OF_A_KIND:
            warn(text)

    def sum_up(self) -> None:
        """Prints how many weren't printed, and begins anew."""
        for kind, count in self._counts.items():
            if self._is_heard and count > _WARNINGS_OF_A_KIND:
                warn(f"{count - _WARNINGS_OF_A_KIND:,} more lines: {kind}")
        self._counts = {}


def make_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Returns indices in batches of like length, longest first.

    Args:
        lengths: Number of tokens of each sentence.
        batch_tokens: Tokens with padding that a batch holds at most, unless it is one sentence.
    """
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if room == 0:
            batches.append([])
            # Sorted, so the first sentence of a batch is its longest.
            room = max(1, batch_tokens // max(lengths[index], _LEAST_COUNTED_TOKENS))
        batches[-1].append(index)
        room -= 1
    return batches


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
    if not opened:
        raise MtkitError("no model folder given", "name one, such as runs/x/model")
    for folder, other in zip(folders[1:], opened[1:], strict=True):
        if other.tokenizer.models != opened[0].tokenizer.models:
            raise MtkitError(
                f"{folder} has another tokenizer than {folders[0]}: they can't speak together",
                "models of an ensemble are trained on the same prepared data, "
                "with other seeds for example",
            )
