"""Rules on which tokens a search may emit next."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.text.token_ids import BOS, EOS, PAD


class OutputRules:
    """Takes away the probability of tokens that may not come next; what others have stays as it is.

    Padding and `<s>` are never emitted. A prefix goes before every other rule, and a phrase that an
    output must contain before repeats and forbidden phrases.

    Args:
        prefixes: Tokens that each sentence's output begins with.
        num_certain: How many of each prefix's have probability 1, whatever the model says of them.
        min_length: Minimum number of tokens of an output, `</s>` not counted.
        no_repeat_ngram: Length of the sequences that may come only once.
        forbidden: Sequences that may not come in each sentence's output.
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
        """Writes -inf where a token may not follow.

        Args:
            log_probs: What the model says of the next token; written into.
            history: Each hypothesis's tokens so far, `<s>` not counted.
            sentences: Which prefix belongs to each row of the batch.
            wanted: Row, hypothesis and token of what a phrase needs that must occur.
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

    def find_never(self, length: int) -> list[int] | None:
        """Returns the tokens that may not follow outputs of this length, whatever they are.

        None where it isn't the same for all of them.
        """
        if self._no_repeat_ngram is not None or self._forbidden or length < self._max_prefix:
            return None
        return [PAD, BOS, EOS] if length < self._min_length else [PAD, BOS]

    def find_forced_rows(self, sentences: Sequence[int], length: int) -> list[bool]:
        """Returns whose next token is one of a prefix."""
        if length >= self._max_prefix:
            return [False] * len(sentences)
        return [length < len(self._prefixes[sentence]) for sentence in sentences]

    def _find_forced(self, sentences: Sequence[int], length: int) -> list[tuple[int, int]]:
        """Returns the rows whose prefix isn't complete, with its next token."""
        if length >= self._max_prefix:
            return []
        return [
            (row, self._prefixes[sentence][length])
            for row, sentence in enumerate(sentences)
            if length < len(self._prefixes[sentence])
        ]


NO_RULES = OutputRules()
"""Forbids only what is never emitted: padding and `<s>`."""


def _forbid_repeats(log_probs_BWV: Tensor, history_BWT: Tensor, n: int) -> None:
    """Takes away every token that would end a sequence of n tokens that is there already."""
    ngrams_BWGN = history_BWT.unfold(2, n, 1)
    newest_BWN = history_BWT[:, :, history_BWT.shape[2] - n + 1 :]
    is_begun_BWG = (ngrams_BWGN[..., :-1] == newest_BWN[:, :, None]).all(dim=-1)
    sentences, hypotheses, positions = is_begun_BWG.nonzero(as_tuple=True)
    log_probs_BWV[
        sentences, hypotheses, ngrams_BWGN[sentences, hypotheses, positions, -1]
    ] = -torch.inf


class _ForbiddenPhrases:
    """The phrases that an output may not have, by the tokens before their last.

    Attributes:
        max_length: Of the tokens before the last.
    """

    def __init__(self, phrases: Sequence[Sequence[int]]) -> None:
        self._last: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        for *before, last in phrases:
            self._last[tuple(before)].add(last)
        self._lengths = sorted({len(before) for before in self._last})
        self.max_length = max(self._lengths, default=0)

    def find(self, history: Sequence[int]) -> set[int]:
        """Returns the tokens that may not come behind an output."""
        ends = (
            tuple(history[len(history) - length :])
            for length in self._lengths
            if length <= len(history)
        )
        return set().union(*(self._last.get(end, ()) for end in ends))


def _forbid_phrases(
    log_probs_BWV: Tensor, history_BWT: Tensor, forbidden: Sequence[_ForbiddenPhrases]
) -> None:
    """Takes away the last token of each phrase where all those before it have just come."""
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
