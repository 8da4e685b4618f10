"""Entry point of `mtkit plan`: estimates what a training will take; nothing is started.

It needs neither data nor a GPU. If `prepare` has run for this recipe, its counts of tokens replace
the recipe's bounds. On this machine's CPU a layer of the network is timed; `mtkit train --dry-run`
times whole updates.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mtkit.data.batches.micro_batches import SHARE_SLACK
from mtkit.data.batches.updates import EpochPlan, find_epoch, plan_epoch
from mtkit.data.prepared import check_weights, fingerprint, open_prepared, read_facts
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.errors import MtkitError
from mtkit.model.costs import (
    PER_WEIGHT,
    Operations,
    Weights,
    bytes_of_weights,
    bytes_per_token,
    count_operations,
    count_trained,
)
from mtkit.pipeline.hardware import CPU, Accelerator, find_accelerator
from mtkit.recipe import Recipe
from mtkit.recipe.model import Model
from mtkit.recipe.objective import ENCODER_DECODERS, Objective
from mtkit.recipe.precision import TrainingPrecision
from mtkit.workspace import Workspace

DEFAULT_SHARES: dict[TrainingPrecision, float] = {"bf16": 0.3, "fp16": 0.3, "fp32": 0.6}
"""Share of a GPU's peak that its products reach, an assumption. NVIDIA's own Transformer-big
reaches 0.34 of an A100's in 16 bits and 0.71 of a V100's in fp32 (DeepLearningExamples, 2022)."""
_MIN_SHARE = 0.001
_REPORTED_NUM_GPUS = (1, 8)
"""Always reported, besides the requested number."""
_MIN_WIDTH = 512
"""On a CPU the base model's products reach 45 % of the peak, the tiny one's 16 %."""
_LOSS_BYTES = 2 * (256 << 20)
"""Logits of a chunk, and their softmax: `mtkit/training/cross_entropy.py`."""
_FP32_BYTES = 4
_UPDATE_TRAFFIC = 34
"""Bytes that Adam moves per weight: weight, gradient and moments read, three written, in fp32; the
gradient's and the weight's copies in 16 bits."""


@dataclass(frozen=True)
class GpuSetup:
    """A training on a number of GPUs.

    Attributes:
        num_gpus: How many share an update.
        pass_tokens: Maximum tokens per side of one forward pass on one GPU.
        num_passes: Passes of one GPU in an update.
        memory_bytes: One GPU's peak.
        fits: Whether it has that memory.
        seconds_per_update: Products, Adam and the all-reduce.
        communication_seconds: The all-reduce, which nothing overlaps.
        target_tokens_per_second: Of all GPUs together.
        seconds: All updates, without validation.
        possible_operations: Time x GPUs x their peak, as the paper counts (section 6.1).
    """

    num_gpus: int
    pass_tokens: int
    num_passes: int
    memory_bytes: float
    fits: bool
    seconds_per_update: float
    communication_seconds: float
    target_tokens_per_second: float
    seconds: float
    possible_operations: float


@dataclass(frozen=True)
class TrainingPlan:
    """Time, memory and operations of a training.

    Attributes:
        num_trainable: Weights that aren't frozen.
        num_added: LoRA's matrices among these, which aren't the network's.
        is_prepared: Whether tokens were counted in prepared data.
        source_tokens: Of an update: the mean in prepared data, else the recipe's bound; 0 for a
            language model.
        target_tokens: Likewise.
        updates_per_epoch: None before the data are prepared.
        num_updates: Of the whole training.
        operations: Per token.
        operations_per_update: Products with weights and, with prepared data, attention's own;
            frozen weights count as if they learned.
        rule_of_thumb: Six per weight and token of one side, for the whole training.
        share: Assumed share of the hardware's peak in that precision.
        is_narrow: Whether the network is too narrow for products that fill a GPU.
        setups: By number of GPUs.
    """

    name: str
    source_vocab_size: int
    target_vocab_size: int
    weights: Weights
    num_trainable: int
    num_added: int
    is_prepared: bool
    source_tokens: float
    target_tokens: float
    updates_per_epoch: int | None
    num_updates: int
    operations: Operations
    operations_per_update: float
    rule_of_thumb: float
    hardware: Accelerator
    precision: TrainingPrecision
    share: float
    is_narrow: bool
    setups: tuple[GpuSetup, ...]

    @property
    def is_text(self) -> bool:
        """Whether a language model is trained, on text in one language."""
        return not self.source_tokens


@dataclass(frozen=True)
class _Update:
    """One average update.

    Attributes:
        vocab_sizes: Source and target pieces.
        source_tokens: Real tokens.
        target_tokens: Likewise.
        longest: Maximum tokens of a side.
        attended_pairs: Pairs of query and key in one encoder layer and one decoder layer; 0 if
            lengths aren't known.
        per_epoch: Updates per epoch, if the data are known.
    """

    vocab_sizes: tuple[int, int]
    source_tokens: float
    target_tokens: float
    longest: int
    attended_pairs: tuple[float, float] = (0.0, 0.0)
    per_epoch: int | None = None

    @property
    def longer_side(self) -> float:
        """Tokens of the longer side."""
        return max(self.source_tokens, self.target_tokens)


@dataclass(frozen=True)
class _PlannedWork:
    """The part of a plan that is the same for any number of GPUs."""

    recipe: Recipe
    update: _Update
    plan: TrainingPlan


def plan(
    recipe: Recipe,
    workspace: Workspace,
    *,
    num_gpus: int = 1,
    hardware: str = "h100",
    share: float | None = None,
) -> TrainingPlan:
    """Returns the estimated cost of a training.

    Args:
        recipe: What is to be trained.
        workspace: Where its data are, if they are prepared.
        num_gpus: GPUs that share an update, besides 1 and 8.
        hardware: Kind of GPU, a key of `ACCELERATORS`; or `CPU`, this machine's, measured.
        share: Share of the peak that products reach; by default that of `DEFAULT_SHARES`, or all of
            a measured rate.
    """
    accelerator = _find_hardware(hardware, recipe.model)
    precision = accelerator.resolve_precision(recipe.training.precision)
    if share is None:
        share = 1.0 if accelerator.is_measured else DEFAULT_SHARES[precision]
    if not _MIN_SHARE <= share <= 1.0:
        raise MtkitError(f"--share {share}: expected a number from {_MIN_SHARE} to 1")
    is_prepared = read_facts(workspace).get("fingerprint") == fingerprint(recipe)
    has_source = recipe.objective in ENCODER_DECODERS
    if is_prepared:
        update = _average_data(recipe, workspace)
    else:
        choice = TokenizerChoice.of(recipe)
        update = _assume_bounds(choice, recipe.training.batch_tokens, has_source=has_source)
    weights, num_trainable, num_added = count_trained(
        recipe.model, recipe.training, update.vocab_sizes, objective=recipe.objective
    )
    is_classifier = recipe.objective == "classification"
    # A classifier predicts no token: only the layers of its language model remain.
    operations = count_operations(
        recipe.model,
        0 if is_classifier else update.vocab_sizes[1],
        objective=recipe.classification.kind if is_classifier else recipe.objective,
        predicted_share=0.0 if is_classifier else recipe.training.masked.share,
    )
    layers = recipe.model.num_encoder_layers, recipe.model.num_decoder_layers
    per_update = recipe.training.passes_per_batch * (
        operations.per_source_token * update.source_tokens
        + operations.per_target_token * update.target_tokens
        + operations.per_attended_pair
        * sum(n * pairs for n, pairs in zip(layers, update.attended_pairs, strict=True))
    )
    if recipe.training.recompute:
        # Forward once more, the output too: a bound.
        per_update = per_update * 4 // 3
    num_updates = recipe.training.max_steps
    planned = TrainingPlan(
        name=recipe.name,
        source_vocab_size=update.vocab_sizes[0],
        target_vocab_size=update.vocab_sizes[1],
        weights=weights,
        num_trainable=num_trainable,
        num_added=num_added,
        is_prepared=is_prepared,
        source_tokens=update.source_tokens,
        target_tokens=update.target_tokens,
        updates_per_epoch=update.per_epoch,
        num_updates=num_updates,
        operations=operations,
        operations_per_update=per_update,
        rule_of_thumb=PER_WEIGHT * weights.total * update.target_tokens * num_updates,
        hardware=accelerator,
        precision=precision,
        share=share,
        is_narrow=recipe.model.d_model < _MIN_WIDTH and not accelerator.is_measured,
        setups=(),
    )
    work = _PlannedWork(recipe, update, planned)
    counts = (1,) if accelerator.is_measured else sorted({*_REPORTED_NUM_GPUS, num_gpus})
    setups = (_plan_setup(work, count) for count in counts)
    return replace(planned, setups=tuple(setups))


def default_hardware(*, wants_gpus: bool) -> str:
    """Returns the hardware to plan for where none is named."""
    if wants_gpus:
        return "h100"
    from mtkit.network.device import find_device  # noqa: PLC0415

    return CPU if find_device("auto").type == "cpu" else "h100"


def _find_hardware(name: str, model: Model) -> Accelerator:
    """Returns a kind of GPU, or this machine's CPU, measured with layers of the network's width."""
    if name.lower() != CPU:
        return find_accelerator(name)
    from mtkit.pipeline.cpu_rate import measure_cpu  # noqa: PLC0415

    return measure_cpu(model)


def _assume_bounds(choice: TokenizerChoice, tokens: int, *, has_source: bool) -> _Update:
    """Returns an update of the recipe's maximum size, with its vocabulary sizes."""
    longest = min(tokens, choice.data.max_tokens)
    vocab_sizes = choice.settings.vocab_size, choice.settings.vocab_size
    if (tokenizer := choice.find()) is not None:
        added = choice.settings.vocab_size if choice.extends_vocabulary else 0
        vocab_sizes = tokenizer.source_vocab_size + added, tokenizer.target_vocab_size + added
    return _Update(vocab_sizes, tokens if has_source else 0, tokens, longest)


def _average_data(recipe: Recipe, workspace: Workspace) -> _Update:
    """Returns the mean update of the first epoch, weighted between short blocks and others."""
    data = open_prepared(recipe, workspace)
    check_weights(recipe, data.train_order)
    plan = partial(
        plan_epoch,
        weights=recipe.stages[0].weights,
        batch_tokens=recipe.training.batch_tokens,
        length_groups=recipe.training.length_groups,
        seed=recipe.seed,
    )
    sizes = data.tokenizer.source_vocab_size, data.tokenizer.target_vocab_size
    look = partial(_average_epoch, sizes, recipe.objective, recipe.model)
    update = look(partial(plan, data.train_order))
    if data.train_short is None:
        return update
    short = look(partial(plan, data.train_short.order))
    share = recipe.training.masked.short_updates
    pairs = zip(short.attended_pairs, update.attended_pairs, strict=True)
    of_short, of_long = (share * few + (1 - share) * many for few, many in pairs)
    return replace(
        update,
        target_tokens=share * short.target_tokens + (1 - share) * update.target_tokens,
        attended_pairs=(of_short, of_long),
    )


def _average_epoch(
    vocab_sizes: tuple[int, int],
    objective: Objective,
    model: Model,
    plan: Callable[..., EpochPlan],
) -> _Update:
    """Returns the mean update of the first epoch of some data."""
    epoch = plan(epoch=find_epoch(lambda number: plan(epoch=number)))
    counts, sources, targets = (each.astype(float) for each in epoch.length_classes)
    num_updates = len(epoch)
    has_both = objective in ENCODER_DECODERS
    is_joined = has_both and model.architecture == "decoder-only"
    texts = sources + targets if is_joined else targets
    reach = math.inf if model.attention_window is None else model.attention_window
    in_encoder = sources * np.minimum(sources, 2 * reach + 1)
    # The causal half: a kernel may compute the other one too, but none needs it.
    in_decoder = texts * np.minimum((texts + 1) / 2, reach + 1)
    if has_both and not is_joined:
        in_decoder += targets * sources
    # A language model has only one of the two.
    in_encoder, in_decoder = (
        in_encoder * (objective != "causal-lm" and not is_joined),
        in_decoder * (objective != "masked-lm"),
    )
    return _Update(
        vocab_sizes,
        # A bound for a denoising model, whose sources are shorter than its targets.
        epoch.num_source_tokens / num_updates if has_both else 0,
        epoch.num_target_tokens / num_updates,
        int(max(sources.max(), targets.max())),
        (float(counts @ in_encoder) / num_updates, float(counts @ in_decoder) / num_updates),
        num_updates,
    )


def _plan_setup(work: _PlannedWork, num_gpus: int) -> GpuSetup:
    """Returns the training's cost on a number of GPUs."""
    plan, accelerator = work.plan, work.plan.hardware
    peak = accelerator.operations_per_second(plan.precision)
    limit = _bound_pass(work, num_gpus)
    products = plan.operations_per_update / (num_gpus * peak * plan.share)
    num_updated = plan.num_trainable / (num_gpus if work.recipe.training.shard else 1)
    adam = num_updated * _UPDATE_TRAFFIC / accelerator.bytes_per_second
    # A ring: each sends every number twice except its own part (decision 0001: in fp32).
    sent = 2 * (num_gpus - 1) / num_gpus * _FP32_BYTES * plan.num_trainable
    communication = sent / accelerator.link_bytes_per_second
    seconds_per_update = products + adam + communication
    seconds = seconds_per_update * plan.num_updates
    memory = _count_memory(work, num_gpus, limit)
    return GpuSetup(
        num_gpus=num_gpus,
        pass_tokens=limit,
        num_passes=math.ceil(work.update.longer_side / num_gpus / limit),
        memory_bytes=memory,
        fits=memory <= accelerator.memory_bytes,
        seconds_per_update=seconds_per_update,
        communication_seconds=communication,
        target_tokens_per_second=work.update.target_tokens / seconds_per_update,
        seconds=seconds,
        possible_operations=seconds * num_gpus * peak,
    )


def _bound_pass(work: _PlannedWork, num_gpus: int) -> int:
    """Returns the tokens per side of the largest pass, halved until it fits, as in training."""
    # One pass holds at least a whole sentence.
    training = work.recipe.training
    longest = work.update.longest
    limit = max(longest, math.ceil(training.batch_tokens * SHARE_SLACK / num_gpus))
    if training.micro_batch_tokens != "auto":
        limit = min(limit, max(longest, training.micro_batch_tokens))
    while (
        limit > longest and _count_memory(work, num_gpus, limit) > work.plan.hardware.memory_bytes
    ):
        limit = max(longest, limit // 2)
    return limit


def _count_memory(work: _PlannedWork, num_gpus: int, pass_tokens: int) -> float:
    """Returns a GPU's peak bytes, at the end of a forward pass."""
    model, update, is_half = work.recipe.model, work.update, work.plan.precision != "fp32"
    is_sharded = work.recipe.training.shard
    per_source, per_target = bytes_per_token(
        model,
        is_half=is_half,
        objective=work.recipe.objective,
        recompute=work.recipe.training.recompute,
    )
    of_update = per_source * update.source_tokens + per_target * update.target_tokens
    of_update *= work.recipe.training.passes_per_batch
    projection = update.vocab_sizes[1] * model.d_model * _FP32_BYTES
    # Gradients of shards are one tensor already.
    flat = work.plan.num_trainable * _FP32_BYTES if num_gpus > 1 and not is_sharded else 0
    fixed = bytes_of_weights(
        work.plan.weights.total + work.plan.num_added,
        work.plan.num_trainable,
        is_half=is_half,
        has_average=work.recipe.training.moving_average is not None,
        num_shards=num_gpus if is_sharded else 1,
    )
    return fixed + of_update * pass_tokens / update.longer_side + projection + _LOSS_BYTES + flat
