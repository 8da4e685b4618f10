"""`mtkit serve`: serves models over LibreTranslate's API, mtkit's own, and a web page."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import DeviceOption, RunOptions, declare_folder, declare_option, with_run


@with_run
def serve(
    *,
    run: RunOptions,
    model: Annotated[
        list[Path] | None,
        declare_folder(
            "--model",
            "Model folder to serve, or the .toml file of a large language model; repeat it for "
            "more. No recipe needed.",
        ),
    ] = None,
    device: DeviceOption = "auto",
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on; an address that other machines can reach needs --keys.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="Port; 0 for any that is free.")
    ] = 5000,
    keys: Annotated[
        Path | None,
        declare_option(
            "--keys", "FILE", "API key file. Requests without a valid key are rejected."
        ),
    ] = None,
    new_key: Annotated[
        str | None,
        declare_option(
            "--new-key", "NAME", "Add an API key to the file of --keys, print it, and exit."
        ),
    ] = None,
    without_keys: Annotated[
        bool,
        typer.Option("--without-keys", help="Allow unauthenticated requests."),
    ] = False,
) -> None:
    """Serve translators over HTTP: LibreTranslate's API, mtkit's own, and a web page.

    Limits are set by keys, such as --set serve.max_characters=10000.
    """
    run.check_model_alone(has_model=bool(model))
    if new_key is not None:
        if keys is None:
            raise typer.BadParameter("--new-key needs --keys FILE")
        from mtkit.serving.keys import add_key

        typer.echo(add_key(keys, new_key))
        return
    if keys is not None and without_keys:
        raise typer.BadParameter("--keys and --without-keys can't be combined")
    from mtkit.pipeline.serve import serve as serve_models
    from mtkit.recipe.override_section import split_overrides

    changes, settings = list(run.overrides), None
    if not model:
        changes, of_run = split_overrides(changes, "serve")
        opened, place = run.open(of_run)
        model, settings = [place.model], opened.inference
    serve_models(
        model,
        changes,
        settings=settings,
        host=host,
        port=port,
        keys=keys,
        without_keys=without_keys,
        device=device,
    )
