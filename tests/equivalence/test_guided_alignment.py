"""A guided head's loss and gradients are those of torch.nn's weights and cross entropy."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS
from mtkit.training.loss import AlignmentGuide, measure_translation

from ..padded import pad_pairs

VOCAB_SIZE, WEIGHT, SMOOTHING = 23, 0.7, 0.1
SOURCES = Ragged.of([[7, 8, 9, EOS], [9, EOS], [5, 6, 7, 8, 4, EOS], [4, 4, EOS]])
TARGETS = Ragged.of([[5, 6, EOS], [6, 4, 5, EOS], [7, EOS], [8, 9, EOS]])
LINKS: list[list[tuple[int, int]]] = [
    # Source and target token; the second target token has two source tokens, the last pair none.
    [(1, 0), (0, 1), (2, 1)],
    [(0, 0), (0, 2)],
    [(4, 0)],
    [],
]
UNIQUE = [(0, 1, 0), (1, 0, 0), (1, 0, 2), (2, 4, 0)]
"""Pair, source and target token of those links that are their target token's only one."""
FLAT = Ragged.of([[number for link in row for number in link] for row in LINKS])


def make_model(**keys: object) -> EncoderDecoder:
    torch.manual_seed(4)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 3, "d_model": 16, "d_ff": 24}
    section = Model(**{**sizes, "num_heads": 2, "dropout": 0.0, **keys})
    return EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).double()


def collate(kind: str) -> TranslationBatch:
    match kind:
        case "padded":
            return pad_pairs(SOURCES, TARGETS)
        case "packed":
            return pack(SOURCES, TARGETS)
        case _:
            return lay_out(SOURCES, TARGETS, [1, 2, 1], row_step=8)


def find_gradients(model: EncoderDecoder, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in model.named_parameters()
    }


def attend_by_torch(model: EncoderDecoder, layer: int, head: int) -> tuple[Tensor, Tensor]:
    """Returns a padded batch's decoder states, and a head's weights by torch.nn."""
    batch = pad_pairs(SOURCES, TARGETS)
    attention = model.decoder.layers[layer - 1].cross_attention
    seen = []
    hook = attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    states = model(
        batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout
    )
    hook.remove()
    inputs, _, memory, memory_layout = seen[0][:4]
    width = attention.widths[0]
    theirs = nn.MultiheadAttention(model.model.d_model, model.model.num_heads, batch_first=True)
    key_value = attention.key_value
    # Biases of keys have no gradient in ours; torch.nn's softmax leaves rounding of one.
    biases = (attention.query.bias, key_value.bias[:width].detach(), key_value.bias[width:])
    weights = {
        "in_proj_weight": torch.cat((attention.query.weight, key_value.weight)),
        "in_proj_bias": torch.cat(biases),
        "out_proj.weight": attention.output.weight,
        "out_proj.bias": attention.output.bias,
    }
    _, found = functional_call(
        theirs.double(),
        weights,
        (inputs, memory, memory),
        {
            "key_padding_mask": ~memory_layout.is_token,
            "need_weights": True,
            "average_attn_weights": False,
        },
    )
    return states[batch.target_layout.is_token], found[:, head - 1]


@pytest.mark.parametrize("kind", ["padded", "packed", "grids"])
@pytest.mark.parametrize(("layer", "head", "first_row"), [(2, 1, 0), (3, 2, 1), (1, 2, 0)])
def test_loss_and_gradients_are_torch_nns(kind: str, layer: int, head: int, first_row: int) -> None:
    model = make_model(norm="pre")
    states, weights = attend_by_torch(model, layer, head)
    logits = states @ model.output_embedding.weight.T
    expected = nn.functional.cross_entropy(
        logits, torch.from_numpy(TARGETS.tokens), label_smoothing=SMOOTHING, reduction="sum"
    )
    for row, links in enumerate(LINKS):
        for source, target in links:
            num_sources = sum(other == target for _, other in links)
            guided = weights[row, target + first_row, source].log() / num_sources
            expected = expected - WEIGHT * guided
    expected_gradients = find_gradients(model, expected)
    batch = collate(kind).link(FLAT, first_row=first_row)
    guide = AlignmentGuide(layer, head, WEIGHT)
    found = measure_translation(model, batch, label_smoothing=SMOOTHING, guide=guide)
    torch.testing.assert_close(found.loss, expected, rtol=1e-10, atol=0.0)
    for name, gradient in find_gradients(model, found.loss).items():
        torch.testing.assert_close(
            gradient, expected_gradients[name], rtol=0.0, atol=1e-10, msg=name
        )


def test_the_head_learns_its_links() -> None:
    # 60 updates of Adam: by chance a link would have a third of the weight or less.
    shares = {}
    for name, guide in {"guided": AlignmentGuide(2, 1, WEIGHT), "plain": None}.items():
        model = make_model(norm="pre").float()
        batch = collate("padded").link(FLAT, first_row=0)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(60):
            optimizer.zero_grad()
            sums = measure_translation(model, batch, label_smoothing=SMOOTHING, guide=guide)
            sums.loss.backward()
            optimizer.step()
        with torch.no_grad():
            weights = attend_by_torch(model.double(), 2, 1)[1]
        shares[name] = [weights[row, target, source].item() for row, source, target in UNIQUE]
    assert min(shares["guided"]) > 0.9
    assert min(shares["plain"]) < 0.5


def test_without_links_the_loss_is_the_translators() -> None:
    model = make_model()
    empty = Ragged(np.zeros(0, np.int64), np.zeros(4, np.int64))
    batch = collate("grids").link(empty, first_row=0)
    plain = measure_translation(model, batch, label_smoothing=SMOOTHING)
    guide = AlignmentGuide(2, 1, WEIGHT)
    guided = measure_translation(model, batch, label_smoothing=SMOOTHING, guide=guide)
    assert guided.loss.item() == plain.loss.item()
    gradients = find_gradients(model, guided.loss)
    assert all(gradient.isfinite().all() for gradient in gradients.values())


def test_in_bfloat16_it_is_near() -> None:
    model = make_model(norm="pre")
    batch = collate("grids").link(FLAT, first_row=0)
    guide = AlignmentGuide(2, 1, WEIGHT)
    losses = [
        measure_translation(
            model.to(dtype), batch, label_smoothing=SMOOTHING, guide=guide
        ).loss.item()
        for dtype in (torch.float64, torch.bfloat16)
    ]
    # bfloat16 has 8 binary digits.
    assert losses[1] == pytest.approx(losses[0], rel=2**-6)


def test_a_link_beyond_its_sentences() -> None:
    for links in ([0, 9], [9, 0]):
        flat = Ragged.of([links, [], [], []])
        with pytest.raises(ValueError, match="beyond"):
            collate("grids").link(flat, first_row=0)
