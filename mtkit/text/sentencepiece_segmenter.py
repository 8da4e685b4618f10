"""Segments text into SentencePiece's pieces and back (arXiv 1808.06226), by mtkit's ids."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import sentencepiece

from mtkit.errors import MtkitError
from mtkit.files import read_file
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.token_ids import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from mtkit.text.vocabulary import MAX_PIECES, Vocabulary
from mtkit.text.words import Span, replace_surrogates

Resegment = Callable[[list[int], Random], list[int]]
"""Draws another segmentation of a sentence from its tokens; both include `</s>`."""

DAMAGED_TOKENIZER_HINT = "run `mtkit prepare` again, or copy the folder from its source again"
"""Hint for a damaged tokenizer."""
_MAX_MODEL_BYTES = 32 << 20
_SPACE = "\u2581"
"""A space in pieces; SentencePiece puts one more before a line."""


class SentencePieceSegmenter:
    """One SentencePiece model whose special pieces have mtkit's ids.

    Args:
        model: The model, serialised.
        looks_up_unknown: Whether text that the model doesn't know gets the id of a vocabulary piece
            with the same spelling, as in Marian, whose two models share one vocabulary.
        unknown: Ids of pieces that are read as `<unk>`.
    """

    def __init__(
        self, model: bytes, *, looks_up_unknown: bool = False, unknown: Collection[int] = ()
    ) -> None:
        self.model = model
        self._looks_up_unknown = looks_up_unknown
        self._unknown = frozenset(unknown)
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        specials = [
            getattr(self._processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos")
        ]
        size = self._processor.get_piece_size()
        if size > MAX_PIECES:
            raise MtkitError(f"the tokenizer has {size:,} pieces, expected {MAX_PIECES:,} at most")
        self._is_native = specials == [PAD, UNK, BOS, EOS]
        # A model from elsewhere may lack padding or sentence ends (-1), or number them differently.
        ordinary = [piece for piece in range(size) if piece not in specials]
        self._to_model = [*specials, *ordinary]
        self._from_model = [UNK] * size
        for token, piece in enumerate(self._to_model):
            if piece >= 0:
                self._from_model[piece] = token
        self.num_pieces = len(self._to_model)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns each line's tokens, closed by `</s>`."""
        tokens = self._encode(lines)
        return [*map(self._hide_unknown, tokens)] if self._unknown else tokens

    def _hide_unknown(self, tokens: list[int]) -> list[int]:
        return [UNK if token in self._unknown else token for token in tokens]

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        tokens: list[list[int]] = self._call(list(lines), add_eos=self._is_native)
        if self._is_native:
            if self._looks_up_unknown:
                for index, found in enumerate(tokens):
                    if UNK in found:
                        tokens[index] = self._look_up(lines[index], found)
            return tokens
        return [[*(self._from_model[piece] for piece in line), EOS] for line in tokens]

    def _call(self, text: str | list[str], **options: Any) -> Any:
        """Returns SentencePiece's result for text in which lone surrogates become U+FFFD."""
        try:
            return self._processor.encode(text, **options)
        except (TypeError, UnicodeEncodeError):
            # The library accepts only valid UTF-8.
            if isinstance(text, str):
                readable: str | list[str] = replace_surrogates(text)
            else:
                readable = list(map(replace_surrogates, text))
            return self._processor.encode(readable, **options)

    def _look_up(self, line: str, tokens: list[int]) -> list[int]:
        """Returns a line's tokens with the ids of unknown text that is a piece."""
        spelled = self._call(line, out_type=str)
        ids = self.vocabulary.ids
        found = [
            ids.get(piece, UNK) if token == UNK else token
            for token, piece in zip(tokens[:-1], spelled, strict=True)
        ]
        return [*(UNK if token < len(SPECIAL_PIECES) else token for token in found), EOS]

    def resegmenter(self, alpha: float) -> Resegment:
        """Returns a function that draws another segmentation; word models have none."""
        # Imported here: only training draws, and protobuf loads slowly.
        from mtkit.text.segmentations import Resegmenter, is_word_model  # noqa: PLC0415

        if is_word_model(self.model):
            return lambda tokens, random: tokens
        draw = Resegmenter(self.model, alpha).draw

        def draw_ours(tokens: list[int], random: Random) -> list[int]:
            return self._hide_unknown([*draw(tokens[:-1], random), EOS])

        def draw_theirs(tokens: list[int], random: Random) -> list[int]:
            drawn = draw([self._to_model[token] for token in tokens[:-1]], random)
            return [*(self._from_model[piece] for piece in drawn), EOS]

        return draw_ours if self._is_native else draw_theirs

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, without special ones except unknown (` ⁇ `)."""
        pieces = [token for token in tokens if token not in (PAD, BOS, EOS)]
        if not self._is_native:
            pieces = [self._to_model[token] for token in pieces]
        try:
            text: str = self._processor.decode(pieces)
        except UnicodeDecodeError as error:
            raise MtkitError(
                f"the tokenizer produces invalid UTF-8: {error}", DAMAGED_TOKENIZER_HINT
            ) from error
        return text

    def locate(self, line: str, tokens: Sequence[int] = ()) -> list[Span]:
        """Returns the spans of a line's tokens in it, without `</s>`; known `tokens` save time."""
        spans = self._match_spelling(tokens, line) if tokens else None
        if spans is not None:
            return spans
        found = self._call(line, return_type="proto")
        return _find_in_order([piece.surface for piece in found.pieces], line)

    def locate_decoded(self, tokens: Sequence[int], text: str) -> list[Span]:
        """Returns the spans of tokens in `decode`'s text; special ones are empty."""
        num_ended = int(len(tokens) > 0 and tokens[-1] == EOS)
        spans = self._match_spelling(tokens[: len(tokens) - num_ended], text)
        if spans is not None and len(spans) + num_ended == len(tokens):
            return spans + [(len(text), len(text))] * num_ended
        kept = [token for token in tokens if token not in (PAD, BOS, EOS)]
        pieces = kept if self._is_native else [self._to_model[token] for token in kept]
        found = self._processor.decode(pieces, return_type="proto")
        surfaces = [piece.surface for piece in found.pieces]
        located_pieces = iter(_find_in_order(surfaces, found.text))
        located: list[Span] = []
        for token in tokens:
            end = located[-1][1] if located else 0
            located.append((end, end) if token in (PAD, BOS, EOS) else next(located_pieces))
        return located

    def _match_spelling(self, tokens: Sequence[int], text: str) -> list[Span] | None:
        """Returns the spans of the last tokens in a text that is spelled exactly like them."""
        # None otherwise: the text was normalised, a token is unknown or special, or the model puts
        # no space before a line.
        names = self.vocabulary.pieces
        pieces = [names[token] for token in tokens]
        spelled = _SPACE + text.replace(" ", _SPACE)
        if not "".join(pieces).endswith(spelled):
            return None
        # Characters from each piece to the end.
        sizes = list(accumulate(map(len, reversed(pieces))))
        try:
            num_pieces = sizes.index(len(spelled)) + 1
        except ValueError:
            return None
        starts = [len(text) - size for size in reversed(sizes[:num_pieces])]
        # The first begins with the space that isn't in the text.
        starts[0] = 0
        return list(zip(starts, [*starts[1:], len(text)], strict=True))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The pieces by mtkit's ids; special ones have mtkit's names."""
        ordinary = self._to_model[len(SPECIAL_PIECES) :]
        return Vocabulary.of(map(self._processor.id_to_piece, ordinary))

    def unknown_pieces(self, line: str) -> list[str]:
        """Returns the parts of a line that the vocabulary lacks."""
        unknown = self._processor.unk_id()
        pieces = zip(self._call(line), self._call(line, out_type=str), strict=True)
        return [text for piece, text in pieces if piece == unknown]

    def id_of_symbol(self, symbol: str) -> int:
        """Returns the id of a symbol, which must be one piece."""
        piece = self._processor.piece_to_id(symbol)
        if piece == self._processor.unk_id():
            raise MtkitError(
                f"the tokenizer has no piece '{symbol}', which is a tag in data.train",
                "train it with that symbol (--user_defined_symbols), or remove "
                "tokenizer.pretrained",
            )
        return self._from_model[piece]


def _find_in_order(surfaces: Sequence[str], text: str) -> list[Span]:
    """Returns the spans of strings in a text, each after the one before."""
    # Between them is space that SentencePiece drops. A missing string gets the position after the
    # others.
    spans: list[Span] = []
    position = 0
    for surface in surfaces:
        start = max(position, text.find(surface, position))
        position = min(start + len(surface), len(text))
        spans.append((start, position))
    return spans


def read_model(path: Path, *, inside: Path | None = None) -> bytes:
    """Returns a serialised SentencePiece model, read with the checks of `read_file`."""
    content = read_file(path, max_bytes=_MAX_MODEL_BYTES, inside=inside)
    if not content:
        raise MtkitError(f"{path}: damaged tokenizer: an empty file", DAMAGED_TOKENIZER_HINT)
    return content


def read_pretrained(settings: Tokenizer) -> tuple[bytes, bytes]:
    """Returns the source's and the target's SentencePiece models named by a recipe."""
    assert settings.pretrained is not None
    source = settings.pretrained.source
    paths = (source, settings.pretrained.target or source)
    models = []
    for path in paths:
        if not path.is_file():
            raise MtkitError(
                f"{path}: no such file (tokenizer.pretrained)",
                "the path is relative to data.data_root",
            )
        # A recipe may name any file, even a symlink.
        model = read_model(path, inside=path.resolve().parent)
        try:
            sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise MtkitError(
                f"{path}: not a SentencePiece model (tokenizer.pretrained)",
                "use the .model file, not the .vocab",
            ) from error
        models.append(model)
    return models[0], models[1]
