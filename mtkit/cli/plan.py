"""`mtkit plan`: what a training will take, before it is started."""

from __future__ import annotations

import json
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
        int,
        typer.Option("--gpus", metavar="N", min=1, help="Number of GPUs, in addition to 1 and 8."),
    ] = 1,
    hardware: Annotated[
        str,
        typer.Option(
            "--hardware",
            metavar="KIND",
            help="GPU: p100, v100, t4, l4, rtx3090, rtx4090, a100, h100 or h200.",
        ),
    ] = "h100",
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
    """Estimate what a training would take: parameters, operations, memory, hours.

    The estimate is computed, not measured, and needs neither data nor a GPU; after `mtkit prepare`
    it uses the real token counts. `mtkit train --dry-run` measures on this machine.
    """
    check_stdout("mtkit plan")
    loaded, run_folder = run.open()
    from mtkit.pipeline.plan import plan as plan_training

    planned = plan_training(loaded, run_folder, num_gpus=gpus, hardware=hardware, share=share)
    if as_json:
        sys.stdout.write(json.dumps(asdict(planned), indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.write(_render(planned))


def _name_tokens(planned: TrainingPlan) -> str:
    """Returns the tokens of an update in words."""
    if planned.is_text:
        return f"{planned.target_tokens:,.0f} tokens"
    return f"{planned.source_tokens:,.0f} source + {planned.target_tokens:,.0f} target tokens"


def _render(planned: TrainingPlan) -> str:
    """Returns the plan as text for a terminal."""
    from mtkit.units import format_duration

    weights, operations = planned.weights, planned.operations
    per_epoch = planned.updates_per_epoch
    frozen = weights.total + planned.num_added - planned.num_learning
    peak = planned.hardware.operations_per_second(planned.precision)
    sizes = f"{planned.source_vocab_size:,} source and {planned.target_vocab_size:,} target tokens"
    if planned.source_vocab_size == planned.target_vocab_size:
        sizes = f"{planned.target_vocab_size:,} tokens"
    token = "token" if planned.is_text else "target token"
    lines = [
        f"{planned.name}, estimated from "
        + ("the prepared data" if planned.is_prepared else "the recipe (no prepared data)"),
        f"network     {weights.total:,} parameters: encoder {weights.encoder:,}, decoder "
        f"{weights.decoder:,}, embeddings {weights.embeddings + weights.output:,} "
        f"(vocabulary: {sizes})"
        + (f"; {frozen:,} of them frozen" if frozen else "")
        + (f"; LoRA adds {planned.num_added:,}" if planned.num_added else ""),
        f"update      {_name_tokens(planned)} ({'mean' if planned.is_prepared else 'at most'})",
        f"total       {planned.num_updates:,} updates"
        + (
            ""
            if per_epoch is None
            else f": {planned.num_updates / per_epoch:,.1f} epochs of {per_epoch:,}"
        ),
        f"operations  {planned.operations_per_update:.3g} per update, "
        f"{planned.operations_per_update * planned.num_updates:.3g} in total: "
        + (
            ""
            if planned.is_text
            else f"{operations.per_source_token / 1e6:,.0f} million per source token, "
        )
        + f"{operations.per_target_token / 1e6:,.0f} million per {token}, "
        + ("plus attention products" if planned.is_prepared else "attention products not counted"),
        f"            rule of thumb, 6 per parameter and {token}: {planned.rule_of_thumb:.3g}",
        f"hardware    {planned.hardware.name}, {planned.precision}, {peak / 1e12:,.1f} TFLOP/s, of "
        f"which matrix products are assumed to reach {100 * planned.share:.3g} %"
        + (
            "; so narrow a network reaches far less and takes far longer"
            if planned.is_narrow
            else ""
        ),
        "",
    ]
    head = (
        "GPUs",
        "passes",
        "max tokens per pass and side",
        "memory per GPU",
        "s/update",
        "communication",
        "target tokens/s",
        "total time",
        "time x GPUs x peak",
    )
    rows = [
        (
            f"{setup.num_gpus}",
            f"{setup.num_passes}",
            f"{setup.pass_tokens:,}",
            f"{setup.memory_bytes / 1e9:.1f} GB" + ("" if setup.fits else " (too much)"),
            f"{setup.seconds_per_update:.3g}",
            f"{setup.communication_seconds / setup.seconds_per_update:.1%}",
            f"{setup.target_tokens_per_second:,.0f}",
            format_duration(setup.seconds),
            f"{setup.possible_operations:.2g}",
        )
        for setup in planned.setups
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines += [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (head, *rows)
    ]
    return "\n".join(lines) + "\n"
