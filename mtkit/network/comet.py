"""COMET's networks: sentence scores from the layers of an XLM-R encoder.

Rei et al. 2020, aclanthology.org/2020.emnlp-main.213; CometKiwi: Rei et al. 2022,
aclanthology.org/2022.wmt-1.60. The encoder is transformers' own class.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from mtkit.programs import import_extra
from mtkit.recipe.section import Section

Segment = Literal["mt", "src", "ref"]
"""Translation, source, reference."""
Activation = Literal["Tanh", "Sigmoid"]
_Size = Annotated[int, Field(ge=1, le=1 << 20)]
_NUM_PARTS = {"regression": 6, "referenceless": 4, "unified": 1}
"""Sentence vectors that the estimator reads side by side."""


class EncoderConfig(Section):
    """An encoder, by the keys of transformers' config.json."""

    model_type: Literal["xlm-roberta", "xlm-roberta-xl"]
    """XLM-R's or InfoXLM's network, or XLM-R XL's, which is pre-norm."""
    vocab_size: Annotated[int, Field(ge=5, le=2_000_000)]
    """Rows of the embedding."""
    hidden_size: _Size
    """Width."""
    num_hidden_layers: Annotated[int, Field(ge=1, le=200)]
    """Layers, without the embedding."""
    num_attention_heads: _Size
    """Heads of each layer."""
    intermediate_size: _Size
    """Width of the feed-forward networks."""
    hidden_act: Literal["gelu"] = "gelu"
    """Their activation."""
    max_position_embeddings: Annotated[int, Field(ge=16, le=1 << 20)]
    """Positions, of which the first two aren't used."""
    type_vocab_size: _Size = 1
    """Kinds of segments, of which only the first is used."""
    layer_norm_eps: Annotated[float, Field(gt=0.0, lt=1.0)] = 1e-5
    """Added to variances."""
    pad_token_id: Literal[1] = 1
    """Padding."""
    position_embedding_type: Literal["absolute"] = "absolute"
    """Learned positions."""


class CometConfig(Section):
    """A learned metric, except its weights and tokenizer."""

    format_version: Literal[1] = 1
    """Version of the folder's layout."""
    name: str
    """The published model's name."""
    metric: Literal["regression", "referenceless", "unified"]
    """How texts are read: each alone, with or without the reference, or joined."""
    encoder: EncoderConfig
    """The encoder."""
    layer: Literal["mix"] | Annotated[int, Field(ge=0)] = "mix"
    """The layer that is read; 0 is the embedding, `mix` a weighted mean of all."""
    layer_transformation: Literal["softmax", "sparsemax"]
    """How the weights of layers are normalised."""
    layer_norm: bool
    """Whether each layer is normalised, over all words of a text, before they are mixed."""
    pool: Literal["avg", "max", "cls"] = "avg"
    """How a text's words become one vector."""
    hidden_sizes: Annotated[tuple[_Size, ...], Field(min_length=1, max_length=100)]
    """Widths of the estimator's inner layers."""
    activations: Activation = "Tanh"
    """Their activation."""
    final_activation: Activation | None = None
    """That of the score."""
    input_segments: tuple[Segment, ...] = ("mt", "src", "ref")
    """The texts that a `unified` metric joins."""

    @model_validator(mode="after")
    def _check(self) -> "CometConfig":
        encoder = self.encoder
        if encoder.hidden_size % encoder.num_attention_heads:
            raise ValueError("hidden_size isn't a multiple of num_attention_heads")
        if self.layer != "mix" and self.layer > encoder.num_hidden_layers:
            raise ValueError(f"layer = {self.layer}, but there are {encoder.num_hidden_layers}")
        if self.metric == "unified" and set(self.input_segments) <= {"mt"}:
            raise ValueError("input_segments: expected mt and src, ref or both")
        return self

    @property
    def inputs(self) -> list[list[Segment]]:
        """The texts of each sequence that the encoder reads."""
        if self.metric != "unified":
            alone: list[list[Segment]] = [["mt"], ["src"], ["ref"]]
            return alone[: 3 if self.metric == "regression" else 2]
        others: list[Segment] = [name for name in ("src", "ref") if name in self.input_segments]
        joined: list[list[Segment]] = [["mt", name] for name in others]
        # With both, a score is the mean of three (UniTE, aclanthology.org/2022.acl-long.558).
        return joined if len(others) == 1 else [*joined, ["mt", *others]]

    @property
    def segments(self) -> set[str]:
        """The texts that a score depends on."""
        return {segment for texts in self.inputs for segment in texts}


class LayerMix(nn.Module):
    """A weighted mean of layers, with learned weights."""

    def __init__(self, config: CometConfig) -> None:
        super().__init__()
        self.config = config
        layers = range(config.encoder.num_hidden_layers + 1)
        self.scalar_parameters = nn.ParameterList([torch.zeros(1) for _ in layers])
        self.gamma = nn.Parameter(torch.ones(1))

    def forward(
        self, layers: Sequence[Float[Tensor, "b l d"]], mask: Bool[Tensor, "b l"]
    ) -> Float[Tensor, "b l d"]:
        """Returns the mean in fp32."""
        logits = torch.cat(list(self.scalar_parameters))
        is_soft = self.config.layer_transformation == "softmax"
        weights = logits.softmax(dim=0) if is_soft else sparsemax(logits)
        mixed = torch.zeros_like(layers[0], dtype=torch.float32)
        for weight, layer in zip(weights, layers, strict=True):
            states = layer.float()
            mixed += weight * (_normalize(states, mask) if self.config.layer_norm else states)
        return self.gamma * mixed


def sparsemax(logits: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Returns the Euclidean projection onto the simplex (Martins and Astudillo 2016, alg. 1)."""
    ordered = logits.sort(descending=True).values
    sums = ordered.cumsum(dim=0) - 1.0
    counts = torch.arange(1, len(logits) + 1, device=logits.device)
    size = int((counts * ordered > sums).sum())
    return (logits - sums[size - 1] / size).clamp(min=0.0)


def _normalize(states: Float[Tensor, "b l d"], mask: Bool[Tensor, "b l"]) -> Float[Tensor, "b l d"]:
    """Returns states with mean 0 and variance 1 over all words and features of each text."""
    kept = mask[..., None].float()
    count = kept.sum(dim=(1, 2), keepdim=True) * states.shape[-1]
    mean = (states * kept).sum(dim=(1, 2), keepdim=True) / count
    variance = (((states - mean) * kept) ** 2).sum(dim=(1, 2), keepdim=True) / count
    return (states - mean) / torch.sqrt(variance + 1e-12)


class CometNetwork(nn.Module):
    """An encoder, a mix of its layers, and an estimator; weights have unbabel-comet's names."""

    def __init__(self, config: CometConfig) -> None:
        super().__init__()
        transformers = import_extra("transformers", "COMET needs transformers", "transformers")
        name = "XLMRoberta" + ("XL" if config.encoder.model_type.endswith("xl") else "")
        theirs = getattr(transformers, f"{name}Config")(**config.encoder.model_dump())
        self.config = config
        encoder = getattr(transformers, f"{name}Model")(theirs, add_pooling_layer=False)
        self.encoder = nn.ModuleDict({"model": encoder})
        self.layerwise_attention = LayerMix(config) if config.layer == "mix" else None
        sizes = [_NUM_PARTS[config.metric] * config.encoder.hidden_size, *config.hidden_sizes]
        layers: list[nn.Module] = []
        for num_inputs, num_outputs in pairwise(sizes):
            activation = getattr(nn, config.activations)()
            # In the checkpoint's numbering of layers, dropout is one.
            layers += [nn.Linear(num_inputs, num_outputs), activation, nn.Identity()]
        layers.append(nn.Linear(sizes[-1], 1))
        if config.final_activation is not None:
            layers.append(getattr(nn, config.final_activation)())
        self.estimator = nn.ModuleDict({"ff": nn.Sequential(*layers)})

    def embed(self, ids: Int[Tensor, "b l"], mask: Bool[Tensor, "b l"]) -> Float[Tensor, "b d"]:
        """Returns the vector of each sequence of tokens, in fp32."""
        encode = self.encoder["model"]
        found = encode(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
        states: Tensor
        if self.layerwise_attention is not None:
            states = self.layerwise_attention(found.hidden_states, mask)
        else:
            states = found.hidden_states[self.config.layer].float()
        if self.config.metric == "unified" or self.config.pool == "cls":
            return states[:, 0]
        # A text may spell out a padding token: it counts, but as zeros.
        hidden = (ids == self.config.encoder.pad_token_id)[..., None]
        if self.config.pool == "max":
            return states.masked_fill(hidden, -torch.inf).amax(dim=1)
        return states.masked_fill(hidden, 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True)

    def estimate(self, vectors: Float[Tensor, "inputs n d"]) -> Float[Tensor, " n"]:
        """Returns scores from the vectors of `config.inputs`."""
        if self.config.metric == "unified":
            return self._estimate(vectors).mean(dim=0)
        translation, source, *references = vectors.unbind()
        of_source = [translation * source, (translation - source).abs()]
        if references:
            (reference,) = references
            of_reference = [translation * reference, (translation - reference).abs()]
            parts = [translation, reference, *of_reference, *of_source]
        else:
            parts = [translation, source, *of_source]
        return self._estimate(torch.cat(parts, dim=-1))

    def _estimate(self, features: Float[Tensor, "... d"]) -> Float[Tensor, "..."]:
        scores: Tensor = self.estimator["ff"](features)
        return scores.squeeze(-1)


def list_comet_shapes(config: CometConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each weight of a metric's network, by name; allocates nothing."""
    with torch.device("meta"):
        weights = CometNetwork(config).state_dict()
    return {name: tuple(weight.shape) for name, weight in weights.items()}
