"""One process with accumulation = several processes, on the same global batches, dropout off."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtkit.data.prepare import prepare

SCRIPT = Path(__file__).with_name("one_rank.py")
NO_DROPOUT = ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0")


def train(run, folder: Path, dtype: str, num_steps: int, num_processes: int, *overrides: str):
    """Returns what every rank ended with, by rank."""
    folder.mkdir()
    arguments = [sys.executable, str(SCRIPT), run.options[1], str(run.workspace.root), dtype]
    arguments += [str(folder), *NO_DROPOUT, f"training.max_steps={num_steps}", *overrides]
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(num_processes):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_processes}
        environment = {**place, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
        environment = {key: str(value) for key, value in environment.items()}
        ranks.append(subprocess.Popen(arguments, env={**os.environ, **environment}))
    assert [rank.wait(timeout=300) for rank in ranks] == [0] * num_processes
    return [load_file(folder / f"rank{rank}.safetensors") for rank in range(num_processes)]


def greatest_difference(ours: dict, theirs: dict, kind: str) -> float:
    """Returns the greatest difference of any number, relative to the greatest number."""
    names = [name for name in ours if name.startswith(kind)]
    assert ours.keys() == theirs.keys()
    assert names
    difference = max((ours[name] - theirs[name]).abs().max().item() for name in names)
    return difference / max(theirs[name].abs().max().item() for name in names)


def test_one_updates_gradients_in_single_precision(tiny_run, tmp_path: Path) -> None:
    run = tiny_run()
    [one] = train(run, tmp_path / "one", "float32", 1, 1)
    first, second = train(run, tmp_path / "two", "float32", 1, 2)
    assert greatest_difference(first, one, "gradient") <= 1e-5
    # Both ranks hold the same sum, to the bit.
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_fifty_updates_in_double_precision(tiny_run, tmp_path: Path) -> None:
    run = tiny_run()
    [one] = train(run, tmp_path / "one", "float64", 50, 1)
    first, second = train(run, tmp_path / "two", "float64", 50, 2)
    assert greatest_difference(first, one, "weight") <= 1e-10
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_accumulation_changes_nothing(tiny_run, tmp_path: Path) -> None:
    run = tiny_run()
    [whole] = train(run, tmp_path / "whole", "float64", 3, 1, "training.micro_batch_tokens=4096")
    [parts] = train(run, tmp_path / "parts", "float64", 3, 1, "training.micro_batch_tokens=256")
    assert greatest_difference(parts, whole, "weight") <= 1e-10


def test_sampled_segmentations_are_the_same_in_any_process(tiny_run, tmp_path: Path) -> None:
    sampling = "tokenizer.sampling={alpha=0.2}"
    run = tiny_run(sampling)
    prepare(run.recipe, run.workspace)
    [one] = train(run, tmp_path / "one", "float64", 5, 1, sampling)
    first, second = train(run, tmp_path / "two", "float64", 5, 2, sampling)
    assert greatest_difference(first, one, "weight") <= 1e-10
    assert all(torch.equal(first[name], second[name]) for name in first)
