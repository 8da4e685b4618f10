"""CTranslate2 as the engine, on a CPU or one GPU, for models from `mtkit export`; without torch."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.cpus import count_threads
from mtkit.errors import MtkitError
from mtkit.inference.engines.ctranslate2_search import CTranslate2Search
from mtkit.inference.engines.engine import (
    EncodedSource,
    list_aligned_inputs,
    make_shards,
    pad_attention,
)
from mtkit.inference.engines.features import check_features, list_uses
from mtkit.inference.translation import Hypothesis
from mtkit.model.alignment_head import AlignmentHead, default_head, read_alignment_head
from mtkit.model.config import read_config
from mtkit.model.exporters.ctranslate2_files import (
    ENGINE_FOLDER,
    EXPORT_AGAIN,
    MODEL_FILE,
    read_names,
)
from mtkit.model.exporters.ctranslate2_library import load_library, parse_device
from mtkit.model.exporters.ctranslate2_weights import check_engine_folder, check_network
from mtkit.paths import for_library
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import BOS, EOS, PAD

_BATCHES_OF_A_THREAD = 4
_MAX_SCORED_TOKENS = 2_048
"""Tokens scored together: all their logits are in memory."""

_MAX_ALIGNED_TOKENS = 1_024
"""Source and target tokens that a thread aligns together."""


class CTranslate2Engine:
    """Searches with an exported model; converts between token ids and CTranslate2's token names.

    Several threads may call it at once: CTranslate2 has its own queues.

    Args:
        folder: CTranslate2's own files: the folder `ctranslate2` in an exported model's.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU if there is one.
        alignment_head: The head whose attention the files return; None for the mean of the last
            layer's heads, which the coverage penalty uses.
        stops_early: A search ends once `beam_size` outputs have ended; otherwise only at the length
            limit, which finds what our own search finds, and is slow.

    Attributes:
        max_tokens: Maximum length of source and output with `</s>`; None for no limit.
        vocab_size: Number of target tokens.
        num_threads: Threads that each translate their own batch.
        batches_at_once: Enough that threads seldom wait for the last one to finish.
    """

    def __init__(
        self,
        folder: Path,
        device: str = "cpu",
        *,
        stops_early: bool = True,
        alignment_head: AlignmentHead | None = None,
    ) -> None:
        library = load_library()
        self._stops_early, self._alignment_head = stops_early, alignment_head
        self.max_tokens, self._source_names, self._target_names = read_names(folder)
        check_engine_folder(folder)
        self.vocab_size = len(self._target_names)
        self._target_ids = {name: token for token, name in enumerate(self._target_names)}
        self._never_emitted = [[self._target_names[PAD]], [self._target_names[BOS]]]
        kind, index = parse_device(device, library)
        try:
            # Threads with a batch each are faster than threads that share one: by a third in
            # float32, several times in int8 (docs/performance.md).
            self.num_threads = count_threads() if kind == "cpu" else 1
            self.batches_at_once = _BATCHES_OF_A_THREAD * self.num_threads
            with for_library(folder) as readable:
                self._translator = library.Translator(
                    str(readable),
                    device=kind,
                    device_index=index,
                    inter_threads=self.num_threads,
                    intra_threads=1,
                )
        except (RuntimeError, ValueError) as error:
            raise MtkitError(
                f"{folder}: CTranslate2 can't load it: {error}", EXPORT_AGAIN
            ) from error

    @property
    def device(self) -> str:
        """`cpu` or `cuda`."""
        return str(self._translator.device)

    @property
    def precision(self) -> str:
        """CTranslate2's name of the compute precision, such as `int8_float32`."""
        return str(self._translator.compute_type)

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first, or as many as were found."""
        check_features("ctranslate2", list_uses(settings))
        if any(source.required or source.forbidden for source in sources):
            raise MtkitError(
                "CTranslate2 can't search for outputs that contain given terms",
                'use engine = "torch" with the original model',
            )
        if settings.coverage_penalty and self._alignment_head is not None:
            raise MtkitError(
                "inference.coverage_penalty: this export keeps the attention of the head that "
                "alignments are read from alone",
                'use engine = "torch", or export again with inference.coverage_penalty set',
            )
        return CTranslate2Search(self, settings, stops_early=self._stops_early).run(sources)

    def start(self, sources: Sequence[EncodedSource], **options: Any) -> list[Any]:
        """Starts to search sources with prefixes of the same length; returns their futures."""
        found: list[Any] = self._translator.translate_batch(
            [_name(source.tokens, self._source_names) for source in sources],
            target_prefix=[_name(source.forced, self._target_names) for source in sources]
            if sources[0].forced
            else None,
            asynchronous=True,
            suppress_sequences=self._never_emitted,
            max_input_length=0,
            **options,
        )
        return found

    def read_outputs(self, result: Any) -> list[tuple[int, ...]]:
        """Returns the tokens of each output of a source's result."""
        return [tuple([self._target_ids[name] for name in names]) for names in result.hypotheses]

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the natural log-probability of each token of each given target."""
        results = self._translator.score_batch(
            [_name(tokens, self._source_names) for tokens in source_batch],
            [_name(tokens, self._target_names) for tokens in target_batch],
            max_input_length=0,
            max_batch_size=_MAX_SCORED_TOKENS,
            batch_type="tokens",
        )
        # CTranslate2 appends its own </s> to each target.
        return [
            list(result.log_probs[: len(target)])
            for result, target in zip(results, target_batch, strict=True)
        ]

    @property
    def first_aligned_row(self) -> int:
        """The step with the first token's attention, from 0."""
        return 0 if self._alignment_head is None else self._alignment_head.first_row

    def read_weights(
        self, source: Sequence[int], target: Sequence[int], attention: Sequence[Sequence[float]]
    ) -> NDArray[np.float32] | None:
        """Returns an output's alignment weights [tgt_len, src_len]; None if a step is missing."""
        # The last step is missing after a length limit cut the output.
        num_read = len(list_aligned_inputs(target, self.max_tokens)) - 1
        first = self.first_aligned_row
        if len(attention) < first + num_read:
            return None
        if not num_read:
            return np.zeros((len(target), len(source)), np.float32)
        return pad_attention(np.array(attention[first : first + num_read], np.float32), len(target))

    @property
    def aligns(self) -> bool:
        """Always true: every exported model has attention to a source."""
        return True

    def align(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        """Returns how much each token of each target attends to each source token."""
        prefixes = [list_aligned_inputs(target, self.max_tokens)[1:] for target in target_batch]
        found = [
            np.zeros((len(target), len(source)), np.float32)
            for source, target in zip(source_batch, target_batch, strict=True)
        ]
        # CTranslate2 skips a source without words, and an empty target has no row.
        indices = [
            index
            for index, (source, prefix) in enumerate(zip(source_batch, prefixes, strict=True))
            if prefix and any(token != EOS for token in source)
        ]
        if not indices:
            return found
        lengths = [len(source_batch[index]) + len(prefixes[index]) for index in indices]
        # A thread takes a whole shard and waits for its longest output.
        shards = [
            [indices[number] for number in shard]
            for shard in make_shards(lengths, _MAX_ALIGNED_TOKENS, self.num_threads)
        ]
        running = [
            self.start(
                [EncodedSource(source_batch[index], prefix=prefixes[index]) for index in shard],
                beam_size=1,
                max_decoding_length=max(len(prefixes[index]) for index in shard)
                + self.first_aligned_row,
                return_end_token=True,
                return_attention=True,
            )
            for shard in shards
        ]
        for index, result in zip(chain(*shards), chain(*running), strict=True):
            weights = self.read_weights(
                source_batch[index], target_batch[index], result.result().attention[0]
            )
            assert weights is not None, "as many steps as there are tokens"
            found[index] = weights
        return found


def open_ctranslate2_engine(folders: Sequence[Path], device: str) -> CTranslate2Engine:
    """Returns an engine for an exported model; raises an MtkitError for an ensemble."""
    if len(folders) > 1:
        raise MtkitError(
            f"CTranslate2 can't run an ensemble ({len(folders)} models given)",
            "use --engine torch",
        )
    folder = folders[0]
    if not (folder / ENGINE_FOLDER).is_dir():
        raise MtkitError(
            f"{folder}: not exported for CTranslate2 (no {ENGINE_FOLDER}/)",
            f"mtkit export --model {folder} --output {folder}-ctranslate2",
        )
    config = read_config(folder)
    max_tokens, *names = read_names(folder / ENGINE_FOLDER)
    path = folder / ENGINE_FOLDER / MODEL_FILE
    if tuple(map(len, names)) != config.vocab_sizes:
        raise MtkitError(f"{path}: its vocabulary differs from {folder}'s", EXPORT_AGAIN)
    head = read_alignment_head(folder, config.model)
    check_network(path, config.model, config.vocab_sizes, max_tokens, head)
    is_default = head == default_head(config.model)
    chosen = None if is_default else head
    return CTranslate2Engine(folder / ENGINE_FOLDER, device, alignment_head=chosen)


def _name(tokens: Sequence[int], names: Sequence[str]) -> list[str]:
    return [names[token] for token in tokens]
