"""Text to subword tokens and back (SentencePiece, arXiv 1808.06226)."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from mtkit.errors import MtkitError
from mtkit.recipe.tokenizer import Tokenizer

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of the special tokens, in every vocabulary that mtkit makes."""

_JOINT_FILE = "joint.spm"
_SOURCE_FILE = "source.spm"
_TARGET_FILE = "target.spm"


class SubwordTokenizer:
    """Turns source and target text into tokens, and target tokens into text.

    Args:
        source_model: A serialised SentencePiece model.
        target_model: The target's; the same bytes where the vocabulary is joint.
    """

    def __init__(self, source_model: bytes, target_model: bytes) -> None:
        self._source_model, self._target_model = source_model, target_model
        self._source = sentencepiece.SentencePieceProcessor(model_proto=source_model)
        self._target = sentencepiece.SentencePieceProcessor(model_proto=target_model)

    @classmethod
    def load(cls, folder: Path) -> "SubwordTokenizer":
        """Returns the tokenizer saved in a folder.

        Raises:
            MtkitError: It isn't there, or is damaged.
        """
        if (folder / _JOINT_FILE).is_file():
            names = [_JOINT_FILE, _JOINT_FILE]
        else:
            names = [_SOURCE_FILE, _TARGET_FILE]
        try:
            source_model, target_model = [(folder / name).read_bytes() for name in names]
        except FileNotFoundError as error:
            raise MtkitError(
                f"{error.filename}: no such tokenizer", "run `mtkit prepare`"
            ) from error
        try:
            return cls(source_model, target_model)
        except RuntimeError as error:
            raise MtkitError(
                f"{folder}: damaged tokenizer: {error}", "run `mtkit prepare` again"
            ) from error

    def save(self, folder: Path) -> None:
        """Leaves the tokenizer in a folder: one file where the vocabulary is joint, else two."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.is_joint:
            (folder / _JOINT_FILE).write_bytes(self._source_model)
        else:
            (folder / _SOURCE_FILE).write_bytes(self._source_model)
            (folder / _TARGET_FILE).write_bytes(self._target_model)

    @property
    def is_joint(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self._source_model == self._target_model

    @property
    def source_vocab_size(self) -> int:
        """Number of source pieces, special ones included."""
        return int(self._source.get_piece_size())

    @property
    def target_vocab_size(self) -> int:
        """Number of target pieces, special ones included."""
        return int(self._target.get_piece_size())

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns each line's source tokens, closed by `</s>`."""
        return [[*tokens, EOS] for tokens in self._source.encode(list(lines))]

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns each line's target tokens, closed by `</s>`."""
        return [[*tokens, EOS] for tokens in self._target.encode(list(lines))]

    def decode_target(self, tokens: Sequence[int]) -> str:
        """Returns the text of target tokens; special ones but unknown (` ⁇ `) are left out."""
        text: str = self._target.decode([token for token in tokens if token not in (PAD, BOS, EOS)])
        return text


def train_tokenizer(
    settings: Tokenizer, source: Iterable[str], target: Iterable[str], *, seed: int
) -> SubwordTokenizer:
    """Returns a tokenizer trained on a sample that the caller has drawn.

    Args:
        settings: The recipe's section.
        source: Source sentences.
        target: Target sentences.
        seed: Seed of SentencePiece's own generator.

    Raises:
        MtkitError: The sample can't yield a vocabulary of the wanted size.
    """
    sentencepiece.set_random_generator_seed(seed)
    if settings.joint:
        joint = _train(settings, [*source, *target], "tokenizer")
        return SubwordTokenizer(joint, joint)
    return SubwordTokenizer(
        _train(settings, source, "source tokenizer"), _train(settings, target, "target tokenizer")
    )


def _train(settings: Tokenizer, sentences: Iterable[str], what: str) -> bytes:
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
