"""Recipes that R-Drop suits, and those that it doesn't."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe

TESTS = Path(__file__).parents[2]
ON = "training.r_drop={}"
NO_DROPOUT = ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0")


@pytest.mark.parametrize("recipe", ["tiny", "tiny-causal", "tiny-denoising"])
def test_the_paper_s_alpha_unless_given(recipe: str) -> None:
    path = str(TESTS / f"{recipe}.toml")
    assert load_recipe(path).training.r_drop is None
    # The paper's for translation.
    assert load_recipe(path, [ON]).training.r_drop.alpha == 5.0
    with pytest.raises(MtkitError, match="alpha"):
        load_recipe(path, ["training.r_drop.alpha=0"])


@pytest.mark.parametrize("recipe", ["tiny-masked", "tiny-classification"])
def test_objectives_that_are_refused(recipe: str) -> None:
    with pytest.raises(MtkitError, match='r_drop is for objective = "translation"'):
        load_recipe(str(TESTS / f"{recipe}.toml"), [ON])


def test_it_needs_dropout() -> None:
    path = str(TESTS / "tiny.toml")
    with pytest.raises(MtkitError, match="two passes with different dropout"):
        load_recipe(path, [ON, *NO_DROPOUT])
    for number, rate in enumerate(NO_DROPOUT):
        others = (*NO_DROPOUT[:number], *NO_DROPOUT[number + 1 :])
        assert load_recipe(path, [ON, *others, rate.replace("=0", "=0.1")]).training.r_drop
    lora = "training.lora={dropout=0.1}"
    start = "training.start_from={model='.'}"
    assert load_recipe(path, [ON, *NO_DROPOUT, start, lora]).training.r_drop
