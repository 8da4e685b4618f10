"""`mtkit import` of M2M100 and NLLB: what it says, and folders that are broken or hostile."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from mtkit.errors import MtkitError
from mtkit.model.card import CARD_FILE
from mtkit.model.folder import load_model_folder
from mtkit.pipeline.import_model import import_model

from ...public_models import PublicModel, make_m2m100, make_nllb


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> PublicModel:
    return make_nllb(tmp_path_factory.mktemp("public") / "nllb")


@pytest.fixture(scope="module")
def m2m100(tmp_path_factory: pytest.TempPathFactory) -> PublicModel:
    return make_m2m100(tmp_path_factory.mktemp("public") / "m2m100")


@pytest.fixture
def folders(nllb: PublicModel, m2m100: PublicModel, tmp_path: Path) -> dict[str, Path]:
    """Returns copies of public models that a test may damage."""
    return {
        one.folder.name: Path(shutil.copytree(one.folder, tmp_path / one.folder.name))
        for one in (nllb, m2m100)
    }


def _edit(path: Path, **keys: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **keys}), "utf-8")


def test_what_is_said_of_it(folders, tmp_path, capsys):
    import_model(str(folders["nllb"]), tmp_path / "imported")
    said = capsys.readouterr().err.replace("\n", " ")
    assert "7 languages" in said
    assert "not for commercial use" in said
    assert "--from eng_Latn --to deu_Latn" in said
    loaded = load_model_folder(tmp_path / "imported")
    assert (loaded.config.source_language, loaded.config.target_language) == ("mul", "mul")
    assert (loaded.settings.beam_size, loaded.settings.max_output_tokens) == (5, 23)
    assert "license: cc-by-nc-4.0" in (tmp_path / "imported" / CARD_FILE).read_text("utf-8")


def test_a_forced_target_is_the_default(folders, nllb, tmp_path):
    row = nllb.tokenizer.convert_tokens_to_ids("fra_Latn")
    _edit(folders["nllb"] / "generation_config.json", forced_bos_token_id=row)
    import_model(str(folders["nllb"]), tmp_path / "imported")
    assert load_model_folder(tmp_path / "imported").config.target_language == "fra_Latn"


def test_a_language_that_was_added(folders, tmp_path):
    """People add a code behind all others, with its id in tokenizer_config.json."""
    folder = folders["nllb"]
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    shared = tensors["model.shared.weight"]
    rows = len(shared)
    tensors["model.shared.weight"] = torch.cat((shared, shared[-1:]))
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    _edit(folder / "config.json", vocab_size=rows + 1)
    added = {str(rows): {"content": "tyv_Cyrl", "special": True}}
    _edit(folder / "tokenizer_config.json", added_tokens_decoder=added)
    import_model(str(folder), tmp_path / "imported")
    languages = load_model_folder(tmp_path / "imported").tokenizer.languages
    assert languages is not None
    assert "tyv_Cyrl" in languages.target


@pytest.mark.parametrize("share_of_zeros", [True, False])
def test_tables_of_waves_in_older_files(folders, tmp_path, m2m100, share_of_zeros):
    folder = folders["m2m100"]
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    table = m2m100.model.model.encoder.embed_positions.weights.clone()
    tensors["model.encoder.embed_positions.weights"] = table
    if not share_of_zeros:
        table += 0.1
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    if share_of_zeros:
        import_model(str(folder), tmp_path / "imported")
        return
    with pytest.raises(MtkitError, match="differs from the sinusoids"):
        import_model(str(folder), tmp_path / "imported")


def _set(name: str, **keys: Any) -> Callable[[Path], None]:
    return lambda folder: _edit(folder / name, **keys)


def _write(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def _remove(*names: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


def _damage_fast(**keys: Any) -> Callable[[Path], None]:
    """Changes the model of a tokenizer.json without a SentencePiece model beside it."""

    def damage(folder: Path) -> None:
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text("utf-8"))
        content["model"] |= keys
        path.write_text(json.dumps(content), "utf-8")
        (folder / "sentencepiece.bpe.model").unlink()

    return damage


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _untie(folder: Path) -> None:
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.shared.weight"] + 1.0
    safetensors.torch.save_file(tensors, folder / "model.safetensors")


def _reshape(folder: Path) -> None:
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    name = "model.decoder.layers.0.fc1.weight"
    tensors[name] = tensors[name].T.contiguous()
    safetensors.torch.save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("kind", "damage", "message"),
    [
        ("nllb", _set("config.json", model_type="nllb-moe"), 'model_type = "nllb-moe"'),
        ("nllb", _set("config.json", tie_word_embeddings=False), "tie_word_embeddings"),
        ("nllb", _set("config.json", activation_function="gelu_fast"), "activation_function"),
        ("nllb", _set("config.json", decoder_ffn_dim=64), "encoder_ffn_dim = 48 and decoder_ffn"),
        ("nllb", _set("config.json", pad_token_id=5), "pad_token_id"),
        ("nllb", _set("config.json", eos_token_id=5), "eos_token_id = 5, but </s> has id 2"),
        ("nllb", _set("config.json", vocab_size=20), "but the model has 20 pieces"),
        ("nllb", _set("config.json", vocab_size=10**9), "vocab_size"),
        ("nllb", _set("config.json", d_model=10**5, encoder_layers=1000), "memory"),
        ("nllb", _set("generation_config.json", forced_bos_token_id=9), "a language of this"),
        ("nllb", _set("generation_config.json", repetition_penalty=1.3), "repetition_penalty"),
        ("nllb", _remove("sentencepiece.bpe.model", "tokenizer.json"), "no sentencepiece.bpe"),
        ("nllb", _write("sentencepiece.bpe.model", b"\x80" * 50), "tokenizer"),
        ("nllb", _write("tokenizer.json", b"{"), "invalid JSON"),
        ("nllb", _damage_fast(type="Unigram"), "a model of type Unigram, expected BPE"),
        ("nllb", _damage_fast(merges=[["a"]]), "no merges of two pieces"),
        ("nllb", _damage_fast(merges=7), "no merges of two pieces"),
        ("nllb", _damage_fast(vocab={"a": "b"}), "expected a whole number"),
        ("nllb", _damage_fast(vocab={}), "expected BPE with its pieces"),
        ("nllb", _set("tokenizer.json", normalizer={"type": "Precompiled"}), ""),
        ("m2m100", _remove("vocab.json"), "no vocab.json"),
        ("m2m100", _write("vocab.json", b'{"</s>": 0, "<unk>": 1}'), "no <pad>"),
        ("m2m100", _set("tokenizer_config.json", language_codes="x"), "language_codes = x"),
        ("m2m100", _set("config.json", vocab_size=120), "pieces"),
        ("m2m100", _truncate, "damaged"),
        ("m2m100", _untie, "lm_head.weight is another matrix"),
        ("m2m100", _reshape, "has shape"),
    ],
)
def test_what_is_wrong_is_said(folders, tmp_path, kind, damage, message):
    folder = folders[kind]
    damage(folder)
    if not message:
        import_model(str(folder), tmp_path / "imported")
        return
    with pytest.raises(MtkitError) as found:
        import_model(str(folder), tmp_path / "imported")
    assert message in found.value.message
    assert len(found.value.message) < 1_000
    assert not (tmp_path / "imported").exists()
