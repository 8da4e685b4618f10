"""Checkpoints released to `model/`; the end of a training, which releases the best."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from mtkit.model.adapter import AdapterConfig, is_adapter
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import read_weights
from mtkit.recipe.inference import Inference
from mtkit.recipe.lora import Lora
from mtkit.text.widths import measure_width
from mtkit.training.alignment_choice import find_alignment_head
from mtkit.training.averaging.record import ModelRecord, TrainingRecord
from mtkit.training.checkpoint import (
    Checkpoint,
    TrainingState,
    choose_best,
    describe_training,
    list_steps,
)
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.start_from import describe_start, find_start_licence
from mtkit.training.summary import show_summary
from mtkit.training.training_run import TrainingRun
from mtkit.training.whole_weights import WholeWeights, find_base
from mtkit.workspace import Workspace


def save_model(
    run: TrainingRun,
    chosen: Sequence[Checkpoint],
    weights: Mapping[str, Tensor],
    *,
    record: ModelRecord,
    remark: str = "",
) -> None:
    """Fills `model/` with the mean of some checkpoints; manifest and card say so.

    Args:
        run: The run.
        chosen: One checkpoint or more, oldest first.
        weights: Their mean; with LoRA, of what was learned.
        record: The manifest's, but for the digest.
        remark: What the model's card adds to their steps.
    """
    recipe, workspace, data = run.recipe, run.workspace, run.data
    names = ", ".join(map(str, record.steps))
    several = f"the average of the checkpoints of steps {names}"
    origin = several if len(chosen) > 1 else f"the checkpoint of step {names}"
    training, adapter, base_digest = recipe.training, None, chosen[-1].base_digest
    whole = WholeWeights(recipe, data.tokenizer, tuple(data.labels)).of(weights, base_digest)
    if training.lora is not None and training.lora.release == "adapter":
        base = find_base(training)
        adapter = AdapterConfig.of(base, workspace.model, training.lora, base_digest)
    save_model_folder(
        workspace.model,
        recipe=recipe.model_copy(update={"inference": _with_length_ratio(run)}),
        weights=whole if adapter is None else weights,
        adapter=adapter,
        tokenizer=data.tokenizer,
        labels=data.labels,
        origin=origin + remark,
        licence=find_start_licence(training.start_from),
        alignment_head=find_alignment_head(
            run.model_config, training.guided_alignment, data.dev, whole
        ),
        word_aligner=data.word_aligner,
        training_facts=describe_start(training.start_from, str(recipe.data.data_root))
        | describe_training(chosen[-1].state, len(data.train))
        | record.list_facts(),
        record=lambda _: record.write(workspace),
    )


def _with_length_ratio(run: TrainingRun) -> Inference:
    """Returns settings whose flags know how long the development set's translations are."""
    inference = run.recipe.inference
    flags = inference.flags
    if flags is None or flags.length_ratio is not None or run.recipe.data.is_text:
        return inference
    # Imported here: scoring takes a while to load, and most recipes have no flags.
    from mtkit.checks.lengths import measure_length_ratio  # noqa: PLC0415

    pairs = zip(*run.data.dev_text, strict=True)
    ratio = round(measure_length_ratio(pairs, lambda line: measure_width(line.strip())), 4)
    flags = flags.model_copy(update={"length_ratio": ratio})
    return inference.model_copy(update={"flags": flags})


def is_released(run: TrainingRun, checkpoints: CheckpointFolder) -> bool:
    """Checks that `model/` is the best checkpoint, or was made by hand with `average`."""
    record = ModelRecord.read(run.workspace)
    best = list_steps(choose_best(checkpoints.list(), 1))
    is_best = bool(best) and record.steps == best
    has_form = has_wanted_form(run.workspace, run.recipe.training.lora)
    return has_form and (record.made_by == "average" or is_best)


def has_wanted_form(workspace: Workspace, lora: Lora | None) -> bool:
    """Checks that `model/` is there, an adapter where the recipe releases one and only there."""
    wants_adapter = lora is not None and lora.release == "adapter"
    return workspace.model.is_dir() and is_adapter(workspace.model) == wants_adapter


def release(run: TrainingRun, state: TrainingState, *, options: Sequence[str]) -> None:
    """Fills `model/`, and prints a summary of the training with the commands that come next.

    Raises:
        MtkitError: The best checkpoint is damaged.
    """
    saved = CheckpointFolder(run.workspace.checkpoints).list()
    best = choose_best(saved, 1)
    if best:
        best[0].check(run.model_config.list_shapes().values())
        save_model(
            run,
            best,
            read_weights(best[0].weights_file),
            record=ModelRecord(
                made_by="train", steps=list_steps(best), training=TrainingRecord.of(saved[-1])
            ),
            remark=", the best on the development set",
        )
    show_summary(run, state, best[0] if best else None, options=options)
