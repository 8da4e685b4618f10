"""A model folder that wants a machine's memory, time or secrets is refused, in few of them.

Each case changes a folder that loads. All are loaded in a process of their own, which the system
ends when it takes more memory or time than any may.
"""

import contextlib
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from mtkit.errors import MtkitError
from mtkit.inference.translator import Translator
from mtkit.model.card import read_card, write_scores
from mtkit.model.folder import load_model_folder

LOAD = """
import json, resource, sys
from mtkit.errors import MtkitError
from mtkit.inference.translator import Translator
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
told = {}
for folder in sys.argv[1:]:
    try:
        Translator(folder, device="cpu")
        told[folder] = None
    except (MtkitError, OSError) as error:
        told[folder] = getattr(error, "message", str(error))
    except BaseException as error:
        told[folder] = f"Traceback: {error!r}"
told["grown"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps(told))
"""
MAX_GROWTH_KIB = 1 << 20
CPU_SECONDS = 120
ADDRESSES = 16 << 30


def edit(name: str, **changes: Any) -> Callable[[Path], None]:
    """Returns what changes keys of a JSON file; a double underscore leads into a section."""

    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        for key, value in changes.items():
            *sections, last = key.split("__")
            place = content
            for section in sections:
                place = place[section]
            place[last] = value
        (folder / name).write_text(json.dumps(content))

    return change


def model(**changes: Any) -> Callable[[Path], None]:
    return edit("config.json", **{f"model__{key}": value for key, value in changes.items()})


def inference(**changes: Any) -> Callable[[Path], None]:
    return edit("inference.json", **changes)


def write(name: str, content: str | bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(text)

    return change


def link(name: str, target: str) -> Callable[[Path], None]:
    """Returns what makes a file a link; `{outside}` is a copy of it that lies elsewhere."""

    def change(folder: Path) -> None:
        outside = folder.with_name(f"{folder.name}-outside-{name}")
        shutil.copy(folder / name, outside)
        (folder / name).unlink()
        (folder / name).symlink_to(target.format(outside=outside))

    return change


def pipe(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return change


def both(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change


def two_models(folder: Path) -> None:
    (folder / "joint.spm").rename(folder / "target.spm")


def header(content: bytes, *, length: int | None = None, num_bytes: int = 0) -> Callable:
    """Returns what writes a safetensors file of a header and so many bytes of hole."""

    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        size = len(content) if length is None else length
        path.write_bytes(struct.pack("<Q", size) + content)
        os.truncate(path, path.stat().st_size + num_bytes)

    return change


def grow(name: str, num_bytes: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, num_bytes)


def retype(name: str, kind: str, item_bytes: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        tensors = load_file(path)
        tensors[name] = tensors[name].to(getattr(__import__("torch"), kind))
        assert tensors[name].element_size() == item_bytes
        save_file(tensors, path)

    return change


TERABYTE = 1 << 40
LIE = b'{"x": {"dtype": "F32", "shape": [%d], "data_offsets": [0, %d]}}'
OVERFLOW = b'{"x": {"dtype": "F32", "shape": [%d, %d], "data_offsets": [0, 4]}}' % (
    TERABYTE,
    TERABYTE,
)
CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a million layers": (model(num_encoder_layers=10**6), "num_encoder_layers"),
    "layers that are allowed": (model(num_decoder_layers=1_000), "doesn't match the model"),
    "d_ff of 10^15": (model(d_ff=10**15), "d_ff"),
    "d_ff that is allowed": (model(d_ff=1_000_000), "doesn't match the model"),
    "every width there is": (
        model(d_model=100_000, d_ff=10**6, num_heads=10_000, d_key=10**5, d_value=10**5),
        "the network needs",
    ),
    "heads of 10^9": (model(num_heads=10**9, d_key=1, d_value=1), "num_heads"),
    "keys of 10^15": (model(d_key=10**15), "d_key"),
    "positions of 10^12": (model(positions="learned", max_positions=10**12), "max_positions"),
    "positions that are allowed": (
        model(positions="learned", max_positions=10**6),
        "doesn't match the model",
    ),
    "a window of 10^30": (model(attention_window=10**30), "attention_window"),
    "a vocabulary of 10^12": (
        edit("config.json", source_vocab_size=10**12, target_vocab_size=10**12),
        "source_vocab_size",
    ),
    "dropout of infinity": (write("config.json", '{"model": {"dropout": 1e999}}'), "config.json"),
    "a later format": (edit("config.json", format_version=10**4000), "format 1000"),
    "brackets": (write("config.json", "[" * 200_000), "nested too deeply"),
    "braces": (write("config.json", '{"a":' * 200_000), "nested too deeply"),
    "brackets in settings": (write("inference.json", "[" * 200_000), "nested too deeply"),
    "nested and closed": (
        write("inference.json", '{"a":' + "[" * 400 + "]" * 400 + "}"),
        "inference.json",
    ),
    "brackets of the tokenizer": (write("tokenizer.json", "[" * 200_000), "nested too deeply"),
    "5,000 digits": (write("config.json", '{"format_version": ' + "9" * 5_000 + "}"), "digits"),
    "digits of settings": (write("inference.json", '{"n_best": ' + "9" * 5_000 + "}"), "digits"),
    "a long key": (edit("config.json", **{"x" * 500_000: 1}), "x" * 100 + "x"),
    "a large config": (write("config.json", " " * (2 << 20)), "expected 1,048,576 at most"),
    "a config of a terabyte": (grow("config.json", TERABYTE), "at most"),
    "a tokenizer of a terabyte": (grow("joint.spm", TERABYTE), "at most"),
    "no UTF-8": (write("config.json", b"\xff\xfe{}"), "invalid JSON"),
    "surrogates": (edit("config.json", recipe="\ud800"), "config.json"),
    "n_best of 10^9": (inference(beam_size=10**9, n_best=10**9), "beam_size"),
    "samples of 10^9": (inference(n_best=10**9, sampling={"top_k": 5}), "n_best"),
    "max_extra_tokens of 10^12": (inference(max_extra_tokens=10**12), "max_extra_tokens"),
    "max_source_tokens of 10^12": (inference(max_source_tokens=10**12), "max_source_tokens"),
    "batch_tokens of 10^18": (inference(batch_tokens=10**18), "batch_tokens"),
    "processes": (inference(processes=10**6), "processes"),
    "stop_margin of 10^30": (inference(stop_margin=10**30), "stop_margin"),
    "no_repeat_ngram of 10^30": (inference(no_repeat_ngram=10**30), "no_repeat_ngram"),
    "min_length of 10^30": (inference(min_length=10**30), "min_length"),
    "a seed of 10^30": (inference(sampling={"seed": 10**30}), "seed"),
    "top_k of 10^30": (inference(sampling={"top_k": 10**30}), "top_k"),
    "alpha of infinity": (inference(length_penalty={"alpha": 1e30}), "alpha"),
    "one of two models": (two_models, "no such tokenizer"),
    "/dev/zero for one of two": (
        both(two_models, lambda folder: (folder / "source.spm").symlink_to("/dev/zero")),
        "a link out of its folder",
    ),
    "/dev/zero": (link("joint.spm", "/dev/zero"), "a link out of its folder"),
    "a pipe for a tokenizer": (pipe("joint.spm"), "not a regular file"),
    "a pipe for one of two": (both(two_models, pipe("source.spm")), "not a regular file"),
    "a folder for a tokenizer": (
        both(two_models, lambda folder: (folder / "source.spm").mkdir()),
        "not a regular file",
    ),
    "a pipe for a config": (pipe("config.json"), "no model here"),
    "a pipe for settings": (pipe("inference.json"), "missing from the model folder"),
    "a pipe for weights": (pipe("model.safetensors"), "not a regular file"),
    "a link in a circle": (link("model.safetensors", "model.safetensors"), "model.safetensors"),
    **{
        f"{name} from elsewhere": (link(name, "{outside}"), "a link out of its folder")
        for name in (
            "config.json",
            "inference.json",
            "joint.spm",
            "tokenizer.json",
            "model.safetensors",
        )
    },
    "a header of 10^18 bytes": (header(b"{}", length=10**18), "header claims 1,000,000"),
    "a header of 64 MiB of hole": (header(b"{}", length=64 << 20, num_bytes=64 << 20), "header"),
    "no header": (write("model.safetensors", b""), "damaged"),
    "half a length": (write("model.safetensors", b"\x01"), "damaged"),
    "brackets for a header": (header(b"[" * 200_000), "damaged"),
    "offsets past the end": (header(LIE % (25, 100)), "damaged"),
    "a shape that overflows": (header(OVERFLOW, num_bytes=4), "damaged"),
    "another shape than its bytes": (header(LIE % (1 << 50, 100), num_bytes=100), "damaged"),
    "a terabyte of hole": (
        header(LIE % (TERABYTE // 4, TERABYTE), num_bytes=TERABYTE),
        "doesn't match the model",
    ),
    "integers for weights": (
        retype("encoder.layers.0.feed_forward.inner.bias", "int64", 8),
        "expected F32",
    ),
    "complex weights": (
        retype("encoder.layers.0.feed_forward.inner.bias", "complex64", 8),
        "has type C64",
    ),
    "half a character for a tag": (
        write("tokenizer.json", b'{"tags": ["\\ud800"]}'),
        "damaged",
    ),
    "no tokenizer": (write("joint.spm", b""), "joint.spm: damaged tokenizer: an empty file"),
    "noise for a tokenizer": (write("joint.spm", b"\x0a" * 100_000), "damaged tokenizer"),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, reused_folder: Path) -> dict[str, Any]:
    """What a process said that loaded all the folders, by case."""
    place = tmp_path_factory.mktemp("hostile")
    folders = {}
    for number, (name, (change, _)) in enumerate(CASES.items()):
        folders[name] = place / f"{number}"
        shutil.copytree(reused_folder, folders[name])
        change(folders[name])
    plain = place / "plain"
    shutil.copytree(reused_folder, plain)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))

    ended = subprocess.run(
        [sys.executable, "-c", LOAD, str(plain), *map(str, folders.values())],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found[str(plain)] is None
    return {"grown": found["grown"]} | {name: found[str(path)] for name, path in folders.items()}


@pytest.fixture(scope="module")
def reused_folder(tmp_path_factory, tokenizer, make_folder) -> Path:
    return make_folder(tmp_path_factory.mktemp("kept") / "model")


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_refused(told: dict[str, Any], name: str) -> None:
    assert told[name] is not None, "it was loaded"
    assert not told[name].startswith("Traceback"), told[name]
    assert CASES[name][1] in told[name]
    assert len(told[name]) < 1_000


def test_no_more_memory_is_taken_than_by_a_plain_one(told: dict[str, Any]) -> None:
    assert told["grown"] < MAX_GROWTH_KIB


def test_the_folder_itself_may_be_a_link_and_its_files_may_lie_deeper(folder, tmp_path) -> None:
    (folder / "blobs").mkdir()
    for name in ("config.json", "model.safetensors", "joint.spm"):
        (folder / name).rename(folder / "blobs" / name)
        (folder / name).symlink_to(Path("blobs") / name)
    place = tmp_path / "elsewhere" / "link"
    place.parent.mkdir()
    place.symlink_to(folder, target_is_directory=True)
    load_model_folder(place)


@pytest.mark.parametrize("secret", ["{outside}", "/dev/zero", "README.md"])
def test_a_card_that_is_a_link_is_not_read(folder, secret) -> None:
    link("README.md", secret)(folder)
    with pytest.raises((MtkitError, OSError), match=r"README\.md"):
        read_card(folder)
    with pytest.raises((MtkitError, OSError), match=r"README\.md"):
        write_scores(folder, [("test", "BLEU", "30.0", "signature")])
    assert (folder / "README.md").is_symlink()


_NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.sampled_from([0, -1, 1, 2, 2**31, 2**63, 10**15, 10**400]),
    st.floats(allow_nan=True, allow_infinity=True),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("name", ["config.json", "inference.json", "tokenizer.json"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_key_says_the_error_is_ours(reused_folder, name: str, data) -> None:
    """The folder loads, or is refused; nothing else is raised, and nothing large is made."""
    path = reused_folder / name
    before = path.read_text()
    content = json.loads(before)
    place, key = content, data.draw(st.sampled_from(sorted(content)))
    while isinstance(place[key], dict) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place)))
    if data.draw(st.booleans()):
        place[key] = data.draw(_VALUES)
    elif data.draw(st.booleans()):
        del place[key]
    else:
        place[data.draw(st.text(max_size=8))] = data.draw(_VALUES)
    path.write_text(json.dumps(content))
    try:
        with contextlib.suppress(MtkitError):
            Translator(reused_folder, device="cpu")
    finally:
        path.write_text(before)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_whatever_bytes_a_file_has_the_error_is_ours(reused_folder, name: str, data) -> None:
    path = reused_folder / name
    before = path.read_bytes()
    end = min(len(before), 4_096)
    content = bytearray(before)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    is_cut = data.draw(st.booleans())
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if is_cut else content)
    try:
        with contextlib.suppress(MtkitError):
            load_model_folder(reused_folder)
    finally:
        path.write_bytes(before)
