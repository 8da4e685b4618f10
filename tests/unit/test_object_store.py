"""Objects of a store are read as files on disk are, whatever the server and the network do."""

import gzip
import random
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.registry import _registry
from pydantic import TypeAdapter, ValidationError

from mtkit import remote_files
from mtkit.data.sources.corpora import check_corpus, read_corpus_pairs
from mtkit.errors import MtkitError
from mtkit.executor import LocalExecutor
from mtkit.recipe.corpora import FileCorpus, PairedFileCorpus
from mtkit.recipe.corpus_files import FileLocation
from mtkit.storage import Url, describe_location, find_location, measure_location, open_location

from ..stores import SECRET, in_memory, proxy, serve_s3, use_s3

CONTENT = random.Random(1).randbytes(3_000_000)
PAIRS = [(f"sentence {number}", f"Satz {number}") for number in range(3_000)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as address:
        yield address


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "PAUSES", (0.0, 0.0, 0.0, 0.0))


def test_any_place_of_an_object(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = use_s3(monkeypatch, server)
    store.pipe_file("places/a b.bin", CONTENT)
    url = Url("s3://places/a b.bin")
    assert measure_location(url) == len(CONTENT)
    described = describe_location(url)
    assert (described["name"], described["size"]) == (url, len(CONTENT))
    assert described["version"] == store.info("places/a b.bin")["ETag"]
    with open_location(url) as stream:
        assert stream.read() == CONTENT
        for start in (200_000, 5, 2_999_990, 0):
            stream.seek(start)
            assert stream.read(50) == CONTENT[start : start + 50]
        stream.seek(-7, 2)
        assert stream.read() == CONTENT[-7:]
    store.pipe_file("places/empty", b"")
    with open_location(Url("s3://places/empty")) as stream:
        assert stream.read() == b""


def test_corpora_of_any_format(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = use_s3(monkeypatch, server)
    sources, targets = ("".join(f"{line}\n" for line in side) for side in zip(*PAIRS, strict=True))
    store.pipe_file("corpora/a.en.gz", gzip.compress(sources.encode()))
    store.pipe_file("corpora/a.de.zst", pa.compress(targets.encode(), "zstd", asbytes=True))
    (tmp_path / "a.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.en", sources)
        archive.writestr("a.de", targets)
    columns = zip(("en", "de"), zip(*PAIRS, strict=True), strict=True)
    pq.write_table(pa.table({name: list(lines) for name, lines in columns}), tmp_path / "a.parquet")
    for ending in ("tsv", "zip", "parquet"):
        store.put_file(str(tmp_path / f"a.{ending}"), f"corpora/a.{ending}")
    corpora = [
        FileCorpus(source="s3://corpora/a.en.gz", target="s3://corpora/a.de.zst"),
        *(
            PairedFileCorpus(path=f"s3://corpora/a.{ending}")
            for ending in ("tsv", "zip", "parquet")
        ),
    ]
    read = partial(read_corpus_pairs, phrasebook_split="dev", languages=("en", "de"))
    for corpus in corpora:
        check_corpus(corpus, languages=("en", "de"))
        assert list(read(corpus)) == PAIRS
    store.pipe_file("corpora/empty.tsv", b"")
    with pytest.raises(MtkitError, match=r"s3://corpora/empty\.tsv: empty file"):
        check_corpus(PairedFileCorpus(path="s3://corpora/empty.tsv"), languages=("en", "de"))
    with pytest.raises(MtkitError, match=r"s3://corpora/none\.tsv: no such object"):
        check_corpus(PairedFileCorpus(path="s3://corpora/none.tsv"), languages=("en", "de"))


def read_start(url: Url) -> bytes:
    with open_location(url) as stream:
        return stream.read(5)


def build_reader() -> object:
    return read_start


def test_worker_processes_read_too(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = use_s3(monkeypatch, server)
    urls = [Url(f"s3://workers/{number}") for number in range(4)]
    for url in urls:
        store.pipe_file(url, f"text {url[-1]}".encode())
    # This process has a thread and connections of its own by now.
    assert read_start(urls[0]) == b"text "
    found = LocalExecutor(2).run(partial(partial, read_start), urls)
    assert list(found) == [b"text "] * 4


@pytest.fixture
def faulty(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple]:
    use_s3(monkeypatch, server).pipe_file("faults/a.bin", CONTENT)
    with proxy(server) as (address, faults):
        yield use_s3(monkeypatch, address), faults


URL = Url("s3://faults/a.bin")


def test_a_busy_store_is_asked_again(faulty: tuple) -> None:
    _, faults = faulty
    faults.statuses = [503] * 3
    with open_location(URL) as stream:
        faults.statuses = [503, 500, 503]
        assert stream.read() == CONTENT
    faults.statuses = [503] * 99
    with pytest.raises(MtkitError, match=r"s3://faults/a\.bin: 503 Service Unavailable"):
        measure_location(URL)
    # One request for each of the five tries: no library retries below them.
    assert len(faults.statuses) == 94


def test_truncated_answers_and_resets(faulty: tuple) -> None:
    _, faults = faulty
    faults.num_cut, faults.num_reset = 2, 2
    with open_location(URL) as stream:
        assert stream.read() == CONTENT
    assert (faults.num_cut, faults.num_reset) == (0, 0)
    with open_location(URL) as stream:
        faults.num_cut = 99
        with pytest.raises(MtkitError, match=r"s3://faults/a\.bin: "):
            stream.read()
        faults.num_cut, faults.num_reset = 0, 99
        with pytest.raises(MtkitError, match=r"s3://faults/a\.bin: "):
            stream.read()


@pytest.mark.patient
def test_a_silent_store_is_asked_again(faulty: tuple) -> None:
    _, faults = faulty
    with open_location(URL) as stream:
        faults.num_stalled = 2
        assert stream.read() == CONTENT
        faults.num_stalled = 99
    with pytest.raises(MtkitError, match=r"s3://faults/a\.bin: \w*Timeout\w*$"):
        measure_location(URL)
    faults.num_stalled = 0


def test_an_object_that_is_replaced_between_two_reads(faulty: tuple) -> None:
    store, _ = faulty
    with open_location(URL) as stream:
        stream.read(10)
        store.pipe_file("faults/a.bin", CONTENT[::-1])
        with pytest.raises(MtkitError, match=r"a\.bin: changed while it was being read"):
            stream.read()


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    use_s3(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(MtkitError, match=r"^s3://a/b: \w+Error$"):
        open_location(Url("s3://a/b"))


def test_a_wrong_secret_is_in_no_message(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_s3(monkeypatch, server, secret="wrong-secret")
    with pytest.raises(MtkitError, match=r"^s3://faults/a\.bin: access denied") as caught:
        measure_location(URL)
    for secret in ("wrong-secret", SECRET):
        assert secret not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "s3://user:secret@bucket/a.tsv",
        "s3://user:sec/secret@bucket/a.tsv",
        "s3://bucket/a.tsv?X-Amz-Signature=secret",
        "az://bucket/a.tsv?sig=secret",
        "gs://bucket/a.tsv#secret",
        "s3://bucket/a.tsv::file:///secret",
    ],
)
def test_urls_with_credentials_are_rejected_and_masked(url: str) -> None:
    with pytest.raises(MtkitError) as caught:
        measure_location(Url(url))
    with pytest.raises(ValidationError) as invalid:
        TypeAdapter(FileLocation).validate_python(url)
    said = str(invalid.value.errors()[0]["msg"])
    if "::" not in url:
        assert "secret" not in caught.value.message + caught.value.hint + said
    assert "expected STORE://BUCKET/PATH" in said


def test_azures_form_with_an_account_is_taken() -> None:
    url = "abfs://container@account.dfs.core.windows.net/a.tsv"
    assert TypeAdapter(FileLocation).validate_python(url) == url


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("s3://a/b", "s3fs", "s3"), ("az://a/b", "adlfs", "azure"), ("gs://a/b", "gcsfs", "gcs")],
)
def test_a_missing_package(
    monkeypatch: pytest.MonkeyPatch, url: str, module: str, extra: str
) -> None:
    monkeypatch.delitem(_registry, url[:2], raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MtkitError, match=f"needs the package {module}") as caught:
        measure_location(Url(url))
    assert f"[{extra}]" in caught.value.hint


def test_an_install_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    for url, package in (("s3://a/b", "s3fs"), ("hf://a/b", "huggingface_hub")):
        with pytest.raises(MtkitError, match=f"needs the package {package}"):
            measure_location(Url(url))


def test_other_protocols_by_the_same_interface() -> None:
    with in_memory("gs", "hf") as store:
        store().pipe_file("/bucket/a.txt", CONTENT)
        for protocol in ("gs", "hf"):
            with open_location(Url(f"{protocol}://bucket/a.txt")) as stream:
                assert stream.read() == CONTENT


def test_folders_as_they_are_typed() -> None:
    assert find_location("file:///a%20b/c") == Path("/a b/c")
    assert find_location("a/b") == Path("a/b")
    assert find_location("s3://a/b") == Url("s3://a/b")
