"""Corpus scores by sacreBLEU (arXiv 1804.08771), to its own command line's last digit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.errors import MtkitError
from mtkit.recipe.evaluation import Evaluation, Metric


@dataclass(frozen=True)
class Score:
    """One metric's verdict on one set of translations.

    Attributes:
        metric: The metric's word in a recipe.
        name: sacreBLEU's name of it, such as `chrF2`.
        value: Percentage points; for TER, the lower the better.
        signature: Everything that the value depends on, as sacreBLEU writes it.
    """

    metric: Metric
    name: str
    value: float
    signature: str


def score_corpus(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], settings: Evaluation
) -> list[Score]:
    """Returns the score of every metric that the settings name, in their order.

    Args:
        hypotheses: Translations, one a sentence.
        references: Sets of references; each holds one a sentence.
        settings: Metrics, and how they see text.

    Raises:
        MtkitError: No sentences, unequal counts, or a tokeniser that isn't installed.
    """
    if not references:
        raise MtkitError("no references to score against")
    for position, reference_set in enumerate(references, start=1):
        if len(reference_set) != len(hypotheses):
            which = f" {position}" if len(references) > 1 else ""
            raise MtkitError(
                f"{len(hypotheses):,} hypotheses, but {len(reference_set):,} references in "
                f"reference set{which}: they must pair line by line"
            )
    if not hypotheses:
        raise MtkitError("no sentences to score")
    # sacreBLEU's command line strips what str.rstrip strips, a no-break space for one.
    stripped = [line.rstrip() for line in hypotheses]
    stripped_references = [[line.rstrip() for line in lines] for lines in references]
    return [_score(stripped, stripped_references, metric, settings) for metric in settings.metrics]


def _score(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metric: Metric,
    settings: Evaluation,
) -> Score:
    scorer = _open_scorer(metric, settings)
    result = scorer.corpus_score(hypotheses, references)
    signature = scorer.get_signature().format()
    return Score(metric, result.name, float(result.score), str(signature))


def _open_scorer(metric: Metric, settings: Evaluation) -> Any:
    """Returns sacreBLEU's object for a metric; what a recipe can't set is sacreBLEU's default."""
    # sacreBLEU takes a while to load, and a model is trained without it until it is validated.
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415
    from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415
    from sacrebleu.metrics.ter import TER  # noqa: PLC0415

    match metric:
        case "bleu":
            try:
                return BLEU(
                    tokenize=settings.tokenize,
                    smooth_method=settings.smooth,
                    lowercase=settings.lowercase,
                    # Or else it logs a warning where text looks tokenised.
                    force=True,
                )
            except RuntimeError as error:  # MeCab, for Japanese and Korean, is an extra
                raise MtkitError(
                    f'evaluation.tokenize = "{settings.tokenize}" needs packages that are not '
                    "installed",
                    f"pip install 'mtkit[{settings.tokenize.partition('-')[0]}]'",
                ) from error
        case "chrf":
            return CHRF(lowercase=settings.lowercase)
        case "ter":
            # Without regard to case, whatever `lowercase` says: so TER is commonly reported.
            return TER()
