"""Text of a line that its output must contain: spelled in target tokens, divided among parts."""

from collections.abc import Sequence
from dataclasses import replace

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.request import RequiredPhrase
from mtkit.text.token_ids import EOS, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span

_BEFORE = "(-a"
"""Characters behind which text is cut into tokens if what stands before it is merged with it."""


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
