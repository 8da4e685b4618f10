"""Batches and losses of language models: every token once, and the losses of one text at a time."""

import numpy as np
import pytest
import torch
from torch import nn

from mtkit.data.batches.masking import InfillingReader
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.network import Layout, PaddedLayout
from mtkit.recipe import Recipe
from mtkit.recipe.training import Denoising
from mtkit.text.token_ids import BOS, EOS
from mtkit.training.build_learner import build_objective
from mtkit.training.distributed import ProcessGroup
from mtkit.training.learner import Learner
from mtkit.training.objectives.texts import CausalBatches, DenoisingBatches, MaskedBatches
from mtkit.training.training_run import TrainingRun

ALONE = ProcessGroup(0, 1, torch.device("cpu"))


def causal_batches(run, *, packs: bool = False) -> tuple[PreparedData, CausalBatches]:
    data = open_prepared(run.recipe, run.workspace)
    return data, CausalBatches(
        TrainingRun(run.recipe, run.workspace, data), ALONE, dtype=torch.float32, packs=packs
    )


def masked_batches(run, *, packs: bool = False) -> tuple[PreparedData, MaskedBatches]:
    data = open_prepared(run.recipe, run.workspace)
    return data, MaskedBatches(
        TrainingRun(run.recipe, run.workspace, data), ALONE, dtype=torch.float32, packs=packs
    )


def take(layout: Layout, tokens: torch.Tensor) -> torch.Tensor:
    """Returns the tokens that aren't padding, text after text."""
    return layout.select_tokens(tokens[..., None].double())[:, 0].long()


def learner_of(recipe: Recipe, data: PreparedData) -> Learner:
    torch.manual_seed(3)
    model = build(ModelConfig.of(recipe, data.tokenizer)).to(torch.float64).eval()
    return Learner.of(model, recipe.training)


@pytest.mark.parametrize("packs", [False, True])
def test_a_causal_update_predicts_every_token_of_its_blocks_once(tiny_run_of, packs) -> None:
    data, batches = causal_batches(tiny_run_of("causal-lm"), packs=packs)
    seen = []
    plan = batches.plan_epoch(0)
    assert sum(map(len, plan)) == len(data.train)
    for position in range(len(plan)):
        update = batches.update(0, position, 128)
        blocks = data.train.gather(update.examples)["text"].to_lists()
        assert update.num_target_tokens == update.num_tokens == sum(map(len, blocks)) <= 600
        assert update.largest <= 128
        outputs = []
        for batch in update.batches():
            inputs = take(batch.layout, batch.inputs)
            ends = np.flatnonzero(inputs.numpy() == BOS)
            rows = np.split(batch.outputs.numpy(), ends[1:])
            for given, wanted in zip(np.split(inputs.numpy(), ends[1:]), rows, strict=True):
                assert given.tolist() == [BOS, *wanted[:-1].tolist()]
                outputs.append(wanted.tolist())
        assert sorted(outputs) == sorted(blocks)
        seen += update.examples.tolist()
    assert sorted(seen) == list(range(len(data.train)))


def test_the_causal_loss_is_that_of_each_block_alone(tiny_run_of) -> None:
    run = tiny_run_of("causal-lm")
    data = open_prepared(run.recipe, run.workspace)
    learner = learner_of(run.recipe, data)
    objective = build_objective(TrainingRun(run.recipe, run.workspace, data), learner, ALONE)
    update = objective.batches.update(0, 1, 256)
    found = sum(objective.loss(batch).loss.item() for batch in update.batches())
    expected = 0.0
    for block in data.train.gather(update.examples)["text"].to_lists():
        inputs = torch.tensor([[BOS, *block[:-1]]])
        with torch.no_grad():
            states = learner.model(inputs, PaddedLayout.without_padding(inputs))
            logits = learner.model.project(states)[0]
        wanted = torch.tensor(block)
        expected += nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("packs", [False, True])
def test_a_masked_update_counts_what_it_hides(tiny_run_of, packs) -> None:
    _, batches = masked_batches(tiny_run_of("masked-lm"), packs=packs)
    for epoch in range(3):
        update = batches.update(epoch, 0, 128)
        found = list(update.batches())
        assert update.num_target_tokens == sum(len(batch.outputs) for batch in found)
        assert len(update.examples) == sum(len(batch.is_random) for batch in found)
        for batch in found:
            tokens = take(batch.layout, batch.inputs)
            segments = take(batch.layout, batch.segments)
            starts = torch.nonzero(tokens == BOS)[:, 0].tolist()
            assert len(starts) == len(batch.is_random)
            for text, kinds in zip(
                torch.tensor_split(tokens, starts[1:]),
                torch.tensor_split(segments, starts[1:]),
                strict=True,
            ):
                ends = torch.nonzero(text == EOS)[:, 0].tolist()
                assert ends[1:] == [len(text) - 1]
                assert kinds.tolist() == [0] * (ends[0] + 1) + [1] * (len(text) - ends[0] - 1)
            assert (tokens[batch.indices] != BOS).all()
            assert batch.inputs.numel() <= 128


@pytest.mark.parametrize("short_updates", [0.6, 0.0, 1.0])
def test_short_blocks_come_first_up_to_the_very_update(tiny_run_of, short_updates) -> None:
    run = tiny_run_of(
        "masked-lm", f"training.masking.short_updates={short_updates}", "training.max_steps=30"
    )
    data, batches = masked_batches(run)
    epoch, position, kinds = 0, 0, []
    for _ in range(30):
        update = batches.update(epoch, position, 256)
        kinds.append(update.examples.min() >= len(data.train))
        assert kinds[-1] == (update.examples.max() >= len(data.train))
        assert update.largest <= 256
        for batch in update.batches():
            assert batch.layout.max_length <= (32 if kinds[-1] else 64)
        # All epochs but the last with short blocks hold each block once.
        epoch, position = update.following
    assert kinds == [step < round(30 * short_updates) for step in range(30)]
    first, second = (batches.plan_epoch(number) for number in (0, 1))
    if short_updates:
        num_short = len(data.train_short.store)
        assert sorted(np.concatenate(first[:]) - len(data.train)) == list(range(num_short))
        assert len(second) <= len(first)


def test_an_epoch_that_became_shorter_is_followed_by_the_next(tiny_run_of) -> None:
    # Stopped at a position that the epoch has no more once `max_steps` is lower.
    run = tiny_run_of("masked-lm", "training.max_steps=5")
    _, batches = masked_batches(run)
    assert len(batches.plan_epoch(0)) == 3
    update = batches.update(0, 4, 256)
    assert (update.epoch, update.position) == (1, 0)


def test_the_masked_loss_is_the_sum_of_two_means(tiny_run_of) -> None:
    run = tiny_run_of("masked-lm")
    data = open_prepared(run.recipe, run.workspace)
    learner = learner_of(run.recipe, data)
    objective = build_objective(TrainingRun(run.recipe, run.workspace, data), learner, ALONE)
    model = learner.model
    results = set()
    for limit in (64, 600):
        update = objective.batches.update(0, 1, limit)
        joined, token_losses, pair_losses = 0.0, [], []
        for batch in update.batches():
            sums = objective.loss(batch)
            joined += sums.join(update.num_target_tokens, len(update.examples)).item()
            tokens = take(batch.layout, batch.inputs)
            segments = take(batch.layout, batch.segments)
            starts = torch.nonzero(tokens == BOS)[:, 0].tolist()
            hidden = torch.full_like(tokens, -100)
            hidden[batch.indices] = batch.outputs
            parts = [torch.tensor_split(each, starts[1:]) for each in (tokens, segments, hidden)]
            for text, kinds, wanted, answer in zip(*parts, batch.is_random, strict=True):
                layout = PaddedLayout.without_padding(text[None])
                with torch.no_grad():
                    states = model(text[None], kinds[None], layout)
                    logits = model.predict(states)[0]
                    pair = model.classify_pair(states, layout)
                each = nn.functional.cross_entropy(logits, wanted, reduction="none")
                token_losses += each[wanted != -100].tolist()
                pair_losses.append(nn.functional.cross_entropy(pair[0], answer).item())
        assert len(token_losses) == update.num_target_tokens
        expected = np.mean(token_losses) + np.mean(pair_losses)
        assert joined / update.num_target_tokens == pytest.approx(expected, rel=1e-12)
        results.add(round(expected, 9))
    # However the update is cut, it is the same.
    assert len(results) == 1


def test_the_largest_pass_is_as_large_as_any(tiny_run_of) -> None:
    for objective, make in (("causal-lm", causal_batches), ("masked-lm", masked_batches)):
        _, batches = make(tiny_run_of(objective, name=objective))
        largest = batches.largest(256)
        assert 192 < largest.inputs.numel() <= 256
        for position in range(3):
            for batch in batches.update(0, position, 256).batches():
                assert batch.inputs.numel() <= 256


@pytest.mark.parametrize("packs", [False, True])
def test_a_denoising_update_writes_the_text_of_its_blocks_once(tiny_run_of, packs) -> None:
    run = tiny_run_of("denoising")
    data = open_prepared(run.recipe, run.workspace)
    batches = DenoisingBatches(
        TrainingRun(run.recipe, run.workspace, data), ALONE, dtype=torch.float32, packs=packs
    )
    mask = data.tokenizer.source_vocabulary.ids["<mask>"]
    plan = batches.plan_epoch(0)
    assert sorted(np.concatenate(plan[:]).tolist()) == list(range(len(data.train)))
    num_masked = num_tokens = 0
    for position in range(len(plan)):
        update = batches.update(0, position, 128)
        # The bounds of sentences inside a block are left out.
        blocks = [
            [token for token in block if token != EOS] + [EOS]
            for block in data.train.gather(update.examples)["text"].to_lists()
        ]
        assert update.num_target_tokens == sum(map(len, blocks)) <= 600
        assert update.largest <= 128
        written = []
        for batch in update.batches():
            inputs = take(batch.target_layout, batch.target_inputs)
            sources = take(batch.source_layout, batch.source_tokens)
            begins = np.flatnonzero(inputs.numpy() == BOS)
            ends = np.flatnonzero(sources.numpy() == EOS) + 1
            for source, given, wanted in zip(
                np.split(sources.numpy(), ends[:-1]),
                np.split(inputs.numpy(), begins[1:]),
                np.split(batch.target_outputs.numpy(), begins[1:]),
                strict=True,
            ):
                assert given.tolist() == [BOS, *wanted[:-1].tolist()]
                assert len(source) <= len(wanted)
                seen = source[source != mask].tolist()
                left = iter(wanted.tolist())
                assert all(token in left for token in seen), "what is seen keeps its order"
                num_masked += len(wanted) - len(seen)
                num_tokens += len(wanted) - 1
                written.append(wanted.tolist())
        assert sorted(written) == sorted(blocks)
    assert num_masked / num_tokens == pytest.approx(0.3, abs=0.01)


def test_the_denoising_loss_is_that_of_each_text_alone(tiny_run_of) -> None:
    run = tiny_run_of("denoising", "training.label_smoothing=0.0")
    data = open_prepared(run.recipe, run.workspace)
    learner = learner_of(run.recipe, data)
    objective = build_objective(TrainingRun(run.recipe, run.workspace, data), learner, ALONE)
    update = objective.batches.update(1, 0, 256)
    found = sum(objective.loss(batch).loss.item() for batch in update.batches())
    reader = InfillingReader(
        data.train, Denoising(), mask_token=data.tokenizer.mask_token, words=(run.recipe.seed,)
    )
    expected = 0.0
    for source, target in zip(
        *(side.to_lists() for side in reader.read(update.examples, 1)), strict=True
    ):
        sources, inputs = torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]])
        layouts = map(PaddedLayout.without_padding, (sources, inputs))
        with torch.no_grad():
            states = learner.model(sources, next(layouts), inputs, next(layouts))
            logits = learner.model.project(states)[0]
        wanted = torch.tensor(target)
        expected += nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_denoising_models_development_loss_hangs_on_no_seed(tiny_run_of) -> None:
    results = []
    for number, seed in enumerate((1, 2)):
        run = tiny_run_of("denoising", name=f"run-{number}")
        data = open_prepared(run.recipe, run.workspace)
        learner = learner_of(run.recipe, data)
        other = run.recipe.model_copy(update={"seed": seed})
        objective = build_objective(TrainingRun(other, run.workspace, data), learner, ALONE)
        results.append(objective.validate())
    first, second = results
    assert first.metrics == second.metrics
    assert first.score == -first.metrics["loss"]
    assert set(first.metrics) == {"loss", "nll", "perplexity"}
    assert first.metrics["perplexity"] == pytest.approx(np.exp(first.metrics["nll"]))
    assert list(first.samples[0]) == ["masked", "reference", "filled"]
    assert "<mask>" in first.samples[0]["masked"]
