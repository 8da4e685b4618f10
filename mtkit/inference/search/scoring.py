"""The probability of outputs that are given."""

from jaxtyping import Float, Int
from torch import Tensor

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.text.token_ids import BOS


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
    begun_BT = target_tokens.roll(1, dims=1)
    begun_BT[:, 0] = BOS
    # No token sees those behind it, padding included.
    target_layout = PaddedLayout.without_padding(target_tokens)
    logits_BTV = model.project(model(source_tokens, source_layout, begun_BT, target_layout))
    log_probs_BTV = logits_BTV.float().log_softmax(dim=-1)
    return log_probs_BTV.gather(2, target_tokens[:, :, None])[:, :, 0]
