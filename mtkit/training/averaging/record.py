"""The record of a run's model, in the manifest and on its card: its checkpoints, its rivals."""

import math
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mtkit.model.digest import digest_model
from mtkit.training.checkpoint import Checkpoint, TrainingState
from mtkit.training.metrics import LABELS
from mtkit.workspace import Workspace


class _Record(BaseModel):
    """A part of the manifest; what else a version writes there is passed over."""

    model_config = ConfigDict(frozen=True)


class CandidateRecord(_Record):
    """What a single checkpoint or a mean is worth; of a score that training measured, that alone.

    Attributes:
        name: Every way by which it is chosen: `last`, `best 5`, or `last 3, spaced 3`.
        steps: Those of its checkpoints.
        metrics: Scores and loss by name, in full precision; None for NaN or infinity.
    """

    name: str
    steps: list[int]
    metrics: dict[str, float | None]

    def describe(self) -> str:
        """Returns a line on it: `last 2: BLEU 20.13, loss 1.235 (steps 1500, 3000)`."""
        values = (
            f"{LABELS.get(name, name)} {write_metric(name, value)}"
            for name, value in self.metrics.items()
        )
        noun, steps = "step" if len(self.steps) == 1 else "steps", ", ".join(map(str, self.steps))
        return f"{self.name}: {', '.join(values)} ({noun} {steps})"


class MeanComparison(_Record):
    """A mean beside the best single checkpoint.

    Attributes:
        metric: `training.validation.metric`, which decides.
        mean: The mean.
        single: The checkpoint.
        is_mean_worse: Whether the checkpoint's score is better.
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
        """Both."""
        return [self.mean, self.single]


class Selection(_Record):
    """What `select` compared.

    Attributes:
        metric: `training.validation.metric`, which decided.
        checkpoints: Steps of all checkpoints there were.
        candidates: What was measured.
    """

    metric: str
    checkpoints: list[int]
    candidates: list[CandidateRecord]


class TrainingRecord(_Record):
    """The last checkpoint of the training that `model/` comes from, without its numbers.

    Attributes:
        state: The state of training.
        is_scored: Whether the checkpoint has a development score.
        data_digest: Digest of the data it was trained on.
        recipe: The recipe it was trained with, as plain tables.
    """

    state: TrainingState
    is_scored: bool
    data_digest: str
    recipe: dict[str, Any]

    @classmethod
    def of(cls, last: Checkpoint) -> "TrainingRecord":
        """Returns the record of a run's last checkpoint."""
        return cls(
            state=last.state,
            is_scored=last.score is not None,
            data_digest=last.data_digest,
            recipe=last.recipe,
        )

    def as_checkpoint(self, workspace: Workspace) -> Checkpoint:
        """Returns the checkpoint, whose files may be gone."""
        return Checkpoint(
            folder=workspace.checkpoints / f"step-{self.state.step:08d}",
            state=self.state,
            score=0.0 if self.is_scored else None,
            is_regular=True,
            digests={},
            data_digest=self.data_digest,
            recipe=self.recipe,
        )


class ModelRecord(_Record):
    """The manifest's entry on `model/`.

    Attributes:
        made_by: `train` or `average`; empty where there is no model.
        steps: Those of the checkpoints that it is the mean of.
        comparison: The requested mean beside the best single checkpoint.
        selection: What was compared, where `select` chose it.
        training: The training that it comes from.
        digest: Of its files.
    """

    made_by: str = ""
    steps: list[int] = Field(default_factory=list)
    comparison: MeanComparison | None = None
    selection: Selection | None = None
    training: TrainingRecord | None = None
    digest: str = ""

    @classmethod
    def read(cls, workspace: Workspace) -> "ModelRecord":
        """Returns a run's record; an empty one where there is none that is valid and complete."""
        try:
            found = cls.model_validate(workspace.read_manifest().get("model", {}))
        except ValidationError:
            return cls()
        return found if found.training is not None and found.digest else cls()

    def write(self, workspace: Workspace) -> None:
        """Writes it to the manifest, with the digest of the model that is there now."""
        written = self.model_copy(update={"digest": digest_model(workspace.model)})
        workspace.record("model", written.model_dump(exclude_defaults=True))

    @property
    def is_worse_mean(self) -> bool:
        """Whether the model is a mean that scores worse than the best single checkpoint."""
        compared = self.comparison
        return compared is not None and compared.is_mean_worse and self.steps == compared.mean.steps

    def describe_release(self) -> str:
        """Returns what `model/` is, with its development score where that was compared."""
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
        if isinstance(found, Selection):
            return f"{told}the best of {len(texts)} candidates"
        rival = ("average", "best checkpoint")[1 - index]
        return f"{told}against {texts[1 - index]} for the {rival}"

    def list_facts(self) -> dict[str, str]:
        """Returns the model card's facts on other candidates, by name."""
        found = self.comparison or self.selection
        if found is None:
            return {}
        if isinstance(found, Selection):
            outcome = f"the best by {LABELS.get(found.metric, found.metric)} was kept"
        elif found.is_mean_worse:
            kept = "which was kept anyway" if self.is_worse_mean else "and was kept instead"
            outcome = f"a single checkpoint scores better than the average, {kept}"
        else:
            outcome = "no single checkpoint scores better than the average"
        lines = [outcome, *(f"  - {one.describe()}" for one in found.candidates)]
        return {"compared on the development set": "\n".join(lines)}


def write_metric(name: str, value: float | None, *, more_decimals: int = 0) -> str:
    """Returns a metric with the decimals that training prints, or so many more."""
    if value is None or not math.isfinite(value):
        return "not finite"
    return f"{value:.{(3 if name == 'loss' else 2) + more_decimals}f}"
