"""The probability of outputs that are given."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mtkit.data.tokenizer import BOS
from mtkit.model import EncoderDecoder


def score_targets(
    model: EncoderDecoder,
    source_tokens: Int[Tensor, "batch src_len"],
    source_is_token: Bool[Tensor, "batch src_len"],
    target_tokens: Int[Tensor, "batch tgt_len"],
    target_is_token: Bool[Tensor, "batch tgt_len"],
) -> Float[Tensor, " batch"]:
    """Returns each target's log-probability given its source: the sum over all its tokens.

    Args:
        model: The network, in evaluation mode.
        source_tokens: Source pieces, closed by `</s>`, padded at the end.
        source_is_token: False at padding.
        target_tokens: Target pieces as a search finds them: closed by `</s>`, or cut by the length
            limit; padded at the end.
        target_is_token: False at padding.
    """
    begun_BT = target_tokens.roll(1, dims=1)
    begun_BT[:, 0] = BOS
    logits_BTV = model.project(model(source_tokens, source_is_token, begun_BT))
    surprisals_BT = nn.functional.cross_entropy(
        logits_BTV.flatten(0, 1).float(), target_tokens.flatten(), reduction="none"
    ).view_as(target_tokens)
    return -surprisals_BT.masked_fill(~target_is_token, 0.0).sum(dim=1)
