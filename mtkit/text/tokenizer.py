"""Turns text of two languages into subword tokens and back."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.text.languages import NO_MARKS, LanguageTokens, ModelLanguages
from mtkit.text.normalization import punctuation_normalizer
from mtkit.text.sentencepiece_segmenter import (
    DAMAGED_TOKENIZER_HINT,
    Resegment,
    SentencePieceSegmenter,
)
from mtkit.text.token_ids import MASK_PIECE, UNK
from mtkit.text.tokenizer_files import (
    ForeignRows,
    StoredTokenizer,
    TokenizerSettings,
    read_tokenizer,
    store_languages,
    write_tokenizer,
)
from mtkit.text.vocabulary import Vocabulary
from mtkit.text.words import Span, map_back


class SourceTags:
    """Strings that may precede a source, each one token; `ids` has each tag's id."""

    def __init__(self, tags: Sequence[str], id_of: Callable[[str], int]) -> None:
        self.ids = {tag: id_of(tag) for tag in tags}
        self._leading = re.compile("|".join(rf"\s*{re.escape(tag)}\s*" for tag in tags) or "(?!)")

    def split(self, line: str) -> tuple[str, str]:
        """Returns the tags before a source, as written, and the rest."""
        rest = line
        while found := self._leading.match(rest):
            rest = rest[found.end() :]
        return line[: len(line) - len(rest)], rest

    def read(self, line: str) -> tuple[list[int], str]:
        """Returns the ids of the tags before a source, and the rest."""
        tags, rest = self.split(line)
        return [self.ids[found[0].strip()] for found in self._leading.finditer(tags)], rest


class LanguageMarks:
    """The tokens that mark languages for a model."""

    def __init__(
        self,
        languages: ModelLanguages | None,
        id_of_source: Callable[[str], int],
        id_of_target: Callable[[str], int],
    ) -> None:
        self._languages = languages
        found = languages or ModelLanguages()
        # A tag precedes a source, whatever language it names.
        id_of_written = id_of_target if found.begins_output else id_of_source
        self._source = {code: id_of_source(piece) for code, piece in found.source.items()}
        self._target = {code: id_of_written(piece) for code, piece in found.target.items()}

    def mark(self, source: str, target: str) -> LanguageTokens:
        """Returns the tokens of two languages; an empty `target` means no tag."""
        if self._languages is None:
            return NO_MARKS
        if not self._languages.begins_output:
            return LanguageTokens(before=(self._target[target],) if target else ())
        of_source, begin = (self._source[source],), (self._target[target],)
        if self._languages.source_place == "behind":
            return LanguageTokens(behind=of_source, begin=begin)
        return LanguageTokens(before=of_source, begin=begin)


class SubwordTokenizer:
    """Turns source and target text into tokens, and target tokens into text.

    Args:
        source_model: A serialised SentencePiece model.
        target_model: The target's; the same bytes for a joint vocabulary.
        tags: Strings that may precede a source, each one token of the models.
        punctuation: Languages of source and target whose punctuation Moses' rules normalise first;
            None for no normalisation.
        looks_up_unknown: As in `SentencePieceSegmenter`, for both sides.
        languages: Languages with pieces in the models.
        foreign_rows: The rows of an imported model's pieces, for export.
        masks: Symbols that replaced words in training examples.
        unknown: Ids of source and target pieces that are read as `<unk>`: the list of pieces that
            an imported model was trained with lacks them.

    Attributes:
        languages: The languages that it has pieces for, including tags such as `>>deu<<`.
        unknown: The given ones, or those of `foreign_rows`.
        tags, punctuation, looks_up_unknown, foreign_rows, masks: As given.
    """

    def __init__(
        self,
        source_model: bytes,
        target_model: bytes,
        *,
        tags: Sequence[str] = (),
        punctuation: tuple[str, str] | None = None,
        looks_up_unknown: bool = False,
        languages: ModelLanguages | None = None,
        foreign_rows: ForeignRows | None = None,
        masks: Sequence[str] = (),
        unknown: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> None:
        if foreign_rows is not None:
            unknown = foreign_rows.list_unknown("source"), foreign_rows.list_unknown("target")
        self.unknown = unknown
        self._source, self._target = (
            SentencePieceSegmenter(model, looks_up_unknown=looks_up_unknown, unknown=of_side)
            for model, of_side in zip((source_model, target_model), unknown, strict=True)
        )
        self.looks_up_unknown = looks_up_unknown
        self.foreign_rows = foreign_rows
        self.punctuation = punctuation
        self._normalizers = tuple(map(punctuation_normalizer, punctuation or ()))
        self._tags = SourceTags(tags, self._source.id_of_symbol)
        self.masks = tuple(masks)
        for mask in self.masks:
            self._source.id_of_symbol(mask)
            self._target.id_of_symbol(mask)
        self.languages = languages or ModelLanguages.of_tags(tags)
        self._marks = LanguageMarks(
            self.languages, self._source.id_of_symbol, self._target.id_of_symbol
        )

    @classmethod
    def load(cls, folder: Path) -> "SubwordTokenizer":
        """Returns the tokenizer saved in a folder."""
        stored = read_tokenizer(folder)
        settings = stored.settings
        try:
            tokenizer = cls(
                stored.source_model,
                stored.target_model,
                tags=settings.tags,
                punctuation=settings.punctuation,
                looks_up_unknown=settings.looks_up_unknown,
                languages=settings.model_languages,
                foreign_rows=settings.foreign_rows,
                masks=settings.masks,
                unknown=settings.unknown,
            )
            # SentencePiece accepts pieces of any bytes, but Python only UTF-8.
            _ = tokenizer.source_vocabulary, tokenizer.target_vocabulary
        except (RuntimeError, TypeError, UnicodeDecodeError) as error:
            files = ", ".join(sorted(path.name for path in folder.glob("*.spm")))
            raise MtkitError(
                f"{folder}: damaged tokenizer ({files}): {error}", DAMAGED_TOKENIZER_HINT
            ) from error
        return tokenizer

    def with_models(
        self,
        source_model: bytes,
        target_model: bytes,
        foreign_rows: ForeignRows | None = None,
        *,
        unknown: tuple[Sequence[int], Sequence[int]] = ((), ()),
        masks: Sequence[str] = (),
    ) -> "SubwordTokenizer":
        """Returns the same with other models, and more masks.

        The models must have its tags and language pieces, and all masks as pieces.
        """
        return SubwordTokenizer(
            source_model,
            target_model,
            tags=self.tags,
            punctuation=self.punctuation,
            looks_up_unknown=self.looks_up_unknown,
            # Languages of tags are derived again.
            languages=self.languages if self.has_language_pieces else None,
            foreign_rows=foreign_rows,
            masks=list(dict.fromkeys((*self.masks, *masks))),
            unknown=unknown,
        )

    def save(self, folder: Path) -> None:
        """Writes the tokenizer into a folder: one model if it is joint, else two."""
        source_unknown, target_unknown = ((), ()) if self.foreign_rows is not None else self.unknown
        settings = TokenizerSettings(
            tags=self.tags,
            punctuation=self.punctuation,
            masks=self.masks,
            looks_up_unknown=self.looks_up_unknown,
            languages=store_languages(self.languages),
            foreign_rows=self.foreign_rows,
            unknown=(tuple(source_unknown), tuple(target_unknown)),
        )
        write_tokenizer(folder, StoredTokenizer(*self.models, settings))

    @property
    def models(self) -> tuple[bytes, bytes]:
        """The source's and the target's serialised SentencePiece models."""
        return self._source.model, self._target.model

    @property
    def tags(self) -> tuple[str, ...]:
        """Strings that may precede a source, each one token."""
        return tuple(self._tags.ids)

    @property
    def has_language_pieces(self) -> bool:
        """Whether each source and each output has a piece for its language, as in M2M100."""
        return self.languages is not None and self.languages.begins_output

    def mark_languages(self, source: str, target: str) -> LanguageTokens:
        """Returns the tokens that mark two languages; an empty `target` means no tag."""
        return self._marks.mark(source, target)

    @property
    def source_vocabulary(self) -> Vocabulary:
        """The source's pieces and their ids."""
        return self._source.vocabulary

    @property
    def target_vocabulary(self) -> Vocabulary:
        """The target's pieces and their ids."""
        return self._target.vocabulary

    @property
    def is_joint(self) -> bool:
        """Whether both languages share one vocabulary, even if each has its own segmentation."""
        return (
            self._source.model == self._target.model
            or self.source_vocabulary == self.target_vocabulary
        )

    @property
    def source_vocab_size(self) -> int:
        """Number of source pieces, including special ones."""
        return self._source.num_pieces

    @property
    def target_vocab_size(self) -> int:
        """Number of target pieces, including special ones."""
        return self._target.num_pieces

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """Number of `source` and `target` pieces, including special ones."""
        return {"source": self._source.num_pieces, "target": self._target.num_pieces}

    @property
    def mask_token(self) -> int:
        """Id of `<mask>`, a masked token in a masked language model's text."""
        token = self.source_vocabulary.id_of(MASK_PIECE)
        if token == UNK:
            raise MtkitError(
                f"the tokenizer has no piece {MASK_PIECE}, which a masked language model needs",
                DAMAGED_TOKENIZER_HINT,
            )
        return token

    def _of(self, side: str) -> SentencePieceSegmenter:
        return {"source": self._source, "target": self._target}[side]

    def normalize_source(self, lines: Sequence[str]) -> Sequence[str]:
        """Returns source lines for `tokenize`, with normalised punctuation."""
        return self._normalizers[0](lines) if self._normalizers else lines

    def normalize_target(self, lines: Sequence[str]) -> Sequence[str]:
        """Returns target lines for `tokenize`, with normalised punctuation."""
        return self._normalizers[1](lines) if self._normalizers else lines

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns each line's source tokens, closed by `</s>`; each tag before it is one token."""
        if not self._tags.ids:
            return self.tokenize("source", self.normalize_source(lines))
        tags, rests = zip(*map(self._tags.read, lines), strict=True) if lines else ((), ())
        tokens = self.tokenize("source", self.normalize_source(rests))
        return [[*ids, *rest] for ids, rest in zip(tags, tokens, strict=True)]

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns each line's target tokens, closed by `</s>`."""
        return self.tokenize("target", self.normalize_target(lines))

    def tokenize(self, side: str, lines: Sequence[str], *, tag: str = "") -> list[list[int]]:
        """Returns the tokens of a side's normalised lines, after any tag, closed by `</s>`."""
        tokens = self._of(side).encode(lines)
        return [[self._tags.ids[tag], *sentence] for sentence in tokens] if tag else tokens

    def resegmenter(self, side: str, alpha: float) -> Resegment:
        """Returns a function that draws another segmentation of a sentence of a side."""
        return self._of(side).resegmenter(alpha)

    def decode_target(self, tokens: Sequence[int]) -> str:
        """Returns the text of target tokens, without special ones except unknown (` ⁇ `)."""
        return self._target.decode(tokens)

    def locate(self, side: str, line: str, tokens: Sequence[int] = ()) -> list[Span]:
        """Returns the spans of a line's tokens in it, without tags and `</s>`."""
        if not self._normalizers:
            return self._of(side).locate(line, tokens)
        normalized = (self.normalize_source if side == "source" else self.normalize_target)([line])
        spans = self._of(side).locate(normalized[0])
        return spans if normalized[0] == line else map_back(spans, normalized[0], line)

    def locate_normalized(self, side: str, line: str) -> list[Span]:
        """Returns the spans of an already normalised line's tokens in it."""
        return self._of(side).locate(line)

    def locate_decoded(self, tokens: Sequence[int], text: str) -> list[Span]:
        """Returns the spans of target tokens in the text that `decode_target` returned."""
        return self._target.locate_decoded(tokens, text)

    def unknown_pieces(self, side: str, line: str) -> list[str]:
        """Returns the parts of a side's normalised line that its vocabulary lacks."""
        return self._of(side).unknown_pieces(line)

    def split_tags(self, line: str) -> tuple[str, str]:
        """Returns the tags before a source, as written, and the rest."""
        return self._tags.split(line)
