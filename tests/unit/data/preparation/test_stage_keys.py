"""A stage is done again when, and only when, something has changed that it depends on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mtkit.data.preparation.stage import Preparation
from mtkit.data.prepare import list_stages
from mtkit.data.prepared import fingerprint
from mtkit.pipeline.prepare import TorchLanguageModels
from mtkit.recipe import Recipe, load_recipe, shipped_recipes
from mtkit.recipe.invalidation import Declaration, Invalidates
from mtkit.recipe.synthesis import Synthesis
from mtkit.recipe.tables import WHOLE_RECIPE

STAGES = ("text", "tokenizer", "train", "dev")
"""Those of every recipe."""


def list_stages_of(recipe: Recipe) -> tuple[str, ...]:
    return tuple(stage.name for stage in list_stages(Preparation(recipe, Path())))


def compute_stage_key(name: str, recipe: Recipe, found: Any) -> str:
    preparation = Preparation(recipe, Path(), found=found, models=TorchLanguageModels())
    [stage] = [each for each in list_stages(preparation) if each.name == name]
    return stage.compute_key(preparation)


FOUND: dict[str, dict[str, Any]] = {
    "text": {"digest": "a", "parts": [[1, 2]]},
    "tokenizer": {"digest": ["b"]},
}
RECIPE = "phrasebook-en-de"

Variant = tuple[str, Any]


def compute(recipe: Recipe) -> dict[str, str]:
    return {stage: compute_stage_key(stage, recipe, FOUND) for stage in STAGES}


UNIGRAM = ["tokenizer.kind=unigram", "tokenizer.sampling.alpha=0.3", "data.train.0.max_pairs=7"]
TAGGED = ["tokenizer.pretrained.source=a.model", "data.train.0.tag=<BT>", "data.dev.tag=<de>"]
MOSES = ["~evaluation.test_sets", "tokenizer.punctuation=moses"]


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (RECIPE, [], "c99e5c80 ec4055e3 f0388ac5 8ff9f790"),
        (RECIPE, UNIGRAM, "8e9f408b 775ed3c7 e4e6d0ad 8ff9f790"),
        (RECIPE, TAGGED, "42f9b837 fbcf1971 89eeb9ba 314a5c2b"),
        (RECIPE, MOSES, "c81050bd 7d35e514 f0388ac5 8ff9f790"),
        ("wmt14-en-de-base", [], "9785d64c a47f3fd5 f0388ac5 7cab0283"),
    ],
)
def test_keys_are_those_of_format_version_5(name: str, changes: list[str], expected: str) -> None:
    """Where one differs, data that were prepared before are made again."""
    assert [key[:8] for key in compute(load_recipe(name, changes)).values()] == expected.split()


def vary(section: BaseModel, declared: Declaration, path: str = "") -> Iterator[Variant]:
    """Yields each key inside that invalidates data, and the section with another value of it."""
    for key in type(section).model_fields:
        value, inner = getattr(section, key), declared.of_key(key)
        first = value[0] if inner.sections and isinstance(value, tuple) else value
        if isinstance(first, BaseModel):
            for name, changed in vary(first, inner, f"{path}{key}."):
                replaced = (changed, *value[1:]) if isinstance(value, tuple) else changed
                yield name, section.model_copy(update={key: replaced})
        elif inner.invalidates and inner.invalidates & (Invalidates.DATA | Invalidates.HELD_OUT):
            other = Path("other") if isinstance(value, Path) else "other"
            yield f"{path}{key}", section.model_copy(update={key: other})


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_each_key_that_invalidates_data_is_in_a_stage() -> None:
    changes = [
        "model.tied_embeddings=none",
        "tokenizer.joint=false",
        "tokenizer.sampling.alpha=0.2",
    ]
    changes += [f"tokenizer.pretrained.{side}={side}.model" for side in ("source", "target")]
    recipe = load_recipe(RECIPE, changes)
    before = compute(recipe)
    variants = dict(vary(recipe, WHOLE_RECIPE))
    # Where training starts from names a folder, whose files count.
    del variants["training.start_from"]
    # The vocabulary's symbols are made of what it says; see below.
    del variants["data.augment"]
    assert len(variants) > 50
    # Training reads these two from the recipe; the others are for text in one language.
    in_no_stage = {"data.train.name", "data.train.weight", "data.block_tokens", "objective"}
    # These have stages of their own: see below, test_prepare_aligned.py and test_word_aligner.py;
    # the others are for labelled text and for trees.
    in_no_stage |= {"data.cleaning.selection", "training.guided_alignment", "data.word_aligner"}
    in_no_stage |= {"training.classification", "data.parsing"}
    # See test_translate_corpora.py.
    in_no_stage |= {f"data.train.synthesis.{key}" for key in Synthesis.model_fields}
    in_no_stage |= {"data.train.translated_by", "evaluation.test_sets.tag"}
    assert {key for key, each in variants.items() if compute(each) == before} == in_no_stage


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ("data.cleaning.letters.min_share=0.3", {"text"}),
        ("data.cleaning.max_tokens=77", {"train", "dev"}),
        ("data.train.0.sentences=300", {"text"}),
        ("data.train.0.tag=<BT>", {"tokenizer", "train"}),
        ("data.train.0.weight=2.0", set()),
        ("data.train.0.name=other", set()),
        ("data.augment.typos.rate=0.1", {"train"}),
        ("data.augment.joined.rate=0.1", {"train"}),
        ("data.augment.placeholders.num_symbols=3", {"tokenizer", "train"}),
        ("data.dev.sentences=50", {"text", "dev"}),
        ("data.dev.tag=<BT>", {"dev"}),
        ("evaluation.test_sets.0.sentences=50", {"text"}),
        ("evaluation.test_sets.0.tag=<BT>", set()),
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


def test_terms_by_alignments_are_other_data_where_attention_is_guided() -> None:
    found = {**FOUND, "alignment": {"digest": ["c"]}, "terms": {"digest": ["d"]}}
    terms = "data.augment.terms.rate=0.2"
    recipes = [
        load_recipe(RECIPE, [terms, *more]) for more in ([], ["training.guided_alignment={}"])
    ]
    stages = ("text", "alignment", "terms", "tokenizer", "train", "dev")
    assert all(list_stages_of(recipe) == stages for recipe in recipes)
    keys = [{stage: compute_stage_key(stage, each, found) for stage in stages} for each in recipes]
    assert {stage for stage in stages if keys[0][stage] != keys[1][stage]} == {"train"}
    assert fingerprint(recipes[0]) != fingerprint(recipes[1])
    for changed in ("alignment", "terms"):
        other = compute_stage_key("train", recipes[0], {**found, changed: {"digest": ["e"]}})
        assert other != keys[0]["train"]
    given = load_recipe(RECIPE, [terms, "data.augment.terms.dictionary=terms.tsv"])
    assert list_stages_of(given) == STAGES


TREES = """
name = "parser"
[data]
source_language = "en"
train = [{ trees = "train.mrg" }]
dev = { trees = "dev.mrg" }
"""


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ("data.parsing.linearization=tensor2tensor", {"text", "dev"}),
        ("data.parsing.linearization=vinyals", set()),
        ("data.cleaning.duplicates.enabled=false", {"text"}),
        ("data.cleaning.max_tokens=77", {"train", "dev"}),
        ("tokenizer.pretrained.source=x.model", {"text", "tokenizer"}),
        ("evaluation.test_sets=[{name='t', trees='t.mrg'}]", {"text"}),
    ],
)
def test_stages_of_trees(change: str, stages: set[str], tmp_path: Path) -> None:
    path = tmp_path / "mtkit.toml"
    path.write_text(TREES, "utf-8")
    before, after = compute(load_recipe(path)), compute(load_recipe(path, [change]))
    assert {stage for stage in STAGES if before[stage] != after[stage]} == stages


TEXT = """
name = "text"
objective = "masked-lm"
[data]
language = "en"
train = [{ text = "train.txt" }]
dev = { path = "dev.jsonl", text_column = "text" }
[training.validation]
metric = "loss"
"""


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ("data.block_tokens=256", {"train", "dev"}),
        ("objective=causal-lm", {"tokenizer", "train", "dev"}),
        ("training.masking.short_tokens=128", {"train", "dev"}),
        ("training.masking.share=0.2", set()),
        ("data.train.0.documents=lines", {"text"}),
        ("data.train.0.weight=2.0", set()),
        ("data.train.0.name=other", set()),
        ("data.dev.text_column=t", {"text", "dev"}),
        ("data.language=de", {"text", "tokenizer", "dev"}),
        ("data.cleaning.letters.min_share=0.3", {"text"}),
        ("tokenizer.vocab_size=500", {"tokenizer"}),
    ],
)
def test_a_key_changes_the_stages_of_text_in_one_language(
    tmp_path: Path, change: str, stages: set[str]
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(TEXT, "utf-8")
    recipes = [load_recipe(path, changes) for changes in ([], [change])]
    before, after = map(compute, recipes)
    assert {stage for stage in STAGES if before[stage] != after[stage]} == stages
    is_same = fingerprint(recipes[0]) == fingerprint(recipes[1])
    # Weights and names are in no stage.
    assert is_same == (not stages) or change.startswith(
        ("data.train.0.weight", "data.train.0.name")
    )


SELECTING = """
name = "selecting"
[data]
source_language = "en"
target_language = "de"
train = [{ builtin = "phrasebook" }]
dev = { builtin = "phrasebook" }
[data.cleaning.selection]
in_domain_source = "ours"
general_source = "general"
keep = 0.5
"""


def test_the_stages_of_a_selection(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(SELECTING, "utf-8")
    for name in ("ours", "general", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
    selection = "data.cleaning.selection"

    def compute_all(*changes: str) -> dict[str, str]:
        recipe = load_recipe(path, changes)
        # Marks differ where differences or shares do.
        found: dict[str, Any] = {**FOUND}
        for stage in ("differences", "selection"):
            if stage in list_stages_of(recipe):
                found[stage] = {"digest": compute_stage_key(stage, recipe, found)}
        return {stage: compute_stage_key(stage, recipe, found) for stage in list_stages_of(recipe)}

    def list_changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
        return {stage for stage in before if before[stage] != after.get(stage)}

    before = compute_all()
    assert list(before) == ["text", "differences", "selection", "tokenizer", "train", "dev"]
    without = compute_all(f"~{selection}")
    # The cleaned text is the same; what is made of it isn't.
    assert list_changed(without, before) == {"tokenizer", "train"}
    late = {"selection", "tokenizer", "train"}
    assert list_changed(before, compute_all(f"{selection}.keep=0.4")) == late
    other = compute_all(f"{selection}.general_source=other")
    assert list_changed(before, other) == {"differences", *late}
    # Whose files are the same, is the same; a model in its place isn't.
    (tmp_path / "other" / "model.safetensors").write_bytes(b"general")
    assert compute_all(f"{selection}.general_source=other") == before
    (tmp_path / "general" / "model.safetensors").write_bytes(b"new")
    assert list_changed(before, compute_all()) == {"differences", *late}
    recipes = [load_recipe(path, changes) for changes in ([], [f"{selection}.keep=0.4"])]
    assert fingerprint(recipes[0]) != fingerprint(recipes[1])


def test_where_a_project_lies_changes_nothing(tmp_path: Path) -> None:
    text = shipped_recipes()["multi30k-en-de"].read_text("utf-8")
    keys = []
    for folder in (tmp_path / "here", tmp_path / "there"):
        folder.mkdir()
        (folder / "recipe.toml").write_text(text, "utf-8")
        keys.append(compute(load_recipe(folder / "recipe.toml")))
    assert keys[0] == keys[1]
