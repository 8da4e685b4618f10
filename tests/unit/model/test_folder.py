import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit.errors import MtkitError
from mtkit.model.card import write_scores
from mtkit.model.config import read_config, read_settings
from mtkit.model.folder import load_model_folder, load_network, save_model_folder
from mtkit.model.weights import pack_weights, read_weights
from mtkit.network import PaddedLayout
from mtkit.recipe.inference import Inference


def _fault(function, *arguments, **named) -> tuple[str, str]:
    with pytest.raises(MtkitError) as caught:
        function(*arguments, **named)
    return caught.value.message, caught.value.hint


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


def test_weights_of_another_file_than_the_folders(folder, tmp_path, make_recipe, make_model):
    other = pack_weights(make_model(make_recipe(), seed=9))
    save_file(other, tmp_path / "averaged.safetensors")
    model = load_network(read_config(folder), tmp_path / "averaged.safetensors")
    packed = pack_weights(model)
    assert all(torch.equal(packed[name], weight) for name, weight in other.items())


def test_no_model_says_how_to_get_one(tmp_path):
    message, hint = _fault(load_model_folder, tmp_path / "model")
    assert message == f"{tmp_path / 'model'}: no model here (no such folder)"
    assert hint == "train one with `mtkit train`, or let `mtkit run` run all missing steps"


def test_a_workspace_in_place_of_its_model_says_where_that_is(folder):
    message, hint = _fault(load_model_folder, folder.parent)
    assert message == f"{folder.parent}: no model here (no config.json)"
    assert folder.name == "model"
    assert hint == f"did you mean {folder}?"


@pytest.mark.parametrize("size", [0, 5, 100, -10])
def test_truncated_weights(folder, size):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    message, hint = _fault(load_model_folder, folder)
    assert message.startswith(f"{path}: damaged, or not a safetensors file: ")
    assert hint == "copy it again from its source, or create it again"


def test_missing_weights(folder):
    (folder / "model.safetensors").unlink()
    message, hint = _fault(load_model_folder, folder)
    assert message == f"{folder / 'model.safetensors'}: no such weights file"
    assert hint == "train a model with `mtkit train`"
    assert _fault(read_weights, folder / "model.safetensors")[0] == message


@pytest.mark.parametrize("name", ["config.json", "inference.json"])
def test_damaged_json(folder, name):
    path = folder / name
    path.write_text(path.read_text()[:-5])
    message, _ = _fault(load_model_folder, folder)
    assert message.startswith(f"{path}: damaged, invalid JSON: ")


def test_a_missing_file_of_settings(folder):
    (folder / "inference.json").unlink()
    assert _fault(load_model_folder, folder) == (
        f"{folder / 'inference.json'}: missing from the model folder",
        "copy the complete folder again",
    )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("target_vocab_size", "many", "target_vocab_size: Input should be a valid integer"),
        ("attention", 3, "attention: Extra inputs are not permitted"),
        ("format_version", 99, "format 99, but this version of mtkit reads 4"),
        ("format_version", 3, "made by an unreleased mtkit, or by another program"),
        (
            "special_tokens",
            {"pad": 1, "unk": 0, "bos": 2, "eos": 3},
            "special tokens {'pad': 1, 'unk': 0, 'bos': 2, 'eos': 3}, but mtkit supports only "
            "{'pad': 0, 'unk': 1, 'bos': 2, 'eos': 3}",
        ),
    ],
)
def test_a_configuration_that_makes_no_sense(folder, key, value, expected):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert _fault(load_model_folder, folder)[0] == f"{path}: {expected}"


def test_a_folder_of_transformers_is_to_be_imported(folder):
    (folder / "config.json").write_text(
        '{"architectures": ["MarianMTModel"], "model_type": "marian"}'
    )
    assert _fault(load_model_folder, folder) == (
        f"{folder / 'config.json'}: a model of transformers, not of mtkit",
        f"mtkit import {folder} --output NEW",
    )


def test_a_tokenizer_of_another_size(folder):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target_vocab_size": 49}))
    message, hint = _fault(load_model_folder, folder)
    assert message == f"{folder}: the tokenizer has 48 target pieces, but the model has 49"
    assert hint == "use the tokenizer that the model was trained with"


def test_weights_of_another_shape_than_the_configuration(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights["encoder.layers.0.feed_forward.inner.bias"] = torch.zeros(31)
    save_file(weights, path)
    message, _ = _fault(load_model_folder, folder)
    assert message == (
        f"{path}: doesn't match the model: encoder.layers.0.feed_forward.inner.bias "
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


def test_weights_have_the_rights_of_any_new_file(folder):
    rights = {path.stat().st_mode for path in folder.iterdir()}
    assert len(rights) == 1


def test_a_network_loaded_in_eight_bits_is_the_one_quantised_in_memory(folder):
    whole, parts = load_model_folder(folder), load_model_folder(folder, in_int8=True)
    whole.translator.quantize()
    source = torch.tensor([[7, 8, 9, 3]])
    layout = PaddedLayout.without_padding(source)
    with torch.no_grad():
        expected, found = (
            each.translator.project(each.translator(source, layout, source, layout))
            for each in (whole, parts)
        )
    assert torch.equal(found, expected)
    assert not any(isinstance(part, torch.nn.Linear) for part in parts.model.modules())


def test_a_damaged_file_is_refused_in_eight_bits_too(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(MtkitError, match="damaged"):
        load_model_folder(folder, in_int8=True)
