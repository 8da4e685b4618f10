"""A masked language model's probability of a text's masked tokens."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mtkit.data.batches.collate import collate_masked, lay_out_side
from mtkit.data.batches.masking import FIXED_WORDS, TokenMasker
from mtkit.data.batches.ragged import Indices, Ragged, join_ranges
from mtkit.data.batches.segments import NUM_ADDED, read_whole
from mtkit.data.preparation.cut_blocks import BlockCutter, cut_between_sentences, join_blocks
from mtkit.evaluation.perplexity import MaskedPredictions
from mtkit.inference.engines.engine import make_batches
from mtkit.inference.engines.open_torch_engine import place_network
from mtkit.model.config import open_model_folder
from mtkit.model.digest import reading
from mtkit.model.folder import load_own_network
from mtkit.network import MaskedLanguageModel
from mtkit.recipe.inference import Inference
from mtkit.recipe.masking import Masking


class MaskedTokenPredictor:
    """Predicts masked tokens with a masked language model.

    The choice of masked tokens depends only on text, vocabulary and masking: it is the same for
    every model of that vocabulary, at any batch size.
    """

    def __init__(self, folder: Path, settings: Inference, device: str) -> None:
        with reading(folder):
            opened = open_model_folder(folder)
            network = load_own_network(opened.config, folder)
        assert isinstance(network, MaskedLanguageModel)
        self._settings = settings
        self._network, self._device = place_network(network, settings, device, opened.config.model)
        self._tokenizer = opened.tokenizer

    def predict(
        self, lines: Sequence[str], documents: Indices, masking: Masking, *, block_tokens: int
    ) -> MaskedPredictions:
        """Returns how well a text's masked tokens are predicted, by block.

        `documents` are the lines' ascending document numbers, [lines]. Documents are cut as in
        training, into blocks of one segment with at most `block_tokens`, including `<s>` and
        `</s>`. No line may be blank.
        """
        cutter = BlockCutter(cut_between_sentences, block_tokens - NUM_ADDED)
        sentences = Ragged.of(self._tokenizer.encode_source(lines))
        blocks = join_blocks([cutter.add(sentences, documents), cutter.close()]).tokens
        masker = TokenMasker.of(masking, self._tokenizer, words=FIXED_WORDS)
        begins = np.cumsum(blocks.lengths) - blocks.lengths
        log_probabilities = np.zeros(len(blocks))
        num_right, num_masked = np.zeros((2, len(blocks)), np.int64)
        lengths = (blocks.lengths + NUM_ADDED).tolist()
        for batch in make_batches(lengths, self._settings.batch_tokens):
            rows = np.array(batch)
            text = Ragged(
                blocks.tokens[join_ranges(begins[rows], blocks.lengths[rows])],
                blocks.lengths[rows],
            )
            found = self._predict(text, rows, masker)
            log_probabilities[rows], num_right[rows], num_masked[rows] = found
        return MaskedPredictions(
            log_probabilities, num_right, num_masked, masking.share, block_tokens
        )

    @torch.no_grad()
    def _predict(
        self, text: Ragged, rows: Indices, masker: TokenMasker
    ) -> tuple[NDArray[np.float64], Indices, Indices]:
        """Returns log-probability, correct tokens and masked tokens per block, [blocks] each."""
        segments = read_whole(text)
        masked = masker.mask(segments, rows, 0)
        layout = lay_out_side(segments.tokens.lengths, [len(rows)])
        batch = collate_masked(segments, masked, layout).to(self._device)
        states = self._network(batch.inputs, batch.segments, batch.layout)
        logits = self._network.predict(batch.layout.select_tokens(states)[batch.indices])
        of_tokens = torch.log_softmax(logits.float(), -1).gather(1, batch.outputs[:, None])
        is_right = (logits.argmax(-1) == batch.outputs).cpu().numpy()
        ends = np.cumsum(segments.tokens.lengths)
        blocks = np.searchsorted(ends, masked.indices, side="right")
        log_probabilities = np.zeros(len(rows))
        np.add.at(log_probabilities, blocks, of_tokens[:, 0].double().cpu().numpy())
        num_right, num_masked = np.zeros((2, len(rows)), np.int64)
        np.add.at(num_right, blocks, is_right)
        np.add.at(num_masked, blocks, 1)
        return log_probabilities, num_right, num_masked
