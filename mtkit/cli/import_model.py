"""`mtkit import`: a public translator as a model folder."""

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import declare_option


def import_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of transformers, or OWNER/NAME on the Hugging Face hub.",
        ),
    ],
    *,
    output: Annotated[Path, declare_option("--output", "FOLDER", "Model folder to write.", "-o")],
) -> None:
    """Make a model folder of a public translator: OPUS-MT, M2M100, NLLB-200.

    The folder translates, is exported and fine-tuned like any other. No code of the model's is run.
    """
    from mtkit.pipeline.import_model import import_model as import_folder

    import_folder(source, output)
