"""Text to subword tokens and back (SentencePiece, arXiv 1808.06226)."""

import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from random import Random

import sentencepiece
from pydantic import BaseModel, ConfigDict, ValidationError

from mtkit.errors import MtkitError
from mtkit.files import read_json, write_atomically
from mtkit.foreign_files import describe_fault, read_file
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.punctuation import punctuation_normalizer
from mtkit.text.segmentations import Resegmenter
from mtkit.text.token_ids import BOS, EOS, PAD, SPECIAL_PIECES, UNK

Resegment = Callable[[list[int], Random], list[int]]
"""Draws another segmentation of a sentence, given its tokens with `</s>`; returns its tokens."""

MAX_PIECES = 2_000_000
"""Twice what a recipe may ask for: tags and symbols are added to a vocabulary that is there."""
_MAX_MODEL_BYTES = 32 << 20
_MAX_SETTINGS_BYTES = 1 << 20
_MAKE_AGAIN = "run `mtkit prepare` again, or copy the folder again from where it came from"
_SPECIAL = (PAD, UNK, BOS, EOS)
_JOINT_FILE = "joint.spm"
_SOURCE_FILE = "source.spm"
_TARGET_FILE = "target.spm"
SETTINGS_FILE = "tokenizer.json"
TOKENIZER_FILES = (_JOINT_FILE, _SOURCE_FILE, _TARGET_FILE, SETTINGS_FILE)
"""What `SubwordTokenizer.save` may leave in a folder."""


class _Settings(BaseModel):
    """What `SETTINGS_FILE` holds; a folder of older versions may have none."""

    model_config = ConfigDict(frozen=True)

    tags: tuple[str, ...] = ()
    punctuation: tuple[str, str] | None = None


class SubwordTokenizer:
    """Turns source and target text into tokens, and target tokens into text.

    Args:
        source_model: A serialised SentencePiece model.
        target_model: The target's; the same bytes where the vocabulary is joint.
        tags: Strings that may stand before a source, each one token; the models know them.
        punctuation: Languages of source and target whose punctuation Moses' rules normalise before
            all else; None where it stays as it is.

    Raises:
        MtkitError: A model lacks a tag; sacremoses is wanted and isn't installed.
    """

    def __init__(
        self,
        source_model: bytes,
        target_model: bytes,
        *,
        tags: Sequence[str] = (),
        punctuation: tuple[str, str] | None = None,
    ) -> None:
        self._source_model, self._target_model = source_model, target_model
        self._source = _Vocabulary(source_model)
        self._target = _Vocabulary(target_model)
        self._punctuation = punctuation
        self._normalizers = tuple(map(punctuation_normalizer, punctuation or ()))
        self._tags = {tag: self._source.id_of_symbol(tag) for tag in tags}
        self._leading_tag = re.compile(
            "|".join(rf"\s*{re.escape(tag)}\s*" for tag in tags) or "(?!)"
        )

    @classmethod
    def load(cls, folder: Path) -> "SubwordTokenizer":
        """Returns the tokenizer saved in a folder.

        Raises:
            MtkitError: It isn't there, or is damaged.
        """
        if (folder / _JOINT_FILE).exists():
            names = [_JOINT_FILE, _JOINT_FILE]
        else:
            names = [_SOURCE_FILE, _TARGET_FILE]
        try:
            source_model, target_model = [read_model(folder / name) for name in names]
        except FileNotFoundError as error:
            raise MtkitError(
                f"{error.filename}: no such tokenizer", "run `mtkit prepare`"
            ) from error
        settings = _read_settings(folder / SETTINGS_FILE)
        try:
            tokenizer = cls(
                source_model,
                target_model,
                tags=settings.tags,
                punctuation=settings.punctuation,
            )
            # SentencePiece takes pieces of any bytes, and Python no text but UTF-8.
            _ = tokenizer.source_pieces, tokenizer.target_pieces
        except (RuntimeError, TypeError, UnicodeDecodeError) as error:
            raise MtkitError(f"{folder}: damaged tokenizer: {error}", _MAKE_AGAIN) from error
        return tokenizer

    def save(self, folder: Path) -> None:
        """Leaves the tokenizer in a folder: one model where the vocabulary is joint, else two."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.is_joint:
            (folder / _JOINT_FILE).write_bytes(self._source_model)
        else:
            (folder / _SOURCE_FILE).write_bytes(self._source_model)
            (folder / _TARGET_FILE).write_bytes(self._target_model)
        settings = {"tags": list(self._tags), "punctuation": self._punctuation}
        write_atomically(folder / SETTINGS_FILE, json.dumps(settings, ensure_ascii=False) + "\n")

    @property
    def models(self) -> tuple[bytes, bytes]:
        """The source's and the target's serialised SentencePiece model."""
        return self._source_model, self._target_model

    @property
    def tags(self) -> tuple[str, ...]:
        """Strings that may stand before a source, each one token."""
        return tuple(self._tags)

    @property
    def punctuation(self) -> tuple[str, str] | None:
        """Languages whose punctuation is normalised; None where it stays as it is."""
        return self._punctuation

    @property
    def source_pieces(self) -> list[str]:
        """The source's pieces by token; special ones have mtkit's names."""
        return self._source.pieces()

    @property
    def target_pieces(self) -> list[str]:
        """The same of the target."""
        return self._target.pieces()

    @property
    def is_joint(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self._source_model == self._target_model

    @property
    def source_vocab_size(self) -> int:
        """Number of source pieces, special ones included."""
        return self._source.size

    @property
    def target_vocab_size(self) -> int:
        """Number of target pieces, special ones included."""
        return self._target.size

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """Number of pieces of `source` and `target`, special ones included."""
        return {"source": self._source.size, "target": self._target.size}

    def _of(self, side: str) -> "_Vocabulary":
        return {"source": self._source, "target": self._target}[side]

    def normalize_source(self, lines: Sequence[str]) -> Sequence[str]:
        """Returns source lines as `tokenize` expects them: punctuation normalised."""
        return self._normalizers[0](lines) if self._normalizers else lines

    def normalize_target(self, lines: Sequence[str]) -> Sequence[str]:
        """Returns target lines as `tokenize` expects them: punctuation normalised."""
        return self._normalizers[1](lines) if self._normalizers else lines

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns each line's source tokens, closed by `</s>`; tags before it are a token each."""
        if not self._tags:
            return self.tokenize("source", self.normalize_source(lines))
        tags, rests = zip(*map(self._split_tags, lines), strict=True) if lines else ((), ())
        tokens = self.tokenize("source", self.normalize_source(rests))
        return [[*ids, *rest] for ids, rest in zip(tags, tokens, strict=True)]

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns each line's target tokens, closed by `</s>`."""
        return self.tokenize("target", self.normalize_target(lines))

    def tokenize(self, side: str, lines: Sequence[str], *, tag: str = "") -> list[list[int]]:
        """Returns the tokens of normalised lines of a side, a tag before each, closed by `</s>`."""
        tokens = self._of(side).encode(lines)
        return [[self._tags[tag], *sentence] for sentence in tokens] if tag else tokens

    def resegmenter(self, side: str, alpha: float) -> Resegment:
        """Returns a function that draws another segmentation of a sentence, given its tokens.

        Args:
            side: `source` or `target`.
            alpha: As `Sampling` has it.

        Raises:
            MtkitError: The model is neither BPE nor unigram.
        """
        return self._of(side).resegmenter(alpha)

    def decode_target(self, tokens: Sequence[int]) -> str:
        """Returns the text of target tokens; special ones but unknown (` ⁇ `) are left out."""
        return self._target.decode(tokens)

    def unknown_pieces(self, side: str, line: str) -> list[str]:
        """Returns the stretches of a normalised line of a side that its vocabulary lacks."""
        return self._of(side).unknown_pieces(line)

    def split_tags(self, line: str) -> tuple[str, str]:
        """Returns the tags that stand before a source, as they stand there, and what follows."""
        rest = line
        while found := self._leading_tag.match(rest):
            rest = rest[found.end() :]
        return line[: len(line) - len(rest)], rest

    def _split_tags(self, line: str) -> tuple[list[int], str]:
        """Returns the ids of the tags before a line, and what follows them."""
        tags, rest = self.split_tags(line)
        return [self._tags[found[0].strip()] for found in self._leading_tag.finditer(tags)], rest


def _read_settings(path: Path) -> _Settings:
    """Returns what a tokenizer's settings file says, or its defaults where there is none.

    Raises:
        MtkitError: It is damaged.
    """
    if not path.is_file():
        return _Settings()
    content = read_json(path, max_bytes=_MAX_SETTINGS_BYTES)
    try:
        return _Settings.model_validate(content)
    except ValidationError as error:
        raise MtkitError(f"{path}: damaged: {describe_fault(error)}", _MAKE_AGAIN) from error


class _Vocabulary:
    """One SentencePiece model, whose special pieces have mtkit's ids whatever the model's are."""

    def __init__(self, model: bytes) -> None:
        self._proto = model
        self._model = sentencepiece.SentencePieceProcessor(model_proto=model)
        specials = [getattr(self._model, f"{name}_id")() for name in ("pad", "unk", "bos", "eos")]
        size = self._model.get_piece_size()
        if size > MAX_PIECES:
            raise MtkitError(f"a tokenizer of {size:,} pieces, expected {MAX_PIECES:,} at most")
        self._is_native = tuple(specials) == _SPECIAL
        # A model from elsewhere may lack padding or sentence ends (-1), or number them otherwise.
        ordinary = [piece for piece in range(size) if piece not in specials]
        self._to_model = [*specials, *ordinary]
        self._from_model = [UNK] * size
        for token, piece in enumerate(self._to_model):
            if piece >= 0:
                self._from_model[piece] = token
        self.size = len(self._to_model)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        tokens: list[list[int]] = self._model.encode(list(lines), add_eos=self._is_native)
        if self._is_native:
            return tokens
        return [[*(self._from_model[piece] for piece in line), EOS] for line in tokens]

    def resegmenter(self, alpha: float) -> Resegment:
        draw = Resegmenter(self._proto, alpha).draw

        def draw_ours(tokens: list[int], random: Random) -> list[int]:
            return [*draw(tokens[:-1], random), EOS]

        def draw_theirs(tokens: list[int], random: Random) -> list[int]:
            drawn = draw([self._to_model[token] for token in tokens[:-1]], random)
            return [*(self._from_model[piece] for piece in drawn), EOS]

        return draw_ours if self._is_native else draw_theirs

    def decode(self, tokens: Sequence[int]) -> str:
        pieces = [token for token in tokens if token not in (PAD, BOS, EOS)]
        if not self._is_native:
            pieces = [self._to_model[token] for token in pieces]
        try:
            text: str = self._model.decode(pieces)
        except UnicodeDecodeError as error:
            raise MtkitError(f"the tokenizer makes invalid UTF-8: {error}", _MAKE_AGAIN) from error
        return text

    def pieces(self) -> list[str]:
        ordinary = self._to_model[len(_SPECIAL) :]
        return [*SPECIAL_PIECES, *map(self._model.id_to_piece, ordinary)]

    def unknown_pieces(self, line: str) -> list[str]:
        unknown = self._model.unk_id()
        pieces = zip(self._model.encode(line), self._model.encode(line, out_type=str), strict=True)
        return [text for piece, text in pieces if piece == unknown]

    def id_of_symbol(self, symbol: str) -> int:
        piece = self._model.piece_to_id(symbol)
        if piece == self._model.unk_id():
            raise MtkitError(
                f"the tokenizer has no piece '{symbol}', which data.train puts before sources as a "
                "tag",
                "train it with that symbol (--user_defined_symbols), or leave out "
                "tokenizer.pretrained",
            )
        return self._from_model[piece]


def read_model(path: Path, *, inside: Path | None = None) -> bytes:
    """Returns a serialised SentencePiece model.

    Args:
        path: Its file.
        inside: Folder that it must lie in, links followed; where not given, that of its path.

    Raises:
        FileNotFoundError: It isn't there.
        MtkitError: It lies elsewhere than its path says, or is too large to be one.
    """
    return read_file(path, max_bytes=_MAX_MODEL_BYTES, inside=inside)


def read_pretrained(settings: Tokenizer) -> tuple[bytes, bytes]:
    """Returns the source's and the target's SentencePiece model that a recipe names.

    Raises:
        MtkitError: A file is missing, or holds no such model.
    """
    assert settings.pretrained is not None
    source = settings.pretrained.source
    paths = (source, settings.pretrained.target or source)
    models = []
    for path in paths:
        if not path.is_file():
            raise MtkitError(
                f"{path}: no such file (tokenizer.pretrained)",
                "its path starts from data.data_root",
            )
        # A recipe may name any file, also by a link.
        model = read_model(path, inside=path.resolve().parent)
        try:
            sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise MtkitError(
                f"{path}: no SentencePiece model (tokenizer.pretrained)",
                "name the .model file, not the .vocab",
            ) from error
        models.append(model)
    return models[0], models[1]


def train_tokenizer(
    settings: Tokenizer,
    source: Iterable[str],
    target: Iterable[str],
    *,
    seed: int,
    tags: Sequence[str] = (),
    punctuation: tuple[str, str] | None = None,
) -> SubwordTokenizer:
    """Returns a tokenizer trained on a sample that the caller has drawn.

    Args:
        settings: The recipe's section.
        source: Source sentences, normalised.
        target: Target sentences, normalised.
        seed: Seed of SentencePiece's own generator.
        tags: Strings that may stand before a source, each to be one token.
        punctuation: As `SubwordTokenizer` takes it.

    Raises:
        MtkitError: The sample can't yield a vocabulary of the wanted size.
    """
    sentencepiece.set_random_generator_seed(seed)
    symbols = list(dict.fromkeys((*tags, *settings.user_symbols)))
    if settings.joint:
        joint = _train(settings, chain(source, target), symbols, "tokenizer")
        return SubwordTokenizer(joint, joint, tags=tags, punctuation=punctuation)
    return SubwordTokenizer(
        _train(settings, source, symbols, "source tokenizer"),
        _train(settings, target, symbols, "target tokenizer"),
        tags=tags,
        punctuation=punctuation,
    )


def _train(settings: Tokenizer, sentences: Iterable[str], symbols: list[str], what: str) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type=settings.kind,
            vocab_size=settings.vocab_size,
            normalization_rule_name=settings.normalization,
            character_coverage=settings.character_coverage,
            split_by_unicode_script=settings.split_by_unicode_script,
            split_by_number=settings.split_by_number,
            byte_fallback=settings.byte_fallback,
            user_defined_symbols=symbols,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            # The sample is drawn before; SentencePiece takes all of it.
            input_sentence_size=0,
            max_sentence_length=1 << 16,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rsplit("] ", 1)[-1].strip() or str(error)
        too_small = "required_chars" in reason
        raise MtkitError(
            f"{what}: no vocabulary of {settings.vocab_size} pieces out of this text: {reason}",
            "give a greater tokenizer.vocab_size, or a lower tokenizer.character_coverage"
            if too_small
            else "give a smaller tokenizer.vocab_size, or more text",
        ) from error
    return model.getvalue()
