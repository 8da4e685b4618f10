"""A causal model that decodes step by step with a cache gives the logits of whole texts at once."""

import pytest
import torch
from torch import Tensor

from mtkit.network import CausalLanguageModel, PaddedLayout
from mtkit.recipe.model import Model

VOCAB_SIZE = 29
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}

KINDS = {
    "gpt": {
        "positions": "learned",
        "max_positions": 12,
        "scale_embeddings": False,
        "activation": "gelu_tanh",
    },
    "pre": {"norm": "pre", "activation": "swiglu", "tied_embeddings": "none"},
    "restricted": {"attention_window": 2, "output_bias": True},
    "wide values": {"d_key": 4, "d_value": 10, "embedding_norm": True},
}
of_every_kind = pytest.mark.parametrize("kind", KINDS)
in_both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def _build(kind: str, dtype: torch.dtype) -> CausalLanguageModel:
    torch.manual_seed(5)
    sizes = {"num_decoder_layers": 2, "d_model": 24, "d_ff": 32}
    section = Model(**{**sizes, "num_heads": 3, **KINDS[kind]})
    return CausalLanguageModel(section, VOCAB_SIZE).to(dtype).eval()


def _uncached(model: CausalLanguageModel, prefix: Tensor) -> Tensor:
    """Returns the logits after each of the hypotheses [batch, beam, length]."""
    tokens = prefix.flatten(0, 1)
    logits = model.project(model(tokens, PaddedLayout.without_padding(tokens)))[:, -1]
    return logits.view(*prefix.shape[:2], -1)


@of_every_kind
@in_both_precisions
@pytest.mark.parametrize("beam", [1, 3])
@torch.no_grad()
def test_each_step_gives_the_logits_of_the_whole_prefix(
    kind: str, dtype: torch.dtype, beam: int
) -> None:
    model = _build(kind, dtype)
    prefix = torch.randint(VOCAB_SIZE, (3, beam, 12))
    cache = model.start(3, torch.device("cpu"))
    cache.select([0, 1, 2], torch.zeros(3, beam, dtype=torch.long))
    for step in range(prefix.shape[2]):
        logits = model.step(prefix[:, :, step], cache)
        expected = _uncached(model, prefix[:, :, : step + 1])
        torch.testing.assert_close(logits, expected, rtol=0, atol=TOLERANCE[dtype])


@of_every_kind
@in_both_precisions
@torch.no_grad()
def test_selected_hypotheses_carry_their_past(kind: str, dtype: torch.dtype) -> None:
    model = _build(kind, dtype)
    cache = model.start(3, torch.device("cpu"))
    prefix = torch.empty(3, 1, 0, dtype=torch.long)

    def advance() -> None:
        nonlocal prefix
        tokens = torch.randint(VOCAB_SIZE, prefix.shape[:2])
        prefix = torch.cat((prefix, tokens[:, :, None]), dim=2)
        logits = model.step(tokens, cache)
        torch.testing.assert_close(logits, _uncached(model, prefix), rtol=0, atol=TOLERANCE[dtype])

    def select(sentences: list[int], parents: list[list[int]]) -> None:
        nonlocal prefix
        cache.select(sentences, torch.tensor(parents))
        kept = [prefix[index][rows] for index, rows in zip(sentences, parents, strict=True)]
        prefix = torch.stack(kept)

    advance()
    # As in a beam search: one becomes three, which are reordered, and texts come to their end.
    select([0, 1, 2], [[0, 0, 0]] * 3)
    advance()
    advance()
    select([0, 1, 2], [[2, 0, 0], [0, 2, 1], [1, 1, 1]])
    advance()
    select([2, 0], [[2, 0], [0, 2]])
    advance()
    advance()
    select([1], [[1]])
    advance()
    select([0], [[0, 0]])
    advance()


@torch.no_grad()
def test_a_text_past_the_learned_positions_is_refused() -> None:
    model = _build("gpt", torch.float32)
    cache = model.start(1, torch.device("cpu"))
    for _ in range(12):
        model.step(torch.tensor([[5]]), cache)
    with pytest.raises(ValueError, match="position 12 requested"):
        model.step(torch.tensor([[5]]), cache)
