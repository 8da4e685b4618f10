"""Stages of a training: weights by hand, and recipes that make no sense."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, dump_recipe, load_recipe

RECIPE = """
name = "staged"
[data]
source_language = "en"
target_language = "de"
train = [
    { path = "real.tsv" },
    { path = "mono.tsv", name = "back-translated", weight = 0.5 },
    { path = "old.tsv.gz", weight = 2.0 },
]
dev = { path = "dev.tsv" }
[training]
max_steps = 100
"""


def load(tmp_path: Path, stages: str, *changes: str) -> Recipe:
    path = tmp_path / "mtkit.toml"
    path.write_text(RECIPE + stages, "utf-8")
    return load_recipe(path, changes)


def test_weights_of_each_stage_by_hand(tmp_path: Path) -> None:
    text = """
[[training.stages]]
steps = 30
weights = { back-translated = 1, real = 0.0 }
[[training.stages]]
steps = 20
weights = {}
[[training.stages]]
weights = { back-translated = 0, old = 0.25 }
"""
    recipe = load(tmp_path, text)
    stages = [(each.first, each.count, each.weights) for each in recipe.stages]
    # In the order of data.train; what isn't named keeps its weight.
    assert stages == [(0, 30, (0, 1, 2)), (30, 20, (1, 0.5, 2)), (50, None, (1, 0, 0.25))]
    # As a training writes it down, it is the same.
    path = tmp_path / "written.toml"
    path.write_text(dump_recipe(recipe), "utf-8")
    assert load_recipe(path).training.stages == recipe.training.stages


def test_behind_a_last_stage_with_an_end_the_corpora_have_their_own_weights(tmp_path: Path) -> None:
    recipe = load(tmp_path, "[[training.stages]]\nsteps = 100\nweights = { real = 3 }\n")
    stages = [(each.first, each.count, each.weights) for each in recipe.stages]
    assert stages == [(0, 100, (3, 0.5, 2)), (100, None, (1, 0.5, 2))]
    assert [each.weights for each in load(tmp_path, "").stages] == [(1, 0.5, 2)]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("{weights={reel=1}}", "no corpus 'reel' .did you mean 'real'.*real, back-translated, old"),
        ("{weights={real=0, back-translated=0, old=0}}", "0.weights: every corpus has weight 0"),
        ("{weights={}}, {weights={}}", "0.steps is missing"),
        ("{steps=60, weights={}}, {steps=41, weights={}}", "1 lasts to step 101.*= 100"),
        ("{steps=100, weights={}}, {weights={}}", "1 lasts to step 101 or longer"),
        ("{steps=0, weights={}}", "steps: .*greater than 0"),
        ("{weights={real=-1}}", "weights.real: .*greater than or equal to 0"),
        ("{weights={real=1e-6}}", "weights.real: expected 0, or a weight of at least 0.001, found"),
        ("{weights={real='x'}}", "weights.real: expected a number"),
        ("{weights=[]}", "weights: expected a section"),
        ("{}", "0.weights: this key is missing"),
        ("{steps=1, weight={}}", "unknown key 'weight' .did you mean 'weights'"),
        ("", "expected 1 or more entries"),
    ],
)
def test_stages_that_make_no_sense(tmp_path: Path, stages: str, message: str) -> None:
    with pytest.raises(MtkitError, match=f"(?s)training.stages.*{message}"):
        load(tmp_path, "", f"training.stages=[{stages}]")


def test_short_blocks_come_first_by_themselves() -> None:
    recipe = Path(__file__).parents[2] / "tiny-masked.toml"
    stages = "training.stages=[{weights={train=2}}]"
    with pytest.raises(MtkitError, match="short_tokens both say"):
        load_recipe(recipe, [stages])
    whole = load_recipe(recipe, [stages, "~training.masking"])
    assert [each.weights for each in whole.stages] == [(2,)]
