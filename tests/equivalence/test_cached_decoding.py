"""Decoding step by step with a cache gives the logits of the whole sequence at once."""

import pytest
import torch
from torch import Tensor

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.model import Model

VOCAB_SIZE = 29
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
LENGTHS = [6, 2, 4]

KINDS = {
    "post": {},
    "pre": {"norm": "pre", "activation": "gelu"},
    "learned, untied": {
        "positions": "learned",
        "max_positions": 12,
        "tied_embeddings": "none",
        "activation": "swiglu",
    },
    "rotary": {"positions": "rotary", "d_key": 6, "norm": "pre"},
    "wide values": {"d_key": 4, "d_value": 10, "tied_embeddings": "decoder"},
    "as elsewhere": {
        "sinusoids": "tensor2tensor",
        "first_position": 2,
        "scale_embeddings": False,
        "embedding_norm": True,
        "output_bias": True,
        "activation": "silu",
    },
}
of_every_kind = pytest.mark.parametrize("kind", KINDS)
in_both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def _build(kind: str, dtype: torch.dtype) -> EncoderDecoder:
    torch.manual_seed(5)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "d_model": 24, "d_ff": 32}
    section = Model(**{**sizes, "num_heads": 3, **KINDS[kind]})
    return EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).to(dtype).eval()


def _source() -> tuple[Tensor, PaddedLayout]:
    lengths = torch.tensor(LENGTHS)
    is_token = torch.arange(max(LENGTHS)) < lengths[:, None]
    return torch.randint(VOCAB_SIZE, (len(LENGTHS), max(LENGTHS))), PaddedLayout(is_token)


def _uncached_logits(
    model: EncoderDecoder, source: tuple[Tensor, PaddedLayout], sentences: Tensor, target: Tensor
) -> Tensor:
    """Returns the logits after each row of `target`, whose source is named in `sentences`."""
    layout = PaddedLayout(source[1].is_token[sentences])
    target_layout = PaddedLayout.without_padding(target)
    return model.project(model(source[0][sentences], layout, target, target_layout))[:, -1]


def _uncached_beams(
    model: EncoderDecoder, source: tuple[Tensor, PaddedLayout], sentences: list[int], target: Tensor
) -> Tensor:
    """Returns the same for hypotheses [batch, beam, tgt_len] of the sentences named."""
    batch, beam, _ = target.shape
    named = torch.tensor(sentences).repeat_interleave(beam)
    logits = _uncached_logits(model, source, named, target.flatten(0, 1))
    return logits.view(batch, beam, -1)


@of_every_kind
@in_both_precisions
@pytest.mark.parametrize("beam", [1, 3])
@torch.no_grad()
def test_each_step_gives_the_logits_of_the_whole_prefix(
    kind: str, dtype: torch.dtype, beam: int
) -> None:
    model = _build(kind, dtype)
    source = _source()
    target = torch.randint(VOCAB_SIZE, (3, beam, 7))

    cache = model.start(*source)
    cache.select([0, 1, 2], torch.zeros(3, beam, dtype=torch.long))
    for step in range(target.shape[2]):
        logits = model.step(target[:, :, step], cache)
        expected = _uncached_beams(model, source, [0, 1, 2], target[:, :, : step + 1])
        torch.testing.assert_close(logits, expected, rtol=0, atol=TOLERANCE[dtype])


@of_every_kind
@in_both_precisions
@torch.no_grad()
def test_selected_hypotheses_carry_their_past(kind: str, dtype: torch.dtype) -> None:
    model = _build(kind, dtype)
    source = _source()
    cache = model.start(*source)
    sentences = [0, 1, 2]
    prefix = torch.empty(3, 1, 0, dtype=torch.long)

    def advance() -> None:
        nonlocal prefix
        tokens = torch.randint(VOCAB_SIZE, prefix.shape[:2])
        prefix = torch.cat((prefix, tokens[:, :, None]), dim=2)
        logits = model.step(tokens, cache)
        expected = _uncached_beams(model, source, sentences, prefix)
        torch.testing.assert_close(logits, expected, rtol=0, atol=TOLERANCE[dtype])

    def select(places: list[int], parents: list[list[int]]) -> None:
        nonlocal prefix, sentences
        cache.select(places, torch.tensor(parents))
        sentences = [sentences[place] for place in places]
        prefix = torch.stack(
            [prefix[place][row] for place, row in zip(places, parents, strict=True)]
        )

    advance()
    # One hypothesis becomes three, as after a beam search's first step.
    select([0, 1, 2], [[0, 0, 0]] * 3)
    advance()
    advance()
    # Reordered within each sentence; some live twice, others die.
    select([0, 1, 2], [[2, 0, 0], [0, 2, 1], [1, 1, 1]])
    advance()
    # The second sentence is finished, and the others change places and keep two hypotheses.
    select([2, 0], [[2, 0], [0, 2]])
    assert sentences == [2, 0]
    advance()
    select([0, 1], [[1, 0], [0, 0]])
    advance()
    # The first is finished, and the last takes its place; one hypothesis is left.
    select([1], [[1]])
    advance()
    # It becomes several again.
    select([0], [[0, 0]])
    advance()
    advance()


@torch.no_grad()
def test_sentences_selected_before_any_step_do_no_harm() -> None:
    model = _build("post", torch.float64)
    source = _source()
    cache = model.start(*source)
    cache.select([1, 1, 0], torch.zeros(3, 1, dtype=torch.long))
    tokens = torch.tensor([[3], [4], [5]])

    logits = model.step(tokens, cache)

    expected = _uncached_beams(model, source, [1, 1, 0], tokens[:, :, None])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_two_caches_of_one_model_are_strangers() -> None:
    model = _build("post", torch.float64)
    source = _source()
    first, second = model.start(*source), model.start(*source)
    target = torch.randint(VOCAB_SIZE, (3, 1, 3))
    model.step(target[:, :, 0], first)
    # One loses a sentence: the other's source stays as it was.
    first.select([2, 1], torch.zeros(2, 1, dtype=torch.long))
    logits_of_second = model.step(target[:, :, 1], second)
    logits_of_first = model.step(target[[2, 1], :, 2], first)

    expected = _uncached_beams(model, source, [0, 1, 2], target[:, :, 1:2])
    torch.testing.assert_close(logits_of_second, expected, rtol=0, atol=1e-12)
    expected = _uncached_beams(model, source, [2, 1], target[[2, 1]][:, :, [0, 2]])
    torch.testing.assert_close(logits_of_first, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_attention_that_is_kept_is_what_the_last_layer_used() -> None:
    model = _build("post", torch.float64)
    source = _source()
    cache = model.start(*source)
    cache.keeps_attention = True
    model.step(torch.tensor([[3], [4], [5]]), cache)
    kept = cache.source_attention
    assert kept is not None
    assert kept.shape == (3, 1, max(LENGTHS))
    torch.testing.assert_close(kept.sum(dim=-1), torch.ones(3, 1))
    assert kept[:, 0].ne(0.0).equal(source[1].is_token)

    # With one value of 1 per source position, attention returns its own weights.
    attention = model.decoder.layers[-1].cross_attention
    layer = cache.layers[-1]
    place = 1
    layer.source_values = torch.zeros_like(layer.source_values)
    layer.source_values[:, :, place] = 1.0
    inputs = torch.randn(3, 1, 24, dtype=torch.float64)
    seen = {}
    attention.output.register_forward_pre_hook(lambda _, given: seen.update(heads=given[0]))
    attention.step(inputs, cache, layer)
    weights = seen["heads"].view(3, 1, 3, -1)[..., 0].mean(dim=-1)
    torch.testing.assert_close(
        cache.source_attention[:, :, place], weights.float(), rtol=0, atol=1e-6
    )
