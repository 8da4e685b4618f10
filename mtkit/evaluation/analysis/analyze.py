"""Compares systems: scores by kind of sentence, risk flags, sentences won and lost."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from mtkit.evaluation.analysis.buckets import (
    Grouping,
    group_by_flags,
    group_by_length,
    group_by_origin,
    group_by_rare_words,
)
from mtkit.evaluation.analysis.comparison import SentenceScores, SystemComparison, compare_sentences
from mtkit.evaluation.analysis.flags import count_flags, find_flags

ScoreSentences = Callable[[str, Sequence[int]], Mapping[str, float]]
"""Corpus scores of a system's translations of these sentences, by the metric's name."""


@dataclass(frozen=True)
class BucketScores:
    """Scores of systems on a bucket's sentences, by system, then metric; percentage points."""

    name: str
    num_sentences: int
    scores: dict[str, dict[str, float]]


@dataclass(frozen=True)
class ScoresByBucket:
    """Scores of systems by kind of sentence.

    Attributes:
        name: The property that sentences are grouped by, as a heading.
        explanation: The meaning of the buckets' names, as a sentence.
        is_ordered: Whether buckets are in ascending order.
        buckets: Buckets with at least one sentence.
    """

    name: str
    explanation: str
    is_ordered: bool
    buckets: tuple[BucketScores, ...]


@dataclass(frozen=True)
class Analysis:
    """A comparison of systems by kind of sentence, by risk flag, and in pairs."""

    groupings: tuple[ScoresByBucket, ...] = ()
    flag_counts: dict[str, dict[str, int]] = field(default_factory=dict)
    comparisons: tuple[SystemComparison, ...] = ()


def analyze(
    outputs: Mapping[str, Sequence[str]],
    references: Sequence[str],
    score: ScoreSentences,
    *,
    sentence_scores: SentenceScores | None = None,
    sources: Sequence[str] | None = None,
    training_text: Iterable[str] | None = None,
    origins: Sequence[str] | None = None,
) -> Analysis:
    """Returns an analysis of the systems.

    The baseline, which is the first system, is compared with the other system whose sentence scores
    are best on average.

    Args:
        outputs: Each system's translations; the baseline first.
        references: One per sentence; of several sets, the first.
        score: Scores a system's translations of some sentences.
        sentence_scores: Scores for the comparison; None for no comparison.
        sources: The source sentences, if known.
        training_text: Target side of a training corpus, which shows what words are rare.
        origins: Each sentence's origin.
    """
    flags = {
        name: [
            find_flags(line, reference, sources[index] if sources is not None else None)
            for index, (line, reference) in enumerate(zip(lines, references, strict=True))
        ]
        for name, lines in outputs.items()
    }
    groupings = [group_by_length(references), group_by_rare_words(references, training_text)]
    if origins is not None:
        groupings.append(group_by_origin(origins))
    groupings.append(group_by_flags(list(flags.values())))
    comparisons = []
    if sentence_scores is not None and len(outputs) > 1:
        baseline, *others = outputs
        sign = 1 if sentence_scores.higher_is_better else -1
        best = max(others, key=lambda name: sign * fmean(sentence_scores.values[name]))
        comparisons.append(
            compare_sentences(
                best,
                baseline,
                outputs,
                references,
                sentence_scores,
                sources=sources,
            )
        )
    return Analysis(
        groupings=tuple(score_buckets(grouping, list(outputs), score) for grouping in groupings),
        flag_counts={name: count_flags(found) for name, found in flags.items()},
        comparisons=tuple(comparisons),
    )


def score_buckets(
    grouping: Grouping, systems: Sequence[str], score: ScoreSentences
) -> ScoresByBucket:
    """Returns each system's scores on each bucket of a grouping."""
    return ScoresByBucket(
        grouping.name,
        grouping.explanation,
        grouping.is_ordered,
        tuple(
            BucketScores(
                name, len(indices), {system: dict(score(system, indices)) for system in systems}
            )
            for name, indices in grouping.buckets.items()
        ),
    )
