"""Weights packed, loaded, written: nothing of them is lost, and what doesn't fit is refused."""

import errno
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mtkit.errors import MtkitError
from mtkit.model.weight_files import opening_arrays
from mtkit.model.weights import load_weights, pack_weights, write_tensors

_SHARED = {
    "three-way": {"source_embedding.tokens.weight"},
    "decoder": {"source_embedding.tokens.weight", "target_embedding.tokens.weight"},
    "none": {
        "source_embedding.tokens.weight",
        "target_embedding.tokens.weight",
        "output_embedding.weight",
    },
}


@pytest.mark.parametrize("tied", list(_SHARED))
def test_weights_go_out_and_in_again(make_recipe, make_model, tied):
    recipe = make_recipe(tied_embeddings=tied)
    model, other = make_model(recipe, seed=1), make_model(recipe, seed=2)
    packed = pack_weights(model)
    assert {name for name in packed if "embedding" in name} == _SHARED[tied]
    # A shared matrix is one parameter to torch too.
    assert sum(weight.numel() for weight in packed.values()) == sum(
        parameter.numel() for parameter in model.parameters()
    )
    load_weights(other, packed)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name]), name


def test_packed_weights_stay_as_they_were_while_training_goes_on(make_recipe, make_model):
    model = make_model(make_recipe())
    packed = pack_weights(model)
    before = {name: weight.tolist() for name, weight in packed.items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert {name: weight.tolist() for name, weight in packed.items()} == before


def test_weights_of_another_type_are_packed_as_fp32_and_unpacked_in_their_own(
    make_recipe, make_model
):
    model = make_model(make_recipe()).double()
    packed = pack_weights(model)
    assert {weight.dtype for weight in packed.values()} == {torch.float32}
    assert all(weight.is_contiguous() for weight in packed.values())
    load_weights(model, packed)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda weights: weights.pop("decoder.layers.0.feed_forward.inner.bias"),
            "some.file: doesn't match the model: decoder.layers.0.feed_forward.inner.bias "
            "is missing",
        ),
        (
            lambda weights: weights.update(extra=torch.zeros(1)),
            "some.file: doesn't match the model: extra is not a weight of this model",
        ),
        (
            lambda weights: weights.update(
                {"decoder.layers.0.feed_forward.inner.bias": torch.zeros(31)}
            ),
            "some.file: doesn't match the model: decoder.layers.0.feed_forward.inner.bias "
            "has shape [31], expected [32]",
        ),
        (
            # An embedding, 12 weights and biases in the encoder layer, 20 in the decoder layer.
            lambda weights: weights.clear(),
            "some.file: doesn't match the model: decoder.layers.0.cross_attention.key_value.bias "
            "is missing (and 32 more problems)",
        ),
    ],
    ids=["missing", "unexpected", "shape", "all missing"],
)
def test_weights_that_do_not_fit_are_refused_and_leave_the_model_alone(
    make_recipe, make_model, change, expected
):
    recipe = make_recipe()
    model = make_model(recipe, seed=1)
    before = pack_weights(model)
    weights = pack_weights(make_model(recipe, seed=2))
    change(weights)
    with pytest.raises(MtkitError) as caught:
        load_weights(model, weights, origin="some.file")
    assert caught.value.message == expected
    assert caught.value.hint == (
        "use the [model] and [tokenizer] that the weights were trained with"
    )
    for name, weight in pack_weights(model).items():
        assert torch.equal(weight, before[name])


def test_what_the_system_refuses_is_told_as_it_tells_it(tmp_path):
    # A bound on a file's size stands for a full disk: both reach the library as an I/O error.
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_tensors({"a": torch.zeros(100_000)}, tmp_path / "a.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(tmp_path / "a.safetensors")


def test_weights_in_bf16_are_read_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weights = {name: torch.randn(3, 5).bfloat16() for name in ("a", "b")}
    save_file(weights, path)
    with opening_arrays(path) as read:
        for name, weight in weights.items():
            assert torch.from_numpy(read(name)).equal(weight.float())
