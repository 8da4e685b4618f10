"""Classifiers learn: batches, losses of one text at a time, starts, scores."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.folder import load_model_folder, save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.network import PaddedLayout
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.token_ids import BOS, EOS
from mtkit.training.build_learner import build_objective
from mtkit.training.distributed import ProcessGroup
from mtkit.training.learner import Learner
from mtkit.training.metrics import read_metrics
from mtkit.training.objectives.texts import LabelledBatches
from mtkit.training.training_run import TrainingRun

from .starts import start_model

ALONE = ProcessGroup(0, 1, torch.device("cpu"))


def open_batches(run, *, packs: bool = False):
    data = open_prepared(run.recipe, run.workspace)
    return data, LabelledBatches(
        TrainingRun(run.recipe, run.workspace, data), ALONE, dtype=torch.float32, packs=packs
    )


@pytest.mark.parametrize("packs", [False, True])
def test_an_epoch_has_each_text_once_with_its_label(tiny_run_of, packs) -> None:
    data, batches = open_batches(tiny_run_of("classification"), packs=packs)
    every = data.train.gather(np.arange(len(data.train)))["text"].to_lists()
    wanted = sorted(
        ([BOS, *row], label) for row, label in zip(every, data.train_labels.tolist(), strict=True)
    )
    seen = []
    for position in range(len(batches.plan_epoch(0))):
        update = batches.update(0, position, 128)
        assert update.num_target_tokens == len(update.examples)
        for batch in update.batches():
            texts = torch.tensor_split(batch.tokens, batch.last[:-1] + 1)
            rows = [text.tolist() for text in texts]
            seen += zip(rows, batch.labels.tolist(), strict=True)
    assert sorted(seen) == wanted


def test_the_loss_is_that_of_each_text_alone(tiny_run_of) -> None:
    run = tiny_run_of("classification")
    data = open_prepared(run.recipe, run.workspace)
    torch.manual_seed(3)
    model = build(ModelConfig.of(run.recipe, data.tokenizer, data.labels)).double().eval()
    objective = build_objective(
        TrainingRun(run.recipe, run.workspace, data), Learner.of(model, run.recipe.training), ALONE
    )
    update = objective.batches.update(0, 0, 4096)
    expected = 0.0
    for row in update.examples.tolist():
        tokens = data.train.gather(np.array([row]))["text"].tokens
        text = torch.tensor([[BOS, *tokens.tolist()]])
        layout = PaddedLayout.without_padding(text)
        last = torch.tensor([text.shape[1] - 1])
        _, logits = model.label(text, torch.zeros_like(text), layout, last)
        expected += cross_entropy(logits, torch.tensor([data.train_labels[row]])).item()
    found = sum(objective.loss(batch).loss.item() for batch in update.batches())
    assert found == pytest.approx(expected, rel=1e-10)
    result = objective.validate()
    assert result.score == result.metrics["accuracy"]
    assert result.metrics.keys() >= {"loss", "nll", "accuracy", "macro_f1"}


def test_the_auxiliary_loss_is_half_the_mean_over_tokens(tiny_run_of) -> None:
    run = tiny_run_of("classification")
    recipe = run.recipe.model_validate(
        {
            **run.recipe.model_dump(),
            "training": {
                **run.recipe.training.model_dump(),
                "classification": {"kind": "causal-lm"},
            },
        }
    )
    data = open_prepared(run.recipe, run.workspace)
    symbols = ("<delimiter>", "<extract>")
    data = data.__class__(
        **{**vars(data), "tokenizer": extend_vocabulary(data.tokenizer, symbols=symbols)}
    )
    torch.manual_seed(4)
    model = build(ModelConfig.of(recipe, data.tokenizer, data.labels)).double().eval()
    objective = build_objective(
        TrainingRun(recipe, run.workspace, data), Learner.of(model, recipe.training), ALONE
    )
    update = objective.batches.update(0, 0, 4096)
    extract = data.tokenizer.source_vocabulary.ids["<extract>"]
    labels, tokens, num_tokens = 0.0, 0.0, 0
    for row in update.examples.tolist():
        text = data.train.gather(np.array([row]))["text"].tokens.tolist()
        assert text[-1] == EOS
        text = torch.tensor([[BOS, *text[:-1], extract]])
        layout = PaddedLayout.without_padding(text)
        last = torch.tensor([text.shape[1] - 1])
        states, logits = model.label(text, torch.zeros_like(text), layout, last)
        labels += cross_entropy(logits, torch.tensor([data.train_labels[row]])).item()
        of_tokens = model.output_embedding.project(states[0, :-1], model.output_bias)
        tokens += cross_entropy(of_tokens, text[0, 1:], reduction="sum").item()
        num_tokens += text.shape[1] - 1
    assert update.num_target_tokens == num_tokens
    joined = sum(
        objective.loss(batch).join(num_tokens, len(update.examples)).item()
        for batch in update.batches()
    )
    expected = labels / len(update.examples) + 0.5 * tokens / num_tokens
    assert joined / num_tokens == pytest.approx(expected, rel=1e-10)


def test_a_language_is_soon_told_from_another(tiny_run_of) -> None:
    settings = ("max_steps=100", "checkpoint_every=100", "schedule.peak=1e-2")
    run = tiny_run_of("classification", *(f"training.{setting}" for setting in settings))
    assert run.train()
    [last] = [line for line in read_metrics(run.workspace.metrics_file) if line["kind"] == "dev"]
    assert last["accuracy"] >= 95.0
    config = load_model_folder(run.workspace.model).config
    assert config.classifier is not None
    assert config.classifier.labels == ("de", "en")


def save_start(folder: Path, run, tokenizer):
    """Saves a language model of chance, and returns its weights by name."""
    torch.manual_seed(9)
    model = build(ModelConfig.of(run.recipe, tokenizer))
    weights = pack_weights(model)
    save_model_folder(
        folder, recipe=run.recipe, weights=weights, tokenizer=tokenizer, origin="chance"
    )
    return dict(model.named_parameters())


@pytest.mark.parametrize("kind", ["masked-lm", "causal-lm"])
def test_a_start_gives_all_weights_but_the_labels(tiny_run_of, tmp_path: Path, kind) -> None:
    language_model = tiny_run_of(kind, name="lm")
    tokenizer = open_prepared(language_model.recipe, language_model.workspace).tokenizer
    theirs = save_start(tmp_path / "start", language_model, tokenizer)
    model = language_model.recipe.model.model_dump()
    run = tiny_run_of("classification", f"training.start_from.model={tmp_path / 'start'}")
    recipe = run.recipe.model_validate(
        {
            **run.recipe.model_dump(),
            "model": model,
            "training": {**run.recipe.training.model_dump(), "classification": {"kind": kind}},
        }
    )
    symbols = ("<delimiter>", "<extract>")
    extended = extend_vocabulary(tokenizer, symbols=symbols)
    ours = build(ModelConfig.of(recipe, extended, ("a", "b")))
    drawn = ours.classifier.weight.clone()
    start_model(recipe, ours, extended)
    assert torch.equal(ours.classifier.weight, drawn)
    for name, weight in ours.named_parameters():
        if not name.startswith("classifier."):
            assert torch.equal(weight[: len(theirs[name])], theirs[name]), name
    other = recipe.training.classification.model_copy(
        update={"kind": {"masked-lm": "causal-lm", "causal-lm": "masked-lm"}[kind]}
    )
    training = recipe.training.model_copy(update={"classification": other})
    with pytest.raises(MtkitError, match=r"training\.classification\.kind"):
        start_model(recipe.model_copy(update={"training": training}), ours, extended)
