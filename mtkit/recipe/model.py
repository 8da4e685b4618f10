"""The `model` section: the network. The defaults are the paper's base model (arXiv 1706.03762)."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mtkit.recipe.section import Count, Section

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Layers = Annotated[int, Field(ge=1, le=1_000)]
Width = Annotated[int, Field(ge=1, le=100_000)]
Sinusoids = Literal["interleaved", "halves", "tensor2tensor"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
HeadWidth = Annotated[int, Field(le=100_000)]
"""Below 1 where it can't be computed, which is reported in other words."""


def _head_width(model: dict[str, Any]) -> int:
    """Returns d_model / num_heads; 0, which validation rejects, if d_model is not a multiple."""
    d_model, num_heads = model.get("d_model", 0), model.get("num_heads", 0)
    return d_model // num_heads if num_heads and d_model % num_heads == 0 else 0


class Model(Section):
    """A Transformer; a causal language model is its decoder, a masked one its encoder."""

    architecture: Literal["encoder-decoder", "decoder-only"] = "encoder-decoder"
    """A translator's network: encoder and decoder, as in the paper; or decoder-only, a decoder that
    reads source and target as one text, each closed by `</s>`, and learns the target. It needs one
    vocabulary, and its learned positions count both sides. Language models have one stack anyway.
    """
    num_encoder_layers: Layers = 6
    """Encoder layers, the paper's N."""
    num_decoder_layers: Layers = 6
    """Decoder layers; may differ from the number of encoder layers."""
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
    """Restricted self-attention (paper, section 4): each position attends to this many neighbours
    on either side, in the decoder on the left only; default: all. Attention to the source isn't
    restricted."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation: `post`, after each residual sum, as in the paper; `pre`, before each
    sub-layer, and once more after the last layer."""
    activation: Activation = "relu"
    """Feed-forward non-linearity; `gelu_tanh` is GELU's tanh approximation, `silu` is Marian's
    swish; `swiglu` (arXiv 2002.05202) adds a third, gating matrix."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Position encoding: sinusoids or learned vectors, added to embeddings (paper, section 3.5); or
    `rotary` (arXiv 2104.09864), which turns the queries and keys of self-attention."""
    max_positions: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """Number of learned positions, and so the maximum input and output length; the other kinds have
    no limit."""
    sinusoids: Sinusoids = "interleaved"
    """Order of the dimensions of a sinusoidal position: sines and cosines interleaved, as in the
    paper; sines in the first half, as in Marian; the same with tensor2tensor's wavelengths, as in
    fairseq."""
    first_position: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Index of a sentence's first sinusoidal position; 2 in fairseq."""
    tied_embeddings: Literal["three-way", "decoder", "none"] = "three-way"
    """Which embeddings share one matrix: source, target and output; target and output; none."""
    scale_embeddings: bool = True
    """Multiply token embeddings by sqrt(d_model) (paper, section 3.4)."""
    embedding_norm: bool = False
    """Layer normalisation of embeddings plus positions; not in the paper."""
    output_bias: bool = False
    """A trained bias for each target piece, added to its logit; not in the paper. A masked
    language model always has one."""
    initial_std: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Standard deviation of the normal distribution of all initial weights; 0.02 in GPT and BERT.
    Absent: embeddings normal with variance 1 / d_model, matrices Glorot-uniform, as in the paper's
    code."""
    norm_epsilon: Annotated[float, Field(gt=0.0, le=0.1)] = 1e-5
    """Added to the variance in layer normalisation; 1e-12 in BERT."""
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
                f"d_model = {self.d_model} is not a multiple of num_heads = {self.num_heads}: "
                "change one of them, or give d_key and d_value"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, found {self.d_model}")
        if self.positions == "rotary" and self.d_key % 2:
            raise ValueError(f"rotary positions need an even d_key, found {self.d_key}")
        if self.positions != "sinusoidal" and self.first_position:
            raise ValueError("first_position is for sinusoidal positions: others start at 0")
        return self

    @property
    def max_tokens(self) -> int | None:
        """Longest source, or output, that learned positions reach; None where they have no end."""
        if self.positions != "learned":
            return None
        # Both sides stand in one text.
        sides = 2 if self.architecture == "decoder-only" else 1
        return self.max_positions // sides
