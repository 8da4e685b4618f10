"""The probability of given outputs."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.network import CausalLanguageModel, EncoderDecoder, PaddedLayout
from mtkit.text.token_ids import BOS

_TOKENS_AT_ONCE = 1_024


def score_targets(
    model: EncoderDecoder,
    source_tokens: Int[Tensor, "batch src_len"],
    source_layout: PaddedLayout,
    target_tokens: Int[Tensor, "batch tgt_len"],
) -> Float[Tensor, "batch tgt_len"]:
    """Returns the natural log-probability of each target token, given its source and prefix.

    The network is in evaluation mode. Sources end with `</s>`; targets too, unless the length limit
    cut them. Results at padding have no meaning.
    """
    begun_BT, target_layout = _begin(target_tokens)
    states_BTD = model(source_tokens, source_layout, begun_BT, target_layout)
    return _pick(model.project(states_BTD), target_tokens)


def score_text(
    model: CausalLanguageModel, tokens: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch length"]:
    """Returns the natural log-probability of each token of a text without `<s>`."""
    begun_BT, layout = _begin(tokens)
    states_ND = model(begun_BT, layout).flatten(0, 1)
    # In small groups: logits of whole batches of long texts would take gigabytes.
    parts = zip(
        torch.split(states_ND, _TOKENS_AT_ONCE),
        torch.split(tokens.flatten(), _TOKENS_AT_ONCE),
        strict=True,
    )
    picked = [_pick(model.project(states), targets) for states, targets in parts]
    return torch.cat(picked).view(tokens.shape)


def _begin(tokens_BT: Tensor) -> tuple[Tensor, PaddedLayout]:
    """Shifts tokens right after `<s>`; also returns their layout."""
    begun_BT = tokens_BT.roll(1, dims=1)
    begun_BT[:, 0] = BOS
    # No token attends to later ones, padding included.
    return begun_BT, PaddedLayout.without_padding(tokens_BT)


def _pick(logits: Float[Tensor, "*shape vocab"], tokens: Int[Tensor, "*shape"]) -> Tensor:
    log_probs = logits.float().log_softmax(dim=-1)
    return log_probs.gather(-1, tokens[..., None])[..., 0]
