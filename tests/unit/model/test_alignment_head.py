from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.model.alignment_head import ALIGNMENT_FILE, AlignmentHead, read_alignment_head
from mtkit.recipe.model import Model

MODEL = Model(num_decoder_layers=3, num_heads=8)


def test_a_folder_without_the_file_has_the_last_layers_mean(tmp_path: Path) -> None:
    assert read_alignment_head(tmp_path, MODEL) == AlignmentHead(layer=3, at="output")


def test_what_the_file_says(tmp_path: Path) -> None:
    (tmp_path / ALIGNMENT_FILE).write_text('{"layer": 2, "head": 8, "at": "input"}')
    found = read_alignment_head(tmp_path, MODEL)
    assert found == AlignmentHead(layer=2, head=8, at="input")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"layer": 4, "at": "input"}',
        '{"layer": 0, "at": "input"}',
        '{"layer": 1, "head": 9, "at": "input"}',
        '{"layer": 1, "at": "end"}',
        '{"layer": 1, "at": "input", "what": 2}',
    ],
)
def test_damaged(tmp_path: Path, content: str) -> None:
    (tmp_path / ALIGNMENT_FILE).write_text(content)
    with pytest.raises(MtkitError, match=r"alignment\.json"):
        read_alignment_head(tmp_path, MODEL)
