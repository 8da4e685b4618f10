"""Options that several commands share, and the recipe and workspace that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mtkit.pipeline.hardware import Hardware
    from mtkit.recipe import Recipe
    from mtkit.workspace import Workspace


def declare_option(flag: str, metavar: str, meaning: str, short: str = "") -> Any:
    """Returns an option whose help states its default in words."""
    flags = (flag, short) if short else (flag,)
    return typer.Option(*flags, metavar=metavar, show_default=False, help=meaning)


def declare_count(flag: str, meaning: str) -> Any:
    """Returns an option that takes a number from 1, without a default."""
    return typer.Option(flag, metavar="N", min=1, show_default=False, help=meaning)


RecipeOption = Annotated[
    str,
    declare_option(
        "--recipe",
        "FILE|NAME",
        "Recipe file, or name of a shipped recipe. Default: ./mtkit.toml.",
        "-r",
    ),
]
WorkspaceOption = Annotated[
    Path | None,
    declare_option(
        "--workspace",
        "FOLDER",
        "Folder for everything the run writes. Default: runs/<recipe name>.",
        "-w",
    ),
]
SetOption = Annotated[
    list[str] | None,
    declare_option(
        "--set",
        "KEY=VALUE",
        "Override a recipe key, as in training.max_steps=100; ~section.key removes one.",
        "-s",
    ),
]
GpusOption = Annotated[
    int | None,
    declare_count("--gpus", "Train on N GPUs of this machine. Default: one, if there is one."),
]
ProcessesOption = Annotated[
    int | None,
    declare_count("--processes", "Train on the CPU in N processes."),
]
ModelOption = Annotated[
    Path | None,
    declare_option("--model", "FOLDER", "Model folder; no recipe or workspace needed."),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Device of the model: cpu, cuda, or auto (a GPU if there is one).",
    ),
]


def check_model_alone(*, has_model: bool, recipe: str, workspace: Path | None) -> None:
    """Checks that a model folder and a run aren't both named.

    Raises:
        typer.BadParameter: They are.
    """
    if has_model and (recipe or workspace is not None):
        raise typer.BadParameter("--model can't be combined with --recipe or --workspace")


def open_run(
    recipe: str, workspace: Path | None, overrides: list[str] | None
) -> tuple[Recipe, Workspace]:
    """Returns the checked recipe and the workspace that a command's options name.

    A workspace given alone, outside a project's folder, is read with the recipe saved in it.

    Raises:
        MtkitError: No such recipe, or faults in it.
    """
    from mtkit.recipe import PROJECT_RECIPE, load_recipe
    from mtkit.workspace import Workspace

    origin: str | Path = recipe
    if not recipe and workspace is not None and not PROJECT_RECIPE.is_file():
        saved = Workspace(workspace).recipe_file
        origin = saved if saved.is_file() else recipe
    loaded = load_recipe(origin, overrides or [])
    return loaded, Workspace.of(loaded.name, workspace)


def choose_hardware(
    gpus: int | None,
    processes: int | None,
    *,
    num_nodes: int = 1,
    rendezvous: str = "",
    max_restarts: int = 0,
) -> Hardware:
    """Returns the hardware to train on.

    Raises:
        typer.BadParameter: Options that exclude each other, or one that lacks another.
    """
    from mtkit.pipeline.hardware import Hardware

    if gpus is not None and processes is not None:
        raise typer.BadParameter("--gpus and --processes can't be combined")
    if (num_nodes > 1) != bool(rendezvous):
        raise typer.BadParameter("--nodes N and --rdzv HOST:PORT must be given together")
    return Hardware(
        num_processes=gpus or processes or 1,
        device="cuda" if gpus is not None else "cpu" if processes is not None else "auto",
        num_nodes=num_nodes,
        rendezvous=rendezvous,
        max_restarts=max_restarts,
    )


def repeat_options(recipe: str, workspace: Path | None, overrides: list[str] | None) -> list[str]:
    """Returns the shared options as a worker process's command line has to repeat them."""
    arguments = ["--recipe", recipe] if recipe else []
    if workspace is not None:
        arguments += ["--workspace", str(workspace)]
    for override in overrides or []:
        arguments += ["--set", override]
    return arguments
