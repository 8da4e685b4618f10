"""Pieces of a line replaced by symbols that a model copies, and put back in its translation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.request import RequiredPhrase
from mtkit.inference.translation import Hypothesis
from mtkit.text.protected import ProtectedPiece
from mtkit.text.token_ids import EOS, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span

_BEFORE = "(-a"
"""Characters behind which text is cut into tokens if what stands before it is merged with it."""
_Edit = tuple[Span, Span]
"""Where a stretch stood, and where stands what replaced it."""


def spell(tokenizer: SubwordTokenizer, text: str, span: Span) -> RequiredPhrase | None:
    """Returns a stretch of a text in target tokens; None where the vocabulary can't write it.

    Behind a space, or at the beginning, its tokens begin with the symbol for a space. Where another
    character stands before it, as in `(URL)`, they don't.

    Args:
        tokenizer: The model's.
        text: The text.
        span: Where it stands.
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
    """Returns the parts of a line, each with the phrases whose text stands in it."""
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
    """Returns whether tokens are a text's, to the letter: normalisation may have changed it."""
    return tokenizer.decode_target(tokens) == text


@dataclass(frozen=True)
class MaskedText:
    """A text with symbols in place of some pieces.

    Attributes:
        text: The text with symbols.
        masked: The piece that each symbol stands for.
    """

    text: str
    masked: dict[str, str]
    _edits: tuple[_Edit, ...]

    def restore(self, hypothesis: Hypothesis) -> Hypothesis | None:
        """Returns a translation with the pieces in place of the symbols.

        Links are of the text before and of the text restored; tokens stay the symbols'. None where
        a symbol doesn't come exactly once.
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
    """Returns a text with a symbol in place of each piece.

    Args:
        text: The text.
        pieces: Some of its pieces, in order.
        symbols: As many, or more; none of them in the text.
    """
    masked: dict[str, str] = {}
    edits: list[_Edit] = []
    parts: list[str] = []
    position = length = 0
    for piece, symbol in zip(pieces, symbols, strict=False):
        start, end = piece.span
        parts += [text[position:start], symbol]
        length += start - position
        edits.append(((start, end), (length, length + len(symbol))))
        length += len(symbol)
        masked[symbol] = piece.text
        position = end
    return MaskedText("".join([*parts, text[position:]]), masked, tuple(edits))


def _replace_symbols(text: str, masked: dict[str, str]) -> tuple[str, list[_Edit]]:
    """Returns a text with pieces in place of symbols, and where."""
    edits: list[_Edit] = []
    parts: list[str] = []
    position = length = 0
    pattern = "|".join(map(re.escape, masked)) or "(?!)"
    for found in re.finditer(pattern, text):
        piece = masked[found.group()]
        parts += [text[position : found.start()], piece]
        length += found.start() - position
        edits.append((found.span(), (length, length + len(piece))))
        length += len(piece)
        position = found.end()
    return "".join([*parts, text[position:]]), edits


def _move(span: Span, edits: Sequence[_Edit]) -> Span:
    """Returns where a stretch stands after edits; one that begins in an edit begins with it."""
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
