"""SentencePiece's normalisation of Unicode, without a model's pieces."""

import re
from collections.abc import Callable, Iterable, Sequence

import sentencepiece

from mtkit.programs import import_extra
from mtkit.text.languages import find_main_code

_TOUCHED = re.compile(r"[\r()`´„“”–—‘’‚…«»\u00a0\"]| [ :;%]|''|^\s|\s$")
"""Characters that a rule may change. Other lines skip thirty substitutions, which take 50
microseconds."""
RULES = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
"""SentencePiece's built-in rules: NFKC with small additions, or none."""
Normalization = str | bytes
"""The name of one of `RULES`, or a serialised model with its own rule."""


def punctuation_normalizer(language: str) -> Callable[[Sequence[str]], list[str]]:
    """Returns a function that normalises quotes, dashes and spaces in lines of one language."""
    # The rules are those of Moses' normalize-punctuation.perl; some depend on the language.
    fault = 'tokenizer.punctuation = "moses" needs the package sacremoses'
    sacremoses = import_extra("sacremoses", fault, "punctuation")
    normalize = sacremoses.MosesPunctNormalizer(lang=find_main_code(language)).normalize

    def normalize_lines(lines: Sequence[str]) -> list[str]:
        return [normalize(line) if _TOUCHED.search(line) else line for line in lines]

    return normalize_lines


class UnicodeNormalizer:
    """Normalises lines as a tokenizer does before it segments them."""

    def __init__(self, normalization: Normalization) -> None:
        if isinstance(normalization, bytes):
            self._normalizer = sentencepiece.SentencePieceNormalizer(model_proto=normalization)
        else:
            self._normalizer = sentencepiece.SentencePieceNormalizer(rule_name=normalization)

    def normalize(self, lines: Iterable[str]) -> list[str]:
        """Returns normalised lines; spaces are `▁`, and lone surrogates become U+FFFD."""
        valid = [line.encode("utf-8", "replace").decode() for line in lines]
        normalized: list[str] = self._normalizer.normalize(valid)
        return normalized


def read_normalization(model: bytes) -> Normalization:
    """Returns the rule of a model by its name, or as a model without pieces."""
    # Imported here: translating doesn't read it, and protobuf loads slowly.
    from mtkit.text.arrange_pieces import read_proto  # noqa: PLC0415

    proto = read_proto(model)
    if proto.normalizer_spec.name in RULES:
        return str(proto.normalizer_spec.name)
    return bytes(type(proto)(normalizer_spec=proto.normalizer_spec).SerializeToString())
