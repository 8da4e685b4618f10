"""The best few outputs of each sentence, found a token at a time.

At each step every live hypothesis is continued by every token, and the best `2 * beam` of these
candidates are ranked by log-probability. A candidate that ends in `</s>` and is among the first
`beam` leaves for its sentence's pool of finished hypotheses; the first `beam` candidates without
`</s>` live on. The pool keeps the `beam` best by score, which is log-probability divided by the
length penalty.

Stopping is exact. A sentence ends when its pool is full and no live hypothesis can still beat the
worst in it: a log-probability only falls as the output grows, and for alpha >= 0 the penalty only
rises, so a live hypothesis scores at most log_probability / penalty(max_length). With the `power`
penalty that is the rule of transformers' `early_stopping="never"`. Because a longer output can
still overtake a finished one, a beam of 1 is greedy search for alpha = 0 alone.

At the length limit the first `beam` candidates enter the pool, ended or not, on equal terms.
"""

import bisect

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.data.tokenizer import BOS, EOS, PAD
from mtkit.inference.search.hypothesis import Hypothesis
from mtkit.inference.search.penalties import length_penalty
from mtkit.inference.search.step_model import StepModel
from mtkit.recipe.inference import LengthPenalty


def beam_search(
    model: StepModel,
    max_lengths: Int[Tensor, " batch"],
    *,
    beam_size: int,
    penalty: LengthPenalty,
) -> list[list[Hypothesis]]:
    """Returns each sentence's `beam_size` best hypotheses found, best first.

    There are fewer only where fewer outputs exist within the length limit. Of equal candidates the
    one from the better hypothesis comes first, then the one with the lower token id. What is found
    for a sentence doesn't depend on its neighbours in the batch.

    Args:
        model: A model that has read the batch's sources.
        max_lengths: Greatest output length of each sentence, `</s>` counted.
        beam_size: Hypotheses kept per sentence.
        penalty: How outputs of different lengths are compared.
    """
    device = max_lengths.device
    limits = max_lengths.tolist()
    pools = [_Pool(beam_size) for _ in limits]
    greatest_divisors = [length_penalty(penalty.kind, penalty.alpha, limit) for limit in limits]
    open_sentences = list(range(len(limits)))
    history_BWT = torch.empty((len(limits), 1, 0), dtype=torch.int64, device=device)
    newest_BW = torch.full((len(limits), 1), BOS, device=device)
    totals_BW = torch.zeros((len(limits), 1), device=device)
    length = 0
    while open_sentences:
        length += 1
        batch, width = totals_BW.shape
        log_probs_RV = model.step(newest_BW.flatten())
        log_probs_RV[:, PAD] = -torch.inf
        log_probs_RV[:, BOS] = -torch.inf
        vocab = log_probs_RV.shape[1]
        extended_BC = log_probs_RV.add_(totals_BW.view(-1, 1)).view(batch, width * vocab)

        # Each live hypothesis has one </s>, so 2 * beam candidates hold beam others.
        candidates_BK, places_BK = top_k(extended_BC, min(2 * beam_size, width * vocab))
        parents_BK, tokens_BK = places_BK // vocab, places_BK % vocab
        is_eos_BK = tokens_BK == EOS
        history_BKT = torch.cat((_take(history_BWT, parents_BK), tokens_BK[:, :, None]), dim=-1)

        at_limit = [length >= limits[sentence] for sentence in open_sentences]
        may_enter_BK = is_eos_BK | torch.tensor(at_limit, device=device)[:, None]
        may_enter_BK[:, beam_size:] = False
        # -inf marks what is no candidate at all: a token never emitted, or its continuation.
        may_enter_BK &= candidates_BK > -torch.inf
        divisor = length_penalty(penalty.kind, penalty.alpha, length)
        pools_B = [pools[sentence] for sentence in open_sentences]
        _fill(pools_B, may_enter_BK, history_BKT, candidates_BK, divisor)

        unfinished_BK = candidates_BK.masked_fill(is_eos_BK, -torch.inf)
        totals_BW, ranks_BW = top_k(unfinished_BK, min(beam_size, unfinished_BK.shape[1]))
        parents_BW = parents_BK.gather(1, ranks_BW)
        newest_BW = tokens_BK.gather(1, ranks_BW)
        history_BWT = _take(history_BKT, ranks_BW)

        # The best live hypothesis comes first.
        kept = [
            place
            for place, best in enumerate(totals_BW[:, 0].tolist())
            if not at_limit[place]
            and best / greatest_divisors[open_sentences[place]] > pools_B[place].worst_score
        ]
        rows_BW = torch.arange(batch, device=device)[:, None] * width + parents_BW
        if len(kept) < batch:
            open_sentences = [open_sentences[place] for place in kept]
            kept_B = torch.tensor(kept, dtype=torch.int64, device=device)
            model.select_sentences(kept_B)
            totals_BW, newest_BW = totals_BW[kept_B], newest_BW[kept_B]
            history_BWT, rows_BW = history_BWT[kept_B], rows_BW[kept_B]
        model.select_rows(rows_BW.flatten())
    return [pool.hypotheses for pool in pools]


def top_k(
    values: Float[Tensor, "batch candidates"], k: int
) -> tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"]]:
    """Returns the k greatest of each row and their places; of equals the one further left first.

    `torch.topk` alone leaves open which of equal values it picks and in which order.
    """
    # One more than asked for tells whether equals stand on both sides of the cut.
    picked, places = values.topk(min(k + 1, values.shape[1]), dim=1)
    cut_through_equals = (
        torch.zeros_like(picked[:, 0], dtype=torch.bool)
        if picked.shape[1] == k
        else (picked[:, k - 1] == picked[:, k]) & (picked[:, k] > -torch.inf)
    )
    places, order = places[:, :k].sort(dim=1)
    picked, order = picked[:, :k].gather(1, order).sort(dim=1, descending=True, stable=True)
    places = places.gather(1, order)
    if bool(cut_through_equals.any()):
        exact = values[cut_through_equals].sort(dim=1, descending=True, stable=True)
        picked[cut_through_equals] = exact.values[:, :k]
        places[cut_through_equals] = exact.indices[:, :k]
    return picked, places


class _Pool:
    """The best outputs of one sentence, best first; of equal scores the one found first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.hypotheses: list[Hypothesis] = []

    @property
    def worst_score(self) -> float:
        """What a new hypothesis must beat; -inf while there is room."""
        is_full = len(self.hypotheses) == self._size
        return self.hypotheses[-1].score if is_full else -torch.inf

    def add(self, hypothesis: Hypothesis) -> None:
        bisect.insort_right(self.hypotheses, hypothesis, key=lambda held: -held.score)
        del self.hypotheses[self._size :]


def _fill(
    pools: list[_Pool], may_enter: Tensor, history: Tensor, totals: Tensor, divisor: float
) -> None:
    """Leaves each sentence's pool with those of its candidates [batch, candidates] that may enter.

    Args:
        pools: One per sentence.
        may_enter: Which candidates do.
        history: The candidates' tokens [batch, candidates, tgt_len].
        totals: The candidates' log-probabilities.
        divisor: The length penalty of tgt_len.
    """
    entering = may_enter.nonzero(as_tuple=True)
    for place, tokens, log_probability in zip(
        entering[0].tolist(), history[entering].tolist(), totals[entering].tolist(), strict=True
    ):
        score = log_probability / divisor
        pools[place].add(
            Hypothesis(tuple(tokens), log_probability, score, is_finished=tokens[-1] == EOS)
        )


def _take(history: Tensor, indices: Tensor) -> Tensor:
    """Returns the token histories [batch, taken, tgt_len] at each sentence's own `indices`."""
    return history.gather(1, indices[:, :, None].expand(-1, -1, history.shape[2]))
