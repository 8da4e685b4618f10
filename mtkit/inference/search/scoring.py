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
