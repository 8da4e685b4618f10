"""SentencePiece's normalisation of Unicode, without a model's pieces."""

from collections.abc import Iterable

import sentencepiece

# protobuf makes the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

RULES = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
"""Rules that come with SentencePiece: NFKC with small additions, or none."""

Normalization = str | bytes
"""The name of one of `RULES`, or a serialised model that has a rule of its own."""


class UnicodeNormalizer:
    """Normalises lines as a tokenizer does before it cuts them.

    Args:
        normalization: A rule or a model.
    """

    def __init__(self, normalization: Normalization) -> None:
        if isinstance(normalization, bytes):
            self._normalizer = sentencepiece.SentencePieceNormalizer(model_proto=normalization)
        else:
            self._normalizer = sentencepiece.SentencePieceNormalizer(rule_name=normalization)

    def normalize(self, lines: Iterable[str]) -> list[str]:
        """Returns lines normalised; spaces are `▁`, and U+FFFD stands for lone surrogates."""
        valid = [line.encode("utf-8", "replace").decode() for line in lines]
        normalized: list[str] = self._normalizer.normalize(valid)
        return normalized


def read_normalization(model: bytes) -> Normalization:
    """Returns the rule of a model by its name, or as a model without pieces."""
    proto = ModelProto()
    proto.ParseFromString(model)
    if proto.normalizer_spec.name in RULES:
        return str(proto.normalizer_spec.name)
    return bytes(ModelProto(normalizer_spec=proto.normalizer_spec).SerializeToString())
