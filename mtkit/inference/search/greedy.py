"""The likeliest token at each step."""

import torch
from jaxtyping import Int
from torch import Tensor

from mtkit.data.tokenizer import BOS, EOS, PAD
from mtkit.inference.search.hypothesis import Hypothesis
from mtkit.inference.search.penalties import length_penalty
from mtkit.inference.search.step_model import StepModel
from mtkit.recipe.inference import LengthPenalty


def greedy_search(
    model: StepModel, max_lengths: Int[Tensor, " batch"], penalty: LengthPenalty
) -> list[list[Hypothesis]]:
    """Returns one hypothesis per sentence; of equally likely tokens the one with the lowest id.

    Args:
        model: A model that has read the batch's sources.
        max_lengths: Greatest output length of each sentence, `</s>` counted.
        penalty: What the score divides by; it has no influence on what is found.
    """
    batch_size = max_lengths.shape[0]
    open_sentences = list(range(batch_size))
    outputs: list[list[int]] = [[] for _ in open_sentences]
    log_probabilities = [0.0] * batch_size
    newest_B = torch.full_like(max_lengths, BOS)
    totals_B = torch.zeros(batch_size, device=max_lengths.device)
    length = 0
    while open_sentences:
        length += 1
        log_probs_BV = model.step(newest_B)
        log_probs_BV[:, PAD] = -torch.inf
        log_probs_BV[:, BOS] = -torch.inf
        best_B, newest_B = log_probs_BV.max(dim=-1)
        totals_B = totals_B + best_B
        for sentence, token in zip(open_sentences, newest_B.tolist(), strict=True):
            outputs[sentence].append(token)

        is_done_B = (newest_B == EOS) | (max_lengths <= length)
        done, kept = _split(is_done_B)
        if not done:
            continue
        for place, total in zip(done, totals_B[done].tolist(), strict=True):
            log_probabilities[open_sentences[place]] = total
        open_sentences = [open_sentences[place] for place in kept]
        kept_B = torch.tensor(kept, dtype=torch.int64, device=max_lengths.device)
        model.select_sentences(kept_B)
        model.select_rows(kept_B)
        newest_B, totals_B, max_lengths = newest_B[kept_B], totals_B[kept_B], max_lengths[kept_B]
    return [
        [
            Hypothesis(
                tuple(tokens),
                log_probability,
                log_probability / length_penalty(penalty.kind, penalty.alpha, len(tokens)),
                is_finished=tokens[-1] == EOS,
            )
        ]
        for tokens, log_probability in zip(outputs, log_probabilities, strict=True)
    ]


def _split(is_done: Tensor) -> tuple[list[int], list[int]]:
    """Returns which sentences are done and which go on."""
    done: list[int] = []
    kept: list[int] = []
    for place, this_is_done in enumerate(is_done.tolist()):
        (done if this_is_done else kept).append(place)
    return done, kept
