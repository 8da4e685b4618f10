"""Checkpoints: saved whole or not at all, digested, listed, kept, loaded; no pickle anywhere.

checkpoints/step-00001500/
    model.safetensors      what is validated and released: the weights, or their moving average
    weights.safetensors    the weights themselves, where the run keeps a moving average
    optimizer.safetensors  both moments of Adam, by weight, and its count of updates
    state.json             where training stands, the development score, the recipe, digests

Chance needs no state: each update's generator is seeded by the recipe's seed, step and rank.
"""

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from mtkit.console import warn
from mtkit.digests import digest_file
from mtkit.errors import MtkitError
from mtkit.files import read_json, write_atomically
from mtkit.folders import building, discard_folder, remove_folder, restore_retired
from mtkit.foreign_files import check_file, describe_fault
from mtkit.model.config import WEIGHTS_FILE
from mtkit.model.parameters import Shape
from mtkit.model.weights import (
    MAX_HEADER_BYTES,
    check_header,
    load_weights,
    pack_weights,
    read_weights,
    write_tensors,
)
from mtkit.paths import for_library
from mtkit.recipe.training import Training
from mtkit.training.frozen import list_frozen
from mtkit.training.learner import Learner
from mtkit.training.moments import load_moments, pack_moments

FORMAT_VERSION = 2
"""Raised when a checkpoint that this version saves can't be read by older ones, or the reverse."""
STATE_FILE = "state.json"
_TRAINED_FILE = "weights.safetensors"
_OPTIMIZER_FILE = "optimizer.safetensors"
_DAMAGED = "damaged-"
_FP32_BYTES = 4
_MAX_COPIES = 3
"""Numbers of a file for each weight, and more: Adam has two."""
_MAX_COUNT = 10**15


@dataclass(frozen=True)
class TrainingState:
    """Where training stands after an update.

    Attributes:
        step: Updates done, those that were left out counted.
        epoch: Passes over the data finished.
        position: Updates done of the current epoch.
        target_tokens: Real target tokens seen, `</s>` counted.
        elapsed_seconds: Time spent in training, validation included, earlier sessions too.
        best_score: Best development score so far; greater is better.
        num_without_best: Checkpoints since that one.
        micro_batch_tokens: What was found to fit in memory; 0 before it was tried.
        num_skipped: Updates left out, since a loss or gradient was no number.
        num_skipped_in_a_row: Those of them since the last update that wasn't.
        num_rollbacks: Times that training went back to a checkpoint.
        rate_factor: What the schedule's learning rate is multiplied by since.
        checkpoint_seconds: `elapsed_seconds` at the last regular checkpoint.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    target_tokens: int = 0
    elapsed_seconds: float = 0.0
    best_score: float | None = None
    num_without_best: int = 0
    micro_batch_tokens: int = 0
    num_skipped: int = 0
    num_skipped_in_a_row: int = 0
    num_rollbacks: int = 0
    rate_factor: float = 1.0
    checkpoint_seconds: float = 0.0

    def after_validation(self, score: float) -> "TrainingState":
        """Returns the state with a new checkpoint's score taken in; an equal one is no better."""
        if self.best_score is None or score > self.best_score:
            return replace(self, best_score=score, num_without_best=0)
        return replace(self, num_without_best=self.num_without_best + 1)


@dataclass(frozen=True)
class Checkpoint:
    """One saved checkpoint.

    Attributes:
        folder: Where it lies.
        state: Where training stood.
        score: Its development score, greater is better; none where it was saved at a stop, or
            training was ended before its validation was.
        recipe: The recipe it was trained with, as plain tables.
        data_digest: Digest of the data it was trained on.
        is_regular: Whether it is to be validated and counts among the last and the best; one that
            was saved at a stop doesn't.
        digests: Digest of each file of numbers, by name.
    """

    folder: Path
    state: TrainingState
    score: float | None
    recipe: dict[str, Any]
    data_digest: str
    is_regular: bool
    digests: dict[str, str]

    @property
    def weights_file(self) -> Path:
        """The weights that are validated and released."""
        return self.folder / WEIGHTS_FILE

    def check(self, shapes: Iterable[Shape] | None = None) -> None:
        """Checks that every file of it holds what was saved.

        Args:
            shapes: Those of the network's weights, where they are known: no file is many times as
                large, and a file with holes can be as large as it likes.

        Raises:
            MtkitError: A file is missing, cut short, too large, or has other bits.
        """
        limit = math.inf
        if shapes is not None:
            limit = _MAX_COPIES * sum(map(math.prod, shapes)) * _FP32_BYTES + MAX_HEADER_BYTES
        for name, expected in self.digests.items():
            path = self.folder / name
            try:
                num_bytes = check_file(path)
                if num_bytes > limit:
                    raise _damaged(self.folder, f"{name}: {num_bytes:,} bytes, too many by far")
                found = digest_file(path)
            except OSError as error:
                raise _damaged(self.folder, f"{name}: {error.strerror}") from error
            if found != expected:
                raise _damaged(self.folder, f"{name} isn't what was saved: its digest differs")


class _Facts(BaseModel):
    """What `STATE_FILE` holds, beside its format."""

    model_config = ConfigDict(extra="forbid")

    state: TrainingState
    score: float | None
    recipe: dict[str, Any]
    data_digest: str
    is_regular: bool
    digests: dict[Annotated[str, Field(pattern=r"^[a-z]+\.safetensors$")], str]

    @field_validator("state")
    @classmethod
    def _is_possible(cls, state: TrainingState) -> TrainingState:
        counts = [value for value in asdict(state).values() if isinstance(value, int)]
        seconds = (state.elapsed_seconds, state.checkpoint_seconds)
        if not all(0 <= number < _MAX_COUNT for number in (*counts, *seconds)):
            raise ValueError("a count or time that no training has")
        return state


class CheckpointFolder:
    """The checkpoints of a run.

    Args:
        folder: The workspace's folder for them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list(self) -> list[Checkpoint]:
        """Returns all complete checkpoints, oldest first; a damaged one is warned of and left out.

        Only what they say of themselves is read; `Checkpoint.check` reads the numbers.

        Raises:
            MtkitError: Another version of mtkit saved them.
        """
        found = []
        for retired in list(self._folder.glob(".step-*.retired")):
            restore_retired(retired.with_name(retired.name[1:].removesuffix(".retired")))
        for folder in sorted(self._folder.glob("step-*")):
            try:
                found.append(read_checkpoint(folder))
            except DamagedCheckpointError as error:
                warn(f"{error.message}; it is left out")
        return found

    def save(
        self,
        learner: Learner[nn.Module],
        state: TrainingState,
        *,
        is_regular: bool,
        recipe: dict[str, Any],
        data_digest: str,
    ) -> Checkpoint:
        """Leaves a checkpoint, not validated yet, that a crash can't leave half written."""
        folder = self._folder / f"step-{state.step:08d}"
        with building(folder) as draft:
            with learner.as_released():
                write_tensors(pack_weights(learner.model), draft / WEIGHTS_FILE)
            if learner.average is not None:
                write_tensors(pack_weights(learner.model), draft / _TRAINED_FILE)
            write_tensors(pack_moments(learner), draft / _OPTIMIZER_FILE)
            digests = {path.name: digest_file(path) for path in sorted(draft.iterdir())}
            saved = Checkpoint(folder, state, None, recipe, data_digest, is_regular, digests)
            _write_facts(draft, saved)
        return saved

    def record_score(
        self, checkpoint: Checkpoint, state: TrainingState, score: float
    ) -> Checkpoint:
        """Returns a checkpoint with its development score, which is now on disk too."""
        scored = replace(checkpoint, state=state, score=score, is_regular=True)
        _write_facts(scored.folder, scored)
        return scored

    def prune(self, training: Training) -> None:
        """Removes all but the checkpoints that a recipe keeps.

        Those are the most recent, those with the best scores, and the first of each so many steps
        or minutes. One that was saved at a stop is kept only until the next: it must not push out
        any of those that the mean is taken of.
        """
        checkpoints = self.list()
        regular = [checkpoint for checkpoint in checkpoints if checkpoint.is_regular]
        kept = regular[-training.keep_last :] + choose_best(regular, training.keep_best)
        kept += checkpoints[-1:]
        if training.keep_every is not None:
            kept += _first_of_each(regular, [c.state.step // training.keep_every for c in regular])
        if training.keep_minutes is not None:
            seconds = 60.0 * training.keep_minutes
            kept += _first_of_each(
                regular, [int(c.state.elapsed_seconds // seconds) for c in regular]
            )
        for checkpoint in checkpoints:
            if checkpoint not in kept:
                discard_folder(checkpoint.folder)

    def sweep(self) -> None:
        """Removes what a kill left of checkpoints that were being saved or removed."""
        for pattern in (".step-*.draft", ".step-*.discarded"):
            for folder in self._folder.glob(pattern):
                remove_folder(folder)
        for file in self._folder.glob(".step-*.draft.lock"):
            file.unlink(missing_ok=True)

    def restore_newest(self, learner: Learner[nn.Module]) -> Checkpoint | None:
        """Leaves the learner as it was at the newest sound checkpoint, and returns that.

        A damaged one is put aside, as `damaged-step-...`, with a warning. Returns None where there
        isn't any checkpoint.

        Raises:
            MtkitError: There are only damaged ones, or they are of another model.
        """
        is_damaged = False
        for folder in sorted(self._folder.glob("step-*"), reverse=True):
            try:
                checkpoint = read_checkpoint(folder)
                checkpoint.check(weight.shape for weight in learner.model.parameters())
            except DamagedCheckpointError as error:
                is_damaged = True
                warn(f"{error.message}; going on from the checkpoint before it")
                _put_aside(folder)
                continue
            restore(checkpoint, learner)
            return checkpoint
        if is_damaged:
            raise MtkitError(
                f"{self._folder}: no checkpoint is sound; they are kept as {_DAMAGED}step-...",
                "copy one from a backup to its place, or remove the folder to start over",
            )
        return None


class DamagedCheckpointError(MtkitError):
    """A file of a checkpoint is missing, or isn't what was saved."""


def restore(checkpoint: Checkpoint, learner: Learner[nn.Module]) -> None:
    """Leaves a learner as it was when a checkpoint was saved.

    Where the run keeps a moving average only from now on, that starts from the weights. A weight
    that was frozen then and learns now has moments of 0, as if it had had no gradient so far.

    Raises:
        MtkitError: A file of it is missing, damaged, or of another model.
    """
    trained = checkpoint.folder / _TRAINED_FILE
    has_average = _TRAINED_FILE in checkpoint.digests
    origin = trained if has_average else checkpoint.weights_file
    with _naming(checkpoint.folder):
        if has_average and learner.average is not None:
            load_weights(learner.model, read_weights(checkpoint.weights_file), origin=str(origin))
            learner.average.restart()
        load_weights(learner.model, read_weights(origin), origin=str(origin))
        if not has_average and learner.average is not None:
            learner.average.restart()
    path = checkpoint.folder / _OPTIMIZER_FILE
    with _naming(checkpoint.folder), for_library(path) as readable:
        check_header(path)
        tensors = load_file(readable)
    was_frozen = list_frozen(learner.model, checkpoint.recipe.get("training", {}).get("freeze", ()))
    load_moments(learner, tensors, was_frozen, path)


def choose_best(checkpoints: list[Checkpoint], count: int) -> list[Checkpoint]:
    """Returns the checkpoints with the best scores, best first; the later where two are equal."""
    scored = [checkpoint for checkpoint in checkpoints if checkpoint.score is not None]
    return sorted(scored, key=lambda one: (one.score or 0.0, one.state.step), reverse=True)[:count]


def describe_training(state: TrainingState, num_pairs: int) -> dict[str, str]:
    """Returns what a model's card says of its training, by name."""
    return {
        "sentence pairs": f"{num_pairs:,}",
        "updates": f"{state.step:,}",
        "target tokens seen": f"{state.target_tokens:,}",
        "time": str(timedelta(seconds=round(state.elapsed_seconds))),
    }


def read_checkpoint(folder: Path) -> Checkpoint:
    """Returns the checkpoint in a folder, by what it says of itself.

    Raises:
        DamagedCheckpointError: That can't be read.
        MtkitError: Another version of mtkit saved it.
    """
    try:
        facts = read_json(folder / STATE_FILE)
        _check_format(facts.pop("format_version", 1), folder)
        counts = dict(facts["state"])
        if "num_returns" in counts:
            # As mtkit named it up to 0.1.
            counts["num_rollbacks"] = counts.pop("num_returns")
        state = TrainingState(**counts)
        _Facts.model_validate({**facts, "state": asdict(state)})
        return Checkpoint(folder=folder, **{**facts, "state": state})
    except ValidationError as error:
        raise _damaged(folder, f"{STATE_FILE}: {describe_fault(error)}") from error
    except (OSError, KeyError, TypeError) as error:
        raise _damaged(folder, f"{STATE_FILE}: {error}") from error
    except MtkitError as error:
        if error.hint:
            raise
        raise _damaged(folder, error.message) from error


def _check_format(version: int, folder: Path) -> None:
    if version != FORMAT_VERSION:
        raise MtkitError(
            f"{folder} was saved by another version of mtkit (format {version}, this one has "
            f"{FORMAT_VERSION})",
            "finish the run with that version, or remove the checkpoints to start over; models "
            "aren't affected",
        )


def _write_facts(folder: Path, checkpoint: Checkpoint) -> None:
    facts = {
        "format_version": FORMAT_VERSION,
        "state": asdict(checkpoint.state),
        "score": checkpoint.score,
        "is_regular": checkpoint.is_regular,
        "digests": checkpoint.digests,
        "data_digest": checkpoint.data_digest,
        "recipe": checkpoint.recipe,
    }
    write_atomically(
        folder / STATE_FILE, json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
    )


def _first_of_each(checkpoints: list[Checkpoint], groups: list[int]) -> list[Checkpoint]:
    """Returns the first checkpoint of each group; group 0, the start, has none of its own."""
    firsts: dict[int, Checkpoint] = {}
    for checkpoint, group in zip(checkpoints, groups, strict=True):
        if group:
            firsts.setdefault(group, checkpoint)
    return list(firsts.values())


def _put_aside(folder: Path) -> None:
    place = folder.with_name(_DAMAGED + folder.name)
    remove_folder(place)
    folder.rename(place)


def _damaged(folder: Path, reason: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"{folder}: damaged checkpoint: {reason}",
        f"remove {folder} to do without it",
    )


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Lets a fault in a checkpoint's files name the checkpoint, and the way out."""
    hint = f"remove {folder} to go on from the checkpoint before it"
    try:
        yield
    except MtkitError as error:
        raise MtkitError(error.message, hint) from error
    except (OSError, SafetensorError) as error:
        raise MtkitError(f"{folder}: damaged or missing: {error}", hint) from error
