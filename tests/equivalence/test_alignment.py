"""Attention that alignments are read from: transformers' Marian's, and the same by CTranslate2."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.inference.engines.ctranslate2_engine import CTranslate2Engine
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.model.alignment_head import AlignmentHead, default_head
from mtkit.model.exporters.ctranslate2 import write_ctranslate2
from mtkit.model.exporters.ctranslate2_weights import check_network
from mtkit.network import EncoderDecoder
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS

VOCAB_SIZE = 40
PIECES = ["<pad>", "<unk>", "<s>", "</s>", *(f"p{index}" for index in range(4, VOCAB_SIZE))]
SOURCES = [[5, 9, 7, 30, EOS], [8, EOS], [11, 12, 13, 14, 15, 16, EOS]]
# The second was cut at a length limit; the last is empty.
TARGETS = [[6, 7, 8, EOS], [20, 21, 22, 23, 24], [EOS]]
HEADS = [
    AlignmentHead(layer=3, at="output"),
    AlignmentHead(layer=2, at="input"),
    AlignmentHead(layer=1, head=3, at="input"),
    AlignmentHead(layer=3, head=4, at="output"),
]


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    torch.manual_seed(20)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 3, "d_model": 32, "d_ff": 64}
    network = EncoderDecoder(Model(**sizes, num_heads=4), VOCAB_SIZE, VOCAB_SIZE)
    with torch.no_grad():
        for parameter in network.parameters():
            # Larger, so that heads differ from an even spread.
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return network.eval()


@pytest.mark.parametrize("head", HEADS)
@torch.no_grad()
def test_a_tokens_row_is_marians(
    model: EncoderDecoder, marian_twin: Callable, head: AlignmentHead
) -> None:
    twin = marian_twin(model)
    twin.set_attn_implementation("eager")
    found = TorchEngine(model, "cpu", alignment_heads=[head]).align(SOURCES, TARGETS)
    for source, target, weights in zip(SOURCES, TARGETS, found, strict=True):
        inputs = [BOS, *(token for token in target if token != EOS)]
        theirs = twin(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([inputs]),
            output_attentions=True,
        ).cross_attentions[head.layer - 1][0]
        chosen = theirs.mean(dim=0) if head.head is None else theirs[head.head - 1]
        expected = chosen[1:] if head.at == "input" else chosen[:-1]
        assert weights.shape == (len(target), len(source))
        np.testing.assert_allclose(weights[: len(expected)], expected, atol=1e-5)
        assert not weights[len(expected) :].any()


@pytest.mark.parametrize("head", HEADS)
def test_ctranslate2_says_the_same(
    model: EncoderDecoder, head: AlignmentHead, tmp_path: Path
) -> None:
    files = {}
    for name, chosen in {"chosen": head, "plain": None}.items():
        files[name] = tmp_path / name
        files[name].mkdir()
        write_ctranslate2(
            model,
            files[name],
            pieces=(PIECES, PIECES),
            max_tokens=12,
            quantization="float32",
            alignment_head=chosen,
        )
    sizes = (VOCAB_SIZE, VOCAB_SIZE)
    check_network(files["chosen"] / "model.bin", model.model, sizes, 12, head)
    if head != default_head(model.model):
        with pytest.raises(MtkitError, match="alignment_"):
            check_network(files["chosen"] / "model.bin", model.model, sizes, 12)
    is_default = head == default_head(model.model)
    engine = CTranslate2Engine(files["chosen"], alignment_head=None if is_default else head)
    ours = TorchEngine(model, "cpu", alignment_heads=[head]).align(SOURCES, TARGETS)
    for found, expected in zip(engine.align(SOURCES, TARGETS), ours, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-6)
    # Moving a head changes the order of a sum alone.
    plain = CTranslate2Engine(files["plain"])
    for found, expected in zip(
        engine.score(SOURCES, TARGETS), plain.score(SOURCES, TARGETS), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    if not is_default:
        with pytest.raises(MtkitError, match="coverage_penalty"):
            engine.search([EncodedSource(SOURCES[0])], Inference(coverage_penalty=0.2))


def test_as_long_as_the_positions_reach(model: EncoderDecoder, tmp_path: Path) -> None:
    head = AlignmentHead(layer=1, head=2, at="input")
    write_ctranslate2(
        model,
        tmp_path,
        pieces=(PIECES, PIECES),
        max_tokens=8,
        quantization="float32",
        alignment_head=head,
    )
    longest = [[*range(4, 11), EOS]], [[*range(4, 12)]]
    [ours] = TorchEngine(model, "cpu", alignment_heads=[head]).align(*longest)
    [theirs] = CTranslate2Engine(tmp_path, alignment_head=head).align(*longest)
    # The last token is none of eight inputs that begin with <s>.
    np.testing.assert_allclose(theirs[:7], ours[:7], atol=2e-6)
    assert not theirs[7].any()


def test_ctranslate2_says_the_same_of_many_sentences(model: EncoderDecoder, tmp_path: Path) -> None:
    """More than a thread aligns together, of all lengths."""
    head = AlignmentHead(layer=2, head=1, at="input")
    pieces = (PIECES, PIECES)
    write_ctranslate2(
        model,
        tmp_path,
        pieces=pieces,
        max_tokens=60,
        quantization="float32",
        alignment_head=head,
    )
    rng = np.random.default_rng(3)
    sources, targets = (
        [[*rng.integers(4, VOCAB_SIZE, rng.integers(1, 50)).tolist(), EOS] for _ in range(70)]
        for _ in range(2)
    )
    ours = TorchEngine(model, "cpu", alignment_heads=[head]).align(sources, targets)
    theirs = CTranslate2Engine(tmp_path, alignment_head=head).align(sources, targets)
    for found, expected in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "settings",
    [
        Inference(beam_size=3, n_best=3, alignments=True, max_extra_tokens=4),
        Inference(beam_size=1, alignments=True, max_extra_tokens=4),
    ],
)
def test_what_comes_with_the_search_is_what_its_outputs_are_given_alone(
    model: EncoderDecoder, head: AlignmentHead, settings: Inference
) -> None:
    """Of an ensemble, with tokens that begin each output and that are left out of it."""
    torch.manual_seed(21)
    other = EncoderDecoder(model.model, VOCAB_SIZE, VOCAB_SIZE).eval()
    engine = TorchEngine([model, other], "cpu", alignment_heads=[head, head])
    begin = (6, 7)
    sources = [EncodedSource(tokens, begin=begin) for tokens in SOURCES]
    found = engine.search(sources, settings)
    assert [len(each) for each in found] == [settings.n_best] * 3
    for source, of_source in zip(SOURCES, found, strict=True):
        for hypothesis in of_source:
            [expected] = engine.align([source], [[*begin, *hypothesis.token_ids]])
            assert hypothesis.alignment_weights is not None
            np.testing.assert_allclose(hypothesis.alignment_weights, expected[2:], atol=1e-6)
    plain = engine.search(sources, settings.model_copy(update={"alignments": False}))
    assert plain == found
    assert all(each.alignment_weights is None for of_source in plain for each in of_source)


@pytest.mark.parametrize(
    ("beam_size", "head"),
    [
        (beam_size, head)
        if number in (0, len(HEADS) - 1)
        else pytest.param(beam_size, head, marks=pytest.mark.patient)
        for beam_size in (1, 4)
        for number, head in enumerate(HEADS)
    ],
)
def test_ctranslate2_tells_with_the_search_what_marian_does(
    model: EncoderDecoder, head: AlignmentHead, beam_size: int, tmp_path: Path
) -> None:
    """Of many sentences together: of each first step too, which its beam search mixes up."""
    ending = copy.deepcopy(model)
    with torch.no_grad():
        # So that outputs end, some sooner than others.
        ending.output_embedding.weight[EOS] *= 2.0
    write_ctranslate2(
        ending,
        tmp_path,
        pieces=(PIECES, PIECES),
        max_tokens=60,
        quantization="float32",
        alignment_head=head,
    )
    is_default = head == default_head(model.model)
    engine = CTranslate2Engine(tmp_path, alignment_head=None if is_default else head)
    rng = np.random.default_rng(4)
    tokens = [[*rng.integers(4, VOCAB_SIZE, rng.integers(1, 20)).tolist(), EOS] for _ in range(70)]
    begin = (6, 7)
    sources = [EncodedSource(each, begin=begin) for each in tokens]
    settings = Inference(beam_size=beam_size, n_best=beam_size, max_extra_tokens=4)
    found = engine.search(sources, settings.model_copy(update={"alignments": True}))
    marians = TorchEngine(ending, "cpu", alignment_heads=[head])
    num_told = 0
    for source, of_source in zip(tokens, found, strict=True):
        for each in of_source:
            if each.alignment_weights is None:
                # The step behind a last token is never taken.
                assert head.at == "input"
                assert not each.is_finished
                continue
            [expected] = marians.align([source], [[*begin, *each.token_ids]])
            np.testing.assert_allclose(each.alignment_weights, expected[2:], atol=1e-5)
            num_told += 1
    assert num_told > 20
    assert engine.search(sources, settings) == found
