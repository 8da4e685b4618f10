"""`mtkit translate FILE --output FILE`, as it is typed."""

import io
import json
import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree, html
from typer.testing import CliRunner

from mtkit.cli.app import app

from ... import warm

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_T = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"


def pack(name: str, text: str, needed: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, text)
        if needed != name:
            archive.writestr(needed, "<a/>")
    return stream.getvalue()


def check_part(name: str) -> Callable[[bytes], object]:
    def check(content: bytes) -> object:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return etree.fromstring(archive.read(name))

    return check


_WORD = f'<w:p xmlns:w="{_W}"><w:r><w:t>the dog</w:t></w:r></w:p>'
_SLIDE = f'<a:p xmlns:a="{_A}"><a:r><a:t>the dog</a:t></a:r></a:p>'
_TEXT = f'<text:p xmlns:text="{_T}">the dog</text:p>'
_SEGMENT = '<xliff version="2.0" srcLang="en"><file><unit><segment><source>the dog</source>'
_SLIDE_NAME = "ppt/slides/slide1.xml"
FILES: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    ".txt": (b"the dog\n", bytes.decode),
    ".html": (b"<p>the <b>dog</b></p>", html.fromstring),
    ".xml": (b"<p>the <b>dog</b></p>", etree.fromstring),
    ".md": (b"# the *dog*\n", bytes.decode),
    ".srt": (b"1\n00:00:01,000 --> 00:00:02,000\nthe dog\n", bytes.decode),
    ".vtt": (b"WEBVTT\n\n00:01.000 --> 00:02.000\nthe dog\n", bytes.decode),
    ".po": (b'msgid "the dog"\nmsgstr ""\n', bytes.decode),
    ".json": (b'{"a": "the dog"}', json.loads),
    ".yaml": (b"a: the dog\n", yaml.safe_load),
    ".xlf": (f"{_SEGMENT}</segment></unit></file></xliff>".encode(), etree.fromstring),
    ".tmx": (
        b'<tmx><body><tu><tuv xml:lang="en"><seg>the dog</seg></tuv></tu></body></tmx>',
        etree.fromstring,
    ),
    ".docx": (
        pack("word/document.xml", _WORD, "word/document.xml"),
        check_part("word/document.xml"),
    ),
    ".pptx": (pack(_SLIDE_NAME, _SLIDE, "ppt/presentation.xml"), check_part(_SLIDE_NAME)),
    ".odt": (pack("content.xml", _TEXT, "content.xml"), check_part("content.xml")),
}


def translate(*arguments: object, stdin: bytes = b"") -> Any:
    return CliRunner().invoke(
        app, ["translate", *map(str, arguments)], prog_name="mtkit", input=stdin
    )


@pytest.mark.parametrize("ending", FILES)
def test_each_format_is_translated_into_itself(ending: str, folder: Path, tmp_path: Path) -> None:
    content, check = FILES[ending]
    source, output = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    source.write_bytes(content)
    done = translate(source, "--output", output, "--model", folder)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    assert source.read_bytes() == content
    assert output.read_bytes() != content
    check(output.read_bytes())


def test_a_document_on_stdin_goes_to_stdout(folder: Path) -> None:
    done = translate("--model", folder, "--input", "markdown", stdin=b"# the dog\n\n`x`\n")
    assert done.exit_code == 0, done.stderr
    assert done.stdout_bytes.startswith(b"# ")
    assert done.stdout_bytes.endswith(b"\n\n`x`\n")


@pytest.mark.parametrize(
    ("source", "output", "code", "fault"),
    [
        ("a.rtf", "b.rtf", 1, "unknown file extension '.rtf'"),
        ("missing.md", "b.md", 1, "missing.md: no such file"),
        ("a.md", "a.md", 1, "would overwrite a file that this command reads"),
        ("a.md", "none/b.md", 1, "none: no such folder"),
        ("a.md", ".", 1, "a folder, expected a file to write"),
        ("a.md", "b.docx", 1, "a.md is markdown, and so is its translation"),
        ("a.md", "b.PDF", 1, "name a file that ends in .md or .markdown"),
        ("broken.xlf", "b.xml", 1, "broken.xlf is xliff, and so is its translation"),
        ("broken.xlf", "b.xlf", 1, "broken.xlf: line 1: not well-formed XML"),
        ("a.md", None, 2, "name the file to write"),
        (".", "b.md", 1, "is a folder, expected a file"),
    ],
)
def test_faults_are_told_and_nothing_is_written(
    source: str, output: str | None, code: int, fault: str, folder: Path, tmp_path: Path
) -> None:
    for name in ("a.rtf", "a.md", "broken.xlf"):
        (tmp_path / name).write_text("<a>")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}
    options = ["--output", tmp_path / output] if output else []
    done = translate(tmp_path / source, *options, "--model", folder)
    said = " ".join(done.stderr.replace("│", " ").split())
    assert (done.exit_code, done.stdout) == (code, "")
    assert fault in said
    assert "Traceback" not in said
    assert before == {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}


def test_an_output_that_is_there_is_replaced(folder: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("the dog")
    output.write_text("old")
    assert translate(source, "--output", output, "--model", folder).exit_code == 0
    assert output.read_text() != "old"


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_what_a_command_reads_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("dog\tHund\n")
    text = tmp_path / "a.txt"
    text.write_text("dog\n")
    config = folder / "config.json"
    labels = tmp_path / "labels.tsv"
    labels.write_text("dog\tHund\tok\n")
    for command in (
        ["translate", text, "--input", "lines", "--output", path, "--glossary", path],
        ["translate", text, "--input", "lines", "--output", text],
        ["calibrate", labels, "--output", labels],
        ["calibrate", labels, "--output", config],
    ):
        done = CliRunner().invoke(app, [*map(str, command), "--model", str(folder)])
        assert (done.exit_code, "would overwrite" in done.stderr) == (1, True), command
    scored = ["score", "--hypothesis", str(text), "--reference", str(path)]
    for name, options in (("a.md", ()), ("b.md", ("--source", "b.md"))):
        (tmp_path / name).write_text("dog\n")
        given = [str(tmp_path / each) if each.endswith(".md") else each for each in options]
        report = ["--report", str(tmp_path / name)]
        done = CliRunner().invoke(
            app, [*scored[:2], str(tmp_path / name), *scored[3:], *given, *report]
        )
        assert (done.exit_code, "name another file with --report" in done.stderr) == (1, True)
        assert (tmp_path / name).read_text() == "dog\n"
    done = translate(text, "--output", "-", "--input", "markdown", "--model", folder)
    assert "a document isn't written to stdout" in done.stderr


@pytest.mark.parametrize("is_full", [False, True])
def test_a_closed_stdin_is_no_fault_and_a_full_disk_is_one(
    folder: Path, tmp_path: Path, *, is_full: bool
) -> None:
    source, output = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text("the dog\n\n```\n" + "x" * 20_000 + "\n```\n")
    output.write_text("old")

    max_bytes = 10_000 if is_full else resource.RLIM_INFINITY
    program = (
        "import resource, signal\n"
        "from mtkit.cli.app import main\n"
        # A file that grows past this fails as one on a full disk does, with another number.
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({max_bytes}, {max_bytes}))\n"
        "main()\n"
    )
    command = ["translate", str(source), "--output", str(output), "--model", str(folder)]
    done = subprocess.run(
        [warm.python(), "-c", program, *command, "-s", "inference.processes=1"],
        preexec_fn=lambda: os.close(0),
        capture_output=True,
        check=False,
    )
    assert done.stdout == b""
    assert done.returncode == int(is_full), done.stderr
    assert (output.read_text() == "old") == is_full
    assert b"Traceback" not in done.stderr
    assert (b"error: " in done.stderr) == is_full
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.md", "b.md", "model"]
