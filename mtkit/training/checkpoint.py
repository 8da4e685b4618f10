"""A checkpoint: the state of training, metadata and digests; checks that a recipe can continue it.

checkpoints/step-00001500/
    model.safetensors      what is validated and released: the weights, or their moving average;
                           with LoRA only the weights that learn
    weights.safetensors    the weights themselves, if the run keeps a moving average
    optimizer.safetensors  both moments of Adam, by weight, and its count of updates
    state.json             the state of training, the development score, the recipe, digests

No file is a pickle. Random state isn't saved: each update's generator is seeded by the recipe's
seed, step and rank.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from mtkit.errors import MtkitError
from mtkit.files import (
    as_json_text,
    check_file,
    check_format,
    describe_fault,
    digest_file,
    read_json,
    write_atomically,
)
from mtkit.model.comet import read_comet_config
from mtkit.model.config import WEIGHTS_FILE
from mtkit.model.digest import digest_model
from mtkit.model.parameters import Shape
from mtkit.model.weight_files import MAX_HEADER_BYTES
from mtkit.recipe import Recipe
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.tables import list_differences, relative_to_root, select_keys
from mtkit.recipe.training import Training
from mtkit.units import plural

FORMAT_VERSION = 3
"""Incremented whenever checkpoints of older or newer versions become incompatible."""
STATE_FILE = "state.json"
TRAINED_FILE = "weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
_FP32_BYTES = 4
_MAX_COPIES = 3
"""Maximum size of a file, in copies of the weights: Adam has two, plus a margin."""
_MAX_COUNT = 10**15


@dataclass(frozen=True)
class TrainingState:
    """The state of training after an update.

    Attributes:
        step: Updates done, including skipped ones.
        epoch: Epochs finished.
        position: Updates done in the current epoch.
        target_tokens: Real target tokens seen, including `</s>`.
        elapsed_seconds: Training time including validation and earlier sessions.
        best_score: Best development score so far; higher is better.
        num_without_best: Checkpoints since that one.
        micro_batch_tokens: What fits in memory; 0 before it was tried.
        num_skipped: Updates skipped because of a NaN or infinite loss or gradient.
        rate_factor: Factor on the schedule's learning rate, from rollbacks.
        checkpoint_seconds: `elapsed_seconds` at the last regular checkpoint.
        loss_scale: In fp16, the factor of the loss; 0 before the first update.
        num_with_loss_scale: Updates since it last changed.
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
    loss_scale: float = 0.0
    num_with_loss_scale: int = 0

    def after_validation(self, score: float) -> "TrainingState":
        """Returns the state after a new checkpoint's score; an equal score is no improvement."""
        if self.best_score is None or score > self.best_score:
            return replace(self, best_score=score, num_without_best=0)
        return replace(self, num_without_best=self.num_without_best + 1)


def _check_plausible(state: TrainingState) -> TrainingState:
    counts = [value for value in asdict(state).values() if isinstance(value, int)]
    others = (state.elapsed_seconds, state.checkpoint_seconds, state.loss_scale)
    if not all(0 <= number < _MAX_COUNT for number in (*counts, *others)):
        raise ValueError("an impossible count, time or scale")
    return state


@dataclass(frozen=True)
class Checkpoint:
    """One saved checkpoint.

    Attributes:
        score: Development score, higher is better; None if it was saved at a stop or training ended
            before its validation.
        is_regular: Whether it is to be validated and counts among the last and the best; False if
            it was saved at a stop.
        digests: Digest of each tensor file, by name.
        recipe: The recipe it was trained with, as plain tables.
        base_digest: Digest of LoRA's base model, whose weights aren't in it; empty without LoRA.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    folder: Path
    state: Annotated[TrainingState, AfterValidator(_check_plausible)]
    score: float | None
    is_regular: bool
    digests: dict[Annotated[str, Field(pattern=r"^[a-z]+\.safetensors$")], str]
    data_digest: str
    recipe: dict[str, Any]
    base_digest: str = ""

    @property
    def weights_file(self) -> Path:
        """The weights that are validated and released."""
        return self.folder / WEIGHTS_FILE

    def check(self, shapes: Iterable[Shape] | None = None) -> None:
        """Checks that all its files hold what was saved.

        If the shapes of the network's weights are given, a file many times as large is rejected
        before it is read: a sparse file can have any size.
        """
        limit = math.inf
        if shapes is not None:
            limit = _MAX_COPIES * sum(map(math.prod, shapes)) * _FP32_BYTES + MAX_HEADER_BYTES
        for name, expected in self.digests.items():
            path = self.folder / name
            try:
                num_bytes = check_file(path)
                if num_bytes > limit:
                    raise _damaged(self.folder, f"{name} is far too large: {num_bytes:,} bytes")
                found = digest_file(path)
            except OSError as error:
                raise _damaged(self.folder, f"{name}: {error.strerror}") from error
            if found != expected:
                raise _damaged(
                    self.folder, f"{name} has changed since it was saved: its digest differs"
                )


_CHECKPOINT = TypeAdapter(Checkpoint)


class DamagedCheckpointError(MtkitError):
    """A file of a checkpoint is missing or isn't what was saved."""


def choose_best(checkpoints: list[Checkpoint], count: int) -> list[Checkpoint]:
    """Returns the checkpoints with the best scores, best first; on a tie, the later first."""
    scored = [checkpoint for checkpoint in checkpoints if checkpoint.score is not None]
    return sorted(scored, key=lambda one: (one.score or 0.0, one.state.step), reverse=True)[:count]


def choose_comparable_best(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """Returns the best of the checkpoints that were scored with the last scored one's settings."""
    scored = [checkpoint for checkpoint in checkpoints if checkpoint.score is not None]
    settings = [list_score_settings(checkpoint.recipe) for checkpoint in scored]
    return choose_best(
        [one for one, own in zip(scored, settings, strict=True) if own == settings[-1]], 1
    )


def list_score_settings(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a score depends on, besides the model's weights and the data."""
    chosen = select_keys(recipe, Invalidates.SCORES)
    training = chosen.pop("training")
    return {**training.pop("validation"), **training, **chosen}


def list_steps(checkpoints: Iterable[Checkpoint]) -> list[int]:
    """Returns the checkpoints' steps."""
    return [checkpoint.state.step for checkpoint in checkpoints]


def is_finished(training: Training, state: TrainingState) -> bool:
    """Checks that training has ended, by steps or by patience."""
    patience = training.early_stopping
    is_out_of_patience = patience is not None and state.num_without_best >= patience.patience
    return state.step >= training.max_steps or is_out_of_patience


def describe_training(state: TrainingState, num_examples: int, noun: str) -> dict[str, str]:
    """Returns a model card's facts on the training, by name; `noun` is what examples are."""
    return {
        noun: f"{num_examples:,}",
        "updates": f"{state.step:,}",
        "target tokens seen": f"{state.target_tokens:,}",
        "time": str(timedelta(seconds=round(state.elapsed_seconds))),
    }


def read_checkpoint(folder: Path) -> Checkpoint:
    """Returns the checkpoint in a folder, from its metadata.

    Raises:
        DamagedCheckpointError: The metadata can't be read.
        MtkitError: Another version of mtkit saved it.
    """
    try:
        facts = read_json(folder / STATE_FILE)
        hint = f"remove {folder.parent} and train again: mtkit train; models aren't affected"
        check_format(facts, folder / STATE_FILE, FORMAT_VERSION, hint)
        del facts["format_version"]
        return _CHECKPOINT.validate_python({**facts, "folder": folder})
    except ValidationError as error:
        raise _damaged(folder, f"{STATE_FILE}: {describe_fault(error)}") from error
    except OSError as error:
        raise _damaged(folder, f"{STATE_FILE}: {error.strerror}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise _damaged(folder, f"{STATE_FILE}: {error}") from error
    except MtkitError as error:
        if error.hint:
            raise
        raise _damaged(folder, error.message.removeprefix(f"{folder}/")) from error


def write_facts(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint's metadata next to its tensor files."""
    facts = {"format_version": FORMAT_VERSION, **asdict(checkpoint)}
    del facts["folder"]
    if not checkpoint.state.loss_scale:
        # Earlier versions reject checkpoints with these keys.
        del facts["state"]["loss_scale"], facts["state"]["num_with_loss_scale"]
    write_atomically(folder / STATE_FILE, as_json_text(facts))


def _damaged(folder: Path, reason: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"{folder}: damaged checkpoint: {reason}",
        f"remove {folder} to continue without it",
    )


Tables = Mapping[str, Any]
"""A recipe as plain tables, as in checkpoints."""
_SCHEDULES_TO_AN_END = ("cosine", "linear")
_SAME_DATA = ("data_root", "language", "source_language", "target_language", "word_aligner")
"""Keys of `data` whose change may leave the tokens as they are."""
_FILES = ("name", "source", "target", "path", "text", "trees", "alignments")
"""Keys of a corpus with its name and its files, which may hold the same text elsewhere."""
_KEEP_BOTH = (
    "set another `name` in the recipe, or use another folder with --workspace FOLDER; or remove "
    "the checkpoints to start over"
)


def describe_recipe(recipe: Recipe) -> dict[str, Any]:
    """Returns a recipe as plain tables, a learned metric by what is in its folder."""
    tables = recipe.model_dump(mode="json", exclude_none=True)
    learned = recipe.training.validation.learned
    if learned is not None:
        tables["training"]["validation"]["metric"] = _identify_metric(Path(learned))
    return tables


@cache
def _identify_metric(folder: Path) -> str:
    """Returns a metric's name and digest, cached because `open_metric` caches the metric, too."""
    return f"{read_comet_config(folder).name}, digest {digest_model(folder)}"


def check_same_run(
    tables: Tables,
    data_digest: str | None,
    saved: list[Checkpoint],
    changed_files: Sequence[str] = (),
) -> None:
    """Checks that a recipe can continue the run of some checkpoints.

    `data_digest` is None before the data are prepared: then the corpora's keys are compared. The
    error names the keys that differ, and `changed_files`.
    """
    if not saved:
        return
    last = saved[-1]
    wanted = _select_fixed(tables)
    for checkpoint in saved:
        _check_form(checkpoint, wanted)
    differing = list_differences(wanted, _select_fixed(last.recipe))
    if all(each["training"].get("stages") for each in (tables, last.recipe)):
        # Stages weight corpora by name.
        differing += list_differences(_name_corpora(tables), _name_corpora(last.recipe))
    if data_digest is None:
        differing += _list_data_changes(tables, last.recipe)
    elif data_digest != last.data_digest:
        differing.append("the training or development data have changed")
    differing += changed_files
    if differing:
        raise MtkitError(
            f"{last.folder.parent} contains checkpoints of another run: " + "; ".join(differing),
            _KEEP_BOTH,
        )


def _list_data_changes(tables: Tables, earlier: Tables) -> list[str]:
    """Returns a phrase for each changed key that changes which data are prepared."""
    num_corpora = [len(each["data"]["train"]) for each in (earlier, tables)]
    if num_corpora[0] != num_corpora[1]:
        return [f"data.train had {plural(num_corpora[0], 'section')}, now {num_corpora[1]}"]
    return list_differences(_select_data(tables), _select_data(earlier))


def _select_data(tables: Tables) -> dict[str, Any]:
    """Returns what decides which data are prepared, without the corpora's names and files."""
    data = {key: value for key, value in tables["data"].items() if key not in _SAME_DATA}
    train, dev = (
        [{key: value for key, value in each.items() if key not in _FILES} for each in corpora]
        for corpora in (data["train"], [data["dev"]])
    )
    chosen: dict[str, Any] = relative_to_root(
        {"data": {**data, "train": train, "dev": dev[0]}}, tables["data"]["data_root"]
    )
    return chosen


def check_unchanged(tables: Tables, saved: list[Checkpoint]) -> None:
    """Checks that a finished run ended with this recipe's settings and at most its `max_steps`."""
    changes = list_changed_settings(tables, saved)
    step, max_steps = saved[-1].state.step, tables["training"]["max_steps"]
    if step > max_steps and not changes:
        changes = [f"it is at step {step:,}, past training.max_steps = {max_steps:,}"]
    if changes:
        raise MtkitError(
            f"{saved[-1].folder.parent} contains a finished run with other settings: "
            + "; ".join(changes),
            _KEEP_BOTH,
        )


def list_changed_settings(tables: Tables, saved: list[Checkpoint]) -> list[str]:
    """Returns a phrase for each training setting that differs from the last checkpoint's.

    How often to log, validate and save is ignored.
    """
    if not saved:
        return []
    tuned = Invalidates.UPDATES
    has_short_blocks = (tables["training"].get("masking") or {}).get("short_tokens") is not None
    if tables["training"]["schedule"]["kind"] in _SCHEDULES_TO_AN_END or has_short_blocks:
        tuned |= Invalidates.SCHEDULE_END
    wanted = select_keys(tables, tuned)
    found = select_keys(saved[-1].recipe, tuned)
    if tables["training"]["precision"] == "auto":
        wanted["training"]["precision"] = found["training"]["precision"]
    return list_differences(wanted, found)


def _check_form(checkpoint: Checkpoint, wanted: Tables) -> None:
    """Checks that a checkpoint's recipe is valid and has the expected sections."""
    try:
        is_whole = wanted.keys() <= _select_fixed(checkpoint.recipe).keys()
    except (AttributeError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        raise MtkitError(
            f"{checkpoint.folder}: damaged: it doesn't contain a valid recipe",
            "remove this checkpoint",
        )


def _select_fixed(tables: Tables) -> dict[str, Any]:
    """Returns the values that can't change during a run, independent of the project's folder.

    The data have a digest of their own.
    """
    chosen = select_keys(tables, Invalidates.RUN)
    fixed: dict[str, Any] = relative_to_root(chosen, tables["data"]["data_root"])
    return {key: value for key, value in fixed.items() if key != "data"}


def _name_corpora(tables: Tables) -> dict[str, Any]:
    return {"data": {"train": [{"name": each["name"]} for each in tables["data"]["train"]]}}
