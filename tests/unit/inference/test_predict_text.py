import math
from collections.abc import Sequence

import numpy as np
import pytest

from mtkit.inference.predict_text import predict_text
from mtkit.text.token_ids import EOS

LINES = ["the quick brown fox", "jumps", "over the lazy dog", "pack my box"]
DOCUMENTS = np.array([0, 0, 0, 1])


class PositionEngine:
    """Gives a token a log-probability of minus its position in its block."""

    max_tokens = None
    batches_at_once = 1

    def __init__(self) -> None:
        self.blocks: list[list[int]] = []

    def search(self, *_: object) -> list[list[object]]:
        raise AssertionError("nothing is searched")

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        assert not any(source_batch)
        self.blocks += [list(block) for block in target_batch]
        return [[-float(position) for position in range(len(block))] for block in target_batch]


@pytest.mark.parametrize("context_tokens", [1, 7, 10_000])
def test_each_line_gets_the_sum_of_its_tokens(tokenizer, context_tokens: int) -> None:
    engine = PositionEngine()
    found = predict_text(
        engine, tokenizer, LINES, DOCUMENTS, context_tokens=context_tokens, batch_tokens=64
    )
    tokens = tokenizer.encode_target(LINES)
    assert found.num_tokens.tolist() == list(map(len, tokens))
    positions: dict[int, int] = {}
    for line, (document, of_line) in enumerate(zip(DOCUMENTS.tolist(), tokens, strict=True)):
        begun = positions.get(document, 0)
        expected = -sum((begun + index) % context_tokens for index in range(len(of_line)))
        positions[document] = begun + len(of_line)
        assert found.log_probabilities[line] == pytest.approx(expected)
    assert max(map(len, engine.blocks)) <= context_tokens
    assert sum(block.count(EOS) for block in engine.blocks) == len(LINES)
    # No block holds tokens of two documents.
    assert sum(map(len, engine.blocks)) == sum(map(len, tokens))
    assert len(engine.blocks) == sum(math.ceil(n / context_tokens) for n in positions.values())


def test_unknown_tokens_are_counted(tokenizer) -> None:
    found = predict_text(
        PositionEngine(), tokenizer, ["dog \u4e2d"], np.zeros(1), context_tokens=8, batch_tokens=8
    )
    assert found.num_unknown == 1
