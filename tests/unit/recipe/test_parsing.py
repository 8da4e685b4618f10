"""What a recipe of a parser must have, and what it has by itself."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe

TREES = """\
name = "parser"
[data]
source_language = "en"
[[data.train]]
trees = "train.mrg"
[data.dev]
trees = "dev.mrg"
"""


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "mtkit.toml"
    path.write_text(TREES, "utf-8")
    return path


def test_what_a_parser_has_by_itself(recipe_file: Path) -> None:
    recipe = load_recipe(recipe_file)
    assert recipe.data.linearization == "vinyals"
    assert recipe.data.languages == ("en", "en")
    assert recipe.data.train[0].trees == recipe_file.parent.resolve() / "train.mrg"
    assert (recipe.tokenizer.joint, recipe.model.tied_embeddings) == (False, "decoder")
    assert recipe.evaluation.metrics == ("parseval",)
    assert recipe.training.validation.metric == "f1"
    assert recipe.inference.max_extra_tokens == 300
    kept = load_recipe(
        recipe_file,
        ("inference.max_extra_tokens=7", "data.parsing.linearization=tensor2tensor"),
    )
    assert (kept.inference.max_extra_tokens, kept.data.linearization) == (7, "tensor2tensor")


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("data.dev={source='a', target='b'}", "`trees` and other corpora don't go together"),
        ("data.parsing.linearization=penn", "vinyals"),
        ("tokenizer.joint=true", "sentences and trees have a vocabulary each"),
        ("evaluation.metrics=['bleu']", r'evaluation.metrics must be \["parseval"\]'),
        ("evaluation.metrics=['parseval', 'bleu']", "parseval scores trees"),
        ("inference.flags={}", "inference.flags doesn't apply to trees"),
        ("inference.rerank={}", "inference.rerank doesn't apply to trees"),
        ("training.validation.metric=bleu", 'trees need "f1" or "loss"'),
        ("objective=denoising", "language"),
        ("evaluation.test_sets=[{name='t', source='a', target='b'}]", "t must name `trees`"),
        ("data.cleaning.selection={classifier='m', label='l', keep=0.5}", "chooses text"),
        ("tokenizer.pretrained={source='a', target='b'}", "trees have a vocabulary of their own"),
    ],
)
def test_faults(recipe_file: Path, override: str, fault: str) -> None:
    with pytest.raises(MtkitError, match=fault):
        load_recipe(recipe_file, (override,))


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("data.parsing.linearization=vinyals", "parsing is for corpora with `trees`"),
        ("training.validation.metric=f1", "is for corpora with `trees`"),
        ("evaluation.test_sets=[{name='t', trees='a'}]", "t must not name `trees`"),
        ("tokenizer={joint=false, pretrained={source='a'}}", "pretrained.target is missing"),
    ],
)
def test_a_translator_has_nothing_of_it(override: str, fault: str) -> None:
    tables = ("model.tied_embeddings=none", override)
    with pytest.raises(MtkitError, match=fault):
        load_recipe("phrasebook-en-de", tables)
    assert load_recipe("phrasebook-en-de").data.parsing is None
