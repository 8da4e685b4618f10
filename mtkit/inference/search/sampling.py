"""Greedy search and sampling; a sentence's result doesn't depend on its batch."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.engine.search import draw_random
from mtkit.inference.search.beam import compact, count_steps_at_once, read_together
from mtkit.inference.search.penalties import end_output
from mtkit.inference.search.rules import NO_RULES, OutputRules, ends_in_repetition
from mtkit.inference.search.step_model import StepModel
from mtkit.inference.translation import Hypothesis
from mtkit.network.device import send
from mtkit.recipe.inference import LengthPenalty, Sampling
from mtkit.text.token_ids import BOS, EOS


def greedy_search(
    model: StepModel,
    max_lengths: Int[Tensor, " batch"],
    penalty: LengthPenalty,
    rules: OutputRules = NO_RULES,
    *,
    steps_at_once: int | None = None,
    max_repeated: int | None = None,
) -> list[list[Hypothesis]]:
    """Returns one hypothesis per sentence; among equally likely tokens the lowest id.

    `max_repeated` is as in `OutputBounds`.
    """
    limits = max_lengths.tolist()
    steps_at_once = steps_at_once or count_steps_at_once(max_lengths.device)
    sentences = list(range(len(limits)))
    found: list[list[Hypothesis]] = [[] for _ in limits]
    history_BT = torch.empty((len(limits), 0), dtype=torch.int64, device=max_lengths.device)
    cumulative_BT = torch.empty((len(limits), 0), device=max_lengths.device)
    newest_B = torch.full_like(max_lengths, BOS)
    while sentences:
        best_B, newest_B = _find_best(model, newest_B, history_BT, sentences, rules)
        before_B = cumulative_BT[:, -1] if cumulative_BT.shape[1] else torch.zeros_like(best_B)
        history_BT = torch.cat((history_BT, newest_B[:, None]), dim=1)
        cumulative_BT = torch.cat((cumulative_BT, (before_B + best_B)[:, None]), dim=1)
        length = history_BT.shape[1]
        longest = max(limits[sentence] for sentence in sentences)
        if length % steps_at_once and length < longest:
            continue
        first = (length - 1) // steps_at_once * steps_at_once
        ((tokens_BT, log_probs_BT),) = read_together([(history_BT, cumulative_BT)])
        ends = [
            _find_end(tokens, first, limits[sentence])
            for sentence, tokens in zip(sentences, tokens_BT[:, first:].tolist(), strict=True)
        ]
        if (repeating_B := ends_in_repetition(tokens_BT, max_repeated)) is not None:
            cuts = [length if repeats else None for repeats in repeating_B.tolist()]
            ends = [cut if end is None else end for end, cut in zip(ends, cuts, strict=True)]
        is_alive = [end is None for end in ends]
        if all(is_alive):
            continue
        outputs = zip(tokens_BT.tolist(), log_probs_BT.tolist(), strict=True)
        for row, (sentence, output) in enumerate(zip(sentences, outputs, strict=True)):
            if not is_alive[row]:
                tokens, cumulative = (each[: ends[row]] for each in output)
                found[sentence].append(end_output(tokens, cumulative, penalty))
        kept = compact(is_alive)
        sentences = [sentences[row] for row in kept]
        kept_B = send(torch.tensor(kept, dtype=torch.int64), max_lengths.device)
        model.select(kept, torch.zeros_like(kept_B)[:, None])
        newest_B, history_BT, cumulative_BT = (
            newest_B[kept_B],
            history_BT[kept_B],
            cumulative_BT[kept_B],
        )
    return found


def _find_end(tokens: Sequence[int], first: int, limit: int) -> int | None:
    """Returns the length of an output that ends among its newest tokens; else None."""
    if EOS in tokens:
        return min(first + tokens.index(EOS) + 1, limit)
    return limit if first + len(tokens) >= limit else None


def _find_best(
    model: StepModel,
    newest_B: Tensor,
    history_BT: Tensor,
    sentences: Sequence[int],
    rules: OutputRules,
) -> tuple[Tensor, Tensor]:
    """Returns each sentence's most probable next token, after its log-probability."""
    log_probs_BV = model.step(newest_B[:, None])
    rules.apply(log_probs_BV, history_BT[:, None], sentences)
    values_B, best_B = log_probs_BV[:, 0].max(dim=-1)
    return values_B, best_B


def sample(
    model: StepModel,
    max_lengths: Int[Tensor, " batch"],
    *,
    sampling: Sampling,
    num_samples: int,
    draws: Sequence[Sequence[int]],
    penalty: LengthPenalty,
    rules: OutputRules = NO_RULES,
    steps_at_once: int | None = None,
) -> list[list[Hypothesis]]:
    """Returns `num_samples` outputs of each sentence, drawn one by one, the best score first.

    Each sentence has its own row of random numbers, seeded by `draws`, so that the batch doesn't
    matter. `max_lengths` count `</s>`. Samples may repeat. `penalty` only affects the score.
    """
    limits = max_lengths.tolist()
    device = max_lengths.device
    steps_at_once = steps_at_once or count_steps_at_once(device)
    random_BWT = torch.from_numpy(
        np.stack([draw_random(sampling, draw, num_samples, max(limits)) for draw in draws])
    ).to(device)
    sentences = list(range(len(limits)))
    found: list[list[Hypothesis]] = [[] for _ in limits]
    shape = len(limits), num_samples
    model.select(sentences, torch.zeros(shape, dtype=torch.int64, device=device))
    newest_BW = torch.full(shape, BOS, device=device)
    history_BWT = torch.empty((*shape, 0), dtype=torch.int64, device=device)
    cumulative_BWT = torch.empty((*shape, 0), device=device)
    is_open = np.ones(shape, dtype=bool)
    own_parents_BW = torch.arange(num_samples, device=device).expand(shape)
    while sentences:
        log_probs_BWV = model.step(newest_BW)
        rules.apply(log_probs_BWV, history_BWT, sentences)
        length = history_BWT.shape[2]
        newest_BW = draw(log_probs_BWV, random_BWT[:, :, length], sampling)
        drawn_BW1 = log_probs_BWV.gather(2, newest_BW[:, :, None])
        before_BW1 = cumulative_BWT[:, :, -1:] if length else torch.zeros_like(drawn_BW1)
        history_BWT = torch.cat((history_BWT, newest_BW[:, :, None]), dim=2)
        cumulative_BWT = torch.cat((cumulative_BWT, before_BW1 + drawn_BW1), dim=2)
        length += 1
        longest = max(limits[sentence] for sentence in sentences)
        if length % steps_at_once and length < longest:
            continue
        first = (length - 1) // steps_at_once * steps_at_once
        ((tokens_BWT, log_probs_BWT),) = read_together([(history_BWT, cumulative_BWT)])
        newest = tokens_BWT[:, :, first:].tolist()
        ends = [
            (end, row, number)
            for row, number in np.argwhere(is_open).tolist()
            if (end := _find_end(newest[row][number], first, limits[sentences[row]])) is not None
        ]
        # In the order of their ends, for any number of steps at once.
        for end, row, number in sorted(ends):
            tokens, cumulative = tokens_BWT[row, number, :end], log_probs_BWT[row, number, :end]
            output = end_output(tokens.tolist(), cumulative.tolist(), penalty)
            found[sentences[row]].append(output)
            is_open[row, number] = False
        kept = compact([any(row) for row in is_open.tolist()])
        if len(kept) == len(sentences):
            continue
        sentences = [sentences[row] for row in kept]
        kept_B = send(torch.tensor(kept, dtype=torch.int64), device)
        model.select(kept, own_parents_BW[: len(kept)])
        newest_BW, history_BWT, cumulative_BWT = (
            newest_BW[kept_B],
            history_BWT[kept_B],
            cumulative_BWT[kept_B],
        )
        is_open, random_BWT = is_open[kept], random_BWT[kept_B]
    return [sorted(outputs, key=lambda output: -output.score) for outputs in found]


def draw(
    log_probs: Float[Tensor, "batch beam vocab"],
    random: Float[Tensor, "batch beam"],
    sampling: Sampling,
) -> Int[Tensor, "batch beam"]:
    """Returns a token for each hypothesis, drawn from those that `sampling` allows.

    Any token if none is allowed, or if log-probabilities are NaN; its own log-probability shows it.
    `random` are fp64 numbers in [0, 1). Temperature comes first, then top_k, top_p and
    epsilon.
    """
    probabilities, tokens = truncate_distribution(log_probs, sampling)
    # The first token whose cumulative probability passes the random share of the total.
    sums = probabilities.cumsum(dim=-1)
    targets = random[..., None] * sums[..., -1:]
    last = ((probabilities > 0.0).sum(dim=-1, keepdim=True) - 1).clamp(min=0)
    indices = torch.searchsorted(sums, targets, right=True).minimum(last)
    return tokens.gather(-1, indices)[..., 0]


def truncate_distribution(
    log_probs: Float[Tensor, "batch beam vocab"], sampling: Sampling
) -> tuple[Float[Tensor, "batch beam kept"], Int[Tensor, "batch beam kept"]]:
    """Returns the tokens that may be drawn, most probable first, and their fp64 probabilities."""
    # Tokens that are excluded have probability 0.
    sorted_values, tokens = (log_probs.double() / sampling.temperature).sort(
        dim=-1, descending=True, stable=True
    )
    kept = min(sampling.top_k or tokens.shape[-1], tokens.shape[-1])
    probabilities = sorted_values[..., :kept].softmax(dim=-1)
    # A token is dropped if those before it already reach top_p.
    before = probabilities.cumsum(dim=-1) - probabilities
    is_kept = before < sampling.top_p
    is_kept[..., 0] = True
    if sampling.epsilon > 0.0:
        total = probabilities.masked_fill(~is_kept, 0.0).sum(dim=-1, keepdim=True)
        is_kept &= probabilities >= sampling.epsilon * total
        is_kept[..., 0] = True
    return probabilities.masked_fill(~is_kept, 0.0), tokens[..., :kept]
