"""What must hold between our own ways to search: cached, batched, greedy, forced."""

import copy
import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from mtkit.inference.engines.open_torch_engine import make_ready
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.sampling import greedy_search
from mtkit.inference.search.step_model import EncoderDecoderSteps
from mtkit.inference.translation import Hypothesis
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.text.token_ids import EOS

from .half_trained import draw_sources, encoded, half_trained_model
from .same_translations import NEAR_TIE, compare_batches

_NEAR_TIE = 1e-4
"""Two ways to sum the same numbers may rank outputs differently that lie this close."""
_PENALTIES = [LengthPenalty(), LengthPenalty(alpha=0.0), LengthPenalty(kind="power", alpha=1.0)]


@pytest.fixture(params=["post", "pre"])
def model(request) -> EncoderDecoder:
    return half_trained_model(request.param)


def count_near_ties(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> int:
    """Returns how many lines differ, having checked that each is a near-tie."""
    near_ties = 0
    for line, (found, expected) in enumerate(zip(ours, theirs, strict=True)):
        assert [hypothesis.score for hypothesis in found] == pytest.approx(
            [hypothesis.score for hypothesis in expected], abs=_NEAR_TIE
        ), line
        near_ties += [h.token_ids for h in found] != [h.token_ids for h in expected]
    print(f"{near_ties} near-ties in {len(ours)} lines")
    return near_ties


class UncachedSteps:
    """A StepModel that reads the whole output anew at each step."""

    def __init__(self, model: EncoderDecoder, source: Tensor, source_layout: PaddedLayout) -> None:
        self._model = model
        self._source, self._source_is_token = source, source_layout.is_token
        self._outputs = torch.empty((len(source), 1, 0), dtype=torch.int64)

    def step(self, tokens: Tensor) -> Tensor:
        batch, width = tokens.shape
        self._outputs = torch.cat((self._outputs, tokens[:, :, None]), dim=2)
        states = self._model(
            self._source.repeat_interleave(width, dim=0),
            PaddedLayout(self._source_is_token.repeat_interleave(width, dim=0)),
            self._outputs.flatten(0, 1),
            PaddedLayout.without_padding(self._outputs.flatten(0, 1)),
        )
        return self._model.project(states[:, -1]).log_softmax(dim=-1).view(batch, width, -1)

    def select(self, sentences: Sequence[int], parents: Tensor) -> None:
        self._source, self._source_is_token = (
            self._source[sentences],
            self._source_is_token[sentences],
        )
        kept = self._outputs[sentences]
        self._outputs = kept.gather(1, parents[:, :, None].expand(-1, -1, kept.shape[2]))

    def source_attention(self) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


def _pad(sources: list[list[int]]) -> tuple[Tensor, PaddedLayout]:
    tokens = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(source) for source in sources], batch_first=True
    )
    return tokens, PaddedLayout(tokens != 0)


@pytest.mark.parametrize("penalty", _PENALTIES, ids=str)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_cached_is_uncached(model, beam_size, penalty):
    sources = draw_sources(random.Random(5), 25)
    limits = torch.tensor([len(source) + 8 for source in sources])
    found = []
    for kind in (EncoderDecoderSteps, UncachedSteps):
        with torch.no_grad():
            steps = kind(model, *_pad(sources))
            if beam_size == 1:
                found.append(greedy_search(steps, limits, penalty))
            else:
                found.append(beam_search(steps, limits, beam_size=beam_size, penalty=penalty))
    assert count_near_ties(*found) <= 2


@pytest.mark.parametrize("penalty", _PENALTIES, ids=str)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_batched_is_one_by_one(model, beam_size, penalty):
    sources = draw_sources(random.Random(5), 25)
    settings = Inference(
        beam_size=beam_size, n_best=beam_size, length_penalty=penalty, max_extra_tokens=8
    )
    engine = TorchEngine(model, "cpu")
    together = engine.search(encoded(sources), settings)
    alone = [engine.search(encoded([source]), settings)[0] for source in sources]
    assert count_near_ties(together, alone) <= 2
    # Otherwise sentences that leave the batch at different times wouldn't be tried.
    assert {h.is_finished for hypotheses in alone for h in hypotheses} == {True, False}
    assert len({len(hypotheses[0].token_ids) for hypotheses in alone}) > 5


def test_a_beam_of_one_is_greedy_search(model):
    sources = draw_sources(random.Random(5), 25)
    limits = torch.tensor([len(source) + 8 for source in sources])
    plain = LengthPenalty(alpha=0.0)
    with torch.no_grad():
        padded = _pad(sources)
        beam = beam_search(EncoderDecoderSteps(model, *padded), limits, beam_size=1, penalty=plain)
        greedy = greedy_search(EncoderDecoderSteps(model, *padded), limits, plain)
    assert count_near_ties(beam, greedy) == 0


@pytest.mark.parametrize("beam_size", [1, 4])
def test_our_score_is_the_forced_score(model, beam_size):
    sources = draw_sources(random.Random(5), 25)
    engine = TorchEngine(model, "cpu")
    found = engine.search(
        encoded(sources), Inference(beam_size=beam_size, n_best=beam_size, max_extra_tokens=8)
    )
    pairs = [
        (source, hypothesis)
        for source, hypotheses in zip(sources, found, strict=True)
        for hypothesis in hypotheses
    ]
    forced = engine.score(
        [source for source, _ in pairs], [hypothesis.token_ids for _, hypothesis in pairs]
    )
    for (_, hypothesis), log_probabilities in zip(pairs, forced, strict=True):
        assert hypothesis.token_log_probabilities == pytest.approx(log_probabilities, abs=1e-5)
        log_probability = sum(log_probabilities)
        # A sum of a dozen fp32 numbers: 1e-5 per token.
        assert hypothesis.log_probability == pytest.approx(
            log_probability, abs=1e-5 * len(hypothesis.token_ids)
        )


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_don_t_depend_on_batches_and_order(model, beam_size):
    sources = draw_sources(random.Random(8), 21)
    settings = Inference(beam_size=beam_size, n_best=beam_size, max_extra_tokens=8)
    comparisons = compare_batches(TorchEngine(model, "cpu"), sources, settings)
    print(*comparisons, sep="\n")
    assert [comparison for comparison in comparisons if comparison.greatest_gap > NEAR_TIE] == []
    assert sum(comparison.num_different for comparison in comparisons) <= 6


@pytest.mark.parametrize("beam_size", [1, 4])
def test_eight_bits_don_t_depend_on_batches_and_order(beam_size):
    model = copy.deepcopy(half_trained_model("pre"))
    settings = Inference(
        beam_size=beam_size, n_best=beam_size, max_extra_tokens=8, precision="int8"
    )
    # From 1 to 40 tokens: batches are padded to 16, 32 and 48.
    sources = [
        [*source, *source[:-1] * (index % 5), EOS]
        for index, source in enumerate(draw_sources(random.Random(8), 16))
    ]
    engine = TorchEngine(make_ready(model, settings, torch.device("cpu")), "cpu")
    comparisons = compare_batches(engine, sources, settings)
    print(*comparisons, sep="\n")
    # A number on an edge of rounding, off by its last bit, is another integer: a hundredth of its
    # row's largest number.
    assert [comparison for comparison in comparisons if comparison.greatest_gap > 0.05] == []
    assert sum(comparison.num_different for comparison in comparisons) <= 2
