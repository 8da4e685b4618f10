"""A classifier opened for `mtkit translate` and `mtkit score`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.errors import MtkitError
from mtkit.model.config import CONFIG_FILE, read_config

if TYPE_CHECKING:
    from mtkit.inference.classify import LineClassifier


def open_classifier(
    models: Sequence[Path], *, device: str, score_only: bool = False
) -> "LineClassifier | None":
    """Returns the classifier of a model folder; None where the model is none.

    Args:
        models: What `mtkit translate` was given, or a run's model folder.
        device: `cpu`, `cuda`, or `auto`.
        score_only: Whether outputs are to be scored, which classifiers have none of.

    Raises:
        MtkitError: A classifier that is damaged, in an ensemble, or to score outputs.
    """
    is_classifier = [
        (folder / CONFIG_FILE).is_file() and read_config(folder).objective == "classification"
        for folder in models
    ]
    if not any(is_classifier):
        return None
    if len(models) > 1:
        raise MtkitError("classifiers can't be ensembled", "name one model folder")
    if score_only:
        raise MtkitError(
            f"{models[0]} is a classifier, and --score-only scores translations",
            "--json has the probabilities of labels",
        )
    # Imported here: whether a model is a classifier is asked before torch is needed.
    from mtkit.inference.classify import LineClassifier  # noqa: PLC0415

    return LineClassifier(models[0], device=device)
