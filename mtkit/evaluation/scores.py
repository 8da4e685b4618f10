"""Corpus scores by sacreBLEU (arXiv 1804.08771), equal to its command's to the last digit."""

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
    """Returns the score of every metric in the settings, in their order.

    `references` are sets with one per sentence. `target_language` decides what `tokenize = "auto"`
    is; empty means 13a.
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
    """Checks that there are sentences, and one per hypothesis in every set of references."""
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
    """Returns both as sacreBLEU's command line sees them, after `check_pairs`."""
    check_pairs(hypotheses, references)
    # sacreBLEU's command line strips like str.rstrip, which includes no-break spaces.
    stripped = [line.rstrip() for line in hypotheses]
    return stripped, [[line.rstrip() for line in lines] for lines in references]


def open_scorer(
    metric: TextMetric, settings: Evaluation, references: Sequence[Sequence[str]] | None = None
) -> Any:
    """Returns sacreBLEU's object for a metric; `settings.tokenize` must be resolved."""
    # sacreBLEU takes a while to load, and training doesn't need it before validation.
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
                    # Otherwise it logs a warning for text that looks tokenised.
                    force=True,
                    references=references,
                )
            except (
                RuntimeError,
                OSError,
            ) as error:  # MeCab is an extra; a model must be downloaded
                raise explain_missing(tokenizer, error) from error
        case "chrf":
            return CHRF(lowercase=settings.lowercase, references=references)
        case "chrf++":
            return CHRF(word_order=2, lowercase=settings.lowercase, references=references)
        case "ter":
            # Ignores case, whatever `lowercase` says: TER is commonly reported so.
            return FastTER(references=references)
