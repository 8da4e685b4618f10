"""Weights of `inference.rerank`, tuned on the development set by models with random weights."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from sacrebleu.metrics import CHRF

from mtkit.data.preparation.held_out import read_held_out
from mtkit.errors import MtkitError
from mtkit.inference.translator import Translator
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.pipeline.tune import tune
from mtkit.recipe.corpora import HeldOutPhrasebook
from mtkit.recipe.inference import Inference, Rerank
from mtkit.workspace import Workspace


@pytest.fixture
def run(tmp_path: Path, make_recipe, make_model, tokenizer):
    """A recipe that scores candidates by another model, and its workspace."""
    recipe = make_recipe()
    for seed, path in enumerate((tmp_path / "run/model", tmp_path / "other")):
        save_model_folder(
            path,
            recipe=recipe,
            weights=pack_weights(make_model(recipe, seed)),
            tokenizer=tokenizer,
            origin="random",
        )
    rerank = Rerank(models=({"path": tmp_path / "other", "weight": 5.0},), utility_weight=0.0)
    inference = Inference(beam_size=5, rerank=rerank, max_extra_tokens=4)
    dev = HeldOutPhrasebook(builtin="phrasebook", sentences=60)
    data = recipe.data.model_copy(update={"dev": dev})
    evaluation = recipe.evaluation.model_copy(update={"metrics": ("chrf", "bleu")})
    changed = recipe.model_copy(
        update={"inference": inference, "data": data, "evaluation": evaluation}
    )
    return changed, Workspace(tmp_path / "run")


def score(recipe, workspace: Workspace, rerank: Rerank) -> float:
    """Returns sacreBLEU's chrF of the development set with these weights."""
    sources, references = zip(*read_held_out(recipe.data, recipe.data.dev, "dev"), strict=True)
    settings = recipe.inference.model_copy(update={"rerank": rerank})
    found = Translator(workspace.model, settings=settings).translate(list(sources))
    return CHRF().corpus_score(found, [list(references)]).score


def test_tuned_weights_are_a_section_of_the_recipe(run, capsys) -> None:
    recipe, workspace = run
    section = tomllib.loads(tune(recipe, workspace))["inference"]["rerank"]
    tuned = Rerank.model_validate_json(json.dumps(section))
    before, after = score(recipe, workspace, recipe.inference.rerank), score(*run, tuned)
    printed = f"chrF2 of 60 lines: {before:.2f}, tuned: {after:.2f}"
    # It isn't computed, so that no weight of it can be learned.
    assert section["utility_weight"] == 0.0
    assert printed in capsys.readouterr().err
    assert after > before


def test_nothing_to_tune(run) -> None:
    recipe, workspace = run
    alone = recipe.inference.model_copy(update={"rerank": Rerank()})
    with pytest.raises(MtkitError, match="there are no weights to tune"):
        tune(recipe.model_copy(update={"inference": alone}), workspace)


def test_lines_that_are_translated_in_parts_are_left_out(run, capsys) -> None:
    recipe, workspace = run
    shorter = recipe.inference.model_copy(update={"max_source_tokens": 40})
    tune(recipe.model_copy(update={"inference": shorter}), workspace)
    errors = capsys.readouterr().err
    (count,) = re.findall(r"left out: (\d+) lines that are translated in parts", errors)
    assert f"chrF2 of {60 - int(count)} lines" in errors
