"""The interface of an engine.

`inference.batch_tokens` limits a batch's source tokens with their padding; training's
`batch_tokens` counts the real tokens of one side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.inference.search.bounds import NO_BOUNDS, OutputBounds
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import BOS, EOS

_Found = TypeVar("_Found")
_MIN_COUNTED_TOKENS = 8
"""A source counts as at least this many tokens: however short it is, each hypothesis of a step
takes a row of the vocabulary's size."""


def list_aligned_inputs(target: Sequence[int], max_tokens: int | None) -> list[int]:
    """Returns a decoder's inputs: `<s>` and all tokens but the last `</s>`, up to the limit."""
    tokens = target[:-1] if target and target[-1] == EOS else target
    return [BOS, *tokens][:max_tokens]


def pad_attention(weights: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """Returns the rows of attention, padded with rows of zeros to `length`."""
    rows = np.zeros((length, weights.shape[1]), np.float32)
    rows[: len(weights)] = weights
    return rows


@dataclass
class EncodedSource:
    """The tokens of a line, or of one part of a line that is too long.

    Attributes:
        tokens: Source tokens with `</s>`; or a text to continue, without `<s>` and `</s>`.
        begin: Fixed target tokens before the output, such as its language; they count towards its
            length in scores and limits, and are removed from the result.
        prefix: Target tokens that every output begins with.
        draw: Identifies the sentence for sampling, which depends only on it and on the seed.
        span: The part's start and end in the line, in characters.
        text: The part itself, without tags.
        required: Sequences of target tokens that every output contains.
        forbidden: Sequences of target tokens that no output contains.
        annotated: Searched instead, with terms after its words; None if the model reads no terms.
        candidates: The search result, best first.
    """

    tokens: Sequence[int]
    prefix: Sequence[int] = ()
    draw: tuple[int, ...] = ()
    span: tuple[int, int] = (0, 0)
    text: str = ""
    is_text: bool = False
    begin: Sequence[int] = ()
    required: tuple[tuple[int, ...], ...] = ()
    forbidden: tuple[tuple[int, ...], ...] = ()
    annotated: "EncodedSource | None" = None
    candidates: list[Hypothesis] = field(default_factory=list)

    @property
    def forced(self) -> tuple[int, ...]:
        """Target tokens that the search can't choose."""
        return (*self.begin, *self.prefix)


class Engine(Protocol):
    """Holds a model and searches for outputs with it.

    Several threads may call it; an engine that does one thing at a time serializes the calls.
    """

    @property
    def max_tokens(self) -> int | None:
        """Maximum length of source and output, `</s>` counted; None for no limit."""
        ...

    @property
    def batches_at_once(self) -> int:
        """Batches of `inference.batch_tokens` in one call; 1 unless the engine distributes them."""
        ...

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first, or as many as there are."""
        ...

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the natural log-probability of each token of each target, `begin` included."""
        ...


@runtime_checkable
class AttendingEngine(Protocol):
    """An engine that returns what outputs attend to."""

    def attend(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]] | None:
        """Returns how much each target's tokens attend to each source token, [target, source].

        It is the maximum over the heads of the decoder's last layer, averaged over an ensemble;
        None for a decoder-only model. Targets include their `begin` tokens.
        """
        ...


@runtime_checkable
class AligningEngine(Protocol):
    """An engine with attention for alignments."""

    @property
    def aligns(self) -> bool:
        """Whether its models have attention to a source, which `align` needs."""
        ...

    def align(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        """Returns how much each target's tokens attend to each source token, [target, source].

        The attention is of the head that the model's folder names. `</s>` has a row of zeros, and
        so has a last token beyond the model's input positions.
        """
        ...


def check_search(
    sources: Sequence[EncodedSource], settings: Inference, *, has_attention: bool
) -> None:
    """Raises an MtkitError for settings that the search doesn't support.

    Args:
        sources: What is searched.
        settings: How it is searched.
        has_attention: Whether all models have attention to a source.
    """
    if settings.coverage_penalty and not has_attention:
        raise MtkitError(
            "inference.coverage_penalty needs cross-attention, which a decoder-only model lacks",
            "remove it: --set inference.coverage_penalty=0.0",
        )
    if settings.sampling is not None and any(source.required for source in sources):
        raise MtkitError(
            "required phrases need beam search, not inference.sampling",
            "remove it: --set '~inference.sampling'",
        )


def find_limit(
    source: EncodedSource,
    settings: Inference,
    max_tokens: int | None,
    bounds: OutputBounds = NO_BOUNDS,
) -> int:
    """Returns the maximum length of a source's output, `</s>` counted."""
    if source.is_text:
        return _find_room(source, settings, max_tokens)
    limit = _find_output_limit(source, settings, max_tokens)
    return bounds.lower(limit, len(source.tokens))


def _find_room(source: EncodedSource, settings: Inference, max_tokens: int | None) -> int:
    """Returns the maximum length of a text's continuation."""
    room = max(settings.max_extra_tokens, 1)
    if settings.max_output_tokens is not None:
        room = min(room, settings.max_output_tokens)
    if max_tokens is None:
        return room
    if len(source.tokens) >= max_tokens:
        raise MtkitError(
            f"a text of {len(source.tokens):,} tokens, but the model has only "
            f"{max_tokens:,} positions, including the continuation",
            "give shorter lines",
        )
    return min(room, max_tokens - len(source.tokens))


def _find_output_limit(source: EncodedSource, settings: Inference, max_tokens: int | None) -> int:
    """Returns the maximum length of a translation.

    It depends on the length of the source, of what the output must contain, or on `min_length`.
    """
    num_forced = len(source.forced)
    # As many as the constraints may take, with the last </s>.
    num_needed = num_forced + sum(len(phrase) + 1 for phrase in source.required)
    longest = max(len(source.tokens), num_needed, settings.min_length + 1)
    limit = longest + settings.max_extra_tokens
    if settings.max_output_tokens is not None:
        limit = min(limit, max(settings.max_output_tokens, num_needed))
    if max_tokens is None:
        return max(limit, 1)
    for what, length in (("source", len(source.tokens)), ("prefix", num_forced + 1)):
        if length > max_tokens:
            raise MtkitError(
                f"a {what} of {length:,} tokens, but the model has only {max_tokens:,} positions",
                "give shorter lines",
            )
    return min(limit, max_tokens)


def make_batches(
    lengths: Sequence[int], batch_tokens: int, max_sentences: int | None = None
) -> list[list[int]]:
    """Returns indices in batches of similar length, longest first.

    Args:
        lengths: Number of tokens of each sentence.
        batch_tokens: Maximum tokens of a batch with padding, unless it is one sentence.
        max_sentences: Maximum sentences of a batch; None for no limit.
    """
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if room == 0:
            batches.append([])
            # Sorted, so the first sentence of a batch is its longest.
            room = max(1, batch_tokens // max(lengths[index], _MIN_COUNTED_TOKENS))
            room = min(room, max_sentences or room)
        batches[-1].append(index)
        room -= 1
    return batches


def restore_order(
    batches: Iterable[Iterable[int]], found: Iterable[Iterable[_Found]]
) -> list[_Found]:
    """Returns the results of batches of indices in the order of the indices."""
    by_index = dict(zip(chain(*batches), chain(*found), strict=True))
    return [by_index[index] for index in range(len(by_index))]


def search_in_batches(
    engine: Engine, sources: Sequence[EncodedSource], settings: Inference
) -> list[list[Hypothesis]]:
    """Returns each source's hypotheses; `batch_tokens` limits what is searched together."""
    batch_tokens = settings.batch_tokens * engine.batches_at_once
    batches = make_batches([len(source.tokens) for source in sources], batch_tokens)
    found = (engine.search([sources[index] for index in batch], settings) for batch in batches)
    return restore_order(batches, found)


def with_scores(hypothesis: Hypothesis, own: Sequence[float], fused: Sequence[float]) -> Hypothesis:
    """Returns a hypothesis with the separate log-probabilities of both models of a fusion."""
    return replace(
        hypothesis,
        log_probability=sum(own),
        token_log_probabilities=tuple(own),
        fused_log_probability=sum(fused),
    )
