"""Paragraphs of Word, PowerPoint (Office Open XML, ECMA-376) and OpenDocument texts.

In Word and PowerPoint all text stands in runs, each with its formatting. Runs with a paragraph's
most common formatting are its plain text; the others are inline elements, placed like those of
HTML. Where the translation enters or leaves such an element, runs are closed and opened. Tabs and
line breaks end a unit.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mtkit.documents.document import Document, Languages, Node, Token, Unit
from mtkit.documents.units import RUN, Part, make_units
from mtkit.documents.xml_tokens import XML_TEXT, XmlToken, read_xml_spelled, read_xml_tokens

_NAMESPACE = re.compile(
    r"http://(?:schemas\.openxmlformats\.org|purl\.oclc\.org/ooxml)/"
    r"(?:wordprocessingml|drawingml)(?:/2006)?/main|"
    r"urn:oasis:names:tc:opendocument:xmlns:text:1\.0"
)
_UNSEEN = re.compile(
    r'<(?:\w+:)?(?:lang|noProof|rtl|cs|szCs|bCs|iCs)\b[^>]*/>|\s(?:dirty|err|lang|altLang)="[^"]*"'
)
"""What makes two formattings differ that a reader can't tell apart."""
_HOLDERS = frozenset(["hyperlink", "ins", "smartTag", "fldSimple", "span", "a"])
"""Elements that hold runs, or text."""
_EDGES = frozenset(["tab", "br", "cr", "ptab", "pPr", "endParaRPr", "fldChar", "instrText", "rPr"])
_EDGES |= {"line-break", "tracked-changes"}


@dataclass(frozen=True)
class _Piece:
    """A text in a run.

    Attributes:
        tag: Where the tag in front of the text begins.
        start: Where the text begins.
        end: Where it ends.
        opening: What opens a run like its own, up to the text's tag.
        closing: What closes the run behind the text.
        look: Its formatting, less what can't be seen.
    """

    tag: int
    start: int
    end: int
    opening: str
    closing: str
    look: str


def read_office(text: str, _: Languages) -> Document:
    """Returns a part of a document or presentation, with its units.

    Raises:
        MtkitError: As `read_xml_tokens`.
    """
    tokens = read_xml_tokens(text, namespaces=True)
    document = Document(text)
    pieces = _find_pieces(text, tokens)
    for first, token in enumerate(tokens):
        if token.kind != "open" or _name(token) not in ("p", "h"):
            continue
        parts = _list_parts(text, tokens, first, pieces)
        own = [pieces[part.start] for part in parts if part.start in pieces]
        plain = _find_plain_look(own)
        units = make_units(_add_runs(parts, pieces, plain), XML_TEXT)
        document.units += [_wrap(text, unit, pieces) if own else unit for unit in units]
    return document


def _name(token: XmlToken) -> str:
    """Returns the local name of an element of a paragraph; nothing for one of another language."""
    namespace, _, name = token.name.rpartition(" ")
    return name if _NAMESPACE.fullmatch(namespace) else ""


def _find_pieces(text: str, tokens: Sequence[XmlToken]) -> dict[int, _Piece]:
    """Returns all texts that stand in runs, by where they begin."""
    pieces: dict[int, _Piece] = {}
    runs: list[tuple[XmlToken, str]] = []
    for token in tokens:
        name = _name(token)
        if token.kind == "open" and name == "r":
            runs.append((token, ""))
        elif token.kind == "close" and name == "r":
            runs.pop()
        elif name == "rPr" and token.kind in ("open", "empty") and runs:
            end = tokens[token.partner].end if token.kind == "open" else token.end
            runs[-1] = (runs[-1][0], text[token.start : end])
        elif name == "t" and token.kind == "open" and runs:
            (run, look), close = runs[-1], tokens[token.partner]
            run_end = tokens[run.partner]
            pieces[token.end] = _Piece(
                token.start,
                token.end,
                close.start,
                text[run.start : run.end] + look,
                text[close.start : close.end] + text[run_end.start : run_end.end],
                _UNSEEN.sub("", look),
            )
    return pieces


def _list_parts(
    text: str, tokens: Sequence[XmlToken], paragraph: int, pieces: Mapping[int, _Piece]
) -> list[Part]:
    """Returns a paragraph's texts, tags and edges, without the tags of its runs."""
    has_runs = _name(tokens[paragraph]) == "p" and "wordprocessingml" in tokens[paragraph].name
    has_runs |= "drawingml" in tokens[paragraph].name
    parts: list[Part] = []
    index = paragraph + 1
    while index < tokens[paragraph].partner:
        token = tokens[index]
        name = _name(token)
        if token.kind == "text":
            if not has_runs or token.start in pieces:
                spelled = read_xml_spelled(text[token.start : token.end])
                parts.append(Part("text", token.start, token.end, spelled=spelled))
        elif token.kind == "close" and name not in _HOLDERS:
            pass
        elif name in _HOLDERS and token.kind in ("open", "close"):
            parts.append(Part(token.kind, token.start, token.end, token.name))
        elif has_runs and token.kind == "open" and name in ("r", "t"):
            inside = tokens[index + 1 : token.partner]
            if name == "r" and not any(each.start in pieces for each in inside):
                is_edge = any(_name(each) in _EDGES - {"rPr"} for each in inside)
                end = tokens[token.partner].end
                parts.append(Part("edge" if is_edge else "void", token.start, end))
                index = token.partner
        else:
            last = tokens[token.partner] if token.kind == "open" else token
            if name != "rPr":
                parts.append(Part("edge" if name in _EDGES else "void", token.start, last.end))
            if token.kind == "open":
                index = token.partner
        index += 1
    return parts


def _find_plain_look(pieces: Sequence[_Piece]) -> str:
    """Returns the formatting that most characters have."""
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts[piece.look] += piece.end - piece.start
    return counts.most_common(1)[0][0] if counts else ""


def _add_runs(parts: Sequence[Part], pieces: Mapping[int, _Piece], plain: str) -> list[Part]:
    """Returns parts with the tags of runs that aren't plain, and joints of those that are alike."""
    added: list[Part] = []
    current: _Piece | None = None

    def leave() -> None:
        if current is not None and current.look != plain:
            added.append(Part("close", current.end, current.end, RUN))

    for part in parts:
        piece = pieces.get(part.start) if part.kind == "text" else None
        if piece is not None and current is not None and current.look == piece.look:
            added.append(Part("joint", current.end, piece.start))
        else:
            leave()
            if piece is not None and piece.look != plain:
                added.append(Part("open", piece.start, piece.start, RUN))
        added.append(part)
        current = piece
    leave()
    return added


def _wrap(text: str, unit: Unit, pieces: Mapping[int, _Piece]) -> Unit:
    """Returns a unit whose translation has its runs closed and opened where it needs to."""
    within: list[tuple[_Piece, bool]] = []

    def visit(nodes: Sequence[Node], *, is_run: bool) -> None:
        for node in nodes:
            if node.start in pieces and node.kind == "text":
                within.append((pieces[node.start], is_run))
            visit(node.children, is_run=is_run or node.kind == "run")

    visit(unit.nodes, is_run=False)
    first, last = within[0][0], within[-1][0]

    def join(tokens: Sequence[Token]) -> str:
        return _Joiner(text, pieces, within).join(tokens)

    output = (first.tag, last.end)
    return dataclasses.replace(unit, start=first.tag, end=last.end, output=output, join=join)


class _Joiner:
    """Puts tokens together, in runs: begins in the unit's first run and ends in its last.

    Args:
        text: The document's.
        pieces: Texts in runs, by where they begin.
        within: Those of the unit, and whether each stands in an element of its own formatting.
    """

    def __init__(
        self, text: str, pieces: Mapping[int, _Piece], within: Sequence[tuple[_Piece, bool]]
    ) -> None:
        self._text, self._by_start = text, pieces
        self._current: _Piece | None = within[0][0]
        self._is_first = True
        self._last = within[-1][0]
        self._source = text[within[0][0].tag : self._last.end + 1]
        self._plain = [piece for piece, is_run in within if not is_run] or [within[0][0]]
        self._used = int(self._current is self._plain[0])
        self._pieces: list[str] = []
        self._texts: list[list[str]] = [[]]
        """Texts of the current run, and of those that joints part from it."""
        self._joints: list[str] = []
        self._is_word = "wordprocessingml" in text[:4_000]

    def join(self, tokens: Sequence[Token]) -> str:
        """Returns what takes the unit's place."""
        runs: list[_Piece] = []
        for token in tokens:
            node = token.node
            if node is not None and node.kind == "run":
                if token.kind == "open":
                    runs.append(self._by_start[node.start])
                elif token.kind == "close":
                    runs.pop()
                else:
                    # It has nothing but space.
                    self._add_text(token.raw, [*runs, self._by_start[node.start]])
            elif node is not None and node.kind == "joint":
                self._add_joint(token.raw, runs)
            elif token.kind == "text":
                self._add_text(token.raw, runs)
            else:
                self._close()
                self._pieces.append(token.raw)
        return self._finish()

    def _add_text(self, raw: str, runs: Sequence[_Piece]) -> None:
        """Adds text to the run that has its formatting."""
        if not raw:
            return
        look = runs[-1].look if runs else self._plain[0].look
        if self._current is None or self._current.look != look:
            self._close()
            self._open(runs[-1] if runs else self._next_plain())
        self._texts[-1].append(raw)

    def _add_joint(self, raw: str, runs: Sequence[_Piece]) -> None:
        """Adds what stood between two runs of the same formatting, where it still does."""
        look = runs[-1].look if runs else self._plain[0].look
        if self._current is not None and self._current.look == look:
            self._joints.append(raw)
            self._texts.append([])
        if not runs:
            self._used += 1

    def _finish(self) -> str:
        """Returns it all, the last run open."""
        if self._current is None or self._current.look != self._last.look:
            self._close()
            self._open(self._last)
        self._flush()
        return "".join(self._pieces)

    def _next_plain(self) -> _Piece:
        self._used += 1
        return self._plain[min(self._used, len(self._plain)) - 1]

    def _open(self, piece: _Piece) -> None:
        self._current, self._is_first = piece, False

    def _close(self) -> None:
        if self._current is not None:
            closing = self._current.closing
            self._flush()
            self._pieces.append(closing)
            self._current = None

    def _flush(self) -> None:
        """Writes the current run."""
        assert self._current is not None
        first = self._text[self._current.tag : self._current.start]
        self._pieces += [] if self._is_first else [self._current.opening]
        for before, texts in zip([first, *self._joints], self._texts, strict=True):
            self._pieces.append(self._write("".join(texts), before))
        self._texts, self._joints = [[]], []

    def _write(self, text: str, before: str) -> str:
        """Returns a text behind what ends in its opening tag, which says to keep space at ends."""
        tag = before[before.rindex("<") :]
        loses_space = self._is_word and text != text.strip() and "xml:space" not in tag
        if loses_space and ":t" in tag and f"{tag}{text}<" not in self._source:
            before = before[:-1] + ' xml:space="preserve">'
        return before + text
