"""What a change of each key invalidates, against lists that were once kept by hand."""

from collections.abc import Iterator
from typing import Any

import pytest

from mtkit.recipe import Recipe, load_recipe, shipped_recipes
from mtkit.recipe.invalidation import Declaration, Invalidates
from mtkit.recipe.tables import WHOLE_RECIPE, list_differences, relative_to_root, select_keys

CHANGES: list[list[str]] = [
    [],
    ["tokenizer.kind=unigram", "tokenizer.sampling.alpha=0.3"],
    ["training.schedule={kind='cosine', peak=0.001}", "training.clipping.max_norm=1.0"],
    ["training.moving_average.decay=0.99", "training.precision=fp32"],
    ["inference.sampling.top_k=5", "training.validation.metric=chrf"],
    ["training.start_from.model=other/model"],
    ["data.train.0.tag=<BT>", "data.train.0.weight=2.0", "data.train.0.name=first"],
]


@pytest.fixture(scope="module")
def recipes() -> list[Recipe]:
    return [
        load_recipe(name, changes)
        for name in shipped_recipes()
        for changes in CHANGES
        # Those of translation alone are refused elsewhere.
        if (load_recipe(name).objective == "translation" and not load_recipe(name).data.is_trees)
        or not changes
        or "precision" in changes[-1]
    ]


def list_keys(declared: Declaration, path: str = "") -> Iterator[tuple[str, Declaration]]:
    """Yields each key that holds a value, by each way to it through sections of every kind."""
    for key in dict.fromkeys(key for kind in declared.sections for key in kind.model_fields):
        inner = declared.of_key(key)
        if inner.sections:
            yield from list_keys(inner, f"{path}{key}.")
        else:
            yield f"{path}{key}", inner


KEYS = dict(list_keys(WHOLE_RECIPE))


def test_the_walk_comes_to_every_section() -> None:
    assert {"seed", "data.train.weight", "evaluation.test_sets.tag", "model.d_ff"} <= KEYS.keys()
    assert {"training.schedule.final", "data.cleaning.urls.min_match"} <= KEYS.keys()
    assert len(KEYS) > 150


def test_every_key_says_what_it_invalidates() -> None:
    # A new key: Annotated[..., Invalidates...], there or at its section.
    assert [key for key, declared in KEYS.items() if declared.invalidates is None] == []


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("data.cleaning.urls.min_match", ["data"]),
        ("tokenizer.vocab_size", ["data", "run"]),
        ("evaluation.test_sets.tag", ["data", "results"]),
        ("model.dropout", ["run"]),
        ("training.label_smoothing", ["updates", "scores"]),
        ("inference.beam_size", ["results"]),
        ("training.log_every", []),
    ],
)
def test_a_reader_is_told_in_words(key: str, words: list[str]) -> None:
    assert KEYS[key].describe() == words


def test_the_fingerprint_is_of_all_data_tokenizer_and_seed(recipes: list[Recipe]) -> None:
    for recipe in recipes:
        tables = recipe.model_dump(mode="json")
        chosen = select_keys(tables, Invalidates.DATA)
        start = chosen.pop("training", {"start_from": None})
        data = {key: value for key, value in tables["data"].items() if key != "data_root"}
        keys = ("tokenizer", "seed", "objective")
        assert chosen == {"data": data, **{key: tables[key] for key in keys if key in tables}}
        assert start["start_from"] == tables["training"]["start_from"]


def test_a_run_is_fixed_by_what_its_weights_and_order_come_from(recipes: list[Recipe]) -> None:
    for recipe in recipes:
        tables = recipe.model_dump(mode="json", exclude_none=True)
        training = tables["training"]
        tokenizer = {
            key: value for key, value in tables["tokenizer"].items() if key != "pretrained"
        }
        fixed = {
            key: training[key]
            for key in ("batch_tokens", "length_groups", "start_from", "masking")
            if key in training
        }
        if "start_from" in training:
            fixed["start_from"] = training["start_from"]
        if "lora" in training:
            # What is done with it at the end doesn't matter meanwhile.
            fixed["lora"] = {
                key: training["lora"][key] for key in training["lora"] if key != "release"
            }
        fixed["validation"] = {"metric": training["validation"]["metric"]}
        expected = {key: tables[key] for key in ("seed", "model", "objective")}
        expected["tokenizer"] = tokenizer
        assert select_keys(tables, Invalidates.RUN) == {**expected, "training": fixed}


def test_settings_that_a_run_may_change(recipes: list[Recipe]) -> None:
    for recipe in recipes:
        tables = recipe.model_dump(mode="json")
        keys = (
            "label_smoothing", "precision", "optimizer", "schedule", "clipping", "freeze",
            "moving_average", "r_drop",
        )  # fmt: skip
        expected = {key: tables["training"][key] for key in keys}
        assert select_keys(tables, Invalidates.UPDATES) == {"training": expected}
        with_end = select_keys(tables, Invalidates.UPDATES | Invalidates.SCHEDULE_END)
        assert with_end == {"training": {**expected, "max_steps": tables["training"]["max_steps"]}}


def test_what_a_development_score_depends_on(recipes: list[Recipe]) -> None:
    for recipe in recipes:
        tables = recipe.model_dump(mode="json", exclude_none=True)
        unused = {
            "engine", "precision", "beam_size", "n_best", "sampling", "batch_tokens", "processes",
            "allow_int8", "alignments", "protect_strings",
        }  # fmt: skip
        inference, training = tables["inference"], tables["training"]
        assert select_keys(tables, Invalidates.SCORES) == {
            "training": {
                "label_smoothing": training["label_smoothing"],
                "validation": {key: training["validation"][key] for key in ("metric", "beam_size")},
            },
            "inference": {key: value for key, value in inference.items() if key not in unused},
            "evaluation": {
                key: tables["evaluation"][key] for key in ("tokenize", "smooth", "lowercase")
            },
        }


def test_what_a_translation_depends_on(recipes: list[Recipe]) -> None:
    for recipe in recipes:
        tables = recipe.model_dump(mode="json")
        left_out = {
            "engine", "precision", "batch_tokens", "processes", "allow_int8", "alignments", "flags",
            "quality", "protect_strings",
        }  # fmt: skip
        expected = {key: value for key, value in tables["inference"].items() if key not in left_out}
        assert select_keys(tables, Invalidates.TRANSLATIONS) == {"inference": expected}


def test_a_key_of_another_version_counts_as_its_section_does() -> None:
    tables = {"model": {"d_model": 8, "old": 1}, "training": {"old": 1}, "old": {"key": 1}}
    assert select_keys(tables, Invalidates.RUN) == {"model": {"d_model": 8, "old": 1}}


@pytest.mark.parametrize("tables", [[], {"training": 3}, {"data": {"train": [7]}}])
def test_what_isnt_a_recipe_is_refused(tables: Any) -> None:
    with pytest.raises(TypeError, match="expected a section"):
        select_keys(tables, Invalidates.RUN)


def test_differences_are_told_by_key() -> None:
    wanted = {"seed": 2, "data": {"train": [{"path": "a"}, {"path": "b"}]}}
    found = {"seed": 1, "data": {"train": [{"path": "a"}, {"path": "c"}]}, "old": 1}
    assert list_differences(wanted, found) == [
        'data.train.1.path was "c", now "b"',
        "old was 1, now absent",
        "seed was 1, now 2",
    ]


def test_paths_stand_as_they_start_from_the_corpora() -> None:
    tables = {"train": [{"path": "/a/b/c.tsv"}, {"path": "/elsewhere/c.tsv"}], "seed": 1}
    expected = {"train": [{"path": "c.tsv"}, {"path": "/elsewhere/c.tsv"}], "seed": 1}
    assert relative_to_root(tables, "/a/b") == expected
