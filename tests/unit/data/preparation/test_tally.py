"""A shift that goes on through text whose neighbours are alike is one stretch."""

import random
from pathlib import Path

from mtkit.data.check import check_recipe_data
from mtkit.recipe import load_recipe

RECIPE = """\
name = "shifted"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.1"
target = "train.2"
[data.dev]
builtin = "phrasebook"
sentences = 20
[tokenizer]
vocab_size = 60
"""


def test_a_shift_goes_on_where_neighbours_are_alike(tmp_path: Path) -> None:
    draw = random.Random(5)
    lengths = [draw.randint(1, 30) for _ in range(9_000)]
    # Runs of twenty lines of one length: the lines before and after match as well.
    for first in range(7_000, 8_060, 20):
        lengths[first : first + 20] = [lengths[first]] * 20
    pairs = [
        tuple("".join(draw.choices("abcd ", k=each * 5)) + f" {each}" for _ in range(2))
        for each in lengths
    ]
    target = [pair[1] for pair in pairs]
    # A line is missing at 5,001, and one too many at the end.
    target = [*target[:5_000], *target[5_001:], "x"]
    (tmp_path / "train.1").write_text("".join(f"{pair[0]}\n" for pair in pairs))
    (tmp_path / "train.2").write_text("".join(f"{line}\n" for line in target))
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    report = check_recipe_data(load_recipe(tmp_path / "mtkit.toml")).report
    assert report is not None
    [stretch] = report.corpora[0]["misaligned"]
    assert stretch["shift"] == -1
    assert abs(stretch["first"] - 5_001) < 50
    assert abs(stretch["last"] - 9_000) < 50
