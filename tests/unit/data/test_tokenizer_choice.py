"""Which tokenizer a recipe gets; `prepare`, `prepare --check` and `plan` ask the same function."""

from pathlib import Path

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepare import prepare
from mtkit.data.prepared import open_prepared
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.errors import MtkitError
from mtkit.pipeline.plan import plan
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.workspace import Workspace

NUM_PIECES = 300
SMALL = [
    "data.train.0.sentences=300",
    "data.dev.sentences=20",
    "evaluation.test_sets.0.sentences=20",
]


def load(*changes: str) -> Recipe:
    return load_recipe("phrasebook-en-de", [*SMALL, *changes])


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """A model folder, of which the tokenizer alone is there."""
    sides = zip(*generate_pairs("train", 300), strict=True)
    settings = Tokenizer(vocab_size=NUM_PIECES)
    train_tokenizer(settings, *sides, seed=1, tags=["<old>"]).save(tmp_path / "start")
    return tmp_path / "start"


def test_a_recipe_that_names_no_tokenizer_trains_one() -> None:
    assert TokenizerChoice.of(load()).find() is None
    assert TokenizerChoice.of(load()).punctuation_languages is None
    assert TokenizerChoice.of(load("tokenizer.punctuation=moses")).punctuation_languages == (
        "en",
        "de",
    )


def test_every_tag_of_a_training_corpus_is_a_piece() -> None:
    # Training would never see others.
    changes = ["data.train.0.tag=<a>", "data.dev.tag=<b>", "evaluation.test_sets.0.tag=<a>"]
    assert TokenizerChoice.of(load(*changes)).tags == ["<a>"]


def test_a_plan_counts_the_pieces_that_prepare_comes_to(start: Path, tmp_path: Path) -> None:
    # A tag is one piece more.
    recipe = load(f"training.start_from.model={start}", "data.train.0.tag=<new>")
    workspace = Workspace(tmp_path / "run")
    planned = plan(recipe, workspace)
    prepare(recipe, workspace)
    assert open_prepared(recipe, workspace).tokenizer.source_vocab_size == NUM_PIECES + 1
    assert (planned.is_prepared, planned.source_vocab_size) == (False, NUM_PIECES + 1)


def test_a_named_tokenizer_must_know_the_tags(start: Path) -> None:
    named = f"tokenizer.pretrained.source={start / 'joint.spm'}"
    found = TokenizerChoice.of(load(named, "data.train.0.tag=<old>")).find()
    assert found is not None
    assert found.tags == ("<old>",)
    with pytest.raises(MtkitError, match="<new>"):
        TokenizerChoice.of(load(named, "data.train.0.tag=<new>")).find()
