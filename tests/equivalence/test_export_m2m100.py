"""M2M100 and NLLB given back to transformers: weights, tokens, outputs, and what was changed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from mtkit.errors import MtkitError
from mtkit.inference.request import Request
from mtkit.model.config import OpenedFolder
from mtkit.model.folder import load_model_folder, write_model_folder
from mtkit.model.weights import pack_weights
from mtkit.pipeline.export import export, open_folder
from mtkit.pipeline.import_model import import_model, import_trimmed
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.learn_pieces import learn_pieces
from mtkit.text.token_ids import BOS, EOS

from ..public_models import ENGLISH, FRENCH, GERMAN, make_m2m100, make_nllb, open_in_fp32

_WEIGHTS, _BIAS = "source_embedding.tokens.weight", "output_bias"
_NEW = ["Köyne bulut şıngıraq", "Şıngıraq köyne", "bulut köyne şıngıraq bulut"]
_KINDS: dict[str, Any] = {
    "m2m100": make_m2m100,
    "nllb": make_nllb,
    "nllb, legacy": lambda folder, **keys: make_nllb(folder, legacy=True, **keys),
    "nllb, tokenizer.json alone": lambda folder, **keys: make_nllb(folder, keeps="fast", **keys),
}


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_text("\n".join(ENGLISH[:3]) + "\n", "utf-8")
    return path


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _codes(is_m2m100: bool) -> tuple[str, str]:
    return ("en", "de") if is_m2m100 else ("eng_Latn", "deu_Latn")


def _change(folder: Path, seed: int) -> dict[str, torch.Tensor]:
    """Moves a model's weights as training would, the bias of the output apart; returns them."""
    path, generator = folder / "model.safetensors", torch.Generator().manual_seed(seed)
    weights = load_file(path)
    for name, weight in weights.items():
        if name != _BIAS:
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.05)
    weights[_WEIGHTS][0] = 0.0
    save_file(weights, path)
    return weights


def _check_outputs(folder: Path, out: Path, source: str, target: str) -> None:
    """Checks that transformers writes the text that the model itself writes."""
    tokenizer = AutoTokenizer.from_pretrained(out, src_lang=source)
    model = AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    row = tokenizer.convert_tokens_to_ids(
        target if hasattr(tokenizer, "legacy_behaviour") else f"__{target}__"
    )
    batch = tokenizer(ENGLISH, return_tensors="pt", padding=True)
    outputs = model.generate(**batch, forced_bos_token_id=row)
    found = tokenizer.batch_decode(outputs, skip_special_tokens=True)
    translator = open_in_fp32(folder)
    requests = [Request(line, source_language=source, target_language=target) for line in ENGLISH]
    ours = [each.text for each in translator.search(requests)]
    assert len(set(ours)) > 1
    # skip_special_tokens leaves out unknown pieces, but for rows without a name.
    expected = [line.replace("⁇", "").split() for line in ours]
    assert [line.replace("<unk>", "").split() for line in found] == expected


@pytest.mark.parametrize("kind", _KINDS)
def test_an_imported_model_comes_back_as_it_was(kind, tmp_path, lines):
    theirs = _KINDS[kind](tmp_path / "public")
    out = tmp_path / "out"
    import_model(str(theirs.folder), tmp_path / "imported")
    export(open_folder(tmp_path / "imported", lines_file=lines), out, form="transformers")
    before, after = (load_file(folder / "model.safetensors") for folder in (theirs.folder, out))
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)
    if kind == "m2m100":
        assert _read(theirs.folder / "vocab.json") == _read(out / "vocab.json")
    source, target = _codes(kind == "m2m100")
    tokenizer = AutoTokenizer.from_pretrained(out, src_lang=source, tgt_lang=target)
    model = AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    assert type(model) is type(theirs.model)
    assert type(tokenizer) is type(theirs.tokenizer)
    theirs.tokenizer.src_lang, theirs.tokenizer.tgt_lang = source, target
    row = tokenizer.convert_tokens_to_ids(target if kind != "m2m100" else f"__{target}__")
    for line in (*ENGLISH, *GERMAN, *FRENCH, "日本語 ﬁ  two", "a" * 50, "Ⅷ…"):
        inputs = theirs.tokenizer(line, return_tensors="pt")
        assert tokenizer(line)["input_ids"] == inputs["input_ids"][0].tolist()
        assert (
            tokenizer(text_target=line)["input_ids"]
            == theirs.tokenizer(text_target=line)["input_ids"]
        )
    expected = theirs.model.generate(**inputs, forced_bos_token_id=row)
    assert model.generate(**inputs, forced_bos_token_id=row).equal(expected)
    told = tokenizer.decode(expected[0], skip_special_tokens=True)
    # Without a list of special pieces, as on the hub, M2M100Tokenizer writes the language.
    assert told == theirs.tokenizer.decode(expected[0], skip_special_tokens=True).removeprefix(
        "__de__"
    )
    # Once more through mtkit: the same weights, bit for bit.
    import_model(str(out), tmp_path / "again")
    first, second = (
        load_file(tmp_path / name / "model.safetensors") for name in ("imported", "again")
    )
    assert all(first[name].equal(second[name]) for name in first)


@pytest.mark.parametrize("kind", ["m2m100", "nllb"])
def test_a_fine_tuned_model_goes_out_and_in(kind, tmp_path, lines):
    theirs = _KINDS[kind](tmp_path / "public")
    import_model(str(theirs.folder), tmp_path / "imported")
    weights = _change(tmp_path / "imported", 2)
    out = tmp_path / "out"
    export(open_folder(tmp_path / "imported", lines_file=lines), out, form="transformers")
    there = load_file(out / "model.safetensors")["model.shared.weight"]
    # The decoder's first input was the row of </s>, and is another vector now.
    assert there[_read(out / "config.json")["decoder_start_token_id"]].equal(weights[_WEIGHTS][BOS])
    assert there[2].equal(weights[_WEIGHTS][EOS])
    source, target = _codes(kind == "m2m100")
    _check_outputs(tmp_path / "imported", out, source, target)
    import_model(str(out), tmp_path / "again")
    _check_same(tmp_path / "imported", tmp_path / "again", source, target)


def _check_same(first: Path, second: Path, source: str, target: str) -> None:
    """Checks that two model folders give the same translations the same log-probabilities."""
    requests = [
        Request(line, prefix=other, source_language=source, target_language=target)
        for line, other in zip(ENGLISH, GERMAN, strict=True)
    ]
    scores = [
        [each.candidates[0].log_probability for each in open_in_fp32(one).score(requests)]
        for one in (first, second)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


@pytest.mark.parametrize("kind", ["m2m100", "nllb"])
def test_a_cut_model(kind, tmp_path, lines):
    theirs = _KINDS[kind](tmp_path / "public", seed=5)
    import_trimmed(str(theirs.folder), tmp_path / "cut", [lines])
    out = tmp_path / "out"
    export(open_folder(tmp_path / "cut", lines_file=lines), out, form="transformers")
    source, target = _codes(kind == "m2m100")
    assert _read(out / "config.json")["vocab_size"] < len(theirs.model.model.shared.weight)
    _check_outputs(tmp_path / "cut", out, source, target)
    import_model(str(out), tmp_path / "again")
    _check_same(tmp_path / "cut", tmp_path / "again", source, target)


def _extend(folder: Path, output: Path, target: str) -> None:
    """Writes a model with pieces of new text, and of a language, that begin as random vectors."""
    loaded = load_model_folder(folder)
    tokenizer = extend_vocabulary(loaded.tokenizer, languages=[target])
    lines = _NEW * 20
    tokenizer = learn_pieces(tokenizer, Tokenizer(vocab_size=60), lines, lines, seed=1)
    num_new = len(tokenizer.target_vocabulary) - len(loaded.tokenizer.target_vocabulary)
    assert num_new > 10
    weights = pack_weights(loaded.model)
    generator = torch.Generator().manual_seed(3)
    vectors = torch.randn(num_new, 32, generator=generator) * 0.3
    weights[_WEIGHTS] = torch.cat((weights[_WEIGHTS], vectors))
    weights[_BIAS] = torch.cat((weights[_BIAS], torch.zeros(num_new)))
    sizes = dict.fromkeys(
        ("source_vocab_size", "target_vocab_size"), len(tokenizer.target_vocabulary)
    )
    config = loaded.config.model_copy(update={**sizes, "target_language": target})
    opened = OpenedFolder(tokenizer, loaded.settings, config)
    write_model_folder(output, opened, weights=weights, card="# extended\n")


@pytest.mark.parametrize("kind", ["m2m100", "nllb"])
def test_an_extended_model(kind, tmp_path, lines):
    theirs = _KINDS[kind](tmp_path / "public", seed=5)
    import_model(str(theirs.folder), tmp_path / "imported")
    source, target = _codes(kind == "m2m100")
    # M2M100Tokenizer's list of languages is fixed.
    target = target if kind == "m2m100" else "tyv_Cyrl"
    _extend(tmp_path / "imported", tmp_path / "extended", target)
    out = tmp_path / "out"
    lines.write_text("\n".join([*ENGLISH[:3], *_NEW]) + "\n", "utf-8")
    export(open_folder(tmp_path / "extended", lines_file=lines), out, form="transformers")
    tokenizer = AutoTokenizer.from_pretrained(out, src_lang=source)
    assert "▁bulut" in tokenizer.tokenize(_NEW[0])
    row = tokenizer.convert_tokens_to_ids(target if kind != "m2m100" else "__de__")
    assert _read(out / "generation_config.json")["forced_bos_token_id"] == row
    _check_outputs(tmp_path / "extended", out, source, target)
    import_model(str(out), tmp_path / "again")
    _check_same(tmp_path / "extended", tmp_path / "again", source, target)


def test_what_m2m100_cannot_hold_is_refused_by_name(tmp_path, lines):
    theirs = make_m2m100(tmp_path / "public")
    import_model(str(theirs.folder), tmp_path / "imported")
    _extend(tmp_path / "imported", tmp_path / "extended", "tyv")
    with pytest.raises(
        MtkitError, match="the language tyv, which isn't in M2M100Tokenizer's fixed list"
    ):
        export(
            open_folder(tmp_path / "extended", lines_file=lines),
            tmp_path / "out",
            form="transformers",
        )
    path = tmp_path / "imported" / "model.safetensors"
    weights = load_file(path)
    weights[_BIAS][7] = 0.25
    save_file(weights, path)
    with pytest.raises(MtkitError, match=r"training changed output_bias \(.* \+0.25\)"):
        export(
            open_folder(tmp_path / "imported", lines_file=lines),
            tmp_path / "out",
            form="transformers",
        )
    assert not (tmp_path / "out").exists()
