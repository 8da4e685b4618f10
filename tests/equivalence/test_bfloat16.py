"""bf16 and fp16 stay near fp32: a working copy's loss and gradients, and translations."""

import random

import numpy as np
import pytest
import torch
from torch import Tensor

from mtkit.data.batches.collate import (
    MaskedBatch,
    collate_text,
    lay_out,
    lay_out_side,
    spread_tokens,
)
from mtkit.data.batches.ragged import Ragged
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.network import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel, Network
from mtkit.network.projecting import copy_in
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS
from mtkit.training.loss import measure_causal, measure_masked, measure_translation
from mtkit.training.precision import WorkingCopy

from .half_trained import draw_sources, encoded, half_trained_model

VOCAB_SIZE = 61
KINDS = {
    "post": {},
    "pre": {"norm": "pre", "activation": "swiglu", "positions": "learned", "max_positions": 40},
    "untied": {"tied_embeddings": "none", "d_key": 4, "d_value": 10},
    "restricted": {"attention_window": 3},
    "rotary": {"positions": "rotary", "norm": "pre"},
    "learned": {"positions": "learned", "max_positions": 24, "activation": "gelu"},
    "tied by decoder": {"tied_embeddings": "decoder"},
    "as elsewhere": {
        "sinusoids": "tensor2tensor",
        "first_position": 2,
        "scale_embeddings": False,
        "embedding_norm": True,
        "output_bias": True,
        "activation": "silu",
    },
}
FEW = ("pre", "restricted", "as elsewhere")
"""Of which a processor without bf16 needs seconds for a thousand sentences."""


ROUNDING = {"bf16": 2**-9, "fp16": 2**-12}
"""One rounding: bfloat16 keeps 8 bits, fp16 11."""


@pytest.mark.parametrize("precision", ROUNDING)
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_near_fp32_s(kind: str, precision: str) -> None:
    torch.manual_seed(21)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 32, "d_ff": 64}
    # A ReLU whose input is nearly 0 may take the other side: that isn't a rounding.
    smooth = {"activation": "gelu"} if precision == "fp16" else {}
    section = Model(**{**sizes, "num_heads": 4, "dropout": 0.0, **smooth, **KINDS[kind]})
    model = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE)
    lengths = torch.randint(1, 14, (2, 40)).tolist()
    sides = [
        Ragged.of([[*torch.randint(4, VOCAB_SIZE, (n,)).tolist(), EOS] for n in side])
        for side in lengths
    ]
    batch = lay_out(*sides, [25, 15], row_step=64)
    expected = measure_translation(model, batch, label_smoothing=0.1)
    expected.loss.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    working = WorkingCopy(model, precision)
    found = measure_translation(working.model, batch, label_smoothing=0.1)
    found.loss.backward()
    working.accumulate_gradients()
    # The loss is a mean over hundreds of tokens; a gradient has gone through some dozen roundings.
    rounding = ROUNDING[precision]
    assert found.loss.dtype == torch.float32
    assert found.loss.item() == pytest.approx(expected.loss.item(), rel=rounding)
    assert found.loss.item() != expected.loss.item()
    whole = torch.cat([gradient.flatten() for gradient in gradients.values()])
    ours = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    assert ours.dtype == torch.float32
    assert (ours - whole).norm() <= 16 * rounding * whole.norm()


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        pytest.param(kind, precision, marks=() if kind in few else pytest.mark.patient)
        for precision, few in (("bf16", FEW), ("fp16", FEW[:1]))
        for kind in KINDS
    ],
)
def test_each_tensor_s_gradient_keeps_its_digits_over_a_thousand_sentences(
    kind: str, precision: str
) -> None:
    # PyTorch's kernels for norms and for look-ups sum up in bfloat16: 10 to 90 % off in the worst
    # tensor, which the norm of all gradients together hides.
    torch.manual_seed(23)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 32, "d_ff": 64}
    section = Model(**{**sizes, "num_heads": 4, "dropout": 0.0, **KINDS[kind]})
    model = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE)
    working = WorkingCopy(model, precision)
    # One token in two is the same, as punctuation is; lengths as captions have them.
    sides = []
    for _ in range(2):
        lengths = torch.randint(8, 24, (1_600,)).sort().values.tolist()
        rows = [torch.randint(4, VOCAB_SIZE, (length,)) for length in lengths]
        for row in rows:
            row[::2] = 7
        sides.append(Ragged.of([[*row.tolist(), EOS] for row in rows]))
    batch = lay_out(*sides, [800, 400, 400], row_step=64)
    gradients = {}
    for name, network in (("fp32", model), (precision, working.model)):
        model.zero_grad(set_to_none=True)
        measure_translation(network, batch, label_smoothing=0.1).loss.backward()
        working.accumulate_gradients()
        gradients[name] = {key: weight.grad for key, weight in model.named_parameters()}
    for key, expected in gradients["fp32"].items():
        # The keys' biases move all scores alike: their gradient is 0.
        difference = (gradients[precision][key] - expected).norm() / expected.norm()
        assert difference <= 16 * ROUNDING[precision], f"{key}: {difference:.5f}"
    row = gradients[precision]["source_embedding.tokens.weight"][7]
    expected = gradients["fp32"]["source_embedding.tokens.weight"][7]
    assert (row - expected).norm() <= 16 * ROUNDING[precision] * expected.norm()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_in_bf16_are_near_those_in_fp32(beam_size: int) -> None:
    model = half_trained_model("pre")
    sources = encoded(draw_sources(random.Random(4), 12))
    settings = Inference(beam_size=beam_size, n_best=beam_size, max_extra_tokens=4)
    found, expected = (
        TorchEngine(network, "cpu").search(sources, settings)
        for network in (copy_in(model, torch.bfloat16), model)
    )
    pairs = [(ours[0], theirs[0]) for ours, theirs in zip(found, expected, strict=True)]
    same = [(ours, theirs) for ours, theirs in pairs if ours.token_ids == theirs.token_ids]
    assert len(same) >= 9
    for ours, theirs in same:
        # bf16 keeps 8 bits of a logit of some 10: 2^-9 of it, a dozen times with random signs.
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=0.3)


def draw_texts(num_texts: int) -> Ragged:
    """Returns `<s>`, text and `</s>`; one token in two is the same, as punctuation is."""
    rows = [
        torch.randint(5, VOCAB_SIZE, (length,))
        for length in torch.randint(8, 24, (num_texts,)).sort().values.tolist()
    ]
    for row in rows:
        row[::2] = 7
    return Ragged.of([[BOS, *row.tolist(), EOS] for row in rows])


def measure(network: Network, text: Ragged) -> Tensor:
    """Returns a language model's loss of texts; of a masked one, of every third token and pairs."""
    layout = lay_out_side(text.lengths, [800, 400, 400], row_step=64)
    batch = collate_text(text, layout)
    if isinstance(network, CausalLanguageModel):
        return measure_causal(network, batch, label_smoothing=0.0).loss
    assert isinstance(network, MaskedLanguageModel)
    indices = torch.arange(1, len(text.tokens), 3)
    masked = MaskedBatch(
        spread_tokens(np.where(np.arange(len(text.tokens)) % 3 == 1, 4, text.tokens), layout),
        spread_tokens((np.arange(len(text.tokens)) % 16 > 7).astype(np.int64), layout, padding=0),
        layout,
        indices,
        torch.from_numpy(text.tokens)[indices],
        torch.arange(len(text)) % 2,
    )
    sums = measure_masked(network, masked, label_smoothing=0.0)
    return sums.join(len(indices), len(text))


@pytest.mark.parametrize("objective", ["causal-lm", "masked-lm"])
def test_a_language_models_loss_and_gradients_are_near_fp32_s(objective: str) -> None:
    torch.manual_seed(24)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 32, "d_ff": 64}
    learned = {"positions": "learned", "max_positions": 32, "activation": "gelu"}
    section = Model(**{**sizes, "num_heads": 4, "dropout": 0.0, **learned})
    model: Network = (
        CausalLanguageModel(section, VOCAB_SIZE)
        if objective == "causal-lm"
        else MaskedLanguageModel(section, VOCAB_SIZE, next_sentence=True)
    )
    working = WorkingCopy(model, "bf16")
    text = draw_texts(1_600)
    losses, gradients = {}, {}
    for name, network in (("fp32", model), ("bf16", working.model)):
        model.zero_grad(set_to_none=True)
        losses[name] = measure(network, text)
        losses[name].backward()
        working.accumulate_gradients()
        gradients[name] = {key: weight.grad for key, weight in model.named_parameters()}
    assert losses["bf16"].dtype == torch.float32
    assert losses["bf16"].item() == pytest.approx(losses["fp32"].item(), rel=2**-9)
    for key, expected in gradients["fp32"].items():
        difference = (gradients["bf16"][key] - expected).norm()
        assert difference <= 16 * 2**-9 * expected.norm(), key
