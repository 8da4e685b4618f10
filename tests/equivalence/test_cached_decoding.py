"""Decoding step by step with a cache gives the logits of the whole sequence at once."""

import pytest
import torch
from torch import Tensor

from mtkit.model import EncoderDecoder
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
    "wide values": {"d_key": 4, "d_value": 10, "tied_embeddings": "decoder"},
}
of_every_kind = pytest.mark.parametrize("kind", KINDS)
in_both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def _build(kind: str, dtype: torch.dtype) -> EncoderDecoder:
    torch.manual_seed(5)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "d_model": 24, "d_ff": 32}
    section = Model(**{**sizes, "num_heads": 3, **KINDS[kind]})
    return EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).to(dtype).eval()


def _source() -> tuple[Tensor, Tensor]:
    lengths = torch.tensor(LENGTHS)
    is_token = torch.arange(max(LENGTHS)) < lengths[:, None]
    return torch.randint(VOCAB_SIZE, (len(LENGTHS), max(LENGTHS))), is_token


def _uncached_logits(
    model: EncoderDecoder, source: tuple[Tensor, Tensor], sentences: Tensor, target: Tensor
) -> Tensor:
    """Returns the logits after each row of `target`, whose source is named in `sentences`."""
    return model.project(model(source[0][sentences], source[1][sentences], target))[:, -1]


@of_every_kind
@in_both_precisions
@pytest.mark.parametrize("beam", [1, 3])
@torch.no_grad()
def test_each_step_gives_the_logits_of_the_whole_prefix(
    kind: str, dtype: torch.dtype, beam: int
) -> None:
    model = _build(kind, dtype)
    source = _source()
    sentences = torch.arange(3).repeat_interleave(beam)
    target = torch.randint(VOCAB_SIZE, (3 * beam, 7))

    cache = model.start(*source)
    for step in range(target.shape[1]):
        logits = model.step(target[:, step], cache)
        expected = _uncached_logits(model, source, sentences, target[:, : step + 1])
        torch.testing.assert_close(logits, expected, rtol=0, atol=TOLERANCE[dtype])


@of_every_kind
@in_both_precisions
@torch.no_grad()
def test_selected_rows_and_sentences_carry_their_past(kind: str, dtype: torch.dtype) -> None:
    model = _build(kind, dtype)
    source = _source()
    cache = model.start(*source)
    sentences = torch.arange(3)
    prefix = torch.empty(3, 0, dtype=torch.long)

    def advance() -> None:
        nonlocal prefix
        tokens = torch.randint(VOCAB_SIZE, (len(prefix),))
        prefix = torch.cat((prefix, tokens[:, None]), dim=1)
        logits = model.step(tokens, cache)
        expected = _uncached_logits(model, source, sentences, prefix)
        torch.testing.assert_close(logits, expected, rtol=0, atol=TOLERANCE[dtype])

    def select_rows(rows: list[int]) -> None:
        nonlocal prefix, sentences
        cache.select_rows(torch.tensor(rows))
        prefix, sentences = prefix[rows], sentences[rows]

    advance()
    # One hypothesis becomes three, as after a beam search's first step.
    select_rows([0, 0, 0, 1, 1, 1, 2, 2, 2])
    advance()
    advance()
    # Reordered within each sentence; some live twice, others die.
    select_rows([2, 0, 0, 3, 5, 4, 7, 7, 7])
    advance()
    # The second sentence is finished, and the others change places and keep two hypotheses.
    cache.select_sentences(torch.tensor([2, 0]))
    select_rows([8, 6, 0, 2])
    assert sentences.tolist() == [2, 2, 0, 0]
    advance()
    select_rows([1, 0, 2, 2])
    advance()
    # One sentence and one hypothesis are left.
    cache.select_sentences(torch.tensor([1]))
    select_rows([3])
    advance()


@torch.no_grad()
def test_rows_selected_before_any_step_do_no_harm() -> None:
    model = _build("post", torch.float64)
    source = _source()
    cache = model.start(*source)
    cache.select_sentences(torch.tensor([1, 1, 0]))
    cache.select_rows(torch.tensor([1, 1, 0]))
    tokens = torch.tensor([3, 4, 5])

    logits = model.step(tokens, cache)

    expected = _uncached_logits(model, source, torch.tensor([1, 1, 0]), tokens[:, None])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_two_caches_of_one_model_are_strangers() -> None:
    model = _build("post", torch.float64)
    source = _source()
    first, second = model.start(*source), model.start(*source)
    target = torch.randint(VOCAB_SIZE, (3, 3))
    model.step(target[:, 0], first)
    logits_of_second = model.step(target[:, 1], second)
    logits_of_first = model.step(target[:, 2], first)

    sentences = torch.arange(3)
    expected = _uncached_logits(model, source, sentences, target[:, 1:2])
    torch.testing.assert_close(logits_of_second, expected, rtol=0, atol=1e-12)
    expected = _uncached_logits(model, source, sentences, target[:, [0, 2]])
    torch.testing.assert_close(logits_of_first, expected, rtol=0, atol=1e-12)
