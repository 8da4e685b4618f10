"""The parts of a training, built from a recipe and its data."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mtkit.data.prepared import PreparedData
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.parameters import list_shapes
from mtkit.model.weights import check_memory
from mtkit.network import EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import TrainingState
from mtkit.training.distributed import Processes
from mtkit.training.learner import Learner, freeze
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.objectives.translation import TranslationBatches, TranslationObjective
from mtkit.training.precision import resolve_precision
from mtkit.training.start_from import start_from
from mtkit.training.trackers import open_trackers
from mtkit.training.translation_loss import can_pack_batches
from mtkit.training.validation import Validator
from mtkit.workspace import Workspace


def build_learner(
    recipe: Recipe, data: PreparedData, processes: Processes, *, takes_start: bool = False
) -> Learner[EncoderDecoder]:
    """Returns a learner that hasn't learned yet, on its device; every process must call it.

    Its weights are drawn by chance; with `takes_start`, they are those that `training.start_from`
    names.

    Raises:
        MtkitError: The network is larger than this machine's memory, or another than the start's.
    """
    config = ModelConfig.of(recipe, data.tokenizer)
    check_memory(list_shapes(config.model, *config.vocab_sizes).values(), "[model]")
    torch.manual_seed(recipe.seed)
    model = build(config).to(processes.device)
    if takes_start:
        start_from(recipe, model, data.tokenizer)
    freeze(model, recipe.training.freeze)
    return Learner.of(model, recipe, precision=resolve_precision(recipe, processes))


def build_objective(
    recipe: Recipe, data: PreparedData, learner: Learner[EncoderDecoder], processes: Processes
) -> TranslationObjective:
    """Returns the recipe's objective; every process must call it.

    Raises:
        MtkitError: The development set can't be scored, or not be translated.
    """
    working = learner.working.model
    # A process that can't pack would cut updates otherwise than the rest.
    packs = not processes.any(not can_pack_batches(working, recipe, processes.device))
    dtype = working.output_embedding.weight.dtype
    return TranslationObjective(
        learner,
        TranslationBatches(data, recipe, processes, dtype=dtype, packs=packs),
        Validator(recipe, data, processes),
        label_smoothing=recipe.training.label_smoothing,
    )


@contextmanager
def open_metrics(
    recipe: Recipe, workspace: Workspace, state: TrainingState, processes: Processes
) -> Iterator[MetricsLog | None]:
    """Yields the run's log in the first process, which alone has one.

    Raises:
        MtkitError: A tracker doesn't start.
    """
    if not processes.is_first:
        yield None
        return
    metrics = MetricsLog(
        workspace.metrics_file,
        picture=workspace.curves,
        title=recipe.name,
        resumed_at=state.step,
        warm_up_steps=recipe.training.schedule.warmup_steps,
        score=recipe.training.validation.metric,
        trackers=open_trackers(recipe, workspace, resumed_at=state.step),
    )
    try:
        if state.step:
            metrics.append("event", {"step": state.step, "text": "resumed"})
        yield metrics
    finally:
        metrics.close()
