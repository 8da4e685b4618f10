"""Results of scoring as a report file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np

from mtkit.console import say
from mtkit.data.sources.lines import read_lines
from mtkit.errors import MtkitError
from mtkit.evaluation.analysis.analyze import Analysis, analyze
from mtkit.evaluation.analysis.comparison import SentenceScores
from mtkit.evaluation.report.tables import as_markdown
from mtkit.files import as_json_text, check_not_input, write_atomically
from mtkit.paths import as_text
from mtkit.pipeline.score_files import ScoredText
from mtkit.version import __version__

_KINDS = (".html", ".md", ".json")


def check_report_names(
    paths: Sequence[Path], inputs: Sequence[Path] = (), *, has_references: bool = True
) -> None:
    """Checks that reports can be written to these paths; without references they are on flags.

    `inputs` are the files that are scored, which a report mustn't replace.
    """
    for path in paths:
        check_not_input(path, inputs, "--report")
        _check_name(path, has_references=has_references)


def _check_name(path: Path, *, has_references: bool) -> None:
    if not has_references and (path.suffix != ".json" or path.is_dir()):
        raise MtkitError(
            f"--report {path}: without references, a report is a list of flagged lines",
            "use a file with the ending .json, or give --reference",
        )
    if path.suffix not in _KINDS:
        raise MtkitError(
            f"--report {path}: unknown kind of report",
            "use the ending .html for a page, .md for a table, or .json for everything",
        )
    if path.is_dir():
        raise MtkitError(
            f"--report {path}: this is a folder", f"for example {path / 'report.html'}"
        )
    if not path.absolute().parent.is_dir():
        raise MtkitError(f"--report {path}: no folder {path.absolute().parent}", "create it first")


def write_reports(paths: Sequence[Path], scored: Sequence[ScoredText]) -> None:
    """Writes a report per path and test set; several sets have their names in the file names."""
    for path, each in product(paths, scored):
        name = each.evaluated.test_set
        target = path if len(scored) == 1 else path.with_name(f"{path.stem}.{name}{path.suffix}")
        write_atomically(target, _render(each, target.suffix))
        say(f"report on {name}: {target}")


def _render(scored: ScoredText, suffix: str) -> str:
    evaluated = scored.evaluated
    if suffix == ".md":
        return as_markdown(evaluated.systems, _list_facts(scored))
    analysis, facts = _analyze(scored), _list_facts(scored)
    if suffix == ".json":
        return as_json_text(
            {
                "test_set": evaluated.test_set,
                "num_sentences": evaluated.num_sentences,
                "systems": [asdict(system) for system in evaluated.systems],
                "analysis": asdict(analysis),
                "facts": facts,
            }
        )
    # Imported here: it loads matplotlib, which takes half a second and only a page needs.
    from mtkit.evaluation.report.score_page import render_scores  # noqa: PLC0415

    # For a file, its name without the folder.
    path = Path(evaluated.test_set)
    name = path.name if path.exists() else evaluated.test_set
    language = scored.target_language or None
    return render_scores(evaluated, analysis, name=name, facts=facts, target_language=language)


def _analyze(scored: ScoredText) -> Analysis:
    statistics, settings = scored.evaluated.statistics, scored.evaluated.settings

    def score(system: str, indices: Sequence[int]) -> Mapping[str, float]:
        chosen = np.asarray(indices)
        found = (
            (each.name, float(each.score(each.per_sentence[chosen].sum(axis=0))))
            for each in statistics[system]
        )
        # Sentences without terms have no share of them.
        return {name: value for name, value in found if not math.isnan(value)}

    path = settings.training_text
    return analyze(
        scored.systems,
        scored.text.references[0],
        score,
        sentence_scores=_compare_by(scored),
        sources=scored.text.sources,
        training_text=None if path is None else read_lines(path),
        origins=scored.text.origins,
    )


def _compare_by(scored: ScoredText) -> SentenceScores:
    """Returns the scores for comparing sentences: chrF, which discriminates best."""
    statistics = scored.evaluated.statistics
    first = next(iter(statistics.values()))
    index = next((i for i, each in enumerate(first) if each.metric.startswith("chrf")), 0)
    return SentenceScores(
        first[index].name,
        first[index].higher_is_better,
        {name: each[index].sentence_scores().tolist() for name, each in statistics.items()},
    )


def _list_facts(scored: ScoredText) -> dict[str, str]:
    settings = scored.evaluated.settings
    significance = settings.significance
    facts = {
        "test set": f"{scored.evaluated.test_set}, {scored.evaluated.num_sentences:,} sentences",
        "language": scored.target_language or "unknown",
        "sets of references": str(len(scored.text.references)),
        "BLEU's tokeniser": settings.tokenize,
        "intervals": f"{significance.confidence:.0%}, bootstrap, {significance.resamples:,} "
        f"resamples, seed {significance.seed}",
        "versions": f"mtkit {__version__}, sacreBLEU {version('sacrebleu')}",
    }
    if settings.training_text is not None:
        facts["rarity of words"] = f"counted in {as_text(settings.training_text)}"
    return facts
