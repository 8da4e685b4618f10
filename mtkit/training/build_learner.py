"""Builds the parts of a training from its run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from mtkit.model.build import build
from mtkit.model.digest import digest_model
from mtkit.model.weight_files import check_memory
from mtkit.network import Network
from mtkit.network.stack import TransformerStack
from mtkit.training.checkpoint import TrainingState
from mtkit.training.distributed import ProcessGroup
from mtkit.training.learner import Learner, freeze
from mtkit.training.loss import (
    AlignmentGuide,
    LossSums,
    measure_causal,
    measure_classification,
    measure_joined,
    measure_masked,
    measure_translation,
)
from mtkit.training.metrics_log import MetricsLog, open_trackers
from mtkit.training.objectives.stored import (
    JoinedBatches,
    StoredBatches,
    TranslationBatches,
)
from mtkit.training.objectives.texts import (
    CausalBatches,
    DenoisingBatches,
    LabelledBatches,
    MaskedBatches,
    find_auxiliary_weight,
)
from mtkit.training.precision import resolve_precision
from mtkit.training.start_from import start_from
from mtkit.training.training_run import TrainingRun
from mtkit.training.update import Objective
from mtkit.training.validation import ModelValidator
from mtkit.training.validators import (
    CausalValidator,
    DenoisingValidator,
    LabelValidator,
    MaskedValidator,
    TranslationValidator,
)
from mtkit.training.whole_weights import adapt, find_base

_Parts = tuple[type[StoredBatches[Any, Any]], type[ModelValidator[Any]], Callable[..., LossSums]]
_PARTS: dict[str, _Parts] = {
    "translation": (TranslationBatches, TranslationValidator, measure_translation),
    "denoising": (DenoisingBatches, DenoisingValidator, measure_translation),
    "causal-lm": (CausalBatches, CausalValidator, measure_causal),
    "masked-lm": (MaskedBatches, MaskedValidator, measure_masked),
    "classification": (LabelledBatches, LabelValidator, measure_classification),
}
"""Batches, validator and loss of each objective."""
_UNREAD = "unread"
"""The digest of LoRA's base in processes that save nothing."""


def build_learner(
    run: TrainingRun, processes: ProcessGroup, *, loads_start: bool = False
) -> Learner[Network]:
    """Returns an untrained learner on its device; every process must call it.

    Its weights are random, or those of `training.start_from` with `loads_start`. With LoRA it is
    passed whenever training begins or resumes.
    """
    training, tokenizer = run.recipe.training, run.data.tokenizer
    lora, base_digest = training.lora, ""
    config = run.model_config
    check_memory(config.list_shapes().values(), "[model]")
    torch.manual_seed(run.recipe.seed)
    model = build(config).to(processes.device)
    if loads_start:
        start_from(training, config, model, tokenizer)
    if lora is not None:
        adapt(model, config, lora)
        model.to(processes.device)
        base_digest = digest_model(find_base(training)) if processes.is_first else _UNREAD
    freeze(model, training.freeze, lora)
    for part in model.modules():
        if isinstance(part, TransformerStack):
            part.recomputes = training.recompute
    return Learner.of(
        model,
        training,
        precision=resolve_precision(training.precision, processes),
        base_digest=base_digest,
        # M2M100 has no output bias: the one here only masks pieces that the model never outputs.
        keeps_bias=tokenizer.has_language_pieces,
        processes=processes,
    )


def build_objective(
    run: TrainingRun, learner: Learner[Any], processes: ProcessGroup
) -> Objective[Any, Any]:
    """Returns the recipe's objective; every process must call it."""
    dtype = next(learner.working.model.parameters()).dtype
    packs = processes.device.type == "cuda"
    batches, validator, measure = _choose(run)
    r_drop = run.recipe.training.r_drop
    if r_drop is not None:
        measure = partial(measure, r_drop=r_drop.alpha)
    return Objective(
        learner,
        validator=validator(run, processes),
        batches=batches(run, processes, dtype=dtype, packs=packs),
        measure=partial(measure, label_smoothing=run.recipe.training.label_smoothing),
    )


def build_validator(run: TrainingRun, processes: ProcessGroup) -> ModelValidator[Any]:
    """Returns the validator of the recipe's objective."""
    _, validator, _ = _choose(run)
    return validator(run, processes)


def _choose(run: TrainingRun) -> _Parts:
    """Returns the batch class of a recipe, its validator, and the loss of a batch."""
    recipe = run.recipe
    if recipe.model.architecture == "decoder-only":
        return JoinedBatches, TranslationValidator, measure_joined
    batches, validator, measure = _PARTS[recipe.objective]
    guided = recipe.training.guided_alignment
    if guided is not None:
        layer = guided.choose_layer(recipe.model.num_decoder_layers)
        measure = partial(measure, guide=AlignmentGuide(layer, guided.head, guided.weight))
    if recipe.objective == "classification":
        measure = partial(measure, auxiliary=find_auxiliary_weight(recipe.classification))
    return batches, validator, measure


@contextmanager
def open_metrics(
    run: TrainingRun, state: TrainingState, processes: ProcessGroup
) -> Iterator[MetricsLog | None]:
    """Yields the run's log in the first process, None in the others."""
    if not processes.is_first:
        yield None
        return
    training = run.recipe.training
    metrics = MetricsLog(
        run.workspace.metrics_file,
        picture=run.workspace.curves,
        title=run.recipe.name,
        resumed_at=state.step,
        warm_up_steps=training.schedule.warmup_steps,
        score=training.validation.score_name,
        trackers=open_trackers(run, resumed_at=state.step),
    )
    try:
        if state.step:
            metrics.append("event", {"step": state.step, "text": "resumed"})
        yield metrics
    finally:
        metrics.close()
