"""The checkpoints of a run: saved atomically, listed, pruned, restored."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn

from mtkit.console import warn, warn_once
from mtkit.errors import MtkitError
from mtkit.files import digest_file
from mtkit.folders import building, discard_folder, remove_folder, restore_retired
from mtkit.locks import locked
from mtkit.model.config import WEIGHTS_FILE
from mtkit.model.weights import load_weights, pack_weights, read_weights, write_tensors
from mtkit.recipe.training import Training
from mtkit.stored_folder import put_or_warn
from mtkit.training.checkpoint import (
    OPTIMIZER_FILE,
    TRAINED_FILE,
    Checkpoint,
    DamagedCheckpointError,
    TrainingState,
    choose_best,
    choose_comparable_best,
    read_checkpoint,
    write_facts,
)
from mtkit.training.learner import Learner, list_frozen, load_moments, pack_moments

_DAMAGED = "damaged-"


class CheckpointFolder:
    """The checkpoints of a run, in the workspace's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list(self, *, skips_damaged: bool = True) -> list[Checkpoint]:
        """Returns all complete checkpoints, oldest first.

        Damaged ones are skipped with a warning, or are an error. Only their metadata is read;
        `Checkpoint.check` reads the tensors. A checkpoint of another version of mtkit is an error.
        """
        found = []
        for retired in list(self._folder.glob(".step-*.retired")):
            restore_retired(retired.with_name(retired.name[1:].removesuffix(".retired")))
        for folder in sorted(self._folder.glob("step-*")):
            try:
                found.append(read_checkpoint(folder))
            except DamagedCheckpointError as error:
                if not skips_damaged:
                    raise
                warn_once(f"{error.message}; skipping it")
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
        """Saves a checkpoint without a score, atomically."""
        folder = self._folder / f"step-{state.step:08d}"
        with building(folder) as draft:
            with learner.as_released():
                released = pack_weights(learner.model, only=learner.saved_names)
                write_tensors(released, draft / WEIGHTS_FILE)
            if learner.average is not None:
                trained = pack_weights(learner.model, only=learner.saved_names)
                write_tensors(trained, draft / TRAINED_FILE)
            write_tensors(pack_moments(learner), draft / OPTIMIZER_FILE)
            digests = {path.name: digest_file(path) for path in sorted(draft.iterdir())}
            facts = digests, data_digest, recipe, learner.base_digest
            saved = Checkpoint(folder, state, None, is_regular, *facts)
            write_facts(draft, saved)
        # Into an object store, if the workspace is in one: this machine may die at any time.
        put_or_warn(self._folder.parent)
        return saved

    def record_score(
        self, checkpoint: Checkpoint, state: TrainingState, score: float
    ) -> Checkpoint:
        """Returns a checkpoint with its development score, after saving the score."""
        scored = replace(checkpoint, state=state, score=score, is_regular=True)
        write_facts(scored.folder, scored)
        return scored

    def prune(self, training: Training) -> None:
        """Removes all checkpoints except those that a recipe keeps.

        Kept are the most recent, those with the best scores, and the first of each `keep_every`
        steps or `keep_minutes`. A checkpoint saved at a stop is kept only until the next: it must
        not push out any that the mean uses.
        """
        checkpoints = self.list()
        regular = [checkpoint for checkpoint in checkpoints if checkpoint.is_regular]
        kept = regular[-training.keep_last :] + choose_best(regular, training.keep_best)
        kept += choose_comparable_best(regular)[: training.keep_best] + checkpoints[-1:]
        if training.keep_every is not None:
            kept += _first_of_each(regular, [c.state.step // training.keep_every for c in regular])
        if training.keep_minutes is not None:
            seconds = 60.0 * training.keep_minutes
            groups = [int(c.state.elapsed_seconds // seconds) for c in regular]
            kept += _first_of_each(regular, groups)
        for checkpoint in checkpoints:
            if checkpoint not in kept:
                discard_folder(checkpoint.folder)
        put_or_warn(self._folder.parent)

    def sweep(self) -> None:
        """Removes what interrupted saves and removals left."""
        for pattern in (".step-*.draft", ".step-*.discarded"):
            for folder in self._folder.glob(pattern):
                remove_folder(folder)
        for file in self._folder.glob(".step-*.draft.lock"):
            file.unlink(missing_ok=True)
        # A kill between a draft's renaming and the release of its lock leaves the lock file.
        for file in self._folder.glob(".step-*.lock"):
            path = file.with_name(file.name.removeprefix(".").removesuffix(".lock"))
            # Releasing a lock removes its file. A lock that another process holds stays.
            with suppress(BlockingIOError, PermissionError), locked(path, waits=False):
                pass

    def restore_newest(self, learner: Learner[nn.Module]) -> Checkpoint | None:
        """Restores the learner from the newest intact checkpoint; returns that, or None.

        A damaged one is renamed to `damaged-step-...` with a warning. If all are damaged, now or
        earlier, an error is raised: training doesn't start over unless asked to.
        """
        folders = sorted(self._folder.glob("step-*"))
        while folders:
            folder = folders.pop()
            try:
                checkpoint = read_checkpoint(folder)
                checkpoint.check(weight.shape for weight in learner.model.parameters())
            except DamagedCheckpointError as error:
                aside = _put_aside(folder)
                older = f"trying {folders[-1].name}" if folders else "there is no older one"
                warn(f"{error.message}; renamed to {aside.name}, {older}")
                continue
            restore_learner(checkpoint, learner)
            return checkpoint
        # Also if an earlier command renamed them: training doesn't start over unless asked to.
        if any(self._folder.glob(f"{_DAMAGED}step-*")):
            raise MtkitError(
                f"{self._folder}: no usable checkpoint; the damaged ones are kept as "
                f"{_DAMAGED}step-...",
                "restore one from a backup, or remove the folder to start over",
            )
        return None


def restore_learner(checkpoint: Checkpoint, learner: Learner[nn.Module]) -> None:
    """Sets a learner to its state when a checkpoint was saved.

    If the run keeps a moving average only from now on, the average starts from the weights. A
    weight that was frozen then and learns now has moments of 0, as if it had had no gradient so
    far.
    """
    trained = checkpoint.folder / TRAINED_FILE
    released, path = checkpoint.weights_file, checkpoint.folder / OPTIMIZER_FILE
    has_average, names = TRAINED_FILE in checkpoint.digests, learner.saved_names
    check_base(checkpoint, learner.base_digest)
    with _naming(checkpoint.folder):
        if learner.average is not None or not has_average:
            load_weights(learner.model, read_weights(released), origin=released, only=names)
        if learner.average is not None:
            learner.average.restart()
        if has_average:
            load_weights(learner.model, read_weights(trained), origin=trained, only=names)
        tensors = read_weights(path)
    was_frozen = list_frozen(learner.model, checkpoint.recipe.get("training", {}).get("freeze", ()))
    if names is not None:
        was_frozen = {name for name, _ in learner.model.named_parameters()} - set(names)
    load_moments(learner, tensors, was_frozen, path)


def check_base(checkpoint: Checkpoint, base_digest: str) -> None:
    """Checks that LoRA's base model is the one that a checkpoint's run began with."""
    if checkpoint.base_digest != base_digest:
        start_from = checkpoint.recipe.get("training", {}).get("start_from") or {}
        raise MtkitError(
            f"{checkpoint.folder}: its low-rank updates (training.lora) aren't of the current "
            f"{start_from.get('model')}",
            "restore the model that the run started from, or remove the checkpoints to start over",
        )


def _first_of_each(checkpoints: list[Checkpoint], groups: list[int]) -> list[Checkpoint]:
    """Returns the first checkpoint of each group except group 0, the start."""
    firsts: dict[int, Checkpoint] = {}
    for checkpoint, group in zip(checkpoints, groups, strict=True):
        if group:
            firsts.setdefault(group, checkpoint)
    return list(firsts.values())


def _put_aside(folder: Path) -> Path:
    """Renames a damaged checkpoint; returns the new path."""
    aside = folder.with_name(_DAMAGED + folder.name)
    remove_folder(aside)
    return folder.rename(aside)


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Adds the checkpoint and a hint to errors in its files."""
    hint = f"remove {folder} to resume from the checkpoint before it"
    try:
        yield
    except MtkitError as error:
        raise MtkitError(error.message, hint) from error
    except (OSError, SafetensorError) as error:
        raise MtkitError(f"{folder}: damaged or missing: {error}", hint) from error
