"""The tokens of a part of the text, and counts of them for the report."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.ragged import Ragged
from mtkit.data.preparation.facts import ColumnFacts, ShownRow
from mtkit.text.token_ids import UNK
from mtkit.text.tokenizer import SubwordTokenizer


@dataclass(frozen=True)
class ColumnCounts:
    """Counts of the tokens of one column.

    Attributes:
        lengths: Sentences by number of tokens, `</s>` counted.
        pieces: Occurrences of each piece.
        unknown: Occurrences of characters that the vocabulary lacks.
        best_tokens: Tokens of the sentences whose growth was measured.
        sampled_tokens: The same sentences' tokens in a sampled segmentation.
    """

    lengths: NDArray[np.int64]
    pieces: NDArray[np.int64]
    unknown: Counter[str]
    best_tokens: int = 0
    sampled_tokens: int = 0

    def __add__(self, other: "ColumnCounts") -> "ColumnCounts":
        return ColumnCounts(
            self.lengths + other.lengths,
            self.pieces + other.pieces,
            self.unknown + other.unknown,
            self.best_tokens + other.best_tokens,
            self.sampled_tokens + other.sampled_tokens,
        )


@dataclass(frozen=True)
class TokenizedPart:
    """The tokens of a part of the text; `content` is for the store of its kind.

    `too_long` are a few of the rows that are longer than `max_tokens`, `dropped` all of them, from
    `pack_rows`.
    """

    corpus: int
    content: Any
    counts: dict[str, ColumnCounts]
    num_kept: int
    num_too_long: int = 0
    too_long: Sequence[ShownRow] = ()
    dropped: bytes = b""
    augmented: Counter[str] = field(default_factory=Counter)


class TokenizedStore(Protocol):
    """Writes the tokens of a text part by part; complete when the `with` block ends."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None: ...

    def add(self, part: TokenizedPart) -> None:
        """Adds the next part."""
        ...

    def describe(self, corpus: int) -> dict[str, int]:
        """Returns the documents and blocks of a corpus; empty if it has none."""
        ...


def count_unknown(
    tokenizer: SubwordTokenizer, side: str, tokens: Ragged, lines: Sequence[str]
) -> Counter[str]:
    """Returns the characters of a side's lines that its vocabulary lacks, and how often."""
    unknown: Counter[str] = Counter()
    is_unknown = tokens.tokens == UNK
    if is_unknown.any():
        ends = np.cumsum(tokens.lengths)
        found = np.searchsorted(ends, np.flatnonzero(is_unknown), side="right")
        for row in np.unique(found).tolist():
            unknown.update("".join(tokenizer.unknown_pieces(side, lines[row])))
    return unknown


def describe_column(counts: ColumnCounts, vocab_size: int) -> ColumnFacts:
    """Returns a column's counts, in a form that JSON allows."""
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
