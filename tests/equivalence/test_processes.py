"""Any number of processes, any cut into micro-batches: the same updates, dropout off."""

import shutil
from pathlib import Path

import pytest
import torch

from mtkit.data.prepare import prepare
from mtkit.training.metrics import read_metrics

from .one_rank import Job, train_together

NO_DROPOUT = ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0")
LAYOUTS = [(2, 256), (4, 256), (1, 4096), (2, 400)]
"""Processes, and the tokens of a micro-batch; compared with one process and 256."""


def train(
    run, folder: Path, layout: tuple[int, int], num_steps: int, *overrides: str, dtype="float64"
) -> list[dict[str, torch.Tensor]]:
    """Returns what every rank ended with, by rank; they go on from the folder's checkpoints."""
    folder.mkdir(exist_ok=True)
    num_processes, micro_batch_tokens = layout
    settings = (
        f"training.micro_batch_tokens={micro_batch_tokens}",
        f"training.max_steps={num_steps}",
        f"training.checkpoint_every={num_steps}",
        "training.log_every=1",
    )
    job = Job(run.options[1], (*settings, *overrides), run.workspace.root, dtype, folder)
    ranks = train_together(job, num_processes)
    # All ranks hold the same, to the bit.
    for name, tensor in ranks[0].items():
        if not name.startswith("seen."):
            assert all(torch.equal(rank[name], tensor) for rank in ranks)
    return ranks


def greatest_difference(ours: dict, theirs: dict, kind: str) -> float:
    """Returns the greatest difference of any number, relative to the greatest number."""
    names = [name for name in theirs if name.startswith(kind)]
    assert names
    difference = max((ours[name] - theirs[name]).abs().max().item() for name in names)
    return difference / max(theirs[name].abs().max().item() for name in names)


def losses(folder: Path) -> dict[int, float]:
    """Returns the logged loss of each step."""
    lines = read_metrics(folder / "metrics.jsonl")
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "train"}


def sentences(ranks: list[dict[str, torch.Tensor]]) -> dict[str, list[int]]:
    """Returns the sentences of each update, of all ranks together."""
    names = [name for name in ranks[0] if name.startswith("seen.")]
    return {name: sorted(torch.cat([rank[name] for rank in ranks]).tolist()) for name in names}


OTHERS = ("decoder-only", "causal-lm", "masked-lm", "denoising", "classification")


@pytest.mark.parametrize(
    "objective",
    # In double precision below, all of them.
    ["translation", *(pytest.param(each, marks=pytest.mark.patient) for each in OTHERS)],
)
def test_one_updates_gradients_in_single_precision(
    tiny_run_of, tmp_path: Path, objective: str
) -> None:
    run = tiny_run_of(objective)
    [one] = train(run, tmp_path / "one", (1, 256), 1, *NO_DROPOUT, dtype="float32")
    for layout in LAYOUTS:
        folder = tmp_path / str(layout)
        ranks = train(run, folder, layout, 1, *NO_DROPOUT, dtype="float32")
        assert greatest_difference(ranks[0], one, "gradient") <= 1e-5, layout


def test_twenty_updates_in_single_precision(tiny_run, tmp_path: Path) -> None:
    # Each weight: also those whose gradient is 0, of which Adam would make full steps of rounding.
    run = tiny_run()
    [one] = train(run, tmp_path / "one", (1, 256), 20, *NO_DROPOUT, dtype="float32")
    first, _ = train(run, tmp_path / "two", (2, 256), 20, *NO_DROPOUT, dtype="float32")
    assert greatest_difference(first, one, "weight") <= 1e-5


# An epoch of pairs has eleven updates.
@pytest.mark.parametrize(
    ("objective", "end"),
    [
        ("translation", 13),
        pytest.param("translation", 50, marks=pytest.mark.patient),
        *((objective, 13) for objective in OTHERS),
    ],
)
@pytest.mark.slow
def test_many_updates_in_double_precision(
    tiny_run_of, tmp_path: Path, objective: str, end: int
) -> None:
    run = tiny_run_of(objective)
    # All objectives go through all layouts by their first update.
    layouts = LAYOUTS if objective == "translation" else [(2, 256), (1, 4096)]
    [one] = train(run, tmp_path / "one", (1, 256), end, *NO_DROPOUT)
    expected = losses(tmp_path / "one")
    assert list(expected) == list(range(1, end + 1))
    for layout in layouts:
        folder = tmp_path / str(layout)
        ranks = train(run, folder, layout, end, *NO_DROPOUT)
        assert losses(folder) == pytest.approx(expected, rel=1e-10, abs=0), layout
        assert greatest_difference(ranks[0], one, "weight") <= 1e-10, layout
        assert sentences(ranks) == sentences([one]), layout


def test_resumed_by_another_number_of_processes(tiny_run, tmp_path: Path) -> None:
    run = tiny_run()
    # An epoch has eleven updates: this is in the midst of the second.
    middle, end = 17, 24
    train(run, tmp_path / "never stopped", (1, 256), end, *NO_DROPOUT)
    for num_before in (1, 2):
        stopped = tmp_path / f"stopped {num_before}"
        train(run, stopped, (num_before, 256), middle, *NO_DROPOUT)
        found = {}
        for num_after in (1, 2):
            folder = tmp_path / f"from {num_before} to {num_after}"
            shutil.copytree(stopped, folder)
            train(run, folder, (num_after, 256), end, *NO_DROPOUT)
            found[num_after] = losses(folder)
        assert list(found[1]) == list(range(1, end + 1))
        assert found[2] == pytest.approx(found[1], rel=1e-10, abs=0)
        # A checkpoint keeps weights in single precision, so that this is no closer.
        expected = losses(tmp_path / "never stopped")
        assert found[1] == pytest.approx(expected, rel=1e-5, abs=0)


def test_sampled_segmentations_are_the_same_in_any_process(tiny_run, tmp_path: Path) -> None:
    settings = ("tokenizer.sampling={alpha=0.2}", *NO_DROPOUT)
    run = tiny_run(settings[0])
    prepare(run.recipe, run.workspace)
    [one] = train(run, tmp_path / "one", (1, 256), 5, *settings)
    for sharding in ("false", "true"):
        folder, shard = tmp_path / f"two, {sharding}", f"training.shard={sharding}"
        first, _ = train(run, folder, (2, 256), 5, *settings, shard)
        assert greatest_difference(first, one, "weight") <= 1e-10
        # Each counts the tokens that it draws, and the log has all ranks'.
        assert losses(folder) == pytest.approx(losses(tmp_path / "one"), rel=1e-10, abs=0)


def test_dropout_masks_are_a_layouts_own_and_sentences_are_not(tiny_run, tmp_path: Path) -> None:
    run = tiny_run()
    layouts = [(1, 256), (1, 4096), (2, 256), (4, 256)]
    ended = {layout: train(run, tmp_path / str(layout), layout, 5) for layout in layouts}
    again = train(run, tmp_path / "again", (2, 256), 5)
    first = ended[2, 256][0]
    assert all(torch.equal(again[0][name], first[name]) for name in first)
    for number, layout in enumerate(layouts):
        for other in layouts[:number]:
            ours, theirs = ended[layout], ended[other]
            # Adam's first updates are as long as the learning rate, which rises to 3e-3.
            assert greatest_difference(ours[0], theirs[0], "weight") > 1e-3, (layout, other)
            assert sentences(ours) == sentences(theirs)


def test_updates_of_a_guided_head(tiny_run, tmp_path: Path) -> None:
    guided = "training.guided_alignment.weight=0.5"
    run = tiny_run(guided)
    prepare(run.recipe, run.workspace)
    [one] = train(run, tmp_path / "one", (1, 256), 4, guided, *NO_DROPOUT)
    for layout in [(2, 256), (1, 4096)]:
        folder = tmp_path / str(layout)
        ranks = train(run, folder, layout, 4, guided, *NO_DROPOUT)
        assert losses(folder) == pytest.approx(losses(tmp_path / "one"), rel=1e-10, abs=0)
        assert greatest_difference(ranks[0], one, "gradient") <= 1e-10, layout
    # The head's loss is in it: at first the logarithm of the source's length, or about that.
    least = "training.guided_alignment.weight=1e-9"
    train(run, tmp_path / "least", (1, 256), 1, least, *NO_DROPOUT)
    assert losses(tmp_path / "one")[1] > losses(tmp_path / "least")[1] + 0.2


def test_r_drop_s_updates(tiny_run, tmp_path: Path) -> None:
    run = tiny_run()
    # Dropout that drops nothing: both passes are the same, and so are the updates.
    drops_nothing = ("training.r_drop.alpha=3", "model.dropout=1e-9", *NO_DROPOUT[1:])
    [plain] = train(run, tmp_path / "plain", (1, 256), 4, *NO_DROPOUT)
    for layout in [(1, 256), (2, 256), (1, 4096)]:
        folder = tmp_path / str(layout)
        ranks = train(run, folder, layout, 4, *drops_nothing)
        assert losses(folder) == pytest.approx(losses(tmp_path / "plain"), rel=1e-10, abs=0)
        assert greatest_difference(ranks[0], plain, "gradient") <= 1e-10, layout
    # With dropout both ranks hold the same, and another alpha is another training.
    alphas = "training.r_drop.alpha=3", "training.r_drop.alpha=1"
    ended = [train(run, tmp_path / alpha, (2, 256), 4, alpha)[0] for alpha in alphas]
    assert greatest_difference(*ended, "gradient") > 1e-3
