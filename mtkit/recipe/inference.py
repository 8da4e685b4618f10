"""The `inference` section: how a trained model translates."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from mtkit.recipe.section import Section


class LengthPenalty(Section):
    """What a hypothesis's log-probability is divided by; |y| counts its tokens with `</s>`."""

    kind: Literal["gnmt", "power"] = "gnmt"
    """`gnmt`: ((5 + |y|) / 6)^alpha (arXiv 1609.08144, equation 14); `power`: |y|^alpha."""
    alpha: Annotated[float, Field(ge=0.0)] = 0.6
    """Strength; 0 compares plain log-probabilities, which favours short output."""


class Inference(Section):
    """Decoding defaults; they travel with the model (paper, section 6.1)."""

    beam_size: PositiveInt = 4
    """Hypotheses kept per sentence; 1 is greedy search."""
    length_penalty: LengthPenalty = LengthPenalty()
    """How hypotheses of different lengths are compared."""
    max_extra_tokens: NonNegativeInt = 50
    """Greatest output length: that of the source in tokens, plus this many."""
    batch_tokens: PositiveInt = 2_048
    """Source tokens with padding translated together; speed and memory alone depend on it."""
