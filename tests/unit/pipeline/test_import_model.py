"""`mtkit import` on folders that are broken, hostile or of other kinds, and from the hub."""

import json
import pickle
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from huggingface_hub import constants

from mtkit.errors import MtkitError
from mtkit.model.card import CARD_FILE
from mtkit.model.folder import load_model_folder
from mtkit.model.importers import source_folder
from mtkit.model.importers.licence import read_licence
from mtkit.model.importers.source_folder import open_source
from mtkit.pipeline.import_model import import_model
from mtkit.text.token_ids import BOS

from ...public_models import PublicModel, make_marian


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> PublicModel:
    return make_marian(tmp_path_factory.mktemp("public") / "opus-mt-en-de")


@pytest.fixture
def folder(marian: PublicModel, tmp_path: Path) -> Path:
    """Returns a copy of a public model that a test may damage."""
    return Path(shutil.copytree(marian.folder, tmp_path / "opus-mt-en-de"))


def edit_json(path: Path, **keys: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **keys}), "utf-8")


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    path = folder / "model.safetensors"
    tensors = {name: each.clone() for name, each in safetensors.torch.load_file(path).items()}
    change(tensors)
    safetensors.torch.save_file(tensors, path)


def test_the_folder_says_what_the_model_is(folder, tmp_path, capsys):
    import_model(str(folder), tmp_path / "imported")
    loaded = load_model_folder(tmp_path / "imported")
    assert loaded.config.recipe == "opus-mt-en-de"
    assert (loaded.config.source_language, loaded.config.target_language) == ("en", "de")
    settings = loaded.settings
    assert (settings.beam_size, settings.max_output_tokens) == (4, 23)
    assert (settings.length_penalty.kind, settings.length_penalty.alpha) == ("power", 1.0)
    card = (tmp_path / "imported" / CARD_FILE).read_text("utf-8")
    assert "license: cc-by-4.0" in card
    assert "licence: cc-by-4.0" in capsys.readouterr().err


def test_a_pickle_gives_the_same_weights(folder, tmp_path):
    import_model(str(folder), tmp_path / "from-safetensors")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    import_model(str(folder), tmp_path / "from-pickle")
    files = [tmp_path / name / "model.safetensors" for name in ("from-safetensors", "from-pickle")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_pickle_of_old_pytorch_gives_the_same_weights(folder, tmp_path):
    import_model(str(folder), tmp_path / "from-safetensors")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    (folder / "model.safetensors").unlink()
    import_model(str(folder), tmp_path / "from-pickle")
    files = [tmp_path / name / "model.safetensors" for name in ("from-safetensors", "from-pickle")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_weights_in_several_files(folder, tmp_path):
    import_model(str(folder), tmp_path / "whole")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    names = sorted(tensors)
    where = {}
    for index, part in enumerate((names[:10], names[10:])):
        file = f"model-{index + 1:05}-of-00002.safetensors"
        safetensors.torch.save_file({name: tensors[name] for name in part}, folder / file)
        where |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    index_file = folder / "model.safetensors.index.json"
    index_file.write_text(json.dumps({"weight_map": where}), "utf-8")
    import_model(str(folder), tmp_path / "parts")
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_half_precision_weights_are_stored_in_fp32(folder, tmp_path):
    edit_weights(folder, lambda found: found.update({k: v.half() for k, v in found.items()}))
    import_model(str(folder), tmp_path / "imported")
    tensors = safetensors.torch.load_file(tmp_path / "imported" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}


def test_a_bias_that_is_absent_is_zero(folder, tmp_path):
    edit_weights(folder, lambda found: found.pop("final_logits_bias", None))
    import_model(str(folder), tmp_path / "imported")
    bias = load_model_folder(tmp_path / "imported").translator.output_bias
    assert bias is not None
    assert bias.count_nonzero() == 1
    assert bias[BOS] == -1000.0


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _write(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def _config(**keys: Any) -> Callable[[Path], None]:
    return lambda folder: edit_json(folder / "config.json", **keys)


def _generation(**keys: Any) -> Callable[[Path], None]:
    return lambda folder: edit_json(folder / "generation_config.json", **keys)


def _truncate(name: str, share: float) -> Callable[[Path], None]:
    def truncate(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return truncate


class _Bomb:
    """Makes a folder where it is unpickled by a careless reader."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (Path("exploded"),)


def _arm(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"model.shared.weight": _Bomb()}, folder / "pytorch_model.bin")


def _arm_plainly(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb()))


def _claim_a_lot(folder: Path) -> None:
    header = json.dumps(
        {"model.shared.weight": {"dtype": "F32", "shape": [10**6, 25_000], "data_offsets": [0, 10]}}
    ).encode()
    content = len(header).to_bytes(8, "little") + header + b"\0" * 10
    (folder / "model.safetensors").write_bytes(content)


def _add_token(folder: Path) -> None:
    """As a tokenizer's `add_tokens` and `save_pretrained`."""
    (folder / "added_tokens.json").write_text('{"WINDOW": 300}', "utf-8")


def _poison(folder: Path) -> None:
    def change(found: dict[str, torch.Tensor]) -> None:
        found["model.encoder.layers.0.fc1.weight"][3, 5] = torch.nan

    edit_weights(folder, change)


def _link_out(folder: Path) -> None:
    (folder / "vocab.json").rename(folder.parent / "elsewhere.json")
    (folder / "vocab.json").symlink_to(folder.parent / "elsewhere.json")


def _point_index_out(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.shared.weight": "../../model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_remove("config.json"), "no config.json"),
        (_write("config.json", b""), "invalid JSON"),
        (_write("config.json", b"[1]"), "expected a JSON object"),
        (_write("config.json", b"[" * 100_000), "nested too deeply"),
        (_write("config.json", b"\xff\xfe{}"), "invalid JSON"),
        (_config(model_type="t5"), 'model_type = "t5", expected "marian"'),
        (_config(model_type="x" * 10_000), "expected"),
        (_config(activation_function="gelu_fast"), "activation_function"),
        (_config(normalize_embedding=True), "normalize_embedding"),
        (_config(normalize_before=True), "normalize_before"),
        (_config(static_position_embeddings=False), "static_position_embeddings"),
        (_config(decoder_ffn_dim=64), "encoder_ffn_dim = 48 and decoder_ffn_dim = 64"),
        (_config(d_model=33), "d_model"),
        (_config(encoder_layers=5), "model.encoder.layers.2"),
        (_config(encoder_layers=1), "has no counterpart here"),
        (_config(vocab_size=10**9), "vocab_size"),
        (_config(d_model=10**5, encoder_layers=1000), "memory"),
        (_config(eos_token_id=5), "eos_token_id = 5, but </s> has id 0"),
        (_config(share_encoder_decoder_embeddings=False), "no target_vocab.json"),
        (_generation(repetition_penalty=1.3), "repetition_penalty = 1.3"),
        (_generation(do_sample=True), "do_sample = True"),
        (_generation(bad_words_ids=[[5, 6]]), "bad_words_ids has [5, 6]"),
        (_generation(num_beams=0), "num_beams"),
        (_generation(forced_bos_token_id=5), "forced_bos_token_id = 5"),
        (_generation(suppress_tokens=[3]), "suppress_tokens = [3]"),
        (_generation(sequence_bias=[[[3], 1.0]]), "sequence_bias = [[[3], 1.0]]"),
        (_generation(decoder_start_token_id=0), "decoder_start_token_id = 0, but config.json"),
        (_generation(eos_token_id=[0, 5]), "eos_token_id = [0, 5], but config.json has 0"),
        (_add_token, "added tokens (WINDOW)"),
        (_poison, "NaN or infinite values in the weights of encoder.layers.0"),
        (_remove("source.spm"), "no source.spm"),
        (_write("source.spm", b""), "tokenizer"),
        (_write("source.spm", b"\x80" * 50), "tokenizer"),
        (_truncate("source.spm", 0.5), "source.spm: damaged tokenizer"),
        (_remove("vocab.json"), "no vocab.json"),
        (_write("vocab.json", b'{"a": "b"}'), "expected a whole number"),
        (_write("vocab.json", b'{"</s>": 0, "<unk>": 99999}'), "has id 99999"),
        (_write("vocab.json", b'{"</s>": 0, "<unk>": 0}'), "have the same id 0"),
        (_write("vocab.json", b'{"a": 0}'), "no <unk>"),
        (_remove("model.safetensors"), "no weights here"),
        (_write("model.safetensors", b""), "damaged"),
        (_truncate("model.safetensors", 0.5), "damaged"),
        (_claim_a_lot, "damaged"),
        (_arm, "code in it, which is never run"),
        (_arm_plainly, "code in it, which is never run"),
        (_link_out, "a link out of its folder"),
        (_point_index_out, "names files outside this folder"),
    ],
)
def test_what_is_wrong_is_said(folder, tmp_path, monkeypatch, damage, message):
    monkeypatch.chdir(tmp_path)
    damage(folder)
    with pytest.raises(MtkitError) as found:
        import_model(str(folder), tmp_path / "imported")
    assert message in found.value.message
    assert len(found.value.message) < 1_000
    assert not (tmp_path / "imported").exists()
    assert not (tmp_path / "exploded").exists()


def test_lengths_of_new_tokens_come_first(folder, tmp_path):
    # transformers' max_length counts the decoder's first input, max_new_tokens doesn't.
    edit_json(folder / "generation_config.json", max_length=20, max_new_tokens=40, min_new_tokens=3)
    import_model(str(folder), tmp_path / "imported")
    settings = load_model_folder(tmp_path / "imported").settings
    assert (settings.max_output_tokens, settings.min_length) == (40, 3)


def test_other_matrices_than_the_config_says(folder, tmp_path):
    def untie(found: dict[str, torch.Tensor]) -> None:
        found["lm_head.weight"] = found["model.shared.weight"] + 1.0

    edit_weights(folder, untie)
    with pytest.raises(MtkitError, match=r"lm_head\.weight is another matrix"):
        import_model(str(folder), tmp_path / "imported")


def test_positions_that_are_no_waves(folder, tmp_path):
    def learn(found: dict[str, torch.Tensor]) -> None:
        found["model.encoder.embed_positions.weight"] = torch.ones(64, 32)

    edit_weights(folder, learn)
    with pytest.raises(MtkitError, match="differs from the sinusoids"):
        import_model(str(folder), tmp_path / "imported")


def test_an_output_folder_that_holds_something_stays(folder, tmp_path):
    (tmp_path / "imported").mkdir()
    (tmp_path / "imported" / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(MtkitError, match="already exists"):
        import_model(str(folder), tmp_path / "imported")
    assert [path.name for path in (tmp_path / "imported").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["nowhere", "a/b/c", "./x", "-"])
def test_neither_a_folder_nor_a_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MtkitError, match="no such folder"):
        import_model(name, tmp_path / "imported")


@pytest.mark.parametrize(
    ("first", "form"), [("[x]", "[{}]"), ("{x: 1}", "{{<<: [{}]}}")], ids=["aliases", "merges"]
)
def test_a_card_whose_values_are_endless_names_no_licence(first, form, tmp_path):
    lines = [f"license: &0 {first}"]
    lines += [f"license: &{n + 1} {form.format(', '.join([f'*{n}'] * 10))}" for n in range(40)]
    (tmp_path / "README.md").write_text("\n".join(["---", *lines, "---", ""]))
    assert read_licence(open_source(str(tmp_path))).name == ""


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("---\nlicense: cc-by-nc-4.0\n---\n", "not for commercial use"),
        ("---\nlicense: [apache-2.0, mit]\n---\n", "licence: apache-2.0, mit"),
        ("---\nlicense: other\nlicense_name: my-nc-licence\n---\n", "not for commercial use"),
        ("---\nlicense: [\n---\n", "names no licence"),
        ("---\n- 1\n---\n", "names no licence"),
        ("", "names no licence"),
        ("---\nlicense: !!python/object/apply:os.mkdir [exploded]\n---\n", "names no licence"),
    ],
)
def test_licences(folder, tmp_path, monkeypatch, capsys, card, expected):
    monkeypatch.chdir(tmp_path)
    (folder / CARD_FILE).write_text(card, "utf-8")
    import_model(str(folder), tmp_path / "imported")
    assert expected in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "exploded").exists()


class _Hub(BaseHTTPRequestHandler):
    """The part of the hub's interface that a download needs."""

    folder: Path
    asked: list[str]
    commit = "0" * 39 + "1"

    def do_HEAD(self) -> None:
        """Answers a question for a file's size and digest."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answers with a list of files, or with a file."""
        path = self.path.partition("?")[0]
        type(self).asked.append(path)
        files = sorted(each.name for each in self.folder.iterdir())
        if "/resolve/" in path:
            name = path.rpartition("/")[2]
            content = (self.folder / name).read_bytes()
            self._answer(
                content, {"X-Repo-Commit": self.commit, "ETag": f'"{name}-{len(content)}"'}
            )
        elif "/tree/" in path:
            tree = [
                {
                    "type": "file",
                    "path": name,
                    "size": (self.folder / name).stat().st_size,
                    "oid": f"{index:040x}",
                }
                for index, name in enumerate(files)
            ]
            self._answer(json.dumps(tree).encode())
        elif path.startswith("/api/models/owner/opus-mt-en-de"):
            found = {
                "id": "owner/opus-mt-en-de",
                "sha": self.commit,
                "siblings": [{"rfilename": name} for name in files],
            }
            self._answer(json.dumps(found).encode())
        else:
            self.send_error(404)

    def _answer(self, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Hub]]:
    """Yields a hub on this machine that has one model."""
    _Hub.folder, _Hub.asked = folder, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        endpoint + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    yield _Hub
    server.shutdown()
    server.server_close()


def test_a_model_of_the_hub(hub, folder, tmp_path):
    (folder / "modeling.py").write_text("raise SystemExit", "utf-8")
    import_model("owner/opus-mt-en-de", tmp_path / "imported")
    import_model(str(folder), tmp_path / "from-folder")
    files = [tmp_path / name / "model.safetensors" for name in ("imported", "from-folder")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not any("modeling.py" in path and "/resolve/" in path for path in hub.asked)
    assert "base_model: owner/opus-mt-en-de" in (tmp_path / "imported" / CARD_FILE).read_text()
    assert load_model_folder(tmp_path / "imported").config.recipe == "opus-mt-en-de"
    # A copy of the cache on another machine, whose files are links to blobs.
    copy = shutil.copytree(tmp_path / "cache", tmp_path / "copy", symlinks=True)
    [snapshot] = copy.glob("models--owner--opus-mt-en-de/snapshots/*")
    assert (snapshot / "config.json").is_symlink()
    import_model(str(snapshot), tmp_path / "from-copy")
    assert (tmp_path / "from-copy" / "model.safetensors").read_bytes() == files[0].read_bytes()
    assert "base_model: owner/opus-mt-en-de" in (tmp_path / "from-copy" / CARD_FILE).read_text()
    shutil.move(snapshot.parent.parent / "blobs", tmp_path / "elsewhere")
    with pytest.raises(MtkitError, match=r": a link to .*, which is missing"):
        import_model(str(snapshot), tmp_path / "out")
    shutil.move(tmp_path / "elsewhere", snapshot.parent.parent / "blobs")
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(folder / "config.json")
    with pytest.raises(MtkitError, match="a link out of its folder"):
        import_model(str(snapshot), tmp_path / "out")


def test_a_model_that_the_hub_lacks(hub, tmp_path):
    with pytest.raises(MtkitError, match="owner/nothing"):
        import_model("owner/nothing", tmp_path / "imported")


def test_off_the_network(tmp_path):
    with pytest.raises(MtkitError, match="can't be reached") as found:
        import_model("owner/opus-mt-en-de", tmp_path / "imported")
    assert "hf download owner/opus-mt-en-de" in found.value.hint


def test_only_files_of_the_model_are_asked_for():
    assert not any(pattern.endswith((".py", "*")) for pattern in source_folder.FILES)
