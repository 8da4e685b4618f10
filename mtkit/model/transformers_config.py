"""The configs of transformers' GPT and BERT, and the networks that they describe.

Defaults are those of `OpenAIGPTConfig` and `BertConfig`, whose files leave them out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from mtkit.errors import MtkitError
from mtkit.model.config import ModelConfig
from mtkit.recipe.model import Activation, Model
from mtkit.recipe.objective import ENCODER_DECODERS
from mtkit.text.token_ids import BOS, EOS, PAD

_GPT_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu_tanh", "silu": "silu"}
"""`model.activation` by `afn`, whose GELU is the tanh approximation."""
_BERT_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
}
"""`model.activation` by `hidden_act`."""


class MtkitKeys(BaseModel):
    """Keys of a config that only mtkit reads; transformers keeps them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    recipe: str
    language: str
    punctuation: tuple[str, str] | None = None


class _TransformersConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    vocab_size: int
    initializer_range: float = 0.02
    tie_word_embeddings: Literal[True] = True
    is_decoder: bool = False
    pad_token_id: int | None = PAD
    bos_token_id: int | None = BOS
    eos_token_id: int | None = EOS
    mtkit: MtkitKeys | None = None

    our_keys: ClassVar[Mapping[str, str]]
    """mtkit's keys by transformers', without the activation; if two map to one, the last is
    read."""
    activation_key: ClassVar[str]
    activations: ClassVar[Mapping[str, Activation]]

    @classmethod
    def of(cls, config: ModelConfig) -> Self:
        """Returns the config of a network that passes `check_transformers`."""
        model = config.model
        found = {theirs: getattr(model, ours) for theirs, ours in cls.our_keys.items()}
        found["vocab_size"] = config.target_vocab_size
        names = cls.activations.items()
        found[cls.activation_key] = next(name for name, ours in names if ours == model.activation)
        if model.initial_std is not None:
            found["initializer_range"] = model.initial_std
        return cls.model_validate(found)

    def to_model(self) -> Model:
        """Returns the network's section of a recipe."""
        return Model(
            **{ours: getattr(self, theirs) for theirs, ours in self.our_keys.items()},
            activation=self.activations[getattr(self, self.activation_key)],
            positions="learned",
            scale_embeddings=False,
            initial_std=self.initializer_range,
            **self._describe_kind(),
        )

    def _describe_kind(self) -> Mapping[str, Any]:
        raise NotImplementedError

    @model_validator(mode="after")
    def _check_special_tokens(self) -> Self:
        for key, token in (("pad", PAD), ("bos", BOS), ("eos", EOS)):
            found = getattr(self, f"{key}_token_id")
            if found not in (None, token):
                raise ValueError(f"{key}_token_id = {found}, but mtkit's is {token}")
        return self


class GptConfig(_TransformersConfig):
    """The keys of `OpenAIGPTConfig`."""

    model_type: Literal["openai-gpt"] = "openai-gpt"
    vocab_size: int = 40_478
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    afn: Literal["relu", "gelu", "silu"] = "gelu"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5

    our_keys = {
        "n_positions": "max_positions",
        "n_embd": "d_model",
        "n_layer": "num_decoder_layers",
        "n_head": "num_heads",
        "embd_pdrop": "dropout",
        "resid_pdrop": "dropout",
        "attn_pdrop": "attention_dropout",
        "layer_norm_epsilon": "norm_epsilon",
    }
    activation_key = "afn"
    activations = _GPT_ACTIVATIONS

    def _describe_kind(self) -> Mapping[str, Any]:
        return {"d_ff": 4 * self.n_embd}


class BertConfig(_TransformersConfig):
    """The keys of `BertConfig`."""

    model_type: Literal["bert"] = "bert"
    vocab_size: int = 30_522
    max_position_embeddings: int = 512
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: Literal["relu", "gelu", "gelu_new", "silu"] = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    layer_norm_eps: float = 1e-12
    type_vocab_size: Literal[2] = 2
    is_decoder: Literal[False] = False

    our_keys = {
        "max_position_embeddings": "max_positions",
        "hidden_size": "d_model",
        "num_hidden_layers": "num_encoder_layers",
        "num_attention_heads": "num_heads",
        "intermediate_size": "d_ff",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "layer_norm_eps": "norm_epsilon",
    }
    activation_key = "hidden_act"
    activations = _BERT_ACTIVATIONS

    def _describe_kind(self) -> Mapping[str, Any]:
        return {"embedding_norm": True}


def describe_language_model(config: ModelConfig) -> GptConfig | BertConfig:
    """Returns the config of a language model for transformers' class."""
    check_transformers(config)
    return GptConfig.of(config) if config.objective == "causal-lm" else BertConfig.of(config)


def check_transformers(config: ModelConfig) -> None:
    """Checks that transformers has a class for a language model's network."""
    if config.objective in ENCODER_DECODERS:
        raise MtkitError(
            f"{config.recipe} has an encoder and a decoder, but transformers' GPT and BERT only "
            "have one of the two"
        )
    if config.objective == "classification":
        raise MtkitError(
            f"{config.recipe} is a classifier: transformers' GPT and BERT are language models"
        )
    faults = list(_list_misfits(config))
    if faults:
        kind = "GPT" if config.objective == "causal-lm" else "BERT"
        raise MtkitError(
            f"{config.recipe}: transformers' {kind} doesn't support this network: "
            + "; ".join(faults)
        )


def _list_misfits(config: ModelConfig) -> Iterator[str]:
    """Yields the differences of a network from transformers' class."""
    model, is_gpt = config.model, config.objective == "causal-lm"
    activations = (_GPT_ACTIVATIONS if is_gpt else _BERT_ACTIVATIONS).values()
    wanted: dict[str, object] = {
        "norm": "post",
        "positions": "learned",
        "scale_embeddings": False,
        "embedding_norm": not is_gpt,
        "attention_window": None,
        "activation_dropout": 0.0,
        "d_key": model.d_model // model.num_heads,
        "d_value": model.d_model // model.num_heads,
    }
    if is_gpt:
        wanted |= {"output_bias": False, "d_ff": 4 * model.d_model}
    for key, value in wanted.items():
        found = getattr(model, key)
        if found != value:
            yield f"model.{key} = {_spell(found)}, expected {_spell(value)}"
    if model.tied_embeddings == "none":
        yield 'model.tied_embeddings = "none", expected one matrix'
    if model.activation not in activations:
        yield f'model.activation = "{model.activation}", expected {" or ".join(activations)}'


def _spell(value: object) -> str:
    """Returns a recipe key's value in TOML."""
    if value is None:
        return "none"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
