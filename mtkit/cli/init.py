"""`mtkit init`: writes a recipe to start from."""

from typing import Annotated

import typer


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
) -> None:
    """Write ./mtkit.toml, a copy of a shipped recipe; the other commands then need no options."""
    from mtkit.console import say
    from mtkit.pipeline.init import describe_recipes
    from mtkit.pipeline.init import init as write_recipe

    if not recipe:
        for name, sentence in describe_recipes().items():
            typer.echo(f"{name:22} {sentence}")
        return
    path = write_recipe(recipe)
    say(f"wrote {path}; next: mtkit run (all steps), or mtkit prepare (the first step)")
