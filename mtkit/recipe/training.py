"""The `training` section: batches, optimizer, schedule, checkpoints."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from mtkit.recipe.guided_alignment import GuidedAlignment
from mtkit.recipe.inference import BeamSize
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.lora import Lora
from mtkit.recipe.masking import Masking
from mtkit.recipe.model import Rate
from mtkit.recipe.objective import ClassifierKind
from mtkit.recipe.precision import TrainingPrecisionChoice
from mtkit.recipe.section import (
    Count,
    CountFromZero,
    NumProcesses,
    Section,
    Strength,
    StrengthFromZero,
    WordOrFolder,
)
from mtkit.recipe.start_from import StartFrom
from mtkit.recipe.training_stages import TrainingStage


class Adam(Section):
    """Adam (arXiv 1412.6980) with the paper's constants, optionally with decoupled weight decay."""

    beta1: Rate = 0.9
    """Decay of the first moment."""
    beta2: Rate = 0.98
    """Decay of the second moment."""
    epsilon: Strength = 1e-9
    """Added to the root of the second moment."""
    weight_decay: StrengthFromZero = 0.0
    """Decoupled weight decay (arXiv 1711.05101) on matrices; not on biases and norms."""


class PaperSchedule(Section):
    """d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (arXiv 1706.03762, section 5.3)."""

    kind: Literal["paper"] = "paper"
    """Name of the schedule."""
    warmup_steps: Count = 4_000
    """Steps of linear warmup."""
    factor: Strength = 1.0
    """Multiplies the whole schedule; 1 in the paper."""


class InverseSquareRootSchedule(Section):
    """Linear warmup to `peak`, then peak * (warmup_steps / step)^0.5."""

    kind: Literal["inverse-sqrt"]
    """Name of the schedule."""
    peak: Strength
    """Learning rate at the end of the warmup."""
    warmup_steps: Count = 4_000
    """Steps of linear warmup."""


class CosineSchedule(Section):
    """Linear warmup to `peak`, then cosine decay to `final` at `max_steps`."""

    kind: Literal["cosine"]
    """Name of the schedule."""
    peak: Strength
    """Learning rate at the end of the warmup."""
    warmup_steps: Count = 4_000
    """Steps of linear warmup."""
    final: StrengthFromZero = 0.0
    """Learning rate at `max_steps`."""


class LinearSchedule(Section):
    """Linear warmup to `peak`, then linear decay to `final` at `max_steps`."""

    kind: Literal["linear"]
    """Name of the schedule."""
    peak: Strength
    """Learning rate at the end of the warmup."""
    warmup_steps: Count = 4_000
    """Steps of linear warmup."""
    final: StrengthFromZero = 0.0
    """Learning rate at `max_steps`."""


class ConstantSchedule(Section):
    """Linear warmup to `peak`, then constant."""

    kind: Literal["constant"]
    """Name of the schedule."""
    peak: Strength
    """Learning rate after the warmup."""
    warmup_steps: CountFromZero = 0
    """Steps of linear warmup."""


Schedule = Annotated[
    PaperSchedule | InverseSquareRootSchedule | CosineSchedule | LinearSchedule | ConstantSchedule,
    Field(discriminator="kind"),
]


class Clipping(Section):
    """Scales down gradients whose norm exceeds a bound."""

    max_norm: Strength
    """Maximum Euclidean norm of the gradient of all weights together."""


class RDrop(Section):
    """R-Drop (arXiv 2106.14448): two passes with other dropout masks, which learn to agree.

    Each batch passes through the network twice. The loss of a target token is the mean of both
    cross entropies plus alpha / 4 * (KL(P1 || P2) + KL(P2 || P1)), of both predicted distributions;
    both passes get gradients. That is half of the paper's loss, with the paper's alpha.
    """

    alpha: Strength = 5.0
    """Weight of the divergence; 5 is the paper's for translation."""


class EarlyStopping(Section):
    """Ends training when the development score stops improving."""

    patience: Count
    """Training ends after this many checkpoints in a row without a new best score."""


ValidationMetric = Literal["bleu", "chrf", "loss", "accuracy", "macro_f1", "f1"]


class Validation(Section):
    """What happens on the development set at each checkpoint."""

    metric: Annotated[
        str, WordOrFolder(*get_args(ValidationMetric)), Invalidates.RUN | Invalidates.SCORES
    ] = "bleu"
    """What the best checkpoint is chosen by: development BLEU, chrF, or loss per token, a language
    model's default and only choice; for classification accuracy, its default, the labels' mean F1,
    or loss per text; for trees F1 of constituents, their default, or loss. For translations also
    the path of a learned metric that `mtkit import` wrote, with a slash; its score is `comet`."""
    beam_size: Annotated[BeamSize, Invalidates.SCORES] = 1
    """Beam size of the development translations; 1 is greedy search, which is fast and ranks
    checkpoints well."""
    num_samples: Annotated[CountFromZero, Invalidates.NOTHING] = 3
    """Number of development sentences shown with their translations."""

    @property
    def learned(self) -> str | None:
        """The folder of a learned metric; None for other metrics."""
        return self.metric if self.metric not in get_args(ValidationMetric) else None

    @property
    def score_name(self) -> str:
        """The name of the metric among a validation's."""
        return self.metric if self.learned is None else "comet"


class Averaging(Section):
    """Which checkpoints `mtkit average` averages."""

    choose: Literal["last", "best", "spaced"] = "last"
    """The most recent checkpoints, those with the best development score, or checkpoints spaced
    evenly by step among all that were kept."""
    num_checkpoints: Count = 5
    """How many; `mtkit average --select` compares averages of this number and of others."""
    if_worse: Literal["warn", "replace", "ignore"] = "replace"
    """What to do if the average scores worse on the development set than one of the kept
    checkpoints: `replace` the average by that checkpoint; `warn`, and release the average;
    `ignore`, which skips scoring the average and so saves the time of one validation."""


class MovingAverage(Section):
    """An exponential moving average of the weights, validated and released instead of them.

    After update t it is d * average + (1 - d) * weights with d = min(decay, (1 + t) / (10 + t)), so
    that the first weights, which are random, are soon forgotten.
    """

    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
    """Share of the average that an update keeps; 0.999 averages over about a thousand updates."""


class Recovery(Section):
    """What happens when a loss or a gradient is NaN or infinite.

    That update is skipped, on all processes, and counted. After several in a row, training rolls
    back to its last checkpoint and continues with a lower learning rate.
    """

    max_skipped: Count = 5
    """Skipped updates in a row after which training rolls back."""
    rate_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """What the learning rate is multiplied by at each rollback."""
    max_returns: CountFromZero = 3
    """Maximum number of rollbacks; after these, training ends with an error."""


class Denoising(Section):
    """How a denoising model's text is corrupted (BART, arXiv 1910.13461, section 2.2).

    Text infilling: one `<mask>` replaces each masked span of tokens. Which spans, and how long
    they are, is a pure function of seed, epoch and block.
    """

    share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.3
    """Share of the tokens that are masked."""
    mean_span: Annotated[float, Field(ge=1.0, le=100.0)] = 3.0
    """Mean of the Poisson distribution of the spans' lengths, in tokens; a span of none inserts a
    `<mask>`."""


class Classification(Section):
    """How a classifier is made of a language model."""

    kind: ClassifierKind = "masked-lm"
    """Kind of the language model in `training.start_from`: `masked-lm` classifies the state of the
    first token (BERT, arXiv 1810.04805, section 4); `causal-lm` that of the last, `<extract>`,
    with `<delimiter>` between two texts (GPT, Radford et al. 2018,
    section 3.3)."""
    auxiliary: StrengthFromZero = 0.5
    """Weight of the language-modelling loss that a `causal-lm` classifier is also trained on: GPT's
    lambda; 0 turns it off."""


FrozenPart = Literal["embeddings", "encoder", "decoder"]


class Training(Section):
    """From data to checkpoints. The defaults are the paper's base model."""

    max_steps: Annotated[Count, Invalidates.SCHEDULE_END] = 100_000
    """Number of updates after which training ends."""
    batch_tokens: Annotated[Count, Invalidates.RUN] = 25_000
    """Tokens of each side in one update, `</s>` included and padding not, whatever the number of
    processes."""
    length_groups: Annotated[Count, Invalidates.RUN] = 8
    """Groups of sentences of similar length that make up one update: 1 gives the least padding,
    more mix lengths within each update. The paper's eight GPUs each held one such group."""
    micro_batch_tokens: Annotated[Count | Literal["auto"], Invalidates.NOTHING] = 8_192
    """Maximum size of one forward pass on one process, in tokens of the side with more, padding
    included; if an update needs several passes, their gradients are accumulated. Before the first
    update the largest pass is tried, and the size halved until it fits in memory; `auto` starts
    from one process's complete share of an update. Another size draws other dropout masks and
    rounds differently, and changes nothing else."""
    processes: Annotated[NumProcesses, Invalidates.NOTHING] = "auto"
    """Processes that share an update on a CPU; `--processes` overrides it, and on GPUs there is one
    per GPU. `auto`: a new training on Linux uses one per core, as far as memory allows and each has
    1,024 tokens of an update, which is fastest when other programs run; or one if `OMP_NUM_THREADS`
    is set. A training resumes with as many as it last ran with."""
    stages: Annotated[
        Annotated[tuple[TrainingStage, ...], Field(min_length=1)] | None, Invalidates.RUN
    ] = None
    """Consecutive stages, each with its own weights for the corpora; without any, the weights of
    `data.train` apply."""
    label_smoothing: Annotated[Rate, Invalidates.UPDATES | Invalidates.SCORES] = 0.1
    """Probability mass spread evenly over the whole vocabulary (paper, section 5.4). For language
    models and classifiers the default is 0."""
    masking: Annotated[Masking | None, Invalidates.RUN] = None
    """How a masked language model's text is masked; as in BERT if the section is absent."""
    denoising: Annotated[Denoising | None, Invalidates.RUN] = None
    """How a denoising model's text is corrupted; as in BART if the section is absent."""
    classification: Annotated[Classification | None, Invalidates.DATA | Invalidates.RUN] = None
    """How a classifier is made from a language model; as in BERT if the section is absent."""
    precision: Annotated[TrainingPrecisionChoice, Invalidates.UPDATES] = "auto"
    """Arithmetic of an update: 32-bit, or bf16 or fp16 with sums and master weights in 32-bit. fp16
    is for GPUs without bf16 (T4, V100, RTX 20); its loss is scaled by a power of two, and an update
    whose gradients overflow is repeated with half of it. `auto` is bf16 on a GPU or CPU with bf16
    multiplication (AMX or AVX512-BF16), else fp32."""
    tf32: Annotated[bool, Invalidates.NOTHING] = False
    """On a GPU, round the factors of fp32 products to 11 bits (TF32), which is several times as
    fast: in training with `precision = "fp32"`, and in its validations."""
    cuda_graphs: Annotated[bool, Invalidates.NOTHING] = False
    """On a GPU in 16 bits, record the kernels of a pass once for each of a few shapes, and launch
    them all together from then on. It helps if a pass is so small that launching its kernels takes
    longer than running them. No effect on a CPU, for decoder-only models or with guided
    alignment."""
    recompute: Annotated[bool, Invalidates.NOTHING] = False
    """Keep only each layer's input for the backward pass, which runs the layer again: the same
    results with less memory and a third more arithmetic. Not with `cuda_graphs`."""
    shard: Annotated[bool, Invalidates.NOTHING] = False
    """Shard Adam's moments and updates over the processes (ZeRO stage 1, arXiv 1910.02054, section
    5.1): less memory, the same updates up to rounding. One process ignores it."""
    optimizer: Annotated[Adam, Invalidates.UPDATES] = Adam()
    """Adam's constants."""
    schedule: Annotated[Schedule, Invalidates.UPDATES] = PaperSchedule()
    """Learning rate by step."""
    clipping: Annotated[Clipping | None, Invalidates.UPDATES] = None
    """Gradient clipping; off, as in the paper, if the section is absent."""
    r_drop: Annotated[RDrop | None, Invalidates.UPDATES] = None
    """R-Drop; off if the section is absent. An update takes about twice the time and memory."""
    early_stopping: Annotated[EarlyStopping | None, Invalidates.NOTHING] = None
    """Early stopping by the development score; off if the section is absent."""
    moving_average: Annotated[MovingAverage | None, Invalidates.UPDATES] = None
    """Exponential moving average of the weights; off if the section is absent."""
    recovery: Annotated[Recovery, Invalidates.NOTHING] = Recovery()
    """What happens when a loss or a gradient is NaN or infinite."""
    start_from: Annotated[StartFrom | None, Invalidates.DATA | Invalidates.RUN] = None
    """A model whose weights training starts from; random weights if the section is absent."""
    freeze: Annotated[tuple[FrozenPart, ...], Invalidates.UPDATES] = ()
    """Parts whose weights are not trained: all embeddings, positions included; the layers of the
    encoder; those of the decoder. The output projection is frozen only if it is tied to
    embeddings."""
    lora: Annotated[Lora | None, Invalidates.RUN] = None
    """Low-rank updates of the model that training starts from, instead of its weights; off if the
    section is absent."""
    guided_alignment: Annotated[GuidedAlignment | None, Invalidates.DATA | Invalidates.RUN] = None
    """One head of attention learns given word alignments; off if the section is absent."""
    checkpoint_every: Annotated[Count, Invalidates.NOTHING] = 1_500
    """Steps between checkpoints; each is validated."""
    checkpoint_minutes: Annotated[Strength | None, Invalidates.NOTHING] = None
    """Minutes between checkpoints, instead of `checkpoint_every`; 10 in the paper."""
    keep_last: Annotated[Count, Invalidates.NOTHING] = 5
    """Number of most recent checkpoints to keep."""
    keep_best: Annotated[Count, Invalidates.NOTHING] = 1
    """Number of checkpoints with the best development score to keep, however old."""
    keep_every: Annotated[Count | None, Invalidates.NOTHING] = None
    """The first checkpoint in each interval of this many steps is kept forever."""
    keep_minutes: Annotated[Strength | None, Invalidates.NOTHING] = None
    """The first checkpoint in each interval of this many minutes of training is kept forever."""
    validation: Validation = Validation()
    """What happens on the development set at each checkpoint."""
    averaging: Annotated[Averaging, Invalidates.RESULTS] = Averaging()
    """Which checkpoints `mtkit average` averages."""
    log_every: Annotated[Count, Invalidates.NOTHING] = 50
    """Steps between log entries of metrics."""
    log_digests: Annotated[bool, Invalidates.NOTHING] = False
    """Log a digest of the weights after every update, to find the first difference between two
    runs."""
    trackers: Annotated[tuple[Literal["tensorboard", "wandb"], ...], Invalidates.NOTHING] = ()
    """Where to log metrics besides `metrics.jsonl`: TensorBoard's files in the workspace
    (extra `tensorboard`), Weights & Biases (extra `wandb`)."""
    stuck_after_seconds: Annotated[Strength, Invalidates.NOTHING] = 600.0
    """With several processes: one that makes no progress for this long counts as stuck, and all are
    stopped."""

    @model_validator(mode="after")
    def _lora_has_a_base(self) -> "Training":
        lora, start_from = self.lora, self.start_from
        if lora is None:
            return self
        if start_from is None or start_from.model is None:
            raise ValueError(
                "training.lora updates a model that is trained already: name it as "
                "training.start_from.model"
            )
        if self.freeze:
            raise ValueError(
                "training.lora freezes all of the model's own weights, and training.freeze names "
                "parts of them: remove one of the two; training.lora.maps says what is updated"
            )
        holds_pieces = start_from.vocabulary == "keep" or lora.train_embeddings
        if lora.release == "adapter" and not holds_pieces:
            raise ValueError(
                f'training.start_from.vocabulary = "{start_from.vocabulary}" changes the '
                "embeddings, which an adapter holds only with training.lora.train_embeddings = true"
            )
        return self

    @model_validator(mode="after")
    def _numbers_fit(self) -> "Training":
        if self.length_groups > self.batch_tokens:
            raise ValueError("training.length_groups is greater than training.batch_tokens")
        if self.recompute and self.cuda_graphs:
            raise ValueError(
                "training.recompute draws dropout again, which training.cuda_graphs can't record: "
                "remove one of the two"
            )
        choose, count = self.averaging.choose, self.averaging.num_checkpoints
        kept = {"last": self.keep_last, "best": self.keep_best}.get(choose)
        if kept is not None and count > kept:
            raise ValueError(
                f"training.averaging uses the {choose} {count} checkpoints, but "
                f"training.keep_{choose} = {kept}: raise the latter"
            )
        return self

    @model_validator(mode="after")
    def _stages_fit(self) -> "Training":
        end, stages = 0, self.stages or ()
        for number, stage in enumerate(stages, 1):
            key = f"training.stages.{number - 1}"
            if stage.steps is None and number < len(stages):
                raise ValueError(f"{key}.steps is missing: only the last stage may leave it out")
            end += stage.steps or 1
            if end > self.max_steps:
                raise ValueError(
                    f"{key} lasts to step {end:,} or longer, but training.max_steps = "
                    f"{self.max_steps:,}: lower `steps` of a stage or raise the latter"
                )
        return self

    @property
    def passes_per_batch(self) -> int:
        """How often a batch passes through the network in an update."""
        return 1 if self.r_drop is None else 2

    @property
    def masked(self) -> Masking:
        """How a masked language model's text is masked."""
        return self.masking or Masking()
