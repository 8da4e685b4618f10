"""Corpus scores by sacreBLEU (arXiv 1804.08771), to its own command line's last digit."""

from collections.abc import Sequence
from typing import Any

from mtkit.errors import MtkitError
from mtkit.evaluation.results import SystemScore
from mtkit.evaluation.tokenizers import choose_tokenizer, explain_missing, resolve_tokenizer
from mtkit.recipe.evaluation import Evaluation, TextMetric


def score_corpus(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    settings: Evaluation,
    *,
    target_language: str = "",
) -> list[SystemScore]:
    """Returns the score of every metric that the settings name, in their order.

    Args:
        hypotheses: Translations, one a sentence.
        references: Sets of references; each holds one a sentence.
        settings: Metrics, and how they see text.
        target_language: Decides what `tokenize = "auto"` is; empty where unknown, which means 13a.

    Raises:
        MtkitError: No sentences, unequal counts, or a tokeniser that can't be had.
    """
    settings = resolve_tokenizer(settings, target_language)
    hypotheses, references = pair_sentences(hypotheses, references)
    scores = []
    for metric in settings.text_metrics:
        scorer = open_scorer(metric, settings)
        result = scorer.corpus_score(hypotheses, references)
        scores.append(
            SystemScore(
                result.name,
                float(result.score),
                str(scorer.get_signature().format()),
                higher_is_better=metric != "ter",
            )
        )
    return scores


def check_pairs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Checks that there are sentences, and a translation of each in every set of references.

    Raises:
        MtkitError: No sentences, or unequal counts.
    """
    if not references:
        raise MtkitError("no references to score against")
    for number, reference_set in enumerate(references, start=1):
        if len(reference_set) != len(hypotheses):
            which = f" {number}" if len(references) > 1 else ""
            raise MtkitError(
                f"{len(hypotheses):,} hypotheses, but {len(reference_set):,} references in "
                f"reference set{which}: they must have the same number of lines"
            )
    if not hypotheses:
        raise MtkitError("no sentences to score")


def pair_sentences(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Returns both as sacreBLEU's command line sees them, once they are known to pair.

    Raises:
        MtkitError: No sentences, or unequal counts.
    """
    check_pairs(hypotheses, references)
    # sacreBLEU's command line strips what str.rstrip strips, a no-break space for one.
    stripped = [line.rstrip() for line in hypotheses]
    return stripped, [[line.rstrip() for line in lines] for lines in references]


def open_scorer(
    metric: TextMetric, settings: Evaluation, references: Sequence[Sequence[str]] | None = None
) -> Any:
    """Returns sacreBLEU's object for a metric; what a recipe can't set is sacreBLEU's default.

    Args:
        metric: Which one.
        settings: How it sees text; `tokenize` is resolved.
        references: Sets of references that the object analyses once, for several systems.

    Raises:
        MtkitError: A tokeniser that can't be had.
    """
    # sacreBLEU takes a while to load, and a model is trained without it until it is validated.
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415
    from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415

    from mtkit.evaluation.edits import FastTER  # noqa: PLC0415

    match metric:
        case "bleu":
            tokenizer = choose_tokenizer(settings.tokenize)
            try:
                return BLEU(
                    tokenize=tokenizer,
                    smooth_method=settings.smooth,
                    lowercase=settings.lowercase,
                    # Or else it logs a warning where text looks tokenised.
                    force=True,
                    references=references,
                )
            except (RuntimeError, OSError) as error:  # MeCab is an extra; a model must be fetched
                raise explain_missing(tokenizer, error) from error
        case "chrf":
            return CHRF(lowercase=settings.lowercase, references=references)
        case "chrf++":
            return CHRF(word_order=2, lowercase=settings.lowercase, references=references)
        case "ter":
            # Without regard to case, whatever `lowercase` says: so TER is commonly reported.
            return FastTER(references=references)
