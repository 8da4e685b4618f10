"""Calls the library's search: sources in, outputs with their log-probabilities out."""

import threading
from collections.abc import Callable, Iterable, Sequence
from ctypes import byref, c_int32
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mtkit.engine.library import (
    Network,
    Ragged,
    RaggedPhrases,
    Requests,
    SearchSettings,
    address,
    check_status,
    choose_library,
)
from mtkit.engine.network import EngineNetwork
from mtkit.recipe.inference import Inference, Sampling

Phrases = Sequence[Sequence[int]]
_MAX_RANDOM = 1 << 24
"""Maximum random numbers per call of the library: 128 MiB."""
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Member:
    """A network of a call: a member of an ensemble, or a language model that is fused with it.

    Attributes:
        network: The network.
        watched: A decoder layer and a head, from 0, whose attention to the source is returned, of
            a network alone; head -1 is the mean of all, -2 their maximum.
        fusion_weight: The factor of a language model's log-probabilities; 0 for an ensemble's
            members, which come first.
    """

    network: EngineNetwork
    watched: tuple[int, int] | None = None
    fusion_weight: float = 0.0


@dataclass(frozen=True)
class Request:
    """A sentence to search.

    Attributes:
        source: Source tokens with `</s>`; empty for a language model.
        prompt: Tokens that a decoder reads first: `<s>`, and a text to continue.
        limit: Maximum length of an output, `</s>` counted.
        prefix: Tokens that every output begins with.
        num_certain: Tokens of the prefix with probability 1.
        required: Phrases that every output contains.
        forbidden: Phrases that no output contains.
        draw: Identifies the sentence for sampling.
    """

    source: Sequence[int]
    prompt: Sequence[int]
    limit: int
    prefix: Sequence[int] = ()
    num_certain: int = 0
    required: Phrases = ()
    forbidden: Phrases = ()
    draw: Sequence[int] = ()


@dataclass(frozen=True)
class Output:
    """An output of a search.

    Attributes:
        tokens: The tokens, `</s>` included unless the limit cut the output.
        cumulative: The log-probability up to each token.
        score: The log-probability divided by the length penalty, plus the coverage penalty.
        attention: The watched attention of each decoder input, [inputs, src_len]; None unless
            a network alone was watched.
    """

    tokens: list[int]
    cumulative: list[float]
    score: float
    attention: NDArray[np.float32] | None


def search(
    members: Sequence[Member],
    requests: Sequence[Request],
    settings: Inference,
    num_threads: int,
    *,
    max_repeated: int | None = None,
) -> list[list[Output]]:
    """Returns each sentence's outputs, best first; none if log-probabilities are NaN.

    An output whose last `max_repeated` tokens repeat a sequence of at most five tokens ends there.
    A sentence's outputs depend neither on the others nor on the number of threads. Ctrl-C ends the
    search.
    """
    if not requests:
        return []
    num_random = settings.n_best * sum(each.limit for each in requests)
    if settings.sampling is not None and num_random > _MAX_RANDOM and len(requests) > 1:
        half = len(requests) // 2
        parts = requests[:half], requests[half:]
        given = settings, num_threads
        found = (search(members, part, *given, max_repeated=max_repeated) for part in parts)
        return list(chain.from_iterable(found))
    library = choose_library()
    assert library is not None
    if any(each.limit < 1 for each in requests):
        raise IndexError("an output of no tokens")
    call = _Call(members, requests)
    described = _describe_settings(settings, max_repeated)
    status = c_int32()
    random = [_draw_random(settings, each) for each in requests]
    call.requests.random = call.lay_out_random(random)
    found = call.run(
        lambda cancelled: library.mtkit_search(
            call.networks,
            len(members),
            byref(call.requests),
            byref(described),
            byref(cancelled),
            num_threads,
            byref(status),
        )
    )
    check_status(status.value)
    try:
        counts = np.empty(len(requests), np.int64)
        library.mtkit_count_outputs(found, address(counts, np.int64))
        num_tokens, num_weights = np.empty((2, counts.sum()), np.int64)
        library.mtkit_measure_outputs(
            found, address(num_tokens, np.int64), address(num_weights, np.int64)
        )
        tokens = np.empty(num_tokens.sum(), np.int64)
        cumulative = np.empty(len(tokens), np.float32)
        scores = np.empty(len(num_tokens), np.float64)
        weights = np.empty(num_weights.sum(), np.float32)
        library.mtkit_copy_outputs(
            found,
            address(tokens, np.int64),
            address(cumulative),
            address(scores, np.float64),
            address(weights),
        )
    finally:
        library.mtkit_free_outputs(found)
    sources = chain.from_iterable(
        [len(each.source)] * count for each, count in zip(requests, counts.tolist(), strict=True)
    )
    outputs = (
        Output(
            of_tokens.tolist(),
            of_cumulative.tolist(),
            score,
            of_weights.reshape(-1, length) if len(of_weights) else None,
        )
        for of_tokens, of_cumulative, score, of_weights, length in zip(
            _split(tokens, num_tokens),
            _split(cumulative, num_tokens),
            scores.tolist(),
            _split(weights, num_weights),
            sources,
            strict=True,
        )
    )
    of_sentences = [[next(outputs) for _ in range(count)] for count in counts.tolist()]
    return [each[: settings.n_best] for each in of_sentences]


def score(
    members: Sequence[Member],
    requests: Sequence[Request],
    targets: Sequence[Sequence[int]],
    num_threads: int,
) -> list[list[float]]:
    """Returns the log-probability of each token of each target, as `search` would return it."""
    log_probabilities, _ = _score(members, requests, targets, num_threads)
    return log_probabilities


def watch(
    member: Member,
    requests: Sequence[Request],
    targets: Sequence[Sequence[int]],
    num_threads: int,
) -> list[NDArray[np.float32]]:
    """Returns the watched attention of decoder inputs, [inputs, src_len], for each target.

    Inputs are the prompt's last token, and the target's tokens but the last.
    """
    _, attention = _score([member], requests, targets, num_threads, watches=True)
    return attention


def _score(
    members: Sequence[Member],
    requests: Sequence[Request],
    targets: Sequence[Sequence[int]],
    num_threads: int,
    *,
    watches: bool = False,
) -> tuple[list[list[float]], list[NDArray[np.float32]]]:
    library = choose_library()
    assert library is not None
    call = _Call(members, requests, max(map(len, targets), default=0))
    of_targets = call.lay_out(targets)
    lengths = [len(target) for target in targets]
    log_probabilities = np.empty(0 if watches else sum(lengths), np.float32)
    sizes = [
        len(request.source) * length for request, length in zip(requests, lengths, strict=True)
    ]
    attention = np.empty(sum(sizes) if watches else 0, np.float32)
    starts = np.array([0, *accumulate(sizes)], np.int64)
    status = call.run(
        lambda cancelled: library.mtkit_score(
            call.networks,
            len(members),
            byref(call.requests),
            of_targets.values,
            of_targets.starts,
            None if watches else address(log_probabilities),
            address(attention) if watches else None,
            address(starts, np.int64),
            byref(cancelled),
            num_threads,
        )
    )
    check_status(status)
    if watches:
        parts = _split(attention, sizes)
        return [], [part.reshape(length, -1) for part, length in zip(parts, lengths, strict=True)]
    return [part.tolist() for part in _split(log_probabilities, lengths)], []


class _Call:
    """The arguments of a call of the library, in memory that it may read."""

    def __init__(
        self, members: Sequence[Member], requests: Sequence[Request], longest_target: int = 0
    ) -> None:
        self._keeps: list[object] = []
        self._vocab_size = members[0].network.vocab_size
        if members[0].network.has_source and not all(each.source for each in requests):
            raise IndexError("an empty source")
        longest = max((len(each.source) for each in requests), default=0)
        target = max(
            (len(each.prompt) + max(each.limit, longest_target) for each in requests), default=0
        )
        described = [
            member.network.describe(
                source_length=longest,
                target_length=target,
                watched=member.watched,
                fusion_weight=member.fusion_weight,
            )
            for member in members
        ]
        self._keeps.append([keeps for _, keeps in described])
        self.networks = (Network * len(members))(*(network for network, _ in described))
        self.requests = Requests(
            count=len(requests),
            sources=self.lay_out([each.source for each in requests]),
            prompts=self.lay_out([each.prompt for each in requests]),
            prefixes=self.lay_out([each.prefix for each in requests], self._vocab_size),
            num_certain=self._keep(np.array([each.num_certain for each in requests], np.int64)),
            limits=self._keep(np.array([each.limit for each in requests], np.int64)),
            required=self._lay_out_phrases([each.required for each in requests]),
            forbidden=self._lay_out_phrases([each.forbidden for each in requests]),
        )

    def lay_out(self, lists: Sequence[Sequence[int]], num_tokens: int | None = None) -> Ragged:
        """Returns concatenated lists, in memory that lives as long as this.

        `num_tokens` is the size of the vocabulary of tokens that index log-probabilities: the
        library doesn't check them.
        """
        starts = np.array([0, *accumulate(map(len, lists))], np.int64)
        try:
            values = np.fromiter(chain.from_iterable(lists), np.int64, count=int(starts[-1]))
        except OverflowError as error:
            raise IndexError("a token's number needs more than 64 bits") from error
        if num_tokens is not None:
            for token in values[(values < 0) | (values >= num_tokens)]:
                raise IndexError(f"token {token}, but the network has {num_tokens:,} tokens")
        return Ragged(self._keep(values), self._keep(starts))

    def lay_out_random(self, arrays: Sequence[NDArray[np.float64]]) -> Ragged:
        """Does the same for numbers in [0, 1)."""
        starts = np.array([0, *accumulate(map(len, arrays))], np.int64)
        return Ragged(self._keep(np.concatenate(arrays)), self._keep(starts))

    def _lay_out_phrases(self, of_sentences: Sequence[Phrases]) -> RaggedPhrases:
        starts = np.array([0, *accumulate(map(len, of_sentences))], np.int64)
        tokens = self.lay_out(list(chain.from_iterable(of_sentences)), self._vocab_size)
        return RaggedPhrases(tokens, self._keep(starts))

    def _keep(self, array: NDArray[np.generic]) -> int:
        self._keeps.append(array)
        return array.ctypes.data

    def run(self, call: Callable[[c_int32], _Found]) -> _Found:
        """Calls the library in a thread, so that Ctrl-C in the main thread cancels the call."""
        if threading.current_thread() is not threading.main_thread():
            return call(c_int32(0))
        cancelled, found, is_done = c_int32(0), [], threading.Event()
        begins = threading.Lock()

        def work() -> None:
            if not begins.acquire(blocking=False):
                return
            try:
                found.append(call(cancelled))
            finally:
                is_done.set()

        thread = threading.Thread(target=work, daemon=True)
        try:
            thread.start()
            is_done.wait()
        except BaseException:
            cancelled.value = 1
            raise
        finally:
            # After Ctrl-C while it starts: either it has begun, or it never calls.
            if not begins.acquire(blocking=False):
                thread.join()
        return found[0]


def _describe_settings(settings: Inference, max_repeated: int | None) -> SearchSettings:
    sampling, penalty = settings.sampling, settings.length_penalty
    return SearchSettings(
        beam_size=settings.beam_size,
        num_outputs=settings.num_kept,
        stop_margin=settings.stop_margin,
        min_length=settings.min_length,
        no_repeat_ngram=settings.no_repeat_ngram or 0,
        max_repeated=max_repeated or 0,
        top_k=0 if sampling is None else sampling.top_k or 0,
        top_p=1.0 if sampling is None else sampling.top_p,
        epsilon=0.0 if sampling is None else sampling.epsilon,
        temperature=1.0 if sampling is None else sampling.temperature,
        penalty_alpha=penalty.alpha,
        has_power_penalty=penalty.kind == "power",
        is_sampling=sampling is not None,
        coverage_penalty=settings.coverage_penalty,
    )


def _draw_random(settings: Inference, request: Request) -> NDArray[np.float64]:
    """Returns numbers in [0, 1) for each token of each of a sentence's samples."""
    if settings.sampling is None:
        return np.empty(0)
    return draw_random(settings.sampling, request.draw, settings.n_best, request.limit).ravel()


def draw_random(
    sampling: Sampling, draw: Sequence[int], num_samples: int, length: int
) -> NDArray[np.float64]:
    """Returns numbers in [0, 1) for each of a sentence's outputs, [num_samples, length].

    An output's numbers don't depend on the number of outputs or their maximum length.
    """
    return np.stack(
        [
            np.random.default_rng(np.random.SeedSequence((sampling.seed, *draw, number))).random(
                length
            )
            for number in range(num_samples)
        ]
    )


def _split(values: NDArray[Any], lengths: Iterable[int]) -> Iterable[NDArray[Any]]:
    ends = list(accumulate(lengths))
    return (values[start:end] for start, end in zip([0, *ends], ends, strict=False))
