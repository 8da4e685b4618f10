"""What docs/fidelity.md says of the paper: each row's test exists; those that stand nowhere else.

"The paper" is arXiv 1706.03762.
"""

import ast
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.sublayers import Dropout
from mtkit.recipe import load_recipe
from mtkit.recipe.model import Model
from mtkit.training.learner import build_optimizer, set_learning_rate

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "fidelity.md"


def rows_of_the_page() -> list[list[str]]:
    """Returns the cells of each row of the page's tables that ends in a test's name."""
    lines = PAGE.read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in rows if len(row) > 1 and "::" in row[-1]]


@pytest.mark.parametrize("row", rows_of_the_page(), ids=lambda row: row[0])
def test_a_row_s_tests_exist(row: list[str]) -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", row[-1])
    assert named
    assert len(named) == row[-1].count("::")
    for path, name in named:
        tree = ast.parse((ROOT / "tests" / path).read_text("utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_page_has_every_row() -> None:
    assert [(row[0], row[1]) for row in rows_of_the_page()] == [
        ("layers", "3.1"),
        ("attention", "3.2.1"),
        ("heads", "3.2.2"),
        ("who sees what", "3.2.3"),
        ("feed-forward", "3.3"),
        ("embeddings", "3.4"),
        ("positions", "3.5"),
        ("restricted attention", "4"),
        ("parameters", "Table 3"),
        ("vocabulary", "5.1"),
        ("batch", "5.1"),
        ("length of training", "5.2"),
        ("Adam", "5.3"),
        ("learning rate", "5.3"),
        ("dropout", "5.4"),
        ("label smoothing", "5.4"),
        ("checkpoints", "6.1"),
        ("averaging", "6.1"),
        ("beam search", "6.1"),
        ("output length", "6.1"),
        ("score", "6.1"),
        ("parsing", "6.3"),
    ]


def test_dropout_is_where_section_5_4_has_it_and_nowhere_else(monkeypatch) -> None:
    # "to the output of each sub-layer, before it is added to the sub-layer input", two in an
    # encoder layer and three in a decoder layer; and "to the sums of the embeddings and the
    # positional encodings in both the encoder and decoder stacks".
    model = EncoderDecoder(Model(d_model=16, d_ff=24, num_heads=2), 9, 9).train()
    added, alone = [], []
    add, forward = Dropout.add, Dropout.forward

    def note_add(self: Dropout, states: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        added.append(self.rate)
        return add(self, states, inputs)

    def note_forward(self: Dropout, inputs: torch.Tensor) -> torch.Tensor:
        alone.append(self.rate)
        return forward(self, inputs)

    monkeypatch.setattr(Dropout, "add", note_add)
    monkeypatch.setattr(Dropout, "forward", note_forward)
    tokens = torch.tensor([[5, 6, 3]])
    layout = PaddedLayout.without_padding(tokens)
    model(tokens, layout, tokens, layout)
    assert added == [0.1] * (6 * 2 + 6 * 3)
    # Two sums of embeddings and positions; the feed-forward layers' own are at 0.
    assert sorted(alone) == [0.0] * 12 + [0.1] * 2
    assert not any(isinstance(part, nn.Dropout) for part in model.modules())


@pytest.mark.parametrize("name", ["wmt14-en-de-base", "wmt14-en-de-big"])
def test_adam_is_section_5_3_s(name: str) -> None:
    # Kingma and Ba (arXiv 1412.6980), algorithm 1, by hand, with beta1 0.9, beta2 0.98, epsilon
    # 1e-9: gradients 2, then -1, at rate 0.1, from weight 1.
    layer = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        layer.weight.fill_(1.0)
    optimizer = build_optimizer(layer, load_recipe(name).training.optimizer)
    set_learning_rate(optimizer, 0.1)
    weight, first, second = 1.0, 0.0, 0.0
    for step, gradient in enumerate((2.0, -1.0), start=1):
        layer.weight.grad = torch.full_like(layer.weight, gradient)
        optimizer.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        mean, variance = first / (1 - 0.9**step), second / (1 - 0.98**step)
        weight -= 0.1 * mean / (variance**0.5 + 1e-9)
        assert layer.weight.item() == pytest.approx(weight, rel=1e-12)
