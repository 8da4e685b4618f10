"""The `data.cleaning` section as a recipe and its overrides write it."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import dump_recipe, load_recipe
from mtkit.recipe.cleaning import Cleaning, Filter

RECIPE = """\
name = "cleaned"
[data]
source_language = "en"
target_language = "sr"
[[data.train]]
source = "train.en"
target = "train.sr"
[data.dev]
source = "dev.en"
target = "dev.sr"
[data.cleaning.script]
target = ["Cyrl", "Latn"]
[data.cleaning.duplicates]
by = "either"
"""


@pytest.fixture
def recipe_file(tmp_path: Path) -> str:
    path = tmp_path / "mtkit.toml"
    path.write_text(RECIPE)
    return str(path)


def test_a_filter_is_turned_off_and_tuned_by_its_key(recipe_file: str, tmp_path: Path) -> None:
    overrides = (
        "data.cleaning.numbers.enabled=false",
        "data.cleaning.language.enabled=true",
        "data.cleaning.length_ratio.max_ratio=3",
        'data.cleaning.encoding.invalid_utf8="drop"',
    )
    recipe = load_recipe(recipe_file, overrides)
    cleaning = recipe.data.cleaning
    assert not cleaning.numbers.enabled
    assert cleaning.language.enabled
    assert cleaning.length_ratio.max_ratio == 3.0
    assert cleaning.encoding.invalid_utf8 == "drop"
    assert cleaning.script.target == ("Cyrl", "Latn")
    assert cleaning.duplicates.by == "either"
    (tmp_path / "again.toml").write_text(dump_recipe(recipe))
    assert load_recipe(str(tmp_path / "again.toml")).data.cleaning == cleaning


def test_all_filters_but_language_identification_are_on_by_default() -> None:
    filters = {name: value for name, value in Cleaning() if isinstance(value, Filter)}
    assert [name for name, value in filters.items() if not value.enabled] == ["language"]
    assert len(filters) == 12


def test_an_unknown_filter(recipe_file: str) -> None:
    with pytest.raises(MtkitError, match="did you mean 'length_ratio'"):
        load_recipe(recipe_file, ("data.cleaning.length_ration.max_ratio=3",))
    with pytest.raises(MtkitError, match=r"data\.cleaning\.duplicates\.by: expected"):
        load_recipe(recipe_file, ('data.cleaning.duplicates.by="line"',))
