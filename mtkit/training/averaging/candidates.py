"""Candidates for the run's model: single checkpoints and sets to take the mean of, compared."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from rich.console import Console
from rich.table import Table

from mtkit.training.averaging.record import CandidateRecord, write_metric
from mtkit.training.checkpoint import Checkpoint, choose_best, list_steps
from mtkit.training.metrics import LABELS, restore_sign
from mtkit.training.validation import ValidationResult

Choice = Literal["last", "best", "spaced"]
"""How the checkpoints of a mean are chosen: `training.averaging.choose`."""
_COUNTS = (2, 3, 5, 10, 20)
"""Of how many checkpoints means are compared, besides what the recipe says and all of them."""


@dataclass(frozen=True)
class Candidate:
    """Checkpoints whose mean may become the model.

    Attributes:
        name: Every way by which they are chosen: `last`, `best 5`, or `last 3, spaced 3`.
        checkpoints: One or several, oldest first.
    """

    name: str
    checkpoints: tuple[Checkpoint, ...]

    @property
    def steps(self) -> list[int]:
        """The checkpoints' steps."""
        return list_steps(self.checkpoints)

    @property
    def files(self) -> list[Path]:
        """The checkpoints' weights."""
        return [checkpoint.weights_file for checkpoint in self.checkpoints]


@dataclass(frozen=True)
class Measured:
    """A candidate and what it is worth on the development set.

    Attributes:
        candidate: What was measured.
        score: What ranks it; greater is better, and what isn't finite ranks below all else.
        metrics: Scores and loss by name; of a score that training measured, that alone.
    """

    candidate: Candidate
    score: float
    metrics: dict[str, float]

    @classmethod
    def of(cls, candidate: Candidate, validation: ValidationResult) -> "Measured":
        """Returns a candidate with what a validation found."""
        score = validation.score if math.isfinite(validation.score) else -math.inf
        return cls(candidate, score, validation.scores | {"loss": validation.metrics["loss"]})

    @classmethod
    def by_training(cls, checkpoint: Checkpoint, metric: str) -> "Measured":
        """Returns a checkpoint with the score that training gave it."""
        score = checkpoint.score
        assert score is not None
        return cls(Candidate("best", (checkpoint,)), score, {metric: restore_sign(metric, score)})

    def record(self) -> CandidateRecord:
        """Returns it for the manifest."""
        finite = {k: v if math.isfinite(v) else None for k, v in self.metrics.items()}
        return CandidateRecord(name=self.candidate.name, steps=self.candidate.steps, metrics=finite)


def choose_checkpoints(saved: Sequence[Checkpoint], choose: Choice, count: int) -> list[Checkpoint]:
    """Returns the last checkpoints, the best, or some spread over all, in the order of their steps.

    One that was saved at a stop, between two regular ones, has no score and isn't counted.
    """
    regular = [checkpoint for checkpoint in saved if checkpoint.score is not None]
    match choose:
        case "last":
            return regular[-count:]
        case "best":
            return sorted(choose_best(regular, count), key=lambda checkpoint: checkpoint.state.step)
        case "spaced":
            return [regular[index] for index in spread(list_steps(regular), count)]


def spread(steps: Sequence[int], count: int) -> list[int]:
    """Returns the indices of `count` steps that lie evenly between the first and the last of all.

    Each of as many evenly spaced points takes the nearest step, the later of two that are equally
    near, of those that are left and that leave enough for the points after it. One point takes the
    last step; more points than steps take them all.

    Args:
        steps: In ascending order.
        count: How many to take.
    """
    if count >= len(steps):
        return list(range(len(steps)))
    if count == 1:
        return [len(steps) - 1]
    chosen: list[int] = []
    num_gaps = count - 1
    for number in range(count):
        # Distances times the number of gaps are whole numbers: no rounding decides a tie.
        point = steps[0] * num_gaps + (steps[-1] - steps[0]) * number
        free = range(chosen[-1] + 1 if chosen else 0, len(steps) - num_gaps + number)
        distances = {index: abs(steps[index] * num_gaps - point) for index in free}
        nearest = min(distances.values())
        chosen.append(max(index for index in free if distances[index] == nearest))
    return chosen


def list_candidates(saved: Sequence[Checkpoint], count: int) -> list[Candidate]:
    """Returns the last checkpoint, the best, and means of several numbers, each set of steps once.

    Means are of the last and of the best 2, 3, 5, 10, 20, `count` and all, as far as there are so
    many, and of `count` that are spread evenly. The last checkpoint may have been saved at a stop;
    the best and those of the means are regular ones.
    """
    sets: list[tuple[str, Sequence[Checkpoint]]] = [
        ("last", saved[-1:]),
        ("best", choose_best(list(saved), 1)),
    ]
    num_regular = len(choose_checkpoints(saved, "last", len(saved)))
    counts = sorted({number for number in (*_COUNTS, count) if number < num_regular})
    for choose in get_args(Choice):
        for number in [count] if choose == "spaced" else [*counts, num_regular]:
            chosen = choose_checkpoints(saved, choose, number)
            if len(chosen) > 1:
                sets.append((f"{choose} {len(chosen)}", chosen))
    candidates: dict[tuple[int, ...], Candidate] = {}
    for name, each in sets:
        steps = tuple(list_steps(each))
        if steps in candidates:
            candidates[steps] = replace(candidates[steps], name=f"{candidates[steps].name}, {name}")
        elif steps:
            candidates[steps] = Candidate(name, tuple(each))
    return list(candidates.values())


def choose_winner(measured: Sequence[Measured]) -> Measured:
    """Returns the one with the best score; of equal ones that of the fewest checkpoints."""
    return max(measured, key=lambda one: (one.score, -len(one.candidate.checkpoints)))


def show_candidates(measured: Sequence[Measured], winner: Measured, console: Console) -> None:
    """Prints a table with a row per candidate; it says which is the winner."""
    table = Table()
    table.add_column("candidate")
    table.add_column("steps", overflow="fold")
    for name in winner.metrics:
        table.add_column(LABELS.get(name, name), justify="right")
    table.add_column("")
    for one in measured:
        table.add_row(
            one.candidate.name,
            " ".join(f"{step:,}" for step in one.candidate.steps),
            *(write_metric(name, value) for name, value in one.metrics.items()),
            "winner" if one is winner else "",
            style="bold" if one is winner else None,
        )
    console.print(table)
