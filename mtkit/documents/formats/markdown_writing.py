"""Writes text as Markdown so that a translation is read as intended.

A sign that is harmless in one sentence is markup in another: stars around a word, a full stop after
a number that begins a line. So each translation is read again before it is written. If it would be
read as anything else, it is written more carefully: with backslashes, and finally with HTML instead
of stars.
"""

import html
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from markdown_it.common.utils import isValidEntityCode

from mtkit.documents.document import Escapes, Token, Unit, UnwritableError, walk
from mtkit.documents.formats.markdown_inline import Content, MarkdownParser

_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])|(&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|\w+);)")
_SIGN = re.compile(r"[\\`*_\[\]<>]|~(?=~)|(?<=~)~|\{(?=[{%#.:])|&(?=#[0-9a-fA-FxX]+;|\w+;)")
"""Possible markup."""
_ANY_SIGN = re.compile(r"[\\`*_\[\]{}<>&~|#!]|:(?=::)|(?<=::):")
"""Possible markup together with its neighbours."""
_PREFIX = re.compile(r"(\r?\n)[ \t>]*")
_LINE_START = re.compile(
    r"(?P<before>\A|\n[ \t>]*+)"
    r"(?:(?P<number>\d{1,9})(?=[.)](?:\s|\Z))|(?=(?:[-+*:]|\#{1,6})(?:\s|\Z)|>|=+\s|~~~|\[[^\]]*\]:))"
)
_BREAK = re.compile(r"(?:\\|  )[ ]*\r?\n")
_NUM_PLAIN = 4
_TAGS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}


def read_escaped(raw: str) -> str:
    """Returns the text of characters with backslashes and entities."""
    return _ESCAPED.sub(lambda found: found.group(1) or _read_entity(found.group(2)), raw)


def _read_entity(raw: str) -> str:
    """Returns the text of an entity in CommonMark, which reads numbers literally."""
    if raw[1] != "#":
        return html.unescape(raw)
    code = int(raw[3:-1], 16) if raw[2] in "xX" else int(raw[2:-1])
    return chr(code) if isValidEntityCode(code) else "\ufffd"


def _escape(text: str) -> str:
    return _SIGN.sub(lambda found: f"\\{found.group()}", text)


def _escape_cell(text: str) -> str:
    return _escape(text).replace("|", "\\|")


def choose_escapes(kind: str) -> Escapes:
    """Returns the escapes of a kind of block."""
    return Escapes(_escape_cell if kind == "cell" else _escape, read_escaped)


def make_title_escapes(quote: str, kind: str) -> Escapes:
    """Returns the escapes of a link's title, which depend on its quotes."""
    signs = "()" if quote == "(" else quote
    signs += "|" if kind == "cell" else ""
    pattern = re.compile(rf"[\\{re.escape(signs)}]|&(?=\#[0-9a-fA-FxX]+;|\w+;)")
    return Escapes(lambda text: pattern.sub(lambda found: f"\\{found.group()}", text), read_escaped)


class MarkdownWriter:
    """Writes the translations of a block's units; the kind `image` is an image's description."""

    def __init__(self, parser: MarkdownParser, text: str, kind: str) -> None:
        self._parser, self._text, self._kind = parser, text, kind
        self._notes: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        self._names: dict[int, str] = {}

    def note(self, start: int, mark: str, visible: str = "") -> None:
        """Records how the tag at a position is read, by its mark and visible text."""
        self._notes[start].append((mark, visible))

    def note_name(self, start: int, name: str) -> None:
        """Records that the text of the link at a position is the name of its target."""
        self._names[start] = name

    def write(self, unit: Unit, is_alone: bool, tokens: Sequence[Token]) -> str:
        """Returns a unit's translation; `is_alone` if its block has no other text to combine with.

        Raises:
            UnwritableError: However it is written, it is read as something else.
        """
        raw = self._put_together(tokens)
        if raw == self._text[unit.start : unit.end]:
            return raw
        wanted = self._expect(tokens)
        escapes_next = self._text[unit.end : unit.end + 1].strip() != ""
        first = None if is_alone else _NUM_PLAIN
        for candidate in itertools.islice(self._list_candidates(raw, tokens), first, None):
            read = self._parser.describe_block(_PREFIX.sub(r"\1", candidate), self._kind)
            if read == wanted and not (escapes_next and _ends_in_escape(candidate)):
                return candidate
        raise UnwritableError

    def _list_candidates(self, raw: str, tokens: Sequence[Token]) -> Iterator[str]:
        """Yields ways to write a translation; from `_NUM_PLAIN` on, each sign is escaped."""
        yield raw
        careful = [
            token._replace(raw=_ANY_SIGN.sub(r"\\\g<0>", read_escaped(token.raw)))
            if token.kind == "text" and "\n" not in token.raw
            else token
            for token in tokens
        ]
        signs: tuple[Callable[[str], str], ...] = (str, _use_asterisks, lambda raw: raw)
        for written, (number, change) in itertools.product((tokens, careful), enumerate(signs)):
            changed = [
                token if token.kind == "text" else token._replace(raw=change(token.raw))
                for token in written
            ]
            if number == 2:
                changed = _use_tags(changed)
            yield _LINE_START.sub(_escape_line_start, self._put_together(changed))

    def _put_together(self, tokens: Sequence[Token]) -> str:
        """Joins tokens; a link whose text was its target's name gets the name if it changed."""
        pieces: list[str] = []
        opened: list[int] = []
        before: Token | None = None
        """The last non-empty token."""
        for token in tokens:
            raw, node = token.raw, token.node
            if token.kind == "open":
                opened.append(len(pieces) + 1)
            elif token.kind == "close":
                first = opened.pop()
                name = self._names.get(node.start) if node is not None else None
                if name is not None and node is not None:
                    label = self._text[slice(*node.inner)]
                    raw = raw if "".join(pieces[first:]) == label else f"][{name}]"
            if raw.startswith("`") and before is not None and _ends_in_backtick(before):
                # Two runs of backticks would be read as one.
                pieces.append(" ")
            pieces.append(raw)
            before = token._replace(raw=raw) if raw else before
        return "".join(pieces)

    def _expect(self, tokens: Sequence[Token]) -> Content:
        """Returns the content that the translation must have."""
        texts: list[str] = []
        marks: Counter[str] = Counter()

        for token in tokens:
            if token.kind == "text":
                texts.append(read_escaped(_PREFIX.sub("", token.raw)))
            elif token.kind != "close" and token.node is not None:
                noted = walk([token.node]) if token.kind == "void" else [token.node]
                for mark, visible in itertools.chain.from_iterable(
                    self._notes[each.start] for each in noted
                ):
                    texts.append(visible)
                    marks.update([mark] if mark else [])
        return Content("".join("".join(texts).split()), marks)


def _ends_in_backtick(token: Token) -> bool:
    """Checks that a token ends in a backtick that isn't text."""
    is_escaped = token.kind == "text" and token.raw.endswith("\\`")
    return token.raw.endswith("`") and not is_escaped


def _ends_in_escape(raw: str) -> bool:
    return (len(raw) - len(raw.rstrip("\\"))) % 2 == 1


def _escape_line_start(found: re.Match[str]) -> str:
    return f"{found.group('before')}{found.group('number') or ''}\\"


def _use_asterisks(raw: str) -> str:
    """Returns an emphasis sign that may be inside a word."""
    return raw.replace("_", "*") if raw in ("_", "__") else raw


def _use_tags(tokens: Sequence[Token]) -> list[Token]:
    """Returns tokens with HTML for emphasis and line breaks, which works anywhere."""
    changed = []
    for token in tokens:
        raw = token.raw
        if token.kind in ("open", "close") and raw in _TAGS:
            raw = f"<{'/' if token.kind == 'close' else ''}{_TAGS[raw]}>"
        elif token.kind == "void" and _BREAK.match(raw):
            raw = "<br>"
        changed.append(token._replace(raw=raw))
    return changed
