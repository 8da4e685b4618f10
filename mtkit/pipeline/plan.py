"""The front door of `mtkit plan`: what a training will take, by arithmetic; nothing is started.

It needs neither data nor a GPU. Where `prepare` has run for this recipe, its counts of tokens take
the place of the recipe's bounds. `mtkit train --dry-run` measures the same on the machine at hand.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from mtkit.data.batches.epoch import plan_epoch
from mtkit.data.prepared import fingerprint, open_prepared, read_facts
from mtkit.errors import MtkitError
from mtkit.pipeline.accelerators import Accelerator, find_accelerator
from mtkit.pipeline.model_costs import (
    PER_WEIGHT,
    Operations,
    Weights,
    bytes_of_weights,
    bytes_per_token,
    count_operations,
    count_weights,
)
from mtkit.recipe import Recipe
from mtkit.workspace import Workspace

DEFAULT_SHARE = 0.3
"""Of a GPU's peak that its products reach: an assumption. NVIDIA's own Transformer-big reaches 0.34
on an A100 and on a V100 (DeepLearningExamples, 2022), the paper's base 0.28 on eight P100."""
_LEAST_NUM_GPUS = (1, 8)
"""What is told of whatever number was asked for."""
_LEAST_WIDTH = 512
"""On a processor the base model's products reach 45 % of the peak, the tiny one's 16 %."""
_LOSS_BYTES = 2 * (256 << 20)
"""Logits of a chunk, and their softmax: `mtkit/training/loss.py`."""
_FP32_BYTES = 4
_UPDATE_TRAFFIC = 34
"""Bytes that Adam moves per weight: weight, gradient and moments read, three written, in fp32; the
gradient's and the weight's copies in bf16."""


@dataclass(frozen=True)
class Setup:
    """What a number of GPUs make of it.

    Attributes:
        num_gpus: How many share an update.
        pass_tokens: Tokens a side of one forward pass on one GPU, at most.
        num_passes: Passes of one GPU in an update, one after another.
        memory_bytes: Of one GPU, at its peak.
        fits: Whether it has as much.
        seconds_per_update: Products, Adam and the sum of gradients.
        communication_seconds: Of these, the sum of gradients, which nothing overlaps.
        target_tokens_per_second: Of all GPUs together.
        seconds: Of all updates; validation apart.
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
    """What a training will take.

    Attributes:
        name: The recipe's.
        source_vocab_size: Number of source pieces.
        target_vocab_size: Number of target pieces.
        weights: The network's.
        is_prepared: Whether tokens were counted in prepared data.
        source_tokens: Of an update: the mean in prepared data, else the recipe's bound.
        target_tokens: Likewise.
        updates_per_epoch: None before the data are prepared.
        num_updates: Of the whole training.
        operations: Per token.
        operations_per_update: Of products with weights and, where the data are prepared, of
            attention's own.
        rule_of_thumb: Six for each weight and token of one side, of the whole training.
        hardware: Kind of GPU.
        share: Of its peak, assumed.
        is_narrow: Whether the network is too narrow for products that fill a GPU.
        setups: By number of GPUs.
    """

    name: str
    source_vocab_size: int
    target_vocab_size: int
    weights: Weights
    is_prepared: bool
    source_tokens: float
    target_tokens: float
    updates_per_epoch: int | None
    num_updates: int
    operations: Operations
    operations_per_update: float
    rule_of_thumb: float
    hardware: Accelerator
    share: float
    is_narrow: bool
    setups: tuple[Setup, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns it as nested dictionaries."""
        return asdict(self)


@dataclass(frozen=True)
class _Update:
    """One update on the average.

    Attributes:
        vocab_sizes: Source and target pieces.
        source_tokens: Real tokens.
        target_tokens: Likewise.
        attended_pairs: Pairs of query and key in one encoder layer and one decoder layer; 0 where
            lengths aren't known.
        per_epoch: Updates of an epoch, where the data are known.
    """

    vocab_sizes: tuple[int, int]
    source_tokens: float
    target_tokens: float
    attended_pairs: tuple[float, float] = (0.0, 0.0)
    per_epoch: int | None = None

    @property
    def longer_side(self) -> float:
        """Tokens of the side that has more."""
        return max(self.source_tokens, self.target_tokens)


@dataclass(frozen=True)
class _Work:
    """What is the same for any number of GPUs.

    Attributes:
        recipe: What is trained.
        accelerator: What on.
        share: Of its peak that products reach.
        update: One update.
        weights: The network's.
        operations: Of one update.
    """

    recipe: Recipe
    accelerator: Accelerator
    share: float
    update: _Update
    weights: Weights
    operations: float


def plan(
    recipe: Recipe,
    workspace: Workspace,
    *,
    num_gpus: int = 1,
    hardware: str = "h100",
    share: float = DEFAULT_SHARE,
) -> TrainingPlan:
    """Returns what a training will take.

    Args:
        recipe: What is to be trained.
        workspace: Where its data are, if they are prepared.
        num_gpus: GPUs that share an update, besides 1 and 8.
        hardware: Kind of GPU, a key of `ACCELERATORS`.
        share: Share of the GPU's peak that products reach.

    Raises:
        MtkitError: No such kind of GPU, or a share that is none.
    """
    accelerator = find_accelerator(hardware)
    if not 0.0 < share <= 1.0:
        raise MtkitError(f"--share {share}: expected a number above 0, at most 1")
    is_prepared = read_facts(workspace).get("fingerprint") == fingerprint(recipe)
    update = _look_at_data(recipe, workspace) if is_prepared else _take_bounds(recipe)
    weights = count_weights(recipe.model, *update.vocab_sizes)
    operations = count_operations(recipe.model, update.vocab_sizes[1])
    layers = recipe.model.num_encoder_layers, recipe.model.num_decoder_layers
    per_update = (
        operations.per_source_token * update.source_tokens
        + operations.per_target_token * update.target_tokens
        + operations.per_attended_pair
        * sum(n * pairs for n, pairs in zip(layers, update.attended_pairs, strict=True))
    )
    num_updates = recipe.training.max_steps
    work = _Work(recipe, accelerator, share, update, weights, per_update)
    return TrainingPlan(
        name=recipe.name,
        source_vocab_size=update.vocab_sizes[0],
        target_vocab_size=update.vocab_sizes[1],
        weights=weights,
        is_prepared=is_prepared,
        source_tokens=update.source_tokens,
        target_tokens=update.target_tokens,
        updates_per_epoch=update.per_epoch,
        num_updates=num_updates,
        operations=operations,
        operations_per_update=per_update,
        rule_of_thumb=PER_WEIGHT * weights.total * update.target_tokens * num_updates,
        hardware=accelerator,
        share=share,
        is_narrow=recipe.model.d_model < _LEAST_WIDTH,
        setups=tuple(_plan_setup(work, count) for count in sorted({*_LEAST_NUM_GPUS, num_gpus})),
    )


def _take_bounds(recipe: Recipe) -> _Update:
    """Returns an update as large as the recipe lets it be, with vocabularies as it asks for."""
    size, tokens = recipe.tokenizer.vocab_size, recipe.training.batch_tokens
    return _Update((size, size), tokens, tokens)


def _look_at_data(recipe: Recipe, workspace: Workspace) -> _Update:
    """Returns the mean update of the first epoch."""
    data = open_prepared(recipe, workspace)
    epoch = plan_epoch(
        data.train_order,
        weights=data.weights,
        batch_tokens=recipe.training.batch_tokens,
        length_groups=recipe.training.length_groups,
        seed=recipe.seed,
        epoch=0,
    )
    strata = data.train_order.strata
    sources, targets = (strata[f"{side}_length"].astype(float) for side in ("source", "target"))
    counts = strata["count"] * epoch.num_pairs / max(1, strata["count"].sum())
    num_updates = len(epoch)
    # The causal half is not left out by every kernel, but it is needed by none.
    in_decoder = targets * (targets + 1) / 2 + targets * sources
    return _Update(
        (data.tokenizer.source_vocab_size, data.tokenizer.target_vocab_size),
        epoch.num_source_tokens / num_updates,
        epoch.num_target_tokens / num_updates,
        (
            float(counts @ sources**2) / num_updates,
            float(counts @ in_decoder) / num_updates,
        ),
        num_updates,
    )


def _plan_setup(work: _Work, num_gpus: int) -> Setup:
    """Returns what a number of GPUs make of it."""
    accelerator, training = work.accelerator, work.recipe.training
    pass_tokens, num_passes = _cut(work, num_gpus)
    memory = _count_memory(work, num_gpus, pass_tokens)
    if training.micro_batch_tokens == "auto":
        # As training does: halved until it fits.
        while memory > accelerator.memory_bytes and pass_tokens > 1:
            pass_tokens, num_passes = -(-pass_tokens // 2), 2 * num_passes
            memory = _count_memory(work, num_gpus, pass_tokens)
    products = work.operations / (num_gpus * accelerator.operations_per_second * work.share)
    adam = work.weights.total * _UPDATE_TRAFFIC / accelerator.bytes_per_second
    # A ring: each sends every number on twice but for its own part (decision 0001: in fp32).
    sent = 2 * (num_gpus - 1) / num_gpus * _FP32_BYTES * work.weights.total
    communication = sent / accelerator.link_bytes_per_second
    seconds_per_update = products + adam + communication
    seconds = seconds_per_update * training.max_steps
    return Setup(
        num_gpus=num_gpus,
        pass_tokens=pass_tokens,
        num_passes=num_passes,
        memory_bytes=memory,
        fits=memory <= accelerator.memory_bytes,
        seconds_per_update=seconds_per_update,
        communication_seconds=communication,
        target_tokens_per_second=work.update.target_tokens / seconds_per_update,
        seconds=seconds,
        possible_operations=seconds * num_gpus * accelerator.operations_per_second,
    )


def _cut(work: _Work, num_gpus: int) -> tuple[int, int]:
    """Returns the tokens a side of one pass and how many passes a GPU makes of an update."""
    of_one_gpu = work.update.longer_side / num_gpus
    limit = work.recipe.training.micro_batch_tokens
    num_passes = 1 if limit == "auto" else math.ceil(of_one_gpu / limit)
    return math.ceil(of_one_gpu / num_passes), num_passes


def _count_memory(work: _Work, num_gpus: int, pass_tokens: int) -> float:
    """Returns the bytes that a GPU holds at the end of a forward pass, when it holds most."""
    model, update, is_half = work.recipe.model, work.update, work.accelerator.is_half
    per_source, per_target = bytes_per_token(model, is_half=is_half)
    of_update = per_source * update.source_tokens + per_target * update.target_tokens
    projection = update.vocab_sizes[1] * model.d_model * _FP32_BYTES
    flat = work.weights.total * _FP32_BYTES if num_gpus > 1 else 0
    fixed = bytes_of_weights(work.weights.total, is_half=is_half)
    return fixed + of_update * pass_tokens / update.longer_side + projection + _LOSS_BYTES + flat
