"""The arithmetic that a network computes in."""

from typing import Literal

Precision = Literal["fp32", "bf16"]
"""32-bit floating point, or bfloat16 with sums in 32-bit."""
TrainingPrecision = Literal["fp32", "bf16", "fp16"]
"""Or 16-bit floating point with a scaled loss, for training only."""
TrainingPrecisionChoice = Literal["auto", "fp32", "bf16", "fp16"]
"""Values of a key for training; `auto` is resolved by the device."""
InferencePrecision = Literal["fp32", "bf16", "int8"]
"""Or 8-bit integers with sums in 32-bit, for inference only."""
InferencePrecisionChoice = Literal["auto", "fp32", "bf16", "int8"]
"""Values of a key for inference."""
MIN_WIDTH_IN_BFLOAT16 = 256
"""With narrower matrices, a decoding step on a CPU is no faster in bf16 (docs/log.md)."""
