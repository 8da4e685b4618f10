"""Makes tokens and label numbers from labelled texts."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.data.batches.joined_texts import join_rows
from mtkit.data.batches.numbered_texts import NumberedTextsWriter
from mtkit.data.batches.ragged import Ragged
from mtkit.data.preparation.stage import Preparation
from mtkit.data.preparation.text_store import TextPart, TextStore
from mtkit.data.preparation.tokenized import ColumnCounts, TokenizedPart, count_unknown
from mtkit.text.tokenizer import SubwordTokenizer


class LabelledTokenizer:
    """Tokenises parts of a text store of labelled texts; created once per process."""

    def __init__(
        self,
        text: Path,
        tokenizer: Path,
        labels: Sequence[str],
        *,
        max_tokens: int,
        has_pairs: bool,
    ) -> None:
        self._text, self._tokenizer = TextStore(text), SubwordTokenizer.load(tokenizer)
        self._numbers = {label: number for number, label in enumerate(labels)}
        self._max_tokens, self._has_pairs = max_tokens, has_pairs

    def __call__(self, part: TextPart) -> TokenizedPart:
        """Returns the tokens of a part."""
        unique = self._text.read_unique(part)
        columns = unique.to_pydict()
        texts, seconds = columns["text"], columns["second"] if self._has_pairs else None
        tokens = [
            self._tokenizer.encode_source(side) for side in (texts, seconds) if side is not None
        ]
        rows = join_rows(
            tokens[0], tokens[1] if self._has_pairs else None, max_tokens=self._max_tokens
        )
        labels = np.array([self._numbers[label] for label in columns["label"]], np.int64)
        unknown: Counter[str] = Counter()
        for side, of_side in zip((texts, seconds), tokens, strict=False):
            unknown += count_unknown(self._tokenizer, "source", Ragged.of(of_side), side)
        counts = ColumnCounts(
            lengths=np.bincount(rows.lengths, minlength=self._max_tokens + 1),
            pieces=np.bincount(rows.tokens, minlength=self._tokenizer.source_vocab_size),
            unknown=unknown,
        )
        return TokenizedPart(part.corpus, (rows, labels), {"text": counts}, len(rows))


class LabelledStore:
    """Writes the tokens and labels of texts into an empty folder."""

    def __init__(self, folder: Path, tokenizer: SubwordTokenizer, labels: Sequence[str]) -> None:
        self._writer = NumberedTextsWriter(folder, tokenizer.source_vocab_size, labels)
        self._num_rows: Counter[int] = Counter()

    def __enter__(self) -> "LabelledStore":
        self._writer.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._writer.__exit__(kind, *rest)

    def add(self, part: TokenizedPart) -> None:
        """Adds the next part."""
        self._writer.append(*part.content, corpus=part.corpus)
        self._num_rows[part.corpus] += part.num_kept

    def describe(self, corpus: int) -> dict[str, int]:
        """Returns the texts of a corpus; each is a document and a block."""
        return dict.fromkeys(("documents", "blocks"), self._num_rows[corpus])


def build_labelled_tokenizer(preparation: Preparation) -> Callable[[], LabelledTokenizer]:
    """Returns a picklable factory of a tokenizer for a recipe's labelled texts."""
    data = preparation.data
    return partial(
        LabelledTokenizer,
        preparation.text,
        preparation.tokenizer,
        preparation.found["text"]["labels"],
        max_tokens=data.block_tokens,
        has_pairs=data.has_pairs_of_texts,
    )
