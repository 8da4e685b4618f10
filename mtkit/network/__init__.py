"""Networks only: tensors in, tensors out; no files, no text, no training.

To read from the formula to the whole:
scaled_dot_product.py  attention of heads: padded, packed, or a step's
bands.py               restricted attention, each block of queries with the keys near it
layouts.py             how sentences lie in a batch: padded, in grids, or packed
cache.py               keys and values cached while decoding
fused_linear.py        several linear maps in one product
low_rank.py            low-rank updates of linear maps (LoRA)
attention.py           self-attention and cross-attention
feed_forward.py        the feed-forward sub-layer
layer.py               sub-layers with residual, dropout and norm
stack.py               layers: an encoder, a decoder, or a language model's only stack
embeddings.py          tokens to vectors and back
positions.py           positions to vectors
rotary.py              positions as turns of queries and keys
encoder_decoder.py     the whole Transformer: `forward` to train, `start` and `step` to decode
causal_model.py        a language model that predicts the next token: the decoder alone
masked_model.py        a language model that predicts hidden tokens: the encoder alone
classifiers.py         a language model that labels texts

Beside them:
dropout.py             dropout
layer_norm.py          layer normalisation
initialization.py      every initial weight, in one function
attention_kernels.py   kernels of a GPU
watched_head.py        one head's attention to the source, by little more than a pass takes
recorded_attention.py  a layout that keeps the weights of attention
device.py              devices, and what suits each
precision.py           a network in bfloat16
cpu/                   faster ways of a processor

Names for shapes: batch, beam, src_len, tgt_len, d_model, heads, d_key, d_value, d_ff, vocab.
A local that changes shape carries its axes as a suffix: B batch, S src_len, T tgt_len, Q and M the
lengths of queries and memory, W beam, D d_model, H heads, K d_key, V d_value. In cpu/, R is batch
times heads. A `row` is a batch of one sequence: grids or sentences one after the other.
Masks are boolean, True is a real token: `is_token`.
"""

from mtkit.network.attention_kernels import can_pack
from mtkit.network.cache import DecoderCache
from mtkit.network.causal_model import CausalLanguageModel
from mtkit.network.classifiers import CausalClassifier, MaskedClassifier
from mtkit.network.encoder_decoder import EncoderDecoder
from mtkit.network.layouts import GridLayout, Layout, PackedLayout, PaddedLayout
from mtkit.network.masked_model import MaskedLanguageModel

Network = (
    EncoderDecoder | CausalLanguageModel | MaskedLanguageModel | MaskedClassifier | CausalClassifier
)
"""What `mtkit.model.build` builds."""

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
    "can_pack",
]
