"""Word alignments next to a corpus: a file with a line `0-0 1-2` for each pair.

Pharaoh's format, which fast_align, eflomal and others write: the numbers of a source and a target
word, from 0, where words are separated by spaces or tabs.
"""

import re

from mtkit.data.sources.blocks import Rows
from mtkit.errors import MtkitError, shorten
from mtkit.text.words import count_between_spaces

_COLUMN = "alignment"

Link = tuple[int, int]
"""Index of a source word, and of the target word that it is aligned to."""

_SHAPE = "each line is links such as `0-0 1-2`: a source word and a target word, both from 0"
_MAX_DIGITS = 9
_LINK = re.compile("[0-9]+-[0-9]+")


def parse_links(line: str, num_words: tuple[int, int], where: str) -> set[Link]:
    """Returns the links of a line; `num_words` are those of source and target."""
    links = set()
    for token in line.split():
        if not _LINK.fullmatch(token) or len(token) > 2 * _MAX_DIGITS:
            shown = shorten(token, 40)
            raise MtkitError(f"{where}: {shown!r} isn't a link between words", _SHAPE)
        link = read_link(token)
        for side, number, count in zip(("source", "target"), link, num_words, strict=True):
            if number >= count:
                raise MtkitError(
                    f"{where}: link {token}, but the {side} has {count:,} words",
                    "is it the file for these lines, source first, and does it count from 0? "
                    "Words are what spaces separate",
                )
        links.add(link)
    return links


def read_link(token: str) -> Link:
    """Returns the link that a valid token such as `0-1` is."""
    source, target = map(int, token.split("-"))
    return source, target


def write_links(links: set[Link]) -> str:
    """Returns links as a line, sorted by source and target."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_links(rows: Rows) -> list[set[Link]] | None:
    """Returns the links of each pair of a block; None if its corpus has none."""
    if _COLUMN not in rows.columns:
        return None
    columns = rows.columns
    lines = zip(columns[_COLUMN], columns["source"], columns["target"], strict=True)
    return [
        parse_links(
            line,
            (count_between_spaces(source), count_between_spaces(target)),
            rows.locate(number, _COLUMN),
        )
        for number, (line, source, target) in zip(rows.numbers.tolist(), lines, strict=True)
    ]
