"""An exported folder in transformers = the model: weights, tokens, log-probabilities, outputs."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PegasusForConditionalGeneration

from mtkit.errors import MtkitError
from mtkit.inference.translator import Translator
from mtkit.model.build import build
from mtkit.model.config import ModelConfig, OpenedFolder
from mtkit.model.folder import load_model_folder, write_model_folder
from mtkit.model.weights import pack_weights
from mtkit.pipeline.export import export, open_folder
from mtkit.pipeline.import_model import import_model
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, PAD, UNK
from mtkit.text.tokenizer import SubwordTokenizer

from ..public_models import ENGLISH, GERMAN, TAGS, make_marian, train_sentencepiece

_IMPORTED: dict[str, dict[str, Any]] = {
    "one vocabulary": {},
    "two vocabularies": {"has_own_vocabularies": True},
    "untied": {"has_own_vocabularies": True, "tie_word_embeddings": False},
    "padding hidden": {"generation": {"renormalize_logits": True, "length_penalty": 0.6}},
}
_OWN: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "two matrices": {"tied_embeddings": "decoder", "activation": "gelu_tanh"},
    "untied": {
        "tied_embeddings": "none",
        "output_bias": True,
        "scale_embeddings": False,
        "activation": "silu",
        "sinusoids": "halves",
    },
}


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_text("\n".join(ENGLISH[:3]) + "\n", "utf-8")
    return path


def make_own(folder: Path, **keys: Any) -> Path:
    """Writes a model folder with random weights that make outputs differ."""
    spm = train_sentencepiece(folder / "joint.spm", [*ENGLISH, *GERMAN], num_pieces=150, kind="bpe")
    content = spm.read_bytes()
    tokenizer = SubwordTokenizer(content, content)
    config = ModelConfig(
        recipe="own",
        source_language="en",
        target_language="de",
        source_vocab_size=tokenizer.source_vocab_size,
        target_vocab_size=tokenizer.target_vocab_size,
        model=Model(
            num_encoder_layers=2, num_decoder_layers=2, d_model=32, d_ff=48, num_heads=4, **keys
        ),
    )
    torch.manual_seed(1)
    weights = {
        name: torch.randn(weight.shape) * 0.3 + (1.0 if "norm.weight" in name else 0.0)
        for name, weight in pack_weights(build(config)).items()
    }
    settings = Inference(
        length_penalty=LengthPenalty(kind="power", alpha=0.6),
        stop_margin=100,
        max_output_tokens=12,
        max_source_tokens=80,
        processes=1,
        precision="fp32",
    )
    write_model_folder(
        folder / "model", OpenedFolder(tokenizer, settings, config), weights=weights, card="# own\n"
    )
    return folder / "model"


@pytest.mark.parametrize("kind", _IMPORTED)
def test_an_imported_model_comes_back_as_it_was(kind, tmp_path, lines):
    theirs = make_marian(tmp_path / "opus-mt-en-de", **_IMPORTED[kind])
    import_model(str(theirs.folder), tmp_path / "imported")
    export(
        open_folder(tmp_path / "imported", lines_file=lines), tmp_path / "out", form="transformers"
    )
    before, after = (
        load_file(folder / "model.safetensors") for folder in (theirs.folder, tmp_path / "out")
    )
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)
    for name in ("vocab.json", "target_vocab.json"):
        if (theirs.folder / name).exists():
            assert _read(theirs.folder / name) == _read(tmp_path / "out" / name)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    assert type(model) is type(theirs.model)
    for line in (*ENGLISH[2:4], f"{TAGS[0]} {ENGLISH[0]}", "日本語 ﬁ"):
        inputs = theirs.tokenizer(line, return_tensors="pt")
        assert tokenizer(line, return_tensors="pt")["input_ids"].equal(inputs["input_ids"])
        expected = theirs.model.generate(**inputs)
        assert model.generate(**inputs).equal(expected)
        told = tokenizer.decode(expected[0], skip_special_tokens=True)
        assert told == theirs.tokenizer.decode(expected[0], skip_special_tokens=True)


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_a_fine_tuned_model_keeps_what_training_told_apart(tmp_path, lines):
    theirs = make_marian(tmp_path / "opus-mt-en-de")
    import_model(str(theirs.folder), tmp_path / "imported")
    path = tmp_path / "imported" / "model.safetensors"
    weights = load_file(path)
    embedding = weights["source_embedding.tokens.weight"]
    embedding += torch.randn(embedding.shape, generator=torch.Generator().manual_seed(2)) * 0.1
    save_file(weights, path)
    export(
        open_folder(tmp_path / "imported", lines_file=lines), tmp_path / "out", form="transformers"
    )
    there = load_file(tmp_path / "out" / "model.safetensors")["model.shared.weight"]
    content = _read(tmp_path / "out" / "config.json")
    # The decoder's first input was the row of <pad>, and is another vector now.
    assert there[content["decoder_start_token_id"]].equal(embedding[BOS])
    assert there[content["pad_token_id"]].equal(embedding[PAD])
    assert content["decoder_start_token_id"] >= len(_read(theirs.folder / "vocab.json"))
    assert there[_read(theirs.folder / "vocab.json")["<unk>"]].equal(embedding[UNK])


@pytest.mark.parametrize("kind", _OWN)
def test_an_own_model_translates_the_same_through_generate(kind, tmp_path, lines):
    folder = make_own(tmp_path, **_OWN[kind])
    export(open_folder(folder, lines_file=lines), tmp_path / "out", form="transformers")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    batch = tokenizer(ENGLISH, return_tensors="pt", padding=True)
    found = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    translator = Translator(folder)
    ours = [translator.translate(line) for line in ENGLISH]
    # skip_special_tokens leaves out unknown pieces.
    assert [line.split() for line in found] == [line.replace("⁇", "").split() for line in ours]


@pytest.mark.parametrize(
    "keys", [{}, {"output_bias": True, "activation": "silu", "sinusoids": "halves"}]
)
def test_a_pre_norm_model_comes_back_as_it_was(keys, tmp_path, lines):
    export(
        open_folder(make_own(tmp_path, norm="pre", **keys), lines_file=lines),
        tmp_path / "out",
        form="transformers",
    )
    import_model(str(tmp_path / "out"), tmp_path / "back")
    export(
        open_folder(tmp_path / "back", lines_file=lines), tmp_path / "again", form="transformers"
    )
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("out", "again"))
    assert first.keys() == second.keys()
    assert all(first[name].equal(second[name]) for name in first)
    there = PegasusForConditionalGeneration.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    back = Translator(tmp_path / "back")
    for line in ENGLISH:
        output = there.generate(**tokenizer(line, return_tensors="pt"))
        expected = tokenizer.decode(output[0], skip_special_tokens=True)
        # skip_special_tokens leaves out unknown pieces.
        assert back.translate(line).replace("⁇", "").split() == expected.split()


def test_a_pegasus_with_its_own_tokenizer_is_refused_by_name(tmp_path, lines):
    export(
        open_folder(make_own(tmp_path, norm="pre"), lines_file=lines),
        tmp_path / "out",
        form="transformers",
    )
    path = tmp_path / "out" / "tokenizer_config.json"
    path.write_text(json.dumps({**_read(path), "tokenizer_class": "PegasusTokenizer"}), "utf-8")
    with pytest.raises(MtkitError, match='tokenizer_class = "PegasusTokenizer"'):
        import_model(str(tmp_path / "out"), tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"positions": "learned"}, 'model.positions = "learned"'),
        ({"activation": "swiglu"}, 'model.activation = "swiglu"'),
        ({"norm": "pre", "tied_embeddings": "decoder"}, "Pegasus has one matrix"),
        ({"attention_window": 3}, "model.attention_window = 3"),
    ],
)
def test_what_no_class_holds_is_refused_by_name(keys, reason, tmp_path, lines):
    folder = make_own(tmp_path, **keys)
    with pytest.raises(MtkitError, match=reason):
        export(open_folder(folder, lines_file=lines), tmp_path / "out", form="transformers")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_weights_is_not_put_in_place(tmp_path, lines, monkeypatch):
    folder = make_own(tmp_path)
    # Without the reordering transformers' waves are others.
    monkeypatch.setattr(
        "mtkit.model.exporters.marian.sines_first", lambda weights, d_model: weights
    )
    with pytest.raises(MtkitError, match="parity check failed"):
        export(open_folder(folder, lines_file=lines), tmp_path / "out", form="transformers")
    assert not (tmp_path / "out").exists()


def test_other_files_are_left_alone(tmp_path, lines):
    folder = make_own(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(MtkitError, match="already exists"):
        export(open_folder(folder, lines_file=lines), tmp_path / "out", form="transformers")


def test_the_gnmt_penalty_is_replaced_and_told(tmp_path, lines, capsys):
    folder = make_own(tmp_path)
    changes = ["inference.length_penalty.kind=gnmt", "inference.length_penalty.alpha=0.6"]
    export(open_folder(folder, changes, lines_file=lines), tmp_path / "out", form="transformers")
    assert 'kind = "gnmt": transformers has only "power"' in capsys.readouterr().err
    tokens = load_model_folder(folder).tokenizer.encode_source(ENGLISH[:3])
    lengths = list(map(len, tokens))
    mean = sum(lengths) / len(lengths)
    found = _read(tmp_path / "out" / "generation_config.json")["length_penalty"]
    # d log((5 + n) / 6)^a / dn = a / (5 + n), and that of n^b is b / n.
    assert found == pytest.approx(0.6 * mean / (5 + mean), abs=0.005)
