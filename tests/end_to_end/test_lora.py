"""LoRA through a whole training: what learns, what is kept, what translates, what is refused."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit import Translator
from mtkit.data.prepare import prepare
from mtkit.errors import MtkitError
from mtkit.inference.translation import Translation
from mtkit.model.adapter import list_weight_files
from mtkit.pipeline.plan import plan
from mtkit.pipeline.prepare import TorchLanguageModels
from mtkit.pipeline.translate import load_models
from mtkit.training import loop
from mtkit.training.averaging.average import average
from mtkit.training.averaging.model_record import ModelRecord
from mtkit.training.metrics_log import MetricsLog

from ..equivalence.test_resume import interrupting

LINES = ["The man sleeps.", "The old man buys three red apples."]
LORA = "training.lora={{rank=2, alpha=8.0, maps=['query','value','feed-forward'], {more}}}"
ADAPTER = "dropout=0.1, release='adapter'"
FEW = ("training.schedule.peak=1e-1", "training.checkpoint_every=6")


@pytest.fixture(autouse=True, scope="module")
def no_pictures() -> Iterator[None]:
    """Drawing the learning curve takes longer than all else of so small a training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "draw", lambda _: None)
        yield


@pytest.fixture
def base(tiny_run, kept: Path) -> Path:
    """A trained model's folder."""
    run = tiny_run(name="base")
    run.train_once(kept)
    return run.workspace.model


@pytest.fixture
def adapt_base(tiny_run, base: Path) -> Callable:
    """A function that returns a prepared run that adapts `base`."""

    def make(*overrides: str, more: str = "dropout=0.1", name: str = "tuned"):
        start = f"training.start_from.model={base}"
        run = tiny_run(start, LORA.format(more=more), *FEW, *overrides, name=name)
        prepare(run.recipe, run.workspace)
        return run

    return make


def test_only_the_updates_learn_and_are_in_checkpoints(adapt_base, base: Path, capsys) -> None:
    run = adapt_base()
    capsys.readouterr()
    assert run.train()
    said = capsys.readouterr().err
    checkpoint = run.workspace.checkpoints / "step-00000012"
    learned = load_file(checkpoint / "model.safetensors")
    # By hand: 2 + 1 layers of 16 wide, 32 inside. Self-attention: two pairs of 16 x 2 and 2 x 16;
    # feed-forward: two of 32 x 2 and 2 x 16; the decoder attends to the source as well.
    num_learned = 3 * (2 * 64 + 2 * 96) + 2 * 64
    assert sum(weight.numel() for weight in learned.values()) == num_learned
    moments = load_file(checkpoint / "optimizer.safetensors")
    assert sum(each.numel() for each in moments.values()) == 2 * num_learned + 1
    assert "14,192 of them frozen" in said
    planned = plan(run.recipe, run.workspace)
    assert (planned.num_trainable, planned.num_added) == (num_learned, num_learned)
    assert planned.weights.total == 14_192
    # W + alpha / rank * up down, in the rows of queries and of values; all else is the base's.
    before, after = (load_file(f / "model.safetensors") for f in (base, run.workspace.model))
    assert before.keys() == after.keys()
    name = "encoder.layers.0.attention.query_key_value"
    expected = before[f"{name}.weight"].clone()
    for each, first in (("query", 0), ("value", 32)):
        up, down = (learned[f"{name}.low_rank.{each}.{which}"] for which in ("up", "down"))
        expected[first : first + 16] += 4.0 * up @ down
    torch.testing.assert_close(after[f"{name}.weight"], expected, rtol=0, atol=1e-6)
    assert not torch.equal(after[f"{name}.weight"], before[f"{name}.weight"])
    changed = {key for key in before if not torch.equal(before[key], after[key])}
    assert all(".output." not in key or "feed_forward" in key for key in changed)
    assert all(key.endswith(".weight") and "norm" not in key for key in changed)


@pytest.mark.parametrize("more", ["dropout=0.1", "train_embeddings=true, release='adapter'"])
def test_stopped_and_resumed_is_never_stopped(adapt_base, monkeypatch, more: str) -> None:
    whole, parts = (adapt_base(more=more, name=name) for name in ("whole", "parts"))
    assert whole.train()
    for step in (1, 7):
        with monkeypatch.context() as patch:
            patch.setattr(loop, "learning_rate", interrupting(loop.learning_rate, step))
            assert not parts.train()
    assert parts.train()
    assert parts.weights() == whole.weights()


def test_an_adapter_translates_as_the_merged_model(adapt_base, base: Path, capsys) -> None:
    merged = adapt_base(name="merged")
    beside = adapt_base(more=ADAPTER, name="beside")
    assert merged.train()
    assert beside.train()
    folder = beside.workspace.model
    assert not (folder / "model.safetensors").exists()
    assert (folder / "adapter.safetensors").stat().st_size < 12_000
    # What holds several such models at once counts the weights of the base, too.
    whole = sum(path.stat().st_size for path in list_weight_files(folder))
    assert whole > (base / "model.safetensors").stat().st_size
    assert TorchLanguageModels("cpu").needs([folder]).num_bytes > 2 * whole
    wanted = Translator(merged.workspace.model).search(LINES)
    found = Translator(folder).search(LINES)
    [best] = ModelRecord.read(beside.workspace).steps
    checkpoint = load_models([beside.workspace.checkpoints / f"step-{best:08d}"]).search(LINES)
    assert [_describe(one) for one in found] == [_describe(one) for one in wanted]
    assert [one.text for one in checkpoint] == [one.text for one in wanted]
    # The same run's mean, merged, by a key that concerns the result alone.
    average(beside.recipe, beside.workspace, choose="last", num_checkpoints=2)
    assert (folder / "adapter.json").is_file()
    capsys.readouterr()
    # Both move together; without its base, or beside another, it says so.
    aside = base.with_name("aside")
    base.rename(aside)
    with pytest.raises(MtkitError, match="the model that it updates isn't there"):
        Translator(folder)
    shutil.copytree(aside, base)
    weights = load_file(base / "model.safetensors")
    save_file({key: weight + 1e-3 for key, weight in weights.items()}, base / "model.safetensors")
    with pytest.raises(MtkitError, match=r"isn't the model that the adapter .* was trained with"):
        Translator(folder)
    with pytest.raises(MtkitError, match=r"low-rank updates .* aren.t of the current"):
        adapt_base("training.max_steps=13", more=ADAPTER, name="beside").train()


def _describe(translation: Translation) -> tuple[str, float]:
    return translation.text, translation.candidates[0].score


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.freeze=['encoder']", "training.lora freezes all of the model's own weights"),
        ("training.lora.maps=['keys']", 'did you mean "key"?|expected "query"'),
        ("training.lora.rank=0", "training.lora.rank"),
        (
            "training.start_from={decoder='x'}",
            "name it as training.start_from.model",
        ),
        (
            "training.start_from={model='x', vocabulary='extend'}",
            "training.lora.train_embeddings",
        ),
    ],
)
def test_what_cannot_be_combined_is_refused(tiny_run, override: str, message: str) -> None:
    with pytest.raises(MtkitError, match=message):
        tiny_run("training.start_from.model=x", "training.lora.release=adapter", override)


def test_lora_needs_a_start(tiny_run) -> None:
    with pytest.raises(MtkitError, match=r"name it as training.start_from.model"):
        tiny_run("training.lora.rank=4")


def test_two_processes_learn_what_one_does(adapt_base) -> None:
    no_dropout = [f"model.{kind}dropout=0" for kind in ("", "attention_", "activation_")]
    one = adapt_base(*no_dropout, "training.schedule.peak=1e-2", more="dropout=0.0", name="one")
    two = adapt_base(*no_dropout, "training.schedule.peak=1e-2", more="dropout=0.0", name="two")
    assert one.train()
    done = subprocess.run(
        two.command("train", "--processes", "2"), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    weights = [
        load_file(run.workspace.checkpoints / "step-00000012" / "model.safetensors")
        for run in (one, two)
    ]
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=0, atol=2e-3)


def test_in_bf16(adapt_base) -> None:
    run = adapt_base("training.precision=bf16")
    assert run.train()
    assert run.weights().keys() == {"model.safetensors", "optimizer.safetensors"}
