"""`mtkit init`: writes a recipe to start from."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import declare_option


def init(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="[RECIPE]",
            help="Name of a shipped recipe: own-corpus for text of your own, or "
            "phrasebook-en-de to try mtkit without any. Default: list all of them.",
            show_default=False,
        ),
    ] = "",
    student_of: Annotated[
        Path | None,
        declare_option(
            "--student-of",
            "FOLDER",
            "Workspace of a translator: write the recipe of a smaller, faster one that learns "
            "from its translations.",
        ),
    ] = None,
) -> None:
    """Write ./mtkit.toml, a copy of a shipped recipe; the other commands then need no options."""
    from mtkit.console import say
    from mtkit.pipeline.init import describe_recipes, init_student
    from mtkit.pipeline.init import init as write_recipe

    if student_of is not None:
        if recipe:
            raise typer.BadParameter("--student-of can't be combined with a recipe's name")
        path = init_student(student_of)
        say(f"wrote {path}; next: mtkit prepare --check, then mtkit run")
        return
    if not recipe:
        for name, sentence in describe_recipes().items():
            typer.echo(f"{name:22} {sentence}")
        return
    path = write_recipe(recipe)
    say(f"wrote {path}; next: mtkit run (all steps), or mtkit prepare (the first step)")
