"""The networks of M2M100 and NLLB-200 by transformers' names."""

from typing import Any, Literal

from pydantic import Field

from mtkit.model.translator_config import TranslatorConfig
from mtkit.text.vocabulary import MAX_PIECES

FIRST_POSITION = 2
"""Index of a sentence's first sinusoid: fairseq's, one behind that of padding."""


class M2M100Config(TranslatorConfig):
    """`M2M100Config`'s keys that mtkit reads; the defaults are transformers'."""

    vocab_size: int = Field(128_112, ge=5, le=MAX_PIECES)
    activation_function: Literal["relu", "gelu", "gelu_new", "silu", "swish"] = "relu"
    attention_dropout: float = 0.1
    scale_embedding: bool = True
    tie_word_embeddings: Literal[True] = True
    pad_token_id: Literal[1] = 1
    eos_token_id: int = 2
    decoder_start_token_id: int = 2

    def _describe_kind(self) -> dict[str, Any]:
        return {
            "norm": "pre",
            "sinusoids": "tensor2tensor",
            "first_position": FIRST_POSITION,
            # It hides `<s>`, the decoder's first input, whose row is that of `</s>`.
            "output_bias": True,
        }
