"""A stage is done again when, and only when, something has changed that it depends on."""

from pathlib import Path
from typing import Any

import pytest

from mtkit.data.preparation.stage_keys import compute_stage_key
from mtkit.data.prepared import STAGES, describe_file, describe_inputs
from mtkit.data.tokenizer_choice import choose_punctuation, digest_reused, list_tags, reused_folder
from mtkit.digests import digest
from mtkit.recipe import Recipe, load_recipe, shipped_recipes
from mtkit.recipe.tables import relative_to_root

FOUND: dict[str, dict[str, Any]] = {
    "text": {"digest": "a", "parts": [[1, 2]]},
    "tokenizer": {"digest": ["b"]},
}
RECIPE = "phrasebook-en-de"


def digest_by_hand(stage: str, recipe: Recipe) -> str:
    """A stage's key as format version 2 has had it, from keys that are listed one by one."""
    data, tokenizer, kept = recipe.data, recipe.tokenizer, reused_folder(recipe)
    pretrained = tokenizer.pretrained
    paths = [] if pretrained is None else [pretrained.source, pretrained.target]
    models = [describe_file(path) for path in paths if path is not None]
    languages = [data.source_language, data.target_language]

    def settings(section: Any, *left_out: str) -> Any:
        tables = section.model_dump(mode="json", exclude=set(left_out))
        return relative_to_root(tables, str(data.data_root))

    if stage == "text":
        tests = recipe.evaluation.test_sets
        normalization = models or tokenizer.normalization
        depends: list[Any] = [
            [settings(corpus, "name", "weight", "tag") for corpus in data.train],
            settings(data.cleaning, "max_tokens"),
            [settings(corpus, "tag") for corpus in (data.dev, *tests)],
            [*languages, choose_punctuation(recipe)],
            normalization if kept is None else digest_reused(kept),
            describe_inputs((*data.train, data.dev, *tests)),
        ]
    elif stage == "tokenizer" and kept is not None:
        symbols = [list_tags(recipe), tokenizer.user_symbols, tokenizer.joint]
        depends = [digest_reused(kept), symbols, languages]
    elif stage == "tokenizer":
        made = settings(tokenizer, "sampling")
        depends = ["a", made, languages, [recipe.seed, list_tags(recipe)], models]
    elif stage == "train":
        sampling = None if tokenizer.sampling is None else settings(tokenizer.sampling)
        tags = [corpus.tag for corpus in data.train]
        depends = ["a", [[1, 2]], ["b"], tags, data.cleaning.max_tokens, sampling]
    else:
        inputs = describe_inputs((data.dev,))
        depends = [["b"], languages, settings(data.dev), data.cleaning.max_tokens, inputs]
    return digest([stage, 2, *depends])


def compute(recipe: Recipe) -> dict[str, str]:
    return {stage: compute_stage_key(stage, recipe, FOUND) for stage in STAGES}


@pytest.mark.parametrize("name", shipped_recipes())
@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["tokenizer.kind=unigram", "tokenizer.sampling.alpha=0.3", "data.train.0.max_pairs=7"],
        ["tokenizer.pretrained.source=a.model", "data.train.0.tag=<BT>", "data.dev.tag=<de>"],
        ["training.start_from.model=elsewhere", "tokenizer.user_symbols=['<ph>']"],
        ["~evaluation.test_sets", "tokenizer.punctuation=moses"],
    ],
)
def test_keys_are_those_that_were_listed_by_hand(name: str, changes: list[str]) -> None:
    recipe = load_recipe(name, changes)
    assert compute(recipe) == {stage: digest_by_hand(stage, recipe) for stage in STAGES}


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ("data.cleaning.letters.min_share=0.3", {"text"}),
        ("data.cleaning.max_tokens=77", {"train", "dev"}),
        ("data.train.0.sentences=300", {"text"}),
        ("data.train.0.tag=<BT>", {"tokenizer", "train"}),
        ("data.train.0.weight=2.0", set()),
        ("data.train.0.name=other", set()),
        ("data.dev.sentences=50", {"text", "dev"}),
        ("data.dev.tag=<BT>", {"tokenizer", "dev"}),
        ("evaluation.test_sets.0.sentences=50", {"text"}),
        ("evaluation.test_sets.0.tag=<BT>", {"tokenizer"}),
        ("tokenizer.vocab_size=500", {"tokenizer"}),
        ("tokenizer.normalization=nfkc", {"text", "tokenizer"}),
        ("tokenizer.sampling.alpha=0.2", {"train"}),
        ("seed=7", {"tokenizer"}),
        ("model.d_model=8", set()),
        ("training.batch_tokens=9000", set()),
    ],
)
def test_a_key_changes_the_stages_that_depend_on_it(change: str, stages: set[str]) -> None:
    before, after = compute(load_recipe(RECIPE)), compute(load_recipe(RECIPE, [change]))
    assert {stage for stage in STAGES if before[stage] != after[stage]} == stages


def test_where_a_project_lies_changes_nothing(tmp_path: Path) -> None:
    text = shipped_recipes()["multi30k-en-de"].read_text("utf-8")
    keys = []
    for folder in (tmp_path / "here", tmp_path / "there"):
        folder.mkdir()
        (folder / "recipe.toml").write_text(text, "utf-8")
        keys.append(compute(load_recipe(folder / "recipe.toml")))
    assert keys[0] == keys[1]
