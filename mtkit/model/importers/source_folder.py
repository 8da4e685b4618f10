"""The source of a public model: a local folder, or a repository of the Hugging Face hub."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from mtkit.console import say
from mtkit.errors import MtkitError, shorten, suggest
from mtkit.files import check_file, describe_fault, read_json
from mtkit.model.translator_config import TranslatorConfig
from mtkit.recipe.model import Model
from mtkit.text.arrange_pieces import read_proto
from mtkit.text.sentencepiece_segmenter import read_model

_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "vocab.json",
    "target_vocab.json",
    "*.spm",
    "sentencepiece.bpe.model",
    "README.md",
    "hparams.yaml",
)
_WEIGHTS = ("model*.safetensors", "model.safetensors.index.json")
_PICKLES = ("pytorch_model*.bin", "pytorch_model.bin.index.json", "checkpoints/model.ckpt")
Keys = TypeVar("Keys", bound=TranslatorConfig)


@dataclass(frozen=True)
class SourceFolder:
    """A folder of a public model, whose files are looked up by name.

    Attributes:
        root: Folder that its files must be in after resolving links; the hub's cache keeps them
            next to the folder.
        origin: Its name, for messages and the card.
    """

    path: Path
    root: Path
    origin: str

    @property
    def is_from_hub(self) -> bool:
        """Whether it comes from the hub."""
        return self.path != self.root

    @property
    def name(self) -> str:
        """Its name without its owner or parent folders."""
        return self.origin.rpartition("/")[2] if self.is_from_hub else self.path.resolve().name

    def find(self, name: str) -> Path | None:
        """Returns the path of a regular file; None if it is missing. Links to outside fail."""
        path = self.path / name
        try:
            check_file(path, inside=self.root)
        except FileNotFoundError as error:
            if path.is_symlink():
                raise MtkitError(
                    f"{path}: a link to {path.readlink()}, which is missing",
                    "copy the folder again with the files it links to: cp -rL FOLDER NEW",
                ) from error
            return None
        return path.resolve()

    def need(self, name: str, hint: str = "") -> Path:
        """Returns the path of a required file."""
        path = self.find(name)
        if path is None:
            others = [each.name for each in self.path.iterdir()] if self.path.is_dir() else []
            raise MtkitError(
                f"{self.origin}: no {name}{suggest(name, others)}",
                hint or "copy the complete folder again from where it came from",
            )
        return path

    def read_json(self, name: str, *, max_bytes: int) -> dict[str, object]:
        """Returns the JSON object in a file; an empty one if the file is missing."""
        path = self.find(name)
        return {} if path is None else read_json(path, max_bytes=max_bytes)


def open_source(source: str, *, has_weights: bool = True) -> SourceFolder:
    """Returns the folder of a public model, local or `owner/name` on the hub (then downloaded).

    Without `has_weights` only its other files are downloaded.
    """
    folder = Path(source)
    if folder.is_dir():
        return _open_cached(folder.resolve()) or SourceFolder(folder, folder, str(folder))
    if folder.exists():
        raise MtkitError(f"{source}: not a folder", "name the folder of a public model")
    if not _HUB_NAME.fullmatch(source):
        raise MtkitError(
            f"{source}: no such folder, and not a model's name on the Hugging Face hub",
            "a name on the hub is OWNER/NAME, such as Helsinki-NLP/opus-mt-en-de",
        )
    path = _fetch(source, has_weights=has_weights)
    return _open_cached(path.resolve()) or SourceFolder(path, path, source)


def _open_cached(path: Path) -> SourceFolder | None:
    """Returns the folder if it is a snapshot in the hub's cache, or in a copy of the cache."""
    # .../models--owner--name/snapshots/REVISION: its files link to .../models--owner--name/blobs.
    repository = path.parent.parent
    kind, *name = repository.name.split("--")
    if kind != "models" or not name or path.parent.name != "snapshots":
        return None
    return SourceFolder(path, repository, "/".join(name))


def _fetch(name: str, *, has_weights: bool) -> Path:
    """Returns a hub model's folder in the cache, and downloads missing files."""
    # Slow to load, and most commands never need it.
    from huggingface_hub import snapshot_download  # noqa: PLC0415

    # The base of all network errors, whichever library the hub's client uses.
    from huggingface_hub.errors import (  # type: ignore[attr-defined]  # noqa: PLC0415
        GatedRepoError,
        # The base of all network errors, whichever library the hub's client uses.
        HTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    say(f"{name}: from the Hugging Face hub")
    try:
        weights = _WEIGHTS if has_weights else ()
        folder = Path(snapshot_download(name, allow_patterns=[*FILES, *weights]))
        # The same weights may also be there as a pickle, which is downloaded only if nothing else
        # exists.
        if has_weights and not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=[*FILES, *_PICKLES]))
    except GatedRepoError as error:
        raise MtkitError(
            f"{name}: its owner requires an agreement first",
            f"accept it at the model's page ({_page(name)}), then `hf auth login`",
        ) from error
    except RepositoryNotFoundError as error:
        raise MtkitError(
            f"{name}: no such folder here, and no such model on the Hugging Face hub",
            "check the name; a private model needs `hf auth login`",
        ) from error
    except LocalEntryNotFoundError as error:
        raise MtkitError(
            f"{name}: no such folder here, and the Hugging Face hub can't be reached",
            f"download it on a machine with network access: hf download {name} --local-dir FOLDER; "
            "then `mtkit import FOLDER`",
        ) from error
    except HTTPError as error:
        raise MtkitError(
            f"{name}: downloading from the Hugging Face hub failed: {shorten(str(error), 200)}",
            "try again: files that are complete aren't fetched again",
        ) from error
    return folder


def _page(name: str) -> str:
    return f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co')}/{name}"


def read_network(
    kind: type[Keys], folder: SourceFolder, content: dict[str, object]
) -> tuple[Keys, Model]:
    """Returns the keys in a config.json, of the given kind, and the network that they describe."""
    origin = f"{folder.origin}/config.json"
    try:
        theirs = kind.model_validate(content)
        return theirs, theirs.to_model()
    except ValidationError as error:
        raise MtkitError(
            f"{origin}: mtkit doesn't support this network: {describe_fault(error)}"
        ) from error
    except ValueError as error:
        raise MtkitError(f"{origin}: mtkit doesn't support this network: {error}") from error


def read_sentencepiece(path: Path) -> bytes:
    """Returns a serialised SentencePiece model; a damaged one is named."""
    model = read_model(path)
    try:
        read_proto(model)
    except MtkitError as error:
        raise MtkitError(f"{path}: {error.message}", error.hint) from error
    return model


@contextmanager
def building_tokenizer(folder: SourceFolder) -> Iterator[None]:
    """Reports SentencePiece's exceptions as a damaged tokenizer."""
    try:
        yield
    except (RuntimeError, TypeError, UnicodeError) as error:
        raise MtkitError(f"{folder.origin}: damaged tokenizer: {error}") from error
