"""Beam search.

At each step every live hypothesis is extended by every token, and the best `2 * beam` of these
candidates are ranked by log-probability. A candidate among the first `beam` that ends in `</s>`
moves to its sentence's pool of finished hypotheses. The first `beam` candidates without `</s>` stay
alive. The pool keeps the `n_best` best by score: log-probability divided by the length penalty,
plus the coverage penalty, which is at most 0. A pool only decides when its sentence ends; it has no
influence on what stays alive until then.

A sentence ends when its pool is full and no live hypothesis would beat the worst in it by ending
within the next `stop_margin` tokens, each of them certain. A log-probability only falls as the
output grows, and for alpha >= 0 the penalty only rises, so the score is at most log_probability /
penalty(length + stop_margin). With the length limit as margin this is exact, and with the `power`
penalty it is the rule of transformers' `early_stopping="never"`. A margin of 0 with a pool of
`beam` is its `early_stopping=False`. A longer output can overtake one that has ended, so a beam of
1 is greedy search only for alpha = 0. At the length limit the first `beam` candidates enter the
pool on equal terms, ended or not.

If an output must contain phrases, constraints.py decides which candidates come first.

The search doesn't wait for a GPU at each step. It reads the results of several steps at once and
drops what a sentence found after its end, so that the outputs are the same.
"""

import bisect
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.inference.search.constraints import RelevantCandidates, RequiredPhrases
from mtkit.inference.search.penalties import MIN_COVERAGE, end_output, length_penalty
from mtkit.inference.search.rules import NO_RULES, OutputRules, ends_in_repetition
from mtkit.inference.search.step_model import StepModel
from mtkit.inference.translation import Hypothesis
from mtkit.network.device import send
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import BOS, EOS

_STEPS_AT_ONCE = 8
"""Steps on a GPU between two synchronisations to read their results."""
_BLOCK = 64
_MIN_BLOCKS = 32


def beam_search(
    model: StepModel,
    max_lengths: Int[Tensor, " batch"],
    *,
    beam_size: int,
    n_best: int | None = None,
    penalty: LengthPenalty,
    coverage: float = 0.0,
    stop_margin: int | None = None,
    rules: OutputRules = NO_RULES,
    required: Sequence[Sequence[Sequence[int]]] = (),
    steps_at_once: int | None = None,
    max_repeated: int | None = None,
) -> list[list[Hypothesis]]:
    """Returns each sentence's `n_best` best hypotheses, best first.

    There are fewer only if fewer outputs exist within the length limit and the rules. Among equal
    candidates the one from the better hypothesis comes first, then the lower token id. A sentence's
    result doesn't depend on its neighbours in the batch. Length limits count `</s>`.

    `n_best` is at most `beam_size`, and by default equal to it; a smaller one ends the search
    sooner. Without `stop_margin`, it is the length limit. A sentence with `required` phrases, each
    of at least one token, has a wider beam; if the limit is too low for all of them, outputs have
    as many of their tokens as were found. `steps_at_once` is 8 on a GPU and 1 elsewhere by default,
    and always 1 with phrases. A sentence whose best live hypothesis ends in a repetition of
    `max_repeated` tokens (`OutputBounds`) is at its length limit.
    """
    if any(required):
        steps_at_once = 1
    elif steps_at_once is None:
        steps_at_once = count_steps_at_once(max_lengths.device)
    pool_size = beam_size if n_best is None else n_best
    beam = _Beam(max_lengths, pool_size, penalty, stop_margin, steps_at_once)
    beam.max_repeated = max_repeated
    pools = beam.pools
    if any(required):
        beam.required = RequiredPhrases(required, max_lengths, beam_size, max_lengths.device)
        beam_size = beam.required.max_width
    while beam.pools:
        values_BK, indices_BK, chosen = _find_candidates(model, beam, rules, beam_size)
        if coverage > 0.0:
            beam.attend(*model.source_attention(), coverage)
        parents_BW = beam.advance(values_BK, indices_BK, beam_size, chosen)
        model.select(*beam.drop_finished(parents_BW))
    return pools


def _find_candidates(
    model: StepModel, beam: "_Beam", rules: OutputRules, beam_size: int
) -> tuple[Tensor, Tensor, RelevantCandidates | None]:
    """Extends hypotheses by their newest tokens and returns the `2 * beam_size` best."""
    # Returns log-probabilities [batch, candidates], best first or in the order of the phrases; each
    # candidate's index, which is hypothesis times vocabulary size plus token; and which of them may
    # end and live, None without phrases.
    # Each live hypothesis has one </s>, so 2 * beam candidates include beam others.
    num_candidates = 2 * beam_size
    length = beam.history_BWT.shape[2]
    log_probs_BWV = model.step(beam.newest_BW)
    batch, _, beam.vocab_size = log_probs_BWV.shape
    if beam.required is None:
        rules.apply(log_probs_BWV, beam.history_BWT, beam.sentences)
    else:
        _apply_with_phrases(rules, beam.required, log_probs_BWV, beam)
    extended_BC = log_probs_BWV.add_(beam.totals_BW[:, :, None]).view(batch, -1)
    best = top_k(extended_BC, min(num_candidates, extended_BC.shape[1]))
    if beam.required is None:
        return *best, None
    chosen = beam.required.choose(log_probs_BWV, best, length + 1)
    return chosen.values, chosen.indices, chosen


def _apply_with_phrases(
    rules: OutputRules, required: RequiredPhrases, log_probs_BWV: Tensor, beam: "_Beam"
) -> None:
    """Writes -inf for tokens that the rules forbid, or that leave no room for phrases."""
    rules.apply(log_probs_BWV, beam.history_BWT, beam.sentences, required.find_advancing())
    length = beam.history_BWT.shape[2]
    is_forced = rules.find_forced_rows(beam.sentences, length)
    required.restrict(log_probs_BWV, length, torch.tensor(is_forced, device=log_probs_BWV.device))


class _Beam:
    """The live hypotheses of every unfinished sentence, the best of a sentence first."""

    # `pools` are each sentence's outputs, best first; among equal scores the one found first.
    # `sentences` are the batch indices of the rows. `totals_BW` are log-probabilities;
    # `penalties_BW` are added to a hypothesis's score if it ends now. `required` is None if no
    # sentence has phrases.

    required: RequiredPhrases | None = None
    max_repeated: int | None = None
    vocab_size: int

    def __init__(
        self,
        max_lengths: Tensor,
        pool_size: int,
        penalty: LengthPenalty,
        stop_margin: int | None,
        steps_at_once: int,
    ) -> None:
        batch, device = len(max_lengths), max_lengths.device
        self._limits: list[int] = max_lengths.tolist()
        self._limits_B = max_lengths
        self._steps_at_once = steps_at_once
        # For each step that wasn't read yet: which candidates enter a pool, and their values.
        self._unread: list[tuple[Tensor, ...]] = []
        self._pool_size, self._penalty, self._stop_margin = pool_size, penalty, stop_margin
        self.pools: list[list[Hypothesis]] = [[] for _ in self._limits]
        self.sentences = list(range(batch))
        self.newest_BW = torch.full((batch, 1), BOS, device=device)
        self.history_BWT = torch.empty((batch, 1, 0), dtype=torch.int64, device=device)
        self.totals_BW = torch.zeros((batch, 1), device=device)
        self.penalties_BW = torch.zeros((batch, 1), device=device)
        # Cumulative log-probabilities; a token's own is the difference between two of them.
        self._cumulative_BWT = torch.empty((batch, 1, 0), device=device)
        self._coverage_BWS: Tensor | None = None

    def attend(self, attention_BWS: Tensor, source_is_token_BS: Tensor, beta: float) -> None:
        """Adds a step's attention to the coverage of source tokens."""
        so_far = 0.0 if self._coverage_BWS is None else self._coverage_BWS
        self._coverage_BWS = attention_BWS + so_far
        self.penalties_BW = coverage_penalty(self._coverage_BWS, source_is_token_BS, beta)

    def advance(
        self,
        candidates_BK: Tensor,
        indices_BK: Tensor,
        beam_size: int,
        chosen: RelevantCandidates | None,
    ) -> Int[Tensor, "batch new_beam"]:
        """Keeps the best continuations alive, and stores ended ones; returns the parents."""
        parents_BK, tokens_BK = indices_BK // self.vocab_size, indices_BK % self.vocab_size
        length = self.history_BWT.shape[2] + 1
        is_eos_BK = tokens_BK == EOS
        history_BKT = torch.cat(
            (_take(self.history_BWT, parents_BK), tokens_BK[:, :, None]), dim=-1
        )
        cumulative_BKT = torch.cat(
            (_take(self._cumulative_BWT, parents_BK), candidates_BK[:, :, None]), dim=-1
        )
        may_enter_BK = is_eos_BK.clone()
        if length >= min(self._limits):
            may_enter_BK |= (self._limits_B <= length)[:, None]
        may_live_BK = ~is_eos_BK
        if chosen is None:
            may_enter_BK[:, beam_size:] = False
        else:
            may_enter_BK &= chosen.may_enter
            may_live_BK = chosen.may_live
        # -inf marks no candidate: a token that is never emitted, or its continuation.
        may_enter_BK &= candidates_BK > -torch.inf
        adjustments_BK = self.penalties_BW.gather(1, parents_BK)
        ended = may_enter_BK, history_BKT, cumulative_BKT, adjustments_BK

        unfinished_BK = candidates_BK.masked_fill(~may_live_BK, -torch.inf)
        self.totals_BW, ranks_BW = top_k(unfinished_BK, min(beam_size, unfinished_BK.shape[1]))
        parents_BW = parents_BK.gather(1, ranks_BW)
        self.newest_BW = tokens_BK.gather(1, ranks_BW)
        self.history_BWT = _take(history_BKT, ranks_BW)
        self._cumulative_BWT = _take(cumulative_BKT, ranks_BW)
        self.penalties_BW = self.penalties_BW.gather(1, parents_BW)
        if self._coverage_BWS is not None:
            self._coverage_BWS = _take(self._coverage_BWS, parents_BW)
        if self.required is not None:
            self.required.keep(parents_BW, self.newest_BW)
        # The best live hypothesis comes first.
        self._unread.append((*ended, self.totals_BW[:, 0]))
        return parents_BW

    def drop_finished(self, parents_BW: Tensor) -> tuple[list[int], Tensor]:
        """Drops finished sentences; returns the kept rows, and hypotheses' parents."""
        # Sentences that finish between two synchronisations stay until the next one.
        length = self.history_BWT.shape[2]
        if len(self._unread) < self._steps_at_once and length < max(self._limits):
            return list(range(len(self.pools))), parents_BW
        is_alive = self._fill_pools()
        kept = compact(is_alive)
        if len(kept) == len(is_alive):
            return kept, parents_BW
        self.pools = [self.pools[row] for row in kept]
        self._limits = [self._limits[row] for row in kept]
        self.sentences = [self.sentences[row] for row in kept]
        rows = send(torch.tensor(kept, dtype=torch.int64), parents_BW.device)
        self._limits_B = self._limits_B[rows]
        self.newest_BW, self.totals_BW = self.newest_BW[rows], self.totals_BW[rows]
        self.history_BWT, self._cumulative_BWT = self.history_BWT[rows], self._cumulative_BWT[rows]
        self.penalties_BW = self.penalties_BW[rows]
        if self._coverage_BWS is not None:
            self._coverage_BWS = self._coverage_BWS[rows]
        if self.required is not None:
            self.required.select(rows)
        return kept, parents_BW[rows]

    def _fill_pools(self) -> list[bool]:
        """Moves ended outputs to the pools, step by step; returns which sentences are alive."""
        first = self.history_BWT.shape[2] - len(self._unread) + 1
        is_alive = [True] * len(self.pools)
        *steps, (best_BT,) = read_together([*self._unread, (self.history_BWT[:, 0],)])
        for length, step in enumerate(steps, start=first):
            may_enter_BK, *found, best_B = step
            entering = may_enter_BK.nonzero(as_tuple=True)
            for row, tokens, cumulative, adjustment in zip(
                entering[0].tolist(), *(each[entering].tolist() for each in found), strict=True
            ):
                if not is_alive[row]:
                    continue
                output = end_output(tokens, cumulative, self._penalty, adjustment)
                bisect.insort_right(self.pools[row], output, key=lambda held: -held.score)
                del self.pools[row][self._pool_size :]
            for row, best in enumerate(best_B.tolist()):
                is_alive[row] &= self._may_win(best, self.pools[row], self._limits[row], length)
        self._unread = []
        self._limit_repetitions(best_BT)
        return is_alive

    def _limit_repetitions(self, best_BT: Tensor) -> None:
        """Lowers the limit of sentences whose best live hypothesis repeats itself."""
        repeating_B = ends_in_repetition(best_BT, self.max_repeated)
        if repeating_B is None or not bool(repeating_B.any()):
            return
        for row, repeats in enumerate(repeating_B.tolist()):
            if repeats:
                self._limits[row] = min(self._limits[row], best_BT.shape[1] + 1)
        self._limits_B = send(torch.tensor(self._limits), self._limits_B.device)

    def _may_win(
        self, log_probability: float, pool: Sequence[Hypothesis], limit: int, length: int
    ) -> bool:
        """Checks whether a live hypothesis could enter the pool within the margin."""
        # False also for a dead hypothesis, and for NaN.
        if length >= limit or not log_probability > -torch.inf:
            return False
        if len(pool) < self._pool_size:
            return True
        length = limit if self._stop_margin is None else min(limit, length + self._stop_margin)
        divisor = length_penalty(self._penalty.kind, self._penalty.alpha, length)
        return log_probability / divisor > pool[-1].score


def count_steps_at_once(device: torch.device) -> int:
    """Returns the steps between two synchronisations on a device."""
    return _STEPS_AT_ONCE if device.type == "cuda" else 1


def read_together(groups: Sequence[tuple[Tensor, ...]]) -> Sequence[tuple[Tensor, ...]]:
    """Returns tensors on the CPU, synchronising with a GPU once."""
    device = groups[0][0].device
    if device.type != "cuda":
        return groups
    copies = [tuple(each.to("cpu", non_blocking=True) for each in group) for group in groups]
    torch.cuda.current_stream(device).synchronize()
    return copies


def compact(is_alive: Sequence[bool]) -> list[int]:
    """Returns the live rows, with gaps filled from the end so that few rows move."""
    num_kept = sum(is_alive)
    from_the_end = (row for row in range(num_kept, len(is_alive)) if is_alive[row])
    return [row if is_alive[row] else next(from_the_end) for row in range(num_kept)]


def _take(values: Tensor, indices: Tensor) -> Tensor:
    """Gathers hypotheses' values [batch, taken, _] at each sentence's own `indices`."""
    return values.gather(1, indices[:, :, None].expand(-1, -1, values.shape[2]))


def coverage_penalty(
    coverage: Float[Tensor, "batch beam src_len"],
    source_is_token: Bool[Tensor, "batch src_len"],
    beta: float,
) -> Float[Tensor, "batch beam"]:
    """Returns the coverage term of a score: 0 if every source token got its share, else negative.

    beta times the sum over source tokens of log(min(coverage, 1)) (arXiv 1609.08144, equation 14).
    A token without attention costs as much as one with `MIN_COVERAGE`, so that the penalty is
    finite and never falls as more of the source is omitted. `coverage` is summed over the output's
    tokens.
    """
    shares = coverage.clamp(MIN_COVERAGE, 1.0).log()
    # Added from left to right: the order of `sum` would depend on the batch's padding.
    sums = shares.masked_fill(~source_is_token[:, None], 0.0).cumsum(dim=-1)[:, :, -1]
    penalties: Tensor = sums * beta
    return penalties


def top_k(
    values: Float[Tensor, "batch candidates"], k: int
) -> tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"]]:
    """Returns the k largest of each row and their indices; among equals the leftmost first."""
    # `torch.topk` doesn't define which of equal values it picks, and in which order.
    if values.device.type != "cpu":
        return top_k_by_rank(values, k)
    # One more than k shows whether equal values lie on both sides of the cut.
    picked, indices = _pick(values, min(k + 1, values.shape[1]))
    cut_through_equals = (
        torch.zeros_like(picked[:, 0], dtype=torch.bool)
        if picked.shape[1] == k
        else (picked[:, k - 1] == picked[:, k]) & (picked[:, k] > -torch.inf)
    )
    indices, order = indices[:, :k].sort(dim=1)
    picked, order = picked[:, :k].gather(1, order).sort(dim=1, descending=True, stable=True)
    indices = indices.gather(1, order)
    if bool(cut_through_equals.any()):
        rows = values[cut_through_equals]
        first = _find_first(rows, k, picked[cut_through_equals][:, k - 1 :])
        exact, order = rows.gather(1, first).sort(dim=1, descending=True, stable=True)
        picked[cut_through_equals] = exact
        indices[cut_through_equals] = first.gather(1, order)
    return picked, indices


def top_k_by_rank(
    values: Float[Tensor, "batch candidates"], k: int
) -> tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"]]:
    """Implements `top_k` without reading the values, which would wait for a GPU."""
    # Each fp32 value and its index form one unique integer.
    # Adding zero turns -0.0 into 0.0. The bits of a negative number fall as it grows.
    bits = (values + 0.0).view(torch.int32)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    places = torch.arange(values.shape[1], device=values.device)
    ranks = (ordered << 32) | (0xFFFFFFFF - places)
    indices = 0xFFFFFFFF - (ranks.topk(k, dim=1).values & 0xFFFFFFFF)
    return values.gather(1, indices), indices


def _find_first(values: Tensor, k: int, threshold: Tensor) -> Tensor:
    """Returns the indices, from left to right, of the k largest per row, given the k-th."""
    # Among values equal to the threshold, the first are taken. A full sort would also work, but
    # takes eighteen times as long; bfloat16 logits have equals at the cut in one row of eighteen
    # (docs/log.md).
    # Not `values > threshold`: NaN counts as the largest, as in `torch.topk`.
    is_greater = ~(values <= threshold)
    is_equal = values == threshold
    num_missing = k - is_greater.sum(dim=1, keepdim=True)
    is_taken = is_greater | (is_equal & (is_equal.cumsum(dim=1) <= num_missing))
    return is_taken.nonzero()[:, 1].view(-1, k)


def _pick(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest of each row and their indices, in any order among equals."""
    # `torch.topk` on a CPU sorts pairs of values and indices. The maximum of each block is much
    # faster to find, and the k largest values lie in the k blocks with the largest maxima.
    num_blocks = values.shape[1] // _BLOCK
    if num_blocks < max(_MIN_BLOCKS, 4 * k):
        picked, indices = values.topk(k, dim=1)
        return picked, indices
    whole = num_blocks * _BLOCK
    blocks_BNE = values[:, :whole].view(-1, num_blocks, _BLOCK)
    best_BK = blocks_BNE.amax(dim=2).topk(k, dim=1).indices
    inner = torch.arange(_BLOCK, device=values.device)
    indices = (best_BK[:, :, None] * _BLOCK + inner).flatten(1)
    rest = torch.arange(whole, values.shape[1], device=values.device)
    indices = torch.cat((indices, rest.expand(len(values), -1)), dim=1)
    picked, order = values.gather(1, indices).topk(k, dim=1)
    return picked, indices.gather(1, order)
