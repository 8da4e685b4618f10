"""CTranslate2 as the engine, on a CPU or one GPU; torch is never loaded."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.inference.engines.ctranslate2_model import CTranslate2Model
from mtkit.inference.engines.ctranslate2_search import CTranslate2Search
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.hypothesis import Hypothesis
from mtkit.model.config import read_config
from mtkit.model.exporters.ctranslate2_files import (
    ENGINE_FOLDER,
    EXPORT_AGAIN,
    MODEL_FILE,
    read_names,
)
from mtkit.model.exporters.ctranslate2_weights import check_network
from mtkit.recipe.inference import Inference

_BATCHES_OF_A_THREAD = 4


class CTranslate2Engine(CTranslate2Model):
    """Searches with what `mtkit export` made.

    Several threads may call it at once: CTranslate2 has queues of its own.

    Args:
        folder: As `CTranslate2Model` takes it; and raises what that raises.
        device: Likewise.
        stops_early: A search ends once `beam_size` outputs have ended; otherwise at the length
            limit alone, which finds what our own search finds, and is slow.
    """

    def __init__(self, folder: Path, device: str = "cpu", *, stops_early: bool = True) -> None:
        super().__init__(folder, device)
        self._stops_early = stops_early

    @property
    def batches_at_once(self) -> int:
        """Enough that threads seldom wait for the last of them to finish."""
        return _BATCHES_OF_A_THREAD * self.num_threads

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first, or as many as were found.

        What is found for a source doesn't depend on its neighbours, but for rounding.

        Args:
            sources: What is translated together.
            settings: How to search.

        Raises:
            MtkitError: A setting that this engine can't do, or a source longer than `max_tokens`.
        """
        check_settings(settings)
        return CTranslate2Search(self, settings, stops_early=self._stops_early).run(sources)


def open_ctranslate2_engine(folders: Sequence[Path], device: str) -> CTranslate2Engine:
    """Returns an engine with an exported model.

    Args:
        folders: The folder that `mtkit export` made, alone.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.

    Raises:
        MtkitError: There are several folders, one holds no export, or what the engine raises.
    """
    if len(folders) > 1:
        raise MtkitError(
            f"CTranslate2 runs one model, but {len(folders)} shall speak together",
            "take --engine torch",
        )
    folder = folders[0]
    if not (folder / ENGINE_FOLDER).is_dir():
        raise MtkitError(
            f"{folder}: nothing was exported for CTranslate2 here (no {ENGINE_FOLDER}/)",
            f"mtkit export --model {folder} --output {folder}-ctranslate2",
        )
    config = read_config(folder)
    max_tokens, *names = read_names(folder / ENGINE_FOLDER)
    path = folder / ENGINE_FOLDER / MODEL_FILE
    if tuple(map(len, names)) != config.vocab_sizes:
        raise MtkitError(f"{path}: a model of another vocabulary than {folder}'s", EXPORT_AGAIN)
    check_network(path, config.model, config.vocab_sizes, max_tokens)
    return CTranslate2Engine(folder / ENGINE_FOLDER, device)


def check_settings(settings: Inference) -> None:
    """Checks that this engine can search so.

    Raises:
        MtkitError: It can't.
    """
    if settings.sampling is not None:
        raise MtkitError(
            "inference.sampling: CTranslate2 has one seed for a whole process, so what is drawn "
            "for a line would depend on the lines before it",
            'take engine = "torch" on the model that was exported',
        )
