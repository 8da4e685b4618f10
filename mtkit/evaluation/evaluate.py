"""Evaluates systems against references: the entry point of this package."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.evaluation.learned import LearnedMetric, measure_learned
from mtkit.evaluation.paper_bleu import paper_bleu
from mtkit.evaluation.parseval import measure_trees, remark_on_trees
from mtkit.evaluation.remarks.find_remarks import find_remarks
from mtkit.evaluation.results import Interval, ScoreDifference, SystemResult, SystemScore
from mtkit.evaluation.significance import bootstrap_intervals, find_differences
from mtkit.evaluation.statistics import Statistics, measure_systems
from mtkit.evaluation.term_scores import TermScorer
from mtkit.evaluation.tokenizers import resolve_tokenizer
from mtkit.recipe.evaluation import Evaluation

_MIN_SENTENCES = 100
"""With fewer sentences, resamples are so similar that small differences look certain."""


@dataclass(frozen=True)
class ReferenceText:
    """The references of a test set, and its other columns.

    Attributes:
        references: Sets of references, each with one per sentence.
        sources: The source sentences, or None.
        origins: Each sentence's origin, or None.
    """

    name: str
    references: Sequence[Sequence[str]]
    sources: Sequence[str] | None = None
    origins: Sequence[str] | None = None


@dataclass(frozen=True)
class EvaluatedTestSet:
    """Systems on one test set.

    Attributes:
        systems: The result of each; the first is the baseline.
        statistics: One per metric, by system.
        settings: The settings of the scores, with the resolved tokeniser.
    """

    test_set: str
    num_sentences: int
    systems: tuple[SystemResult, ...]
    statistics: Mapping[str, Sequence[Statistics]]
    settings: Evaluation


def evaluate(
    systems: Mapping[str, Sequence[str]],
    text: ReferenceText,
    settings: Evaluation,
    *,
    target_language: str = "",
    learned: Sequence[LearnedMetric] = (),
) -> EvaluatedTestSet:
    """Returns every system's scores, their intervals, and differences from the first system.

    Args:
        systems: Translations by system, one per sentence; the first system is the baseline.
        text: The references.
        settings: Metrics, tokenisation, and tests of differences.
        target_language: Code of the translations' language; empty if unknown.
        learned: The settings' learned metrics, opened.
    """
    if not text.references:
        raise MtkitError("no references to score against")
    counted = [*systems.items()]
    counted += [(f"reference set {i}", lines) for i, lines in enumerate(text.references[1:], 2)]
    counted += [("the source", text.sources)] if text.sources is not None else []
    counted += [("evaluation.origins", text.origins)] if text.origins is not None else []
    check_counts(text.name, text.references[0], counted)
    settings = resolve_tokenizer(settings, target_language)
    return rate(
        text.name,
        measure(systems, text, settings, learned),
        settings,
        further={
            name: _score_paper_bleu(hypotheses, text, settings, target_language)
            for name, hypotheses in systems.items()
        },
        remarks={
            name: (
                *_remark_on_size(len(text.references[0])),
                *_remark_on_text(hypotheses, text, settings, target_language),
            )
            for name, hypotheses in systems.items()
        },
    )


def measure(
    systems: Mapping[str, Sequence[str]],
    text: ReferenceText,
    settings: Evaluation,
    learned: Sequence[LearnedMetric] = (),
) -> dict[str, list[Statistics]]:
    """Returns the statistics of every system by every metric of the settings, and by `learned`."""
    statistics = (
        _measure_trees(systems, text.references)
        if settings.is_of_trees
        else measure_systems(systems, text.references, settings)
    )
    measured = measure_learned(systems, text.references[0], text.sources, learned)
    statistics = {name: [*each, *measured[name]] for name, each in statistics.items()}
    if settings.glossary is not None:
        scorer = TermScorer(settings.glossary, text.sources, text.origins)
        if not scorer.num_occurrences:
            warn(f"{text.name}: its source text has none of the terms of {settings.glossary}")
            return statistics
        statistics = {
            name: [*each, *scorer.measure(systems[name])] for name, each in statistics.items()
        }
    return statistics


def rate(
    test_set: str,
    statistics: Mapping[str, Sequence[Statistics]],
    settings: Evaluation,
    *,
    further: Mapping[str, Sequence[SystemScore]] | None = None,
    remarks: Mapping[str, tuple[str, ...]] | None = None,
) -> EvaluatedTestSet:
    """Returns scores with their intervals, and differences from the first system's.

    A test set of one sentence has neither.

    Args:
        test_set: Its name.
        statistics: One per metric, by system.
        settings: `significance` defines intervals and p-values.
        further: Other scores of each system.
        remarks: Apparent defects of each system's text.
    """
    baseline, *others = statistics
    num_sentences = len(statistics[baseline][0].per_sentence)
    intervals: dict[str, Sequence[Interval | None]] = {}
    differences: dict[str, Sequence[ScoreDifference | None]] = {}
    if num_sentences > 1:
        test = settings.significance.test
        drawn = settings.significance.model_dump(exclude={"test", "difference"})
        intervals |= bootstrap_intervals(statistics, **drawn)
        if others:
            differences |= find_differences(statistics, baseline, test=test, **drawn)
    nothing = [None] * len(statistics[baseline])
    systems = tuple(
        SystemResult(
            name,
            (
                *map(
                    Statistics.as_score,
                    of_system,
                    intervals.get(name, nothing),
                    differences.get(name, nothing),
                ),
                *(further or {}).get(name, ()),
            ),
            (remarks or {}).get(name, ()),
        )
        for name, of_system in statistics.items()
    )
    return EvaluatedTestSet(test_set, num_sentences, systems, statistics, settings)


def _measure_trees(
    systems: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, list[Statistics]]:
    if len(references) > 1:
        raise MtkitError(
            f"{len(references)} sets of references, but trees are scored against one",
            "give one --reference",
        )
    return {name: measure_trees(trees, references[0]) for name, trees in systems.items()}


def _remark_on_text(
    hypotheses: Sequence[str], text: ReferenceText, settings: Evaluation, target_language: str
) -> tuple[str, ...]:
    if settings.is_of_trees:
        return remark_on_trees(hypotheses, text.references[0])
    remarks = find_remarks(
        hypotheses,
        text.references,
        sources=text.sources,
        tokenize=settings.tokenize,
        target_language=target_language,
        lowercase=settings.lowercase,
    )
    return tuple(remark.text for remark in remarks)


def _remark_on_size(num_sentences: int) -> tuple[str, ...]:
    if num_sentences == 1:
        return ("One sentence can't be resampled, so there are no intervals and no p-values.",)
    if num_sentences < _MIN_SENTENCES:
        return (
            f"{num_sentences} sentences are too few for meaningful intervals and p-values: "
            "score a thousand or more.",
        )
    return ()


def check_counts(
    name: str, lines: Sequence[str], others: Iterable[tuple[str, Sequence[str]]]
) -> None:
    """Checks that all files have the same number of lines, and not zero."""
    for what, found in others:
        if len(found) != len(lines):
            raise MtkitError(
                f"{what} has {len(found):,} lines, but {name} has {len(lines):,}: "
                "they must have the same number of lines",
                "a translation has one line per source line, blank lines included",
            )
    if not lines:
        raise MtkitError(f"{name}: no lines", "is the file complete?")


def _score_paper_bleu(
    hypotheses: Sequence[str], text: ReferenceText, settings: Evaluation, target_language: str
) -> list[SystemScore]:
    if not settings.paper_bleu:
        return []
    return paper_bleu(
        hypotheses,
        text.references,
        language=target_language,
        lowercase=settings.lowercase,
        tokenized=settings.tokenize == "none",
    )
