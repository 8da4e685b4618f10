"""SentencePiece's normalisation of Unicode, without a model's pieces."""

import re
from collections.abc import Callable, Iterable, Sequence

import sentencepiece

# protobuf makes the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from mtkit.programs import import_extra

_TOUCHED = re.compile(r"[\r()`´„“”–—‘’‚…«»\u00a0\"]| [ :;%]|''|^\s|\s$")
"""What some rule looks for. A line without any of it stays as it is, and needn't go through thirty
substitutions, which take 50 microseconds."""
RULES = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
"""Rules that come with SentencePiece: NFKC with small additions, or none."""
Normalization = str | bytes
"""The name of one of `RULES`, or a serialised model that has a rule of its own."""


def punctuation_normalizer(language: str) -> Callable[[Sequence[str]], list[str]]:
    """Returns a function that normalises lines of one language: quotes, dashes, spaces.

    The rules are those of Moses' normalize-punctuation.perl, some of which depend on the language.

    Raises:
        MtkitError: sacremoses isn't installed.
    """
    fault = 'tokenizer.punctuation = "moses" needs the package sacremoses'
    sacremoses = import_extra("sacremoses", fault, "punctuation")
    normalize = sacremoses.MosesPunctNormalizer(
        lang=language.replace("_", "-").split("-")[0].lower()
    ).normalize

    def normalize_lines(lines: Sequence[str]) -> list[str]:
        return [normalize(line) if _TOUCHED.search(line) else line for line in lines]

    return normalize_lines


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
