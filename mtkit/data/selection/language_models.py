"""The models that a recipe selects text with, and what runs them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.digests import digest_file
from mtkit.errors import MtkitError
from mtkit.recipe.cleaning import Selection
from mtkit.recipe.data import Data
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.tokenizer_files import TOKENIZER_FILES

Unit = Literal["token", "character", "probability"]
"""What a cross-entropy is divided by; or that a value is a probability, a classifier's."""

_MODEL_FILES = ("config.json", "model.safetensors", *TOKENIZER_FILES)
"""The files of a model folder that a line's probability depends on."""


class LineScorer(Protocol):
    """A language model that measures lines."""

    def __call__(self, lines: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns the natural log-probability of each line, and its number of tokens.

        Both count the line's end, `</s>`. A line is measured by itself, without those around it;
        the numbers depend on nothing but the lines of the call.

        Args:
            lines: Lines of text, none blank.
        """
        ...


class PairJudge(Protocol):
    """A classifier that measures pairs."""

    def __call__(self, sources: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
        """Returns the probability that each pair has another label than the one to keep, [pairs].

        Args:
            sources: Source sentences, none blank.
            targets: Their translations.
        """
        ...


class LanguageModels(Protocol):
    """Opens language models and classifiers; picklable, as worker processes open their own."""

    def check(self, folder: Path, language: str) -> None:
        """Checks that a folder holds a causal language model; warns if of another language.

        Args:
            folder: The model folder.
            language: Code of the language that it is to measure.

        Raises:
            MtkitError: It doesn't, or a file of it is missing or damaged.
        """
        ...

    def open(self, folder: Path) -> LineScorer:
        """Returns what measures lines with the model in a folder."""
        ...

    def check_classifier(self, folder: Path, label: str) -> None:
        """Checks that a folder holds a classifier of pairs that knows a label.

        Raises:
            MtkitError: It doesn't, or a file of it is missing or damaged.
        """
        ...

    def open_classifier(self, folder: Path, label: str) -> PairJudge:
        """Returns what measures pairs with the classifier in a folder."""
        ...

    def max_processes(self, folders: Sequence[Path]) -> int | None:
        """Returns how many processes may hold all these models at once; None for any number."""
        ...


def digest_language_model(folder: Path) -> dict[str, str]:
    """Returns a digest of each file of a model folder that a line's probability depends on."""
    return {name: digest_file(folder / name) for name in _MODEL_FILES if (folder / name).is_file()}


def digest_models(selection: Selection) -> dict[str, list[dict[str, str]]]:
    """Returns the digests of a recipe's models, by column; a classifier's is of `pair`."""
    if selection.classifier is not None:
        return {"pair": [digest_language_model(selection.classifier), {"label": selection.label}]}
    return {
        column: list(map(digest_language_model, pair)) for column, pair in selection.models.items()
    }


def check_models(data: Data, models: LanguageModels) -> None:
    """Checks that a recipe's models can be used, before anything else takes hours.

    Raises:
        MtkitError: One is missing, damaged, or of another kind; both language models are the same.
    """
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
        if digest_language_model(in_domain) == digest_language_model(general):
            suffix = "" if column == "text" else f"_{column}"
            raise MtkitError(
                f"data.cleaning.selection: in_domain{suffix} and general{suffix} are the same "
                "model, so that every difference is 0",
                "train the second on general text",
            )


def choose_unit(by_column: Mapping[str, tuple[Path, Path]]) -> Unit:
    """Returns what cross-entropies are divided by, for all columns alike.

    Without any, values are a classifier's probabilities. By tokens, as in
    the papers, where the two models of each column have the same vocabulary. Where they don't, a
    model with longer pieces would be at a loss: by characters.
    """
    if not by_column:
        return "probability"
    for folders in by_column.values():
        ours, theirs = (SubwordTokenizer.load(folder).target_vocabulary for folder in folders)
        if ours != theirs:
            return "character"
    return "token"
