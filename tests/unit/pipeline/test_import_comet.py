"""`mtkit import` on COMET's folders: sound ones, and hostile ones."""

import io
import json
import os
import pickle
import struct
import zipfile
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import yaml
from tokenizers import Tokenizer, normalizers

from mtkit.errors import MtkitError
from mtkit.inference.learned_metric import check_metric, open_metric
from mtkit.model.comet import load_comet, naming_faults, read_comet_config
from mtkit.model.config import read_config
from mtkit.model.importers.comet import read_tokenizer
from mtkit.model.importers.source_folder import open_source
from mtkit.pipeline.import_model import import_model
from mtkit.text.arrange_pieces import read_charsmap

from ...learned_metrics import ROWS, write_metric
from ...public_models import ENGLISH, train_sentencepiece

CHECKPOINT = "checkpoints/model.ckpt"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return write_metric(tmp_path / "wmt22-comet-da")


@pytest.fixture
def metric(published: Path, tmp_path: Path) -> Path:
    return convert(published)


def convert(published: Path) -> Path:
    output = published.with_name("metric")
    import_model(str(published), output, encoder=str(published / "encoder"))
    return output


def fault_of(published: Path) -> MtkitError:
    with pytest.raises(MtkitError) as caught:
        convert(published)
    assert not published.with_name("metric").exists()
    return caught.value


def change(published: Path, **keys: Any) -> None:
    path = published / CHECKPOINT
    saved = torch.load(path)
    saved["state_dict"] |= keys
    saved["state_dict"] = {k: v for k, v in saved["state_dict"].items() if v is not None}
    torch.save(saved, path)


def edit_json(path: Path, **keys: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **keys}), "utf-8")


def test_a_folder_has_no_pickle_and_names_its_licence(published: Path, capsys) -> None:
    metric = convert(published)
    names = sorted(path.name for path in metric.iterdir())
    assert names == ["README.md", "config.json", "model.safetensors", "tokenizer.json"]
    assert "license: apache-2.0" in (metric / "README.md").read_text()
    assert "licence: apache-2.0" in capsys.readouterr().err
    opened = open_metric(str(metric))
    assert (opened.name, opened.model) == ("COMET", "wmt22-comet-da")
    digest = load_comet(metric).digest
    assert f"model:wmt22-comet-da|digest:{digest}|precision:fp32|" in opened.signature


def test_a_key_of_hparams_replaces_sparsemax(published: Path) -> None:
    # unbabel-comet 2.2.4 and later, comet/models/__init__.py: CometKiwi was trained with softmax.
    path = published / "hparams.yaml"
    facts = {**yaml.safe_load(path.read_text()), "layer_transformation": "sparsemax_patch"}
    path.write_text(yaml.safe_dump(facts))
    assert read_comet_config(convert(published)).layer_transformation == "softmax"


LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n" for number in range(1, 40)
)
"""Its last list has 2e39 words once it is text."""


@pytest.mark.parametrize("key", ["class_identifier", "pretrained_model"])
@pytest.mark.parametrize("value", ["*a39", "[x]", "null", "7", "x" * 201], ids=len)
def test_a_name_is_a_short_text(published: Path, key: str, value: str) -> None:
    path = published / CHECKPOINT
    saved = torch.load(path)
    saved["hyper_parameters"].pop(key, None)
    torch.save(saved, path)
    path = published / "hparams.yaml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(key)]
    path.write_text("\n".join([LAUGHS, *lines, f"{key}: {value}", ""]))
    assert f"{key}: expected a name of up to 200 characters" in fault_of(published).message


def test_what_aliases_hold_is_not_written_out(published: Path) -> None:
    path = published / CHECKPOINT
    saved = torch.load(path)
    laughs: list[object] = ["ha"]
    for _ in range(40):
        laughs = [laughs] * 10
    saved["hyper_parameters"] |= {"pool": laughs}
    torch.save(saved, path)
    assert "pool: Input should be 'avg', 'max' or 'cls'" in fault_of(published).message
    saved["hyper_parameters"] |= {"pretrained_model": laughs}
    torch.save(saved, path)
    assert "pretrained_model: expected a name" in fault_of(published).message
    merged = "a0: &a0 {x: 1, y: 2}\n" + "".join(
        f"a{number}: &a{number} {{<<: [{', '.join([f'*a{number - 1}'] * 10)}]}}\n"
        for number in range(1, 40)
    )
    (published / "hparams.yaml").write_text(merged)
    assert "hparams.yaml: a merge key" in fault_of(published).message


class Program:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("place", ["state_dict", "callbacks", "hyper_parameters"])
def test_a_pickle_that_names_a_program_is_refused(published: Path, place: str) -> None:
    mark = published.with_name("mark")
    path = published / CHECKPOINT
    saved = torch.load(path)
    saved.setdefault(place, {})["x"] = Program(mark)
    torch.save(saved, path)
    fault = fault_of(published)
    assert "code in it, which is never run" in fault.message
    assert "it names posix.system" in fault.message
    assert not mark.exists()


def test_a_bare_pickle_is_refused(published: Path) -> None:
    mark = published.with_name("mark")
    (published / CHECKPOINT).write_bytes(pickle.dumps(Program(mark)))
    assert "wmt22-comet-da/checkpoints/model.ckpt: damaged" in fault_of(published).message
    assert not mark.exists()


def test_a_tensor_that_claims_more_than_its_storage_is_refused(published: Path) -> None:
    """The file is rewritten: a storage of the estimator's bias has fewer bytes than its shape."""
    path, rewritten = published / CHECKPOINT, io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(rewritten, "w") as new:
        parts = [each for each in old.infolist() if "/data/" in each.filename]
        for each in old.infolist():
            content = old.read(each)
            # All of the stored numbers are dropped but one.
            new.writestr(each.filename, content[:4] if each in parts else content)
    path.write_bytes(rewritten.getvalue())
    assert "model.ckpt: damaged" in fault_of(published).message


def test_overlapping_storages_are_refused(published: Path) -> None:
    path, rewritten = published / CHECKPOINT, io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(rewritten, "w") as new:
        for each in old.infolist():
            name = each.filename
            content = old.read(each)
            # The embedding's storage ends early; what follows in the file isn't it.
            is_cut = "/data/" in name and len(content) == 39 * 8 * 4
            new.writestr(name, content[:64] if is_cut else content)
    path.write_bytes(rewritten.getvalue())
    assert "model.ckpt: damaged" in fault_of(published).message


def test_shapes_must_be_those_of_the_config(published: Path) -> None:
    change(published, **{"estimator.ff.6.bias": torch.zeros(1).expand(1_000_000_000)})
    fault = fault_of(published)
    assert "estimator.ff.6.bias has shape [1000000000], expected [1]" in fault.message
    assert "config.json of xlm-roberta-large" in fault.hint
    change(published, **{"estimator.ff.6.bias": None})
    assert "estimator.ff.6.bias is missing" in fault_of(published).message


def test_another_encoder_is_refused(published: Path) -> None:
    edit_json(published / "encoder" / "config.json", num_hidden_layers=1)
    assert "encoder.model.encoder.layer.1" in fault_of(published).message
    edit_json(published / "encoder" / "config.json", model_type="bert")
    assert "encoder.model_type: Input should be 'xlm-roberta'" in fault_of(published).message
    edit_json(
        published / "encoder" / "config.json", model_type="xlm-roberta", hidden_size=1 << 20,
        intermediate_size=1 << 20, num_hidden_layers=200,
    )  # fmt: skip
    assert "but this machine has" in fault_of(published).message


def test_other_metrics_are_refused(published: Path) -> None:
    path = published / "hparams.yaml"
    path.write_text(path.read_text().replace("regression_metric", "xcomet_metric"))
    assert (
        "class_identifier is xcomet_metric, expected regression_metric"
        in fault_of(published).message
    )
    path.write_text("[1, 2]")
    assert "hparams.yaml: damaged" in fault_of(published).message


def test_a_missing_encoder_is_named(published: Path, tmp_path: Path) -> None:
    with pytest.raises(MtkitError) as caught:
        import_model(str(published), tmp_path / "metric", encoder=str(tmp_path / "nowhere"))
    assert "--encoder FOLDER" in caught.value.hint
    assert "xlm-roberta-large" in caught.value.hint


def test_a_checkpoint_names_no_folder_here(tmp_path: Path) -> None:
    published = write_metric(tmp_path / "da", pretrained_model=str(tmp_path))
    with pytest.raises(MtkitError, match="which isn't opened"):
        import_model(str(published), tmp_path / "metric")


def test_a_metric_is_no_translator(metric: Path) -> None:
    with pytest.raises(MtkitError, match="a learned metric, not a translator"):
        read_config(metric)


def test_a_sentencepiece_model_becomes_the_encoders_tokenizer(tmp_path: Path) -> None:
    """Ids are sentencepiece's own, plus one: XLM-R has `<pad>` among the special tokens."""
    model = train_sentencepiece(tmp_path / "trained.model", ENGLISH)
    model = model.rename(tmp_path / "sentencepiece.bpe.model")
    written = Tokenizer.from_str(read_tokenizer(open_source(str(tmp_path))).decode())
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for line in [*ENGLISH, "  A  dog ", "ﬁsh ½"]:
        theirs = processor.encode(line)
        found = written.encode(line, add_special_tokens=False).ids
        # `<unk>` is 0 there and 3 here.
        assert found == [each + 1 if each else 3 for each in theirs]
    assert written.token_to_id("<pad>") == 1


def test_a_folder_whose_sizes_lie_is_refused(metric: Path) -> None:
    config = json.loads((metric / "config.json").read_text())
    for key, value, fault in (
        ("vocab_size", 2_000_000, "39 pieces, but the encoder has 2,000,000 rows"),
        ("vocab_size", 60, "model.safetensors: doesn't match the model"),
        ("hidden_size", 1 << 20, "but this machine has"),
        ("num_hidden_layers", 3, "model.safetensors: doesn't match the model"),
        ("num_hidden_layers", 10**9, "num_hidden_layers"),
        ("vocab_size", 20, "has 20 rows"),
        ("num_attention_heads", 3, "isn't a multiple of num_attention_heads"),
    ):
        edit_json(metric / "config.json", encoder={**config["encoder"], key: value})
        with pytest.raises(MtkitError, match=fault):
            load_comet(metric)


def test_a_tokenizer_that_makes_texts_grow_is_refused(metric: Path) -> None:
    path = metric / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("a", "aa")] * 40)
    tokenizer.save(str(path))
    with pytest.raises(MtkitError, match=r"tokenizer\.json: not XLM-R's tokenizer"):
        load_comet(metric)
    path.write_text('{"model": {"type": "Unigram", "unk_id": 3}}')
    with pytest.raises(MtkitError, match=r"tokenizer\.json: damaged tokenizer"):
        load_comet(metric)


def make_map(
    replacement: bytes = b"xx", *, value: int = 0, offset: int = 1, size: int = 1024
) -> str:
    """Returns a SentencePiece map of `a`, by hand: units 0, 97 and, if `offset` is 1, 96."""
    units = [0] * 256
    # Unit 97: its label, that a leaf follows, and that this one is unit 97 ^ offset.
    units[97], units[96] = 97 | 1 << 8 | offset << 10, 1 << 31 | value
    content = struct.pack("<I256I", size, *units) + replacement + b"\0"
    return b64encode(content).decode()


def set_maps(metric: Path, *maps: str) -> None:
    steps = [{"type": "Precompiled", "precompiled_charsmap": each} for each in maps]
    edit_json(metric / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": steps})


def test_sound_maps_of_characters_are_accepted(metric: Path) -> None:
    set_maps(metric, make_map())
    tokenizer = Tokenizer.from_file(str(metric / "tokenizer.json"))
    assert tokenizer.normalizer.normalize_str("bab") == "bxxb"
    load_comet(metric)
    for rule in ("nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf"):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(ENGLISH),
            model_writer=model,
            vocab_size=60,
            hard_vocab_limit=False,
            normalization_rule_name=rule,
            minloglevel=2,
        )
        set_maps(metric, read_charsmap(model.getvalue()))
        load_comet(metric)


@pytest.mark.parametrize(
    "maps",
    [
        [make_map(b"x" * 200)],
        [make_map(), make_map()],
        [""],
        ["AAAAAAAA"],
        ["no base64"],
        [b64encode(bytes(range(1, 9))).decode()],
        [make_map(size=1020)],
        [make_map(size=0)],
        [make_map(size=2**32 - 1024)],
        # Ways out of the trie and out of the replacements, and into the middle of a letter.
        [make_map(offset=1 << 12)],
        [make_map(value=3)],
        [make_map(value=2**31 - 1)],
        [make_map("ü".encode(), value=1)],
        [make_map(b"\xff")],
    ],
    ids=str,
)
def test_hostile_maps_of_characters_are_refused(metric: Path, maps: list[str]) -> None:
    set_maps(metric, *maps)
    with pytest.raises(MtkitError, match=r"tokenizer\.json: not XLM-R's tokenizer"):
        load_comet(metric)


@pytest.mark.parametrize("unknown", [None, 0, True, "3", 10**30])
def test_the_unknown_piece_is_number_3(metric: Path, unknown: object) -> None:
    path = metric / "tokenizer.json"
    edit_json(path, model={**json.loads(path.read_text())["model"], "unk_id": unknown})
    with pytest.raises(MtkitError, match=r"tokenizer\.json: not XLM-R's tokenizer"):
        load_comet(metric)


def test_what_the_tokenizers_library_raises_becomes_an_error() -> None:
    class PanicError(BaseException):
        pass

    with pytest.raises(MtkitError, match="t: damaged tokenizer: index out of"), naming_faults("t"):
        raise PanicError("index out of bounds")
    with pytest.raises(KeyboardInterrupt), naming_faults("t"):
        raise KeyboardInterrupt


def test_a_tokenizer_of_another_model_is_refused(published: Path) -> None:
    encoder = published / "encoder"
    tokenizer = json.loads((encoder / "tokenizer.json").read_text())
    pieces = tokenizer["model"]["vocab"]
    swapped = [*pieces[2::-1], *pieces[3:]]
    tokenizer["added_tokens"][0]["id"], tokenizer["added_tokens"][2]["id"] = 2, 0
    edit_json(
        encoder / "tokenizer.json",
        added_tokens=tokenizer["added_tokens"],
        model={**tokenizer["model"], "vocab": swapped},
    )
    fault = fault_of(published)
    assert "39 pieces, but the encoder has 39 rows, of which the first are for <s>" in fault.message
    (encoder / "tokenizer.json").unlink()
    (encoder / "sentencepiece.bpe.model").write_bytes(b"")
    # Special pieces alone.
    assert "5 pieces, but the encoder has 39 rows" in fault_of(published).message
    train_sentencepiece(encoder / "other.model", ENGLISH).rename(
        encoder / "sentencepiece.bpe.model"
    )
    assert "pieces, but the encoder has 39 rows" in fault_of(published).message


def test_a_missing_or_other_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match="no metric here") as caught:
        check_metric(str(tmp_path))
    assert "mtkit import" in caught.value.hint
    (tmp_path / "config.json").write_text('{"recipe": "x"}')
    with pytest.raises(MtkitError, match="not a learned metric"):
        check_metric(str(tmp_path))


def test_transformers_is_named_if_it_is_missing(metric: Path, monkeypatch) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("mtkit.programs.import_module", fail)
    with pytest.raises(MtkitError, match="COMET needs transformers") as caught:
        load_comet(metric)
    assert "[transformers]" in caught.value.hint


def test_a_score_that_is_nan_names_its_row(published: Path) -> None:
    name = "encoder.model.embeddings.word_embeddings.weight"
    weights = torch.load(published / CHECKPOINT)["state_dict"][name]
    # The vector of `z`, after four special pieces and 25 letters.
    weights[29] = torch.nan
    change(published, **{name: weights})
    opened = open_metric(str(convert(published)))
    assert opened.score(ROWS[:2]).shape == (2,)
    fault = "COMET wmt22-comet-da: the score of row 3 is NaN or infinite, of the translation 'zoo'"
    with pytest.raises(MtkitError, match=fault):
        opened.score([*ROWS[:2], ("ein hund", "zoo", "a dog")])


def test_rows_without_a_reference_need_none(published: Path, tmp_path: Path) -> None:
    kiwi = write_metric(tmp_path / "kiwi", "kiwi")
    import_model(str(kiwi), tmp_path / "imported", encoder=str(kiwi / "encoder"))
    opened = open_metric(str(tmp_path / "imported"))
    assert opened.name == "CometKiwi"
    without = [(source, translation, "") for source, translation, _ in ROWS]
    assert opened.score(without).tolist() == opened.score(ROWS).tolist()
    with pytest.raises(MtkitError, match="needs the source text"):
        check_metric(str(tmp_path / "imported"), has_sources=False)
