"""What the engine does at its limits: thousands of phrases, wide beams, wrong tokens."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from mtkit.engine import search
from mtkit.engine.library import choose_library
from mtkit.engine.search import Member, Request
from mtkit.inference.engines.engine import EncodedSource
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import BOS, EOS

from .workload import VOCAB, draw_sources, make_engine, make_network

pytestmark = pytest.mark.skipif(choose_library() is None, reason="installed without a C++ compiler")


def contains(tokens: tuple[int, ...], phrase: tuple[int, ...]) -> bool:
    return any(tokens[at : at + len(phrase)] == phrase for at in range(len(tokens)))


def test_an_output_contains_hundreds_of_phrases() -> None:
    draws = np.random.default_rng(3)
    phrases = tuple({tuple(each) for each in draws.integers(4, 4_000, (300, 3)).tolist()})
    engine = make_engine(vocab=4_000, num_threads=1)
    source = EncodedSource([7, 8, EOS], required=phrases)
    ((found,),) = engine.search([source], Inference(beam_size=2, max_extra_tokens=0))
    assert all(contains(found.token_ids, phrase) for phrase in phrases)


def test_no_output_contains_any_of_thousands_of_phrases() -> None:
    phrases = tuple(itertools.product(range(4, VOCAB - 4), repeat=2))[: 30 * 30]
    phrases += tuple((token,) for token in range(20, 30)) * 300
    engine = make_engine(num_threads=1)
    sources = [replace(each, forbidden=phrases) for each in draw_sources(5)]
    found = engine.search(sources, Inference(beam_size=3, max_extra_tokens=10))
    for (each,) in found:
        assert not any(contains(each.token_ids, phrase) for phrase in set(phrases))


def test_a_beam_of_a_thousand_has_the_best_first() -> None:
    # Logits that rise with the token: the last ones are best, in any order of arrival.
    vocab = 3_000
    weights = {"output_bias": np.linspace(-9.0, 9.0, vocab, dtype=np.float32)}
    rising, _ = make_network(
        vocab=vocab,
        tied_embeddings="none",
        change=lambda name, weight: weights.get(name, weight * (name != "output_embedding.weight")),
    )
    request = Request((5, EOS), (BOS,), 1)
    settings = Inference(beam_size=1_000, n_best=1_000)
    (found,) = search.search([Member(rising)], [request], settings, 1)
    assert [each.tokens[0] for each in found] == list(range(vocab - 1, vocab - 1_001, -1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prefix": (VOCAB,)}, f"token {VOCAB}, but the network has {VOCAB} tokens"),
        ({"prefix": (-1,)}, "token -1,"),
        ({"required": ((5, VOCAB),)}, f"token {VOCAB},"),
        ({"forbidden": ((2**62,),)}, "token 4611686018427387904,"),
        ({"tokens": (2**70, EOS)}, "more than 64 bits"),
        ({"tokens": ()}, "an empty source"),
    ],
)
def test_wrong_tokens_are_reported(change: dict, message: str) -> None:
    source = replace(EncodedSource((7, EOS)), **change)
    with pytest.raises(IndexError, match=message):
        make_engine().search([source], Inference(beam_size=2))


def test_an_output_needs_room() -> None:
    member = Member(make_network()[0])
    with pytest.raises(IndexError, match="an output of no tokens"):
        search.search([member], [Request((7, EOS), (BOS,), 0)], Inference(), 1)


def test_empty_phrases_change_nothing() -> None:
    engine, (source,) = make_engine(), draw_sources(1)
    settings = Inference(beam_size=3)
    expected = engine.search([source], settings)
    empty = replace(source, required=((),), forbidden=((), ()))
    assert engine.search([empty], settings) == expected


def test_tokens_of_probability_0_in_both_members_of_an_ensemble() -> None:
    def forbid(name: str, weight: np.ndarray) -> np.ndarray:
        if name == "output_bias":
            weight[[4, VOCAB - 1]] = -np.inf
        return weight

    engine = make_engine(1, 2, change=forbid)
    for keys in ({"beam_size": 60, "n_best": 60}, {"beam_size": 1}):
        found = engine.search(draw_sources(5), Inference(max_extra_tokens=5, **keys))
        outputs = [each for of_source in found for each in of_source]
        assert outputs
        assert all(np.isfinite(each.log_probability) for each in outputs)
        assert not any({4, VOCAB - 1} & {*each.token_ids} for each in outputs)


def test_a_failing_call_leaves_its_threads_usable() -> None:
    engine, settings = make_engine(num_threads=3), Inference(beam_size=3, max_extra_tokens=5)
    sources = draw_sources(60)
    expected = engine.search(sources, settings)
    for _ in range(20):
        with pytest.raises(IndexError, match="has no vector"):
            engine.search([*sources, EncodedSource((VOCAB, EOS))], settings)
    assert engine.search(sources, settings) == expected
