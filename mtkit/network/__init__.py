"""Networks only: tensors in, tensors out; no files, no text, no training.

Names of dimensions: batch, beam, src_len, tgt_len, d_model, heads, d_key, d_value, d_ff, vocab. A
local that changes shape has its axes as a suffix: B batch, S src_len, T tgt_len, Q and M the
lengths of queries and memory, W beam, D d_model, H heads, K d_key, V d_value. In cpu/, R is batch
times heads. A `row` is a batch of one sequence: several grids or sentences concatenated. Masks are
boolean, True is a real token: `is_token`.
"""

from mtkit.network.cache import DecoderCache
from mtkit.network.causal_and_masked import (
    CausalClassifier,
    CausalLanguageModel,
    MaskedClassifier,
    MaskedLanguageModel,
)
from mtkit.network.encoder_decoder import EncoderDecoder
from mtkit.network.layout import Layout
from mtkit.network.layouts import GridLayout, PackedLayout, PaddedLayout

Network = (
    EncoderDecoder | CausalLanguageModel | MaskedLanguageModel | MaskedClassifier | CausalClassifier
)
"""The networks that `mtkit.model.build` builds."""

__all__ = [
    "CausalClassifier",
    "CausalLanguageModel",
    "DecoderCache",
    "EncoderDecoder",
    "GridLayout",
    "Layout",
    "MaskedClassifier",
    "MaskedLanguageModel",
    "Network",
    "PackedLayout",
    "PaddedLayout",
]
