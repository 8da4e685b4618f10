"""`mtkit prepare` on text in one language: the same bytes whatever happens, in bounded memory."""

import itertools
import os
import re
import signal
import time
from pathlib import Path

import pytest

from .test_prepare import digests, finish, prepare, prepare_here, wait_for_draft

RECIPE = """\
name = "text"
objective = "masked-lm"
[data]
language = "mul"
block_tokens = 96
[[data.train]]
text = "one.txt"
[[data.train]]
name = "rows"
path = "rows.tsv"
text_column = "text"
document_column = "page"
weight = 0.5
[data.dev]
text = "dev.txt"
[tokenizer]
vocab_size = 120
[training]
masking = { short_tokens = 32 }
validation = { metric = "loss" }
"""
WORDS = (
    "Ball", "Bruder", "Brot", "Buch", "Dach", "Dorf", "Feld", "Fenster", "Fisch", "Fluss",
    "Garten", "Haus", "Hund", "Katze", "Mond",
)  # fmt: skip
NUM_LINES = 23_000
"""Three blocks, so that worker processes have something to do; 15,000 lines are one document."""


def make_lines(count: int) -> list[str]:
    """Lines no two of which are the same."""
    products = itertools.product(WORDS, repeat=5)
    return [f"{' '.join(words)}." for words in itertools.islice(products, 7, count + 7)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe, a text with one long document, and a table of pages."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "mtkit.toml").write_text(RECIPE)
    lines = make_lines(NUM_LINES + 3_000 + 50)
    parted = [line if number % 50 else f"\n{line}" for number, line in enumerate(lines[:8_000])]
    (folder / "one.txt").write_text("\n".join([*parted, "", *lines[8_000:NUM_LINES], ""]))
    rows = (
        f"{number // 7}\t{line}" for number, line in enumerate(lines[NUM_LINES : NUM_LINES + 3_000])
    )
    (folder / "rows.tsv").write_text("\n".join(["page\ttext", *rows, ""]))
    (folder / "dev.txt").write_text("\n".join([*lines[-50:], ""]))
    return folder


@pytest.fixture(scope="module")
def undisturbed(project: Path) -> tuple[dict[str, str], float]:
    """Digests of a preparation by one process, and the seconds that three workers take."""
    prepare_here(project, project / "one", "--workers", "1")
    started_at = time.monotonic()
    finish(prepare(project, project / "three", "--workers", "3"))
    return digests(project / "one"), time.monotonic() - started_at


def test_the_same_bytes_from_any_number_of_workers(
    project: Path, undisturbed: tuple[dict[str, str], float]
) -> None:
    # Two are compared where they are killed.
    expected, _ = undisturbed
    assert digests(project / "three") == expected
    stores = ("train", "train/short", "dev")
    files = ("tokens.arrow", "documents.npy", "order.npy", "strata.npy", "store.json")
    assert {f"{store}/{name}" for store in stores for name in files} <= expected.keys()


@pytest.mark.slow
@pytest.mark.patient
@pytest.mark.parametrize("num_kills", [1, 10])
def test_killed_at_some_moments_and_run_again(
    project: Path, undisturbed: tuple[dict[str, str], float], num_kills: int
) -> None:
    expected, elapsed_seconds = undisturbed
    for moment in range(num_kills):
        workspace = project / f"killed-{moment}"
        process = prepare(project, workspace, "--workers", "2", is_cold=True)
        wait_for_draft(process, workspace)
        time.sleep(elapsed_seconds * (moment + 0.5) / num_kills)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        finish(prepare(project, workspace, "--workers", "2"))
        assert digests(workspace) == expected


def test_check_says_about_the_same(
    project: Path, undisturbed: tuple[dict[str, str], float]
) -> None:
    said = prepare_here(project, project / "checked", "--check")
    assert not (project / "checked").exists()
    assert f"{NUM_LINES:,}" in said
    # 160 documents of 50 lines, one of the rest, and the table's.
    assert re.search(r"documents +│ +161 │ +429 │ +590", said), said
    assert "longest lines" in said
