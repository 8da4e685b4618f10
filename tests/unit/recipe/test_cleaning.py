"""The `data.cleaning` section as a recipe and its overrides write it."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import dump_recipe, load_recipe
from mtkit.recipe.cleaning import Cleaning, Filter, Selection

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


SELECTION = """
[data.cleaning.selection]
in_domain_source = "ours/model"
general_source = "general/model"
keep = 0.2
"""


def select(recipe_file: str, *overrides: str) -> Selection:
    path = Path(recipe_file)
    path.write_text(RECIPE + SELECTION)
    found = load_recipe(recipe_file, overrides).data.cleaning.selection
    assert found is not None
    return found


def test_models_of_a_selection_start_from_the_corpora(recipe_file: str, tmp_path: Path) -> None:
    found = select(recipe_file)
    ours, general = tmp_path / "ours/model", tmp_path / "general/model"
    assert found.models == {"source": (ours, general)}
    both = [f"data.cleaning.selection.{key}_target=/{key}" for key in ("in_domain", "general")]
    assert select(recipe_file, *both).models == {
        "source": (ours, general),
        "target": (Path("/in_domain"), Path("/general")),
    }


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (["max_difference=0.1"], "give either keep or max_difference"),
        (["~keep"], "give either keep or max_difference"),
        (["~general_source"], "general_source is missing: give both in_domain_source and"),
        (["in_domain_target=a"], "general_target is missing"),
        (["keep=0.0"], "greater than 0"),
        (["keep=1.5"], "less than or equal to 1"),
        (["in_domain=a", "general=b"], "pairs need in_domain_source and general_source"),
        (
            ["~in_domain_source", "~general_source", "in_domain=a", "general=b"],
            "pairs need in_domain_source and general_source",
        ),
        (["~in_domain_source", "~general_source"], "name two model folders"),
    ],
)
def test_a_selection_that_is_none(recipe_file: str, changes: list[str], fault: str) -> None:
    overrides = [
        f"~data.cleaning.selection.{change[1:]}"
        if change.startswith("~")
        else f"data.cleaning.selection.{change}"
        for change in changes
    ]
    with pytest.raises(MtkitError, match=fault):
        select(recipe_file, *overrides)


def test_text_in_one_language_has_one_pair_of_models(tmp_path: Path) -> None:
    path = tmp_path / "mtkit.toml"
    text = """\
name = "mono"
objective = "causal-lm"
[data]
language = "en"
train = [{ text = "train.en" }]
dev = { text = "dev.en" }
[training]
validation = { metric = "loss" }
[data.cleaning.selection]
max_difference = -0.1
"""
    path.write_text(text + 'in_domain = "a"\ngeneral = "b"\n')
    found = load_recipe(path).data.cleaning.selection
    assert found.models == {"text": (tmp_path / "a", tmp_path / "b")}
    path.write_text(text + 'in_domain_source = "a"\ngeneral_source = "b"\n')
    with pytest.raises(MtkitError, match="text in one language needs in_domain and general"):
        load_recipe(path)


def test_a_recipe_without_a_selection_says_nothing_of_it(recipe_file: str) -> None:
    assert "selection" not in dump_recipe(load_recipe(recipe_file))
