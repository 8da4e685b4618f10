"""`mtkit plan`: estimates the cost of a training before it starts."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import RunOptions, declare_option, with_run
from mtkit.standard_streams import check_stdout

if TYPE_CHECKING:
    from mtkit.pipeline.plan import TrainingPlan


@with_run
def plan(
    *,
    run: RunOptions,
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", metavar="N", min=1, help="Number of GPUs, in addition to 1 and 8."),
    ] = None,
    hardware: Annotated[
        str,
        declare_option(
            "--hardware",
            "KIND",
            "GPU: p100, v100, t4, l4, rtx3090, rtx4090, a100, h100 or h200; cpu is this "
            "machine's. Default: cpu, but h100 with --gpus or on a machine with a GPU.",
        ),
    ] = "",
    share: Annotated[
        float | None,
        declare_option(
            "--share",
            "SHARE",
            "Fraction of the GPU's peak that matrix products reach. Default: 0.3 in bf16, 0.6 in "
            "fp32.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Estimate what training would take: parameters, operations, memory, hours.

    It needs neither data nor a GPU; after `mtkit prepare` it uses the real token counts. For a GPU
    it is computed; on this machine's CPU a layer is timed. `mtkit train --dry-run` times whole
    updates and a validation. Translators that `mtkit run` trains first are listed first.
    """
    check_stdout("mtkit plan")
    if gpus is not None and (hardware or "").lower() == "cpu":
        raise typer.BadParameter("--gpus can't be combined with --hardware cpu")
    loaded, run_folder = run.open()
    from mtkit.files import as_json_text
    from mtkit.pipeline.plan import default_hardware
    from mtkit.pipeline.plan import plan as plan_training

    chosen = hardware or default_hardware(wants_gpus=gpus is not None)
    from mtkit.pipeline.teacher_runs import Run

    itself = Run(loaded, run_folder)
    needed = itself.collect_teachers()
    runs = [*(each for each in needed if not each.workspace.model.is_dir()), itself]
    *teachers, planned = (
        plan_training(each.recipe, each.workspace, num_gpus=gpus or 1, hardware=chosen, share=share)
        for each in runs
    )
    if as_json:
        facts = {**asdict(planned), "teachers": list(map(asdict, teachers))}
        sys.stdout.write(as_json_text(facts, is_ascii=True))
    else:
        sys.stdout.write("\n".join(map(_render, [*teachers, planned])))


def _render(planned: TrainingPlan) -> str:
    """Returns the plan as text for a terminal."""
    from mtkit.pages import open_templates
    from mtkit.units import format_duration

    rows = [
        {
            "GPUs": f"{setup.num_gpus}",
            "passes": f"{setup.num_passes}",
            "max tokens per pass and side": f"{setup.pass_tokens:,}",
            "memory per GPU": f"{setup.memory_bytes / 1e9:.1f} GB"
            + ("" if setup.fits else " (too much)"),
            "s/update": f"{setup.seconds_per_update:.3g}",
            "communication": f"{setup.communication_seconds / setup.seconds_per_update:.1%}",
            "target tokens/s": f"{setup.target_tokens_per_second:,.0f}",
            "total time": format_duration(setup.seconds),
            "time x GPUs x peak": f"{setup.possible_operations:.2g}",
        }
        for setup in planned.setups
    ]
    if planned.hardware.is_measured:
        of_gpus = ("GPUs", "communication", "time x GPUs x peak")
        rows = [
            {
                name.replace(" per GPU", ""): cell
                for name, cell in row.items()
                if name not in of_gpus
            }
            for row in rows
        ]
    cells = [list(rows[0]), *(list(row.values()) for row in rows)]
    environment = open_templates("mtkit.cli", is_html=False)
    environment.filters["count"] = "{:,}".format
    return environment.get_template("plan.txt.jinja").render(
        planned=planned,
        frozen=planned.weights.total + planned.num_added - planned.num_trainable,
        peak=planned.hardware.operations_per_second(planned.precision),
        rows=cells,
        widths=[max(map(len, column)) for column in zip(*cells, strict=True)],
    )
