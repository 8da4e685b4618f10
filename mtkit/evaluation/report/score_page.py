"""An evaluation as one self-contained HTML page: no network, no script, no font."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from jinja2 import Environment

from mtkit.checks.text import split_text
from mtkit.evaluation.analysis.analyze import Analysis, ScoresByBucket
from mtkit.evaluation.analysis.flags import FLAGS
from mtkit.evaluation.evaluate import EvaluatedTestSet
from mtkit.evaluation.report.plots import (
    choose_series,
    draw_buckets,
    draw_gains,
    draw_marker,
    draw_scores,
)
from mtkit.evaluation.report.tables import (
    SIGNIFICANCE_LEVEL,
    TESTS,
    as_markdown,
    find_best,
    is_better,
    is_significant,
    list_metrics,
    show_p_value,
    show_signed,
)
from mtkit.evaluation.results import SystemResult, SystemScore
from mtkit.pages import open_templates


@dataclass(frozen=True)
class DiffSpan:
    """A part of a translation; `differs` if the reference has other words there, or none."""

    text: str
    differs: bool


def mark_differences(translation: str, reference: str) -> tuple[DiffSpan, ...]:
    """Returns a translation in parts that are in the reference and parts that aren't."""
    # Words are matched in order, so a word elsewhere in the reference counts as different.
    pieces = split_text(translation)
    words = [index for index, piece in enumerate(pieces) if not piece.isspace()]
    matcher = SequenceMatcher(
        None,
        [piece for piece in split_text(reference) if not piece.isspace()],
        [pieces[index] for index in words],
        autojunk=False,
    )
    is_matched = [False] * len(pieces)
    for block in matcher.get_matching_blocks():
        for index in words[block.b : block.b + block.size]:
            is_matched[index] = True
    stretches: list[DiffSpan] = []
    for index, piece in enumerate(pieces):
        differs = not is_matched[index]
        if piece.isspace():
            # White space belongs to its neighbours: it is marked between two marked words.
            neighbours = is_matched[max(0, index - 1) : index + 2 : 2]
            differs = len(neighbours) == 2 and not any(neighbours)
        if stretches and stretches[-1].differs == differs:
            stretches[-1] = DiffSpan(stretches[-1].text + piece, differs)
        else:
            stretches.append(DiffSpan(piece, differs))
    return tuple(stretches)


def render_scores(
    evaluated: EvaluatedTestSet,
    analysis: Analysis,
    *,
    name: str,
    facts: Mapping[str, str],
    target_language: str | None = None,
) -> str:
    """Returns an HTML page that shows an evaluation.

    Args:
        evaluated: At least one system; the first is the baseline.
        analysis: The analysis of the same systems.
        name: Name of the translated text.
        facts: Other conditions of the scores, by name.
        target_language: Language tag (BCP 47) of references and translations, for fonts and
            screen readers.
    """
    results = evaluated.systems
    metrics = list_metrics(results)
    series = choose_series(results)
    several = len(results) > 1
    template = _open_environment().get_template("page.html.jinja")
    page: str = template.render(
        title=f"Translations of {name}",
        test_set=name,
        num_sentences=evaluated.num_sentences,
        facts=facts,
        target_language=target_language,
        results=results,
        several=several,
        baseline=results[0].name,
        metrics=metrics,
        scores={result.name: {score.name: score for score in result.scores} for result in results},
        best={metric.name: find_best(results, metric.name) for metric in metrics},
        has_intervals=any(score.interval for result in results for score in result.scores),
        differences=_list_differences(results, metrics),
        num_comparisons=len(results) - 1,
        level=SIGNIFICANCE_LEVEL,
        tests=TESTS,
        series=series,
        score_plots={
            metric.name: draw_scores(results, metric.name, series) for metric in metrics if several
        },
        analysis=analysis,
        kinds=[_view_grouping(grouping, metrics, series) for grouping in analysis.groupings],
        comparisons=[
            {"comparison": comparison, "plot": draw_gains(comparison)}
            for comparison in analysis.comparisons
        ],
        flags=FLAGS,
        markdown=as_markdown(results, facts),
    )
    return page


def _open_environment() -> Environment:
    """Returns the page's templates, with the functions that they call."""
    environment = open_templates("mtkit.evaluation.report")
    environment.filters.update(
        score=lambda value: f"{value:.2f}",
        signed=show_signed,
        p_value=lambda value: show_p_value(value).removeprefix("p ").removeprefix("= "),
        count=lambda value: f"{value:,}",
        is_significant=is_significant,
        is_better=is_better,
    )
    environment.globals.update(
        draw_marker=draw_marker,
        mark_differences=mark_differences,
        list_bucket_metrics=_list_bucket_metrics,
    )
    return environment


def _list_differences(
    results: Sequence[SystemResult], metrics: Sequence[SystemScore]
) -> list[tuple[SystemScore, list[tuple[str, SystemScore]]]]:
    """Returns metrics with differences from the baseline, and those scores."""
    found = []
    for metric in metrics:
        rows = [
            (result.name, score)
            for result in results
            for score in result.scores
            if score.name == metric.name and score.difference is not None
        ]
        if rows:
            found.append((metric, rows))
    return found


def _list_bucket_metrics(grouping: ScoresByBucket) -> list[str]:
    """Returns the names of a grouping's metrics, in order."""
    return list(
        dict.fromkeys(
            metric
            for bucket in grouping.buckets
            for scores in bucket.scores.values()
            for metric in scores
        )
    )


def _view_grouping(
    grouping: ScoresByBucket, metrics: Sequence[SystemScore], series: Mapping[str, int]
) -> dict[str, object]:
    """Returns a grouping with the plot of its first metric, as SVG."""
    metric = _list_bucket_metrics(grouping)[0]
    return {
        "grouping": grouping,
        "metric": metric,
        "higher_is_better": all(one.higher_is_better for one in metrics if one.name == metric),
        "plot": draw_buckets(grouping, metric, series),
    }
