"""The `training` section: batches, optimizer, schedule, checkpoints."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mtkit.recipe.inference import BeamSize
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.model import Rate
from mtkit.recipe.precision import PrecisionChoice
from mtkit.recipe.section import (
    Count,
    CountFromZero,
    NumProcesses,
    Section,
    Strength,
    StrengthFromZero,
)


class Adam(Section):
    """Adam (arXiv 1412.6980) with the paper's constants; decoupled weight decay by option."""

    beta1: Rate = 0.9
    """Decay of the first moment."""
    beta2: Rate = 0.98
    """Decay of the second moment."""
    epsilon: Strength = 1e-9
    """Added to the root of the second moment."""
    weight_decay: StrengthFromZero = 0.0
    """Decoupled weight decay (arXiv 1711.05101) on matrices; biases and norms are spared."""


class PaperSchedule(Section):
    """d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (arXiv 1706.03762, section 5.3)."""

    kind: Literal["paper"] = "paper"
    """Name of the schedule."""
    warmup_steps: Count = 4_000
    """Steps of linear rise."""
    factor: Strength = 1.0
    """Multiplies the whole schedule; 1 in the paper."""


class InverseSquareRootSchedule(Section):
    """A linear rise to `peak`, then peak * (warmup_steps / step)^0.5."""

    kind: Literal["inverse-sqrt"]
    """Name of the schedule."""
    peak: Strength
    """Learning rate at the end of the rise."""
    warmup_steps: Count = 4_000
    """Steps of linear rise."""


class CosineSchedule(Section):
    """A linear rise to `peak`, then half a cosine down to `final` at `max_steps`."""

    kind: Literal["cosine"]
    """Name of the schedule."""
    peak: Strength
    """Learning rate at the end of the rise."""
    warmup_steps: Count = 4_000
    """Steps of linear rise."""
    final: StrengthFromZero = 0.0
    """Learning rate at `max_steps`."""


class LinearSchedule(Section):
    """A linear rise to `peak`, then a straight line down to `final` at `max_steps`."""

    kind: Literal["linear"]
    """Name of the schedule."""
    peak: Strength
    """Learning rate at the end of the rise."""
    warmup_steps: Count = 4_000
    """Steps of linear rise."""
    final: StrengthFromZero = 0.0
    """Learning rate at `max_steps`."""


class ConstantSchedule(Section):
    """A linear rise to `peak`, which then stays."""

    kind: Literal["constant"]
    """Name of the schedule."""
    peak: Strength
    """Learning rate after the rise."""
    warmup_steps: CountFromZero = 0
    """Steps of linear rise."""


Schedule = Annotated[
    PaperSchedule | InverseSquareRootSchedule | CosineSchedule | LinearSchedule | ConstantSchedule,
    Field(discriminator="kind"),
]


class Clipping(Section):
    """Scales a gradient down whose norm is greater than a bound."""

    max_norm: Strength
    """Maximum Euclidean norm of the whole gradient."""


class EarlyStopping(Section):
    """Ends training when the development score stops rising."""

    patience: Count
    """Checkpoints in a row without a new best score after which training ends."""


class Validation(Section):
    """What happens on the development set at each checkpoint."""

    metric: Annotated[Literal["bleu", "chrf", "loss"], Invalidates.RUN | Invalidates.SCORES] = (
        "bleu"
    )
    """What makes a checkpoint the best: development BLEU, chrF, or loss per token."""
    beam_size: Annotated[BeamSize, Invalidates.SCORES] = 1
    """Beam of the development translations; 1, greedy, is quick, and ranks checkpoints well."""
    num_samples: Annotated[CountFromZero, Invalidates.NOTHING] = 3
    """Development sentences shown with their translations."""


class Averaging(Section):
    """Which checkpoints `mtkit average` takes the mean of."""

    choose: Literal["last", "best", "spaced"] = "last"
    """The most recent checkpoints, those with the best development score, or some spread evenly, by
    step, over all that were kept."""
    num_checkpoints: Count = 5
    """How many; `mtkit average --select` compares means of this number and of others."""
    if_worse: Literal["warn", "replace", "ignore"] = "warn"
    """What happens where the mean does worse on the development set than one of the checkpoints
    that were kept: `warn`; `replace` the mean by that checkpoint; `ignore`, which spares measuring
    the mean, and so the time of one validation."""


class MovingAverage(Section):
    """An exponential moving average of the weights, which is then what is validated and released.

    After update t it is d * average + (1 - d) * weights with d = min(decay, (1 + t) / (10 + t)), so
    that the first weights, which are random, are soon forgotten.
    """

    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
    """Share of the average that an update keeps; 0.999 looks back over some thousand updates."""


class Recovery(Section):
    """What happens when a loss or a gradient is NaN or infinite.

    That update is left out, on all processes, and counted. After several in a row training goes
    back to its last checkpoint, with a lower learning rate from there on.
    """

    max_skipped: Count = 5
    """Updates left out in a row, after which training goes back."""
    rate_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """What the learning rate is multiplied by each time training goes back."""
    max_returns: CountFromZero = 3
    """Times that training goes back; the next time it ends with an error."""


class StartFrom(Section):
    """A model whose weights training starts from: fine-tuning.

    `mtkit prepare` uses the model's own vocabulary unless `vocabulary` says otherwise.
    """

    model: Path
    """A model folder, such as another run's `model/`; a relative path starts from `data.data_root`,
    or, given by `--set`, from the current folder."""
    vocabulary: Literal["keep", "new"] = "keep"
    """`keep`: the model's own pieces and treatment of punctuation, with the recipe's tags and
    `tokenizer.user_symbols` added at the end; keys on the tokenizer's training have no effect.
    `new`: pieces as the recipe says; the vectors of those that the model knows are taken over, the
    others start from random vectors."""


FrozenPart = Literal["embeddings", "encoder", "decoder"]


class Training(Section):
    """From data to checkpoints. The defaults are the paper's base model."""

    max_steps: Annotated[Count, Invalidates.SCHEDULE_END] = 100_000
    """Updates of the weights after which training ends."""
    batch_tokens: Annotated[Count, Invalidates.RUN] = 25_000
    """Real tokens, `</s>` counted, of each side in one update, whatever the number of processes."""
    length_groups: Annotated[Count, Invalidates.RUN] = 8
    """Groups of similarly long sentences that one update is drawn from: 1 pads least, more make
    updates less alike in length. The paper's eight GPUs each held one such group."""
    micro_batch_tokens: Annotated[Count | Literal["auto"], Invalidates.NOTHING] = 8_192
    """Maximum size of one forward pass on one process, in tokens of the side that has more, with
    padding; what does not fit in one pass is accumulated. Before the first update the largest pass
    is tried, and the size halved until it fits in memory; `auto` starts from all that one process
    has of an update. Another cut draws other dropout masks and rounds otherwise, and changes
    nothing else."""
    processes: Annotated[NumProcesses, Invalidates.NOTHING] = "auto"
    """Processes that share an update on a CPU; `--processes` overrules it, and on GPUs there is one
    for each. `auto`: a new training on Linux takes one a core, as far as memory allows and each has
    1,024 tokens of an update, which is fastest beside other programs. One where `OMP_NUM_THREADS`
    is set. A training resumes in as many as it last ran in."""
    label_smoothing: Annotated[Rate, Invalidates.UPDATES | Invalidates.SCORES] = 0.1
    """Probability mass spread evenly over the whole vocabulary (paper, section 5.4)."""
    precision: Annotated[PrecisionChoice, Invalidates.UPDATES] = "auto"
    """Arithmetic of an update: 32-bit, or bfloat16 with sums and the weights that learn in 32-bit.
    `auto` is bf16 on a GPU or processor that multiplies in it (AMX or AVX512-BF16), else fp32."""
    optimizer: Annotated[Adam, Invalidates.UPDATES] = Adam()
    """Adam's constants."""
    schedule: Annotated[Schedule, Invalidates.UPDATES] = PaperSchedule()
    """Learning rate by step."""
    clipping: Annotated[Clipping | None, Invalidates.UPDATES] = None
    """Gradient clipping; off, as in the paper, where the section is absent."""
    early_stopping: Annotated[EarlyStopping | None, Invalidates.NOTHING] = None
    """End of training by the development score; off where the section is absent."""
    moving_average: Annotated[MovingAverage | None, Invalidates.UPDATES] = None
    """Exponential moving average of the weights; off where the section is absent."""
    recovery: Annotated[Recovery, Invalidates.NOTHING] = Recovery()
    """What happens when a loss or a gradient is NaN or infinite."""
    start_from: Annotated[StartFrom | None, Invalidates.DATA | Invalidates.RUN] = None
    """A model whose weights training starts from; random weights where the section is absent."""
    freeze: Annotated[tuple[FrozenPart, ...], Invalidates.UPDATES] = ()
    """Parts whose weights stay as they start: all embeddings, positions included; the layers of the
    encoder; those of the decoder. The output projection is frozen only where it is tied to
    embeddings."""
    checkpoint_every: Annotated[Count, Invalidates.NOTHING] = 1_500
    """Steps between checkpoints; each is validated."""
    checkpoint_minutes: Annotated[Strength | None, Invalidates.NOTHING] = None
    """Minutes between checkpoints, instead of `checkpoint_every`; 10 in the paper."""
    keep_last: Annotated[Count, Invalidates.NOTHING] = 5
    """Most recent checkpoints kept."""
    keep_best: Annotated[Count, Invalidates.NOTHING] = 1
    """Checkpoints with the best development score kept, however old."""
    keep_every: Annotated[Count | None, Invalidates.NOTHING] = None
    """The first checkpoint of each so many steps is kept forever."""
    keep_minutes: Annotated[Strength | None, Invalidates.NOTHING] = None
    """The first checkpoint of each so many minutes of training is kept forever."""
    validation: Validation = Validation()
    """What happens on the development set at each checkpoint."""
    averaging: Annotated[Averaging, Invalidates.RESULTS] = Averaging()
    """Which checkpoints `mtkit average` takes."""
    log_every: Annotated[Count, Invalidates.NOTHING] = 50
    """Steps between lines of metrics."""
    log_digests: Annotated[bool, Invalidates.NOTHING] = False
    """Log a digest of the weights after every update, by which the first difference between two
    runs is found."""
    trackers: Annotated[tuple[Literal["tensorboard", "wandb"], ...], Invalidates.NOTHING] = ()
    """Where metrics go besides `metrics.jsonl`: TensorBoard's files in the workspace
    (`mtkit[tensorboard]`), Weights & Biases (`mtkit[wandb]`)."""
    stuck_after_seconds: Annotated[Strength, Invalidates.NOTHING] = 600.0
    """A process among several that makes no progress for so long counts as stuck; all end then."""
