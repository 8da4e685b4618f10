"""The parts of a training, built from a recipe and its data."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from mtkit.data.prepared import PreparedData
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.digest import digest_model
from mtkit.model.weights import check_memory
from mtkit.network import Network
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import TrainingState
from mtkit.training.distributed import Processes
from mtkit.training.label_loss import measure_classification
from mtkit.training.label_validation import LabelValidator
from mtkit.training.learner import Learner, freeze
from mtkit.training.loss import LossSums
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.objectives import Objective
from mtkit.training.objectives.causal_lm import CausalBatches
from mtkit.training.objectives.classification import LabelledBatches, has_auxiliary_loss
from mtkit.training.objectives.decoder_only import JoinedBatches
from mtkit.training.objectives.denoising import DenoisingBatches
from mtkit.training.objectives.masked_lm import MaskedBatches
from mtkit.training.objectives.measured import MeasuredObjective
from mtkit.training.objectives.passes import can_pack_passes
from mtkit.training.objectives.stored import StoredBatches
from mtkit.training.objectives.translation import TranslationBatches
from mtkit.training.precision import resolve_precision
from mtkit.training.start_from import start_from
from mtkit.training.text_loss import measure_causal, measure_masked
from mtkit.training.text_validation import CausalValidator, DenoisingValidator, MaskedValidator
from mtkit.training.trackers import open_trackers
from mtkit.training.translation_loss import Guide, measure_joined, measure_translation
from mtkit.training.validation import ModelValidator, Validator
from mtkit.training.whole_weights import adapt, find_base
from mtkit.workspace import Workspace

_UNREAD = "unread"
"""The digest of LoRA's base in processes that save nothing."""


def build_learner(
    recipe: Recipe, data: PreparedData, processes: Processes, *, takes_start: bool = False
) -> Learner[Network]:
    """Returns a learner that hasn't learned yet, on its device; every process must call it.

    Its weights are random; with `takes_start`, they are those that `training.start_from`
    names. With LoRA they are so whenever training begins or resumes.

    Raises:
        MtkitError: The network is larger than this machine's memory, or its shape
            isn't the start's.
    """
    lora, base_digest = recipe.training.lora, ""
    config = ModelConfig.of(recipe, data.tokenizer, data.labels)
    check_memory(config.list_shapes().values(), "[model]")
    torch.manual_seed(recipe.seed)
    model = build(config).to(processes.device)
    if takes_start:
        start_from(recipe, model, data.tokenizer)
    if lora is not None:
        adapt(model, config, lora)
        model.to(processes.device)
        base_digest = digest_model(find_base(recipe)) if processes.is_first else _UNREAD
    freeze(model, recipe.training.freeze, lora)
    precision = resolve_precision(recipe, processes)
    # M2M100 has no bias of the output: the one here only hides what the model never writes.
    keeps_bias = data.tokenizer.has_language_pieces
    return Learner.of(
        model, recipe, precision=precision, base_digest=base_digest, keeps_bias=keeps_bias
    )


def build_objective(
    recipe: Recipe, data: PreparedData, learner: Learner[Any], processes: Processes
) -> Objective[Any]:
    """Returns the recipe's objective; every process must call it.

    Raises:
        MtkitError: The development set can't be scored, or not be translated.
    """
    dtype = next(learner.working.model.parameters()).dtype
    # A process that can't pack would cut updates otherwise than the rest.
    packs = not processes.any(not can_pack_passes(recipe, processes.device, dtype))
    validator = build_validator(recipe, data, processes)
    kind, measure = _choose(recipe)
    return MeasuredObjective(
        learner,
        kind(data, recipe, processes, dtype=dtype, packs=packs),
        validator,
        partial(measure, label_smoothing=recipe.training.label_smoothing),
    )


def _choose(recipe: Recipe) -> tuple[type[StoredBatches[Any]], Callable[..., LossSums]]:
    """Returns the kind of a recipe's batches, and the loss of one."""
    match recipe.objective:
        case "translation" if recipe.model.architecture == "decoder-only":
            return JoinedBatches, measure_joined
        case "translation":
            return TranslationBatches, partial(measure_translation, guide=find_guide(recipe))
        case "denoising":
            return DenoisingBatches, measure_translation
        case "causal-lm":
            return CausalBatches, measure_causal
        case "masked-lm":
            return MaskedBatches, measure_masked
        case "classification":
            auxiliary = recipe.classification.auxiliary if has_auxiliary_loss(recipe) else 0.0
            return LabelledBatches, partial(measure_classification, auxiliary=auxiliary)


def find_guide(recipe: Recipe) -> Guide | None:
    """Returns the head that learns alignments; None where none does."""
    guided = recipe.training.guided_alignment
    if guided is None:
        return None
    layer = guided.choose_layer(recipe.model.num_decoder_layers)
    return Guide(layer, guided.head, guided.weight)


def build_validator(
    recipe: Recipe, data: PreparedData, processes: Processes, *, forks: bool = False
) -> ModelValidator[Any]:
    """Returns what measures networks of the recipe's objective on the development set.

    With `forks`, forks of this process translate: for one that has no other thread at work.

    Raises:
        MtkitError: The development set can't be scored, or not be translated.
    """
    match recipe.objective:
        case "translation":
            return Validator(recipe, data, processes, forks=forks)
        case "denoising":
            return DenoisingValidator(recipe, data, processes)
        case "causal-lm":
            return CausalValidator(recipe, data, processes)
        case "masked-lm":
            return MaskedValidator(recipe, data, processes)
        case "classification":
            return LabelValidator(recipe, data, processes)


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
