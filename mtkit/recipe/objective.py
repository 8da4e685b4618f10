"""What a network learns, by name."""

from typing import Literal

Objective = Literal["translation", "causal-lm", "masked-lm", "denoising", "classification"]
LANGUAGE_MODELS: tuple[Objective, ...] = ("causal-lm", "masked-lm", "denoising")
"""Objectives that learn from text in one language."""
ENCODER_DECODERS: tuple[Objective, ...] = ("translation", "denoising")
"""Objectives of networks with an encoder and a decoder."""

ClassifierKind = Literal["masked-lm", "causal-lm"]
"""Objectives of what a classifier is made of."""
MAX_LABELS = 1_000
"""Maximum labels of a classifier; more mean that the wrong column was named."""
