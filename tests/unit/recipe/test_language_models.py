"""What a language model's recipe may say."""

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "lm.toml"
    path.write_text(
        'name = "lm"\nobjective = "masked-lm"\n'
        '[data]\nlanguage = "en"\ntrain = [{ text = "a.txt" }]\ndev = { text = "b.txt" }\n'
        '[training]\nvalidation = { metric = "loss" }\n'
    )
    return path


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("training.validation.metric=bleu", 'training.validation.metric = "bleu" scores transl'),
        ("inference.flags={}", 'inference.flags is for objective = "translation"'),
        ("tokenizer.sampling={alpha=0.1}", "tokenizer.sampling is for translation"),
        ("training.masking.short_tokens=512", "short_tokens = 512 isn't less than data.block_tok"),
        ("training.masking.mask=0.95", "together at most 1"),
        ("objective='causal-lm'", "training.masking is for"),
    ],
)
def test_what_is_refused(recipe_file, override: str, fault: str) -> None:
    assert isinstance(load_recipe(str(recipe_file), ["training.masking.share=0.2"]), Recipe)
    with pytest.raises(MtkitError, match=fault):
        load_recipe(str(recipe_file), ["training.masking.share=0.2", override])


def test_test_sets_that_nothing_scores_are_refused(recipe_file) -> None:
    sets = 'evaluation.test_sets=[{ name = "test", text = "c.txt" }]'
    assert load_recipe(str(recipe_file), [sets]).evaluation.test_sets
    with pytest.raises(MtkitError, match='objective = "denoising" has no score'):
        load_recipe(str(recipe_file), ["objective=denoising", sets])


@pytest.mark.parametrize(
    ("objective", "metric"), [("masked-lm", "loss"), ("causal-lm", "loss"), ("denoising", "loss")]
)
def test_defaults_of_language_models(recipe_file, objective: str, metric: str) -> None:
    changes = [f"objective={objective}"]
    training = load_recipe(str(recipe_file), [*changes, "~training.validation"]).training
    assert (training.label_smoothing, training.validation.metric) == (0.0, metric)
    given = load_recipe(str(recipe_file), [*changes, "training.label_smoothing=0.2"]).training
    assert given.label_smoothing == 0.2
    translation = load_recipe("multi30k-en-de").training
    assert (translation.label_smoothing, translation.validation.metric) == (0.1, "bleu")


def test_absent_masking_is_berts(recipe_file) -> None:
    masking = load_recipe(str(recipe_file)).training.masked
    assert (masking.share, masking.mask, masking.random) == (0.15, 0.8, 0.1)
    assert (masking.next_sentence, masking.short_tokens) == (True, None)
