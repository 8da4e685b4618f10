"""The `training` section: batches, optimizer, schedule, checkpoints."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from mtkit.recipe.model import Rate
from mtkit.recipe.section import Section


class Adam(Section):
    """Adam (arXiv 1412.6980) with the paper's constants; decoupled weight decay by option."""

    beta1: Rate = 0.9
    """Decay of the first moment."""
    beta2: Rate = 0.98
    """Decay of the second moment."""
    epsilon: PositiveFloat = 1e-9
    """Added to the root of the second moment."""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Decoupled weight decay (arXiv 1711.05101) on matrices; biases and norms are spared."""


class PaperSchedule(Section):
    """d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (arXiv 1706.03762, section 5.3)."""

    kind: Literal["paper"] = "paper"
    """Name of the schedule."""
    warmup_steps: PositiveInt = 4_000
    """Steps of linear rise."""
    factor: PositiveFloat = 1.0
    """Multiplies the whole schedule; 1 in the paper."""


class InverseSquareRootSchedule(Section):
    """A linear rise to `peak`, then peak * (warmup_steps / step)^0.5."""

    kind: Literal["inverse-sqrt"]
    """Name of the schedule."""
    peak: PositiveFloat
    """Learning rate at the end of the rise."""
    warmup_steps: PositiveInt = 4_000
    """Steps of linear rise."""


class CosineSchedule(Section):
    """A linear rise to `peak`, then half a cosine down to `final` at `max_steps`."""

    kind: Literal["cosine"]
    """Name of the schedule."""
    peak: PositiveFloat
    """Learning rate at the end of the rise."""
    warmup_steps: PositiveInt = 4_000
    """Steps of linear rise."""
    final: Annotated[float, Field(ge=0.0)] = 0.0
    """Learning rate at `max_steps`."""


class LinearSchedule(Section):
    """A linear rise to `peak`, then a straight line down to `final` at `max_steps`."""

    kind: Literal["linear"]
    """Name of the schedule."""
    peak: PositiveFloat
    """Learning rate at the end of the rise."""
    warmup_steps: PositiveInt = 4_000
    """Steps of linear rise."""
    final: Annotated[float, Field(ge=0.0)] = 0.0
    """Learning rate at `max_steps`."""


class ConstantSchedule(Section):
    """A linear rise to `peak`, which then stays."""

    kind: Literal["constant"]
    """Name of the schedule."""
    peak: PositiveFloat
    """Learning rate after the rise."""
    warmup_steps: NonNegativeInt = 0
    """Steps of linear rise."""


Schedule = Annotated[
    PaperSchedule | InverseSquareRootSchedule | CosineSchedule | LinearSchedule | ConstantSchedule,
    Field(discriminator="kind"),
]


class Clipping(Section):
    """Scales a gradient down whose norm is greater than a bound."""

    max_norm: PositiveFloat
    """Greatest Euclidean norm of the whole gradient."""


class EarlyStopping(Section):
    """Ends training when the development score stops rising."""

    patience: PositiveInt
    """Checkpoints in a row without a new best score after which training ends."""


class Validation(Section):
    """What happens on the development set at each checkpoint."""

    metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """What makes a checkpoint the best: development BLEU, chrF, or loss per token."""
    beam_size: PositiveInt = 1
    """Beam of the development translations; 1, greedy, is quick, and ranks checkpoints well."""
    num_samples: NonNegativeInt = 3
    """Development sentences shown with their translations."""


class Averaging(Section):
    """Which checkpoints `mtkit average` takes the mean of."""

    choose: Literal["last", "best"] = "last"
    """The most recent checkpoints, or those with the best development score."""
    num_checkpoints: PositiveInt = 5
    """How many."""


class Training(Section):
    """From data to checkpoints. The defaults are the paper's base model."""

    max_steps: PositiveInt = 100_000
    """Updates of the weights after which training ends."""
    batch_tokens: PositiveInt = 25_000
    """Real tokens, `</s>` counted, of each side in one update, whatever the number of processes."""
    length_groups: PositiveInt = 8
    """Groups of similarly long sentences that one update is drawn from: 1 pads least, more make
    updates less alike in length. The paper's eight GPUs each held one such group."""
    micro_batch_tokens: PositiveInt = 8_192
    """Greatest size of one forward pass on one process, in tokens of the longer side with padding;
    what does not fit in one pass is accumulated. Bounds memory; another cut draws other dropout
    masks and rounds otherwise, and changes nothing else."""
    label_smoothing: Rate = 0.1
    """Probability mass spread evenly over the whole vocabulary (paper, section 5.4)."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of matrix products: 32-bit, or bfloat16 by autocast with 32-bit weights."""
    optimizer: Adam = Adam()
    """Adam's constants."""
    schedule: Schedule = PaperSchedule()
    """Learning rate by step."""
    clipping: Clipping | None = None
    """Gradient clipping; off, as in the paper, where the section is absent."""
    early_stopping: EarlyStopping | None = None
    """End of training by the development score; off where the section is absent."""
    checkpoint_every: PositiveInt = 1_500
    """Steps between checkpoints; each is validated."""
    keep_last: PositiveInt = 5
    """Most recent checkpoints kept."""
    keep_best: PositiveInt = 1
    """Checkpoints with the best development score kept, however old."""
    validation: Validation = Validation()
    """What happens on the development set at each checkpoint."""
    averaging: Averaging = Averaging()
    """Which checkpoints `mtkit average` takes."""
    log_every: PositiveInt = 50
    """Steps between lines of metrics."""
