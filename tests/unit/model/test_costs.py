"""Costs worked out from a recipe are those of the network itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from mtkit.data.batches.collate import lay_out, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.model.costs import (
    bytes_of_weights,
    bytes_per_token,
    count_operations,
    count_weights,
)
from mtkit.network import EncoderDecoder
from mtkit.network.cpu import attention as cpu_attention
from mtkit.network.precision import copy_in_bfloat16
from mtkit.recipe import load_recipe
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS, UNK
from mtkit.training.learner import Learner, freeze
from mtkit.training.translation_loss import measure_translation

models = st.builds(
    Model,
    num_encoder_layers=st.integers(1, 3),
    num_decoder_layers=st.integers(1, 3),
    d_model=st.sampled_from([8, 12]),
    d_ff=st.integers(1, 20),
    num_heads=st.sampled_from([1, 2, 4]),
    d_key=st.integers(1, 9),
    d_value=st.integers(1, 9),
    norm=st.sampled_from(["pre", "post"]),
    activation=st.sampled_from(["relu", "gelu", "gelu_tanh", "silu", "swiglu"]),
    embedding_norm=st.booleans(),
    output_bias=st.booleans(),
    positions=st.sampled_from(["sinusoidal", "learned"]),
    max_positions=st.integers(20, 30),
    tied_embeddings=st.sampled_from(["three-way", "decoder", "none"]),
)


@settings(max_examples=40)
@given(model=models, source_size=st.integers(5, 40), target_size=st.integers(5, 40))
def test_weights_are_the_networks(model: Model, source_size: int, target_size: int) -> None:
    if model.tied_embeddings == "three-way":
        source_size = target_size
    with torch.device("meta"):
        network = EncoderDecoder(model, source_size, target_size)
    counted = count_weights(model, source_size, target_size)
    assert counted.total == sum(weight.numel() for weight in network.parameters())
    assert counted.encoder == sum(weight.numel() for weight in network.encoder.parameters())
    output = network.output_embedding.weight.numel() if model.tied_embeddings == "none" else 0
    assert counted.output == output + (target_size if model.output_bias else 0)
    assert counted.decoder == sum(weight.numel() for weight in network.decoder.parameters())


def product_operations(_: torch.Size, left: torch.Size, right: torch.Size, **__: object) -> int:
    """Returns what `addmm_` takes, of which torch's counter knows only the form not in place."""
    return 2 * left[0] * left[1] * right[1]


@settings(max_examples=20)
@given(model=models, source_length=st.integers(2, 9), target_length=st.integers(2, 9))
def test_operations_are_what_torch_counts(
    model: Model, source_length: int, target_length: int
) -> None:
    # torch.utils.flop_counter counts every product as it is made, forward and back.
    # A bias costs products of the loss with its own column, and those that fill its width up.
    network = EncoderDecoder(model.model_copy(update={"output_bias": False}), 11, 11).train()
    num_pairs = 3
    sides = (
        Ragged.of([[UNK] * (length - 1) + [EOS]] * num_pairs)
        for length in (source_length, target_length)
    )
    batch = lay_out(*sides, [num_pairs])
    with (
        # Keys that fill a processor's vectors up are no cost of the network's.
        pytest.MonkeyPatch.context() as patch,
        FlopCounterMode(
            display=False, custom_mapping={torch.ops.aten.addmm_: product_operations}
        ) as counter,
    ):
        patch.setattr(cpu_attention, "find_softmax_width", lambda: 1)
        measure_translation(network, batch, label_smoothing=0.1).loss.backward()
    per_token = count_operations(model, 11)
    attended = model.num_encoder_layers * source_length**2
    attended += model.num_decoder_layers * target_length * (target_length + source_length)
    assert counter.get_total_flops() == num_pairs * (
        per_token.per_source_token * source_length
        + per_token.per_target_token * target_length
        + per_token.per_attended_pair * attended
    )


@contextmanager
def saved_bytes(network: torch.nn.Module, found: dict[int, Tensor]) -> Iterator[None]:
    """Leaves what autograd keeps while the block runs in `found`, one tensor for each storage."""
    weights = {weight.untyped_storage().data_ptr() for weight in network.parameters()}

    def note(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            found[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield


@pytest.mark.parametrize("is_half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "swiglu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_memory_of_a_token_is_what_autograd_keeps(
    norm: str, activation: str, *, is_half: bool
) -> None:
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 3, "d_model": 64, "d_ff": 256}
    model = Model(**sizes, num_heads=4, norm=norm, activation=activation)
    network = EncoderDecoder(model, 16, 16).train()
    if is_half:
        network = copy_in_bfloat16(network).train()
    num_pairs, length = 6, 10
    num_tokens = num_pairs * length
    side = Ragged.of([[UNK] * (length - 1) + [EOS]] * num_pairs)
    found: dict[int, Tensor] = {}
    with saved_bytes(network, found):
        sums = measure_translation(network, pack(side, side), label_smoothing=0.1)
    kept = 0
    for tensor in found.values():
        if tensor.shape == (num_tokens, num_tokens):
            # Which token sees which: a GPU's kernel for packed sentences needs no such mask.
            continue
        num_bytes = tensor.untyped_storage().nbytes()
        # A CPU's dropout keeps two bytes a number, its norms in bf16 their inputs in fp32.
        is_mask = tensor.dtype == torch.int16 or (
            tensor.dtype == torch.bfloat16 and set(tensor.unique().tolist()) == {0.0, 1.0}
        )
        halves = is_mask or (
            is_half and tensor.dtype == torch.float32 and tensor.shape == (1, num_tokens, 64)
        )
        kept += num_bytes // 2 if halves else num_bytes
    assert sums.loss.requires_grad
    per_source, per_target = bytes_per_token(model, is_half=is_half)
    assert (per_source + per_target) * num_tokens == pytest.approx(kept, rel=0.05)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("frozen", [[], ["encoder"], ["embeddings", "decoder"]], ids=str)
@pytest.mark.parametrize("average", [[], ["training.moving_average.decay=0.9"]], ids=str)
@pytest.mark.parametrize("ties", ["three-way", "decoder", "none"])
def test_memory_of_weights_is_what_a_learner_holds(
    precision: str, frozen: list[str], average: list[str], ties: str
) -> None:
    overrides = [f"model.tied_embeddings={ties}", f"training.freeze={frozen}", *average]
    recipe = load_recipe("phrasebook-en-de", overrides)
    network = EncoderDecoder(recipe.model, 16, 16)
    freeze(network, recipe.training.freeze)
    learner = Learner.of(network, recipe, precision=precision)
    learning = [weight for weight in network.parameters() if weight.requires_grad]
    held = [*learner.tensors(), *(torch.zeros_like(weight) for weight in learning)]
    if precision == "bf16":
        copies = list(learner.working.model.parameters())
        held += [*copies, *(torch.zeros_like(copy) for copy in copies if copy.requires_grad)]
    counted = count_weights(recipe.model, 16, 16)
    num_learning = counted.count_learning(recipe.training.freeze)
    assert num_learning == sum(weight.numel() for weight in learning)
    num_bytes = bytes_of_weights(
        counted.total, num_learning, is_half=precision == "bf16", has_average=bool(average)
    )
    # Adam counts its updates in a number for each tensor.
    counts = 4 * len(learning)
    assert num_bytes == sum(t.numel() * t.element_size() for t in held) - counts
