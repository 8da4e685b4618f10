"""Markdown: CommonMark, GitHub's tables and strikethrough, footnotes, tasks, front matter."""

import dataclasses
import functools
import re
from collections import defaultdict
from collections.abc import Sequence

import yaml

from mtkit.documents.document import (
    Document,
    EscapedText,
    Escapes,
    LanguageCodes,
    Node,
    Span,
    Token,
    Unit,
    as_written,
)
from mtkit.documents.escaped_text import read_escaped_text, split_at_matches
from mtkit.documents.formats.html import read_html_part
from mtkit.documents.formats.html_elements import (
    Attributes,
    find_reason_to_leave,
    is_inline,
    is_void,
    read_attribute_units,
    read_attributes,
    read_visible,
    rewrite_languages,
)
from mtkit.documents.formats.markdown_inline import InlineMark, MarkdownParser, describe_mark
from mtkit.documents.formats.markdown_masks import (
    MASK,
    SIMPLE,
    BlockLocator,
    MarkdownBlock,
    has_mdx,
    mask_page,
)
from mtkit.documents.formats.markdown_writing import (
    MarkdownWriter,
    choose_escapes,
    make_title_escapes,
    read_escaped,
)
from mtkit.documents.formats.yaml_strings import add_string, find_strings
from mtkit.documents.units import MarkupPart, make_units, protect
from mtkit.errors import MtkitError

FRONT_MATTER = re.compile(
    r"\A(---|\+\+\+)[ \t]*+\r?\n"
    r"(?:(?!\1|\.\.\.)[^\n]*+\n)*+(?:\1|\.\.\.)[ \t]*+(?:\r?\n|\Z)"
)
_FRONT_TEXT = re.compile(r"(?m)^(?:title|description|summary)[ \t]*+[:=][ \t]*+([^\r\n]++)")
"""A text of front matter that isn't valid YAML."""
_ADDRESS = re.compile(r"(?:https?://|www\.)(?:[.,;:!?*_~()\[\]]*+[^\s<>\"'`.,;:!?*_~()\[\]]++)++")
_TITLE = re.compile(
    r"""\s(?:"((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'|\(((?:[^()\\]|\\.)*+)\))\s*+\)\Z""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\[!-/:-@\[-`{-~]|&[#\w]+;")
_TITLE_ESCAPES = Escapes(lambda text: text.replace('"', "'"))
"""Of a directive's title, which can't contain a quotation mark."""
_QUOTE_SIGNS = re.compile(r"[ \t>]*+")
_QUOTE_SIGN = re.compile(r"(?m)^[ \t>]++")
_COMMENT = re.compile(r"<!--(?:[^-]|-(?!->))*+(?:-->|\Z)")


def read_markdown(text: str, languages: LanguageCodes) -> Document:
    """Returns a page with its units; raises an MtkitError if it is nested too deeply."""
    document = Document(text)
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    _read_front_matter(document, text[:start], languages)
    is_mdx = has_mdx(text[start:])
    masked = mask_page(text[start:], is_mdx=is_mdx)
    for first, last in masked.titles:
        raw = text[start + first : start + last]
        node = Node("text", start + first, start + last, spelled=as_written(raw))
        document.units.append(Unit((node,), node.start, node.end, _TITLE_ESCAPES))
    for (first, last), reason in masked.left:
        document.skip(start + first, text[start + first : start + last], reason)
    parser = MarkdownParser(is_mdx=is_mdx)
    blocks = parser.read_blocks(masked.text)
    page = text[:start] + masked.text
    locator = BlockLocator(text, page, start)
    num_quotes = 0
    for index, token in enumerate(blocks):
        if token.type in ("blockquote_open", "blockquote_close"):
            num_quotes += token.nesting
        elif token.type == "html_block":
            span = locator.locate_lines(token)
            _read_html(document, span, languages, page, is_quoted=num_quotes > 0)
        elif token.type in ("code_block", "fence"):
            document.skip(locator.locate_lines(token)[0], token.content, "code")
        elif token.type == "inline":
            block = locator.locate_block(token, blocks[index - 1])
            if block is None:
                first = locator.locate_lines(token)[0]
                document.skip(first, token.content, "not found in the source")
                continue
            for piece in block.split():
                if any(map(str.isalpha, piece.content)):
                    _BlockReader(document, parser, languages, piece).read()
    return document


def _read_front_matter(document: Document, front: str, languages: LanguageCodes) -> None:
    """Adds the title, the description and the summary of YAML; those with markup stay."""
    try:
        found = list(find_strings(front)) if front.startswith("---") else None
    except (yaml.YAMLError, MtkitError, RecursionError, ValueError):
        found = None
    if found is None:
        for text in _FRONT_TEXT.finditer(front):
            document.skip(text.start(1), text[1], "in front matter")
        return
    for key, token, in_flow in found:
        if key in ("title", "description", "summary"):
            if SIMPLE.fullmatch(token.value):
                add_string(document, token, languages, in_flow=in_flow)
            else:
                document.skip(token.start_mark.index, token.value, "in front matter")


def _read_html(
    document: Document, span: Span, languages: LanguageCodes, page: str, *, is_quoted: bool
) -> None:
    """Adds the units of an HTML block of a masked page, if it is complete enough."""
    start, end = span
    if is_quoted:
        # With several lines there are quote signs inside the text.
        begin = _QUOTE_SIGNS.match(document.text, start, end)
        start = begin.end() if begin else start
        if "\n" in document.text[start:end].rstrip():
            visible = _QUOTE_SIGN.sub("", _read_visible_text(document.text[start:end]))
            document.skip(start, visible, "in unsupported elements", "html in a quote")
            return
    try:
        read_html_part(document, (start, end), languages, page[start:end])
    except MtkitError:
        # A page may contain half a tag, or an unclosed comment: it stays.
        visible = _read_visible_text(document.text[start:end])
        document.skip(start, visible, "in unsupported elements", "unclosed html")


def _read_visible_text(raw: str) -> str:
    """Returns the visible text of HTML."""
    return "".join(each.text for each in read_visible(_COMMENT.sub("", raw)))


class _BlockReader:
    """Adds the units of a block to its document."""

    def __init__(
        self,
        document: Document,
        parser: MarkdownParser,
        languages: LanguageCodes,
        block: MarkdownBlock,
    ) -> None:
        self._document, self._parser, self._languages = document, parser, languages
        self._text, self._block = document.text, block
        self._parts: list[MarkupPart] = []
        self._spelled: list[EscapedText] = []
        self._begun = 0
        """Start of the current text in the block's text."""

    def read(self) -> None:
        content = self._block.masked
        marks = self._parser.read_inline(content)
        names = [mark for mark in marks if mark.kind == "close" and mark.is_own_label]
        self._add_units((0, len(content)), marks, self._block.kind, names)
        for mark in marks:
            if mark.kind == "image":
                self._add_image(mark)
            if mark.has_title:
                self._add_title(mark)

    def _add_units(
        self, span: Span, marks: Sequence[InlineMark], kind: str, names: Sequence[InlineMark]
    ) -> None:
        """Adds the units of a span of the block's text."""
        # `names` are links and images whose text is the name of their target.
        writer = MarkdownWriter(self._parser, self._text, kind)
        self._parts = []
        self._read_parts(span, marks, writer)
        units = make_units(self._parts, choose_escapes(self._block.kind))
        is_alone = len(units) == 1 and all(
            units[0].start <= part.start and part.end <= units[0].end
            for part in self._parts
            if part.kind == "text" and any(each.text.strip() for each in part.spelled)
        )
        outputs: dict[int, Unit] = {}
        for mark in names:
            first, last = self._block.locate_span(*mark.label)
            inside = [unit for unit in units if first <= unit.start and unit.end <= last]
            if len(inside) == 1:
                outputs[id(inside[0])] = self._name_target(
                    inside[0], mark, writer, is_alone=is_alone
                )
            else:
                for unit in inside:
                    raw = self._text[unit.start : unit.end]
                    self._document.skip(unit.start, raw, "part of a link's name")
                units = [unit for unit in units if unit not in inside]
        self._document.units += [
            outputs.get(id(unit))
            or dataclasses.replace(unit, join=functools.partial(writer.write, unit, is_alone))
            for unit in units
        ]

    def _name_target(
        self, unit: Unit, mark: InlineMark, writer: MarkdownWriter, *, is_alone: bool
    ) -> Unit:
        """Returns the unit of a link's whole text, which was also the name of its target."""
        closing = self._block.locate(mark.label[1])
        end = self._block.locate(mark.end) - 1
        name = _read_name(self._block.content, mark)

        def join(tokens: Sequence[Token]) -> str:
            raw = writer.write(unit, is_alone, tokens)
            if raw == self._text[unit.start : unit.end]:
                return raw + self._text[unit.end : end]
            return f"{raw}{self._text[unit.end : closing]}][{name}"

        return dataclasses.replace(unit, output=(unit.start, end), join=join)

    def _read_parts(self, span: Span, marks: Sequence[InlineMark], writer: MarkdownWriter) -> None:
        """Adds parts for a span of the block's text."""
        done = self._begun = span[0]
        ends = _find_ends(marks)
        for mark in marks:
            if mark.start < done:
                # In an untranslated element.
                continue
            self._read_text(done, mark.start, writer)
            first, last = self._block.locate_span(mark.start, mark.end)
            done = mark.end
            if mark.kind == "text":
                self._spelled.append(EscapedText(mark.value, self._text[first:last]))
                continue
            self._end_text(mark.start, mark.end)
            if mark.kind == "html":
                done = self._read_tag(mark, ends.get(mark.start, 0), writer)
                self._begun = done
                continue
            self._parts.append(self._make_part(mark, (first, last)))
            if mark.kind != "close":
                writer.note(first, describe_mark(mark))
            elif mark.is_own_label:
                opening = self._block.locate(mark.label[0] - 1)
                writer.note_name(opening, _read_name(self._block.content, mark))
        self._read_text(done, span[1], writer)
        self._end_text(span[1], span[1])

    def _read_text(self, start: int, end: int, writer: MarkdownWriter) -> None:
        """Collects characters without markup, and protects addresses."""
        pieces = split_at_matches(_ADDRESS, self._block.content, start, end)
        for first, last, address in pieces:
            if address is not None:
                self._end_text(first, last)
                span = self._block.locate_span(first, last)
                raw = self._text[slice(*span)]
                self._parts.append(protect(span, raw))
                writer.note(span[0], "", raw)
                continue
            piece = self._block.content[first:last]
            if self._block.kind == "cell" and "|" in piece:
                bars = [each for each in re.split(r"(\|)", piece) if each]
                self._spelled += [EscapedText(each, each.replace("|", "\\|")) for each in bars]
            else:
                self._spelled.append(EscapedText(piece, piece))

    def _end_text(self, end: int, following: int) -> None:
        """Adds a part for the collected text; the next text begins at `following`."""
        if self._spelled:
            span = self._block.locate_span(self._begun, end)
            self._parts.append(MarkupPart("text", *span, spelled=tuple(self._spelled)))
        self._spelled = []
        self._begun = following

    def _read_tag(self, mark: InlineMark, end: int, writer: MarkdownWriter) -> int:
        """Adds an HTML tag, or the whole element if it stays, and returns its end in the block."""
        first, last = self._block.locate_span(mark.start, mark.end)
        attributes = self._read_attributes(mark)
        is_opening = mark.name[0] not in "/!"
        if is_opening:
            self._document.edits += rewrite_languages(self._text, attributes, self._languages)
        if is_opening and find_reason_to_leave(mark.name, attributes, self._languages)[0]:
            if end:
                span = self._block.locate_span(mark.start, end)
                visible = read_visible(self._text[slice(*span)])
                if not is_inline(mark.name):
                    self._parts.append(MarkupPart("edge", *span))
                    text = "".join(each.text for each in visible)
                    self._document.skip(span[0], text, "in unsupported elements", mark.name)
                    return end
                self._parts.append(MarkupPart("protected", *span, spelled=visible))
                content = self._parser.describe(self._block.masked[mark.start : end])
                for each in content.marks.elements():
                    writer.note(first, each)
                writer.note(first, "", content.text)
                return end
        elif is_opening:
            self._document.units += read_attribute_units(self._text, mark.name, attributes)
        self._parts.append(self._make_part(mark, (first, last)))
        # Notes belong to elements, and a closing tag doesn't begin one.
        if is_opening or self._parts[-1].kind == "void":
            writer.note(first, describe_mark(mark))
        return mark.end

    def _read_attributes(self, mark: InlineMark) -> Attributes:
        """Returns a tag's attributes without those that contain templates, which stay."""
        raw = self._block.masked[mark.start : mark.end]
        return {
            key: (self._block.locate_span(start + mark.start, end + mark.start), value)
            for key, ((start, end), value) in read_attributes(raw, 0, len(raw)).items()
            if not MASK.search(raw, start, end)
        }

    def _add_image(self, mark: InlineMark) -> None:
        """Adds an image's description, unless it contains links, images or HTML."""
        start, end = mark.label
        inner = self._parser.read_inline(self._block.masked[start:end])
        if any(each.kind in ("image", "html") or each.name.startswith("link") for each in inner):
            self._skip((start, end), "in unsupported elements", "markup in an image's description")
            return
        marks = [each._replace(start=each.start + start, end=each.end + start) for each in inner]
        names = [mark] if mark.is_own_label else []
        self._add_units(mark.label, marks, "image", names)

    def _add_title(self, mark: InlineMark) -> None:
        """Adds the title of a link or image."""
        begin = mark.label[1]
        found = _TITLE.search(self._block.masked[begin : mark.end])
        group = next((each for each in (1, 2, 3) if found and found.group(each)), None)
        if found is None or group is None or not any(map(str.isalpha, found.group(group))):
            return
        span = (begin + found.start(group), begin + found.end(group))
        start, end = self._block.locate_span(*span)
        raw = self._text[start:end]
        if "\n" in raw:
            self._skip(span, "in unsupported elements", "a multi-line title")
            return
        escapes = make_title_escapes(self._text[start - 1], self._block.kind)
        node = Node("text", start, end, spelled=_spell_escaped(raw))
        self._document.units.append(Unit((node,), start, end, escapes))

    def _make_part(self, mark: InlineMark, span: Span) -> MarkupPart:
        name = mark.name.lstrip("/")
        match mark.kind:
            case "open" | "close" as kind:
                return MarkupPart(kind, *span, mark.name)
            case "code":
                visible = _read_code(self._block.content[mark.start : mark.end])
                return protect(span, visible)
            case "address":
                visible = self._block.content[mark.start : mark.end].strip("<>[]").partition("|")[0]
                return protect(span, visible)
            case "html" if is_inline(name) and not is_void(name):
                return MarkupPart("close" if mark.name != name else "open", *span, f"<{name}>")
            case "html" if name != "!" and not is_inline(name):
                return MarkupPart("edge", *span)
            case _:
                return MarkupPart("void", *span, is_break=mark.kind == "break" or name == "br")

    def _skip(self, span: Span, reason: str, detail: str = "") -> None:
        """Records a span of the block's text that stays."""
        self._document.skip(
            self._block.locate(span[0]), self._block.content[slice(*span)], reason, detail
        )


def _read_code(raw: str) -> str:
    """Returns the visible text of inline code."""
    num_ticks = len(raw) - len(raw.lstrip("`"))
    code = raw[num_ticks : len(raw) - num_ticks].replace("\n", " ")
    return code[1:-1] if code.strip(" ") and code[0] == code[-1] == " " else code


def _find_ends(marks: Sequence[InlineMark]) -> dict[int, int]:
    """Returns the end of each opening tag's element, by the tag's start."""
    opened: defaultdict[str, list[int]] = defaultdict(list)
    ends = {}
    for mark in marks:
        if mark.kind == "html":
            starts = opened[mark.name.lstrip("/")]
            if not mark.name.startswith("/"):
                starts.append(mark.start)
            elif starts:
                ends[starts.pop()] = mark.end
    return ends


def _read_name(content: str, mark: InlineMark) -> str:
    """Returns the name of a link's target that is also its text."""
    return " ".join(content[slice(*mark.label)].split())


def _spell_escaped(raw: str) -> tuple[EscapedText, ...]:
    return read_escaped_text(raw, _ESCAPED, lambda found: read_escaped(found.group()))
