"""Corpora, models and workspaces in object stores: the same results as on disk."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mtkit.files import digest_file

from ..command import run_here
from ..conftest import TINY
from ..stores import free_port, proxy, serve_s3, use_s3

STEPS = ["--set", "training.max_steps=10", "--set", "training.checkpoint_every=5"]
AZURITE = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLl"
    "mEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"
    "BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
)
"""The account that every azurite has, from its documentation."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as address:
        yield address


def mtkit(folder: Path, *arguments: str, text: str = "") -> str:
    done = run_here(folder, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


def forget(tmp_path: Path) -> None:
    """What another machine has: nothing."""
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)


@pytest.mark.slow
def test_corpora_a_model_and_a_workspace(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = use_s3(monkeypatch, server)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copy(TINY, tmp_path / "mtkit.toml")
    lines = [f"a man sees {number} dogs\tein Mann sieht {number} Hunde\n" for number in range(200)]
    (tmp_path / "own.tsv").write_text("".join(lines))
    store.mkdir("bucket")
    store.put_file(str(tmp_path / "own.tsv"), "bucket/corpora/own.tsv")
    steps = ["--set", "training.max_steps=3", "--set", "training.checkpoint_every=3"]
    steps += ["--set", "tokenizer.vocab_size=200"]
    found = {}
    for workspace, corpus in (
        (str(tmp_path / "run"), str(tmp_path / "own.tsv")),
        ("s3://bucket/runs/tiny", "s3://bucket/corpora/own.tsv"),
    ):
        options = ["-w", workspace, "--set", f'data.train=[{{path="{corpus}"}}]', *steps]
        mtkit(tmp_path, "prepare", *options)
        mtkit(tmp_path, "train", *options)
        forget(tmp_path)
        model = f"{workspace}/model"
        found[workspace] = [
            mtkit(tmp_path, "translate", *options, text="a man\n"),
            mtkit(tmp_path, "translate", "--model", model, text="a man\n"),
        ]
    on_disk, stored = found.values()
    assert on_disk == stored
    store.put_file(str(tmp_path / "own.tsv"), "bucket/own.en")
    lines = ["--input", "lines", "--model", "s3://bucket/runs/tiny/model", "--output"]
    mtkit(tmp_path, "translate", "s3://bucket/own.en", *lines, "s3://bucket/own.de.gz")
    mtkit(tmp_path, "translate", "own.tsv", *lines, "own.de.gz")
    with store.open("bucket/own.de.gz") as file:
        assert file.read() == (tmp_path / "own.de.gz").read_bytes()
    assert not list((tmp_path / "cache" / "mtkit" / "files").iterdir())
    done = run_here(tmp_path, "translate", "s3://bucket/page.html", *lines[2:], "page.html")
    assert "documents are read and written on disk" in done.stderr
    store.get_file("bucket/runs/tiny/model/model.safetensors", str(tmp_path / "stored"))
    assert digest_file(tmp_path / "stored") == digest_file(
        tmp_path / "run" / "model" / "model.safetensors"
    )
    assert not loads_fsspec("translate", "--model", str(tmp_path / "run" / "model"))


def loads_fsspec(*arguments: str) -> bool:
    program = (
        "import atexit, sys; sys.argv = ['mtkit', *sys.argv[1:]]\n"
        "atexit.register(lambda: print('fsspec' in sys.modules))\n"
        "from mtkit.cli.app import main; main()"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, input="a man\n")
    return done.stdout.endswith("True\n")


def test_help_loads_no_fsspec() -> None:
    assert not loads_fsspec("--help")


def serve_azure(folder: Path) -> subprocess.Popen[bytes]:
    pytest.importorskip("adlfs", reason="adlfs isn't installed: the extra azure")
    azurite = shutil.which("azurite-blob")
    if azurite is None:
        pytest.skip("no azurite: npm install azurite, and its bin folder into PATH")
    port = free_port()
    os.environ["AZURE_STORAGE_CONNECTION_STRING"] = AZURITE.format(port=port)
    command = [azurite, "--silent", "--skipApiVersionCheck", "--location", str(folder)]
    return subprocess.Popen([*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)])


def make_bucket(store: Any) -> None:
    for _ in range(30):
        try:
            store.mkdir("bucket")
        except (OSError, RuntimeError):
            time.sleep(1)
        else:
            return


@pytest.fixture(params=["s3", "az"])
def bucket(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "s3":
        make_bucket(use_s3(monkeypatch, request.getfixturevalue("server")))
        yield "s3://bucket"
        return
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "")
    (tmp_path / "azurite").mkdir()
    azurite = serve_azure(tmp_path / "azurite")
    try:
        make_bucket(pytest.importorskip("adlfs").AzureBlobFileSystem())
        yield "az://bucket"
    finally:
        azurite.kill()
        azurite.wait()


@pytest.mark.patient
def test_the_whole_pipeline(bucket: str, tmp_path: Path) -> None:
    shutil.copy(TINY, tmp_path / "mtkit.toml")
    workspace, exported = f"{bucket}/runs/whole", f"{bucket}/models/whole-exported"
    imported = f"{bucket}/models/whole-imported"
    for command in ("prepare", "train", "average", "score"):
        mtkit(tmp_path, command, "-w", workspace, *STEPS)
        forget(tmp_path)
    translated = mtkit(tmp_path, "translate", "-w", workspace, text="a man\n")
    mtkit(tmp_path, "export", "-w", workspace, "-o", exported, "--format", "transformers")
    forget(tmp_path)
    mtkit(tmp_path, "import", exported, "-o", imported)
    forget(tmp_path)
    assert mtkit(tmp_path, "translate", "--model", imported, text="a man\n")
    assert mtkit(tmp_path, "translate", "--model", f"{workspace}/model", text="a man\n")
    local = str(tmp_path / "on-disk")
    for command in ("prepare", "train", "average"):
        mtkit(tmp_path, command, "-w", local, *STEPS)
    assert mtkit(tmp_path, "translate", "-w", local, text="a man\n") == translated


@pytest.mark.patient
def test_killed_in_the_middle_of_an_upload(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_bucket(use_s3(monkeypatch, server))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copy(TINY, tmp_path / "mtkit.toml")
    wanted = tmp_path / "wanted"
    for command in ("prepare", "train"):
        mtkit(tmp_path, command, "-w", str(wanted), *STEPS)
    for number in (3, 9, 14, 20, 26):
        workspace = f"s3://bucket/runs/killed-{number}"
        mtkit(tmp_path, "prepare", "-w", workspace, *STEPS)
        with proxy(server) as (address, faults):
            command = [sys.executable, "-m", "mtkit", "train", "-w", workspace, *STEPS]
            process = subprocess.Popen(
                command, cwd=tmp_path, env={**os.environ, "AWS_ENDPOINT_URL": address}
            )
            while process.poll() is None:
                if sum(method == "PUT" for method, _ in faults.requests) >= number:
                    process.kill()
                time.sleep(0.01)
        assert process.returncode == -9
        # Another machine goes on from the last checkpoint that is whole in the store.
        forget(tmp_path)
        mtkit(tmp_path, "train", "-w", workspace, *STEPS)
        forget(tmp_path)
        store = use_s3(monkeypatch, server)
        name = f"{workspace.removeprefix('s3://')}/model/model.safetensors"
        store.get_file(name, str(tmp_path / "found"))
        assert digest_file(tmp_path / "found") == digest_file(wanted / "model/model.safetensors")
