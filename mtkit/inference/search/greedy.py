"""The likeliest token at each step."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from mtkit.inference.search.rules import NO_RULES, OutputRules, end_output
from mtkit.inference.search.step_model import CompiledSteps, StepModel, compact, find_watched
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import BOS, EOS


def greedy_search(
    model: StepModel,
    max_lengths: Int[Tensor, " batch"],
    penalty: LengthPenalty,
    rules: OutputRules = NO_RULES,
) -> list[list[Hypothesis]]:
    """Returns one hypothesis per sentence; of equally likely tokens the one with the lowest id.

    Args:
        model: A model that has read the batch's sources.
        max_lengths: Maximum output length of each sentence, `</s>` counted.
        penalty: What the score divides by; it has no influence on what is found.
        rules: What may not be emitted.
    """
    limits = max_lengths.tolist()
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
        is_alive = [
            token != EOS and length < limits[sentence]
            for sentence, token in zip(sentences, newest_B.tolist(), strict=True)
        ]
        if all(is_alive):
            continue
        find_attention = find_watched(model)
        outputs = zip(history_BT.tolist(), cumulative_BT.tolist(), strict=True)
        for row, (sentence, output) in enumerate(zip(sentences, outputs, strict=True)):
            if not is_alive[row]:
                ended = end_output(*output, penalty)
                if find_attention is not None:
                    ended = replace(ended, alignment_weights=find_attention(row, 0))
                found[sentence].append(ended)
        kept = compact(is_alive)
        sentences = [sentences[row] for row in kept]
        kept_B = torch.tensor(kept, dtype=torch.int64, device=max_lengths.device)
        model.select(kept, torch.zeros_like(kept_B)[:, None])
        newest_B, history_BT, cumulative_BT = (
            newest_B[kept_B],
            history_BT[kept_B],
            cumulative_BT[kept_B],
        )
    return found


def _find_best(
    model: StepModel,
    newest_B: Tensor,
    history_BT: Tensor,
    sentences: Sequence[int],
    rules: OutputRules,
) -> tuple[Tensor, Tensor]:
    """Returns each sentence's likeliest next token: its log-probability, and which it is."""
    never = rules.find_never(history_BT.shape[1])
    if never is not None and isinstance(model, CompiledSteps):
        totals = torch.zeros(len(newest_B), 1)
        values_B1, best_B1 = model.find_best(newest_B[:, None], totals, 1, never)
        return values_B1[:, 0], best_B1[:, 0]
    log_probs_BV = model.step(newest_B[:, None])
    rules.apply(log_probs_BV, history_BT[:, None], sentences)
    values_B, best_B = log_probs_BV[:, 0].max(dim=-1)
    return values_B, best_B
