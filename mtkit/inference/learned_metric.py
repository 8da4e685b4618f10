"""Learned metrics: scores of translations by an imported COMET, in batches by length."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.errors import MtkitError, shorten
from mtkit.evaluation.learned import LearnedMetric, Row
from mtkit.inference.engines.engine import make_batches
from mtkit.model.comet import LoadedComet, load_comet, read_comet_config
from mtkit.network.comet import Segment
from mtkit.network.device import find_device, limit_threads
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.precision import Precision
from mtkit.version import __version__

_BATCH_TOKENS = {"cpu": 512, "cuda": 8_192}
"""Encoder tokens per batch, with padding: a CPU is twice as fast if they fit its caches."""
_BATCH_ROWS = 4_096
"""Rows per batch of the estimator."""


class Comet:
    """An opened metric; threads may share it.

    Attributes:
        name: `COMET`, or `CometKiwi` or `COMET-QE` if it needs no reference.
        model: The published model's name.
        signature: Everything that a score depends on besides the texts.
        needs_reference: Whether it reads one.
    """

    def __init__(self, loaded: LoadedComet, precision: Precision, device: torch.device) -> None:
        config = loaded.config
        self.model, self.needs_reference = config.name, "ref" in config.segments
        without = "CometKiwi" if config.metric == "unified" else "COMET-QE"
        self.name = "COMET" if self.needs_reference else without
        self.signature = (
            f"model:{config.name}|digest:{loaded.digest}|precision:{precision}|mean|x100|"
            f"version:mtkit-{__version__}"
        )
        self._tokenizer, self._device = loaded.tokenizer, device
        self._network = loaded.network.to(device)
        if precision == "bf16":
            # All after the encoder stays in fp32.
            self._network.encoder.to(torch.bfloat16)

    def score(
        self, rows: Sequence[Row], *, on_batch: Callable[[], object] | None = None
    ) -> NDArray[np.float64]:
        """Returns the score of each row, mostly between 0 and 1; each text is encoded once.

        Scores of a row in other batches differ by rounding: 1e-6 in fp32. `on_batch` is called
        before each batch.

        Raises:
            MtkitError: A score is NaN or infinite.
        """
        if not rows:
            return np.zeros(0)
        segments: list[Mapping[Segment, str]] = [
            {"src": source.strip(), "mt": translation.strip(), "ref": reference.strip()}
            for source, translation, reference in rows
        ]
        sequences = self._tokenizer.encode(segments)
        distinct = list(dict.fromkeys(chain.from_iterable(sequences)))
        number = {sequence: index for index, sequence in enumerate(distinct)}
        numbers = torch.tensor([[number[each] for each in of_row] for of_row in sequences])
        with torch.inference_mode():
            vectors = self._embed(distinct, on_batch)
            scores = [
                self._network.estimate(vectors[part.T.to(self._device)])
                for part in torch.split(numbers, _BATCH_ROWS)
            ]
        found = torch.cat(scores).to("cpu", torch.float64).numpy()
        if not np.isfinite(found).all():
            first = int(np.flatnonzero(~np.isfinite(found))[0])
            raise MtkitError(
                f"{self.name} {self.model}: the score of row {first + 1:,} is NaN or infinite, of "
                f"the translation {shorten(rows[first][1], 80)!r}",
                "the metric's weights are damaged, or overflow: import it again, or set "
                'evaluation.precision to "fp32"',
            )
        return found

    def _embed(
        self, sequences: Sequence[Sequence[int]], on_batch: Callable[[], object] | None
    ) -> Tensor:
        """Returns the vector of each sequence, [sequences, width], in fp32."""
        width = self._network.config.encoder.hidden_size
        vectors = torch.empty(len(sequences), width, device=self._device)
        for batch in make_batches(list(map(len, sequences)), _BATCH_TOKENS[self._device.type]):
            if on_batch is not None:
                on_batch()
            tokens = [torch.tensor(sequences[index]) for index in batch]
            lengths = torch.tensor(list(map(len, tokens)), device=self._device)
            pad = self._network.config.encoder.pad_token_id
            ids = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=pad)
            ids = ids.to(self._device)
            mask = torch.arange(ids.shape[1], device=self._device) < lengths[:, None]
            vectors[batch] = self._network.embed(ids, mask)
        return vectors


@lru_cache(maxsize=4)
def open_metric(folder: str, precision: Precision = "fp32", device: str = "auto") -> Comet:
    """Returns the metric in a folder; cached by its arguments."""
    limit_threads()
    return Comet(load_comet(Path(folder)), precision, find_device(device))


def check_metric(folder: str, *, has_sources: bool = True) -> None:
    """Checks that a folder has a metric, and that it gets sources if it needs them."""
    config = read_comet_config(Path(folder))
    if "src" in config.segments and not has_sources:
        raise MtkitError(
            f"evaluation.metrics: {config.name} needs the source text", "give it with --source FILE"
        )


def open_metrics(
    settings: Evaluation, device: str = "auto", *, has_sources: bool = True
) -> list[LearnedMetric]:
    """Checks all learned metrics of the settings, then returns them opened."""
    for folder in settings.learned_metrics:
        check_metric(folder, has_sources=has_sources)
    return [open_metric(folder, settings.precision, device) for folder in settings.learned_metrics]
