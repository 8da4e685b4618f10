"""The `evaluation` section: what a model is scored on, and how."""

from typing import Annotated, Literal, cast, get_args

from pydantic import Field, field_validator, model_validator

from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.precision import Precision
from mtkit.recipe.section import RecipePath, Section, Seed, WordOrFolder
from mtkit.recipe.test_sets import TestSet

TextMetric = Literal["bleu", "chrf", "chrf++", "ter"]
Metric = Literal[TextMetric, "parseval"]


class Significance(Section):
    """Confidence intervals of scores, and tests of differences between systems."""

    test: Literal["bootstrap", "randomization"] = "bootstrap"
    """How p-values are computed: paired `bootstrap` (Koehn 2004), or approximate `randomization`
    (Riezler and Maxwell 2005)."""
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1_000
    """How often the test set is resampled, or sentences are exchanged between systems."""
    seed: Seed = 12_345
    """Seed of the random draws; sacreBLEU's own by default."""
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95
    """Confidence level of the intervals."""
    difference: Annotated[float, Field(gt=0.0, le=100.0)] = 0.5
    """Difference between two methods, in points: `--runs` of `mtkit score` reports how many runs
    of each are needed to show it."""


class Evaluation(Section):
    """sacreBLEU's settings (arXiv 1804.08771), for development and test scores alike."""

    test_sets: Annotated[tuple[TestSet, ...], Invalidates.HELD_OUT | Invalidates.RESULTS] = ()
    """Held-out sets that `mtkit score` translates and scores."""
    metrics: tuple[Annotated[str, WordOrFolder(*get_args(Metric))], ...] = Field(
        default=("bleu", "chrf", "ter"), min_length=1
    )
    """Metrics to compute. The path of a folder that `mtkit import` wrote, with a slash and relative
    to `data.data_root`, is a learned metric, COMET or CometKiwi. `parseval` is for trees, and
    their default: precision, recall and F1 of constituents, and the share of trees without a
    fault, as EVALB has them with COLLINS.prm."""
    tokenize: Annotated[
        Literal[
            "auto",
            "13a",
            "intl",
            "zh",
            "ja-mecab",
            "ko-mecab",
            "char",
            "flores101",
            "flores200",
            "spBLEU-1K",
            "none",
        ],
        Invalidates.SCORES | Invalidates.RESULTS,
    ] = "auto"
    """BLEU's tokenizer. `auto`: by the target language: `zh`, `ja-mecab`, `ko-mecab` for Chinese,
    Japanese, Korean, `char` for other languages written without spaces, else `13a`. `none`: for
    text that is tokenised already. sacreBLEU downloads a model for `flores101`, `flores200`,
    `spBLEU-1K`."""
    smooth: Annotated[
        Literal["exp", "floor", "add-k", "none"], Invalidates.SCORES | Invalidates.RESULTS
    ] = "exp"
    """BLEU's smoothing for n-gram orders without a match."""
    lowercase: Annotated[bool, Invalidates.SCORES | Invalidates.RESULTS] = False
    """Ignore case."""

    significance: Significance = Significance()
    """Confidence intervals and significance tests."""
    paper_bleu: bool = False
    """Also report the tokenised BLEU of papers on WMT14, besides sacreBLEU's."""
    language: Annotated[str, Field(pattern=r"^([A-Za-z]{2,3}([-_][A-Za-z0-9]+)*)?$")] = ""
    """Code of the target language, such as `de`; for scoring files, where no recipe is read."""
    glossary: RecipePath | None = None
    """Also score how terms are translated: a file as for `inference.glossary.path`. Relative to
    `data.data_root`, like corpus paths."""
    precision: Precision = "fp32"
    """Arithmetic of learned metrics' encoders; bf16 is faster on GPUs and less exact."""
    origins: RecipePath | None = None
    """A file with the origin of each sentence, one per line: reports compare scores by origin.
    Relative to `data.data_root`, like corpus paths."""
    training_text: RecipePath | None = None
    """Target side of the training text, one sentence per line: reports count in it how rare a word
    is; default: in the references. Relative to `data.data_root`."""

    @field_validator("metrics")
    @classmethod
    def _are_different(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(metrics)) < len(metrics):
            raise ValueError("a metric is listed twice")
        if "parseval" in metrics and len(metrics) > 1:
            raise ValueError("parseval scores trees, and the other metrics text: name one kind")
        return metrics

    @property
    def text_metrics(self) -> tuple[TextMetric, ...]:
        """Those of the metrics that score text."""
        of_text = tuple(word for word in self.metrics if word in get_args(TextMetric))
        return cast("tuple[TextMetric, ...]", of_text)

    @property
    def learned_metrics(self) -> tuple[str, ...]:
        """The folders of learned metrics."""
        return tuple(metric for metric in self.metrics if metric not in get_args(Metric))

    @property
    def is_of_trees(self) -> bool:
        """Whether trees are scored, not text."""
        return self.metrics == ("parseval",)

    @model_validator(mode="after")
    def _names_differ(self) -> "Evaluation":
        names = [test_set.name for test_set in self.test_sets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"two test sets are named '{twice[0]}'; their files would overwrite each other"
            )
        return self
