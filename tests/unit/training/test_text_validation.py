"""Language models on the development set: losses of one block at a time, the same draws always."""

import math

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from mtkit.data.batches.segments import SegmentReader
from mtkit.data.prepared import open_prepared
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.network import PaddedLayout
from mtkit.text.token_ids import BOS
from mtkit.training import validation
from mtkit.training.averaging.evaluate_weights import WeightsEvaluator
from mtkit.training.averaging.model_record import Candidate
from mtkit.training.checkpoint import read_checkpoint
from mtkit.training.distributed import ProcessGroup
from mtkit.training.metrics import read_metrics
from mtkit.training.training_run import TrainingRun
from mtkit.training.validators import CausalValidator, MaskedValidator

ALONE = ProcessGroup(0, 1, torch.device("cpu"))


@pytest.fixture
def run(tiny_run_of, request):
    return tiny_run_of(request.param)


def model_of(run, data):
    torch.manual_seed(4)
    return build(ModelConfig.of(run.recipe, data.tokenizer)).train()


@pytest.mark.parametrize("run", ["causal-lm"], indirect=True)
def test_the_loss_of_a_causal_model_is_the_mean_over_tokens(run) -> None:
    data = open_prepared(run.recipe, run.workspace)
    model = model_of(run, data)
    validation = CausalValidator(TrainingRun(run.recipe, run.workspace, data), ALONE).validate(
        model
    )
    assert model.training
    model.eval()
    total, num_tokens = 0.0, 0
    for row in range(len(data.dev)):
        [block] = data.dev.gather(torch.tensor([row]).numpy())["text"].to_lists()
        inputs = torch.tensor([[BOS, *block[:-1]]])
        with torch.no_grad():
            logits = model.project(model(inputs, PaddedLayout.without_padding(inputs)))[0]
        wanted = torch.tensor(block)
        total += nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
        num_tokens += len(block)
    metrics = validation.metrics
    assert metrics["loss"] == metrics["nll"] == pytest.approx(total / num_tokens, rel=1e-5)
    assert validation.score == -metrics["loss"]
    assert metrics["perplexity"] == pytest.approx(math.exp(total / num_tokens), rel=1e-4)
    # Bits of the whole text, over its characters as the file has them: line ends, too.
    text = (run.recipe.data.data_root / "dev.txt").read_text("utf-8").replace("\n\n", "\n")
    assert metrics["bits_per_character"] == pytest.approx(total / math.log(2) / len(text), rel=1e-5)
    assert validation.scores == {}
    assert [sample["reference"] for sample in validation.samples] == [
        data.dev_text[0][index] for index in (0, 13, 26)
    ]
    for sample in validation.samples:
        assert sample["continued"].startswith(sample["beginning"])


@pytest.mark.parametrize("run", ["masked-lm"], indirect=True)
def test_a_masked_model_is_measured_on_the_same_draws_whatever_the_seed(run, tiny_run_of) -> None:
    data = open_prepared(run.recipe, run.workspace)
    model = model_of(run, data)
    first, second = (
        MaskedValidator(TrainingRun(run.recipe, run.workspace, data), ALONE).validate(model)
        for _ in range(2)
    )
    assert first == second
    other = run.recipe.model_copy(update={"seed": 77})
    assert MaskedValidator(TrainingRun(other, run.workspace, data), ALONE).validate(model) == first
    assert first.score == -first.metrics["loss"]
    assert set(first.scores) == {"masked_accuracy", "next_sentence_accuracy"}
    assert first.metrics["perplexity"] == pytest.approx(math.exp(first.metrics["nll"]))
    for sample in first.samples:
        assert list(sample) == ["masked", "reference", "filled"]
        assert "<mask>" not in sample["reference"]


@pytest.mark.parametrize("run", ["masked-lm"], indirect=True)
def test_what_a_masked_model_is_measured_by(run) -> None:
    # A network that always says the same: its losses and accuracies are known from the data.
    data = open_prepared(run.recipe, run.workspace)
    model = model_of(run, data)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.output_bias[7] = 1.0
        model.next_sentence.bias[1] = 2.0
    validator = MaskedValidator(TrainingRun(run.recipe, run.workspace, data), ALONE)
    metrics = validator.validate(model).metrics
    rows = torch.arange(len(data.dev)).numpy()
    reader = SegmentReader(
        data.dev, data.dev_documents, words=(1 << 32,), max_tokens=64, next_sentence=True
    )
    read = reader.read(rows, 0)
    hidden = validator._masker.mask(read, rows, 0)
    is_seven = (hidden.outputs == 7).mean()
    is_random = read.is_random.mean()
    assert metrics["masked_accuracy"] == pytest.approx(100 * is_seven)
    assert metrics["next_sentence_accuracy"] == pytest.approx(100 * is_random)
    # By hand: log of the sum of one e^1 and all other e^0, less 1 where seven is right.
    nll = math.log(math.e + data.tokenizer.source_vocab_size - 1) - is_seven
    pairs = math.log(math.e**2 + 1) - 2 * is_random
    assert metrics["nll"] == pytest.approx(nll, rel=1e-5)
    assert metrics["loss"] == pytest.approx(nll + pairs, rel=1e-5)


@pytest.mark.parametrize("run", ["causal-lm", "masked-lm"], indirect=True)
def test_an_average_is_measured_as_training_measures(run) -> None:
    assert run.train()
    last = read_checkpoint(max(run.workspace.checkpoints.glob("step-*")))
    opened = TrainingRun.open(run.recipe, run.workspace)
    measured = WeightsEvaluator(opened, torch.device("cpu")).measure(
        Candidate("last", (last,)), load_file(last.weights_file)
    )
    [*_, dev] = [line for line in read_metrics(run.workspace.metrics_file) if line["kind"] == "dev"]
    assert {name: dev[name] for name in measured.metrics} == measured.metrics


@pytest.mark.parametrize("run", ["causal-lm", "masked-lm"], indirect=True)
def test_several_processes_share_the_blocks(run, monkeypatch) -> None:
    monkeypatch.setattr(validation, "LOSS_TOKENS", 128)
    data = open_prepared(run.recipe, run.workspace)
    opened = TrainingRun(run.recipe, run.workspace, data)
    model = model_of(run, data)
    kind = CausalValidator if run.recipe.objective == "causal-lm" else MaskedValidator
    alone = kind(opened, ALONE).validate(model).metrics
    sums = []

    class One(ProcessGroup):
        def sum(self, values: torch.Tensor) -> torch.Tensor:
            sums.append(values.clone())
            return values

    for rank in range(3):
        kind(
            TrainingRun(run.recipe, run.workspace, data), One(rank, 3, torch.device("cpu"))
        ).validate(model)
    together = torch.stack(sums).sum(dim=0)
    kind(opened, One(0, 1, torch.device("cpu"))).validate(model)
    torch.testing.assert_close(together, sums[-1], rtol=1e-6, atol=0)
    assert alone["nll"] > 0
