"""Folders of transformers' language models become ours and come back, weights equal to the bit."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    PreTrainedModel,
)

from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.exporters.transformers import save_transformers_folder
from mtkit.model.folder import LoadedModel, load_model_folder, write_model_folder
from mtkit.model.importers.transformers import load_transformers_folder
from mtkit.model.new_cards import language_model_card
from mtkit.model.weights import pack_weights
from mtkit.network import CausalLanguageModel, MaskedLanguageModel, PaddedLayout
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

VOCAB_SIZE = 56
MODELS = {
    "gpt": (
        OpenAIGPTLMHeadModel,
        OpenAIGPTConfig(vocab_size=VOCAB_SIZE, n_positions=16, n_embd=32, n_layer=2, n_head=4),
    ),
    "bert": (
        BertForPreTraining,
        BertConfig(
            vocab_size=VOCAB_SIZE,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=40,
            max_position_embeddings=16,
        ),
    ),
}
MODELS["bert without pairs"] = (BertForMaskedLM, MODELS["bert"][1])
of_every_kind = pytest.mark.parametrize("kind", MODELS)


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    sentences = ["the quick brown fox jumps over the lazy dog", "pack my box with jugs"]
    return train_tokenizer(Tokenizer(vocab_size=VOCAB_SIZE), sentences, sentences, seed=1)


def _make_theirs(kind: str, folder: Path) -> PreTrainedModel:
    """Writes a model of transformers with random weights into a folder, and returns it."""
    torch.manual_seed(3)
    of_class, config = MODELS[kind]
    model = of_class(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder)
    return model


def _make_ours(objective: str, tokenizer: SubwordTokenizer, **keys: object) -> LoadedModel:
    torch.manual_seed(4)
    shape = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 32, "num_heads": 4}
    shape |= {"positions": "learned", "max_positions": 16, "scale_embeddings": False, "d_ff": 128}
    shape |= {"activation": "gelu_tanh", "embedding_norm": objective == "masked-lm"}
    config = ModelConfig(
        recipe="tiny-text",
        objective=objective,
        source_language="de",
        target_language="de",
        source_vocab_size=VOCAB_SIZE,
        target_vocab_size=VOCAB_SIZE,
        model=Model(**{**shape, **keys}),
    )
    return LoadedModel(tokenizer, Inference(), config, build(config).eval())


def _assert_same_outputs(ours: LoadedModel, theirs: PreTrainedModel) -> None:
    tokens = torch.randint(4, VOCAB_SIZE, (3, 9))
    layout = PaddedLayout.without_padding(tokens)
    given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    with torch.no_grad():
        found = theirs(**given)
        if isinstance(ours.model, CausalLanguageModel):
            logits = ours.model.project(ours.model(tokens, layout))
        else:
            assert isinstance(ours.model, MaskedLanguageModel)
            logits = ours.model.predict(ours.model(tokens, torch.zeros_like(tokens), layout))
    expected = found.logits if "logits" in found else found.prediction_logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


@of_every_kind
def test_theirs_becomes_a_model_folder_and_comes_back_to_the_bit(
    kind: str, tmp_path: Path, tokenizer: SubwordTokenizer
) -> None:
    theirs = _make_theirs(kind, tmp_path / "theirs")
    loaded = load_transformers_folder(tmp_path / "theirs", tokenizer=tokenizer)
    assert loaded.config.objective == ("causal-lm" if kind == "gpt" else "masked-lm")
    assert loaded.config.next_sentence == (kind == "bert")
    assert loaded.config.recipe == "theirs"
    # No language is told there: ISO 639's code for that.
    assert loaded.config.target_language == "und"
    _assert_same_outputs(loaded, theirs)

    weights = pack_weights(loaded.model)
    card = language_model_card(loaded.config, num_parameters=1, facts={})
    write_model_folder(tmp_path / "ours", loaded, weights=weights, card=card)
    again = load_model_folder(tmp_path / "ours")
    _assert_same_outputs(again, theirs)

    save_transformers_folder(again, tmp_path / "back")
    written, origin = (
        load_file(tmp_path / name / "model.safetensors") for name in ("back", "theirs")
    )
    assert written.keys() == origin.keys()
    for name, weight in origin.items():
        assert torch.equal(written[name], weight), name
    reloaded = MODELS[kind][0].from_pretrained(tmp_path / "back").eval()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(reloaded.state_dict()[name], weight), name


@pytest.mark.parametrize("objective", ["causal-lm", "masked-lm"])
def test_ours_comes_back_by_itself_after_transformers_saved_it(
    objective: str, tmp_path: Path, tokenizer: SubwordTokenizer
) -> None:
    ours = _make_ours(objective, tokenizer, norm_epsilon=1e-3, attention_dropout=0.2)
    save_transformers_folder(ours, tmp_path / "theirs")
    of_class = OpenAIGPTLMHeadModel if objective == "causal-lm" else BertForPreTraining
    theirs = of_class.from_pretrained(tmp_path / "theirs").eval()
    _assert_same_outputs(ours, theirs)
    content = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert content["architectures"] == [of_class.__name__]
    assert f"{of_class.__name__}.from_pretrained" in (tmp_path / "theirs/README.md").read_text()

    theirs.save_pretrained(tmp_path / "saved")
    shutil.copy(tmp_path / "theirs" / "joint.spm", tmp_path / "saved")
    back = load_transformers_folder(tmp_path / "saved")
    expected = pack_weights(ours.model)
    found = pack_weights(back.model)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    assert (back.config.recipe, back.config.target_language) == ("tiny-text", "de")
    assert back.tokenizer.models == tokenizer.models
    # Their classes say what all weights are drawn from, and nothing of the other stack.
    found_keys, expected_keys = back.config.model.model_dump(), ours.config.model.model_dump()
    assert (found_keys.pop("initial_std"), expected_keys.pop("initial_std")) == (0.02, None)
    other = "num_encoder_layers" if objective == "causal-lm" else "num_decoder_layers"
    assert {**found_keys, other: 2} == expected_keys


def _fault(folder: Path, tokenizer: SubwordTokenizer | None = None) -> MtkitError:
    with pytest.raises(MtkitError) as caught:
        load_transformers_folder(folder, tokenizer=tokenizer)
    return caught.value


@pytest.mark.parametrize(
    ("name", "kind"), [("vocab.txt", "WordPiece"), ("merges.txt", "byte-level BPE")]
)
def test_another_kind_of_tokenizer_is_refused_by_name(name: str, kind: str, tmp_path: Path) -> None:
    _make_theirs("bert", tmp_path)
    (tmp_path / name).write_text("[PAD]\n[UNK]\n")
    error = _fault(tmp_path)
    assert f"no joint.spm here; its tokenizer is {kind}" in error.message
    assert "SentencePiece" in error.hint


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"model_type": "gpt2"}, 'model_type = "gpt2", expected "openai-gpt" or "bert"'),
        ({"hidden_act": "tanh"}, "hidden_act: Input should be 'relu', 'gelu', 'gelu_new' or"),
        ({"is_decoder": True}, "is_decoder: Input should be False"),
        ({"type_vocab_size": 3}, "type_vocab_size: Input should be 2"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings: Input should be True"),
        ({"eos_token_id": 102}, "eos_token_id = 102, but mtkit's is 3"),
        ({"num_attention_heads": 5}, "d_model = 32 is not a multiple of num_heads = 5"),
        ({"hidden_size": "wide"}, "hidden_size: Input should be a valid integer"),
    ],
)
def test_another_network_is_refused_by_its_key(
    keys: dict[str, object], fault: str, tmp_path: Path, tokenizer: SubwordTokenizer
) -> None:
    _make_theirs("bert", tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))
    error = _fault(tmp_path, tokenizer)
    assert fault in error.message
    assert str(path) in error.message


def test_other_weights_are_refused_by_name(tmp_path: Path, tokenizer: SubwordTokenizer) -> None:
    _make_theirs("gpt", tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    tokens = weights["transformer.tokens_embed.weight"]
    # Written by others under its second name too; as another matrix it is another network.
    save_file({**weights, "lm_head.weight": tokens.clone()}, path)
    load_transformers_folder(tmp_path, tokenizer=tokenizer)
    save_file({**weights, "lm_head.weight": tokens + 1}, path)
    assert "lm_head.weight differs from" in _fault(tmp_path, tokenizer).message
    save_file({**weights, "lm_head.weight": tokens[:-1].clone()}, path)
    assert "lm_head.weight has shape [55, 32]" in _fault(tmp_path, tokenizer).message
    save_file({name: weight for name, weight in weights.items() if "ln_1" not in name}, path)
    error = _fault(tmp_path, tokenizer)
    assert "transformer.h.0.ln_1.bias is missing (and 3 more problems)" in error.message
    path.write_bytes(path.read_bytes()[:100])
    assert "damaged" in _fault(tmp_path, tokenizer).message
    path.rename(tmp_path / "pytorch_model.bin")
    assert "no model.safetensors here, only pytorch_model.bin" in (
        _fault(tmp_path, tokenizer).message
    )
    (tmp_path / "config.json").unlink()
    assert "no transformers model here" in _fault(tmp_path, tokenizer).message


def test_a_vocabulary_of_another_size_is_refused(tmp_path: Path) -> None:
    _make_theirs("gpt", tmp_path)
    sentences = ["the quick brown fox jumps over the lazy dog"]
    smaller = train_tokenizer(Tokenizer(vocab_size=40), sentences, sentences, seed=1)
    assert "has 40 pieces, but the model has 56" in _fault(tmp_path, smaller).message


def test_a_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    _make_theirs("gpt", tmp_path)
    (tmp_path / "joint.spm").write_bytes(b"nothing of the kind")
    assert "joint.spm: damaged tokenizer" in _fault(tmp_path).message


def test_nothing_is_written_over(tmp_path: Path, tokenizer: SubwordTokenizer) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    ours = _make_ours("causal-lm", tokenizer)
    with pytest.raises(MtkitError, match="already exists"):
        save_transformers_folder(ours, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_network_that_transformers_lacks_is_not_written(
    tmp_path: Path, tokenizer: SubwordTokenizer
) -> None:
    ours = _make_ours("causal-lm", tokenizer, norm="pre")
    with pytest.raises(MtkitError, match=r'GPT doesn.t support this network: model.norm = "pre"'):
        save_transformers_folder(ours, tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()
