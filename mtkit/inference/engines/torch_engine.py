"""PyTorch as the engine, on a CPU or one GPU."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from mtkit.inference.engines.engine import (
    EncodedSource,
    check_search,
    find_limit,
    restore_order,
    with_scores,
)
from mtkit.inference.engines.torch_aligner import GeneratingNetwork, TorchAligner
from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.bounds import NO_BOUNDS, OutputBounds
from mtkit.inference.search.penalties import leave_out_beginning
from mtkit.inference.search.rules import OutputRules
from mtkit.inference.search.sampling import greedy_search, sample
from mtkit.inference.search.scoring import score_targets, score_text
from mtkit.inference.search.step_model import (
    CausalSteps,
    EncoderDecoderSteps,
    EnsembleSteps,
    FusedSteps,
    StepModel,
    log_of_mean,
)
from mtkit.inference.translation import Hypothesis
from mtkit.model.alignment_head import AlignmentHead
from mtkit.network import CausalLanguageModel, EncoderDecoder, PaddedLayout
from mtkit.network.cpu.quantized import WIDTH_MULTIPLE, is_quantized
from mtkit.network.device import send
from mtkit.network.layouts import RecordingLayout
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import BOS, PAD


def split_by_search(sources: Sequence[EncodedSource], settings: Inference) -> list[list[int]]:
    """Returns the sources' indices in groups that each take one search.

    With a beam of 1, sources with required phrases still need a beam search, and the others take a
    greedy search, which may return other outputs.
    """
    if settings.beam_size > 1:
        return [list(range(len(sources)))]
    groups: tuple[list[int], list[int]] = [], []
    for index, source in enumerate(sources):
        groups[bool(source.required)].append(index)
    return [group for group in groups if group]


def run_search(
    model: StepModel,
    sources: Sequence[EncodedSource],
    settings: Inference,
    limits: Int[Tensor, " batch"],
    max_repeated: int | None = None,
) -> list[list[Hypothesis]]:
    """Returns each source's hypotheses by the requested search; `limits` count `</s>`."""
    required = [source.required for source in sources]
    rules = OutputRules(
        [source.forced for source in sources],
        num_certain=[len(source.begin) for source in sources],
        min_length=settings.min_length,
        no_repeat_ngram=settings.no_repeat_ngram,
        forbidden=[source.forbidden for source in sources],
    )
    if settings.sampling is not None:
        return sample(
            model,
            limits,
            sampling=settings.sampling,
            num_samples=settings.n_best,
            draws=[source.draw for source in sources],
            penalty=settings.length_penalty,
            rules=rules,
        )
    if settings.beam_size == 1 and not any(required):
        return greedy_search(
            model, limits, settings.length_penalty, rules, max_repeated=max_repeated
        )
    found = beam_search(
        model,
        limits,
        beam_size=settings.beam_size,
        n_best=settings.num_kept,
        penalty=settings.length_penalty,
        coverage=settings.coverage_penalty,
        stop_margin=settings.stop_margin,
        rules=rules,
        required=required,
        max_repeated=max_repeated,
    )
    return [each[: settings.n_best] for each in found]


class TorchEngine:
    """Searches with a network in memory, or with an ensemble; one batch at a time.

    Args:
        model: The network, or those of an ensemble; they may be trained between calls.
        device: Where the weights are.
        language_model: The model of `inference.fusion`, with the same target vocabulary.
        alignment_heads: The head of each network that alignments are read from; by default the mean
            of its last layer.
        bounds: Further bounds on outputs of a model that is still being trained.

    Attributes:
        max_tokens: The smallest number of learned positions; None for no limit.
    """

    batches_at_once = 1

    def __init__(
        self,
        model: GeneratingNetwork | Sequence[GeneratingNetwork],
        device: torch.device | str,
        *,
        language_model: CausalLanguageModel | None = None,
        alignment_heads: Sequence[AlignmentHead] | None = None,
        bounds: OutputBounds = NO_BOUNDS,
    ) -> None:
        self._models = [model] if isinstance(model, GeneratingNetwork) else list(model)
        self._language_model = language_model
        networks: list[GeneratingNetwork] = [*self._models]
        self._networks = networks if language_model is None else [*networks, language_model]
        self._device = torch.device(device)
        self._bounds = bounds
        # Calls share the network's mode (training or evaluation) and its growing tables.
        self._lock = threading.Lock()
        limits = [model.model.max_tokens for model in self._networks]
        self.max_tokens = min((limit for limit in limits if limit is not None), default=None)
        self._width_multiple = WIDTH_MULTIPLE if any(map(is_quantized, self._networks)) else 1
        self._aligner = TorchAligner(self._models, alignment_heads, self.max_tokens, self._pad)

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first."""
        check_search(sources, settings, has_attention=self.aligns)
        groups = split_by_search(sources, settings)
        found = (self._search([sources[index] for index in group], settings) for group in groups)
        return restore_order(groups, found)

    def _search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        limits = torch.tensor(
            [find_limit(each, settings, self.max_tokens, self._bounds) for each in sources],
            device=self._device,
        )
        with self._lock, evaluating(self._networks):
            members = self._read(sources, settings)
            steps = self._join(members, sources, settings)
            found = run_search(steps, sources, settings, limits, self._bounds.max_repeated)
            if self._language_model is not None and settings.fusion is not None:
                found = self._separate(sources, found)
            if settings.alignments and self.aligns:
                found = self._aligner.add_weights(sources, found, members)
        return [
            [leave_out_beginning(each, len(source.begin)) for each in of_source]
            for source, of_source in zip(sources, found, strict=True)
        ]

    def _separate(
        self, sources: Sequence[EncodedSource], found: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Returns hypotheses with separate log-probabilities, which fusion had summed."""
        assert self._language_model is not None
        of_rows = [source for source, each in zip(sources, found, strict=True) for _ in each]
        outputs = [hypothesis.token_ids for each in found for hypothesis in each]
        if not outputs:
            # All scores are NaN.
            return found
        ours = self._score([source.tokens for source in of_rows], outputs)
        theirs = score_text(self._language_model, self._pad(outputs)[0]).tolist()
        rows = iter(zip(ours, theirs, strict=True))
        return [
            [
                with_scores(hypothesis, own, fused[: len(own)])
                for hypothesis, (own, fused) in zip(each, rows, strict=False)
            ]
            for each in found
        ]

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the log-probability of each token of each target, as `search` would return it."""
        with self._lock, evaluating(self._models):
            return self._score(source_batch, target_batch)

    def attend(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]] | None:
        """Returns how much each target's tokens attend to each source token."""
        models = [model for model in self._models if isinstance(model, EncoderDecoder)]
        if len(models) < len(self._models):
            return None
        sources, source_layout = self._pad([source] * len(targets))
        inputs, inputs_layout = self._pad([(BOS, *target[:-1]) for target in targets])
        found = []
        with self._lock, evaluating(models):
            for model in models:
                layout = RecordingLayout(inputs_layout.is_token)
                model(sources, source_layout, inputs, layout)
                # The last recorded attention is the last layer's cross-attention.
                found.append(layout.weights[-1].amax(dim=1))
        means = torch.stack(found).mean(dim=0).cpu().numpy()
        return [
            weights[: len(target), : len(source)]
            for weights, target in zip(means, targets, strict=True)
        ]

    @property
    def aligns(self) -> bool:
        """Whether all models have attention to a source."""
        return self._aligner.can_align

    def align(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        """Returns how much each target's tokens attend to each source token; an ensemble's mean."""
        assert self.aligns, "callers check that"
        with self._lock, evaluating(self._models):
            return self._aligner.align(source_batch, target_batch)

    def _score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        sources, (targets, _) = self._pad(source_batch), self._pad(target_batch)
        means = log_of_mean(
            torch.stack(
                [
                    self._score_joined(model, source_batch, target_batch)
                    if isinstance(model, CausalLanguageModel)
                    else score_targets(model, *sources, targets)
                    for model in self._models
                ]
            )
        )
        return [
            row[: len(target)] for row, target in zip(means.tolist(), target_batch, strict=True)
        ]

    def _score_joined(
        self,
        model: CausalLanguageModel,
        source_batch: Sequence[Sequence[int]],
        target_batch: Sequence[Sequence[int]],
    ) -> Float[Tensor, "batch tgt_len"]:
        """Returns `score_text` of the targets, each after its source, which may be empty."""
        pairs = list(zip(source_batch, target_batch, strict=True))
        scored = score_text(model, self._pad([(*source, *target) for source, target in pairs])[0])
        rows = [
            row[len(source) : len(source) + len(target)]
            for row, (source, target) in zip(scored, pairs, strict=True)
        ]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)

    def _read(self, sources: Sequence[EncodedSource], settings: Inference) -> list[StepModel]:
        """Returns each model after it has read the sources."""
        members: list[StepModel] = []
        keeps_attention = settings.coverage_penalty > 0.0
        tokens = [source.tokens for source in sources]
        for model in self._models:
            match model:
                case EncoderDecoder():
                    members.append(
                        EncoderDecoderSteps(
                            model,
                            *self._pad(tokens),
                            keeps_attention=keeps_attention,
                            keeps_memory=settings.alignments,
                        )
                    )
                case CausalLanguageModel():
                    texts, layout = self._pad([(BOS, *each) for each in tokens])
                    members.append(CausalSteps(model, texts, layout))
        return members

    def _join(
        self, members: Sequence[StepModel], sources: Sequence[EncodedSource], settings: Inference
    ) -> StepModel:
        """Returns the models as one, with the language model of `inference.fusion`."""
        steps = members[0] if len(members) == 1 else EnsembleSteps(members)
        if self._language_model is None or settings.fusion is None:
            return steps
        begun, layout = self._pad([(BOS,)] * len(sources))
        fused = CausalSteps(self._language_model, begun, layout)
        return FusedSteps(steps, fused, settings.fusion.weight)

    def _pad(self, batch: Sequence[Sequence[int]]) -> tuple[Tensor, PaddedLayout]:
        tokens, layout = pad(batch, self._find_width(batch))
        return send(tokens, self._device), layout.to(self._device)

    def _find_width(self, batch: Sequence[Sequence[int]]) -> int:
        """Returns the longest sentence's length, rounded up to the width that a kernel needs."""
        longest = max(map(len, batch))
        width = longest + -longest % self._width_multiple
        return width if self.max_tokens is None else max(longest, min(width, self.max_tokens))


def pad(batch: Sequence[Sequence[int]], min_width: int = 0) -> tuple[Tensor, PaddedLayout]:
    """Returns sentences padded at the end, int64 [batch, width], and their layout."""
    lengths = np.array([len(sentence) for sentence in batch])
    width = max(int(lengths.max()), min_width)
    is_token = np.arange(width) < lengths[:, None]
    tokens = np.full(is_token.shape, PAD, dtype=np.int64)
    tokens[is_token] = np.fromiter(chain.from_iterable(batch), np.int64, count=lengths.sum())
    return torch.from_numpy(tokens), PaddedLayout(torch.from_numpy(is_token))


@contextmanager
def evaluating(models: Sequence[nn.Module]) -> Iterator[None]:
    """Sets models to evaluation mode, and restores the mode of every module afterwards."""
    in_training = [part for model in models for part in model.modules() if part.training]
    for model in models:
        model.eval()
    try:
        # In torch.inference_mode, a table of positions that grows here would be read-only when
        # training resumes; no_grad is as fast (docs/log.md).
        with torch.no_grad():
            yield
    finally:
        for part in in_training:
            part.training = True
