"""The parts of reading a public translator that are alike for all kinds: what is told of faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import ValidationError

from mtkit.errors import MtkitError
from mtkit.foreign_files import describe_fault
from mtkit.model.importers.source_folder import SourceFolder
from mtkit.model.translator_config import TranslatorConfig
from mtkit.recipe.model import Model

Keys = TypeVar("Keys", bound=TranslatorConfig)


def read_network(
    kind: type[Keys], folder: SourceFolder, content: dict[str, Any]
) -> tuple[Keys, Model]:
    """Returns a config.json's keys, and the network that they describe.

    Args:
        kind: The keys that are read.
        folder: The folder.
        content: The config.json.

    Raises:
        MtkitError: mtkit has no such network.
    """
    origin = f"{folder.origin}/config.json"
    try:
        theirs = kind.model_validate(content)
        return theirs, theirs.to_model()
    except ValidationError as error:
        raise MtkitError(f"{origin}: no network that mtkit has: {describe_fault(error)}") from error
    except ValueError as error:
        raise MtkitError(f"{origin}: no network that mtkit has: {error}") from error


@contextmanager
def building_tokenizer(folder: SourceFolder) -> Iterator[None]:
    """Has what SentencePiece raises told as a damaged tokenizer.

    Raises:
        MtkitError: The files make no tokenizer.
    """
    try:
        yield
    except (RuntimeError, TypeError, UnicodeDecodeError) as error:
        raise MtkitError(f"{folder.origin}: damaged tokenizer: {error}") from error
