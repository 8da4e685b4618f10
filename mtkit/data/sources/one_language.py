"""The front door: text in one language as blocks or whole, and the documents that it is of."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mtkit.data.sources.blocks import ReadSettings
from mtkit.data.sources.lines import (
    LineReader,
    check_has_content,
    decode_text,
    join_lines,
    take_block,
)
from mtkit.data.sources.sentences import DocumentCounter, DocumentRun, Indices, Sentences, TextBlock
from mtkit.data.sources.text_tables import read_table_blocks
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import TrainingKeys
from mtkit.recipe.text_corpora import Documents, TextCorpus, TextTableCorpus

OneLanguageCorpus = TextCorpus | TextTableCorpus
_ROWS_AT_ONCE = 1_024


@dataclass(frozen=True)
class TextFileBlock:
    r"""Lines of a text file.

    Attributes:
        corpus: Which entry of `data.train`.
        first: Number of the first line, from 0.
        content: Lines joined by "\n", as they lie in the file.
        name: Name of the file.
        parted_by: What parts documents.
    """

    corpus: int
    first: int
    content: bytes
    name: str
    parted_by: Documents

    def decode(self, *, drop_invalid: bool) -> Sentences:
        """Returns its sentences; a line of nothing but spaces is blank."""
        lines, num_invalid = decode_text(
            self.content, self.name, self.first + 1, drop_invalid=drop_invalid
        )
        is_blank = np.array([not line.strip() for line in lines])
        rows = np.flatnonzero(~is_blank)
        match self.parted_by:
            case "blank-lines":
                before, last = np.cumsum(is_blank), int(np.count_nonzero(is_blank))
            case "lines":
                before, last = np.arange(len(lines)), len(lines)
            case "file":
                before, last = np.zeros(len(lines), np.int64), 0
        return Sentences(
            lines=[lines[row] for row in rows.tolist()],
            rows=rows,
            # By number alone: the document that the block before ends in goes on.
            documents=DocumentRun(before[rows].astype(np.int64), last, opens="", closes=""),
            num_invalid=num_invalid,
        )


def read_text_file_blocks(corpus: TextCorpus, reading: ReadSettings) -> Iterator[TextFileBlock]:
    """Yields the lines of a text file in blocks, blank ones too.

    Raises:
        MtkitError: The file is missing, empty or damaged.
    """
    check_has_content(corpus.text)
    with LineReader.open(corpus.text) as reader:
        first = 0
        while (size := reading.size_at(first)) and (lines := take_block(reader, size)):
            yield TextFileBlock(
                corpus=reading.index,
                first=first,
                content=join_lines(lines),
                name=reader.name,
                parted_by=corpus.documents,
            )
            first += len(lines)
        if first == 0:
            raise MtkitError(f"{reader.name}: no lines of text in it", "is the file complete?")


def read_text_blocks(
    corpus: OneLanguageCorpus, *, index: int, rows_per_block: int
) -> Iterator[TextBlock]:
    """Yields a corpus's lines or rows in blocks, in order; a block's `decode` makes text of them.

    Args:
        corpus: An entry of the recipe; its `max_pairs` is heeded.
        index: Which entry of `data.train` it is.
        rows_per_block: Lines or rows of each block but the last, unless they are long.

    Raises:
        MtkitError: The file is missing, empty or damaged, or lacks a column that is named.
    """
    reading = ReadSettings(
        index=index,
        pairs_per_block=rows_per_block,
        max_pairs=corpus.max_pairs if isinstance(corpus, TrainingKeys) else None,
        languages=("", ""),
    )
    match corpus:
        case TextCorpus():
            yield from read_text_file_blocks(corpus, reading)
        case TextTableCorpus():
            yield from read_table_blocks(corpus, reading)


def read_text(corpus: OneLanguageCorpus) -> tuple[list[str], Indices]:
    """Returns all lines of a corpus that aren't blank, and the number of each one's document.

    Raises:
        MtkitError: What `read_text_blocks` and a block's `decode` raise.
    """
    lines: list[str] = []
    documents: list[Indices] = [np.zeros(0, np.int64)]
    counter = DocumentCounter()
    for block in read_text_blocks(corpus, index=0, rows_per_block=_ROWS_AT_ONCE):
        found = block.decode(drop_invalid=False)
        lines += found.lines
        documents.append(counter.number(0, found.documents))
    return lines, np.concatenate(documents)


def check_text(corpus: OneLanguageCorpus) -> None:
    """Checks that a corpus can be read as far as its first line or row tells.

    Raises:
        MtkitError: What `read_text_blocks` and a block's `decode` raise.
    """
    block = next(read_text_blocks(corpus, index=0, rows_per_block=1))
    # What isn't UTF-8 may be dropped later on.
    block.decode(drop_invalid=True)
