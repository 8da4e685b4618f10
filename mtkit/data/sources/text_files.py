"""Text files in one language; what parts their documents is told by the recipe."""

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
from mtkit.data.sources.sentences import DocumentRun, Sentences
from mtkit.errors import MtkitError
from mtkit.recipe.text_corpora import Documents, TextCorpus


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
