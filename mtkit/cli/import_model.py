"""`mtkit import`: turns a public translator into a model folder."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import declare_folder, declare_option


def import_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of transformers or of a COMET metric, or OWNER/NAME on the Hugging Face "
            "hub; with --keep-pieces-of, also an mtkit model folder.",
        ),
    ],
    *,
    output: Annotated[Path, declare_folder("--output", "Model folder to write.", "-o")],
    keep_pieces_of: Annotated[
        list[Path] | None,
        declare_option(
            "--keep-pieces-of",
            "FILE",
            "Text in the languages to keep: pieces of the vocabulary that it doesn't use are "
            "removed, except characters and symbols.",
        ),
    ] = None,
    encoder: Annotated[
        str,
        declare_option(
            "--encoder",
            "FOLDER",
            "COMET: a folder, or OWNER/NAME on the hub, with config.json and tokenizer of the "
            "metric's encoder; default: the one that the metric names, on the hub.",
        ),
    ] = "",
) -> None:
    """Convert a public translator (OPUS-MT, M2M100, NLLB-200) or COMET metric to a model folder.

    A translator's folder translates, is exported and fine-tuned like any other. No code from the
    model is run.
    """
    from mtkit.pipeline.import_model import import_model as import_folder
    from mtkit.pipeline.import_model import import_trimmed
    from mtkit.storage import find_location
    from mtkit.stored_folder import fetch_folder, working_copy

    if "://" in source:
        source = str(fetch_folder(find_location(source)))
    with working_copy(output, is_new=True) as folder:
        if keep_pieces_of:
            import_trimmed(source, folder, keep_pieces_of)
        else:
            import_folder(source, folder, encoder=encoder)
