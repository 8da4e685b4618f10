"""The front door of `mtkit translate`: a model opened for translation."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mtkit.data.prepared import read_digest
from mtkit.data.tokenizer import SubwordTokenizer
from mtkit.errors import MtkitError
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.model_folder import (
    WEIGHTS_FILE,
    load_model_folder,
    load_weights,
    read_weights,
)
from mtkit.inference.translate import Translator, find_device
from mtkit.model import EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.recipe.loading import override_section
from mtkit.training.checkpoint import STATE_FILE, read_checkpoint
from mtkit.workspace import Workspace


def load_run(
    recipe: Recipe, workspace: Workspace, *, checkpoint: Path | None = None, device: str = "auto"
) -> Translator:
    """Returns a translator with a run's model, or with the weights of one of its checkpoints.

    Args:
        recipe: Whose decoding settings apply.
        workspace: The run.
        checkpoint: A checkpoint's folder, or a file of weights.
        device: `cpu`, `cuda`, or `auto`, which takes a GPU where there is one.

    Raises:
        MtkitError: There is no model, its files are damaged, or the checkpoint is of a run on other
            data, with another tokenizer therefore.
    """
    if checkpoint is not None:
        _check_its_data(checkpoint, workspace)
    if checkpoint is not None and not workspace.model.exists():
        # While the first training goes on, or after it crashed.
        place = find_device(device)
        tokenizer = SubwordTokenizer.load(workspace.tokenizer)
        model = EncoderDecoder(
            recipe.model, tokenizer.source_vocab_size, tokenizer.target_vocab_size
        )
        load_weights(model, read_weights(checkpoint), origin=str(checkpoint))
        return Translator(TorchEngine(model.to(place).eval(), place), tokenizer, recipe.inference)
    if checkpoint is not None and checkpoint.is_dir():
        checkpoint = checkpoint / WEIGHTS_FILE
    return Translator.load(
        workspace.model, device=device, weights_file=checkpoint, settings=recipe.inference
    )


def _check_its_data(checkpoint: Path, workspace: Workspace) -> None:
    """Returns unless a checkpoint says that it was trained on other data than the workspace's."""
    folder = checkpoint if checkpoint.is_dir() else checkpoint.parent
    if not (folder / STATE_FILE).is_file():
        return
    wanted, found = read_digest(workspace), read_checkpoint(folder).data_digest
    if wanted and found != wanted:
        raise MtkitError(
            f"{folder} was trained on other data than {workspace.data} holds, so perhaps with "
            "another tokenizer",
            "name the run that it belongs to with --workspace",
        )


def load_model(folder: Path, overrides: Sequence[str] = (), *, device: str = "auto") -> Translator:
    """Returns a translator with a portable model folder.

    Args:
        folder: The model folder.
        overrides: Changes to its decoding defaults, as in `inference.beam_size=8`.
        device: `cpu`, `cuda`, or `auto`, which takes a GPU where there is one.

    Raises:
        MtkitError: No model there, or an override of what is no decoding default.
    """
    place = find_device(device)
    loaded = load_model_folder(folder, device=place)
    settings = override_section(loaded.settings, "inference", overrides)
    return Translator(TorchEngine(loaded.model, place), loaded.tokenizer, settings)


def translate(
    recipe: Recipe, workspace: Workspace, lines: Iterable[str], *, device: str = "auto"
) -> Iterator[str]:
    """Yields the translation of each line by a run's model, in order."""
    return load_run(recipe, workspace, device=device).translate(lines)
