"""The C++ engine: the search of translators and causal language models on a CPU."""

import operator
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.cpus import count_threads
from mtkit.devices import is_cpu
from mtkit.engine.library import find_instructions
from mtkit.engine.network import EngineNetwork, can_run
from mtkit.engine.search import Member, Output, Request, score, search, watch
from mtkit.inference.engines.engine import (
    EncodedSource,
    check_search,
    find_limit,
    list_aligned_inputs,
    pad_attention,
    with_scores,
)
from mtkit.inference.engines.fusion import check_language_model
from mtkit.inference.search.bounds import NO_BOUNDS, OutputBounds
from mtkit.inference.search.penalties import leave_out_beginning
from mtkit.inference.translation import Hypothesis
from mtkit.model.alignment_head import AlignmentHead, read_alignment_head
from mtkit.model.config import WEIGHTS_FILE, ModelConfig, is_adapter, read_config
from mtkit.model.digest import reading
from mtkit.model.weight_files import check_weights, opening_arrays
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.recipe.objective import ENCODER_DECODERS
from mtkit.recipe.precision import InferencePrecision
from mtkit.text.token_ids import BOS, EOS

_BATCHES_OF_A_THREAD = 4
_MAX_OF_HEADS = -2
_MEAN_OF_HEADS = -1


class NativeEngine:
    """Searches with networks in the C++ library; threads share the sentences of a call.

    Args:
        networks: An ensemble, or one network.
        models: Their shapes.
        heads: The head of each network that alignments are read from.
        language_model: The network of `inference.fusion`, with the same target vocabulary.
        num_threads: By default one per CPU.
        bounds: Further bounds on outputs of a model that is still being trained.

    Attributes:
        batches_at_once: Enough that threads seldom wait for the last one.
        max_tokens: The smallest number of learned positions; None for no limit.
    """

    def __init__(
        self,
        networks: Sequence[EngineNetwork],
        models: Sequence[Model],
        heads: Sequence[AlignmentHead],
        language_model: EngineNetwork | None = None,
        *,
        num_threads: int | None = None,
        bounds: OutputBounds = NO_BOUNDS,
    ) -> None:
        self._networks, self._heads, self._language_model = networks, heads, language_model
        self._bounds = bounds
        self.num_threads = num_threads or count_threads()
        self.batches_at_once = _BATCHES_OF_A_THREAD * self.num_threads
        limits = [model.max_tokens for model in models]
        self.max_tokens = min((limit for limit in limits if limit is not None), default=None)

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first."""
        check_search(sources, settings, has_attention=self.aligns)
        aligns = settings.alignments and self.aligns
        members = self._list_members(watches=aligns and len(self._networks) == 1)
        fusion = None if self._language_model is None else settings.fusion
        if self._language_model is not None and fusion is not None and fusion.weight > 0.0:
            members.append(Member(self._language_model, fusion_weight=fusion.weight))
        requests = [self._request(source, settings) for source in sources]
        found = search(
            members, requests, settings, self.num_threads, max_repeated=self._bounds.max_repeated
        )
        hypotheses = [[_take_output(output) for output in each] for each in found]
        if fusion is not None:
            hypotheses = self._separate(requests, hypotheses)
        if aligns:
            hypotheses = self._add_weights(sources, hypotheses)
        return [
            [leave_out_beginning(each, len(source.begin)) for each in of_source]
            for source, of_source in zip(sources, hypotheses, strict=True)
        ]

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the log-probability of each token of each target, as `search` would return it."""
        requests = [self._read(source) for source in source_batch]
        return score(self._list_members(), requests, target_batch, self.num_threads)

    def attend(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]] | None:
        """Returns how much each target's tokens attend to each source token."""
        if not self.aligns:
            return None
        requests = [self._read(source)] * len(targets)
        found = [
            watch(
                Member(network, watched=(network.num_layers - 1, _MAX_OF_HEADS)),
                requests,
                targets,
                self.num_threads,
            )
            for network in self._networks
        ]
        return [np.mean(of_target, axis=0) for of_target in zip(*found, strict=True)]

    @property
    def aligns(self) -> bool:
        """Whether all models have attention to a source."""
        return all(network.has_source for network in self._networks)

    def align(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        """Returns how much each target's tokens attend to each source token; an ensemble's mean."""
        assert self.aligns, "callers check that"
        inputs = [list_aligned_inputs(target, self.max_tokens) for target in target_batch]
        # The library reads `<s>` and all tokens but the last.
        targets = [[*begun[1:], EOS] for begun in inputs]
        requests = [self._read(source) for source in source_batch]
        found = []
        for member, head in zip(self._list_members(watches=True), self._heads, strict=True):
            weights = watch(member, requests, targets, self.num_threads)
            found.append(
                [each[head.first_row : len(each) - 1 + head.first_row] for each in weights]
            )
        return [
            pad_attention(np.mean(of_target, axis=0), len(target))
            for of_target, target in zip(zip(*found, strict=True), target_batch, strict=True)
        ]

    def _list_members(self, *, watches: bool = False) -> list[Member]:
        return [
            Member(network, watched=_find_watched(head) if watches else None)
            for network, head in zip(self._networks, self._heads, strict=True)
        ]

    def _read(self, tokens: Sequence[int], limit: int = 0, **options: Any) -> Request:
        """Returns a request for a source, or for a text to continue."""
        if self.aligns:
            return Request(tokens, (BOS,), limit, **options)
        return Request((), (BOS, *tokens), limit, **options)

    def _request(self, source: EncodedSource, settings: Inference) -> Request:
        return self._read(
            source.tokens,
            find_limit(source, settings, self.max_tokens, self._bounds),
            prefix=source.forced,
            num_certain=len(source.begin),
            required=source.required,
            forbidden=source.forbidden,
            draw=source.draw,
        )

    def _separate(
        self, requests: Sequence[Request], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Returns hypotheses with separate log-probabilities, which fusion has summed."""
        assert self._language_model is not None
        outputs = [each.token_ids for of_source in found for each in of_source]
        of_outputs = [request for request, each in zip(requests, found, strict=True) for _ in each]
        own = score(self._list_members(), of_outputs, outputs, self.num_threads)
        texts = [Request((), (BOS,), 0)] * len(outputs)
        fused = score([Member(self._language_model)], texts, outputs, self.num_threads)
        scored = zip(own, fused, strict=True)
        return [[with_scores(each, *next(scored)) for each in of_source] for of_source in found]

    def _add_weights(
        self, sources: Sequence[EncodedSource], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Returns hypotheses with alignment weights, from the search where it has all rows."""
        watched = [[self._take_watched(each) for each in of_source] for of_source in found]
        lacking = [
            (source.tokens, each.token_ids)
            for source, of_source in zip(sources, watched, strict=True)
            for each in of_source
            if each.alignment_weights is None
        ]
        read = iter(self.align(*zip(*lacking, strict=True)) if lacking else ())
        return [
            [
                replace(each, alignment_weights=next(read))
                if each.alignment_weights is None
                else each
                for each in of_source
            ]
            for of_source in watched
        ]

    def _take_watched(self, hypothesis: Hypothesis) -> Hypothesis:
        """Returns a hypothesis with its tokens' rows, or with None if a row is missing."""
        weights = hypothesis.alignment_weights
        if weights is None:
            return hypothesis
        first_row = self._heads[0].first_row
        num_rows = len(hypothesis.token_ids) - int(hypothesis.is_finished)
        if first_row + num_rows > len(weights):
            # The last token before a length limit was never an input.
            return replace(hypothesis, alignment_weights=None)
        rows = pad_attention(weights[first_row : first_row + num_rows], len(hypothesis.token_ids))
        return replace(hypothesis, alignment_weights=rows)


def _find_watched(head: AlignmentHead) -> tuple[int, int]:
    return head.layer - 1, _MEAN_OF_HEADS if head.head is None else head.head - 1


def _take_output(output: Output) -> Hypothesis:
    return Hypothesis(
        tuple(output.tokens),
        output.cumulative[-1],
        output.score,
        is_finished=output.tokens[-1] == EOS,
        token_log_probabilities=tuple(
            map(operator.sub, output.cumulative, (0.0, *output.cumulative))
        ),
        alignment_weights=output.attention,
    )


def choose_precision(settings: Inference) -> InferencePrecision:
    """Returns the requested precision; for `auto` the fastest on this CPU (docs/performance.md)."""
    if settings.precision != "auto":
        return settings.precision
    instructions = find_instructions()
    if settings.allow_int8 and instructions != "plain":
        return "int8"
    return "bf16" if instructions in ("amx", "avx512-bf16") else "fp32"


def choose_native_precision(
    models: Sequence[Model], settings: Inference, device: str
) -> InferencePrecision | None:
    """Returns the precision that the engine would take; None if PyTorch is needed."""
    if not is_cpu(device) or not all(map(can_run, models)):
        return None
    return choose_precision(settings)


def find_native_precision(
    folders: Sequence[Path], settings: Inference, device: str
) -> InferencePrecision | None:
    """Returns the precision of `open_native_engine`; None if PyTorch is needed."""
    configs = [read_config(folder) for folder in folders]
    if not all(map(_emits_text, configs)):
        return None
    return choose_native_precision([config.model for config in configs], settings, device)


def open_native_engine(
    folders: Sequence[Path], settings: Inference, device: str
) -> NativeEngine | None:
    """Returns an engine for a model folder or an ensemble; None if PyTorch is needed."""
    precision = find_native_precision(folders, settings, device)
    if precision is None:
        return None
    configs = [read_config(folder) for folder in folders]
    models = [config.model for config in configs]
    limited, language_model = [*models], None
    if settings.fusion is not None:
        with reading(settings.fusion.model):
            fused = check_language_model(settings, folders[0], configs[0])
            assert fused is not None, "given"
            if not can_run(fused.model):
                return None
            language_model = _open_network(settings.fusion.model, fused, precision)
            limited.append(fused.model)
    return NativeEngine(
        [
            _open_network(folder, config, precision)
            for folder, config in zip(folders, configs, strict=True)
        ],
        limited,
        [read_alignment_head(folder, model) for folder, model in zip(folders, models, strict=True)],
        language_model,
        num_threads=read_threads(settings),
    )


def read_threads(settings: Inference) -> int | None:
    """Returns the number of threads that settings ask for; None for one per CPU."""
    return None if settings.processes == "auto" else settings.processes


def _emits_text(config: ModelConfig) -> bool:
    return config.objective in (*ENCODER_DECODERS, "causal-lm")


def _open_network(
    folder: Path, config: ModelConfig, precision: InferencePrecision
) -> EngineNetwork:
    has_source = config.has_encoder_and_decoder
    if is_adapter(folder):
        from mtkit.model.adapter import read_adapted_weights  # noqa: PLC0415 (needs PyTorch)

        weights = read_adapted_weights(folder, config)
        return EngineNetwork(
            config.model, lambda name: weights[name].numpy(), precision, has_source=has_source
        )
    path = folder / WEIGHTS_FILE
    check_weights(path, config.list_shapes())
    with opening_arrays(path) as read:
        return EngineNetwork(config.model, read, precision, has_source=has_source)
