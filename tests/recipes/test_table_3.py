"""The commands of recipes/wmt14/table-3.md give the networks of the paper's Table 3."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from mtkit.network import EncoderDecoder
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.model import Model

PAGE = (Path(__file__).parents[2] / "recipes" / "wmt14" / "table-3.md").read_text("utf-8")

# arXiv 1706.03762, Table 3: N, d_model, d_ff, h, d_k, d_v, dropout, label smoothing; perplexity,
# BLEU and millions of parameters as printed, None where the paper's cell is empty.
TABLE_3 = {
    "base": ((6, 512, 2048, 8, 64, 64, 0.1, 0.1), "4.92", "25.8", 65),
    "a-h1": ((6, 512, 2048, 1, 512, 512, 0.1, 0.1), "5.29", "24.9", None),
    "a-h4": ((6, 512, 2048, 4, 128, 128, 0.1, 0.1), "5.00", "25.5", None),
    "a-h16": ((6, 512, 2048, 16, 32, 32, 0.1, 0.1), "4.91", "25.8", None),
    "a-h32": ((6, 512, 2048, 32, 16, 16, 0.1, 0.1), "5.01", "25.4", None),
    "b-dk16": ((6, 512, 2048, 8, 16, 64, 0.1, 0.1), "5.16", "25.1", 58),
    "b-dk32": ((6, 512, 2048, 8, 32, 64, 0.1, 0.1), "5.01", "25.4", 60),
    "c-n2": ((2, 512, 2048, 8, 64, 64, 0.1, 0.1), "6.11", "23.7", 36),
    "c-n4": ((4, 512, 2048, 8, 64, 64, 0.1, 0.1), "5.19", "25.3", 50),
    "c-n8": ((8, 512, 2048, 8, 64, 64, 0.1, 0.1), "4.88", "25.5", 80),
    "c-d256": ((6, 256, 2048, 8, 32, 32, 0.1, 0.1), "5.75", "24.5", 28),
    "c-d1024": ((6, 1024, 2048, 8, 128, 128, 0.1, 0.1), "4.66", "26.0", 168),
    "c-ff1024": ((6, 512, 1024, 8, 64, 64, 0.1, 0.1), "5.12", "25.4", 53),
    "c-ff4096": ((6, 512, 4096, 8, 64, 64, 0.1, 0.1), "4.75", "26.2", 90),
    "d-drop0": ((6, 512, 2048, 8, 64, 64, 0.0, 0.1), "5.77", "24.6", None),
    "d-drop2": ((6, 512, 2048, 8, 64, 64, 0.2, 0.1), "4.95", "25.5", None),
    "d-ls0": ((6, 512, 2048, 8, 64, 64, 0.1, 0.0), "4.67", "25.3", None),
    "d-ls2": ((6, 512, 2048, 8, 64, 64, 0.1, 0.2), "5.47", "25.7", None),
    "e-learned": ((6, 512, 2048, 8, 64, 64, 0.1, 0.1), "4.92", "25.7", None),
    "big": ((6, 1024, 4096, 16, 64, 64, 0.3, 0.1), "4.33", "26.4", 213),
}


def _commands() -> dict[str, Recipe]:
    """Returns the recipe of each `mtkit run` on the page, by the row that its name tells."""
    recipes = {}
    for line in re.findall(r"^mtkit run .*$", PAGE, flags=re.MULTILINE):
        words = shlex.split(line)
        overrides = [after for word, after in pairwise(words) if word == "--set"]
        recipe = load_recipe(words[words.index("--recipe") + 1], overrides)
        recipes[recipe.name.removeprefix("table-3-")] = recipe
    return recipes


def _lines() -> dict[str, list[str]]:
    """Returns the cells of each row of the page's table, by the run's name."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if "`table-3-" in line]
    rows = [[cell.strip(" |`") for cell in line] for line in lines if len(line) >= 6]
    return {row[2].removeprefix("table-3-"): row for row in rows}


RECIPES, LINES = _commands(), _lines()


def _count(model: Model, vocab_size: int) -> int:
    with torch.device("meta"):
        network = EncoderDecoder(model, vocab_size, vocab_size)
    return sum(parameter.numel() for parameter in network.parameters())


def _formula(row: str, vocab_size: int) -> int:
    (layers, d_model, d_ff, heads, d_key, d_value, *_), *_ = TABLE_3[row]
    # Three maps to the heads with a bias for each column, and one back.
    attention = heads * (2 * d_key + d_value) * (d_model + 1) + (heads * d_value + 1) * d_model
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    # Row (E): a learned table of 1,024 positions for each side.
    positions = 2 * 1024 * d_model if row == "e-learned" else 0
    return layers * (encoder_layer + decoder_layer) + vocab_size * d_model + positions


def test_every_row_is_on_the_page() -> None:
    assert list(RECIPES) == list(TABLE_3)
    assert list(LINES) == list(TABLE_3)


@pytest.mark.parametrize("row", TABLE_3)
def test_a_row_is_the_papers(row: str) -> None:
    recipe = RECIPES[row]
    model = recipe.model
    settings, perplexity, bleu, millions = TABLE_3[row]
    assert settings == (
        model.num_encoder_layers,
        model.d_model,
        model.d_ff,
        model.num_heads,
        model.d_key,
        model.d_value,
        model.dropout,
        recipe.training.label_smoothing,
    )
    assert model.num_decoder_layers == model.num_encoder_layers
    assert model.positions == ("learned" if row == "e-learned" else "sinusoidal")
    assert recipe.training.averaging.num_checkpoints == 1
    printed = LINES[row][4:]
    assert printed == ["" if millions is None else str(millions), perplexity, bleu]


@pytest.mark.parametrize("row", TABLE_3)
def test_nothing_else_differs_from_base(row: str) -> None:
    recipe = load_recipe("wmt14-en-de-big" if row == "big" else "wmt14-en-de-base")
    keys = ["num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads"]
    keys += ["d_key", "d_value", "dropout", "positions"]
    same = {key: getattr(RECIPES[row].model, key) for key in keys}
    training = recipe.training.model_copy(
        update={
            "label_smoothing": RECIPES[row].training.label_smoothing,
            "averaging": RECIPES[row].training.averaging,
        }
    )
    expected = recipe.model_copy(
        update={
            "name": f"table-3-{row}",
            "model": recipe.model.model_copy(update=same),
            "training": training,
        }
    )
    assert RECIPES[row] == expected


@pytest.mark.parametrize("row", TABLE_3)
def test_a_row_has_the_parameters_that_the_page_says(row: str) -> None:
    count = _count(RECIPES[row].model, 37_000)
    assert count == _formula(row, 37_000)
    assert LINES[row][3] == f"{count:,}"


@pytest.mark.parametrize("row", [row for row in TABLE_3 if TABLE_3[row][3] is not None])
def test_the_papers_millions_are_explained(row: str) -> None:
    # The paper's column fits some 41,000 pieces, and big's number 36,000: no vocabulary gives both.
    vocab_size = 36_000 if row == "big" else 41_000
    assert round(_formula(row, vocab_size) / 1e6) == TABLE_3[row][3]


@pytest.mark.parametrize(("row", "pieces"), [("base", (39_769, 41_721)), ("big", (35_296, 36_272))])
def test_the_vocabularies_that_the_page_names(row: str, pieces: tuple[int, int]) -> None:
    millions = TABLE_3[row][3]
    least, most = pieces
    assert [
        round(_formula(row, size) / 1e6) == millions for size in (least - 1, least, most, most + 1)
    ] == [False, True, True, False]
    assert f"between {least:,} and {most:,}" in " ".join(PAGE.split())
