"""`mtkit score`: scores translations against references, reproducibly."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import DeviceOption, RunOptions, declare_option, set_path, with_run
from mtkit.standard_streams import check_stdout, write_json

if TYPE_CHECKING:
    from mtkit.pipeline.score_files import ScoredText


@with_run
def score(
    *,
    run: RunOptions,
    hypothesis: Annotated[
        list[Path] | None,
        declare_option(
            "--hypothesis",
            "FILE",
            "File of translations to score, instead of the run's model; repeat it for each "
            "system. All are compared with the first.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        declare_option(
            "--model",
            "MODEL",
            "Model folder, server or .toml file of a large language model, as for `mtkit "
            "translate`, that translates --source or --test-set; repeat it for each system.",
        ),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        declare_option(
            "--reference",
            "FILE",
            "References for --hypothesis and --model; repeat it for each set of references.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        declare_option(
            "--source",
            "FILE",
            "Source text; needed to detect untranslated sentences. Without --reference, flags of "
            "lines that look wrong are counted instead of scores.",
        ),
    ] = None,
    test_set: Annotated[
        str,
        declare_option(
            "--test-set",
            "NAME[:PAIR]",
            "A sacreBLEU test set, such as wmt14/full:en-de, instead of --reference or the "
            "recipe's test sets.",
        ),
    ] = "",
    glossary: Annotated[
        Path | None,
        declare_option(
            "--glossary",
            "FILE",
            "Also score how the terms of a glossary are translated, and how consistently "
            "(evaluation.glossary).",
        ),
    ] = None,
    report: Annotated[
        list[Path] | None,
        declare_option(
            "--report",
            "FILE",
            "Also write a report: a page (.html), a table for a paper (.md), or everything "
            "(.json).",
        ),
    ] = None,
    runs: Annotated[
        list[str] | None,
        declare_option(
            "--runs",
            "PATTERN",
            "Workspaces of runs that differ in their seeds, such as 'runs/a-*': the mean of their "
            "scores, with its interval over seeds and sentences.",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        declare_option(
            "--against", "PATTERN", "Workspaces of another method, which --runs is compared with."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Translate and score the recipe's test sets, or score and compare files of translations.

    Scores go to stdout: a table on a terminal, tab-separated lines into a pipe or a file.
    """
    hypotheses, models = hypothesis or [], model or []
    is_of_files = bool(hypotheses or models)
    _check_given(
        hypotheses,
        models,
        has_reference=bool(reference),
        has_source=bool(source),
        test_set=test_set,
    )
    if is_of_files and run.workspace is not None:
        raise typer.BadParameter("--hypothesis and --model can't be combined with --workspace")
    patterns = [*(runs or []), *(against or [])]
    _check_methods(
        runs or [], against or [], is_alone=not (is_of_files or test_set or report or run.workspace)
    )
    check_stdout("mtkit score")
    if glossary is not None:
        if hypotheses and not (reference or test_set):
            raise typer.BadParameter("--glossary needs --reference or --test-set")
        run.overrides.append(set_path("evaluation.glossary", glossary))
    if runs:
        from mtkit.pipeline.score_methods import score_methods, show_methods

        show_methods(
            score_methods(patterns, run.recipe, run.overrides, device=device), as_json=as_json
        )
        return
    if hypotheses and source is not None and not reference:
        _flag(
            hypotheses,
            source,
            run.recipe,
            run.overrides,
            reports=report or [],
            as_json=as_json,
            device=device,
        )
        return
    if report:
        from mtkit.pipeline.score_report import check_report_names

        sources = [source] if source is not None else []
        check_report_names(report, [*hypotheses, *(reference or []), *sources])
    if is_of_files:
        from mtkit.pipeline.score_files import load_scoring, score_files

        scoring = load_scoring(run.recipe, run.overrides)
        scored = [
            score_files(
                hypotheses,
                scoring,
                references=reference or [],
                source=source,
                test_set=test_set,
                models=models,
                device=device,
            )
        ]
    else:
        from mtkit.pipeline.score import score as score_run
        from mtkit.pipeline.score import score_published

        loaded, run_folder = run.open()
        if report and loaded.data.is_text:
            raise typer.BadParameter("--report is for translations, and this is a language model")
        if test_set:
            scored = score_published(loaded, run_folder, test_set, device=device)
        else:
            scored = score_run(loaded, run_folder, device=device)
    _render(scored, as_json=as_json, names_systems=is_of_files)
    if report:
        from mtkit.pipeline.score_report import write_reports

        write_reports(report, scored)


def _check_given(
    hypotheses: list[Path],
    models: list[str],
    *,
    has_reference: bool,
    has_source: bool,
    test_set: str,
) -> None:
    """Checks that options that need each other are given together."""
    if hypotheses and not (has_reference or test_set or has_source):
        raise typer.BadParameter(
            "--hypothesis needs --reference or --test-set; or --source, for flags without a score"
        )
    if models and not (test_set or (has_source and has_reference)):
        raise typer.BadParameter("--model needs --source and --reference, or --test-set")
    if not (hypotheses or models) and (has_reference or has_source):
        raise typer.BadParameter("--reference and --source need --hypothesis or --model")
    if test_set and (has_reference or has_source):
        raise typer.BadParameter("--test-set can't be combined with --reference or --source")


def _check_methods(runs: list[str], against: list[str], *, is_alone: bool) -> None:
    """Checks the options that compare methods."""
    if len(runs) > 1 or len(against) > 1:
        raise typer.BadParameter("--runs and --against take one pattern each: one method each")
    if against and not runs:
        raise typer.BadParameter("--against needs --runs")
    if runs and not is_alone:
        raise typer.BadParameter(
            "--runs can only be combined with --against, --glossary, --recipe, --set and --json"
        )


def _flag(
    hypotheses: list[Path],
    source: Path,
    recipe: str,
    overrides: list[str],
    *,
    reports: list[Path],
    as_json: bool,
    device: str,
) -> None:
    """Counts flags of files of translations without references, or scores them by metrics."""
    from mtkit.console import say
    from mtkit.pipeline.score_flags import (
        NOTE,
        as_content,
        as_flag_table,
        flag_files,
        load_flagging,
        write_flags,
    )

    if reports:
        from mtkit.pipeline.score_report import check_report_names

        check_report_names(reports, [*hypotheses, source], has_references=False)
    flagging = load_flagging(recipe, overrides)
    settings = flagging.scoring.settings
    if settings.learned_metrics:
        from mtkit.pipeline.score_files import score_without_references

        scored = score_without_references(hypotheses, settings, source, device=device)
        _render([scored], as_json=as_json, names_systems=True)
        if others := sorted(set(settings.metrics) - set(settings.learned_metrics)):
            say(f"not computed without references: {', '.join(others)}")
        if not reports:
            return
    systems = flag_files(hypotheses, source, flagging)
    if not settings.learned_metrics:
        if as_json:
            write_json(as_content(systems, flagging))
        else:
            sys.stdout.write(as_flag_table(systems))
        sys.stdout.flush()
        say(NOTE)
        for name, reason in flagging.omitted.items():
            say(f"not checked: {name} ({reason})")
    for path in reports:
        write_flags(path, systems, flagging)


def _render(scored: list[ScoredText], *, as_json: bool, names_systems: bool) -> None:
    from rich.console import Console

    from mtkit.evaluation.report.tables import (
        as_tab_separated,
        list_rows,
        show_table,
        warn_of_remarks,
    )

    rows = [
        row for each in scored for row in list_rows(each.evaluated, names_systems=names_systems)
    ]
    if as_json:
        write_json([asdict(row) for row in rows])
    elif sys.stdout.isatty():
        show_table(rows, Console(highlight=False))
    else:
        sys.stdout.write(as_tab_separated(rows))
    sys.stdout.flush()
    for each in scored:
        warn_of_remarks(each.evaluated, names_systems=names_systems)
