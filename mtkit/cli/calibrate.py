"""`mtkit calibrate`: fits the estimate of quality on labelled translations."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import DeviceOption, RunOptions, declare_option, with_run
from mtkit.standard_streams import check_stdout

if TYPE_CHECKING:
    from mtkit.pipeline.calibrate import Calibration, Outcome


@with_run
def calibrate(
    labels: Annotated[
        Path,
        typer.Argument(help="Labelled segments, a line each: source, translation, ok or bad."),
    ],
    *,
    run: RunOptions,
    model: Annotated[
        list[Path] | None,
        declare_option(
            "--model",
            "FOLDER",
            "Model folder (repeat it for an ensemble). No recipe or workspace needed.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        declare_option("--output", "FILE", "File to write (inference.quality.path).", "-o"),
    ] = None,
    device: DeviceOption = "auto",
    source_language: Annotated[
        str,
        declare_option("--from", "CODE", "Source language, for a model of several: en, eng_Latn."),
    ] = "",
    target_language: Annotated[
        str,
        declare_option("--to", "CODE", "Target language, for a model of several."),
    ] = "",
) -> None:
    """Fit the estimate of quality on labelled translations, and bound the released errors.

    `mtkit translate` with inference.quality then says which translations are released.
    """
    run.check_model_alone(has_model=bool(model))
    check_stdout("mtkit calibrate")
    changes = list(run.overrides)
    if output is not None:
        changes.append(f"inference.quality.path={json.dumps(str(output.absolute()))}")
    from mtkit.console import say
    from mtkit.pipeline.calibrate import calibrate as calibrate_labels
    from mtkit.pipeline.calibrate import open_settings

    opened = None if model else run.open(changes)
    folders, settings = open_settings(model or [], opened, changes, device)
    found = calibrate_labels(
        labels,
        folders,
        settings,
        device=device,
        source_language=source_language,
        target_language=target_language,
    )
    assert settings.quality is not None, "checked before"
    typer.echo(_describe(found, settings.quality.risk, settings.quality.confidence))
    say(f"wrote {settings.quality.path}")


def _describe(found: "Calibration", risk: float, confidence: float) -> str:
    """Returns the report as lines."""
    area = "" if found.area is None else f"; area under their ROC curve {found.area:.3f}"
    return "\n".join(
        [
            f"{found.num_labels:,} labels, {found.num_wrong:,} wrong: {found.num_fit:,} fit the "
            f"estimate, {found.num_tested:,} test it{area}",
            f"with a confidence of {100 * confidence:g}%, each risk for itself:",
            "risk     released    wrong of tested   from quality",
            *(_describe_outcome(each, found.num_tested, risk) for each in found.outcomes),
        ]
    )


def _describe_outcome(found: "Outcome", num_tested: int, risk: float) -> str:
    mark = " <- inference.quality.risk" if found.risk == risk else ""
    if found.threshold is None:
        about = (
            "too many are wrong at any quality"
            if found.num_needed is None
            else f"about {found.num_needed:,} are needed"
        )
        told = f"nothing     at least {found.min_labels:,} labels, {about}"
    else:
        share, wrong = found.threshold.released / num_tested, found.threshold.wrong
        of_tested = f"{wrong:,} of {found.threshold.released:,}"
        told = f"{share:<8.1%}    {of_tested:<15}   {found.threshold.at:.4f}"
    return f"{f'{100 * found.risk:g}%':<6}   {told}{mark}"
