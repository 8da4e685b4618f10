import errno
import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit.errors import MtkitError
from mtkit.model.card import write_scores
from mtkit.model.config import read_settings
from mtkit.model.folder import load_model_folder, save_model_folder
from mtkit.model.weights import load_weights, pack_weights, read_weights, write_tensors
from mtkit.recipe.inference import Inference

_SHARED = {
    "three-way": {"source_embedding.tokens.weight"},
    "decoder": {"source_embedding.tokens.weight", "target_embedding.tokens.weight"},
    "none": {
        "source_embedding.tokens.weight",
        "target_embedding.tokens.weight",
        "output_embedding.weight",
    },
}


def _fault(function, *arguments, **named) -> tuple[str, str]:
    with pytest.raises(MtkitError) as caught:
        function(*arguments, **named)
    return caught.value.message, caught.value.hint


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
            "some.file: doesn't fit the model: decoder.layers.0.feed_forward.inner.bias is missing",
        ),
        (
            lambda weights: weights.update(extra=torch.zeros(1)),
            "some.file: doesn't fit the model: extra is no weight of this model",
        ),
        (
            lambda weights: weights.update(
                {"decoder.layers.0.feed_forward.inner.bias": torch.zeros(31)}
            ),
            "some.file: doesn't fit the model: decoder.layers.0.feed_forward.inner.bias "
            "has shape [31], expected [32]",
        ),
        (
            # An embedding, 12 weights and biases in the encoder layer, 20 in the decoder layer.
            lambda weights: weights.clear(),
            "some.file: doesn't fit the model: decoder.layers.0.cross_attention.key_value.bias "
            "is missing (and 32 more such faults)",
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
    message, hint = _fault(load_weights, model, weights, origin="some.file")
    assert message == expected
    assert hint == (
        "the recipe's [model] and [tokenizer] must be those that the weights were trained with"
    )
    for name, weight in pack_weights(model).items():
        assert torch.equal(weight, before[name])


def test_a_folder_comes_back_as_it_went(folder, make_recipe, make_model, tokenizer):
    recipe = make_recipe()
    loaded = load_model_folder(folder)
    assert loaded.settings == read_settings(folder) == recipe.inference
    assert loaded.config.recipe == "tiny"
    assert (loaded.config.source_language, loaded.config.target_language) == ("en", "de")
    assert loaded.config.model == recipe.model
    assert loaded.tokenizer.encode_source(["the fox"]) == tokenizer.encode_source(["the fox"])
    assert not loaded.model.training
    expected = make_model(recipe).state_dict()
    assert {name: weight.tolist() for name, weight in loaded.model.state_dict().items()} == {
        name: weight.tolist() for name, weight in expected.items()
    }
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "inference.json",
        "joint.spm",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_two_vocabularies_come_back(tmp_path, make_recipe, make_model, two_vocabularies):
    recipe = make_recipe(tied_embeddings="decoder")
    save_model_folder(
        tmp_path / "model",
        recipe=recipe,
        weights=pack_weights(make_model(recipe)),
        tokenizer=two_vocabularies,
        origin="an average",
    )
    assert not load_model_folder(tmp_path / "model").tokenizer.is_joint


def test_loading_leaves_the_random_generator_where_it_was(folder):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    load_model_folder(folder)
    assert torch.equal(torch.get_rng_state(), before)


def test_saving_replaces_an_older_folder_whole(folder, make_recipe, make_model, tokenizer):
    (folder / "stale").write_text("x")
    recipe = make_recipe(d_ff=8)
    weights = pack_weights(make_model(recipe))
    save_model_folder(folder, recipe=recipe, weights=weights, tokenizer=tokenizer, origin="newer")
    assert load_model_folder(folder).config.model.d_ff == 8
    assert not (folder / "stale").exists()


@pytest.mark.parametrize("as_folder", [False, True])
def test_another_file_of_weights_takes_the_place_of_the_folders(
    folder, tmp_path, make_recipe, make_model, as_folder
):
    other = pack_weights(make_model(make_recipe(), seed=9))
    (tmp_path / "step-3").mkdir()
    save_file(other, tmp_path / "step-3" / "model.safetensors")
    path = tmp_path / "step-3" if as_folder else tmp_path / "step-3" / "model.safetensors"
    packed = pack_weights(load_model_folder(folder, weights_file=path).model)
    assert all(torch.equal(packed[name], weight) for name, weight in other.items())


def test_no_model_says_how_to_get_one(tmp_path):
    message, hint = _fault(load_model_folder, tmp_path / "model")
    assert message == f"{tmp_path / 'model'}: no model here (no config.json)"
    assert hint == "train one with `mtkit train`, or let `mtkit run` do everything that is missing"


def test_a_workspace_in_place_of_its_model_says_where_that_is(folder):
    message, hint = _fault(load_model_folder, folder.parent)
    assert message == f"{folder.parent}: no model here (no config.json)"
    assert folder.name == "model"
    assert hint == f"there is one in it: {folder}"


@pytest.mark.parametrize("size", [0, 5, 100, -10])
def test_truncated_weights(folder, size):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    message, hint = _fault(load_model_folder, folder)
    assert message.startswith(f"{path}: damaged, or no safetensors file: ")
    assert hint == "copy it again from where it came from, or make it again"


def test_missing_weights(folder):
    (folder / "model.safetensors").unlink()
    message, hint = _fault(load_model_folder, folder)
    assert message == f"{folder / 'model.safetensors'}: no such weights file"
    assert hint == "train a model with `mtkit train`"
    assert _fault(read_weights, folder)[0] == message


@pytest.mark.parametrize("name", ["config.json", "inference.json"])
def test_damaged_json(folder, name):
    path = folder / name
    path.write_text(path.read_text()[:-5])
    message, _ = _fault(load_model_folder, folder)
    assert message.startswith(f"{path}: damaged, no JSON: ")


def test_a_missing_file_of_settings(folder):
    (folder / "inference.json").unlink()
    assert _fault(load_model_folder, folder) == (
        f"{folder / 'inference.json'}: missing from the model folder",
        "copy the whole folder again",
    )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("target_vocab_size", "many", "target_vocab_size: Input should be a valid integer"),
        ("attention", 3, "attention: Extra inputs are not permitted"),
        ("format_version", 3, "format 3, but this mtkit reads up to 2"),
        (
            "special_tokens",
            {"pad": 1, "unk": 0, "bos": 2, "eos": 3},
            "special tokens {'pad': 1, 'unk': 0, 'bos': 2, 'eos': 3}, but this mtkit knows only "
            "{'pad': 0, 'unk': 1, 'bos': 2, 'eos': 3}",
        ),
    ],
)
def test_a_configuration_that_makes_no_sense(folder, key, value, expected):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert _fault(load_model_folder, folder)[0] == f"{path}: {expected}"


def test_a_tokenizer_of_another_size(folder):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target_vocab_size": 49}))
    message, hint = _fault(load_model_folder, folder)
    assert message == f"{folder}: the tokenizer has 48 target pieces, but the model 49"
    assert hint == "the tokenizer must be the one that the model was trained with"


def test_weights_of_another_shape_than_the_configuration(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights["encoder.layers.0.feed_forward.inner.bias"] = torch.zeros(31)
    save_file(weights, path)
    message, _ = _fault(load_model_folder, folder)
    assert message == (
        f"{path}: doesn't fit the model: encoder.layers.0.feed_forward.inner.bias "
        "has shape [31], expected [32]"
    )


def test_scores_go_into_the_card_and_are_replaced(folder):
    card = folder / "README.md"
    assert "Not scored yet" in card.read_text()
    write_scores(folder, [("test2016", "BLEU", "12.3", "nrefs:1|case:mixed")])
    write_scores(folder, [("test2016", "BLEU", "38.7", "nrefs:1|case:mixed")])
    text = card.read_text()
    assert "| test2016 | BLEU | 38.7 | nrefs:1\\|case:mixed |" in text
    assert "12.3" not in text
    assert "Not scored yet" not in text
    assert len(re.findall("^## Scores$", text, re.MULTILINE)) == 1


def test_scores_without_a_card(tmp_path):
    assert _fault(write_scores, tmp_path, []) == (
        f"{tmp_path / 'README.md'}: no model card",
        "train a model with `mtkit train`",
    )


def test_decoding_defaults_are_plain_json(folder):
    assert json.loads((folder / "inference.json").read_text()) == Inference(
        beam_size=2, max_extra_tokens=4
    ).model_dump(mode="json")


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


def test_weights_have_the_rights_of_any_new_file(folder):
    rights = {path.stat().st_mode for path in folder.iterdir()}
    assert len(rights) == 1
