"""The best few outputs of each sentence, found a token at a time.

At each step every live hypothesis is continued by every token, and the best `2 * beam` of these
candidates are ranked by log-probability. A candidate that ends in `</s>` and is among the first
`beam` leaves for its sentence's pool of finished hypotheses; the first `beam` candidates without
`</s>` live on. The pool keeps the `n_best` best by score, which is log-probability divided by the
length penalty, plus the coverage penalty, which is 0 at most. What is in a pool decides when a
sentence ends, and has no influence on what lives on until then.

A sentence ends when its pool is full and no live hypothesis would beat the worst in it if it ended
within the next `stop_margin` tokens, each of them certain: a log-probability only falls as the
output grows, and for alpha >= 0 the penalty only rises, so it would score at most
log_probability / penalty(length + stop_margin). With the length limit for a margin that is exact,
whatever a hypothesis becomes, and with the `power` penalty the rule of transformers'
`early_stopping="never"`; with a margin of 0 it is that of its `early_stopping=False`. Because a
longer output can overtake one that has ended, a beam of 1 is greedy search for alpha = 0 alone.

At the length limit the first `beam` candidates enter the pool, ended or not, on equal terms.

Where an output must contain phrases, constraints.py says which candidates come first.

A GPU isn't waited for at each step: what several steps have found is read at once, and what a
sentence found behind its end is left out, so that the outputs are the same.
"""

import bisect
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.inference.search.constraints import RequiredPhrases, Selection
from mtkit.inference.search.penalties import MIN_COVERAGE, end_output, length_penalty
from mtkit.inference.search.rules import NO_RULES, OutputRules
from mtkit.inference.search.step_model import StepModel
from mtkit.inference.translation import Hypothesis
from mtkit.network.cpu.compiled_translator import CompiledSearch
from mtkit.network.device import send
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import BOS, EOS

_STEPS_AT_ONCE = 8
"""Steps of a GPU between two looks at what they found; a look waits for it."""
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
) -> list[list[Hypothesis]]:
    """Returns each sentence's `n_best` best hypotheses found, best first.

    There are fewer only where fewer outputs exist within the length limit and the rules. Of equal
    candidates the one from the better hypothesis comes first, then the one with the lower token id.
    What is found for a sentence doesn't depend on its neighbours in the batch.

    Args:
        model: A model that has read the batch's sources.
        max_lengths: Maximum output length of each sentence, `</s>` counted.
        beam_size: Hypotheses that live on per sentence.
        n_best: Hypotheses returned per sentence, `beam_size` at most and where it isn't given; the
            fewer, the sooner none can be found that is better.
        penalty: How outputs of different lengths are compared.
        coverage: Strength of the coverage penalty.
        stop_margin: Tokens within which a live hypothesis must be able to win, or else the sentence
            ends; as many as the limit allows where it isn't given.
        rules: What may not be emitted.
        required: Phrases that each sentence's output must contain, each of at least one token. Such
            a sentence has a wider beam. Where the length limit is too low for all of them, an
            output has as many of their tokens as were found.
        steps_at_once: Steps between two looks at which sentences have ended; 8 on a GPU and 1
            elsewhere, where it isn't given. With phrases it is 1.
    """
    if any(required):
        steps_at_once = 1
    elif steps_at_once is None:
        steps_at_once = count_steps_at_once(max_lengths.device)
    pool_size = beam_size if n_best is None else n_best
    beam = _Beam(max_lengths, pool_size, penalty, stop_margin, steps_at_once)
    pools = beam.pools
    if any(required):
        beam.required = RequiredPhrases(required, max_lengths, beam_size, max_lengths.device)
        beam_size = beam.required.max_width
    while beam.pools:
        values_BK, indices_BK, chosen = _find_candidates(model, beam, rules, beam_size)
        if coverage > 0.0:
            beam.attend(*model.source_attention(), coverage)
        parents_BW = beam.advance(values_BK, indices_BK, beam_size, chosen)
        model.select(*beam.drop_finished(model, parents_BW))
    return pools


def _find_candidates(
    model: StepModel, beam: "_Beam", rules: OutputRules, beam_size: int
) -> tuple[Tensor, Tensor, Selection | None]:
    """Passes the newest tokens through the model, and returns the `2 * beam_size` best.

    Returns:
        Their log-probabilities [batch, candidates], best first, or what phrases have chosen; the
        index of each, its hypothesis's times the vocabulary's size plus its token; which of them
        may end and live, by phrases, None where there are none.
    """
    # Each live hypothesis has one </s>, so 2 * beam candidates hold beam others.
    num_candidates = 2 * beam_size
    length = beam.history_BWT.shape[2]
    never = None if beam.required is not None else rules.find_never(length)
    if never is not None and isinstance(model, CompiledSearch):
        beam.vocab_size = model.vocab_size
        num_candidates = min(num_candidates, beam.newest_BW.shape[1] * model.vocab_size)
        return *model.find_best(beam.newest_BW, beam.totals_BW, num_candidates, never), None
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
    """Writes -inf where a token may not follow, by the rules and for lack of phrases."""
    rules.apply(log_probs_BWV, beam.history_BWT, beam.sentences, required.find_advancing())
    length = beam.history_BWT.shape[2]
    is_forced = rules.find_forced_rows(beam.sentences, length)
    required.restrict(log_probs_BWV, length, torch.tensor(is_forced, device=log_probs_BWV.device))


class _Beam:
    """The live hypotheses of every sentence that isn't finished, the best of a sentence first.

    Args:
        max_lengths: Maximum output length of each sentence.
        pool_size: Outputs that are kept of a sentence.
        penalty: How they are compared.
        stop_margin: As `beam_search` takes it.
        steps_at_once: Steps after which it is looked at what they have found.

    Attributes:
        pools: Each sentence's outputs, best first; of equal scores the one found first.
        sentences: Which of the batch's sentences each row holds.
        newest_BW: Each hypothesis's newest token.
        history_BWT: All its tokens.
        totals_BW: Its log-probability.
        penalties_BW: What is added to its score if it ends now.
        vocab_size: Tokens that may continue one.
        required: The phrases that outputs must contain; None where there are none at all.
    """

    required: RequiredPhrases | None = None
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
        # Of each step that hasn't been looked at, which candidates enter a pool, and with what.
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
        """Adds a step's attention to what each source token got so far."""
        so_far = 0.0 if self._coverage_BWS is None else self._coverage_BWS
        self._coverage_BWS = attention_BWS + so_far
        self.penalties_BW = coverage_penalty(self._coverage_BWS, source_is_token_BS, beta)

    def advance(
        self,
        candidates_BK: Tensor,
        indices_BK: Tensor,
        beam_size: int,
        chosen: Selection | None,
    ) -> Int[Tensor, "batch new_beam"]:
        """Keeps the best continuations alive, and notes ended ones; returns the parents."""
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
        # -inf marks what is no candidate at all: a token never emitted, or its continuation.
        may_enter_BK &= candidates_BK > -torch.inf
        adjustments_BK = self.penalties_BW.gather(1, parents_BK)
        ended = may_enter_BK, parents_BK, history_BKT, cumulative_BKT, adjustments_BK

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

    def drop_finished(self, model: StepModel, parents_BW: Tensor) -> tuple[list[int], Tensor]:
        """Drops finished sentences; returns the others' rows so far, and hypotheses' parents.

        Those that have finished since the last look stay until the next.
        """
        length = self.history_BWT.shape[2]
        if len(self._unread) < self._steps_at_once and length < max(self._limits):
            return list(range(len(self.pools))), parents_BW
        is_alive = self._fill_pools(model)
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

    def _fill_pools(self, model: StepModel) -> list[bool]:
        """Puts what has ended into pools, step by step; returns which sentences haven't."""
        first = self.history_BWT.shape[2] - len(self._unread) + 1
        is_alive = [True] * len(self.pools)
        for length, step in enumerate(_read(self._unread), start=first):
            may_enter_BK, *found, best_B = step
            entering = may_enter_BK.nonzero(as_tuple=True)
            for row, parent, tokens, cumulative, adjustment in zip(
                entering[0].tolist(), *(each[entering].tolist() for each in found), strict=True
            ):
                if not is_alive[row]:
                    continue
                output = end_output(tokens, cumulative, self._penalty, adjustment)
                output = add_attention(output, model, row, parent)
                bisect.insort_right(self.pools[row], output, key=lambda held: -held.score)
                del self.pools[row][self._pool_size :]
            for row, best in enumerate(best_B.tolist()):
                is_alive[row] &= self._may_win(best, self.pools[row], self._limits[row], length)
        self._unread = []
        return is_alive

    def _may_win(
        self, log_probability: float, pool: Sequence[Hypothesis], limit: int, length: int
    ) -> bool:
        """Checks whether what a live hypothesis becomes within the margin could enter a pool."""
        # Neither for a dead hypothesis nor for one that is NaN.
        if length >= limit or not log_probability > -torch.inf:
            return False
        if len(pool) < self._pool_size:
            return True
        length = limit if self._stop_margin is None else min(limit, length + self._stop_margin)
        divisor = length_penalty(self._penalty.kind, self._penalty.alpha, length)
        return log_probability / divisor > pool[-1].score


def count_steps_at_once(device: torch.device) -> int:
    """Returns after how many steps on a device it is looked at which sentences have ended."""
    return _STEPS_AT_ONCE if device.type == "cuda" else 1


def _read(steps: list[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
    """Returns tensors of steps on the CPU, for which a GPU is waited for once."""
    if steps[0][0].device.type != "cuda":
        return steps
    copies = [tuple(each.to("cpu", non_blocking=True) for each in step) for step in steps]
    torch.cuda.current_stream(steps[0][0].device).synchronize()
    return copies


def add_attention(
    hypothesis: Hypothesis, model: StepModel, sentence: int, parent: int
) -> Hypothesis:
    """Returns a hypothesis that has ended with the attention that its model has watched, if any."""
    if not isinstance(model, CompiledSearch):
        return hypothesis
    weights = model.find_attention(sentence, parent)
    return hypothesis if weights is None else replace(hypothesis, alignment_weights=weights)


def compact(is_alive: Sequence[bool]) -> list[int]:
    """Returns the rows that are alive, those from the end in the gaps of the others.

    So as few as can be have to move.
    """
    num_kept = sum(is_alive)
    from_the_end = (row for row in range(num_kept, len(is_alive)) if is_alive[row])
    return [row if is_alive[row] else next(from_the_end) for row in range(num_kept)]


def _take(values: Tensor, indices: Tensor) -> Tensor:
    """Returns those of a sentence's hypotheses' values [batch, taken, _] at its own `indices`."""
    return values.gather(1, indices[:, :, None].expand(-1, -1, values.shape[2]))


def coverage_penalty(
    coverage: Float[Tensor, "batch beam src_len"],
    source_is_token: Bool[Tensor, "batch src_len"],
    beta: float,
) -> Float[Tensor, "batch beam"]:
    """Returns what is added to a score: 0 where every source token got its share, else less.

    beta times the sum over source tokens of log(min(coverage, 1)) (arXiv 1609.08144, equation 14).
    A token that got no attention at all costs as much as one that got `MIN_COVERAGE`, so that the
    penalty is finite and never falls as more of the source is left out.

    Args:
        coverage: Attention that each source token got, summed over the output's tokens.
        source_is_token: False at padding.
        beta: Strength.
    """
    shares = coverage.clamp(MIN_COVERAGE, 1.0).log()
    # Added up from left to right: a sum's order would depend on how wide the batch is padded.
    sums = shares.masked_fill(~source_is_token[:, None], 0.0).cumsum(dim=-1)[:, :, -1]
    penalties: Tensor = sums * beta
    return penalties


def top_k(
    values: Float[Tensor, "batch candidates"], k: int
) -> tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"]]:
    """Returns the k largest of each row and their indices; of equals the one further left first.

    `torch.topk` alone leaves open which of equal values it picks and in which order.
    """
    if values.device.type != "cpu":
        return top_k_by_rank(values, k)
    # One more than asked for shows whether equals stand on both sides of the cut.
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
    """Returns what `top_k` does, without a look at the values, for which a GPU would be waited.

    Each fp32 value and its index make one integer, and all of them differ.
    """
    # Zero is added lest -0.0 come after 0.0. The bits of a negative number fall as it grows.
    bits = (values + 0.0).view(torch.int32)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    places = torch.arange(values.shape[1], device=values.device)
    ranks = (ordered << 32) | (0xFFFFFFFF - places)
    indices = 0xFFFFFFFF - (ranks.topk(k, dim=1).values & 0xFFFFFFFF)
    return values.gather(1, indices), indices


def _find_first(values: Tensor, k: int, threshold: Tensor) -> Tensor:
    """Returns the indices, from left to right, of the k largest of each row, `threshold` the last.

    Of several that equal the threshold the first are taken. A sort of all would do, and takes
    eighteen times as long; logits in bfloat16 have equals at the cut in one row of eighteen
    (docs/log.md).
    """
    # Not `values > threshold`: NaN counts as the largest, as in `torch.topk`.
    is_greater = ~(values <= threshold)
    is_equal = values == threshold
    num_missing = k - is_greater.sum(dim=1, keepdim=True)
    is_taken = is_greater | (is_equal & (is_equal.cumsum(dim=1) <= num_missing))
    return is_taken.nonzero()[:, 1].view(-1, k)


def _pick(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest of each row and their indices, in any order among equals.

    `torch.topk` on a CPU sorts pairs of values and indices. The largest of each block of values is
    found much faster, and the k largest values stand in the k blocks whose largest are the
    largest.
    """
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
