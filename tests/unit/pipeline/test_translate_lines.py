"""Files of lines in blocks: the same bytes as from stdin, whatever the blocks and jobs are."""

import bz2
import gzip
import io
import lzma
import os
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mtkit.data.sources.byte_blocks import BlockFile
from mtkit.errors import MtkitError
from mtkit.executor import LocalExecutor
from mtkit.inference.streams.input_format import InputFormat
from mtkit.inference.streams.translate_stream import score_stream, translate_stream
from mtkit.inference.translator import Translator
from mtkit.pipeline.translate import describe_translator, open_models
from mtkit.pipeline.translate_lines import TranslatorFactory, translate_lines
from mtkit.recipe.cluster import Cluster


def choose(form: InputFormat, as_json: bool = False, score_only: bool = False) -> Any:
    """What `mtkit translate` runs on a stream."""
    run = score_stream if score_only else translate_stream
    return partial(run, input_format=form, as_json=as_json)


TEXT = choose(InputFormat())
LINES = (
    b"\xef\xbb\xbfthe dog\r\n\nthe man sleeps\n" + b"the cat sees the dog . " * 5 + b"\n\r\n"
    b"\xef\xbb\xbfa man\r\n" + b"the dog\n" * 6 + b"the man"
)
"""A byte-order mark, CRLF, blank lines, a long line, no final line feed."""


@pytest.fixture(scope="module")
def model(make_folder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("large") / "model")


@pytest.fixture
def opened(model: Path) -> TranslatorFactory:
    return open_with(model)


def open_with(model: Path, *overrides: str) -> TranslatorFactory:
    overrides = ("inference.max_extra_tokens=2", "inference.processes=1", *overrides)
    opening = partial(open_models, [str(model)], overrides, device="cpu")
    return TranslatorFactory(opening, partial(describe_translator, [str(model)], "cpu"), opening())


def on_stdin(opened: TranslatorFactory, content: bytes, work: Any = TEXT) -> bytes:
    """What `mtkit translate < FILE` prints."""
    target = io.BytesIO()
    work(opened.use(), io.BytesIO(content), target)
    return target.getvalue()


@pytest.mark.parametrize("block_bytes", [1, 13, 64, 1 << 20])
def test_any_blocks_and_jobs_give_what_stdin_gives(
    block_bytes: int, opened: TranslatorFactory, tmp_path: Path
) -> None:
    source, output = tmp_path / "corpus.en", tmp_path / "corpus.de"
    source.write_bytes(LINES)
    expected = on_stdin(opened, LINES)
    for parts in (0, 1, 3):
        for number in range(1, parts + 1):
            cluster = Cluster(part=f"{number}/{parts}")
            translate_lines(source, output, opened, TEXT, cluster=cluster, block_bytes=block_bytes)
            assert not output.exists()
        translate_lines(source, output, opened, TEXT, block_bytes=block_bytes)
        assert output.read_bytes() == expected
        assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.de", "corpus.en"]
        output.unlink()


def test_several_processes_give_the_same(opened: TranslatorFactory, tmp_path: Path) -> None:
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(LINES)
    executor = LocalExecutor(2)
    translate_lines(source, output, opened, TEXT, executor=executor, block_bytes=40)
    assert output.read_bytes() == on_stdin(opened, LINES)


def test_a_worker_with_another_model_is_an_error(
    make_folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path / "model")
    (tmp_path / "a.en").write_bytes(LINES)
    opened = open_with(folder)

    def run(self: Any, build_job: Any, items: Any, **_: Any) -> Iterator[Any]:
        sent = pickle.dumps(build_job)
        (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
        return map(pickle.loads(sent)(), items)

    monkeypatch.setattr(LocalExecutor, "run", run)
    with pytest.raises(MtkitError, match=r"has another translator: model\.0\.model was "):
        translate_lines(tmp_path / "a.en", tmp_path / "a.de", opened, TEXT)
    assert not (tmp_path / "a.de").exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"\xef\xbb\xbf"])
def test_tiny_files(content: bytes, opened: TranslatorFactory, tmp_path: Path) -> None:
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(content)
    translate_lines(source, output, opened, TEXT)
    assert output.read_bytes() == on_stdin(opened, content)


def compress_zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


def decompress_zstd(content: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        return stream.read()


@pytest.mark.parametrize(
    ("ending", "compress", "decompress"),
    [
        (".gz", gzip.compress, gzip.decompress),
        (".bz2", bz2.compress, bz2.decompress),
        (".xz", lzma.compress, lzma.decompress),
        (".zst", compress_zstd, decompress_zstd),
    ],
)
def test_compressed_files(
    ending: str, compress: Any, decompress: Any, opened: TranslatorFactory, tmp_path: Path
) -> None:
    source, output = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    for content in (LINES, b""):
        source.write_bytes(compress(content))
        for part in ("2/2", "1/2", None):
            translate_lines(
                source, output, opened, TEXT, cluster=Cluster(part=part), block_bytes=50
            )
        assert decompress(output.read_bytes()) == on_stdin(opened, content)


def test_a_damaged_compressed_file_is_an_error(opened: TranslatorFactory, tmp_path: Path) -> None:
    source = tmp_path / "a.gz"
    source.write_bytes(gzip.compress(LINES)[:-9])
    with pytest.raises(MtkitError, match=r"a\.gz: damaged gzip file"):
        translate_lines(source, tmp_path / "b", opened, TEXT)


PAIRS = b"the dog\tder Hund\n\t\nthe man\n" + b"the cat sees\tdie Katze\n" * 4
OBJECTS = b'{"source": "the dog", "id": 1}\n\n' + b'{"source": "a man", "target": "ein"}\n' * 3


@pytest.mark.parametrize(
    ("content", "work"),
    [
        (PAIRS, choose(InputFormat("tsv"))),
        (PAIRS.replace(b"the man\n", b""), choose(InputFormat("tsv"), score_only=True)),
        (PAIRS.replace(b"the man\n", b""), choose(InputFormat("tsv"), True, True)),
        (OBJECTS, choose(InputFormat("jsonl"), as_json=True)),
        (b"the d\xff\n" * 9, choose(InputFormat(replaces_errors=True))),
    ],
)
def test_every_form(
    content: bytes, work: Any, opened: TranslatorFactory, tmp_path: Path, capsys: Any
) -> None:
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(content)
    expected = on_stdin(opened, content, work)
    on_stdin_said = capsys.readouterr().err.replace("input line ", f"{source}:")
    translate_lines(source, output, opened, work, block_bytes=30)
    assert output.read_bytes() == expected
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert warnings == on_stdin_said.splitlines()


def test_samples_are_those_of_stdin(model: Path, tmp_path: Path) -> None:
    opened = open_with(model, "inference.sampling={}", "inference.beam_size=1")
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(LINES)
    translate_lines(source, output, opened, TEXT, block_bytes=30)
    assert output.read_bytes() == on_stdin(opened, LINES)


@pytest.mark.parametrize(
    ("content", "line", "fault"),
    [
        (b"the dog\n" * 20 + b"the d\xfcg\n" + b"a\n" * 9, 21, "byte 6 (0xfc) is invalid UTF-8"),
        (b"\xff", 1, "byte 1 (0xff) is invalid UTF-8"),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_line_at_fault_is_named_before_work_starts(
    content: bytes, line: int, fault: str, ending: str, opened: TranslatorFactory, tmp_path: Path
) -> None:
    source, output = tmp_path / f"a.en{ending}", tmp_path / "a.de"
    source.write_bytes(gzip.compress(content) if ending else content)
    with pytest.raises(MtkitError) as caught:
        translate_lines(source, output, opened, TEXT, block_bytes=16)
    assert caught.value.message == f"{source}:{line}: {fault}"
    assert "--errors replace" in caught.value.hint
    assert not output.exists()
    assert [path.name for path in (tmp_path / ".a.de.parts").iterdir()] == ["parts.json"]
    # Corrected, it is another input, of which there are no parts.
    source.write_bytes(gzip.compress(LINES) if ending else LINES)
    translate_lines(source, output, opened, TEXT, block_bytes=16)
    assert output.read_bytes() == on_stdin(opened, LINES)


def test_a_line_that_is_too_long_is_named(
    opened: TranslatorFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("mtkit.inference.streams.byte_lines", "mtkit.data.sources.byte_blocks"):
        monkeypatch.setattr(f"{module}._MAX_LINE_BYTES", 1 << 20)
    source = tmp_path / "a.en"
    source.write_bytes(b"the dog\n" + b"x" * (2 << 20) + b"\nthe man\n")
    with pytest.raises(MtkitError, match=r"a\.en:2: more than 1 MiB without a line break"):
        translate_lines(source, tmp_path / "b", opened, TEXT)
    # Whoever begins behind it finds the next line.
    translate_lines(source, tmp_path / "b", opened, TEXT, cluster=Cluster(part="3/3"))


def test_a_line_that_cannot_be_translated_is_named(
    opened: TranslatorFactory, tmp_path: Path
) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(OBJECTS * 3 + b'{"source": "a", "target_language": "xx"}\n')
    with pytest.raises(MtkitError) as caught:
        translate_lines(
            source, tmp_path / "b", opened, choose(InputFormat("jsonl")), block_bytes=16
        )
    assert caught.value.message.startswith(f"{source}:16: ")


def translate_some(source: Path, output: Path, opened: TranslatorFactory, work: Any = TEXT) -> None:
    """Translates the first of three parts."""
    translate_lines(source, output, opened, work, cluster=Cluster(part="1/3"), block_bytes=30)


def test_finished_blocks_cost_nothing(
    opened: TranslatorFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(LINES)
    for number in (1, 2, 3):
        translate_lines(
            source, output, opened, TEXT, cluster=Cluster(part=f"{number}/3"), block_bytes=30
        )
    capsys.readouterr()
    monkeypatch.setattr(Translator, "search", None)
    monkeypatch.setattr(BlockFile, "read", None)
    translate_lines(source, output, opened, TEXT, block_bytes=30)
    assert "8 blocks, 8 cached, 0 translated" in capsys.readouterr().err
    monkeypatch.undo()
    assert output.read_bytes() == on_stdin(opened, LINES)


def test_parts_of_another_translation_are_refused(
    opened: TranslatorFactory, model: Path, make_folder, tmp_path: Path
) -> None:
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(LINES)
    translate_some(source, output, opened)
    folder = tmp_path / ".a.de.parts"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = make_folder(tmp_path / "other")
    weights = other / "config.json"
    weights.write_text(weights.read_text().replace("}", "} ", 1))
    jsonl = choose(InputFormat(), as_json=True)
    for change, translator, work in (
        (r"inference.beam_size was \d, now 3", open_with(model, "inference.beam_size=3"), TEXT),
        ("as_json was false, now true", opened, jsonl),
        ('input_format.form was "text", now "tsv"', opened, choose(InputFormat("tsv"))),
        ("model.0.model was ", open_with(other), TEXT),
    ):
        with pytest.raises(MtkitError, match=change) as caught:
            translate_some(source, output, translator, work)
        assert f"rm -r {folder}" in caught.value.hint
    # What only speed depends on may differ.
    translate_some(source, output, open_with(model, "inference.batch_tokens=99"))
    source.write_bytes(LINES + b"\n")
    with pytest.raises(MtkitError, match=f"{source} has changed since") as caught:
        translate_some(source, output, opened)
    assert f"rm -r {folder}" in caught.value.hint
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_input_that_changes_meanwhile_is_an_error(
    opened: TranslatorFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(LINES)
    search = Translator.search

    def change(*arguments: Any, **options: Any) -> Any:
        source.write_bytes(LINES.replace(b"dog", b"cat"))
        os.utime(source, ns=(1, 1))
        return search(*arguments, **options)

    monkeypatch.setattr(Translator, "search", change)
    with pytest.raises(MtkitError, match=r"a\.en changed while it was being translated"):
        translate_lines(source, output, opened, TEXT)
    assert not output.exists()


def test_a_full_disk_leaves_no_output(
    opened: TranslatorFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(LINES)
    output.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.copyfileobj", fail)
        with pytest.raises(OSError, match="No space left"):
            translate_lines(source, output, opened, TEXT, block_bytes=30)
    assert output.read_text() == "old"
    assert not list(tmp_path.rglob("*.draft"))
    translate_lines(source, output, opened, TEXT, block_bytes=30)
    assert output.read_bytes() == on_stdin(opened, LINES)


def test_terms_are_summed_up_as_on_stdin(model: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "terms.tsv").write_text("dog\tHund\n")
    glossary = f'inference.glossary.path="{tmp_path / "terms.tsv"}"'
    source, output = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(LINES)
    opened = open_with(model, glossary)
    translate_some(source, output, opened)
    capsys.readouterr()
    (tmp_path / "terms.tsv").write_text("dog\tHunde\n")
    with pytest.raises(MtkitError, match=r"inference\.glossary\.path was"):
        translate_some(source, output, open_with(model, glossary))
    (tmp_path / "terms.tsv").write_text("dog\tHund\n")
    opened = open_with(model, glossary)
    on_stdin(opened, LINES)
    expected = opened.use().summary
    assert expected.startswith("terms: ")
    translate_lines(source, tmp_path / "b.de", open_with(model, glossary), TEXT, block_bytes=30)
    assert expected in capsys.readouterr().err.splitlines()
