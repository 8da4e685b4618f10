"""Who translates with a model folder."""

from pathlib import Path

from mtkit.engine.library import choose_library
from mtkit.inference.identity import identify
from mtkit.recipe.inference import Inference


def test_nothing_is_automatic_in_an_identity(folder: Path) -> None:
    found = identify(folder, Inference(), "cpu")
    engine = "torch" if choose_library() is None else "native"
    assert (found.engine, found.device) == (engine, "cpu")
    assert found.precision in {"fp32", "bf16"}
    assert identify(folder, Inference(engine="torch"), "cpu").engine == "torch"
    other = identify(folder, Inference(precision="int8"), "cpu")
    assert (other.model, other.precision) == (found.model, "int8")
