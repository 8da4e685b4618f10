"""Who translates: which files, run by which engine, on what device, in which precision."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.files import digest, digest_file
from mtkit.inference.engines.ctranslate2_engine import ENGINE_FOLDER, open_ctranslate2_engine
from mtkit.model.config import CONFIG_FILE, INFERENCE_FILE, WEIGHTS_FILE, read_config
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import TOKENIZER_FILES


@dataclass(frozen=True)
class Identity:
    """What a translation depends on beside its source and the search.

    Attributes:
        model: Digest of the files that translate, as `digest_model` has it.
        engine: What runs the network.
        device: Kind of what it runs on: `cpu` or `cuda`.
        precision: What it computes in, such as `bf16`; by CTranslate2's names where that runs it.
    """

    model: str
    engine: str
    device: str
    precision: str

    def describe(self) -> str:
        """Returns all but the digest, as a phrase."""
        return f"`{self.engine}` on `{self.device}` in `{self.precision}`"


def identify(folder: Path, settings: Inference, device: str) -> Identity:
    """Returns who would translate with a model folder; nothing in it is `auto`.

    Args:
        folder: The model folder.
        settings: Whose engine and precision apply.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.

    Raises:
        MtkitError: There is no model or no such device, or the files are damaged.
    """
    model = digest_model(folder, settings.engine)
    match settings.engine:
        case "torch":
            # Imported here: CTranslate2 translates without torch.
            from mtkit.inference.engines.torch_engine import choose_precision  # noqa: PLC0415
            from mtkit.network.device import find_device  # noqa: PLC0415

            place = find_device(device)
            precision = choose_precision(settings, place, read_config(folder).model)
            return Identity(model, "torch", place.type, precision)
        case "ctranslate2":
            # What it computes in is known only once it is loaded, which is soon done.
            engine = open_ctranslate2_engine([folder], device)
            return Identity(model, "ctranslate2", engine.device, engine.precision)


def digest_model(folder: Path, engine: str = "torch") -> str:
    """Returns a digest of the files that an engine translates with.

    Decoding defaults and the card are none of them: scores go into the card.

    Args:
        folder: A model folder, of which some of the files may be missing.
        engine: The engine.

    Raises:
        MtkitError: There is no such folder.
    """
    if not folder.is_dir():
        raise MtkitError(
            f"no model in {folder}", "train one first: mtkit train, then mtkit average"
        )
    files = [path for path in _list_files(folder, engine) if path.is_file()]
    return digest({str(path.relative_to(folder)): digest_file(path) for path in files})


@contextmanager
def reading(*folders: Path) -> Iterator[None]:
    """Sees to it that what the block reads of model folders is of one model each.

    Raises:
        MtkitError: A folder was replaced, or a file in it changed, while the block ran.
    """
    before = _look_at(folders)
    try:
        yield
    except MtkitError as error:
        # What it complains of may come from two models.
        if _look_at(folders) != before:
            raise replaced(folders) from error
        raise
    if _look_at(folders) != before:
        raise replaced(folders)


def replaced(folders: Sequence[Path]) -> MtkitError:
    """Returns the error of a command under whose hands a model was replaced."""
    names = " or ".join(map(str, folders))
    return MtkitError(
        f"the model in {names} was replaced by another command while this one was using it",
        "give the same command again",
    )


def _list_files(folder: Path, engine: str) -> list[Path]:
    shared = [folder / name for name in (CONFIG_FILE, *TOKENIZER_FILES)]
    if engine == "torch":
        return [*shared, folder / WEIGHTS_FILE]
    return [*shared, *sorted((folder / ENGINE_FOLDER).glob("*"))]


def _look_at(folders: Sequence[Path]) -> list[tuple[str, int, int, int]]:
    """Returns what tells whether files are still the same without reading them."""
    seen = []
    for folder in folders:
        files = {folder / INFERENCE_FILE}.union(
            *(_list_files(folder, engine) for engine in ("torch", "ctranslate2"))
        )
        for path in sorted(files):
            try:
                status = path.stat()
            except OSError:
                continue
            seen.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
    return seen
