"""Files behind an address: read as from disk, whatever the server and the network do."""

import gzip
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtkit import http_file, remote_files
from mtkit.data.sources.corpora import check_corpus, read_corpus_pairs
from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe
from mtkit.recipe.corpora import FileCorpus, PairedFileCorpus
from mtkit.storage import (
    Location,
    Url,
    describe_location,
    find_location,
    measure_location,
    open_location,
)

from ..file_server import Faults, serve_files

CONTENT = random.Random(1).randbytes(300_000)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "PAUSES", (0.0, 0.0, 0.0))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str, Faults]]:
    (tmp_path / "a.bin").write_bytes(CONTENT)
    with serve_files(tmp_path) as (address, faults):
        yield tmp_path, address, faults


def test_a_file_is_read_by_one_request(served) -> None:
    _, address, faults = served
    url = Url(f"{address}/a.bin")
    with open_location(url) as stream:
        assert stream.read() == CONTENT
    assert faults.requests == [("GET", "")]
    assert measure_location(url) == len(CONTENT)
    described = describe_location(url)
    assert described["name"] == url
    assert described["size"] == len(CONTENT)
    assert described["version"]


@pytest.mark.parametrize("has_ranges", [True, False])
def test_any_place_can_be_read(served, has_ranges: bool) -> None:
    _, address, faults = served
    faults.has_ranges = has_ranges
    with open_location(Url(f"{address}/a.bin")) as stream:
        for start in (200_000, 5, 299_990, 0):
            stream.seek(start)
            assert stream.read(50) == CONTENT[start : start + 50]
        stream.seek(-7, 2)
        assert stream.read() == CONTENT[-7:]


def test_a_broken_connection_goes_on_where_it_ended(served) -> None:
    _, address, faults = served
    faults.max_bytes = 70_000
    with open_location(Url(f"{address}/a.bin")) as stream:
        assert stream.read() == CONTENT
    ranges = [wanted for _, wanted in faults.requests]
    assert ranges == ["", "bytes=70000-", "bytes=140000-", "bytes=210000-", "bytes=280000-"]


def test_a_server_without_ranges_that_breaks_off_sooner_the_second_time(served) -> None:
    _, address, faults = served
    faults.has_ranges, faults.first_bytes = False, [70_000, 1_000]
    with open_location(Url(f"{address}/a.bin")) as stream:
        assert stream.read() == CONTENT
    assert len(faults.requests) == 3


def test_a_silent_server_is_asked_again(served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_file, "_TIMEOUT_SECONDS", 0.3)
    _, address, faults = served
    faults.max_bytes, faults.stalls = 200_000, 1
    with open_location(Url(f"{address}/a.bin")) as stream:
        assert stream.read() == CONTENT


def test_a_server_that_never_sends_the_rest(served) -> None:
    _, address, faults = served
    faults.max_bytes = 1_000
    faults.has_ranges = False
    with (
        open_location(Url(f"{address}/a.bin")) as stream,
        pytest.raises(MtkitError, match=r"can't be read: the connection ended after 1,000 of 300,"),
    ):
        stream.read()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(served, status: int) -> None:
    _, address, faults = served
    faults.statuses = [status, status]
    with open_location(Url(f"{address}/a.bin")) as stream:
        assert stream.read() == CONTENT
    assert len(faults.requests) == 3
    faults.statuses = [status] * 9
    with pytest.raises(MtkitError, match=rf"a\.bin: {status} "):
        open_location(Url(f"{address}/a.bin"))


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_not_asked_again(served, status: int) -> None:
    _, address, faults = served
    for read in (open_location, measure_location, describe_location):
        # A server that refuses HEAD is asked for a byte.
        faults.statuses = [status] * (1 + (status == 403))
        with pytest.raises(MtkitError, match=rf"a\.bin: {status} ") as caught:
            read(Url(f"{address}/a.bin"))
        assert "is the address right?" in caught.value.hint
        faults.statuses = []
    assert len(faults.requests) == (5 if status == 403 else 3)


def test_a_url_that_is_signed_for_get_alone(served) -> None:
    _, address, faults = served
    for read in (measure_location, describe_location):
        expected = read(Url(f"{address}/a.bin"))
        faults.statuses = [403]
        assert read(Url(f"{address}/a.bin")) == expected
    assert measure_location(Url(f"{address}/a.bin")) == len(CONTENT)


def test_a_file_that_is_replaced_while_it_is_read(served) -> None:
    folder, address, faults = served
    faults.max_bytes = 100_000
    with open_location(Url(f"{address}/a.bin")) as stream:
        stream.read(10)
        (folder / "a.bin").write_bytes(CONTENT[::-1])
        with pytest.raises(MtkitError, match=r"a\.bin: changed while it was being read"):
            stream.read()


def test_nobody_listens() -> None:
    with pytest.raises(MtkitError, match=r"http://127\.0\.0\.1:9/a: can't be read: ") as caught:
        open_location(Url("http://127.0.0.1:9/a"))
    assert "download it" in caught.value.hint


PAIRS = [(f"sentence {number}", f"Satz {number}") for number in range(3_000)]


def test_corpora_of_any_format(served) -> None:
    folder, address, faults = served
    sources, targets = ("".join(f"{line}\n" for line in side) for side in zip(*PAIRS, strict=True))
    (folder / "a.en.gz").write_bytes(gzip.compress(sources.encode()))
    (folder / "a.de.zst").write_bytes(pa.compress(targets.encode(), "zstd", asbytes=True))
    (folder / "a.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS))
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.en", sources)
        archive.writestr("a.de", targets)
    columns = zip(("en", "de"), zip(*PAIRS, strict=True), strict=True)
    pq.write_table(pa.table({name: list(lines) for name, lines in columns}), folder / "a.parquet")
    faults.max_bytes = 20_000
    corpora = [
        FileCorpus(source=f"{address}/a.en.gz", target=f"{address}/a.de.zst"),
        *(PairedFileCorpus(path=f"{address}/a.{ending}") for ending in ("tsv", "zip", "parquet")),
        PairedFileCorpus(path=f"file://{folder}/a.tsv"),
    ]
    for corpus in corpora:
        check_corpus(corpus, languages=("en", "de"))
        assert (
            list(read_corpus_pairs(corpus, phrasebook_split="dev", languages=("en", "de"))) == PAIRS
        )
    (folder / "empty.tsv").touch()
    with pytest.raises(MtkitError, match=r"empty\.tsv: empty file"):
        check_corpus(PairedFileCorpus(path=f"{address}/empty.tsv"), languages=("en", "de"))
    (folder / "cut.tsv.gz").write_bytes(gzip.compress(b"a\tb\n" * 9_000)[:-20])
    cut = PairedFileCorpus(path=f"{address}/cut.tsv.gz")
    with pytest.raises(MtkitError, match=r"cut\.tsv\.gz: damaged gzip file"):
        list(read_corpus_pairs(cut, phrasebook_split="dev", languages=("en", "de")))


def test_an_address_in_a_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "mtkit.toml"
    recipe.write_text(
        'name = "x"\n[data]\nsource_language = "en"\ntarget_language = "de"\n'
        '[[data.train]]\npath = "https://example.org/some/corpus.tsv.gz?download=1"\n'
        '[data.dev]\nsource = "file:///tmp/a%20b.en"\ntarget = "dev.de"\n'
    )
    data = load_recipe(str(recipe), []).data
    assert data.train[0].path == "https://example.org/some/corpus.tsv.gz?download=1"
    assert data.train[0].format == "tsv"
    assert data.dev.source == Path("/tmp/a b.en")
    assert data.dev.target == tmp_path / "dev.de"
    dumped = data.model_dump(mode="json")["train"][0]
    assert dumped["path"] == "https://example.org/some/corpus.tsv.gz?download=1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b", Path("a/b")),
        ("file:///a/b%20c", Path("/a/b c")),
        ("file://localhost/a", Path("/a")),
        ("S3://bucket/A", Url("s3://bucket/A")),
        ("https://host/a", Url("https://host/a")),
    ],
)
def test_what_a_text_names(text: str, expected: Location) -> None:
    found = find_location(text)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize("text", ["gcs://bucket/a", "file://m/run", "ftp://user:secret@host/a"])
def test_urls_that_name_nothing_are_rejected_not_taken_for_folders(text: str) -> None:
    with pytest.raises(MtkitError) as caught:
        find_location(text)
    assert "secret" not in caught.value.message + caught.value.hint
