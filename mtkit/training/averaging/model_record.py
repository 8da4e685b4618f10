"""The record of a run's model, in the manifest and on its card, and the candidates for it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console
from rich.table import Table

from mtkit.model.digest import digest_model
from mtkit.training.checkpoint import Checkpoint, TrainingState, choose_best, list_steps
from mtkit.training.metrics import LABELS, restore_sign
from mtkit.training.validation import ValidationResult
from mtkit.workspace import Workspace


def write_metric(name: str, value: float | None, *, more_decimals: int = 0) -> str:
    """Returns a metric with the decimals that training prints, plus `more_decimals`."""
    if value is None or not math.isfinite(value):
        return "not finite"
    return f"{value:.{(3 if name == 'loss' else 2) + more_decimals}f}"


class _Record(BaseModel):
    """A part of the manifest; unknown keys from other versions are ignored."""

    model_config = ConfigDict(frozen=True)


class CandidateRecord(_Record):
    """The scores of one checkpoint or mean.

    Attributes:
        name: Every choice that yields it: `last`, `best 5`, or `last 3, spaced 3`.
        metrics: Scores and loss by name, in full precision; None for NaN or infinity. Only the
            ranking score if training measured it.
    """

    name: str
    steps: list[int]
    metrics: dict[str, float | None]

    def describe(self) -> str:
        """Returns a line such as `last 2: BLEU 20.13, loss 1.235 (steps 1500, 3000)`."""
        values = (
            f"{LABELS.get(name, name)} {write_metric(name, value)}"
            for name, value in self.metrics.items()
        )
        noun, steps = "step" if len(self.steps) == 1 else "steps", ", ".join(map(str, self.steps))
        return f"{self.name}: {', '.join(values)} ({noun} {steps})"


class MeanComparison(_Record):
    """A mean compared with the best single checkpoint.

    Attributes:
        metric: `training.validation.metric`, which decides.
        basis: Digest of the checkpoints and settings that it depends on.
    """

    metric: str
    mean: CandidateRecord
    single: CandidateRecord
    is_mean_worse: bool
    basis: str

    def describe(self) -> str:
        """Returns both scores: `development BLEU 40.38, against 40.10 for the checkpoint ...`."""
        values = [one.metrics[self.metric] for one in (self.mean, self.single)]
        texts = [write_metric(self.metric, value) for value in values]
        if texts[0] == texts[1] and values[0] != values[1]:
            texts = [write_metric(self.metric, value, more_decimals=3) for value in values]
        return (
            f"development {LABELS.get(self.metric, self.metric)} {texts[0]}, "
            f"against {texts[1]} for the checkpoint of step {self.single.steps[0]:,}"
        )

    @property
    def candidates(self) -> list[CandidateRecord]:
        """The mean and the checkpoint."""
        return [self.mean, self.single]


class CheckpointSelection(_Record):
    """What `select_checkpoint` compared, by which metric, and the steps of all checkpoints then."""

    metric: str
    checkpoints: list[int]
    candidates: list[CandidateRecord]


_KEPT = ("state", "data_digest", "recipe")


class TrainingRecord(_Record):
    """The last checkpoint of the training that made `model/`, without its tensors."""

    state: TrainingState
    is_scored: bool
    data_digest: str
    recipe: dict[str, Any]

    @classmethod
    def of(cls, last: Checkpoint) -> "TrainingRecord":
        """Returns the record of a run's last checkpoint."""
        return cls(is_scored=last.score is not None, **{key: getattr(last, key) for key in _KEPT})

    def as_checkpoint(self, workspace: Workspace) -> Checkpoint:
        """Returns the checkpoint, whose files may be gone."""
        folder = workspace.checkpoints / f"step-{self.state.step:08d}"
        score, kept = 0.0 if self.is_scored else None, {key: getattr(self, key) for key in _KEPT}
        return Checkpoint(folder, score=score, is_regular=True, digests={}, **kept)


class ModelRecord(_Record):
    """The manifest's entry on `model/`.

    Attributes:
        made_by: `train` or `average`; empty if there is no model.
        steps: Those of the checkpoints that it is the mean of.
        comparison: The requested mean against the best single checkpoint.
        selection: What was compared, if `select_checkpoint` chose it.
    """

    made_by: str = ""
    steps: list[int] = Field(default_factory=list)
    comparison: MeanComparison | None = None
    selection: CheckpointSelection | None = None
    training: TrainingRecord | None = None
    digest: str = ""

    @classmethod
    def read(cls, workspace: Workspace) -> "ModelRecord":
        """Returns a run's record; an empty one if it is missing, invalid or incomplete."""
        try:
            found = cls.model_validate(workspace.read_manifest().get("model", {}))
        except ValidationError:
            return cls()
        return found if found.training is not None and found.digest else cls()

    def write(self, workspace: Workspace) -> None:
        """Writes it to the manifest, with the digest of the current model."""
        written = self.model_copy(update={"digest": digest_model(workspace.model)})
        workspace.record("model", written.model_dump(exclude_defaults=True))

    @property
    def is_worse_mean(self) -> bool:
        """Whether the model is a mean that scores worse than the best single checkpoint."""
        compared = self.comparison
        return compared is not None and compared.is_mean_worse and self.steps == compared.mean.steps

    def describe_release(self) -> str:
        """Returns a description of `model/`, with its development score if that was compared."""
        names = ", ".join(f"{step:,}" for step in self.steps)
        if len(self.steps) == 1:
            released = f"the checkpoint of step {names}"
        else:
            released = f"the average of {len(self.steps)} checkpoints (steps {names})"
        found = self.comparison or self.selection
        if found is None:
            return released
        label = LABELS.get(found.metric, found.metric)
        texts = [write_metric(found.metric, one.metrics[found.metric]) for one in found.candidates]
        index = [one.steps for one in found.candidates].index(self.steps)
        told = f"{released}: development {label} {texts[index]}, "
        if isinstance(found, CheckpointSelection):
            return f"{told}the best of {len(texts)} candidates"
        rival = ("average", "best checkpoint")[1 - index]
        return f"{told}against {texts[1 - index]} for the {rival}"

    def list_facts(self) -> dict[str, str]:
        """Returns the model card's facts on other candidates, by name."""
        found = self.comparison or self.selection
        if found is None:
            return {}
        if isinstance(found, CheckpointSelection):
            outcome = f"the best by {LABELS.get(found.metric, found.metric)} was kept"
        elif found.is_mean_worse:
            kept = "which was kept anyway" if self.is_worse_mean else "and was kept instead"
            outcome = f"a single checkpoint scores better than the average, {kept}"
        else:
            outcome = "no single checkpoint scores better than the average"
        lines = [outcome, *(f"  - {one.describe()}" for one in found.candidates)]
        return {"compared on the development set": "\n".join(lines)}


Choice = Literal["last", "best", "spaced"]
"""How the checkpoints of a mean are chosen: `training.averaging.choose`."""
_COUNTS = (2, 3, 5, 10, 20)
"""Sizes of the means that are compared, besides the recipe's and the mean of all."""


@dataclass(frozen=True)
class Candidate:
    """Checkpoints whose mean may become the model.

    Attributes:
        name: Every choice that yields them: `last`, `best 5`, or `last 3, spaced 3`.
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
class ScoredCandidate:
    """A candidate and its scores on the development set.

    Attributes:
        score: What ranks it; higher is better, and NaN or infinity ranks last.
        metrics: Scores and loss by name; only the ranking score if training measured it.
    """

    candidate: Candidate
    score: float
    metrics: dict[str, float]

    @classmethod
    def of(cls, candidate: Candidate, validation: ValidationResult) -> "ScoredCandidate":
        """Returns a candidate with the scores of a validation."""
        score = validation.score if math.isfinite(validation.score) else -math.inf
        return cls(candidate, score, validation.scores | {"loss": validation.metrics["loss"]})

    @classmethod
    def by_training(cls, checkpoint: Checkpoint, metric: str) -> "ScoredCandidate":
        """Returns a checkpoint with the score from training."""
        score = checkpoint.score
        assert score is not None
        return cls(Candidate("best", (checkpoint,)), score, {metric: restore_sign(metric, score)})

    def record(self) -> CandidateRecord:
        """Returns the manifest's record of the candidate."""
        finite = {k: v if math.isfinite(v) else None for k, v in self.metrics.items()}
        return CandidateRecord(name=self.candidate.name, steps=self.candidate.steps, metrics=finite)


def choose_checkpoints(saved: Sequence[Checkpoint], choose: Choice, count: int) -> list[Checkpoint]:
    """Returns the last, the best or evenly spaced checkpoints, in the order of their steps.

    A checkpoint saved at a stop, between two regular ones, has no score and isn't counted.
    """
    regular = [checkpoint for checkpoint in saved if checkpoint.score is not None]
    match choose:
        case "last":
            return regular[-count:]
        case "best":
            return sorted(choose_best(regular, count), key=lambda checkpoint: checkpoint.state.step)
        case "spaced":
            return [regular[index] for index in spread_steps(list_steps(regular), count)]


def spread_steps(steps: Sequence[int], count: int) -> list[int]:
    """Returns the indices of `count` steps spread evenly from the first to the last.

    `steps` are ascending. Each of `count` evenly spaced points takes the nearest step among those
    that are left and that leave enough for the points after it; of two equally near, the later. One
    point takes the last step; more points than steps take all.
    """
    if count >= len(steps):
        return list(range(len(steps)))
    if count == 1:
        return [len(steps) - 1]
    chosen: list[int] = []
    num_gaps = count - 1
    for number in range(count):
        # Distances times the number of gaps are integers: no rounding decides a tie.
        point = steps[0] * num_gaps + (steps[-1] - steps[0]) * number
        free = range(chosen[-1] + 1 if chosen else 0, len(steps) - num_gaps + number)
        distances = {index: abs(steps[index] * num_gaps - point) for index in free}
        nearest = min(distances.values())
        chosen.append(max(index for index in free if distances[index] == nearest))
    return chosen


def list_candidates(saved: Sequence[Checkpoint], count: int) -> list[Candidate]:
    """Returns the last checkpoint, the best, and means of several sizes, each set of steps once.

    Means are of the last and of the best 2, 3, 5, 10, 20, `count` and all, up to the number there
    is, and of `count` evenly spaced ones. The last checkpoint may have been saved at a stop; all
    others are regular ones.
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


def choose_winner(measured: Sequence[ScoredCandidate]) -> ScoredCandidate:
    """Returns the candidate with the best score; on a tie, the one with the fewest checkpoints."""
    return max(measured, key=lambda one: (one.score, -len(one.candidate.checkpoints)))


def show_candidates(
    measured: Sequence[ScoredCandidate], winner: ScoredCandidate, console: Console
) -> None:
    """Prints a table with a row per candidate and marks the winner."""
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
