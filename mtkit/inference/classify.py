"""Labels texts, or pairs of texts, with a classifier's model folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mtkit.data.batches.examples import collate_together, find_closing
from mtkit.data.batches.joined_texts import encode_texts
from mtkit.data.batches.ragged import Ragged
from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import make_batches
from mtkit.inference.engines.open_torch_engine import place_network
from mtkit.model.config import ClassifierConfig, ModelConfig, open_model_folder
from mtkit.model.digest import reading
from mtkit.model.folder import load_own_network
from mtkit.network import CausalClassifier, MaskedClassifier
from mtkit.recipe.inference import Inference


@dataclass(frozen=True)
class LabelledLine:
    """A text's most probable label, and the probability of each label in the model's order."""

    label: str
    probabilities: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """Returns the object of a JSON line."""
        return {"label": self.label, "probabilities": self.probabilities}


class LineClassifier:
    """Labels texts, or pairs of texts.

        LineClassifier("runs/x/model").classify(["A text."])[0].label

    Args:
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU if there is one.
        settings: Only `batch_tokens` and `precision` matter; the folder's defaults if None.
    """

    def __init__(
        self, folder: str | Path, *, device: str = "auto", settings: Inference | None = None
    ) -> None:
        folder = Path(folder)
        with reading(folder):
            opened = open_model_folder(folder)
            self._classifier = require_classifier(folder, opened.config)
            network = load_own_network(opened.config, folder)
        assert isinstance(network, MaskedClassifier | CausalClassifier)
        self._settings = settings or opened.settings
        self._network, self._device = place_network(
            network, self._settings, device, opened.config.model
        )
        self._tokenizer = opened.tokenizer
        self._closing = find_closing(opened.tokenizer, self._classifier.kind)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels, in the model's order."""
        return self._classifier.labels

    @property
    def has_pairs(self) -> bool:
        """Whether the model labels pairs."""
        return self._classifier.has_pairs

    def classify(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> list[LabelledLine]:
        """Returns the label of each text, or of each pair.

        Texts that are too long are cut, as in training. `seconds` are for models of pairs only.

        Raises:
            ValueError: Pairs for a model of single texts, or the reverse; lengths differ.
            TypeError: One str, not a list.
        """
        if isinstance(texts, str):
            raise TypeError("got a str, expected a list of texts")
        if (seconds is not None) != self.has_pairs:
            raise ValueError("this model labels " + ("pairs" if self.has_pairs else "single texts"))
        if seconds is not None and len(seconds) != len(texts):
            raise ValueError(f"{len(texts):,} texts, but {len(seconds):,} second texts")
        if not texts:
            return []
        rows = encode_texts(
            self._tokenizer, texts, seconds, max_tokens=self._classifier.max_tokens
        ).to_lists()
        found = np.zeros((len(rows), len(self.labels)))
        for batch in make_batches([len(row) + 1 for row in rows], self._settings.batch_tokens):
            found[batch] = self._find_probabilities([rows[index] for index in batch])
        return [
            LabelledLine(
                self.labels[int(row.argmax())], dict(zip(self.labels, row.tolist(), strict=True))
            )
            for row in found
        ]

    @torch.no_grad()
    def _find_probabilities(self, rows: list[list[int]]) -> NDArray[np.float64]:
        """Returns the probability of each label, [rows, labels]."""
        labels = np.zeros(len(rows), np.int64)
        batch = collate_together(Ragged.of(rows), labels, self._closing).to(self._device)
        _, logits = self._network.label(batch.inputs, batch.segments, batch.layout, batch.last)
        probabilities: NDArray[np.float64] = torch.softmax(logits.double(), -1).cpu().numpy()
        return probabilities


def require_classifier(folder: Path, config: ModelConfig) -> ClassifierConfig:
    """Returns a classifier's labels and limits; raises an MtkitError for another model."""
    if config.classifier is None:
        raise MtkitError(
            f'{folder}: objective = "{config.objective}", expected a classifier',
            'train one with objective = "classification"',
        )
    return config.classifier
