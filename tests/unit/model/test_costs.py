"""Costs worked out from a recipe are those of the network itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from mtkit.data.batches.collate import (
    MaskedBatch,
    collate_joined,
    collate_text,
    lay_out,
    lay_out_side,
    pack,
    pack_side,
)
from mtkit.data.batches.ragged import Ragged
from mtkit.model.costs import (
    bytes_of_weights,
    bytes_per_token,
    count_operations,
    count_weights,
)
from mtkit.network import CausalLanguageModel, EncoderDecoder, MaskedLanguageModel
from mtkit.network.cpu import attention as cpu_attention
from mtkit.network.projecting import copy_in
from mtkit.recipe import load_recipe
from mtkit.recipe.model import Model
from mtkit.recipe.objective import Objective
from mtkit.text.token_ids import EOS, UNK
from mtkit.training.distributed import ProcessGroup
from mtkit.training.learner import Learner, freeze
from mtkit.training.loss import (
    measure_causal,
    measure_joined,
    measure_masked,
    measure_translation,
)
from mtkit.training.sharding import MOMENTS

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


@settings(max_examples=15)
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


@settings(max_examples=15)
@given(
    model=models,
    size=st.integers(5, 40),
    objective=st.sampled_from(["causal-lm", "masked-lm"]),
    next_sentence=st.booleans(),
)
def test_weights_of_language_models_are_the_networks(
    model: Model, size: int, objective: Objective, *, next_sentence: bool
) -> None:
    with torch.device("meta"):
        network = (
            CausalLanguageModel(model, size)
            if objective == "causal-lm"
            else MaskedLanguageModel(model, size, next_sentence=next_sentence)
        )
    counted = count_weights(model, size, size, objective=objective, next_sentence=next_sentence)
    assert counted.total == sum(weight.numel() for weight in network.parameters())


def product_operations(_: torch.Size, left: torch.Size, right: torch.Size, **__: object) -> int:
    """Returns what `addmm_` takes, of which torch's counter knows only the form not in place."""
    return 2 * left[0] * left[1] * right[1]


@contextmanager
def counting_operations() -> Iterator[FlopCounterMode]:
    """Counts the operations of the products that torch makes while the block runs."""
    with (
        # Keys that fill a processor's vectors up are no cost of the network's.
        pytest.MonkeyPatch.context() as patch,
        FlopCounterMode(
            display=False, custom_mapping={torch.ops.aten.addmm_: product_operations}
        ) as counter,
    ):
        patch.setattr(cpu_attention, "find_softmax_width", lambda: 1)
        yield counter


@settings(max_examples=10)
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
    with counting_operations() as counter:
        measure_translation(network, batch, label_smoothing=0.1).loss.backward()
    per_token = count_operations(model, 11)
    attended = model.num_encoder_layers * source_length**2
    attended += model.num_decoder_layers * target_length * (target_length + source_length)
    assert counter.get_total_flops() == num_pairs * (
        per_token.per_source_token * source_length
        + per_token.per_target_token * target_length
        + per_token.per_attended_pair * attended
    )


@settings(max_examples=10)
@given(model=models, source_length=st.integers(2, 9), target_length=st.integers(2, 9))
def test_operations_of_a_decoder_alone_are_what_torch_counts(
    model: Model, source_length: int, target_length: int
) -> None:
    # A layer of its encoder-decoder isn't there, whatever the recipe has.
    model = model.model_copy(update={"output_bias": False, "architecture": "decoder-only"})
    num_pairs, length = 3, source_length + target_length
    sides = (
        Ragged.of([[UNK] * (each - 1) + [EOS]] * num_pairs)
        for each in (source_length, target_length)
    )
    batch = collate_joined(*sides, lay_out_side(np.full(num_pairs, length), [num_pairs]))
    with counting_operations() as counter:
        measure_joined(CausalLanguageModel(model, 11), batch, label_smoothing=0.1).loss.backward()
    per_token = count_operations(model, 11)
    assert counter.get_total_flops() == num_pairs * (
        per_token.per_source_token * source_length
        + per_token.per_target_token * target_length
        + per_token.per_attended_pair * model.num_decoder_layers * length**2
    )


@settings(max_examples=10)
@given(
    model=models,
    length=st.integers(4, 9),
    objective=st.sampled_from(["causal-lm", "masked-lm"]),
)
def test_operations_of_language_models_are_what_torch_counts(
    model: Model, length: int, objective: Objective
) -> None:
    model = model.model_copy(update={"output_bias": False})
    num_texts = 3
    text = Ragged.of([[UNK] * (length - 1) + [EOS]] * num_texts)
    layout = lay_out_side(text.lengths, [num_texts])
    with counting_operations() as counter:
        if objective == "causal-lm":
            causal = CausalLanguageModel(model, 11)
            sums = measure_causal(causal, collate_text(text, layout), label_smoothing=0.0)
        else:
            masked = MaskedLanguageModel(model, 11, next_sentence=False)
            # The output's bias costs products with its own column.
            masked.register_parameter("output_bias", None)
            # Half of the texts' tokens are predicted.
            indices = torch.arange(0, num_texts * length, 2)
            inputs = collate_text(text, layout).inputs
            batch = MaskedBatch(
                inputs, torch.zeros_like(inputs), layout, indices, torch.full_like(indices, 5), None
            )
            sums = measure_masked(masked, batch, label_smoothing=0.0)
        sums.loss.backward()
    share = 1.0 if objective == "causal-lm" else len(indices) / (num_texts * length)
    per_token = count_operations(model, 11, objective=objective, predicted_share=share)
    assert per_token.per_source_token == 0
    layers = model.num_decoder_layers if objective == "causal-lm" else model.num_encoder_layers
    expected = num_texts * length * per_token.per_target_token
    expected += num_texts * layers * length**2 * per_token.per_attended_pair
    # Operations per token are a whole number, rounded.
    assert counter.get_total_flops() == pytest.approx(expected, abs=6 * num_texts * length)


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
        network = copy_in(network, torch.bfloat16).train()
    num_pairs, length = 6, 8
    num_tokens = num_pairs * length
    side = Ragged.of([[UNK] * (length - 1) + [EOS]] * num_pairs)
    found: dict[int, Tensor] = {}
    with saved_bytes(network, found):
        sums = measure_translation(network, pack(side, side, [1] * num_pairs), label_smoothing=0.1)
    kept = _count_kept(found, num_tokens, is_half=is_half)
    assert sums.loss.requires_grad
    per_source, per_target = bytes_per_token(model, is_half=is_half)
    assert (per_source + per_target) * num_tokens == pytest.approx(kept, rel=0.05)


@pytest.mark.parametrize("is_half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize("objective", ["causal-lm", "masked-lm"])
def test_memory_of_a_language_models_token_is_what_autograd_keeps(
    objective: Objective, *, is_half: bool
) -> None:
    sizes = {"num_encoder_layers": 3, "num_decoder_layers": 3, "d_model": 64, "d_ff": 256}
    model = Model(**sizes, num_heads=4, activation="gelu", embedding_norm=objective != "causal-lm")
    num_texts, length = 6, 8
    num_tokens = num_texts * length
    text = Ragged.of([[UNK] * (length - 1) + [EOS]] * num_texts)
    batch = collate_text(text, pack_side(text.lengths, [1] * num_texts))
    found: dict[int, Tensor] = {}
    if objective == "causal-lm":
        causal = CausalLanguageModel(model, 16).train()
        causal = copy_in(causal, torch.bfloat16).train() if is_half else causal
        with saved_bytes(causal, found):
            measure_causal(causal, batch, label_smoothing=0.0)
    else:
        masked = MaskedLanguageModel(model, 16, next_sentence=False).train()
        masked = copy_in(masked, torch.bfloat16).train() if is_half else masked
        with saved_bytes(masked, found):
            masked(batch.inputs, torch.zeros_like(batch.inputs), batch.layout)
    kept = _count_kept(found, num_tokens, is_half=is_half)
    _, per_token = bytes_per_token(model, is_half=is_half, objective=objective)
    assert per_token * num_tokens == pytest.approx(kept, rel=0.05)


def _count_kept(found: dict[int, Tensor], num_tokens: int, *, is_half: bool) -> int:
    """Returns the bytes that a GPU would keep of what a processor keeps."""
    kept = 0
    for tensor in found.values():
        if tensor.ndim == 4 and tensor.shape[1] == 1:
            # Which token sees which: one mask serves all layers.
            continue
        num_bytes = tensor.untyped_storage().nbytes()
        # A CPU's dropout keeps two bytes a number, its norms in bf16 their inputs in fp32.
        is_mask = tensor.dtype == torch.int16 or (
            tensor.dtype == torch.bfloat16 and set(tensor.unique().tolist()) == {0.0, 1.0}
        )
        halves = is_mask or (
            is_half and tensor.dtype == torch.float32 and tensor.numel() == num_tokens * 64
        )
        kept += num_bytes // 2 if halves else num_bytes
    return kept


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
    learner = Learner.of(network, recipe.training, precision=precision)
    learning = [weight for weight in network.parameters() if weight.requires_grad]
    held = [*learner.tensors(), *(torch.zeros_like(weight) for weight in learning)]
    if precision == "bf16":
        copies = list(learner.working.model.parameters())
        held += [*copies, *(torch.zeros_like(copy) for copy in copies if copy.requires_grad)]
    counted = count_weights(recipe.model, 16, 16)
    num_trainable = counted.count_trainable(recipe.training.freeze)
    assert num_trainable == sum(weight.numel() for weight in learning)
    num_bytes = bytes_of_weights(
        counted.total, num_trainable, is_half=precision == "bf16", has_average=bool(average)
    )
    # Adam counts its updates in a number for each tensor.
    counts = 4 * len(learning)
    assert num_bytes == sum(t.numel() * t.element_size() for t in held) - counts


def test_memory_of_moments_is_what_each_rank_holds_of_them() -> None:
    recipe = load_recipe("phrasebook-en-de", ["training.shard=true"])
    num_weights = count_weights(recipe.model, 16, 16).total
    held = []
    for rank in range(3):
        processes = ProcessGroup(rank, 3, torch.device("cpu"))
        network = EncoderDecoder(recipe.model, 16, 16)
        learner = Learner.of(network, recipe.training, processes=processes)
        # Whole on each: the weights, and as many gradients.
        shared = 2 * sum(weight.numel() for weight in learner.weights)
        moments = [state[name] for state in learner.states for name in MOMENTS]
        held.append(4 * (shared + sum(moment.numel() for moment in moments)))
    assert sum(held) == 3 * 2 * 4 * num_weights + 2 * 4 * num_weights
    counted = bytes_of_weights(num_weights, num_weights, is_half=False, num_shards=3)
    # A rank's part is a multiple of 64 numbers, and so is a weight's memory.
    assert max(held) == pytest.approx(counted, rel=0.01)
