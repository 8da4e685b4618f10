"""`mtkit score`: translations and references become BLEU, chrF and TER with signatures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import DeviceOption, RecipeOption, SetOption, WorkspaceOption, open_run

if TYPE_CHECKING:
    from mtkit.evaluation.report import ScoreRow


def score(
    *,
    recipe: RecipeOption = "",
    workspace: WorkspaceOption = None,
    overrides: SetOption = None,
    hypothesis: Annotated[
        Path | None,
        typer.Option(
            "--hypothesis",
            metavar="FILE",
            show_default=False,
            help="Score this file of translations instead of the run's model.",
        ),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            "--reference",
            metavar="FILE",
            show_default=False,
            help="References for --hypothesis; give it once for each set of references.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Translate and score the recipe's test sets, or score a file of translations.

    Scores go to stdout: a table on a terminal, tab-separated lines into a pipe or a file.
    """
    if (hypothesis is None) != (not reference):
        raise typer.BadParameter("--hypothesis and --reference go together")
    if hypothesis is not None and reference:
        rows = _score_files(hypothesis, reference, recipe, overrides)
    else:
        opened, place = open_run(recipe, workspace, overrides)
        from mtkit.pipeline.score import score as score_run

        rows = score_run(opened, place, device=device)
    _render(rows, as_json=as_json)


def _score_files(
    hypothesis: Path, references: list[Path], recipe: str, overrides: list[str] | None
) -> list[ScoreRow]:
    from mtkit.pipeline.score_files import score_files
    from mtkit.recipe import PROJECT_RECIPE, load_recipe
    from mtkit.recipe.evaluation import Evaluation
    from mtkit.recipe.loading import override_section

    if recipe or PROJECT_RECIPE.is_file():
        settings = load_recipe(recipe, overrides or []).evaluation
    else:
        settings = override_section(Evaluation(), "evaluation", overrides or [])
    return score_files(hypothesis, references, settings)


def _render(rows: list[ScoreRow], *, as_json: bool) -> None:
    from rich.console import Console

    from mtkit.evaluation.report import as_json_text, as_tab_separated, show_table

    if as_json:
        sys.stdout.write(as_json_text(rows))
    elif sys.stdout.isatty():
        show_table(rows, Console(highlight=False))
    else:
        sys.stdout.write(as_tab_separated(rows))
