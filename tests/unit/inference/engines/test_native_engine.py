"""The C++ engine, held against PyTorch's and against every output there is."""

import itertools
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
import torch

from mtkit.engine import library, linear, network, search
from mtkit.engine.library import KINDS, choose_library, open_library
from mtkit.engine.network import EngineNetwork
from mtkit.errors import MtkitError
from mtkit.inference.engines import native_engine
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.native_engine import (
    NativeEngine,
    choose_native_precision,
)
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.search.bounds import NO_BOUNDS, OutputBounds
from mtkit.model.alignment_head import AlignmentHead, default_head
from mtkit.model.weights import distinct_weights
from mtkit.network import CausalLanguageModel, EncoderDecoder
from mtkit.recipe.inference import Fusion, Inference, LengthPenalty, Sampling
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS

T = TypeVar("T")
_VOCAB = 41
pytestmark = pytest.mark.skipif(choose_library() is None, reason="installed without a C++ compiler")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Uses the library for a kind of CPU, on every CPU that can run it."""
    plain, opened = open_library("plain"), open_library(request.param)
    if plain is None or opened is None or not plain.mtkit_supports(request.param.encode()):
        pytest.skip(f"not compiled, or this CPU lacks {request.param}")
    for module in (library, linear, network, search):
        monkeypatch.setattr(module, "choose_library", lambda: opened)
    return request.param


_KNOWN: dict[tuple[str, str], object] = {}


@pytest.fixture
def once(request: pytest.FixtureRequest, kind: str) -> Callable[[Callable[[], T]], T]:
    """Computes what is expected of a test for the first kind of CPU alone."""

    def find(compute: Callable[[], T]) -> T:
        key = request.node.originalname, request.node.callspec.id.replace(kind, "")
        if key not in _KNOWN:
            _KNOWN[key] = compute()
        return _KNOWN[key]

    return find


def build(seed: int = 4, *, vocab: int = _VOCAB, **keys: object) -> EncoderDecoder:
    section = {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_model": 48,
        "d_ff": 70,
        "num_heads": 3,
        "output_bias": True,
        **keys,
    }
    torch.manual_seed(seed)
    model = EncoderDecoder(Model(**section), vocab, vocab).eval()
    shake(model)
    return model


def shake(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Random norms and biases, too: otherwise a wrong one would go unnoticed.
            if weight.dim() == 1:
                torch.nn.init.normal_(weight, mean=1.0 if "norm" in name else 0.0, std=0.3)
        # Flatter, so that beams hold hypotheses of similar scores, and some outputs end.
        model.output_embedding.weight.mul_(0.5)
        if model.output_bias is not None:
            model.output_bias[EOS] = 1.5


def native(
    *models: EncoderDecoder | CausalLanguageModel,
    precision: str = "fp32",
    heads: list[AlignmentHead] | None = None,
    language_model: CausalLanguageModel | None = None,
    num_threads: int = 2,
    bounds: OutputBounds = NO_BOUNDS,
) -> NativeEngine:
    def take(model: EncoderDecoder | CausalLanguageModel) -> EngineNetwork:
        weights = distinct_weights(model)
        return EngineNetwork(
            model.model,
            lambda name: weights[name].detach().numpy(),
            precision,
            has_source=isinstance(model, EncoderDecoder),
        )

    return NativeEngine(
        list(map(take, models)),
        [model.model for model in models],
        heads or [default_head(model.model) for model in models],
        None if language_model is None else take(language_model),
        num_threads=num_threads,
        bounds=bounds,
    )


def draw_sources(count: int, seed: int = 1, longest: int = 20) -> list[EncodedSource]:
    draws = np.random.default_rng(seed)
    return [
        EncodedSource(
            [*draws.integers(4, _VOCAB, draws.integers(1, longest)).tolist(), EOS], draw=(7, row)
        )
        for row in range(count)
    ]


def assert_same(ours, theirs, tolerance: float = 2e-4) -> None:
    for one, other in itertools.zip_longest(ours, theirs):
        assert [h.token_ids for h in one] == [h.token_ids for h in other]
        for found, expected in zip(one, other, strict=True):
            assert found.score == pytest.approx(expected.score, abs=tolerance)
            assert found.is_finished == expected.is_finished
            assert found.token_log_probabilities == pytest.approx(
                expected.token_log_probabilities, abs=tolerance
            )
            if expected.alignment_weights is not None:
                np.testing.assert_allclose(
                    found.alignment_weights, expected.alignment_weights, atol=1e-4
                )


_SEARCHES = {
    "beam": {"beam_size": 4, "n_best": 4},
    "greedy": {"beam_size": 1},
    "power": {"beam_size": 3, "length_penalty": LengthPenalty(kind="power", alpha=1.3)},
    "exact": {"beam_size": 3, "stop_margin": 50},
    "eager": {"beam_size": 5, "n_best": 2, "stop_margin": 0},
    "coverage": {"beam_size": 3, "coverage_penalty": 0.4},
    "rules": {"beam_size": 3, "min_length": 4, "no_repeat_ngram": 2},
    "unigrams": {"beam_size": 2, "no_repeat_ngram": 1},
    "greedy-rules": {"beam_size": 1, "min_length": 3, "no_repeat_ngram": 2},
    "wide": {"beam_size": 30, "n_best": 7},
    "short": {"beam_size": 4, "n_best": 4, "max_output_tokens": 3},
    "samples": {"sampling": Sampling(seed=3), "n_best": 5},
    "top_k": {"sampling": Sampling(seed=3, top_k=5, temperature=0.7), "n_best": 2},
    "top_p": {"sampling": Sampling(seed=3, top_p=0.5, temperature=1.4), "n_best": 2},
    "epsilon": {"sampling": Sampling(seed=3, epsilon=0.03), "n_best": 2},
    "alignments": {"beam_size": 3, "n_best": 3, "alignments": True},
}


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("keys", _SEARCHES.values(), ids=_SEARCHES)
def test_it_finds_what_pytorch_finds(once, norm: str, keys: dict) -> None:
    settings = Inference(max_extra_tokens=12, **keys)
    model, sources = build(norm=norm), draw_sources(20)
    expected = once(lambda: TorchEngine(model, "cpu").search(sources, settings))
    assert_same(native(model).search(sources, settings), expected)
    lengths = Counter(h.is_finished for each in expected for h in each)
    assert lengths[True] > 0


@pytest.mark.parametrize(
    "keys",
    [
        {"activation": "gelu", "positions": "learned", "max_positions": 64},
        {"activation": "gelu_tanh", "d_model": 46, "d_key": 5, "d_value": 7, "d_ff": 33},
        {"activation": "silu", "embedding_norm": True, "scale_embeddings": False},
        {"activation": "swiglu", "d_model": 64, "num_heads": 1, "output_bias": False},
        {"tied_embeddings": "none", "sinusoids": "halves", "norm_epsilon": 0.01},
        {"tied_embeddings": "decoder", "sinusoids": "tensor2tensor", "first_position": 2},
        {"num_encoder_layers": 3, "num_decoder_layers": 1},
    ],
    ids=lambda keys: next(iter(keys.values())),
)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_networks_of_all_shapes(once, norm: str, keys: dict) -> None:
    settings = Inference(max_extra_tokens=10, beam_size=3, n_best=2)
    model, sources = build(norm=norm, **keys), draw_sources(12)
    theirs, ours = TorchEngine(model, "cpu"), native(model)
    expected = once(lambda: theirs.search(sources, settings))
    assert_same(ours.search(sources, settings), expected)
    given = [source.tokens for source in sources], [each[0].token_ids for each in expected]
    for one, other in zip(ours.score(*given), theirs.score(*given), strict=True):
        assert one == pytest.approx(other, abs=2e-4)


def test_outputs_longer_than_a_block_of_slots_and_than_the_first_positions(once) -> None:
    model = build()
    with torch.no_grad():
        model.output_bias[EOS] = -20.0
    (source,) = draw_sources(1, longest=5)
    target = np.random.default_rng(2).integers(4, _VOCAB, 300).tolist()
    settings = Inference(beam_size=2, max_extra_tokens=280)
    ours, theirs = native(model), TorchEngine(model, "cpu")
    scores, expected = once(
        lambda: (theirs.score([source.tokens], [target]), theirs.search([source], settings))
    )
    assert ours.score([source.tokens], [target])[0] == pytest.approx(scores[0], abs=5e-4)
    found = ours.search([source], settings)
    assert len(found[0][0].token_ids) > 256
    assert_same(found, expected, tolerance=1e-2)


@pytest.mark.parametrize("keys", [*_SEARCHES.values()][:4], ids=[*_SEARCHES][:4])
def test_prefixes_and_phrases(once, keys: dict) -> None:
    settings = Inference(max_extra_tokens=14, **keys)
    changes = [
        {},
        {"begin": (5,)},
        {"begin": (5,), "prefix": (9, 8)},
        {"prefix": (6, 6, EOS)},
        {"required": ((9, 7),)},
        {"required": ((9, 9, 7), (9, 9), (12,))},
        {"required": ((8, 9), (8, 9), (9, 8)), "forbidden": ((7,), (10, 11))},
        {"forbidden": tuple((token,) for token in range(6, 30))},
        {"prefix": (9,), "required": ((9, 11),), "begin": (4, 4)},
        {"required": tuple((token,) for token in range(10, 34))},
    ]
    sources = [
        replace(source, **change)
        for source, change in zip(draw_sources(10, longest=6), changes, strict=True)
    ]
    model = build()
    found = native(model).search(sources, settings)
    # PyTorch's beam is as wide as its neighbours': each alone.
    theirs = TorchEngine(model, "cpu")
    assert_same(found, once(lambda: [theirs.search([each], settings)[0] for each in sources]))
    for source, hypotheses in zip(sources, found, strict=True):
        written = [*source.begin, *hypotheses[0].token_ids]
        assert written[: len(source.forced)] == list(source.forced)
        for phrase in source.required[:3]:
            starts = range(len(written))
            assert any(tuple(written[at : at + len(phrase)]) == phrase for at in starts)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize(
    "keys", [_SEARCHES[name] for name in ("beam", "greedy", "coverage", "samples", "alignments")]
)
def test_a_sentence_does_not_depend_on_its_neighbours(kind: str, precision: str, keys) -> None:
    settings = Inference(max_extra_tokens=8, **keys)
    model = build()
    engines = [native(model, precision=precision, num_threads=count) for count in (1, 2, 5)]
    sources = draw_sources(24)
    sources[9] = replace(sources[9], required=() if settings.sampling else ((5, 6), (7,)))
    expected = [engines[0].search([source], settings)[0] for source in sources]
    order = np.random.default_rng(5).permutation(len(sources))
    for engine in engines:
        found = engine.search([sources[index] for index in order], settings)
        for index, each in zip(order, found, strict=True):
            assert each == expected[index]
            for one, other in zip(each, expected[index], strict=True):
                np.testing.assert_array_equal(one.alignment_weights, other.alignment_weights)


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 1e-5), ("int8", 1e-5)]
)
@pytest.mark.parametrize("keys", [{"beam_size": 4, "n_best": 4}, {"sampling": Sampling(seed=1)}])
def test_the_score_of_a_search_is_the_forced_score(
    kind: str, precision: str, tolerance: float, keys: dict
) -> None:
    # Each position takes the same operations in both, in the same order.
    engine, sources = native(build(), precision=precision), draw_sources(20)
    found = engine.search(sources, Inference(max_extra_tokens=6, **keys))
    outputs = [
        (source.tokens, h) for source, each in zip(sources, found, strict=True) for h in each
    ]
    scores = engine.score([tokens for tokens, _ in outputs], [h.token_ids for _, h in outputs])
    for (_, hypothesis), scored in zip(outputs, scores, strict=True):
        assert scored == pytest.approx(hypothesis.token_log_probabilities, abs=tolerance)


@pytest.mark.parametrize(("precision", "off"), [("bf16", 0.05), ("int8", 0.1)])
def test_narrow_numbers_come_near(kind: str, precision: str, off: float) -> None:
    model, sources = build(), draw_sources(40)
    targets = [source.tokens for source in draw_sources(40, seed=2)]
    given = [source.tokens for source in sources], targets
    exact = np.concatenate(TorchEngine(model, "cpu").score(*given))
    found = np.concatenate(native(model, precision=precision).score(*given))
    assert 0.0 < np.abs(found - exact).mean() < off


def test_an_ensemble_is_the_mean_of_probabilities(once) -> None:
    models = [build(seed, norm=norm) for seed, norm in ((1, "pre"), (2, "post"), (3, "pre"))]
    sources, ours, theirs = draw_sources(20), native(*models), TorchEngine(models, "cpu")
    searches = [
        Inference(max_extra_tokens=8, **_SEARCHES[keys])
        for keys in ("beam", "greedy", "coverage", "samples")
    ]
    expected = once(lambda: [theirs.search(sources, settings) for settings in searches])
    for settings, outputs in zip(searches, expected, strict=True):
        assert_same(ours.search(sources, settings), outputs)
    target = [5, 9, 11, EOS]
    alone = [np.exp(native(model).score([sources[0].tokens], [target])[0]) for model in models]
    mean = np.log(np.mean(alone, axis=0))
    assert ours.score([sources[0].tokens], [target])[0] == pytest.approx(mean, abs=1e-5)


def build_language_model(**keys: object) -> CausalLanguageModel:
    torch.manual_seed(8)
    section = Model(
        num_decoder_layers=2, d_model=32, d_ff=40, num_heads=2, output_bias=True, **keys
    )
    model = CausalLanguageModel(section, _VOCAB).eval()
    shake(model)
    return model


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_a_fused_language_model(once, weight: float, tmp_path) -> None:
    settings = Inference(
        max_extra_tokens=8, beam_size=3, n_best=2, fusion=Fusion(model=tmp_path, weight=weight)
    )
    model, fused, sources = build(), build_language_model(), draw_sources(12)
    engine = TorchEngine(model, "cpu", language_model=fused)
    theirs = once(lambda: engine.search(sources, settings))
    ours = native(model, language_model=fused).search(sources, settings)
    assert_same(ours, theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one[0].fused_log_probability == pytest.approx(
            other[0].fused_log_probability, abs=2e-4
        )


@pytest.mark.parametrize("keys", [{}, {"positions": "learned", "max_positions": 40}])
def test_a_language_model_continues_and_scores_texts(once, keys: dict) -> None:
    model = build_language_model(**keys)
    sources = [
        replace(source, tokens=source.tokens[:-1], is_text=True) for source in draw_sources(20)
    ]
    ours, theirs = native(model), TorchEngine(model, "cpu")
    searches = [
        Inference(max_extra_tokens=8, **_SEARCHES[name]) for name in ("beam", "greedy", "samples")
    ]
    texts = [source.tokens for source in sources]
    given = [([[]] * 20, texts), (texts[::-1], texts)]
    outputs, scores = once(
        lambda: (
            [theirs.search(sources, settings) for settings in searches],
            [theirs.score(*each) for each in given],
        )
    )
    for settings, expected in zip(searches, outputs, strict=True):
        assert_same(ours.search(sources, settings), expected)
    for each, expected in zip(given, scores, strict=True):
        for one, other in zip(ours.score(*each), expected, strict=True):
            assert one == pytest.approx(other, abs=2e-4)
    with pytest.raises(MtkitError, match="needs cross-attention"):
        ours.search(sources, Inference(coverage_penalty=0.1))


@pytest.mark.parametrize(
    "head",
    [
        AlignmentHead(layer=2, at="output"),
        AlignmentHead(layer=1, head=2, at="input"),
        AlignmentHead(layer=2, head=3, at="output"),
    ],
    ids=str,
)
def test_alignments_are_those_of_pytorch(once, head: AlignmentHead) -> None:
    settings = Inference(max_extra_tokens=4, beam_size=3, n_best=3, alignments=True)
    models, sources = [build(), build(2)], draw_sources(20)
    targets = [[5, 6, EOS], [7, EOS]]

    def find(count: int) -> tuple:
        theirs = TorchEngine(models[:count], "cpu", alignment_heads=[head] * count)
        outputs = theirs.search(sources, settings)
        given = [source.tokens for source in sources], [each[0].token_ids for each in outputs]
        return outputs, given, theirs.align(*given), theirs.attend(sources[0].tokens, targets)

    for count, expected in enumerate(once(lambda: [find(1), find(2)]), 1):
        outputs, given, alignments, attention = expected
        ours = native(*models[:count], heads=[head] * count)
        assert_same(ours.search(sources, settings), outputs)
        for one, other in zip(ours.align(*given), alignments, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
        for one, other in zip(ours.attend(sources[0].tokens, targets), attention, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_young_models_end_where_they_repeat_themselves(once, beam_size: int) -> None:
    model, sources = build(), draw_sources(30)
    with torch.no_grad():
        model.output_bias[EOS] = -1.0
    bounds = OutputBounds(length_ratio=5.0, max_repeated=6)
    settings = Inference(max_extra_tokens=40, beam_size=beam_size)
    theirs = TorchEngine(model, "cpu", bounds=bounds)
    expected = once(lambda: theirs.search(sources, settings))
    found = native(model, bounds=bounds).search(sources, settings)
    assert_same(found, expected)
    unbound = native(model).search(sources, settings)
    assert sum(len(each[0].token_ids) for each in unbound) > sum(
        len(each[0].token_ids) for each in found
    )


def test_a_wide_beam_finds_the_best_of_all_outputs(kind: str) -> None:
    # Tokens 0 to 6, of which 0 and 2 are never written: every output of at most 4 tokens.
    model = build(vocab=7, num_heads=1)
    engine, source = native(model), [4, 5, 6, EOS]
    may_follow = [1, 4, 5, 6]
    outputs = [
        (*words, EOS)
        for length in range(4)
        for words in itertools.product(may_follow, repeat=length)
    ]
    outputs += itertools.product(may_follow, repeat=4)
    settings = Inference(
        beam_size=300, n_best=300, max_output_tokens=4, stop_margin=10, max_extra_tokens=9
    )
    with torch.no_grad():
        scores = {
            output: sum(scored) / ((5 + len(output)) / 6) ** 0.6
            for output, scored in zip(
                outputs,
                TorchEngine(model, "cpu").score([source] * len(outputs), outputs),
                strict=True,
            )
        }
    (found,) = engine.search([EncodedSource(source)], settings)
    assert len(found) == 300
    ranked = sorted(outputs, key=lambda output: -scores[output])
    assert [h.token_ids for h in found[:20]] == ranked[:20]
    phrases = ((5, 5), (6,))
    required = EncodedSource(source, required=phrases)
    (found,) = engine.search([required], settings)
    having = [
        each
        for each in ranked
        if 6 in each and any(each[at : at + 2] == (5, 5) for at in range(len(each)))
    ]
    assert found[0].token_ids == having[0]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.6, top_k=4, top_p=0.8),
        Sampling(epsilon=0.05),
        Sampling(top_p=0.9, epsilon=0.08),
    ],
)
def test_samples_follow_the_distribution(sampling: Sampling) -> None:
    model, source = build(), [9, 10, 11, EOS]
    settings = Inference(sampling=sampling, n_best=100, max_output_tokens=1)
    sources = [EncodedSource(source, draw=(number,)) for number in range(100)]
    found = native(model).search(sources, settings)
    counts = Counter(h.token_ids[0] for each in found for h in each)
    scores = TorchEngine(model, "cpu").score([source] * _VOCAB, [[each] for each in range(_VOCAB)])
    logits = np.array([score[0] for score in scores])
    logits[[0, BOS]] = -np.inf
    weights = np.exp((logits - logits.max()) / sampling.temperature)
    order = np.argsort(-weights)
    if sampling.top_k:
        weights[order[sampling.top_k :]] = 0.0
    weights /= weights.sum()
    before = np.cumsum(weights[order]) - weights[order]
    weights[order[before >= sampling.top_p]] = 0.0
    weights[weights < sampling.epsilon * weights.sum()] = 0.0
    expected = weights / weights.sum() * 10_000
    assert all(expected[token] > 0 for token in counts)
    often = expected >= 5
    observed = np.array([counts[token] for token in range(_VOCAB)])
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1e-9))[often].sum()
    # Chi-squared: a mean of the degrees of freedom, and a variance of twice that.
    freedom = often.sum() - 1
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_finite_give_no_output(kind: str, wrong: float) -> None:
    model = build()
    with torch.no_grad():
        model.decoder.layers[1].feed_forward.inner.weight[3, 2] = wrong
    for keys in ({"beam_size": 3}, {"beam_size": 1}, {"sampling": Sampling()}):
        assert native(model).search(draw_sources(3), Inference(**keys)) == [[], [], []]


def test_what_no_output_satisfies(kind: str) -> None:
    everything = tuple((token,) for token in range(_VOCAB))
    (source,) = (replace(each, forbidden=everything) for each in draw_sources(1))
    engine = native(build())
    assert engine.search([source], Inference(beam_size=3)) == [[]]
    ((found,),) = engine.search([source], Inference(beam_size=1))
    assert found.log_probability == -np.inf


def test_limits_and_what_is_refused() -> None:
    engine = native(build(positions="learned", max_positions=5))
    assert engine.max_tokens == 5
    for source in (EncodedSource([7, 8, 9, 10, 11, EOS]), EncodedSource([7, EOS], prefix=(5,) * 5)):
        with pytest.raises(MtkitError, match="of 6 tokens, but the model has only 5 positions"):
            engine.search([source], Inference())
    (found,) = engine.search([EncodedSource([7, 8, 9, 10, EOS])], Inference())
    assert len(found[0].token_ids) <= 5
    with pytest.raises(MtkitError, match="need beam search"):
        engine.search([EncodedSource([7, EOS], required=((5,),))], Inference(sampling=Sampling()))
    with pytest.raises(IndexError, match="has no vector"):
        engine.score([[7, EOS]], [[_VOCAB, EOS]])
    with pytest.raises(IndexError, match="has no vector"):
        engine.search([EncodedSource([-1, EOS])], Inference())


def test_callers_in_threads_and_in_forks() -> None:
    engine, settings = native(build()), Inference(beam_size=3, max_extra_tokens=5)
    sources = draw_sources(40)
    expected = engine.search(sources, settings)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: engine.search(sources, settings), range(8)))
    assert all(each == expected for each in found)
    if hasattr(os, "fork"):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if engine.search(sources, settings) == expected else 1)
        assert os.waitpid(pid, 0)[1] == 0


def test_ctrl_c_ends_a_search() -> None:
    model = build()
    with torch.no_grad():
        model.output_bias[EOS] = -20.0
    engine = native(model)
    before = threading.active_count()
    ctrl_c = threading.main_thread().ident, signal.SIGINT
    timer = threading.Timer(0.3, signal.pthread_kill, ctrl_c)
    timer.start()
    # Some 20 million steps: it would take hours.
    settings = Inference(beam_size=4, max_extra_tokens=10_000)
    with pytest.raises(KeyboardInterrupt):
        engine.search(draw_sources(2_000), settings)
    timer.join()
    # Nothing of it goes on.
    assert threading.active_count() <= before


@pytest.mark.parametrize(
    ("instructions", "precision", "allowed"),
    [
        ("plain", "fp32", "fp32"),
        ("avx2", "fp32", "int8"),
        ("avx512-vnni", "fp32", "int8"),
        ("avx512-bf16", "bf16", "int8"),
        ("amx", "bf16", "int8"),
    ],
)
def test_a_cpu_decides_on_the_precision(
    monkeypatch, instructions: str, precision: str, allowed: str
) -> None:
    monkeypatch.setattr(native_engine, "find_instructions", lambda: instructions)
    model = Model(d_model=128)
    assert choose_native_precision([model], Inference(), "cpu") == precision
    assert choose_native_precision([model], Inference(allow_int8=True), "cpu") == allowed
    assert choose_native_precision([model], Inference(precision="bf16"), "cpu") == "bf16"
    assert choose_native_precision([model], Inference(), "cuda") is None
    assert choose_native_precision([Model(positions="rotary")], Inference(), "cpu") is None
    assert choose_native_precision([Model(attention_window=3)], Inference(), "cpu") is None
