"""Masks what page generators add to Markdown with as many characters, to hide it from the parser.

Templates (`{{ x }}`, `{% x %}`, `{{< x >}}`), comments and lines of directives (`:::note`, `[TOC]`,
`!!! note`) mean nothing to CommonMark, but may be where it expects an address, or between
paragraphs. A mask is meaningless punctuation, and all positions stay the same.

markdown-it returns a block's text without the prefixes of its lines (`> `, a list's indentation,
`##`), and its line numbers. Each line of a block's text is found at the end of a document line,
since only its prefix was removed.
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from markdown_it.token import Token as BlockToken

from mtkit.documents.document import Span
from mtkit.text.words import replace_spans

_FILL = "\u2e35"
"""A punctuation sign that texts don't have."""
MASK = re.compile(rf"\{{{_FILL}++")
_MASKED_LINE = re.compile(rf"[ \t{{{_FILL}]*+")
"""A completely masked line."""

_TEMPLATE = r"\{\{<|\{\{%|\{\{|\{%|\{/\*|\{#(?=\s)"
_OPENING = re.compile(rf"(?<!\\)(?:\\\\)*+({_TEMPLATE})|\\(?=\{{)")
_BRACES = r"\{(?:[^{}`'\"\r\n]++|['\"](?:[{}]++['\"])?+|INNER)*+\}"
_EXPRESSION = _BRACES.replace("INNER", _BRACES.replace("INNER", _BRACES.replace("|INNER", "")))
"""Code of MDX in braces, with up to two levels of braces in it."""
_MDX_OPENING = re.compile(rf"(?<!\\)(?:\\\\)*+(\{{/\*|{_EXPRESSION}|{_TEMPLATE})|\\(?=\{{)")
_MDX_SIGN = re.compile(r"\{/\*|(?<![\w`<])<[A-Z][A-Z0-9]*[a-z][\w.]*+(?=[\s/>]|\Z)")
"""A comment or a component of MDX."""
_CLOSING = {"{{<": ">}}", "{{%": "%}}", "{{": "}}", "{%": "%}", "{/*": "*/}", "{#": "#}"}
_MAX_TEMPLATE = 2_000
_CODE_NAME = r"(?P<name>code|codeblock|comment|highlight|katex|math|mermaid|plantuml|raw|verbatim)"
_CODE_OPENING = re.compile(rf"-?\s*+{_CODE_NAME}(?![\w-])")
_CODE_CLOSING = re.compile(
    rf"(?P<opening>\{{%|\{{\{{[<%])-?\s*+(?:end|/)\s*+{_CODE_NAME}\s*+-?[%>]\}}{{1,2}}+"
)
"""A template that ends code of Jekyll, Hexo, Hugo or Twig."""
_BLANK_LINE = re.compile(r"\n[ \t]*+\r?\n")

_LINE = re.compile(r"\S[^\r\n]*+")
_INDENT = r"[ \t>]*+(?:(?:[-+*]|\d{1,9}[.)])[ \t]++)?+"
_DIRECTIVE = re.compile(
    _INDENT + r"(?P<rest>(?::{3,}+|/{3,}+)(?P<title>.*+)"
    r"|::[A-Za-z][\w-]*+(?:\[[^\[\]]*+\])?+(?:\{[^{}]*+\})?+[ \t]*+\Z"
    r"|\{:[^{}]*+\}[ \t]*+\Z"
    r"|<<<[ \t]*+@.*+|-++8<-++.*+"
    r"|\[\[?(?:_TOC_|TOC|toc)\]\]?[ \t]*+\Z"
    r"|\[![A-Za-z]++\][-+]?[ \t]*+\Z"
    r"|%%.*%%[ \t]*+\Z)"
)
_ADMONITION = re.compile(
    _INDENT + r"(?P<rest>(?:!!!|\?\?\?\+?)[ \t]*+[\w-]++(?:[ \t]++[\w-]++)*+"
    r'(?:[ \t]++"(?P<title>[^"]*+)")?[ \t]*+|===[!+]?[ \t]++"(?P<tab>[^"]*+)"[ \t]*+)\Z'
)
_FENCE = re.compile(_INDENT + r"(?P<rest>(?P<fence>`{3,}+|~{3,}+)(?P<name>.*+))")
_WITH_TEXT = re.compile(
    r"[ \t]*+\{(?:admonition|attention|card|caution|danger|details|dropdown|epigraph|error|hint"
    r"|important|margin|note|seealso|sidebar|tab-item|tip|topic|warning)\}"
)
"""Directives of MyST whose fences contain text."""
_FOOTNOTE = re.compile(r" {0,3}\[\^[^\[\]\s]++\]:")
DEFINITION = re.compile(r"(?:\[\^[^\[\]\s]++|\*\[[^\[\]\r\n]++)\]:")
"""Start of a footnote's text, or of an abbreviation's."""
_DESCRIPTION = re.compile(r"[ \t>]*+(?P<sign>:)[ \t]++\S")
"""Start of a definition list's definition."""
_OPTION = re.compile(_INDENT + r"(?P<rest>:[\w-]++:.*+)")
_MODULE = re.compile(
    r"import\s++(?:[\w*{][^'\"]*?\sfrom\s++)?['\"][^'\"]++['\"];?\s*+\Z"
    r"|export\s++(?:default|const|let|var|function|async|class)\b.*[=({]"
    r"|export\s++(?:\*|\{).*\sfrom\s"
)
SIMPLE = re.compile(r"[^\\`*_\[\]{}<>&]*+")
"""A title without markup."""
_LINE_END = re.compile(r"\r\n|\n|\r")
BlockKind = Literal["paragraph", "heading", "setext", "cell"]


class Masked(NamedTuple):
    """A masked page.

    Attributes:
        titles: Spans of directives' plain titles.
        left: Spans of text that stays, each with the reason.
    """

    text: str
    titles: list[Span]
    left: list[tuple[Span, str]]


def has_mdx(text: str) -> bool:
    """Checks that a page has imports, exports, comments or components of MDX outside of code."""
    fence = ""
    for line in text.splitlines():
        if found := _FENCE.fullmatch(line):
            is_end = fence != "" and _closes(found, fence)
            fence = "" if is_end else fence or found["fence"]
        elif not fence and (_MODULE.match(line) or _MDX_SIGN.search(line)):
            return True
    return False


def mask_templates(text: str, left: list[tuple[Span, str]], *, is_mdx: bool) -> str:
    """Returns a text with its templates and comments masked; adds the code between them."""
    templates = _find_templates(text, left, is_mdx=is_mdx)
    return replace_spans(
        text, (((start, end), _LINE.sub(_fill, text[start:end])) for start, end in templates)
    )


def mask_page(text: str, *, is_mdx: bool) -> Masked:
    """Returns a page with everything masked that isn't Markdown."""
    left: list[tuple[Span, str]] = []
    return _LineMasker(mask_templates(text, left, is_mdx=is_mdx), left).mask()


def _fill(found: re.Match[str]) -> str:
    return _cover(len(found.group()))


def _cover(length: int) -> str:
    return "{" + _FILL * (length - 1) if length else ""


def _find_templates(text: str, left: list[tuple[Span, str]], *, is_mdx: bool) -> Iterator[Span]:
    """Yields the spans of templates, together with the code between them."""
    if "{" not in text:
        return
    done = 0
    endings = _find_code_endings(text)
    closing = dict.fromkeys(_CLOSING, -1)
    """For each opening sign, the next closing one found so far."""
    pattern = _MDX_OPENING if is_mdx else _OPENING
    while found := pattern.search(text, done):
        start, opening = found.start(1), found.group(1)
        if opening is None:
            # After a backslash it is text.
            done = found.end() + 1
            continue
        if opening not in _CLOSING:
            done = found.end()
            yield start, done
            continue
        done = start + 1
        first = start + len(opening)
        if closing[opening] < first:
            at = text.find(_CLOSING[opening], first)
            closing[opening] = at if at >= 0 else len(text)
        end = closing[opening]
        if end == len(text) or end - first > _MAX_TEMPLATE:
            continue
        inner = text[first:end]
        if opening in ("{{", "{%") and (
            "`" in inner or opening in inner or (opening == "{{" and _BLANK_LINE.search(inner))
        ):
            continue
        end += len(_CLOSING[opening])
        end += inner.startswith("{") and text.startswith("}", end)
        code = _CODE_OPENING.match(inner)
        if code is not None and text[start - 1 : start] != "`":
            spans = endings[opening, code["name"]]
            index = bisect.bisect(spans, (end,))
            if index < len(spans):
                if code["name"] != "comment":
                    left.append(((end, spans[index][0]), "code"))
                end = spans[index][1]
        yield start, end
        done = end


def _find_code_endings(text: str) -> defaultdict[tuple[str, str], list[Span]]:
    """Returns the spans of templates that end code, by the opening sign and the name."""
    endings: defaultdict[tuple[str, str], list[Span]] = defaultdict(list)
    for found in _CODE_CLOSING.finditer(text):
        endings[found["opening"], found["name"]].append(found.span())
    return endings


class _LineMasker:
    """Masks the lines of directives in a page whose templates are masked."""

    def __init__(self, text: str, left: list[tuple[Span, str]]) -> None:
        self._text = text
        self._lines = [found.span() for found in re.finditer(r"[^\n]*+\n|[^\n]++", text)]
        self._edits: list[tuple[Span, str]] = []
        self._masked = Masked("", [], left)
        self._opened: list[str] = []
        """Open fences with text."""
        self._fence = ""
        """The open fence with code."""
        self._has_options = self._in_module = False
        """Whether the previous line was part of a directive, or of a JavaScript module."""
        self._in_footnote = self._is_further = False
        """Whether a line belongs to a footnote, and whether to a further paragraph of it."""

    def mask(self) -> Masked:
        for number, (start, stop) in enumerate(self._lines):
            line = self._text[start:stop].rstrip("\r\n")
            fence = _FENCE.fullmatch(line)
            if not self._fence and fence is None:
                self._read_footnote(start, line)
            if self._fence:
                self._fence = "" if fence and _closes(fence, self._fence) else self._fence
            elif fence is not None:
                self._read_fence(start, line, fence)
            else:
                self._read_line(number, start, line)
        return self._masked._replace(text=replace_spans(self._text, self._edits))

    def _read_footnote(self, start: int, line: str) -> None:
        """Makes further paragraphs of a footnote a quote: their indentation isn't code's."""
        if _FOOTNOTE.match(line):
            self._in_footnote, self._is_further = True, False
        elif not line.strip():
            self._is_further = self._in_footnote
        elif not line.startswith(("    ", "\t")):
            self._in_footnote = self._is_further = False
        elif self._is_further:
            self._edits.append(((start, start + 1), ">"))

    def _cover(self, start: int, end: int, before: str = "") -> None:
        self._edits.append(((start, end), before + _cover(end - start - len(before))))

    def _read_fence(self, start: int, line: str, found: re.Match[str]) -> None:
        """Masks a fence with text, or records one with code."""
        self._has_options = self._in_module = False
        is_end = bool(self._opened) and _closes(found, self._opened[-1])
        name = _WITH_TEXT.match(found["name"])
        if is_end:
            self._opened.pop()
        elif name is not None:
            self._opened.append(found["fence"])
            self._has_options = True
            self._note_title(start + found.start("name") + name.end(), found["name"][name.end() :])
        else:
            # A line with more backticks after the first ones isn't a fence.
            self._fence = found["fence"] if "`" not in found["name"] else ""
            return
        self._cover(start + found.start("rest"), start + len(line))

    def _read_line(self, number: int, start: int, line: str) -> None:
        """Masks any other line if it is a directive's."""
        self._in_module = bool(line.strip()) and (
            self._in_module or _MODULE.match(line) is not None
        )
        if self._in_module:
            self._cover(start, start + len(line))
        elif self._has_options and (option := _OPTION.fullmatch(line)):
            self._cover(start + option.start("rest"), start + len(line))
            return
        self._has_options = not self._in_module and self._read_directive(number, start, line)

    def _read_directive(self, number: int, start: int, line: str) -> bool:
        """Masks a line of a directive; returns whether options may follow it."""
        found = _DIRECTIVE.match(line)
        if found is not None:
            self._cover(start + found.start("rest"), start + len(line))
            title = found["title"]
            if title is None:
                return False
            words = re.match(r"[ \t]*+(?:\{[^{}]*+\}|[\w-]*+)", title)
            skipped = words.end() if words else 0
            self._note_title(start + found.start("title") + skipped, title[skipped:])
            return True
        if description := _DESCRIPTION.match(line):
            # It contains blocks like a list item.
            sign = start + description.start("sign")
            self._edits.append(((sign, sign + 1), "-"))
            return False
        found = _ADMONITION.match(line)
        if found is not None and self._is_indented(number, found.start("rest")):
            # Its text is indented like a list item's.
            self._cover(start + found.start("rest"), start + len(line), "-   ")
            for group in ("title", "tab"):
                title = found[group]
                if title and SIMPLE.fullmatch(title):
                    span = (start + found.start(group), start + found.end(group))
                    self._masked.titles.append(span)
                elif title:
                    self._note_title(start + found.start(group), title)
        return False

    def _note_title(self, start: int, title: str) -> None:
        if title.strip():
            self._masked.left.append(((start, start + len(title)), "in a directive"))

    def _is_indented(self, number: int, indent: int) -> bool:
        """Checks that the next line with text is indented four characters more."""
        for start, stop in self._lines[number + 1 : number + 4]:
            line = self._text[start:stop]
            if line.strip():
                return len(line) - len(line.lstrip(" \t>")) >= indent + 4 or line.startswith("\t")
        return False


def _closes(found: re.Match[str], fence: str) -> bool:
    is_bare = not found["name"].strip()
    return is_bare and found["fence"][0] == fence[0] and len(found["fence"]) >= len(fence)


def split_between_masks(lines: Sequence[str], content: str) -> list[tuple[int, int]]:
    """Returns the ranges of a paragraph's lines between masked lines."""
    runs = []
    first = 0
    for number, line in enumerate(lines):
        if _MASKED_LINE.fullmatch(line):
            runs.append((first, number))
            first = number + 1
        elif number == 0 and re.match(r"\[![A-Za-z]+\]", content):
            # A note's title.
            runs.append((0, 1))
            first = 1
    runs.append((first, len(lines)))
    return [run for run in runs if run[0] < run[1]]


class _Segment(NamedTuple):
    """Characters of a block's text that are contiguous in the document."""

    # `first` is its start in the block's text, including space before it. `content` is the index of
    # a character in it, and `source` that character's position in the document.

    first: int
    content: int
    source: int


class MarkdownBlock:
    """A paragraph, a heading or a table cell; `setext` is a heading with a line beneath it.

    Attributes:
        masked: Its text as markdown-it reads it.
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

    def split(self) -> "list[MarkdownBlock]":
        """Returns the parts of a paragraph between masked lines."""
        lines = self.masked.split("\n")
        runs = split_between_masks(lines, self.content) if self.kind == "paragraph" else []
        if not runs or runs == [(0, len(lines))]:
            return [self] if runs or self.kind != "paragraph" else []
        blocks = []
        for first, last in runs:
            base = self._firsts[first]
            segments = [
                _Segment(each.first - base, each.content - base, each.source)
                for each in self._segments[first:last]
            ]
            blocks.append(
                MarkdownBlock("\n".join(lines[first:last]), segments, self.kind, self._text)
            )
        return blocks

    def locate(self, index: int) -> int:
        """Returns a character's position in the document."""
        segment = self._segments[bisect.bisect_right(self._firsts, index) - 1]
        return segment.source + index - segment.content

    def locate_span(self, start: int, end: int) -> Span:
        """Returns a span's position in the document."""
        return self.locate(start), self.locate(end)


class BlockLocator:
    """Finds the text of blocks in a document, given its masked text and the end of front matter."""

    def __init__(self, source: str, text: str, start: int) -> None:
        self._source, self._text = source, text
        self._lines = [start, *(found.end() for found in _LINE_END.finditer(text, start))]
        self._lines.append(len(text))
        self._row = (-1, 0)
        """A table's line, and the earliest start of its next cell."""

    def locate_lines(self, token: BlockToken) -> Span:
        """Returns the span of a block's lines."""
        assert token.map is not None
        first, last = (self._lines[min(line, len(self._lines) - 1)] for line in token.map)
        return first, last

    def locate_block(self, token: BlockToken, opening: BlockToken) -> MarkdownBlock | None:
        """Returns a block; None if its position is uncertain.

        `token` is that of its text, `opening` the one before.
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
        return MarkdownBlock(token.content, segments, kind, self._source)

    def _locate_cell(self, content: str, line: int) -> MarkdownBlock | None:
        """Returns a cell of a table; those of a row are requested in order."""
        # A bar in a cell has a backslash, which the cell's text doesn't have.
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
        return MarkdownBlock(content, segments, "cell", self._source)
