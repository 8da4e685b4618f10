"""Who translates with a model folder."""

from pathlib import Path

from mtkit.inference.identity import identify
from mtkit.recipe.inference import Inference


def test_nothing_is_automatic_in_an_identity(folder: Path) -> None:
    found = identify(folder, Inference(), "cpu")
    assert (found.engine, found.device, found.precision) == ("torch", "cpu", "fp32")
    other = identify(folder, Inference(precision="bf16"), "cpu")
    assert (other.model, other.precision) == (found.model, "bf16")
