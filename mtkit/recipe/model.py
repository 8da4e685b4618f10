"""The `model` section: the network. The defaults are the paper's base model (arXiv 1706.03762)."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from mtkit.recipe.section import Count, Section

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Layers = Annotated[int, Field(ge=1, le=1_000)]
Width = Annotated[int, Field(ge=1, le=100_000)]
Sinusoids = Literal["interleaved", "halves", "tensor2tensor"]
HeadWidth = Annotated[int, Field(le=100_000)]
"""Below 1 where it can't be computed, which is reported in other words."""

_LATER_KEYS = ("sinusoids", "first_position", "scale_embeddings", "embedding_norm", "output_bias")
"""Keys that weren't in the first model folders and checkpoints."""


def _head_width(model: dict[str, Any]) -> int:
    """Returns d_model / num_heads; 0, which validation refuses, where the two don't divide."""
    d_model, num_heads = model.get("d_model", 0), model.get("num_heads", 0)
    return d_model // num_heads if num_heads and d_model % num_heads == 0 else 0


class Model(Section):
    """An encoder-decoder Transformer."""

    num_encoder_layers: Layers = 6
    """Encoder layers, the paper's N."""
    num_decoder_layers: Layers = 6
    """Decoder layers; may differ from the encoder's."""
    d_model: Width = 512
    """Width of embeddings and of every layer's output."""
    d_ff: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    """Inner width of the feed-forward sub-layer."""
    num_heads: Annotated[int, Field(ge=1, le=10_000)] = 8
    """Attention heads."""
    d_key: HeadWidth = Field(default_factory=_head_width)
    """Width of queries and keys per head; default: d_model / num_heads."""
    d_value: HeadWidth = Field(default_factory=_head_width)
    """Width of values per head; default: d_model / num_heads."""
    attention_window: Count | None = None
    """Restricted self-attention (paper, section 4): each position sees this many neighbours on
    either side, in the decoder on the left; default: all. Attention to the source stays
    whole."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation after each residual sum, as in the paper, or before each sub-layer with a
    final one after the last layer."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "relu"
    """Feed-forward non-linearity; `gelu_tanh` is GELU's approximation by tanh, `silu` is Marian's
    swish; `swiglu` (arXiv 2002.05202) adds a third, gating matrix."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Position encoding; sinusoidal ones reach past any training length."""
    max_positions: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """Number of learned positions, so the longest input and output; sinusoidal ones have no end."""
    sinusoids: Sinusoids = "interleaved"
    """Order of a sinusoidal position's numbers: sines and cosines in turn, as in the paper; sines
    in the first half, as in Marian; likewise with tensor2tensor's wavelengths, as in fairseq."""
    first_position: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Number of a sentence's first sinusoidal position; 2 in fairseq."""
    tied_embeddings: Literal["three-way", "decoder", "none"] = "three-way"
    """What shares one matrix: source, target and output embeddings; target and output; nothing."""
    scale_embeddings: bool = True
    """Multiplies token vectors by sqrt(d_model) on the way in (paper, section 3.4)."""
    embedding_norm: bool = False
    """Layer normalisation of embeddings plus positions; not in the paper."""
    output_bias: bool = False
    """A trained number for each target piece, added to its logit; not in the paper."""
    dropout: Rate = 0.1
    """Dropout on each sub-layer's output and on embeddings plus positions (paper, section 5.4)."""
    attention_dropout: Rate = 0.0
    """Dropout on attention weights; not in the paper."""
    activation_dropout: Rate = 0.0
    """Dropout after the feed-forward non-linearity; not in the paper."""

    @model_validator(mode="after")
    def _heads_have_a_width(self) -> "Model":
        for name in ("d_key", "d_value"):
            if getattr(self, name) >= 1:
                continue
            if name in self.model_fields_set:
                raise ValueError(f"{name} must be 1 or more, found {getattr(self, name)}")
            raise ValueError(
                f"d_model = {self.d_model} is no multiple of num_heads = {self.num_heads}: "
                "give d_key and d_value, or a d_model that is one"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, found {self.d_model}")
        if self.positions == "learned" and self.first_position:
            raise ValueError("first_position is for sinusoidal positions: learned ones begin at 0")
        return self

    @model_serializer(mode="wrap")
    def _leave_out_later_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Returns the section as older versions know it, where it says nothing that they don't.

        So they read this version's model folders, and their runs are resumed by it.
        """
        tables: dict[str, Any] = serialize(self)
        for key in _LATER_KEYS:
            if getattr(self, key) == type(self).model_fields[key].default:
                tables.pop(key, None)
        return tables
