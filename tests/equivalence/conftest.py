"""Peers that other libraries build from our weights."""

from collections.abc import Callable

import pytest

from .marian import build_marian_twin


@pytest.fixture
def marian_twin() -> Callable:
    """A function that returns the `MarianMTModel` of a post-norm, three-way tied `EncoderDecoder`.

    `marian_twin(model, pad_id=..., eos_id=...)`; see `build_marian_twin`.
    """
    return build_marian_twin
