"""Where the text of Markdown's blocks stands in a document.

markdown-it gives a block's text without what stands before its lines (`> `, a list's indentation,
`##`), and its lines. Each line of a block's text is found at the end of a line of the document,
since only what stands in front of it was taken away.
"""

import bisect
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from markdown_it.token import Token as BlockToken

from mtkit.documents.document import Span
from mtkit.documents.formats.markdown_masks import MASK, split_lines

_LINE_END = re.compile(r"\r\n|\n|\r")

BlockKind = Literal["paragraph", "heading", "setext", "cell"]


class _Segment(NamedTuple):
    """Characters of a block's text that stand together in the document.

    Attributes:
        first: Index in the block's text at which it begins, with the space that may be in front.
        content: Index of a character in it.
        source: Where that stands in the document.
    """

    first: int
    content: int
    source: int


class Block:
    """A paragraph, a heading or a cell of a table.

    Args:
        masked: Its text as markdown-it reads it.
        segments: Where it stands.
        kind: What it is; `setext` is a heading with a line beneath it.
        text: The document's.

    Attributes:
        content: Its text without masks.
    """

    def __init__(
        self, masked: str, segments: Sequence[_Segment], kind: BlockKind, text: str
    ) -> None:
        self.masked, self.kind = masked, kind
        self._segments, self._text = segments, text
        self._firsts = [segment.first for segment in segments]
        self.content = MASK.sub(self._read_masked, masked)

    def _read_masked(self, found: re.Match[str]) -> str:
        return self._text[slice(*self.locate_span(*found.span()))]

    def split(self) -> "list[Block]":
        """Returns what of a paragraph stands between lines that are masked."""
        lines = self.masked.split("\n")
        runs = split_lines(lines, self.content) if self.kind == "paragraph" else []
        if not runs or runs == [(0, len(lines))]:
            return [self] if runs or self.kind != "paragraph" else []
        blocks = []
        for first, last in runs:
            base = self._firsts[first]
            segments = [
                _Segment(each.first - base, each.content - base, each.source)
                for each in self._segments[first:last]
            ]
            blocks.append(Block("\n".join(lines[first:last]), segments, self.kind, self._text))
        return blocks

    def locate(self, index: int) -> int:
        """Returns where a character of the text stands in the document."""
        segment = self._segments[bisect.bisect_right(self._firsts, index) - 1]
        return segment.source + index - segment.content

    def locate_span(self, start: int, end: int) -> Span:
        """Returns where some of the text stands in the document."""
        return self.locate(start), self.locate(end)


class BlockLocator:
    """Finds the text of blocks.

    Args:
        source: The document's text.
        text: That under its masks.
        start: Where its blocks begin, behind front matter.
    """

    def __init__(self, source: str, text: str, start: int) -> None:
        self._source, self._text = source, text
        self._lines = [start, *(found.end() for found in _LINE_END.finditer(text, start))]
        self._lines.append(len(text))
        self._row = (-1, 0)
        """Of a table: a line, and where its next cell begins at the earliest."""

    def locate_lines(self, token: BlockToken) -> Span:
        """Returns where a block's lines are."""
        assert token.map is not None
        first, last = (self._lines[min(line, len(self._lines) - 1)] for line in token.map)
        return first, last

    def locate_block(self, token: BlockToken, opening: BlockToken) -> Block | None:
        """Returns a block; None where its position isn't certain.

        Args:
            token: That of its text.
            opening: The one before.
        """
        assert token.map is not None
        if opening.type in ("th_open", "td_open"):
            return self._locate_cell(token.content, token.map[0])
        kind: BlockKind = "paragraph"
        if opening.type == "heading_open":
            kind = "heading" if opening.markup.startswith("#") else "setext"
        segments: list[_Segment] = []
        first = 0
        for number, line in enumerate(token.content.split("\n"), token.map[0]):
            written = line.rstrip().lstrip(" \t")
            begin, end = self._lines[number], self._lines[number + 1]
            at = self._text.rfind(written, begin, end)
            rest = self._text[at + len(written) : end] if at >= 0 else "?"
            if rest.strip(" \t#\r\n" if kind == "heading" else None):
                return None
            indent = line.index(written)
            segments.append(_Segment(first, first + indent, at))
            first += len(line) + 1
        return Block(token.content, segments, kind, self._source)

    def _locate_cell(self, content: str, line: int) -> Block | None:
        """Returns a cell of a table; those of a row are asked for in order.

        A bar in a cell is written behind a backslash, which the cell's text doesn't have.
        """
        begin, end = self._lines[line], self._lines[line + 1]
        at = self._row[1] if self._row[0] == line else begin
        raw = content.replace("|", "\\|")
        while raw:
            at = self._text.find(raw, at, end)
            if at < 0:
                return None
            before = self._text[begin:at].rstrip(" \t")
            behind = self._text[at + len(raw) : end].strip()
            if behind[:1] in ("|", "") and (before[-1:] == "|" or "|" not in before):
                break
            at += 1
        self._row = (line, at + len(raw))
        segments = [_Segment(0, 0, at)]
        for number, found in enumerate(re.finditer(r"\|", content), 1):
            segments.append(_Segment(found.end(), found.end(), at + found.end() + number))
        return Block(content, segments, "cell", self._source)
