"""A server as the model of `mtkit translate`."""

import os
from collections.abc import Sequence

from mtkit.errors import MtkitError
from mtkit.inference.translate import Translator

_KEY_VARIABLE = "MTKIT_API_KEY"


def is_address(model: str) -> bool:
    """Checks whether a model is named by the address of a server."""
    return model.startswith(("http://", "https://"))


def open_remote(
    models: Sequence[str],
    overrides: Sequence[str] = (),
    *,
    source_language: str = "",
    target_language: str = "",
) -> Translator:
    """Returns a translator that asks a server; its key is in the environment: MTKIT_API_KEY.

    Args:
        models: The server's address alone.
        overrides: `inference.beam_size`, `inference.n_best` and `inference.paragraphs`; the server
            has the rest.
        source_language: Code of the lines' language; found out by the server where it is empty.
        target_language: Code of the language translated into; the model's own where it is empty.

    Raises:
        MtkitError: Several models, or another override.
    """
    from mtkit.recipe.inference import Inference
    from mtkit.recipe.override_section import override_section
    from mtkit.serving.client import RemoteTranslator

    if len(models) > 1:
        raise MtkitError(
            f"--model {models[0]}: a server can't be part of an ensemble", "give it alone"
        )
    allowed = (
        "inference.beam_size=",
        "inference.n_best=",
        "inference.paragraphs=",
        "inference.paragraphs.",
    )
    for override in overrides:
        if not override.startswith(allowed):
            if override.startswith("inference.glossary."):
                raise MtkitError(
                    "a server takes no glossary from --glossary",
                    "give one with --model FOLDER; Python's Request takes terms for a server, too",
                )
            raise MtkitError(
                f"--set {override}: a server has settings of its own",
                "inference.beam_size, n_best and paragraphs can be asked for",
            )
    settings = override_section(Inference(), "inference", overrides) if overrides else None
    return RemoteTranslator(
        models[0],
        key=os.environ.get(_KEY_VARIABLE),
        source=source_language or "auto",
        target=target_language or None,
        settings=settings,
    )
