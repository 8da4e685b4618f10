"""Two text files, aligned by line."""

from collections.abc import Iterator
from dataclasses import dataclass

from mtkit.data.sources.blocks import (
    BYTES_PER_BLOCK,
    LINES_PER_STEP,
    Block,
    Decoded,
    ReadSettings,
)
from mtkit.data.sources.lines import LineReader, check_has_content, decode_text, join_lines
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import FileCorpus


@dataclass(frozen=True)
class TextOrigin:
    """Lines of two text files.

    Attributes:
        source: Name of the source file.
        target: Name of the target file.
        first_line: Number of the first line in both, from 1.
    """

    source: str
    target: str
    first_line: int

    def decode(self, block: Block, *, drop_invalid: bool) -> Decoded:
        """Returns what `decode_block` does."""
        sources, num_invalid = decode_text(
            block.source, self.source, self.first_line, drop_invalid=drop_invalid
        )
        targets, num_invalid_targets = decode_text(
            block.target, self.target, self.first_line, drop_invalid=drop_invalid
        )
        return sources, targets, num_invalid + num_invalid_targets


def read_file_blocks(corpus: FileCorpus, reading: ReadSettings) -> Iterator[Block]:
    """Yields the pairs of two text files in blocks.

    Raises:
        MtkitError: A file that is missing, empty, damaged or longer than its partner.
    """
    check_files(corpus)
    with LineReader.open(corpus.source) as source, LineReader.open(corpus.target) as target:
        yield from read_aligned_blocks(source, target, reading)


def read_aligned_blocks(
    source: LineReader, target: LineReader, reading: ReadSettings
) -> Iterator[Block]:
    """Yields the lines of two readers in blocks, pair by pair.

    Raises:
        MtkitError: One side is damaged, or longer than the other; there is no line.
    """
    first = 0
    while size := reading.size_at(first):
        sources, targets = _take_block(source, target, size)
        if not sources:
            break
        yield Block(
            corpus=reading.index,
            first=first,
            num_pairs=len(sources),
            source=join_lines(sources),
            target=join_lines(targets),
            origin=TextOrigin(source.name, target.name, first + 1),
        )
        first += len(sources)
    if first == 0:
        raise MtkitError(f"{source.name} and {target.name}: no lines in them", "are they complete?")


def _take_block(
    source: LineReader, target: LineReader, size: int
) -> tuple[list[bytes], list[bytes]]:
    """Returns the next lines of both sides, at most `size`, and fewer where they are long."""
    sources: list[bytes] = []
    targets: list[bytes] = []
    num_bytes = 0
    while len(sources) < size and num_bytes <= BYTES_PER_BLOCK:
        count = min(LINES_PER_STEP, size - len(sources))
        steps = source.take(count), target.take(count)
        if len(steps[0]) != len(steps[1]):
            raise _unequal(source, target)
        if not steps[0]:
            break
        sources += steps[0]
        targets += steps[1]
        num_bytes += sum(map(len, steps[0])) + sum(map(len, steps[1]))
    return sources, targets


def check_files(corpus: FileCorpus) -> None:
    """Checks that both files of a corpus are there and hold something.

    Raises:
        MtkitError: One is missing, a folder, or empty.
    """
    for path in (corpus.source, corpus.target):
        check_has_content(path)


def _unequal(source: LineReader, target: LineReader) -> MtkitError:
    """Returns the error of two readers, one of which is at its end; the other goes on to its."""
    first_unpaired = min(source.num_taken, target.num_taken) + 1
    longer = source if source.num_taken > target.num_taken else target
    longer.count_rest()
    return MtkitError(
        f"{source.name} has {source.num_taken:,} lines, but {target.name} has "
        f"{target.num_taken:,}: both must have the same number of lines; "
        f"{longer.name}:{first_unpaired} is the first without a counterpart",
        "find where they diverge: a missing or repeated line shifts all that follow",
    )
