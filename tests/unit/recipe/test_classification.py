"""What a recipe of a classifier must have, in words."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe

TINY = Path(__file__).parents[2] / "tiny-classification.toml"


def test_the_tiny_recipe_is_one() -> None:
    recipe = load_recipe(str(TINY), ())
    assert recipe.classification.kind == "masked-lm"
    assert recipe.classification.auxiliary == 0.5
    assert not recipe.data.has_pairs_of_texts


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("training.validation.metric=bleu", 'needs "accuracy", "macro_f1" or "loss"'),
        ("data.dev.second_column=other", "second_column must be given for each"),
        ("objective=masked-lm", "`label_column` and `planted_faults` are for"),
        ("data.dev.label_column=text", "must differ"),
        ("training.masking.share=0.2", "training.masking is for"),
        ("training.classification.kind=bert", "masked-lm"),
    ],
)
def test_faults(override: str, fault: str) -> None:
    with pytest.raises(MtkitError, match=fault):
        load_recipe(str(TINY), (override,))


def test_accuracy_is_for_classifiers() -> None:
    tiny = str(TINY.with_name("tiny.toml"))
    with pytest.raises(MtkitError, match="is for classification"):
        load_recipe(tiny, ("training.validation.metric=accuracy",))
    with pytest.raises(MtkitError, match="is for objective"):
        load_recipe(tiny, ("training.classification.kind=causal-lm",))
