"""Our stacks are torch.nn's with the same weights, forward and backward.

torch.nn has other code for evaluation, so both sides stay in training mode with dropout 0.
"""

import math

import pytest
import torch
from torch import Tensor, nn

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.stack import TransformerStack
from mtkit.recipe.model import Model

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
VOCAB_SIZE = 23

in_both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
with_either_norm = pytest.mark.parametrize("norm", ["post", "pre"])
with_either_activation = pytest.mark.parametrize("activation", ["relu", "gelu"])


def _section(**keys: object) -> Model:
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 24, "d_ff": 40}
    return Model(**{**sizes, "num_heads": 3, "dropout": 0.0, **keys})


def _shake(module: nn.Module) -> None:
    """Moves every parameter, for biases of 0 and norms of 1 would hide a swapped pair."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


def _torch_encoder(section: Model) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        section.d_model,
        section.num_heads,
        section.d_ff,
        dropout=0.0,
        activation=section.activation,
        batch_first=True,
        norm_first=section.norm == "pre",
    )
    norm = nn.LayerNorm(section.d_model) if section.norm == "pre" else None
    return nn.TransformerEncoder(
        layer, section.num_encoder_layers, norm, enable_nested_tensor=False
    )


def _torch_decoder(section: Model) -> nn.TransformerDecoder:
    layer = nn.TransformerDecoderLayer(
        section.d_model,
        section.num_heads,
        section.d_ff,
        dropout=0.0,
        activation=section.activation,
        batch_first=True,
        norm_first=section.norm == "pre",
    )
    norm = nn.LayerNorm(section.d_model) if section.norm == "pre" else None
    return nn.TransformerDecoder(layer, section.num_decoder_layers, norm)


def _pairs_of(theirs: str, ours: str, modules: dict[str, str]) -> dict[str, list[str]]:
    return {
        f"{theirs}.{their_module}.{kind}": [f"{ours}.{our_module}.{kind}"]
        for their_module, our_module in modules.items()
        for kind in ("weight", "bias")
    }


def _encoder_names(section: Model) -> dict[str, list[str]]:
    """Returns, for each parameter of torch.nn's encoder, those of ours that it stacks."""
    names: dict[str, list[str]] = {}
    for number in range(section.num_encoder_layers):
        layer = f"layers.{number}"
        for kind in ("weight", "bias"):
            names[f"{layer}.self_attn.in_proj_{kind}"] = [
                f"{layer}.attention.query_key_value.{kind}"
            ]
        modules = {
            "self_attn.out_proj": "attention.output",
            "norm1": "attention_norm",
            "linear1": "feed_forward.inner",
            "linear2": "feed_forward.output",
            "norm2": "feed_forward_norm",
        }
        names |= _pairs_of(layer, layer, modules)
    return names | _final_norm_names(section)


def _decoder_names(section: Model) -> dict[str, list[str]]:
    """Returns, for each parameter of torch.nn's decoder, those of ours that it stacks."""
    names: dict[str, list[str]] = {}
    for number in range(section.num_decoder_layers):
        layer = f"layers.{number}"
        for kind in ("weight", "bias"):
            names[f"{layer}.self_attn.in_proj_{kind}"] = [
                f"{layer}.self_attention.query_key_value.{kind}"
            ]
            names[f"{layer}.multihead_attn.in_proj_{kind}"] = [
                f"{layer}.cross_attention.query.{kind}",
                f"{layer}.cross_attention.key_value.{kind}",
            ]
        modules = {
            "self_attn.out_proj": "self_attention.output",
            "norm1": "self_attention_norm",
            "multihead_attn.out_proj": "cross_attention.output",
            "norm2": "cross_attention_norm",
            "linear1": "feed_forward.inner",
            "linear2": "feed_forward.output",
            "norm3": "feed_forward_norm",
        }
        names |= _pairs_of(layer, layer, modules)
    return names | _final_norm_names(section)


def _final_norm_names(section: Model) -> dict[str, list[str]]:
    if section.norm == "post":
        return {}
    return {f"norm.{kind}": [f"final_norm.{kind}"] for kind in ("weight", "bias")}


def _copy_weights(ours: nn.Module, theirs: nn.Module, names: dict[str, list[str]]) -> None:
    parameters = dict(ours.named_parameters())
    assert {name for stacked in names.values() for name in stacked} == set(parameters)
    theirs.load_state_dict(
        {
            their_name: torch.cat([parameters[name].detach() for name in stacked])
            for their_name, stacked in names.items()
        }
    )


def _assert_gradients_agree(
    ours: nn.Module, theirs: nn.Module, names: dict[str, list[str]], tolerance: float
) -> None:
    parameters = dict(ours.named_parameters())
    for their_name, parameter in theirs.named_parameters():
        stacked = torch.cat([parameters[name].grad for name in names[their_name]])
        _assert_agree(stacked, parameter.grad, tolerance, their_name)


def _assert_agree(ours: Tensor, theirs: Tensor, tolerance: float, what: str) -> None:
    # A gradient sums over the batch: the tolerance is a share of its largest number.
    largest = max(1.0, theirs.abs().max().item())
    difference = (ours - theirs).abs().max().item()
    assert theirs.any(), f"{what} is all zeros"
    assert difference <= tolerance * largest, f"{what}: {difference:.2e} of {largest:.2e}"


def _without_padding(states: Tensor) -> PaddedLayout:
    return PaddedLayout(torch.ones(states.shape[:2], dtype=torch.bool))


def _source_is_token() -> Tensor:
    return torch.arange(7) < torch.tensor([7, 3, 5, 6])[:, None]


@in_both_precisions
@with_either_norm
@with_either_activation
def test_encoder_agrees(norm: str, activation: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    section = _section(norm=norm, activation=activation)
    ours = TransformerStack(section, 2, cross_attention=False, is_causal=False).to(dtype)
    theirs = _torch_encoder(section).to(dtype)
    _shake(ours)
    _copy_weights(ours, theirs, names := _encoder_names(section))
    our_states = torch.randn(4, 7, 24, dtype=dtype, requires_grad=True)
    their_states = our_states.detach().clone().requires_grad_()
    is_token = _source_is_token()

    our_output = ours(our_states, PaddedLayout(is_token))
    their_output = theirs(their_states, src_key_padding_mask=~is_token)

    _assert_agree(our_output, their_output, TOLERANCE[dtype], "output")
    upstream = torch.randn_like(our_output)
    our_output.backward(upstream)
    their_output.backward(upstream)
    _assert_agree(our_states.grad, their_states.grad, TOLERANCE[dtype], "input gradient")
    _assert_gradients_agree(ours, theirs, names, TOLERANCE[dtype])


@in_both_precisions
@with_either_norm
@with_either_activation
def test_decoder_agrees(norm: str, activation: str, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    section = _section(norm=norm, activation=activation)
    ours = TransformerStack(section, 2, cross_attention=True, is_causal=True).to(dtype)
    theirs = _torch_decoder(section).to(dtype)
    _shake(ours)
    _copy_weights(ours, theirs, names := _decoder_names(section))
    our_states = torch.randn(4, 5, 24, dtype=dtype, requires_grad=True)
    our_memory = torch.randn(4, 7, 24, dtype=dtype, requires_grad=True)
    their_states = our_states.detach().clone().requires_grad_()
    their_memory = our_memory.detach().clone().requires_grad_()
    is_token = _source_is_token()
    is_future = torch.ones(5, 5, dtype=torch.bool).triu(1)

    our_output = ours(our_states, _without_padding(our_states), our_memory, PaddedLayout(is_token))
    their_output = theirs(
        their_states, their_memory, tgt_mask=is_future, memory_key_padding_mask=~is_token
    )

    _assert_agree(our_output, their_output, TOLERANCE[dtype], "output")
    upstream = torch.randn_like(our_output)
    our_output.backward(upstream)
    their_output.backward(upstream)
    _assert_agree(our_states.grad, their_states.grad, TOLERANCE[dtype], "target gradient")
    _assert_agree(our_memory.grad, their_memory.grad, TOLERANCE[dtype], "source gradient")
    _assert_gradients_agree(ours, theirs, names, TOLERANCE[dtype])


class _TorchTranslator(nn.Module):
    """torch.nn's stacks between an embedding matrix, the paper's positions and its transpose."""

    def __init__(self, section: Model) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(VOCAB_SIZE, section.d_model))
        self.encoder = _torch_encoder(section)
        self.decoder = _torch_decoder(section)

    def forward(self, source_tokens: Tensor, is_token: Tensor, target_tokens: Tensor) -> Tensor:
        memory = self.encoder(self._embed(source_tokens), src_key_padding_mask=~is_token)
        length = target_tokens.shape[1]
        states = self.decoder(
            self._embed(target_tokens),
            memory,
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            memory_key_padding_mask=~is_token,
        )
        return states @ self.embedding.T

    def _embed(self, tokens: Tensor) -> Tensor:
        d_model = self.embedding.shape[1]
        # arXiv 1706.03762, section 3.5, place by place; our table holds fp32 numbers.
        positions = torch.tensor(
            [
                [
                    (math.cos if place % 2 else math.sin)(
                        position / 10_000 ** (2 * (place // 2) / d_model)
                    )
                    for place in range(d_model)
                ]
                for position in range(tokens.shape[1])
            ],
            dtype=torch.float32,
        )
        return self.embedding[tokens] * math.sqrt(d_model) + positions


@in_both_precisions
@with_either_norm
@pytest.mark.parametrize(
    ("num_encoder_layers", "num_decoder_layers"), [(1, 3), (3, 1)], ids=["1+3", "3+1"]
)
def test_tied_translator_agrees_at_unequal_depths(
    num_encoder_layers: int, num_decoder_layers: int, norm: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(3)
    section = _section(
        norm=norm, num_encoder_layers=num_encoder_layers, num_decoder_layers=num_decoder_layers
    )
    ours = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).to(dtype)
    theirs = _TorchTranslator(section).to(dtype)
    _shake(ours)
    names = {"embedding": ["source_embedding.tokens.weight"]}
    for stack, stack_names in (
        ("encoder", _encoder_names(section)),
        ("decoder", _decoder_names(section)),
    ):
        for their_name, stacked in stack_names.items():
            names[f"{stack}.{their_name}"] = [f"{stack}.{name}" for name in stacked]
    _copy_weights(ours, theirs, names)
    source_tokens = torch.randint(VOCAB_SIZE, (4, 7))
    target_tokens = torch.randint(VOCAB_SIZE, (4, 6))
    is_token = _source_is_token()

    states = ours(
        source_tokens,
        PaddedLayout(is_token),
        target_tokens,
        PaddedLayout.without_padding(target_tokens),
    )
    our_logits = ours.project(states)
    their_logits = theirs(source_tokens, is_token, target_tokens)

    _assert_agree(our_logits, their_logits, TOLERANCE[dtype], "logits")
    labels = torch.randint(VOCAB_SIZE, (4, 6))
    for logits in (our_logits, their_logits):
        nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    _assert_gradients_agree(ours, theirs, names, TOLERANCE[dtype])
