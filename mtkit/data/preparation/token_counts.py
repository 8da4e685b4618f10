"""Counts of the tokens that a text became, for its report."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Ragged
from mtkit.data.preparation.facts import ColumnFacts
from mtkit.text.token_ids import UNK
from mtkit.text.tokenizer import SubwordTokenizer


@dataclass(frozen=True)
class ColumnCounts:
    """Counts of the tokens of one column.

    Attributes:
        lengths: Sentences by number of tokens, `</s>` counted.
        pieces: How often each piece stands there.
        unknown: Characters that the vocabulary lacks, with how often they stand there.
        best_tokens: Tokens of the sentences whose growth was measured.
        sampled_tokens: Their tokens by a sampled segmentation.
    """

    lengths: NDArray[np.int64]
    pieces: NDArray[np.int64]
    unknown: Counter[str]
    best_tokens: int
    sampled_tokens: int

    def __add__(self, other: "ColumnCounts") -> "ColumnCounts":
        return ColumnCounts(
            self.lengths + other.lengths,
            self.pieces + other.pieces,
            self.unknown + other.unknown,
            self.best_tokens + other.best_tokens,
            self.sampled_tokens + other.sampled_tokens,
        )


def count_unknown(
    tokenizer: SubwordTokenizer, side: str, tokens: Ragged, lines: Sequence[str]
) -> Counter[str]:
    """Returns the characters of lines of a side that its vocabulary lacks, and how often.

    Args:
        tokenizer: What made the tokens.
        side: Source or target.
        tokens: Of each line.
        lines: The lines.
    """
    unknown: Counter[str] = Counter()
    is_unknown = tokens.tokens == UNK
    if is_unknown.any():
        ends = np.cumsum(tokens.lengths)
        found = np.searchsorted(ends, np.flatnonzero(is_unknown), side="right")
        for row in np.unique(found).tolist():
            unknown.update("".join(tokenizer.unknown_pieces(side, lines[row])))
    return unknown


def describe_column(counts: ColumnCounts, vocab_size: int) -> ColumnFacts:
    """Returns a column's counts, as JSON can express it."""
    num_tokens = int(counts.pieces.sum())
    used = counts.pieces[:vocab_size]
    facts: ColumnFacts = {
        "tokens": num_tokens,
        "lengths": counts.lengths.tolist(),
        "pieces": vocab_size,
        "pieces_used": int(np.count_nonzero(used)),
        "pieces_rare": int(np.count_nonzero(used < 10)),
        "unknown_tokens": int(counts.pieces[UNK]),
        "unknown_pieces": dict(counts.unknown.most_common(20)),
    }
    if counts.best_tokens:
        facts["sampling_growth"] = round(counts.sampled_tokens / counts.best_tokens, 4)
    return facts
