"""Sharded updates are those of ranks that each update all weights; PyTorch's AdamW is the peer."""

import math
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from mtkit.data.prepare import prepare

from .one_rank import run_together
from .sharded_rank import (
    CASES,
    NUM_EXAMPLES,
    NUM_RANKS,
    NUM_UPDATES,
    RATE,
    build_network,
    draw,
    measure,
)
from .test_processes import NO_DROPOUT, greatest_difference, losses, sentences, train

SHARD = "training.shard=true"
SETTINGS = (
    *NO_DROPOUT,
    "training.optimizer.weight_decay=0.1",
    "training.clipping.max_norm=0.5",
    "training.moving_average.decay=0.9",
)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Tensor]]]:
    """What every rank ended each case with."""
    found = run_together("sharded_rank", tmp_path_factory.mktemp("ranks"), NUM_RANKS)
    cases: list[dict[str, dict[str, Tensor]]] = [{} for _ in found]
    for rank, tensors in zip(cases, found, strict=True):
        for key, tensor in tensors.items():
            case, _, name = key.partition("/")
            rank.setdefault(case, {})[name] = tensor
    return cases


def train_by_torch(name: str) -> dict[str, Tensor]:
    """Returns what torch's optimizer makes of whole updates in one process."""
    case, model = CASES[name], build_network().double()
    weights = {key: one for key, one in model.named_parameters() if key not in case.frozen}
    decay = 0.3 if any("weight_decay" in key for key in case.overrides) else 0.0
    matrices, vectors = ([one for one in weights.values() if one.ndim == n] for n in (2, 1))
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.98), eps=1e-9, foreach=False)
    averages = {key: one.detach().clone() for key, one in weights.items()}
    norms = []
    for update in range(NUM_UPDATES):
        if name == "NaN" and update == 1:
            continue
        optimizer.zero_grad()
        (measure(model, draw(update)) / NUM_EXAMPLES).backward()
        limit = 0.2 if any("clipping" in key for key in case.overrides) else math.inf
        norms.append(torch.nn.utils.clip_grad_norm_(weights.values(), limit))
        optimizer.step()
        # By hand, with the first updates' smaller decay: (1 + t) / (10 + t).
        share = min(0.6, (2 + update) / (11 + update))
        for key, one in weights.items():
            averages[key] = share * averages[key] + (1 - share) * one.detach()
    found = {
        "norms": torch.stack(norms),
        **{k: one.detach() for k, one in model.named_parameters()},
    }
    for key, one in weights.items():
        found[f"average.{key}"] = averages[key]
        for moment in ("exp_avg", "exp_avg_sq"):
            found[f"{moment}.{key}"] = optimizer.state[one][moment]
    return found


@pytest.mark.parametrize("name", [name for name in CASES if "16" not in name])
def test_updates_are_those_of_torchs_optimizer(ranks, name: str) -> None:
    ours, expected = ranks[0][name], train_by_torch(name)
    for key, tensor in ours.items():
        if key in expected:
            torch.testing.assert_close(tensor, expected[key], rtol=1e-10, atol=1e-14)
    assert {key for key in expected if "exp_avg" in key} == {
        key for key in ours if "exp_avg" in key
    }
    assert ("average.0.weight" in ours) == (name == "averaged")
    applied = ours["results"][:, 2].bool()
    assert applied.tolist() == [name != "NaN" or update != 1 for update in range(NUM_UPDATES)]
    assert int(ours["step"]) == applied.sum()
    torch.testing.assert_close(ours["results"][applied, 1], expected["norms"], rtol=1e-10, atol=0.0)
    # All that any rank knows of the others' parts comes from them.
    for rank in ranks:
        for key in rank[name].keys() & ours.keys() - {"num_moments"}:
            assert torch.equal(rank[name][key].nan_to_num(), ours[key].nan_to_num()), key


def test_each_rank_has_its_share_of_the_moments(ranks) -> None:
    counts = [int(rank["clipped"]["num_moments"]) for rank in ranks]
    # By hand. Weights of 600, 30, 150 and 5 numbers begin at 0, 640, 704 and 896 and end at 960:
    # parts are of 256, also a multiple of 64.
    assert counts == [256, 256, 88 + 30 + 64, 86 + 5]
    whole = [int(rank["bf16 whole"]["num_moments"]) for rank in ranks]
    assert whole == [600 + 30 + 150 + 5] * NUM_RANKS


def test_memory_that_runs_out_on_one_rank_makes_all_repeat(ranks) -> None:
    for rank in ranks:
        assert rank["short of memory"]["results"][:, 3].tolist() == [32.0, 32.0, 4.0, 4.0, 4.0]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_in_16_bits_are_summed_in_fp32(ranks, precision: str) -> None:
    ours, whole = ranks[0][precision], ranks[0][f"{precision} whole"]
    factors = ours["results"][:, 4]
    assert (factors < 2**20).all() if precision == "fp16" else (factors == 1).all()
    assert ours.keys() == whole.keys()
    for key, tensor in whole.items():
        if key != "num_moments":
            torch.testing.assert_close(ours[key], tensor, rtol=1e-5, atol=1e-6)


def read_checkpoint(folder: Path, step: int) -> dict[str, Tensor]:
    """Returns the tensors of all files of a checkpoint."""
    files = sorted((folder / "checkpoints" / f"step-{step:08d}").glob("*.safetensors"))
    assert [path.stem for path in files] == ["model", "optimizer", "weights"]
    return {f"{path.stem}.{name}": one for path in files for name, one in load_file(path).items()}


def test_many_updates_in_double_precision(tiny_run, tmp_path: Path) -> None:
    run = tiny_run()
    [one] = train(run, tmp_path / "one", (1, 256), 15, *SETTINGS)
    expected = read_checkpoint(tmp_path / "one", 15)
    for count in (2, 4):
        folder = tmp_path / str(count)
        sharded = train(run, folder, (count, 256), 15, *SETTINGS, SHARD)
        assert losses(folder) == pytest.approx(losses(tmp_path / "one"), rel=1e-10, abs=0)
        assert greatest_difference(sharded[0], one, "weight") <= 1e-10
        assert sentences(sharded) == sentences([one])
        found = read_checkpoint(folder, 15)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert (found[name].shape, found[name].dtype) == (tensor.shape, tensor.dtype)
        for kind in ("optimizer.exp_avg.", "optimizer.exp_avg_sq."):
            assert greatest_difference(found, expected, kind) <= 1e-10
        # In single precision.
        for kind in ("weights", "model"):
            assert greatest_difference(found, expected, kind) <= 1e-6


def test_two_ranks_without_clipping_have_the_same_bits(tiny_run, tmp_path: Path) -> None:
    # A sum of two doesn't depend on its order, and Adam's arithmetic not on where a tensor is cut.
    run = tiny_run()
    settings = ("training.optimizer.weight_decay=0.1", "training.moving_average.decay=0.9")
    for name, shard in (("whole", ()), ("sharded", (SHARD,))):
        train(run, tmp_path / name, (2, 256), 8, *settings, *shard, dtype="float32")
    files = ("checkpoints/step-00000008/" + name for name in ("model", "optimizer", "weights"))
    for file in files:
        paths = [tmp_path / name / f"{file}.safetensors" for name in ("whole", "sharded")]
        assert paths[0].read_bytes() == paths[1].read_bytes(), file


def test_resumed_with_and_without_shards_by_other_numbers_of_processes(
    tiny_run, tmp_path: Path
) -> None:
    run = tiny_run()
    stops = (6, 13, 19)
    found = {}
    for name, layouts in {
        "one": [(1, ())] * 3,
        "from shards": [(2, (SHARD,)), (4, (SHARD,)), (1, (SHARD,))],
        "to shards": [(2, ()), (3, (SHARD,)), (2, ())],
    }.items():
        for end, (count, shard) in zip(stops, layouts, strict=True):
            train(run, tmp_path / name, (count, 256), end, *SETTINGS, *shard)
        found[name] = losses(tmp_path / name), read_checkpoint(tmp_path / name, stops[-1])
    train(run, tmp_path / "never stopped", (1, 256), stops[-1], *SETTINGS)
    one, tensors = found.pop("one")
    for ours, ended_with in found.values():
        assert ours == pytest.approx(one, rel=1e-10, abs=0)
        for kind in ("optimizer.exp_avg.", "optimizer.exp_avg_sq."):
            assert greatest_difference(ended_with, tensors, kind) <= 1e-9
    # A checkpoint keeps weights in single precision, so that this is no closer.
    assert one == pytest.approx(losses(tmp_path / "never stopped"), rel=1e-5, abs=0)


@pytest.mark.patient
@pytest.mark.parametrize(
    "settings",
    [
        ("training.freeze=['encoder']", "training.moving_average.decay=0.9"),
        ("training.precision=bf16", "training.optimizer.weight_decay=0.1"),
        ("training.lora={rank=2}", "training.start_from.model={base}", "training.lora.alpha=8"),
    ],
)
def test_the_command_trains_the_same_bits_in_two_processes(tiny_run, kept: Path, settings) -> None:
    base = tiny_run(name="base")
    base.train_once(kept)
    filled = [setting.replace("{base}", str(base.workspace.model)) for setting in settings]
    found = []
    for shard in ("false", "true"):
        run = tiny_run(*filled, f"training.shard={shard}", name=shard)
        prepare(run.recipe, run.workspace)
        # Resumed once.
        for end in (7, 12):
            command = run.command("train", "--processes", "2", "--set", f"training.max_steps={end}")
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        found.append(
            {
                f"{path.parent.name}/{path.name}": path.read_bytes()
                for path in run.workspace.checkpoints.glob("step-*/*.safetensors")
            }
        )
    assert {path.split("/")[0] for path in found[0]} == {f"step-{n:08d}" for n in (5, 7, 10, 12)}
    assert found[0] == found[1]
