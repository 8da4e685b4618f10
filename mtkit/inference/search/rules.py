"""Rules on which tokens a search may emit next."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.inference.translation import Hypothesis
from mtkit.network import CausalLanguageModel, EncoderDecoder, PaddedLayout
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import BOS, EOS, PAD

_TOKENS_AT_ONCE = 1_024
MIN_COVERAGE = 2.0**-126
"""Attention below fp32's smallest normal number counts as that. Engines round such weights to 0 or
not, and the logarithm of 0 isn't finite."""


def score_targets(
    model: EncoderDecoder,
    source_tokens: Int[Tensor, "batch src_len"],
    source_layout: PaddedLayout,
    target_tokens: Int[Tensor, "batch tgt_len"],
) -> Float[Tensor, "batch tgt_len"]:
    """Returns the natural log-probability of each target token, given its source and those before.

    Args:
        model: The network, in evaluation mode.
        source_tokens: Source pieces, closed by `</s>`, padded at the end.
        source_layout: Where the sources stand.
        target_tokens: Target pieces as a search finds them: closed by `</s>`, or cut by the length
            limit; padded at the end, where the result holds no meaning.
    """
    begun_BT, target_layout = _begin(target_tokens)
    states_BTD = model(source_tokens, source_layout, begun_BT, target_layout)
    return _pick(model.project(states_BTD), target_tokens)


def score_text(
    model: CausalLanguageModel, tokens: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch length"]:
    """Returns the natural log-probability of each token of a text, given those before it.

    Args:
        model: The network, in evaluation mode.
        tokens: Texts without `<s>`, padded at the end, where the result holds no meaning.
    """
    begun_BT, layout = _begin(tokens)
    states_ND = model(begun_BT, layout).flatten(0, 1)
    # A few at a time: logits of whole batches of long texts would take gigabytes.
    parts = zip(
        torch.split(states_ND, _TOKENS_AT_ONCE),
        torch.split(tokens.flatten(), _TOKENS_AT_ONCE),
        strict=True,
    )
    picked = [_pick(model.project(states), targets) for states, targets in parts]
    return torch.cat(picked).view(tokens.shape)


def _begin(tokens_BT: Tensor) -> tuple[Tensor, PaddedLayout]:
    """Returns tokens behind `<s>` but for the last, and their layout."""
    begun_BT = tokens_BT.roll(1, dims=1)
    begun_BT[:, 0] = BOS
    # No token sees those behind it, padding included.
    return begun_BT, PaddedLayout.without_padding(tokens_BT)


def _pick(logits: Float[Tensor, "*shape vocab"], tokens: Int[Tensor, "*shape"]) -> Tensor:
    """Returns the log-probability of each token."""
    log_probs = logits.float().log_softmax(dim=-1)
    return log_probs.gather(-1, tokens[..., None])[..., 0]


def length_penalty(kind: Literal["gnmt", "power"], alpha: float, length: int) -> float:
    """Returns what the log-probability of an output of `length` tokens is divided by.

    Args:
        kind: `gnmt` is ((5 + length) / 6)^alpha (arXiv 1609.08144, equation 14); `power`, which
            CTranslate2 and transformers have, is length^alpha.
        alpha: Strength; 0 or more, so that the penalty never falls as the output grows.
        length: Number of tokens, `</s>` counted; at least 1.
    """
    match kind:
        case "gnmt":
            return float(((5 + length) / 6) ** alpha)
        case "power":
            return float(length**alpha)


def leave_out_beginning(hypothesis: Hypothesis, num_tokens: int) -> Hypothesis:
    """Returns an output without its first tokens, which were certain; its score stays."""
    if not num_tokens:
        return hypothesis
    of_tokens = hypothesis.token_log_probabilities[num_tokens:]
    attention, weights = hypothesis.attention, hypothesis.alignment_weights
    return replace(
        hypothesis,
        token_ids=hypothesis.token_ids[num_tokens:],
        log_probability=sum(of_tokens) if of_tokens else hypothesis.log_probability,
        token_log_probabilities=of_tokens,
        attention=None if attention is None else attention[num_tokens:],
        alignment_weights=None if weights is None else weights[num_tokens:],
    )


def end_output(
    tokens: Sequence[int],
    cumulative_log_probabilities: Sequence[float],
    penalty: LengthPenalty,
    adjustment: float = 0.0,
    *,
    num_before: int = 0,
) -> Hypothesis:
    """Returns an output that has come to its end.

    Args:
        tokens: The output.
        cumulative_log_probabilities: Its log-probability up to each token.
        penalty: What the score divides by.
        adjustment: What is added to the score.
        num_before: Tokens before the output that count in its length, such as its language.
    """
    divisor = length_penalty(penalty.kind, penalty.alpha, num_before + len(tokens))
    return Hypothesis(
        tuple(tokens),
        cumulative_log_probabilities[-1],
        cumulative_log_probabilities[-1] / divisor + adjustment,
        is_finished=tokens[-1] == EOS,
        token_log_probabilities=tuple(
            after - before
            for before, after in itertools.pairwise((0.0, *cumulative_log_probabilities))
        ),
    )


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
