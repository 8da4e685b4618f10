"""The `evaluation` section: what a model is scored on, and how."""

from typing import Literal

from pydantic import Field, model_validator

from mtkit.recipe.section import Section
from mtkit.recipe.test_sets import TestSet

Metric = Literal["bleu", "chrf", "ter"]


class Evaluation(Section):
    """sacreBLEU's settings (arXiv 1804.08771), for development and test scores alike."""

    test_sets: tuple[TestSet, ...] = ()
    """Held-out sets that `mtkit score` translates and scores."""
    metrics: tuple[Metric, ...] = Field(default=("bleu", "chrf", "ter"), min_length=1)
    """Which scores are computed."""
    tokenize: Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] = "13a"
    """BLEU's tokeniser; `none` for text that is tokenised already."""
    smooth: Literal["exp", "floor", "add-k", "none"] = "exp"
    """BLEU's smoothing of n-gram orders without a match."""
    lowercase: bool = False
    """Score without regard to case."""

    @model_validator(mode="after")
    def _names_differ(self) -> "Evaluation":
        names = [test_set.name for test_set in self.test_sets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two test sets are named '{twice[0]}'; their files would collide")
        return self
