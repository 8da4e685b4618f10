"""The front door: text in one language as blocks or whole, and the documents that it is of."""

from collections.abc import Iterator

import numpy as np

from mtkit.data.sources.blocks import ReadSettings
from mtkit.data.sources.sentences import DocumentCounter, Indices, TextBlock
from mtkit.data.sources.text_files import read_text_file_blocks
from mtkit.data.sources.text_tables import read_table_blocks
from mtkit.recipe.corpora import TrainingKeys
from mtkit.recipe.text_corpora import TextCorpus, TextTableCorpus

OneLanguageCorpus = TextCorpus | TextTableCorpus

_ROWS_AT_ONCE = 1_024


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
