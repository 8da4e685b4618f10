"""Options that several commands share, and the recipe and workspace that they name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtkit.errors import MtkitError
from mtkit.paths import as_text

if TYPE_CHECKING:
    from mtkit.pipeline.hardware import Hardware
    from mtkit.recipe import Recipe
    from mtkit.storage import Location
    from mtkit.workspace import Workspace


def declare_option(
    flag: str, metavar: str, meaning: str, short: str = "", parser: Any = None
) -> Any:
    """Returns an option whose help states its default in words."""
    flags = (flag, short) if short else (flag,)
    return typer.Option(*flags, metavar=metavar, show_default=False, help=meaning, parser=parser)


def declare_location(flag: str, metavar: str, meaning: str, short: str = "") -> Any:
    """Returns an option for a file or a folder on disk or in an object store."""
    parser = find_location if flag == "--model" else _find_stored_location
    return declare_option(flag, metavar, meaning, short, parser)


def declare_folder(flag: str, meaning: str, short: str = "") -> Any:
    """Returns an option for a folder on disk or in an object store."""
    return declare_location(flag, "FOLDER|URL", meaning, short)


def set_path(key: str, path: Path) -> str:
    """Returns the change of a recipe, as for `--set`, that gives a key a file's path."""
    text = str(path.absolute())
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MtkitError(
            f"{as_text(path)}: a name of invalid UTF-8, which a recipe can't contain",
            "rename the file, or make a link with another name",
        ) from None
    # JSON leaves only this control character as it is, which TOML refuses.
    return f"{key}={json.dumps(text)}".replace("\x7f", "\\u007f")


def _find_stored_location(text: str) -> Location:
    """Returns a path on disk, or a URL of an object store; no other URL can be written."""
    from mtkit import storage
    from mtkit.remote_files import mask_secrets

    found = storage.find_location(text)
    if isinstance(found, storage.Url) and not found.is_stored:
        raise typer.BadParameter(
            f"{mask_secrets(text)}: expected a path or a URL of an object store"
        )
    return found


def find_location(text: str) -> Location:
    """Returns a path on disk, or a URL of an object store; a server's address as a path."""
    from mtkit import storage

    found = storage.find_location(text)
    return Path(text) if isinstance(found, storage.Url) and not found.is_stored else found


def declare_count(flag: str, meaning: str) -> Any:
    """Returns an option that takes a number from 1, without a default."""
    return typer.Option(flag, metavar="N", min=1, show_default=False, help=meaning)


_NEED_THE_MODEL = ("align", "attend", "serve", "translate")
"""Commands that fetch only `model/` of a workspace in an object store."""
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
    declare_folder("--model", "Model folder; no recipe or workspace needed."),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Device of the model: cpu, cuda, or auto (a GPU if there is one).",
    ),
]
SourceOption = Annotated[
    str,
    declare_option("--from", "CODE", "Source language, for a multilingual model: en, eng_Latn."),
]
TargetOption = Annotated[
    str, declare_option("--to", "CODE", "Target language, for a multilingual model.")
]


@dataclass(frozen=True)
class RunOptions:
    """The options of every command that works on a run.

    Attributes:
        recipe: The recipe's file or name; empty for the default.
        workspace: None for the default.
        overrides: Changes of the recipe's keys.
        url: Where the workspace is, if that is an object store; `workspace` is its copy.
    """

    recipe: str
    workspace: Path | None
    overrides: list[str]
    url: str = ""

    def check_model_alone(self, *, has_model: bool) -> None:
        """Rejects a model folder together with a run."""
        if has_model and (self.recipe or self.workspace is not None):
            raise typer.BadParameter("--model can't be combined with --recipe or --workspace")

    def open(self, overrides: list[str] | None = None) -> tuple[Recipe, Workspace]:
        """Returns the checked recipe and the workspace; `overrides` replace the given ones.

        A workspace without a recipe, outside a project's folder, uses the recipe saved in it.
        """
        from mtkit.recipe import PROJECT_RECIPE, load_recipe
        from mtkit.workspace import Workspace

        origin: str | Path = self.recipe
        if not self.recipe and self.workspace is not None and not PROJECT_RECIPE.is_file():
            saved = Workspace(self.workspace).recipe_file
            origin = saved if saved.is_file() else self.recipe
        loaded = load_recipe(origin, self.overrides if overrides is None else overrides)
        return loaded, Workspace.of(loaded.name, self.workspace)

    def repeat(self) -> list[str]:
        """Returns the options for a worker process's command line."""
        arguments = ["--recipe", self.recipe] if self.recipe else []
        if self.workspace is not None:
            arguments += ["--workspace", self.url or str(self.workspace)]
        for override in self.overrides:
            arguments += ["--set", override]
        return arguments


def with_run(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command that takes the options of a run instead of its parameter `run`."""
    signature = inspect.signature(command, eval_str=True)

    def wrapped(
        *arguments: Any, recipe: str, workspace: Any, overrides: list[str], **options: Any
    ) -> None:
        if options.get("model"):
            options["model"] = _fetch_models(options["model"])
        changes = overrides or []
        if workspace is None or isinstance(workspace, Path):
            command(*arguments, run=RunOptions(recipe, workspace, changes), **options)
            return
        from mtkit.stored_folder import working_copy

        parts = ("model",) if command.__name__ in _NEED_THE_MODEL else ()
        with working_copy(workspace, parts) as folder:
            run = RunOptions(recipe, folder, changes, workspace)
            command(*arguments, run=run, **options)

    parameters = []
    for each in signature.parameters.values():
        parameters += _RUN_OPTIONS if each.name == "run" else [each]
    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def _fetch_models(given: Any) -> Any:
    """Returns the values of `--model`, with those in object stores as their local copies."""
    if isinstance(given, list):
        return list(map(_fetch_models, given))
    location = given if isinstance(given, Path) else find_location(given)
    if isinstance(location, str):
        from mtkit.stored_folder import fetch_folder

        location = fetch_folder(location)
    elif isinstance(given, Path) or not given.startswith("file://"):
        return given
    # `translate` and `score` take text, which may also be a server's address.
    return str(location) if type(given) is str else location


def _declare_run_option(name: str, default: Any, kind: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[kind, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


_RUN_OPTIONS = [
    _declare_run_option(
        "recipe",
        "",
        str,
        declare_option(
            "--recipe",
            "FILE|NAME",
            "Recipe file, or name of a shipped recipe. Default: ./mtkit.toml.",
            "-r",
        ),
    ),
    _declare_run_option(
        "workspace",
        None,
        Path | None,
        declare_folder(
            "--workspace",
            "Folder for everything the run writes. Default: runs/<recipe name>.",
            "-w",
        ),
    ),
    _declare_run_option(
        "overrides",
        None,
        list[str] | None,
        declare_option(
            "--set",
            "KEY=VALUE",
            "Override a recipe key, as in training.max_steps=100; ~section.key removes one.",
            "-s",
        ),
    ),
]


def choose_hardware(
    gpus: int | None,
    processes: int | None,
    *,
    num_nodes: int = 1,
    rendezvous: str = "",
    max_restarts: int = 0,
) -> Hardware:
    """Returns the hardware to train on; rejects inconsistent options."""
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
