"""CTranslate2 on the weights that we export = our engine, by the power form of the penalty.

CTranslate2 gives to the other tokens what <pad> and <s> would have got, and we give it to nobody.
Where both searches are held against each other, the model therefore gives these two nothing.
"""

import copy
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from mtkit.inference.ctranslate2_client import CTranslate2Client
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.translation import Hypothesis
from mtkit.model.exporters.ctranslate2 import write_ctranslate2
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.text.token_ids import BOS, EOS, PAD

from .half_trained import VOCAB_SIZE, draw_sources, half_trained_model

_NEAR_TIE = 1e-4
_SCORES = 1e-3
_PIECES = ["<pad>", "<unk>", "<s>", "</s>", *(f"piece{i}" for i in range(4, VOCAB_SIZE))]
_SOURCES = [EncodedSource(tokens) for tokens in draw_sources(random.Random(11), 25)]
_SHAPES = {
    "post": {"norm": "post"},
    "pre": {"norm": "pre"},
    "learned": {
        "norm": "post",
        "positions": "learned",
        "tied_embeddings": "none",
        "activation": "gelu",
        "num_steps": 20,
    },
    "marian": {
        "norm": "post",
        "activation": "silu",
        "sinusoids": "halves",
        "output_bias": True,
        "scale_embeddings": False,
        "num_steps": 20,
    },
    "gated": {
        "norm": "pre",
        "tied_embeddings": "decoder",
        "activation": "swiglu",
        # A thousand times the usual one: an export that lost it would score otherwise.
        "norm_epsilon": 0.05,
        "num_steps": 20,
    },
}


def power(beam_size: int, alpha: float = 0.6, **others: float) -> Inference:
    penalty = LengthPenalty(kind="power", alpha=alpha)
    return Inference(
        **{
            "beam_size": beam_size,
            "n_best": beam_size,
            "length_penalty": penalty,
            "max_extra_tokens": 8,
            # Exact: no output has as many.
            "stop_margin": 1000,
            **others,
        }
    )


def without_pad_and_bos(model: EncoderDecoder) -> EncoderDecoder:
    """Returns a copy whose logits of <pad> and <s> are 80 below the others."""
    model = copy.deepcopy(model)
    last = model.decoder.final_norm
    if not isinstance(last, torch.nn.LayerNorm):
        last = model.decoder.layers[-1].feed_forward_norm
    with torch.no_grad():
        last.weight[0], last.bias[0] = 0.0, 10.0
        model.output_embedding.weight[:, 0] = 0.0
        model.output_embedding.weight[[PAD, BOS], 0] = -8.0
    return model


@pytest.fixture(scope="module", params=list(_SHAPES))
def model(request) -> EncoderDecoder:
    shape = dict(_SHAPES[request.param])
    return without_pad_and_bos(half_trained_model(shape.pop("norm"), **shape))


@pytest.fixture(scope="module")
def folder(model: EncoderDecoder, tmp_path_factory) -> Path:
    return export(model, tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def pre_norm() -> EncoderDecoder:
    """A model as training left it: it gives <pad> and <s> some hundredths."""
    return half_trained_model("pre")


@pytest.fixture(scope="module")
def engine(pre_norm: EncoderDecoder, tmp_path_factory) -> CTranslate2Client:
    return CTranslate2Client(export(pre_norm, tmp_path_factory.mktemp("pre")))


def export(model: EncoderDecoder, folder: Path, quantization: str = "float32") -> Path:
    write_ctranslate2(
        model, folder, pieces=(_PIECES, _PIECES), max_tokens=64, quantization=quantization
    )
    return folder


def forced(model: EncoderDecoder, source: EncodedSource, target: Sequence[int]) -> list[float]:
    """Returns what the network gives each token of an output, computed without a search."""
    tokens = torch.tensor([source.tokens])
    begun = torch.tensor([[BOS, *target[:-1]]])
    with torch.no_grad():
        states = model(
            tokens, PaddedLayout.without_padding(tokens), begun, PaddedLayout.without_padding(begun)
        )
        log_probabilities = model.project(states).log_softmax(dim=-1)[0]
    return [row[token].item() for row, token in zip(log_probabilities, target, strict=True)]


def tokens_of(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.token_ids for hypothesis in hypotheses] for hypotheses in found]


def pairs_of(
    found: list[list[Hypothesis]],
) -> Iterator[tuple[EncodedSource, Hypothesis]]:
    for source, hypotheses in zip(_SOURCES, found, strict=False):
        for hypothesis in hypotheses:
            yield source, hypothesis


def expect_near_ties_alone(
    ours: Sequence[Sequence[Hypothesis]], theirs: Sequence[Sequence[Hypothesis]]
) -> None:
    """Fails unless all scores are equal, and outputs where they aren't as good as equal."""
    near_ties = 0
    for expected, found in zip(ours, theirs, strict=True):
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=_NEAR_TIE)
        assert [h.log_probability for h in found] == pytest.approx(
            [h.log_probability for h in expected], abs=_SCORES
        )
        near_ties += [h.token_ids for h in found] != [h.token_ids for h in expected]
    print(f"{near_ties} near-ties in {len(ours)} lines")
    assert near_ties <= 2


@pytest.mark.parametrize(
    ("beam_size", "alpha", "max_extra_tokens"), [(1, 0.6, 8), (5, 0.0, 8), (4, 0.6, 0), (7, 1.0, 8)]
)
def test_finds_the_n_best_that_our_engine_finds(model, folder, beam_size, alpha, max_extra_tokens):
    settings = power(beam_size, alpha, max_extra_tokens=max_extra_tokens)
    ours = TorchEngine(model, "cpu").search(_SOURCES, settings)
    theirs = CTranslate2Client(folder, stops_early=False).search(_SOURCES, settings)
    expect_near_ties_alone(ours, theirs)
    if max_extra_tokens == 0:
        assert {h.is_finished for _, h in pairs_of(theirs)} == {True, False}


def test_scores_a_given_target_token_by_token(model, folder):
    targets = draw_sources(random.Random(2), 10)
    # Cut by the length limit.
    targets[5:] = [target[:-1] for target in targets[5:]]
    sources = _SOURCES[:10]
    scored = CTranslate2Client(folder).score([source.tokens for source in sources], targets)
    for source, target, each in zip(sources, targets, scored, strict=True):
        assert each == pytest.approx(forced(model, source, target), abs=_NEAR_TIE)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("max_extra_tokens", [0, 2])
def test_each_output_has_its_own_limit_among_longer_neighbours(engine, beam_size, max_extra_tokens):
    settings = power(beam_size, max_extra_tokens=max_extra_tokens)
    together = engine.search(_SOURCES, settings)
    num_cut = 0
    for source, hypotheses in zip(_SOURCES, together, strict=True):
        limit = len(source.tokens) + max_extra_tokens
        assert max(len(h.token_ids) for h in hypotheses) <= limit
        assert {len(h.token_ids) for h in hypotheses if h.reached_limit} <= {limit}
        num_cut += any(h.reached_limit for h in hypotheses)
        (alone,) = engine.search([source], settings)
        assert [h.token_ids for h in hypotheses] == [h.token_ids for h in alone]
        assert [h.score for h in hypotheses] == pytest.approx(
            [h.score for h in alone], abs=_NEAR_TIE
        )
    assert 1 < num_cut < len(_SOURCES)


def test_a_search_that_stops_early_finds_hardly_worse(engine, pre_norm, tmp_path):
    exact = CTranslate2Client(export(pre_norm, tmp_path), stops_early=False)
    thorough, quick = (each.search(_SOURCES, power(4)) for each in (exact, engine))
    assert {len(hypotheses) for hypotheses in quick} == {4}
    bests = [(one[0], other[0]) for one, other in zip(thorough, quick, strict=True)]
    assert all(quick.score <= best.score + _NEAR_TIE for best, quick in bests)
    assert sum(quick.token_ids == best.token_ids for best, quick in bests) >= 0.9 * len(_SOURCES)
    # Or else nothing was stopped.
    assert [h.token_ids for _, h in pairs_of(quick)] != [h.token_ids for _, h in pairs_of(thorough)]


def test_the_gnmt_form_ranks_what_the_power_form_found(engine):
    by_power = engine.search(_SOURCES, power(6, 1.0))
    by_gnmt = engine.search(
        _SOURCES, power(6).model_copy(update={"length_penalty": LengthPenalty(alpha=1.0)})
    )
    num_moved = 0
    for one, other in zip(by_power, by_gnmt, strict=True):
        assert {h.token_ids for h in one} == {h.token_ids for h in other}
        assert [h.score for h in other] == sorted((h.score for h in other), reverse=True)
        for hypothesis in other:
            # arXiv 1609.08144, equation 14.
            divisor = (5 + len(hypothesis.token_ids)) / 6
            assert hypothesis.score == pytest.approx(hypothesis.log_probability / divisor)
        num_moved += [h.token_ids for h in one] != [h.token_ids for h in other]
    assert num_moved


def test_8_bits_come_near(pre_norm, engine, tmp_path):
    small = CTranslate2Client(export(pre_norm, tmp_path, "int8"))
    sources = [source.tokens for source in _SOURCES]
    targets = [hypotheses[0].token_ids for hypotheses in engine.search(_SOURCES, power(1))]
    pairs = [
        pair
        for each in zip(engine.score(sources, targets), small.score(sources, targets), strict=True)
        for pair in zip(*each, strict=True)
    ]
    gaps = [abs(one - other) for one, other in pairs]
    # A matrix with another's scales would be as good as none: 3 nats, log 20, from token to token.
    assert 0.0 < sum(gaps) / len(gaps) < 0.3


@pytest.mark.parametrize("quantization", ["float32", "int8"])
def test_exporting_leaves_the_network_as_it_was(pre_norm, tmp_path, quantization):
    before = {name: weight.clone() for name, weight in pre_norm.state_dict().items()}
    export(pre_norm, tmp_path, quantization)
    assert all(torch.equal(weight, before[name]) for name, weight in pre_norm.state_dict().items())


def test_eos_is_the_sources_own_alone(engine):
    """CTranslate2 could close a source that is closed already."""
    once, twice = (engine.score([[7, 8, *end]], [[7, 8, EOS]])[0] for end in ([EOS], [EOS, EOS]))
    assert once != pytest.approx(twice, abs=_SCORES)
