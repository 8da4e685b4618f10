"""`mtkit average` as it is typed: which model it leaves, what it prints, what it refuses."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtkit.cli.app import app
from mtkit.training.checkpoint_folder import CheckpointFolder


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["average", *arguments], prog_name="mtkit")


@pytest.fixture
def trained(tiny_run, kept: Path):
    """A run with checkpoints at steps 3, 6, 9 and 12."""
    run = tiny_run("training.checkpoint_every=3", "training.averaging.num_checkpoints=2")
    run.train_once(kept)
    return run


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ([], [9, 12]),
        (["--last", "3"], [6, 9, 12]),
        (["--spaced", "2"], [3, 12]),
        (["--set", "training.averaging.choose=spaced"], [3, 12]),
    ],
)
def test_which_checkpoints_an_option_takes(trained, options: list[str], steps: list[int]) -> None:
    result = run(*trained.options, "--set", "training.averaging.if_worse=ignore", *options)
    assert (result.exit_code, result.stdout) == (0, "")
    assert trained.workspace.read_manifest()["model"]["steps"] == steps
    numbers = ", ".join(map(str, steps))
    assert result.stderr == f"averaged {len(steps)} checkpoints (steps {numbers})\n"


def test_the_best_two(trained) -> None:
    result = run(*trained.options, "--best", "2")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "warning: training.keep_best keeps only the best 1;" in result.stderr
    assert len(trained.workspace.read_manifest()["model"]["steps"]) == 2


def test_select_prints_a_table_with_one_winner(trained) -> None:
    result = run(*trained.options, "--select", "--device", "cpu")
    assert (result.exit_code, result.stdout) == (0, "")
    lines = [line for line in result.stderr.splitlines() if line[0] in "┃│"]
    assert lines[0].replace("┃", " ").split() == ["candidate", "steps", "BLEU", "chrF", "loss"]
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines[1:]]
    record = trained.workspace.read_manifest()["model"]
    assert [[row[0], row[1]] for row in rows] == [
        [one["name"], " ".join(map(str, one["steps"]))] for one in record["selection"]["candidates"]
    ]
    [winner] = [row for row in rows if row[-1] == "winner"]
    assert winner[1] == " ".join(map(str, record["steps"]))
    assert f"the winner by development BLEU is {winner[0]}; model/ is made from" in result.stderr


def test_a_mean_that_is_named_is_made_and_warned_of_with_a_command_that_finds_better(
    tiny_run,
) -> None:
    # The loss falls fast, so that a mean with early checkpoints is worse than the last alone.
    rate = "training.schedule.peak=2e-2"
    run_of_four = tiny_run(
        "training.checkpoint_every=3", "training.validation.metric=loss", rate, name="a run"
    )
    assert run_of_four.train()
    losses = [
        -checkpoint.score
        for checkpoint in CheckpointFolder(run_of_four.workspace.checkpoints).list()
    ]
    assert losses == sorted(losses, reverse=True)
    result = run(*run_of_four.options, "--last", "4")
    found = re.search(
        r"warning: the average scores worse than the best single checkpoint: development loss "
        r"([\d.]+), against ([\d.]+) for the checkpoint of step 12; .*: "
        r"(mtkit average .* --select)\n",
        result.stderr,
    )
    assert found is not None, result.stderr
    mean, best, command = float(found[1]), float(found[2]), found[3]
    assert mean > best == pytest.approx(losses[-1], abs=5e-4)
    assert run_of_four.workspace.read_manifest()["model"]["steps"] == [3, 6, 9, 12]
    unnamed = run(*run_of_four.options, "--set", "training.averaging.num_checkpoints=4")
    assert "model/ is that checkpoint" in unnamed.stderr
    assert run_of_four.workspace.read_manifest()["model"]["steps"] == [12]

    # "averaged", then the same in the table of all.
    result = run(*shlex.split(command)[2:])
    assert result.exit_code == 0
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in result.stderr.splitlines()
        if line.startswith("│")
    ]
    table = {row[1]: float(row[-2]) for row in rows}
    assert table.keys() == {"12", "9 12", "6 9 12", "3 6 9 12"}
    assert (table["12"], table["3 6 9 12"]) == (best, mean)
    [winner] = [float(row[-2]) for row in rows if row[-1] == "winner"]
    assert winner == min(table.values())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--last", "1", "--spaced", "2"], "--last and --spaced can't be combined"),
        (["--best", "1", "--select"], "--best and --select can't be combined"),
        (["--spaced", "1", "--select"], "--spaced and --select can't be combined"),
        (["--spaced", "0"], "'--spaced'"),
    ],
)
def test_a_usage_fault_exits_2(options: list[str], words: str) -> None:
    result = run(*options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_no_checkpoints_yet(tiny_run) -> None:
    untrained = tiny_run()
    result = run(*untrained.options, "--select")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: {untrained.workspace.checkpoints}: no checkpoints\nhint: run `mtkit train` first\n"
    )


def test_checkpoints_of_another_run(trained) -> None:
    result = run(*trained.options, "--set", "model.num_heads=4", "--select")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{trained.workspace.checkpoints} contains checkpoints of another run" in result.stderr
    assert "model.num_heads was 2, now 4" in result.stderr
