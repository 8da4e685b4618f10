"""Entry point of `mtkit score --runs`: compares methods by several runs of each."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from glob import glob
from itertools import combinations
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.evaluation.evaluate import ReferenceText, check_counts, measure
from mtkit.evaluation.methods import MethodScore, compare_methods
from mtkit.evaluation.tokenizers import resolve_tokenizer
from mtkit.model.digest import digest_model
from mtkit.pipeline.score_files import load_scoring, open_learned, read_origins
from mtkit.pipeline.translation_files import TranslatedTestSet, TranslationFiles
from mtkit.standard_streams import write_json
from mtkit.workspace import Workspace


def score_methods(
    patterns: Sequence[str], recipe: str, overrides: Sequence[str], *, device: str = "auto"
) -> list[MethodScore]:
    """Returns the scores of one or two methods on every test set that all of their runs have.

    Args:
        patterns: Of each method, a pattern of its runs' workspaces; the second is the baseline.
        recipe: Whose `evaluation` counts; empty: the first run's.
        overrides: As in `load_recipe`.
        device: Where learned metrics run.
    """
    if len(set(patterns)) < len(patterns):
        raise MtkitError(f"{patterns[0]} is compared with itself", "name two methods")
    methods = {pattern: _find_runs(pattern) for pattern in patterns}
    folders = [folder for found in methods.values() for folder in found]
    for folder in folders:
        if folders.count(folder) > 1:
            raise MtkitError(f"{folder} is a run of both methods", "write narrower patterns")
    workspaces = {str(folder): Workspace(folder) for folder in folders}
    names = _find_test_sets(list(workspaces.values()))
    first = next(iter(workspaces.values()))
    scoring = load_scoring(recipe or str(first.recipe_file), overrides)
    settings = resolve_tokenizer(scoring.settings, scoring.target_language)
    learned = open_learned(settings, device)
    origins = read_origins(settings, len(names))
    scores: list[MethodScore] = []
    for name in names:
        for run, workspace in workspaces.items():
            _check_current(run, workspace, name)
        found = {run: TranslationFiles(each, name).read() for run, each in workspaces.items()}
        text = _check_same_text(name, found, origins)
        _check_different(name, found)
        systems = {run: each.hypotheses for run, each in found.items()}
        statistics = measure(systems, text, settings, learned)
        by_method = {
            pattern: {str(folder): statistics[str(folder)] for folder in of_method}
            for pattern, of_method in methods.items()
        }
        scores += compare_methods(name, by_method, settings.significance)
    return scores


def _find_runs(pattern: str) -> list[Path]:
    folders = [path for path in map(Path, sorted(glob(pattern))) if path.is_dir()]  # noqa: PTH207
    if len(folders) < 2:
        raise MtkitError(
            f"{pattern} matches {len(folders) or 'no'} folder{'s' * (len(folders) != 1)}, and a "
            "method needs at least two runs",
            "quote the pattern, such as --runs 'runs/a-*', and train runs that differ in their "
            "seed: mtkit run --set seed=2 --workspace runs/a-2",
        )
    return folders


def _find_test_sets(workspaces: Sequence[Workspace]) -> list[str]:
    """Returns the test sets that all runs have translated; warns of others."""
    found = [
        {path.stem for path in workspace.translations.glob("*.hyp")} for workspace in workspaces
    ]
    for workspace, names in zip(workspaces, found, strict=True):
        if not names:
            raise MtkitError(
                f"{workspace.root}: no translations of test sets",
                "--runs is for translators; translate and score the test sets first: "
                f"mtkit score --workspace {workspace.root}",
            )
    common = set.intersection(*found)
    if not common:
        raise MtkitError(
            "the runs have no test set in common", "score each run on the same test sets first"
        )
    for name in sorted(set.union(*found) - common):
        without = next(
            each for each, names in zip(workspaces, found, strict=True) if name not in names
        )
        warn(f"{name} is left out: {without.root} has no translation of it")
    return sorted(common)


def _check_current(run: str, workspace: Workspace, name: str) -> None:
    """Checks that a translation is by the run's model, if that is still there."""
    if not workspace.model.is_dir():
        return
    if TranslationFiles(workspace, name).find_model() != digest_model(workspace.model):
        raise MtkitError(
            f"{name}: the translation in {run} isn't by its current model",
            f"translate it again: mtkit score --workspace {run}",
        )


def _check_same_text(
    name: str, found: dict[str, TranslatedTestSet], origins: list[str] | None
) -> ReferenceText:
    (first, text), *others = found.items()
    for run, other in others:
        if (other.sources, other.references) != (text.sources, text.references):
            raise MtkitError(
                f"{name}: {first} and {run} have different sources or references",
                "score both on the same test set",
            )
    counted = [(run, each.hypotheses) for run, each in found.items()]
    counted += [("evaluation.origins", origins)] if origins is not None else []
    check_counts(name, text.references[0], counted)
    return ReferenceText(name, text.references, text.sources, origins)


def _check_different(name: str, found: dict[str, TranslatedTestSet]) -> None:
    for (first, one), (second, other) in combinations(found.items(), 2):
        if one.hypotheses == other.hypotheses:
            raise MtkitError(
                f"{name}: {first} and {second} have the same translations",
                "a copy or the same seed isn't another run: train it with --set seed=...",
            )


def show_methods(scores: Sequence[MethodScore], *, as_json: bool) -> None:
    """Prints methods' scores to stdout: a table, tab-separated lines or JSON."""
    if as_json:
        write_json([asdict(each) for each in scores])
    elif sys.stdout.isatty():
        table = Table(*_COLUMNS)
        for each in scores:
            table.add_row(*map(Text, _as_cells(each)))
        Console(highlight=False).print(table)
    else:
        for each in scores:
            sys.stdout.write("\t".join([*_as_cells(each), each.signature]) + "\n")
    sys.stdout.flush()
    for each in scores:
        if (difference := each.difference) is not None:
            variance = difference.seed_variance + difference.sentence_variance
            share = difference.seed_variance / variance if variance else 0.0
            say(
                f"{each.test_set}, {each.metric}: {share:.0%} of the difference's variance comes "
                f"from seeds, {1 - share:.0%} from sentences"
            )


_COLUMNS = (
    "test set", "metric", "method", "runs", "mean", "SD", "interval", "difference",
    "its interval", "p", "runs needed",
)  # fmt: skip


def _as_cells(score: MethodScore) -> list[str]:
    cells = [
        score.test_set,
        score.metric,
        score.method,
        str(len(score.runs)),
        f"{score.value:.2f}",
        f"{score.deviation:.2f}",
        f"{score.interval.low:.2f} to {score.interval.high:.2f}",
    ]
    if score.difference is None:
        return [*cells, "", "", "", ""]
    interval, needed = score.difference.interval, score.difference.num_runs_needed
    return [
        *cells,
        f"{score.difference.value:+.2f}",
        f"{interval.low:+.2f} to {interval.high:+.2f}",
        f"{score.difference.p_value:.4f}",
        "no number" if needed is None else str(needed),
    ]
