"""Features that a translation may need, and the engines that have them."""

from dataclasses import dataclass
from typing import Literal, get_args

from mtkit.errors import MtkitError
from mtkit.recipe.inference import Engine, Inference

Feature = Literal[
    "n_best",
    "prefix",
    "forced_scores",
    "alignments",
    "required_phrases",
    "sampling",
    "fusion",
    "attention",
    "ensemble",
]
"""`required_phrases`: outputs that contain given tokens; `attention`: what outputs attend to."""

FEATURES: dict[Engine, frozenset[Feature]] = {
    "torch": frozenset(get_args(Feature)),
    "ctranslate2": frozenset({"n_best", "prefix", "forced_scores", "alignments"}),
}
"""A test compares this with what each engine does."""

_REASONS: dict[Feature, str] = {
    "required_phrases": "CTranslate2 can't search for outputs that contain given phrases",
    "sampling": "CTranslate2 has one seed for the whole process, so a line's samples would depend "
    "on the lines before it",
    "fusion": "CTranslate2 searches with a translator alone",
    "attention": "CTranslate2 gives no attention to align words by",
}
"""Why CTranslate2 lacks these features."""
_HINT = 'use engine = "torch" with the original model'


@dataclass(frozen=True)
class FeatureUse:
    """A feature that settings, or a model, use.

    Attributes:
        key: The recipe key that needs it; empty if the kind of model does.
        fallback: Message on what an engine without it does; empty if it can't translate.
    """

    feature: Feature
    key: str
    fallback: str = ""

    def describe(self) -> str:
        """Returns why CTranslate2 doesn't fit these settings."""
        return f"{self.key}: {_REASONS[self.feature]}" if self.key else _REASONS[self.feature]


def list_uses(
    settings: Inference, *, constrains_terms: bool | None = None, is_parser: bool = False
) -> list[FeatureUse]:
    """Returns the features in use that not every engine has."""
    if constrains_terms is None:
        constrains_terms = settings.glossary is not None and settings.glossary.way in (
            "constraints",
            "both",
        )
    uses: list[FeatureUse] = []
    if settings.fusion is not None:
        uses.append(FeatureUse("fusion", "inference.fusion"))
    if constrains_terms:
        uses.append(FeatureUse("required_phrases", "inference.glossary"))
    if settings.sampling is not None:
        uses.append(FeatureUse("sampling", "inference.sampling"))
    elif settings.protect is not None and "constrained" in settings.protect.ways:
        skipped = "the way `constrained` of inference.protect.ways is skipped"
        uses.append(FeatureUse("required_phrases", "inference.protect", skipped))
    if is_parser:
        uses.append(
            FeatureUse("attention", "", "words that an output lacks are restored without it")
        )
    return uses


def list_missing(engine: Engine, uses: list[FeatureUse]) -> list[FeatureUse]:
    """Returns the features in use that an engine lacks."""
    return [use for use in uses if use.feature not in FEATURES[engine]]


def check_features(engine: Engine, uses: list[FeatureUse]) -> list[str]:
    """Returns warnings of what an engine skips; raises an MtkitError if it can't translate."""
    missing = list_missing(engine, uses)
    for use in missing:
        if not use.fallback:
            raise MtkitError(use.describe(), f"{_HINT}, or leave it out: --set '~{use.key}'")
    return [f"{use.describe()}: {use.fallback}" for use in missing]
