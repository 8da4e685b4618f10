"""Trains SentencePiece models on text (BPE or unigram)."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import sentencepiece

from mtkit.errors import MtkitError
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.token_ids import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from mtkit.text.tokenizer import SubwordTokenizer


def train_tokenizer(
    settings: Tokenizer,
    source: Iterable[str],
    target: Iterable[str],
    *,
    seed: int,
    tags: Sequence[str] = (),
    symbols: Sequence[str] = (),
    punctuation: tuple[str, str] | None = None,
    is_trees: bool = False,
    source_model: bytes | None = None,
) -> SubwordTokenizer:
    """Returns a tokenizer trained on a sample that the caller has drawn.

    Args:
        settings: The recipe's section.
        source: Source sentences, normalised; for text in one language all sentences.
        target: Target sentences, normalised.
        seed: Seed of SentencePiece's own generator.
        tags: Strings that may precede a source, each one token.
        symbols: More strings that are one piece, besides those of the settings.
        punctuation: As in `SubwordTokenizer`.
        is_trees: Whether targets are symbols of trees, each of which is a piece.
        source_model: The source's SentencePiece model, if it exists already.
    """
    sentencepiece.set_random_generator_seed(seed)
    symbols = list(dict.fromkeys((*tags, *settings.user_symbols, *symbols)))
    if settings.joint:
        joint = train_model(settings, chain(source, target), symbols, "tokenizer")
        return SubwordTokenizer(joint, joint, tags=tags, punctuation=punctuation)
    if source_model is None:
        source_model = train_model(settings, source, symbols, "source tokenizer")
    return SubwordTokenizer(
        source_model,
        _train_word_model(target)
        if is_trees
        else train_model(settings, target, symbols, "target tokenizer"),
        tags=tags,
        punctuation=punctuation,
    )


def _train_word_model(sentences: Iterable[str]) -> bytes:
    """Returns a model with a piece for each word of sentences, the most frequent first."""
    sentences = list(sentences)
    words = {word for sentence in sentences for word in sentence.split()}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="word",
        vocab_size=len(words) + len(SPECIAL_PIECES),
        normalization_rule_name="identity",
        character_coverage=1.0,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        input_sentence_size=0,
        max_sentence_length=1 << 20,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def train_model(
    settings: Tokenizer, sentences: Iterable[str], symbols: list[str], what: str
) -> bytes:
    """Returns a serialised SentencePiece model trained on normalised sentences."""
    model = io.BytesIO()
    faults: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_keep_faults(sentences, faults),
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
            # The sample is already drawn; SentencePiece uses all of it.
            input_sentence_size=0,
            max_sentence_length=1 << 16,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        if faults:
            raise faults[0] from None
        raise _explain(error, settings.vocab_size, what) from error
    return model.getvalue()


def _keep_faults(sentences: Iterable[str], faults: list[BaseException]) -> Iterator[str]:
    """Yields the sentences; keeps what ends them early, which SentencePiece would rename.

    That is Ctrl-C, or a fault of the disk that holds them.
    """
    try:
        yield from sentences
    except (Exception, KeyboardInterrupt) as fault:
        faults.append(fault)
        raise


def _explain(error: RuntimeError, vocab_size: int, what: str) -> MtkitError:
    """Returns why SentencePiece trained no model, in terms of the recipe."""
    reason, key = str(error), "tokenizer.vocab_size"
    if found := re.search(r"size too high.*<= (\d+)", reason):
        largest = int(found[1])
        return MtkitError(
            f"{what}: {key} = {vocab_size:,} is too large for this text, which gives at most "
            f"{largest:,} pieces",
            f"--set {key}={largest}, or use more text",
        )
    if found := re.search(r"required_chars\. \d+ vs (\d+)", reason):
        smallest = int(found[1])
        return MtkitError(
            f"{what}: {key} = {vocab_size:,} is too small for this text, whose characters and "
            f"symbols alone are {smallest:,} pieces",
            f"set {key} well above {smallest:,}, or lower tokenizer.character_coverage: rare "
            "characters then have no piece",
        )
    if "sentences_.empty()" in reason or "all_chars_count" in reason:
        return MtkitError(
            f"{what}: no text to train on: every line is blank", "check the files of data.train"
        )
    return MtkitError(f"{what}: SentencePiece can't train a model on this text: {reason}")
