"""The configs of transformers' GPT and BERT, and what they say of a network here.

Defaults are those of `OpenAIGPTConfig` and `BertConfig`, whose files leave them out.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from mtkit.errors import MtkitError
from mtkit.model.config import ModelConfig
from mtkit.recipe.model import Activation, Model
from mtkit.recipe.objective import ENCODER_DECODERS
from mtkit.text.token_ids import BOS, EOS, PAD

_GPT_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu_tanh", "silu": "silu"}
"""`model.activation` by `afn`, whose GELU is the approximation by tanh."""
_BERT_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
}
"""`model.activation` by `hidden_act`."""


class MtkitKeys(BaseModel):
    """What a config says for mtkit alone; transformers keeps it as it is."""

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

    @model_validator(mode="after")
    def _numbers_special_tokens_as_we_do(self) -> Self:
        for key, token in (("pad", PAD), ("bos", BOS), ("eos", EOS)):
            found = getattr(self, f"{key}_token_id")
            if found not in (None, token):
                raise ValueError(f"{key}_token_id = {found}, but mtkit's is {token}")
        return self


class GptConfig(_TransformersConfig):
    """`OpenAIGPTConfig`'s keys."""

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

    @classmethod
    def of(cls, config: ModelConfig) -> "GptConfig":
        """Returns the config of a network that `check_transformers` lets pass."""
        model = config.model
        return cls.model_validate(
            {
                "vocab_size": config.target_vocab_size,
                "n_positions": model.max_positions,
                "n_embd": model.d_model,
                "n_layer": model.num_decoder_layers,
                "n_head": model.num_heads,
                "afn": _find_key(_GPT_ACTIVATIONS, model.activation),
                "resid_pdrop": model.dropout,
                "embd_pdrop": model.dropout,
                "attn_pdrop": model.attention_dropout,
                "layer_norm_epsilon": model.norm_epsilon,
                **_describe_start(model),
            }
        )

    def to_model(self) -> Model:
        """Returns the network's section of a recipe; it has one rate for all of dropout."""
        return Model(
            num_decoder_layers=self.n_layer,
            d_model=self.n_embd,
            d_ff=4 * self.n_embd,
            num_heads=self.n_head,
            activation=_GPT_ACTIVATIONS[self.afn],
            positions="learned",
            max_positions=self.n_positions,
            scale_embeddings=False,
            initial_std=self.initializer_range,
            norm_epsilon=self.layer_norm_epsilon,
            dropout=self.resid_pdrop,
            attention_dropout=self.attn_pdrop,
        )


class BertConfig(_TransformersConfig):
    """`BertConfig`'s keys."""

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

    @classmethod
    def of(cls, config: ModelConfig) -> "BertConfig":
        """Returns the config of a network that `check_transformers` lets pass."""
        model = config.model
        return cls.model_validate(
            {
                "vocab_size": config.target_vocab_size,
                "max_position_embeddings": model.max_positions,
                "hidden_size": model.d_model,
                "num_hidden_layers": model.num_encoder_layers,
                "num_attention_heads": model.num_heads,
                "intermediate_size": model.d_ff,
                "hidden_act": _find_key(_BERT_ACTIVATIONS, model.activation),
                "hidden_dropout_prob": model.dropout,
                "attention_probs_dropout_prob": model.attention_dropout,
                "layer_norm_eps": model.norm_epsilon,
                **_describe_start(model),
            }
        )

    def to_model(self) -> Model:
        """Returns the network's section of a recipe."""
        return Model(
            num_encoder_layers=self.num_hidden_layers,
            d_model=self.hidden_size,
            d_ff=self.intermediate_size,
            num_heads=self.num_attention_heads,
            activation=_BERT_ACTIVATIONS[self.hidden_act],
            positions="learned",
            max_positions=self.max_position_embeddings,
            scale_embeddings=False,
            embedding_norm=True,
            initial_std=self.initializer_range,
            norm_epsilon=self.layer_norm_eps,
            dropout=self.hidden_dropout_prob,
            attention_dropout=self.attention_probs_dropout_prob,
        )


def describe(config: ModelConfig) -> GptConfig | BertConfig:
    """Returns the config that transformers' class has for a language model.

    Raises:
        MtkitError: It has no such network.
    """
    check_transformers(config)
    return GptConfig.of(config) if config.objective == "causal-lm" else BertConfig.of(config)


def check_transformers(config: ModelConfig) -> None:
    """Checks that transformers has a class for a model's network.

    Raises:
        MtkitError: It hasn't, or this isn't a language model.
    """
    if config.objective in ENCODER_DECODERS:
        raise MtkitError(
            f"{config.recipe} has an encoder and a decoder, transformers' GPT and BERT only one of "
            "the two"
        )
    if config.objective == "classification":
        raise MtkitError(
            f"{config.recipe} is a classifier: transformers' GPT and BERT are language models"
        )
    faults = list(_list_misfits(config))
    if faults:
        kind = "GPT" if config.objective == "causal-lm" else "BERT"
        raise MtkitError(
            f"{config.recipe}: transformers' {kind} has no such network: " + "; ".join(faults)
        )


def _list_misfits(config: ModelConfig) -> Iterator[str]:
    """Yields what a network has otherwise than transformers' class."""
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
    """Returns a recipe key's value as TOML has it."""
    if value is None:
        return "none"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _describe_start(model: Model) -> dict[str, float]:
    return {} if model.initial_std is None else {"initializer_range": model.initial_std}


def _find_key(names: Mapping[str, Activation], activation: Activation) -> str:
    return next(name for name, ours in names.items() if ours == activation)
