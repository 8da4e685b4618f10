"""Markdown by markdown-it's tokens, each with its position in the text.

markdown-it knows the lines of a block but not the positions of its inline tokens. Here each inline
rule is wrapped by one that records its start and end, so the library decides what is markup, and
the positions are exact.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from markdown_it import MarkdownIt, rules_inline
from markdown_it.common.utils import normalizeReference
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token as BlockToken

from mtkit.documents.formats.markdown_masks import (
    DEFINITION,
    MASK,
    mask_page,
    mask_templates,
)
from mtkit.errors import fail_at

_EXTRA = re.compile(
    r"\[\^[^\[\]\s]++\]"  # a footnote
    # A wiki's link. A text after the bar that looks like a target is one, as on GitHub.
    r"|\[\[(?P<target>[^\[\]|\n]++)(?:\|(?:[^\s\[\]|]*?[-_/.#][^\s\[\]|]*+"
    r"|(?P<label>[^\[\]|\n]++)))?\]\](?![(\[])"
    r"|!\[\[[^\[\]\n]++\]\](?![(\[])"
    r"|\{[#.:][^{}\n]*+\}"  # attributes: {#name .class}
    rf"|{MASK.pattern}"
    rf"|<(?:{MASK.pattern}[^<>{{\s]*+)++>"  # an address of a template
    # A tag with templates, or of a component's part.
    rf"|(?P<tag><(?=/?[A-Z]\w*+\.|[^<>{{]*+{MASK.pattern})/?[A-Za-z][\w.-]*+"
    rf"(?:[\s/](?:[^<>{{}}\"']++|\"[^\"<]*+\"|'[^'<]*+'|{MASK.pattern})*+)?+>)"
    r"|(?<![\w:]):(?:[+-]1|(?=[\w+-]*[a-z])[a-z0-9_+-]{2,40}):(?![\w:])"  # an emoji by its name
)
_EXTRA_AT_START = re.compile(
    rf"{DEFINITION.pattern}\s*+"
    r"|\[[ xX]\]\s++"  # a task
    r"|\[![A-Za-z]++\][-+]?\s*+"  # a note, warning or the like
)

MarkKind = Literal["open", "close", "code", "void", "break", "image", "html", "text", "address"]


class InlineMark(NamedTuple):
    """Anything but plain characters in a block's text.

    Attributes:
        kind: `open` and `close`: tags of emphasis and links; `code`; `image`; `html`: a tag;
            `address`: in angle brackets; `text`: escaped characters, and newlines; `break`: a
            visible line break; `void`: any other.
        name: Of a tag; the target of a link or image; code.
        value: The characters of a `text`.
        label: The span of a link's or image's text.
        is_own_label: Whether that text is also the name of the target, so that another text needs
            the name in addition.
        has_title: Whether a link or image has its own title.
    """

    start: int
    end: int
    kind: MarkKind
    name: str = ""
    value: str = ""
    label: tuple[int, int] = (0, 0)
    is_own_label: bool = False
    has_title: bool = False


class Content(NamedTuple):
    """A text's visible characters without space, and its markup, to compare two texts."""

    text: str
    marks: Counter[str]


def make_parser() -> MarkdownIt:
    """Returns a parser of CommonMark, tables and strikethrough."""
    # Its own limit would leave out what is nested more deeply; this one is Python's recursion.
    parser = MarkdownIt("commonmark", {"maxNesting": 1_000})
    parser.enable(["table", "strikethrough"])
    parser.block.ruler.at("reference", read_reference)
    ended = ["paragraph", "reference", "blockquote"]
    parser.block.ruler.before("reference", "definition", _ends_paragraph, {"alt": ended})
    return parser


class MarkdownParser:
    """Reads one document; knows the names of its links."""

    def __init__(self, *, is_mdx: bool) -> None:
        self._is_mdx = is_mdx
        self._parser = make_parser()
        self._parser.core.ruler.enableOnly(["normalize", "block"])
        self._parser.inline.ruler2.enableOnly(["balance_pairs", "strikethrough", "emphasis"])
        for name, rule in _RULES.items():
            self._parser.inline.ruler.at(name, self._note(name, rule))
        self._parser.inline.ruler.before("escape", "extra", self._note("extra", _read_extra))
        self._env: dict[str, Any] = {}
        self._marks: dict[int, list[InlineMark]] = {}

    def read_blocks(self, text: str) -> list[BlockToken]:
        """Returns a masked document's blocks, whose text isn't parsed yet.

        Raises:
            MtkitError: It is nested too deeply.
        """
        try:
            return self._parser.parse(text, self._env)
        except RecursionError as error:
            raise fail_at(text, 0, "this Markdown is nested too deeply") from error

    def read_inline(self, content: str) -> list[InlineMark]:
        """Returns the markup of a block's masked text; nothing if it is nested too deeply."""
        return self._read_tokens(content)[1]

    def _read_tokens(self, content: str) -> tuple[list[BlockToken], list[InlineMark]]:
        tokens: list[BlockToken] = []
        self._marks = {}
        try:
            self._parser.inline.parse(content, self._parser, self._env, tokens)
        except RecursionError:
            return [], []
        # The rules of an image's text have also run, in their own states.
        marks = self._marks.get(id(tokens), [])
        self._marks = {}
        pairs = [_as_mark(tokens, index) for index in range(len(tokens))]
        return tokens, sorted([*marks, *filter(None, pairs)])

    def describe(self, content: str) -> Content:
        """Returns the content of a block's text."""
        tokens, marks = self._read_tokens(content)
        written: list[str] = []
        in_address = False
        for token in tokens:
            if token.markup == "autolink":
                in_address = token.nesting > 0
            elif token.type in ("text", "text_special") and not in_address:
                written.append(token.content)
        found = Counter(key for mark in marks if (key := describe_mark(mark)))
        return Content("".join("".join(written).split()), found)

    def describe_block(self, text: str, kind: str) -> Content | None:
        """Returns a text's content as one block of a kind; None if it would be another.

        The text has line breaks but not the prefixes of lines. The kind is `paragraph`, `heading`,
        `setext` or `cell`, or `image` for its description.
        """
        if kind == "image":
            text = mask_templates(text, [], is_mdx=self._is_mdx)
            whole = f"![{text}](x)"
            marks = self.read_inline(whole)
            is_one = len(marks) == 1 and marks[0][:3] == (0, len(whole), "image")
            return self.describe(text) if is_one else None
        block = mask_page(_WRITTEN[kind](text), is_mdx=self._is_mdx).text
        try:
            tokens = self._parser.parse(block, dict(self._env))
        except RecursionError:
            return None
        found = [token.content for token in tokens if token.type == "inline"]
        types = [token.type for token in tokens if token.level == 0 and token.nesting >= 0]
        if types != [_TYPES[kind]] or len(found) != (4 if kind == "cell" else 1):
            return None
        if kind == "cell" and found[1:] != ["x", "y", "z"]:
            return None
        return self.describe(found[0])

    def _note(
        self, name: str, rule: Callable[[StateInline, bool], bool]
    ) -> Callable[[StateInline, bool], bool]:
        """Returns a rule that records its results."""

        def noted(state: StateInline, silent: bool) -> bool:
            start, first = state.pos, len(state.tokens)
            found = rule(state, silent)
            if found and not silent:
                mark = _make_mark(name, state, start, first)
                if mark is not None:
                    self._marks.setdefault(id(state.tokens), []).append(mark)
            return found

        return noted


_TYPES = {
    "paragraph": "paragraph_open",
    "heading": "heading_open",
    "setext": "heading_open",
    "cell": "table_open",
}
_WRITTEN: dict[str, Callable[[str], str]] = {
    "paragraph": lambda text: text,
    "heading": lambda text: f"# {text}",
    "setext": lambda text: f"{text}\n===",
    "cell": lambda text: f"|{text}|x|\n|---|---|\n|y|z|",
}


def describe_mark(mark: InlineMark) -> str:
    """Returns a mark's kind, without what changes in translation; empty for text."""
    match mark.kind:
        case "open":
            return mark.name
        case "html":
            return "" if mark.name.startswith("/") else AS_MARKUP.get(mark.name, f"<{mark.name}>")
        case "code" | "image":
            return f"{mark.kind} {mark.name}"
        case "void" | "address" | "break":
            return mark.kind
        case _:
            return ""


AS_MARKUP = {"em": "em", "strong": "strong", "del": "s", "br": "break"}
"""Tags that are equivalent to markup."""


def _read_extra(state: StateInline, silent: bool) -> bool:
    """Reads markup beyond CommonMark: footnotes, tasks, attributes, templates, wikis, emoji."""
    if state.src[state.pos] not in "[{<:*!":
        return False
    found = _EXTRA_AT_START.match(state.src) if state.pos == 0 else None
    found = found or _EXTRA.match(state.src, state.pos, state.posMax)
    target = found.groupdict().get("target") if found else None
    is_link = target and normalizeReference(target) in state.env.get("references", {})
    if found is None or is_link:
        return False
    if not silent:
        _push_extra(state, found, target)
    state.pos = found.end()
    return True


def _push_extra(state: StateInline, found: re.Match[str], target: str | None) -> None:
    """Adds the tokens of markup beyond CommonMark."""
    start, end = found.span()
    if found.groupdict().get("tag"):
        state.push("html_inline", "", 0).meta["mark"] = _mark_tag(state, start, end)
        return
    if target is None or not found["label"]:
        kind: MarkKind = "void" if target is None else "address"
        state.push("extra", "", 0).meta["mark"] = InlineMark(start, end, kind)
        return
    maximum, label = state.posMax, found.span("label")
    opening = InlineMark(start, label[0], "open", f"link [[{target}")
    state.push("wiki_open", "", 1).meta["mark"] = opening
    state.pos, state.posMax = label
    state.md.inline.tokenize(state)
    closing = InlineMark(label[1], end, "close", opening.name)
    state.push("wiki_close", "", -1).meta["mark"] = closing
    state.posMax = maximum


def read_reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Reads a link's target, but not a footnote, which is text."""
    position = state.bMarks[start] + state.tShift[start]
    return not state.src.startswith("[^", position) and reference(state, start, end, silent)


def _ends_paragraph(state: StateBlock, start: int, _end: int, silent: bool) -> bool:
    """Ends a paragraph before a definition, which is a paragraph itself."""
    position = state.bMarks[start] + state.tShift[start]
    return silent and DEFINITION.match(state.src, position) is not None


_RULES: dict[str, Callable[[StateInline, bool], bool]] = {
    "newline": rules_inline.newline,
    "escape": rules_inline.escape,
    "backticks": rules_inline.backtick,
    "strikethrough": rules_inline.strikethrough.tokenize,
    "emphasis": rules_inline.emphasis.tokenize,
    "link": rules_inline.link,
    "image": rules_inline.image,
    "autolink": rules_inline.autolink,
    "html_inline": rules_inline.html_inline,
    "entity": rules_inline.entity,
}


def _make_mark(name: str, state: StateInline, start: int, first: int) -> InlineMark | None:
    """Returns the mark of a rule's result; tokens that become pairs later get positions."""
    end = state.pos
    token = state.tokens[-1] if len(state.tokens) > first else None
    mark = None
    match name:
        case "emphasis" | "strikethrough":
            _note_positions(state.tokens, start, end)
        case "link":
            _note_link(state, start, first)
        case "newline" | "escape" if token is not None and token.type == "hardbreak":
            before = len(state.src[:start].rstrip(" ")) if name == "newline" else start
            mark = InlineMark(before, end, "break")
        case "newline":
            mark = InlineMark(start, end, "text", value="\n")
        case "escape" | "entity" if token is not None:
            mark = InlineMark(start, end, "text", value=token.content)
        case "backticks" if token is not None and token.type == "code_inline":
            mark = InlineMark(start, end, "code", token.content)
        case "image" if token is not None:
            label = (start + 2, start + 2 + len(token.content))
            mark = InlineMark(start, end, "image", str(token.attrs["src"]), label=label)
            mark = _complete_mark(mark, state.src, has_title="title" in token.attrs)
        case "autolink":
            mark = InlineMark(start, end, "address", state.src[start + 1 : end - 1])
        case "html_inline":
            mark = _mark_tag(state, start, end)
        case _:
            pass
    return mark


def _mark_tag(state: StateInline, start: int, end: int) -> InlineMark:
    tag = re.match(r"</?[A-Za-z][^\s/>]*", state.src[start:end])
    return InlineMark(start, end, "html", tag.group()[1:].lower() if tag else "!")


def _complete_mark(mark: InlineMark, content: str, *, has_title: bool) -> InlineMark:
    """Completes the mark of a link or image with what follows its text."""
    tail = content[mark.label[1] : mark.end]
    return mark._replace(
        is_own_label=tail in ("]", "][]"), has_title=has_title and tail.startswith("](")
    )


def _note_positions(tokens: Sequence[BlockToken], start: int, end: int) -> None:
    """Records the position of each sign that may open or close a pair."""
    for token in reversed(tokens):
        if end <= start:
            break
        token.meta["span"] = (end - len(token.content), end)
        end -= len(token.content)


def _note_link(state: StateInline, start: int, first: int) -> None:
    label_end = state.md.helpers.parseLinkLabel(state, start, True)
    opening = next(each for each in state.tokens[first:] if each.type == "link_open")
    target, has_title = str(opening.attrs["href"]), "title" in opening.attrs
    label = (start + 1, label_end)
    opening.meta["mark"] = InlineMark(start, start + 1, "open", f"link {target}", label=label)
    closing = InlineMark(label_end, state.pos, "close", f"link {target}", label=label)
    closing = _complete_mark(closing, state.src, has_title=has_title)
    state.tokens[-1].meta["mark"] = closing


def _as_mark(tokens: Sequence[BlockToken], index: int) -> InlineMark | None:
    """Returns the mark of a token that opens or closes a pair."""
    token = tokens[index]
    mark: InlineMark | None = token.meta.get("mark")
    if mark is not None or "span" not in token.meta or token.nesting == 0:
        return mark
    start, end = token.meta["span"]
    # The outer sign of `**` has been emptied.
    if token.type == "strong_open":
        start -= 1
    elif token.type == "strong_close":
        end += 1
    kind: Literal["open", "close"] = "open" if token.nesting > 0 else "close"
    return InlineMark(start, end, kind, token.type.rpartition("_")[0])
