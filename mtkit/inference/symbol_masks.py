"""Replaces pieces of a line by symbols that a model copies, and restores the pieces later."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.request import RequiredPhrase
from mtkit.inference.translation import Hypothesis
from mtkit.text.protected import ProtectedPiece
from mtkit.text.token_ids import EOS, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span

_BEFORE = "(-a"
"""Contexts to tokenize a piece in if its own preceding character is merged with it."""
_Edit = tuple[Span, Span]
"""An old span, and the span of its replacement."""


def spell(tokenizer: SubwordTokenizer, text: str, span: Span) -> RequiredPhrase | None:
    """Returns a span of a text as target tokens; None if the vocabulary can't write it.

    After a space, or at the beginning, its tokens begin with the symbol for a space. After another
    character, as in `(URL)`, they don't.
    """
    start, end = span
    piece = text[start:end]
    if start > 0 and not text[start - 1].isspace():
        for before in (text[start - 1], *_BEFORE):
            first, both = _encode(tokenizer, [before, before + piece])
            tokens = both[len(first) :]
            if both[: len(first)] == first and _spells(tokenizer, both, before + piece):
                return RequiredPhrase(span, tokens) if tokens and UNK not in tokens else None
    (tokens,) = _encode(tokenizer, [piece])
    if not tokens or UNK in tokens or not _spells(tokenizer, tokens, piece):
        return None
    return RequiredPhrase(span, tokens)


def require_phrases(
    parts: Sequence[EncodedSource], phrases: Sequence[RequiredPhrase]
) -> list[EncodedSource]:
    """Returns the parts of a line, each with the phrases that lie in its text."""
    return [
        replace(
            part,
            required=(
                *part.required,
                *(
                    phrase.tokens
                    for phrase in phrases
                    if part.span[0] <= phrase.span[0] and phrase.span[1] <= part.span[1]
                ),
            ),
        )
        for part in parts
    ]


def _encode(tokenizer: SubwordTokenizer, texts: Sequence[str]) -> list[tuple[int, ...]]:
    return [
        tuple(token for token in tokens if token != EOS)
        for tokens in tokenizer.encode_target(texts)
    ]


def _spells(tokenizer: SubwordTokenizer, tokens: Sequence[int], text: str) -> bool:
    """Checks that tokens decode to exactly this text: normalization may have changed it."""
    return tokenizer.decode_target(tokens) == text


@dataclass(frozen=True)
class MaskedText:
    """A text with symbols instead of some pieces, and the piece that each symbol replaces."""

    text: str
    masked: dict[str, str]
    _edits: tuple[_Edit, ...]

    def restore(self, hypothesis: Hypothesis) -> Hypothesis | None:
        """Returns a translation with the pieces restored; None unless each symbol occurs once.

        Links refer to the original text and the restored translation; tokens stay the symbols'.
        """
        if any(hypothesis.text.count(symbol) != 1 for symbol in self.masked):
            return None
        text, edits = _replace_symbols(hypothesis.text, self.masked)
        alignment = hypothesis.alignment
        if alignment is not None:
            of_source = [(new, old) for old, new in self._edits]
            alignment = replace(
                alignment,
                source_words=tuple(_move(span, of_source) for span in alignment.source_words),
                target_words=tuple(_move(span, edits) for span in alignment.target_words),
            )
        return replace(hypothesis, text=text, alignment=alignment)


def mask(text: str, pieces: Sequence[ProtectedPiece], symbols: Sequence[str]) -> MaskedText:
    """Returns a text with each piece, in order, replaced by a symbol that isn't in the text."""
    chosen = list(zip(pieces, symbols, strict=False))
    edited, edits = _edit(text, ((piece.span, symbol) for piece, symbol in chosen))
    return MaskedText(edited, {symbol: piece.text for piece, symbol in chosen}, edits)


def _replace_symbols(text: str, masked: dict[str, str]) -> tuple[str, tuple[_Edit, ...]]:
    """Returns a text with its symbols replaced, and the edits."""
    pattern = "|".join(map(re.escape, masked)) or "(?!)"
    found = re.finditer(pattern, text)
    return _edit(text, ((each.span(), masked[each.group()]) for each in found))


def _edit(text: str, changes: Iterable[tuple[Span, str]]) -> tuple[str, tuple[_Edit, ...]]:
    """Returns a text with spans, in order, replaced; and each span with its replacement's."""
    edits: list[_Edit] = []
    parts: list[str] = []
    position = length = 0
    for (start, end), other in changes:
        parts += [text[position:start], other]
        length += start - position
        edits.append(((start, end), (length, length + len(other))))
        length += len(other)
        position = end
    return "".join([*parts, text[position:]]), tuple(edits)


def _move(span: Span, edits: Sequence[_Edit]) -> Span:
    """Returns a span after edits; one that begins in an edit begins with its replacement."""
    start, end = span
    shift_start = shift_end = 0
    for (old_start, old_end), (new_start, new_end) in edits:
        if old_end <= start:
            shift_start = new_end - old_end
        elif old_start < start:
            start, shift_start = new_start, 0
        if old_end <= end:
            shift_end = new_end - old_end
        elif old_start < end:
            end, shift_end = new_end, 0
    return start + shift_start, end + shift_end
