"""`mtkit translate FILE --input lines --output FILE`, as it is typed: killed, shared, refused."""

import gzip
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.locks import locked
from mtkit.remote_files import mask_secrets

from ..command import Done, run_here
from ..conftest import TinyRun
from ..llm_stub import serve_llm
from .llm_jobs import Job, expect, make_lines


@pytest.fixture
def trained(tiny_run, kept: Path) -> TinyRun:
    """A run with a model of one update."""
    run = tiny_run("training.max_steps=1", "inference.max_extra_tokens=2")
    run.train_once(kept)
    return run


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Text of three blocks."""
    folder = tmp_path / "text"
    folder.mkdir()
    lines = [source for source, _ in generate_pairs("train", 2_000)]
    with (folder / "corpus.en").open("w") as file:
        # Blank lines take no time.
        while file.tell() < 2_500_000:
            file.write(f"{lines[file.tell() % len(lines)]}\n" + f"{' ' * 499}\n" * 50)
    return folder / "corpus.en"


def translate(run: TinyRun, corpus: Path, *options: str, text: str = "") -> Done:
    return run_here(corpus.parent, "translate", *run.options, *options, text=text)


FILE = ("corpus.en", "--input", "lines", "--output", "corpus.de")


def test_a_file_is_translated_as_stdin_is(trained: TinyRun, corpus: Path) -> None:
    expected = translate(trained, corpus, text=corpus.read_text())
    assert expected.returncode == 0, expected.stderr
    again = translate(trained, corpus, "--input", "lines", text=corpus.read_text())
    assert again.stdout == expected.stdout
    done = translate(trained, corpus, *FILE)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "corpus.de: 3 blocks, 0 cached, 3 translated" in done.stderr
    assert (corpus.parent / "corpus.de").read_text() == expected.stdout
    # By a model folder, compressed.
    packed = ["corpus.en", "--input", "lines", "--output", "corpus.de.gz"]
    done = run_here(corpus.parent, "translate", *packed, "--model", str(trained.workspace.model))
    assert done.returncode == 0, done.stderr
    assert gzip.decompress((corpus.parent / "corpus.de.gz").read_bytes()).decode() == (
        expected.stdout
    )


def test_killed_at_several_moments_and_run_again(trained: TinyRun, corpus: Path) -> None:
    expected = translate(trained, corpus, text=corpus.read_text()).stdout
    output, parts = corpus.with_name("corpus.de"), corpus.with_name(".corpus.de.parts")
    for finished in range(3):
        process = subprocess.Popen(
            trained.command("translate", *FILE), cwd=corpus.parent, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and len(list(parts.glob("*-*[0-9]"))) < finished:
            time.sleep(0.01)
        process.kill()
        process.wait()
        with locked(parts):
            pass
        assert not output.exists() or output.read_text() == expected
    done = translate(trained, corpus, *FILE)
    assert done.returncode == 0, done.stderr
    assert output.read_text() == expected
    assert sorted(path.name for path in corpus.parent.iterdir()) == ["corpus.de", "corpus.en"]


def test_jobs_in_parallel_and_the_merge(trained: TinyRun, corpus: Path) -> None:
    expected = translate(trained, corpus, text=corpus.read_text()).stdout
    jobs = [
        subprocess.Popen(
            trained.command("translate", *FILE, "--set", f"cluster.part={number}/4"),
            cwd=corpus.parent,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 2, 3)
    ]
    said = [job.communicate(timeout=300)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0, 0], said
    # The fourth job failed: the merge does its part. The first has no block of three.
    assert "part 1/4 of corpus.en: 0 blocks of 3, 0 cached, 0 translated" in said[0]
    assert "part 2/4 of corpus.en: 1 block of 3, 0 cached, 1 translated" in said[1]
    done = translate(trained, corpus, *FILE)
    assert done.returncode == 0, done.stderr
    assert "corpus.de: 3 blocks, 2 cached, 1 translated" in done.stderr
    assert corpus.with_name("corpus.de").read_text() == expected
    assert sorted(path.name for path in corpus.parent.iterdir()) == ["corpus.de", "corpus.en"]


def test_a_second_command_on_the_same_output_is_refused(trained: TinyRun, corpus: Path) -> None:
    part = ("--set", "cluster.part=2/2")
    parts = corpus.with_name(".corpus.de.parts")
    for first, second, code in (((), part, 1), (part, (), 1), (part, part, 0)):
        process = subprocess.Popen(
            trained.command("translate", *FILE, *first), cwd=corpus.parent, stderr=subprocess.PIPE
        )
        while not parts.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        try:
            done = translate(trained, corpus, *FILE, *second)
        finally:
            process.kill()
            process.communicate()
        assert done.returncode == code, done.stderr
        if code:
            assert "corpus.de: another mtkit command is writing it" in done.stderr
            assert "--set cluster.part=1/4" in done.stderr
        for path in parts.iterdir():
            path.unlink()
        parts.rmdir()


def test_ctrl_c_keeps_finished_blocks(trained: TinyRun, corpus: Path) -> None:
    parts = corpus.with_name(".corpus.de.parts")
    process = subprocess.Popen(
        trained.command("translate", *FILE), cwd=corpus.parent, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not list(parts.glob("*-*[0-9]")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    if process.returncode:
        assert process.returncode == 130, said
        assert "Traceback" not in said
        assert not corpus.with_name("corpus.de").exists()
        assert not list(parts.glob(".*.draft"))
        done = translate(trained, corpus, *FILE)
        assert "0 cached" not in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "fault"),
    [
        (
            ["corpus.en", "-o", "corpus.de"],
            1,
            "name its format with --input: lines, tsv, jsonl, text, html",
        ),
        (["corpus.en", "-o", "none/corpus.de", "--input", "lines"], 1, "none: no such folder"),
        (["corpus.en", "-o", "corpus.en", "--input", "lines"], 1, "would overwrite"),
        (["corpus.en", "-o", ".", "--input", "lines"], 1, "a folder, expected a file to write"),
        (["missing.en", "-o", "a", "--input", "lines"], 1, "missing.en: no such file"),
        (
            ["corpus.en", "-o", "a.txt", "--input", "text", "--errors", "replace"],
            2,
            "are for lines",
        ),
        (["corpus.en", "-o", "a", "--input", "lines", "--check"], 2, "--check is for lines on"),
        (["corpus.en", "-o", "a", "--input", "lines", "--score-only"], 2, "needs --input tsv"),
        (["corpus.en", "--input", "lines"], 2, "name the file to write"),
        (["-s", "cluster.part=1/2"], 1, "cluster.part=1/2 is for files of lines (--input lines)"),
        (
            ["corpus.txt", "-o", "a.txt", "-s", "cluster.part=1/2"],
            1,
            "cluster.part=1/2 is for files of lines (--input lines)",
        ),
        ([*FILE, "-s", "cluster.part=5/4"], 1, 'part = "5/4" is beyond the last'),
        ([*FILE, "-s", "cluster.part=x"], 1, "expected a number and how many, such as 3/64"),
        ([*FILE, "-s", "cluster.parts=1/2"], 1, "parts"),
        ([*FILE, "-s", "training.max_steps=2"], 1, "only inference can be changed"),
    ],
)
def test_faults_are_told_and_nothing_is_written(
    options: list[str], code: int, fault: str, trained: TinyRun, tmp_path: Path
) -> None:
    for name in ("corpus.en", "corpus.txt"):
        (tmp_path / name).write_text("the dog\n")
    before = sorted(tmp_path.iterdir())
    model = ("--model", str(trained.workspace.model))
    done = run_here(tmp_path, "translate", *options, *model, text="the dog\n")
    said = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == code, said
    assert fault in said
    assert "Traceback" not in said
    assert sorted(tmp_path.iterdir()) == before


def test_devices_stay_and_links_are_followed(trained: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "corpus.en").write_text("the dog\n")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to("target")
    model = ("--model", str(trained.workspace.model))
    lines = ("corpus.en", "--input", "lines", "--output")
    done = run_here(tmp_path, "translate", *lines, "pipe", *model)
    assert done.returncode == 1
    assert "a device or a pipe, expected a file to write" in done.stderr
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "page.md").write_text("the dog\n")
    (tmp_path / "page").symlink_to("page.out")
    for arguments in ((*lines, "link"), ("page.md", "--output", "page")):
        done = run_here(tmp_path, "translate", *arguments, *model)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text().count("\n") == 1
    assert (tmp_path / "page").is_symlink()
    assert (tmp_path / "page.out").is_file()


def test_parts_of_another_precision_or_input(trained: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "corpus.en").write_text("the dog\n")
    [checkpoint] = trained.workspace.checkpoints.iterdir()
    options = (*FILE, "--model", str(checkpoint))
    part = ("-s", "inference.precision=fp32", "-s", "cluster.part=1/1")
    done = run_here(tmp_path, "translate", *options, *part)
    assert done.returncode == 0, done.stderr
    done = run_here(tmp_path, "translate", *options, "-s", "inference.precision=bf16")
    assert done.returncode == 1
    assert "has parts of another translation" in done.stderr
    (tmp_path / "corpus.en").write_text("the man\n")
    done = run_here(tmp_path, "translate", *options, *part)
    assert done.returncode == 1
    assert "corpus.en has changed since" in " ".join(done.stderr.split())
    assert "to start over: rm -r" in " ".join(done.stderr.split())


def test_a_servers_password_is_written_nowhere(tmp_path: Path) -> None:
    (tmp_path / "corpus.en").write_text("the dog\n")
    address = "http://user:sec/ret@127.0.0.1:1"
    done = run_here(tmp_path, "translate", *FILE, "--model", "http://user:secret@127.0.0.1:1")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert "secret" not in done.stderr
    assert mask_secrets(address) == "http://...@127.0.0.1:1"
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes()


def test_parts_by_a_model_folder(trained: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "corpus.en").write_text("the dog\nthe man\n")
    options = (*FILE, "--model", str(trained.workspace.model))
    done = run_here(tmp_path, "translate", *options, "-s", "cluster.part=64/64")
    assert done.returncode == 0, done.stderr
    assert "part 64/64 of corpus.en: 1 block of 1, 0 cached, 1 translated" in done.stderr
    assert not (tmp_path / "corpus.de").exists()
    done = run_here(tmp_path, "translate", *options)
    assert "corpus.de: 1 block, 1 cached, 0 translated" in done.stderr
    assert (tmp_path / "corpus.de").read_text().count("\n") == 2


def test_a_checkpoint_and_extras(trained: TinyRun, tmp_path: Path) -> None:
    text = "The man sleeps.\nThe dog 12.\n"
    (tmp_path / "corpus.en").write_text(text)
    [checkpoint] = trained.workspace.checkpoints.iterdir()
    extras = [f"--set=inference.{key}={{}}" for key in ("flags", "protect", "paragraphs", "rerank")]
    options = ("--json", "--model", str(checkpoint), *extras)
    expected = run_here(tmp_path, "translate", *options, text=text)
    done = run_here(tmp_path, "translate", *FILE, *options)
    assert (expected.returncode, done.returncode) == (0, 0), done.stderr
    assert (tmp_path / "corpus.de").read_text() == expected.stdout


def test_scores_of_a_file(trained: TinyRun, tmp_path: Path) -> None:
    text = "The man sleeps.\tDer Mann\n" * 3
    (tmp_path / "pairs.tsv").write_text(text)
    model = ("--model", str(trained.workspace.model))
    expected = run_here(tmp_path, "translate", "--score-only", *model, text=text)
    done = run_here(tmp_path, "translate", "pairs.tsv", "-o", "scores", "--score-only", *model)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "scores").read_text() == expected.stdout


def test_a_large_language_model_is_asked_once_for_each_block(tmp_path: Path) -> None:
    lines = make_lines(12)
    (tmp_path / "corpus.en").write_text("".join(f"{line}\n" for line in lines))
    job = Job(tmp_path)
    with serve_llm() as stub:
        job.write(stub.address)
        done = job.run(*FILE, "-s", "cluster.part=1/1")
        asked = len(stub.asked)
        joined = job.run(*FILE)
        assert len(stub.asked) == asked
    assert (done.returncode, joined.returncode) == (0, 0), done.stderr + joined.stderr
    assert f"{asked} requests" in done.stderr
    assert (tmp_path / "corpus.de").read_text().splitlines() == expect(lines)
