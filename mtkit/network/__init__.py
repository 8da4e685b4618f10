"""Networks only: tensors in, tensors out; no files, no text, no training.

encoder_decoder.py  the whole Transformer: `forward` to train, `start` and `step` to decode
encoder.py, decoder.py        stacks of layers, post-norm or pre-norm
attention.py, feed_forward.py the sub-layers
short_attention.py  attention among short sequences on a CPU, with its gradient by hand
embeddings.py, positions.py   tokens and places to vectors
grids.py            sentences in padded grids, all in one row
packing.py          sentences side by side without padding, for a GPU
normalization.py    layer normalisation
dropout.py          dropout, quick on a CPU too
cache.py            keys and values kept while decoding
initialization.py   every initial weight, in one function

Names for shapes: batch, beam, src_len, tgt_len, d_model, heads, d_key, d_value, d_ff, vocab.
A local that changes shape carries its axes as a suffix: B batch, S src_len, T tgt_len, Q and M the
lengths of queries and memory, D d_model, H heads, K d_key, V d_value. `rows` is batch * beam.
Masks are boolean, True is a real token: `source_is_token`.
"""

from mtkit.network.cache import DecoderCache
from mtkit.network.encoder_decoder import EncoderDecoder
from mtkit.network.grids import Grids
from mtkit.network.packing import Packing, can_pack

__all__ = ["DecoderCache", "EncoderDecoder", "Grids", "Packing", "can_pack"]
