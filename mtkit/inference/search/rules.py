"""Rules for the next token of a search."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.inference.search.bounds import MAX_PERIOD
from mtkit.text.token_ids import BOS, EOS, PAD


class OutputRules:
    """Sets the probability of forbidden next tokens to 0, without renormalizing the others.

    Padding and `<s>` are never emitted. A prefix overrides every other rule; a phrase that an
    output must contain overrides repeats and forbidden phrases. The first `num_certain` tokens of a
    prefix have probability 1. `min_length` doesn't count `</s>`.
    """

    def __init__(
        self,
        prefixes: Sequence[Sequence[int]] = (),
        *,
        num_certain: Sequence[int] = (),
        min_length: int = 0,
        no_repeat_ngram: int | None = None,
        forbidden: Sequence[Sequence[Sequence[int]]] = (),
    ) -> None:
        self._prefixes = prefixes
        self._num_certain = num_certain or [0] * len(prefixes)
        self._max_prefix = max(map(len, prefixes), default=0)
        self._min_length = min_length
        self._no_repeat_ngram = no_repeat_ngram
        self._forbidden = list(map(_ForbiddenPhrases, forbidden)) if any(forbidden) else []

    def apply(
        self,
        log_probs: Float[Tensor, "batch beam vocab"],
        history: Int[Tensor, "batch beam tgt_len"],
        sentences: Sequence[int],
        wanted: tuple[Tensor, Tensor, Tensor] | None = None,
    ) -> None:
        """Writes -inf for forbidden next tokens.

        `history` excludes `<s>`. `sentences` are the indices of each row's prefix. `wanted` are
        row, hypothesis and token of what required phrases need.
        """
        length = history.shape[2]
        for token in (PAD, BOS):
            log_probs[..., token] = -torch.inf
        forced = self._find_forced(sentences, length)
        kept = [
            torch.zeros_like(log_probs[row, :, token])
            if length < self._num_certain[sentences[row]]
            else log_probs[row, :, token].clone()
            for row, token in forced
        ]
        if length < self._min_length:
            log_probs[..., EOS] = -torch.inf
        needed = None if wanted is None else (wanted, log_probs[wanted])
        if self._no_repeat_ngram is not None and length >= self._no_repeat_ngram:
            _forbid_repeats(log_probs, history, self._no_repeat_ngram)
        if self._forbidden:
            _forbid_phrases(log_probs, history, [self._forbidden[each] for each in sentences])
        if needed is not None:
            log_probs[needed[0]] = needed[1]
        for (row, token), values in zip(forced, kept, strict=True):
            log_probs[row] = -torch.inf
            log_probs[row, :, token] = values

    def find_forced_rows(self, sentences: Sequence[int], length: int) -> list[bool]:
        """Returns which rows take their next token from a prefix."""
        if length >= self._max_prefix:
            return [False] * len(sentences)
        return [length < len(self._prefixes[sentence]) for sentence in sentences]

    def _find_forced(self, sentences: Sequence[int], length: int) -> list[tuple[int, int]]:
        """Returns the rows with an incomplete prefix, and its next token."""
        if length >= self._max_prefix:
            return []
        return [
            (row, self._prefixes[sentence][length])
            for row, sentence in enumerate(sentences)
            if length < len(self._prefixes[sentence])
        ]


NO_RULES = OutputRules()
"""Forbids only padding and `<s>`."""


def _forbid_repeats(log_probs_BWV: Tensor, history_BWT: Tensor, n: int) -> None:
    """Forbids every token that would repeat a sequence of n tokens."""
    ngrams_BWGN = history_BWT.unfold(2, n, 1)
    newest_BWN = history_BWT[:, :, history_BWT.shape[2] - n + 1 :]
    is_begun_BWG = (ngrams_BWGN[..., :-1] == newest_BWN[:, :, None]).all(dim=-1)
    sentences, hypotheses, positions = is_begun_BWG.nonzero(as_tuple=True)
    log_probs_BWV[
        sentences, hypotheses, ngrams_BWGN[sentences, hypotheses, positions, -1]
    ] = -torch.inf


class _ForbiddenPhrases:
    """The forbidden phrases of an output, keyed by the tokens before their last."""

    def __init__(self, phrases: Sequence[Sequence[int]]) -> None:
        self._last: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        for *before, last in phrases:
            self._last[tuple(before)].add(last)
        self._lengths = sorted({len(before) for before in self._last})
        self.max_length = max(self._lengths, default=0)

    def find(self, history: Sequence[int]) -> set[int]:
        """Returns the tokens that may not follow an output."""
        ends = (
            tuple(history[len(history) - length :])
            for length in self._lengths
            if length <= len(history)
        )
        return set().union(*(self._last.get(end, ()) for end in ends))


def _forbid_phrases(
    log_probs_BWV: Tensor, history_BWT: Tensor, forbidden: Sequence[_ForbiddenPhrases]
) -> None:
    """Forbids the last token of each phrase whose other tokens have just come."""
    start = max(0, history_BWT.shape[2] - max(each.max_length for each in forbidden))
    cells = [
        (row, hypothesis, token)
        for row, (phrases, histories) in enumerate(
            zip(forbidden, history_BWT[:, :, start:].tolist(), strict=True)
        )
        for hypothesis, history in enumerate(histories)
        for token in phrases.find(history)
    ]
    if cells:
        log_probs_BWV[tuple(torch.tensor(cells).T)] = -torch.inf


def ends_in_repetition(
    history: Int[Tensor, "*outputs tgt_len"], max_repeated: int | None
) -> Bool[Tensor, "*outputs"] | None:
    """Returns which outputs end in a repetition of that length; None if none can."""
    if max_repeated is None or history.shape[-1] < max_repeated:
        return None
    newest = history[..., -max_repeated:]
    found = (newest[..., 1:] == newest[..., :-1]).all(dim=-1)
    for period in range(2, MAX_PERIOD + 1):
        found |= (newest[..., period:] == newest[..., :-period]).all(dim=-1)
    return found
