"""The models that select a recipe's text, and the protocol that runs them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.executor import WorkerNeeds
from mtkit.recipe.cleaning import Selection
from mtkit.recipe.data import Data
from mtkit.text.tokenizer import SubwordTokenizer

Unit = Literal["token", "character", "probability"]
"""The divisor of a cross-entropy; or that a value is a classifier's probability."""


LanguageModelScorer = Callable[[Sequence[str]], tuple[NDArray[np.float64], NDArray[np.int64]]]
"""Returns each line's natural log-probability and number of tokens, both with `</s>`.

No line is blank. Lines are measured independently; the numbers depend only on the call's lines."""
PairJudge = Callable[[Sequence[str], Sequence[str]], NDArray[np.float64]]
"""Returns the probability that each pair of texts lacks the label to keep, [pairs]."""


class LanguageModels(Protocol):
    """Opens language models and classifiers; picklable, because each worker opens its own."""

    def check(self, folder: Path, language: str) -> None:
        """Checks that a folder holds a causal language model; warns if of another language."""
        ...

    def digest(self, folder: Path) -> str:
        """Returns a digest of the files in a model folder that determine its outputs."""
        ...

    def open(self, folder: Path) -> LanguageModelScorer:
        """Returns the scorer for the model in a folder."""
        ...

    def check_classifier(self, folder: Path, label: str) -> None:
        """Checks that a folder holds a classifier of pairs with a label."""
        ...

    def open_classifier(self, folder: Path, label: str) -> PairJudge:
        """Returns the judge for the classifier in a folder."""
        ...

    def needs(self, folders: Sequence[Path]) -> WorkerNeeds:
        """Returns what a worker with all these models needs."""
        ...


def digest_models(selection: Selection, models: LanguageModels) -> dict[str, list[str]]:
    """Returns the digests of a recipe's models, by column; `pair` for a classifier."""
    if selection.classifier is not None:
        return {"pair": [models.digest(selection.classifier), selection.label]}
    return {column: list(map(models.digest, pair)) for column, pair in selection.models.items()}


def check_models(data: Data, models: LanguageModels) -> None:
    """Checks that a recipe's models can be used, before anything else takes hours."""
    selection = data.cleaning.selection
    if selection is None:
        return
    if selection.classifier is not None:
        models.check_classifier(selection.classifier, selection.label)
    by_column = selection.models
    columns = ("text",) if data.is_text else ("source", "target")
    languages = dict(zip(columns, data.column_languages, strict=True))
    for column, folders in by_column.items():
        for folder in folders:
            models.check(folder, languages[column])
    for column, (in_domain, general) in by_column.items():
        if models.digest(in_domain) == models.digest(general):
            suffix = "" if column == "text" else f"_{column}"
            raise MtkitError(
                f"data.cleaning.selection: in_domain{suffix} and general{suffix} are the same "
                "model, so every difference is 0",
                "train the second on general text",
            )


def choose_unit(by_column: Mapping[str, tuple[Path, Path]]) -> Unit:
    """Returns the divisor of cross-entropies, for all columns alike.

    By tokens, as in the papers, if both models of each column have the same vocabulary. Otherwise
    by characters, because a model with longer pieces would be at a disadvantage. Without models,
    values are a classifier's probabilities.
    """
    if not by_column:
        return "probability"
    for folders in by_column.values():
        ours, theirs = (SubwordTokenizer.load(folder).target_vocabulary for folder in folders)
        if ours != theirs:
            return "character"
    return "token"


def damaged_weights(folder: Path) -> MtkitError:
    """Returns the error for a model that computes no probabilities."""
    return MtkitError(
        f"{folder}: this model's probabilities are NaN or infinite",
        "its weights are damaged: copy the complete folder again, or train it again",
    )
