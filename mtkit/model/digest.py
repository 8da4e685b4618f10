"""Digests of the models in folders, and checks that they don't change while they are read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.files import digest, digest_file
from mtkit.model.alignment_head import ALIGNMENT_FILE, WORD_ALIGNER_FILE
from mtkit.model.config import (
    ADAPTER_FILE,
    ADAPTER_WEIGHTS_FILE,
    CONFIG_FILE,
    INFERENCE_FILE,
    WEIGHTS_FILE,
)
from mtkit.text.tokenizer_files import TOKENIZER_FILES


def digest_model(folder: Path) -> str:
    """Returns a digest of the files in a model folder that determine its outputs.

    Some may be missing. Decoding defaults and the card, which changes with scores, don't count.
    """
    if not folder.is_dir():
        raise MtkitError(
            f"no model in {folder}", "train one first: mtkit train, then mtkit average"
        )
    files = [path for path in list_model_files(folder) if path.is_file()]
    return digest({str(path.relative_to(folder)): digest_file(path) for path in files})


@contextmanager
def reading(*folders: Path) -> Iterator[None]:
    """Checks that everything the block reads from a model folder belongs to one model.

    Raises an `MtkitError` if a folder is replaced, or a file in it changes, meanwhile.
    """
    before = _stat_files(folders)
    try:
        yield
    except MtkitError as error:
        # The error may come from a mix of two models.
        if _stat_files(folders) != before:
            raise replaced(folders) from error
        raise
    if _stat_files(folders) != before:
        raise replaced(folders)


def replaced(folders: Sequence[Path]) -> MtkitError:
    """Returns the error of a command whose model was replaced while it ran."""
    names = " or ".join(map(str, folders))
    return MtkitError(
        f"the model in {names} was replaced by another command while this one was using it",
        "run the same command again",
    )


def list_model_files(folder: Path) -> list[Path]:
    """Returns the files of a model folder that determine its outputs; some may be missing."""
    own = (CONFIG_FILE, ALIGNMENT_FILE, WORD_ALIGNER_FILE, *TOKENIZER_FILES)
    # An adapter's config has the digest of its base model.
    names = (*own, WEIGHTS_FILE, ADAPTER_FILE, ADAPTER_WEIGHTS_FILE)
    return [folder / name for name in names]


def _stat_files(folders: Sequence[Path]) -> list[tuple[str, int, int, int]]:
    """Returns name, inode, size and time of each file: equal if nothing was replaced."""
    seen = []
    for folder in folders:
        for path in sorted([folder / INFERENCE_FILE, *list_model_files(folder)]):
            try:
                status = path.stat()
            except OSError:
                continue
            seen.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
    return seen
