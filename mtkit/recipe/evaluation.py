"""The `evaluation` section: what a model is scored on, and how."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.section import CountFromZero, Section, Seed
from mtkit.recipe.test_sets import TestSet

Metric = Literal["bleu", "chrf", "chrf++", "ter"]


class Significance(Section):
    """What a score, and a difference between two systems, is worth."""

    test: Literal["bootstrap", "randomization"] = "bootstrap"
    """How p-values come about: paired `bootstrap` (Koehn 2004), or approximate `randomization`
    (Riezler and Maxwell 2005)."""
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1_000
    """How often the test set is resampled, or systems' sentences are exchanged."""
    seed: Seed = 12_345
    """Of what is drawn; sacreBLEU's own by default."""
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95
    """Share of what is drawn that lies within an interval."""


class Comet(Section):
    """A learned metric, by its own command: its package needs an environment of its own."""

    command: str = "comet-score"
    """The command that `pip install unbabel-comet` leaves, with its path unless it is on PATH.
    Any other than `comet-score` must be given on the command line: a program that a recipe names
    isn't run."""
    model: str = "Unbabel/wmt22-comet-da"
    """A model's name on its hub, or a checkpoint's file (`.ckpt`). Opening one can run a program
    that lies in it: any but Unbabel's must be given on the command line."""
    gpus: CountFromZero = 0
    """GPUs it runs on; 0 is the CPU."""
    _keys_of_file: frozenset[str] = PrivateAttr(frozenset())

    @property
    def keys_of_file(self) -> frozenset[str]:
        """Keys whose value stands in a recipe file, which may be a stranger's."""
        return self._keys_of_file

    def note_keys_of_file(self, keys: frozenset[str]) -> None:
        """Remembers which keys' values stand in a recipe file."""
        self._keys_of_file = keys


class Evaluation(Section):
    """sacreBLEU's settings (arXiv 1804.08771), for development and test scores alike."""

    test_sets: Annotated[tuple[TestSet, ...], Invalidates.HELD_OUT | Invalidates.RESULTS] = ()
    """Held-out sets that `mtkit score` translates and scores."""
    metrics: tuple[Metric, ...] = Field(default=("bleu", "chrf", "ter"), min_length=1)
    """Which scores are computed."""
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
    """BLEU's tokeniser. `auto`: by the target language, `zh`, `ja-mecab`, `ko-mecab` for Chinese,
    Japanese, Korean, `char` where no spaces part words, else `13a`. `none`: for text that is
    tokenised already. sacreBLEU fetches a model for `flores101`, `flores200`, `spBLEU-1K`."""
    smooth: Annotated[
        Literal["exp", "floor", "add-k", "none"], Invalidates.SCORES | Invalidates.RESULTS
    ] = "exp"
    """BLEU's smoothing of n-gram orders without a match."""
    lowercase: Annotated[bool, Invalidates.SCORES | Invalidates.RESULTS] = False
    """Score without regard to case."""

    significance: Significance = Significance()
    """Intervals, and tests of differences."""
    paper_bleu: bool = False
    """Also give the tokenised BLEU that papers on WMT14 report, beside sacreBLEU's."""
    language: Annotated[str, Field(pattern=r"^([A-Za-z]{2,3}([-_][A-Za-z]+)*)?$")] = ""
    """Code of the language that is scored, such as `de`; for files, where no recipe is read."""
    comet: Comet | None = None
    """Also score by COMET."""
    origins: Path | None = None
    """A file that names where each sentence comes from, one a line: reports compare by it. Like a
    corpus's, its path starts from `data.data_root`."""
    training_text: Path | None = None
    """Target side of the training text, one sentence a line: in reports a word's rarity is counted
    in it; default: in the references. Its path starts from `data.data_root`."""

    @field_validator("metrics")
    @classmethod
    def _are_different(cls, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
        if len(set(metrics)) < len(metrics):
            raise ValueError("a metric is named twice")
        return metrics

    @model_validator(mode="after")
    def _names_differ(self) -> "Evaluation":
        names = [test_set.name for test_set in self.test_sets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two test sets are named '{twice[0]}'; their files would collide")
        return self
