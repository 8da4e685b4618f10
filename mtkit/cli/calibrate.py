"""`mtkit calibrate`: fits the quality estimate on labelled translations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import (
    DeviceOption,
    RunOptions,
    SourceOption,
    TargetOption,
    declare_folder,
    declare_option,
    set_path,
    with_run,
)
from mtkit.standard_streams import check_stdout

if TYPE_CHECKING:
    from mtkit.pipeline.calibrate import Calibration

_RISKS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Risks that are reported besides the configured one."""


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
        declare_folder(
            "--model",
            "Model folder (repeat it for an ensemble). No recipe or workspace needed.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        declare_option("--output", "FILE", "File to write (inference.quality.path).", "-o"),
    ] = None,
    device: DeviceOption = "auto",
    source_language: SourceOption = "",
    target_language: TargetOption = "",
) -> None:
    """Fit the quality estimate on labelled translations, and bound the released errors.

    `mtkit translate` with inference.quality then says which translations are released.
    """
    run.check_model_alone(has_model=bool(model))
    check_stdout("mtkit calibrate")
    changes = list(run.overrides)
    if output is not None:
        changes.append(set_path("inference.quality.path", output))
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
    typer.echo(describe(found, settings.quality.risk, settings.quality.confidence))
    say(f"wrote {settings.quality.path}")


def describe(found: "Calibration", risk: float, confidence: float) -> str:
    """Returns the report as lines."""
    area = "" if found.area is None else f"; area under their ROC curve {found.area:.3f}"
    lines = [
        f"{found.num_fit + found.num_tested:,} labels, {found.num_wrong:,} wrong: "
        f"{found.num_fit:,} fit the estimate, {found.num_tested:,} test it{area}",
        f"with a confidence of {100 * confidence:g}%, for each risk separately:",
        "risk     released    wrong of tested   from quality",
    ]
    for each in sorted({*_RISKS, risk}):
        chosen = found.choose(each, confidence)
        if chosen is not None:
            share, of_tested = chosen.released / found.num_tested, f"of {chosen.released:,}"
            told = f"{share:<8.1%}    {f'{chosen.wrong:,} {of_tested}':<15}   {chosen.at:.4f}"
        else:
            minimum, needed = found.count_needed(each, confidence)
            short = "too many are wrong" if found.exceeds(each) else "these are too few"
            about = f"about {needed:,} are needed" if needed else short
            told = f"nothing     at least {minimum:,} labels, {about}"
        mark = " <- inference.quality.risk" if each == risk else ""
        lines.append(f"{f'{100 * each:g}%':<6}   {told}{mark}")
    return "\n".join(lines)
