"""Word alignments beside a corpus: a file with a line `0-0 1-2` for each pair.

The form is that of Pharaoh, which fast_align, eflomal and others write: the numbers of a source
word and of a target word, both from 0; words are what spaces or tabs separate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.data.sources.blocks import Block
from mtkit.data.sources.lines import LineReader, join_lines
from mtkit.errors import MtkitError, shorten
from mtkit.text.words import count_between_spaces

Link = tuple[int, int]
"""A source word and the target word that it is aligned to, by index."""

_SHAPE = "each line is links such as `0-0 1-2`: a source word and a target word, both from 0"
_MAX_DIGITS = 9


@dataclass(frozen=True)
class GivenAlignments:
    r"""The alignments of a block's pairs as they lie in their file.

    Attributes:
        name: The file's.
        first_line: Number of the first line, from 1.
        content: Lines joined by "\n".
    """

    name: str
    first_line: int
    content: bytes

    def read(self, sources: Sequence[str], targets: Sequence[str]) -> list[set[Link]]:
        """Returns the links of each pair.

        Args:
            sources: The pairs' sources as they lie in their file.
            targets: Their targets.

        Raises:
            MtkitError: Something that is no link, or one to a word that isn't there.
        """
        return [
            parse_links(
                line,
                (count_between_spaces(source), count_between_spaces(target)),
                f"{self.name}:{number}",
            )
            for number, (line, source, target) in enumerate(
                zip(self.content.split(b"\n"), sources, targets, strict=True), self.first_line
            )
        ]


def parse_links(line: bytes, num_words: tuple[int, int], where: str) -> set[Link]:
    """Returns the links of one line.

    Args:
        line: `0-0 1-2`.
        num_words: Words of source and target.
        where: What to call the line in messages.

    Raises:
        MtkitError: Something that is no link, or one to a word that isn't there.
    """
    links = set()
    for token in line.split():
        source, _, target = token.partition(b"-")
        if not (source.isdigit() and target.isdigit() and len(token) <= 2 * _MAX_DIGITS):
            shown = shorten(token.decode(errors="replace"), 40)
            raise MtkitError(f"{where}: {shown!r} is no link between words", _SHAPE)
        link = int(source), int(target)
        for side, number, count in zip(("source", "target"), link, num_words, strict=True):
            if number >= count:
                raise MtkitError(
                    f"{where}: link {token.decode()}, but the {side} has {count:,} words",
                    "is it the file of these very lines, source first, and does it count from 0? "
                    "Words are what spaces separate",
                )
        links.add(link)
    return links


def write_links(links: set[Link]) -> str:
    """Returns links as a line, by source and target."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def add_alignments(blocks: Iterator[Block], path: Path, *, reads_all: bool) -> Iterator[Block]:
    """Yields blocks of a corpus with the alignments of their pairs.

    Args:
        blocks: The corpus's pairs, in order.
        path: The file.
        reads_all: Whether the blocks are all of the corpus.

    Raises:
        MtkitError: The file has fewer lines than there are pairs, or more where all are read.
    """
    with LineReader.open(path) as reader:
        num_pairs = 0
        for block in blocks:
            lines = reader.take(block.num_pairs)
            num_pairs += block.num_pairs
            if len(lines) < block.num_pairs:
                raise _unequal(reader, f"at least {num_pairs:,}")
            first = reader.num_taken - len(lines) + 1
            given = GivenAlignments(reader.name, first, join_lines(lines))
            yield replace(block, alignments=given)
        if reads_all and reader.take(1):
            reader.count_rest()
            raise _unequal(reader, f"{num_pairs:,}")


def _unequal(reader: LineReader, num_pairs: str) -> MtkitError:
    return MtkitError(
        f"{reader.name} has {reader.num_taken:,} lines, but its corpus has {num_pairs} pairs: "
        "alignments need a line for each pair, an empty one where there is no link",
        "align the corpus again as it is now",
    )
