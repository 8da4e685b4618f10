"""The list of dropped rows: every row that was read is kept or in it."""

from pathlib import Path

from mtkit.data.prepare import prepare
from mtkit.data.sources.lines import read_lines
from mtkit.executor import LocalExecutor
from mtkit.recipe import load_recipe
from mtkit.workspace import Workspace

RECIPE = """\
name = "small"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
path = "a.tsv"
[[data.train]]
path = "b.tsv"
skip = "2"
[data.dev]
builtin = "phrasebook"
sentences = 10
[data.cleaning]
max_tokens = 80
[tokenizer]
vocab_size = 60
"""


def read_dropped(folder: Path, num_workers: int) -> list[list[str]]:
    recipe, workspace = load_recipe(folder / "mtkit.toml"), Workspace(folder / f"run{num_workers}")
    prepare(recipe, workspace, executor=LocalExecutor(num_workers))
    rows = [line.split("\t") for line in read_lines(workspace.data / "dropped.tsv.zst")]
    assert rows[0] == ["filter", "file", "line", "source", "target"]
    return rows[1:]


def test_each_dropped_row_with_filter_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    good = [f"the {word} is {other}\tdas {word} ist {other}" for word in words for other in words]
    long = " ".join(["a b c d e f g h i j k l m n o p"] * 8)
    extra = ["\tleer", good[3], "same text\tsame text", f"{long}\t{long} z"]
    (tmp_path / "a.tsv").write_text("\n".join([*good, *extra]) + "\n")
    (tmp_path / "b.tsv").write_text("\n".join([good[0], "skipped\tnie gelesen", good[9]]) + "\n")
    dropped = read_dropped(tmp_path, 1)
    a, b = "a.tsv", "b.tsv"
    assert dropped == [
        ["blank", a, "101", "", "leer"],
        ["identical", a, "103", "same text", "same text"],
        ["duplicates", a, "102", *good[3].split("\t")],
        ["duplicates", b, "1", *good[0].split("\t")],
        ["duplicates", b, "3", *good[9].split("\t")],
        ["max_tokens", a, "104", long, f"{long} z"],
    ]
    assert read_dropped(tmp_path, 3) == dropped
