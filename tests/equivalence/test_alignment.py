"""Attention that alignments are read from: transformers' Marian's, and the same by CTranslate2."""

from collections.abc import Callable
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import torch

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.model.alignment_head import AlignmentHead
from mtkit.model.exporters.ctranslate2 import write_ctranslate2
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
def test_ctranslate2_returns_the_same(
    model: EncoderDecoder, head: AlignmentHead, tmp_path: Path
) -> None:
    write_ctranslate2(
        model,
        tmp_path,
        pieces=(PIECES, PIECES),
        max_tokens=12,
        quantization="float32",
        alignment_head=head,
    )
    client = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    ours = TorchEngine(model, "cpu", alignment_heads=[head]).align(SOURCES, TARGETS)
    # CTranslate2 reads no attention of an empty target.
    for source, target, expected in list(zip(SOURCES, TARGETS, ours, strict=True))[:2]:
        forced = [token for token in target if token != EOS]
        result = client.translate_batch(
            [[PIECES[token] for token in source]],
            target_prefix=[[PIECES[token] for token in forced]],
            beam_size=1,
            max_decoding_length=len(forced) + 1,
            return_end_token=True,
            return_attention=True,
        )
        first = head.first_row
        found = np.array(result[0].attention[0])[first : first + len(forced)]
        np.testing.assert_allclose(found, expected[: len(forced)], atol=2e-6)


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
