"""Symbols added to a vocabulary: old ids stay; SentencePiece itself is the outside view."""

from pathlib import Path
from random import Random

import pytest
import sentencepiece

from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

PAIRS = list(generate_pairs("train", 300))
SOURCES = [source for source, _ in PAIRS]
TARGETS = [target for _, target in PAIRS]


def train(**settings) -> SubwordTokenizer:
    return train_tokenizer(Tokenizer(vocab_size=300, **settings), SOURCES, TARGETS, seed=1)


def open_model(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("joint", [True, False])
def test_old_pieces_keep_their_ids_and_new_ones_stand_behind(kind: str, *, joint: bool) -> None:
    old = train(kind=kind, joint=joint)
    new = extend_vocabulary(old, tags=["<de>"], symbols=["<ph>", "<url>"])
    assert new.source_vocabulary.pieces == (*old.source_vocabulary.pieces, "<de>", "<ph>", "<url>")
    # A tag stands before sources alone.
    behind = ["<de>", "<ph>", "<url>"] if joint else ["<ph>", "<url>"]
    assert new.target_vocabulary.pieces == (*old.target_vocabulary.pieces, *behind)
    assert new.is_joint is joint
    assert new.encode_source(SOURCES) == old.encode_source(SOURCES)
    assert new.encode_target(TARGETS) == old.encode_target(TARGETS)
    model = open_model(new.models[0])
    assert model.encode("the <ph> man", out_type=str).count("<ph>") == 1
    assert new.encode_source([f"<de> {SOURCES[0]}"])[0][0] == 300
    [tokens] = new.encode_target(["der <ph> Mann"])
    assert new.decode_target(tokens) == "der <ph> Mann"
    # Again, there is nothing to add.
    assert extend_vocabulary(new, tags=["<de>"], symbols=["<ph>"]).models == new.models
    assert extend_vocabulary(old).models == old.models


def test_tags_of_the_model_stay_tags() -> None:
    old = train_tokenizer(Tokenizer(vocab_size=300), SOURCES, TARGETS, seed=1, tags=["<BT>"])
    new = extend_vocabulary(old, tags=["<de>", "<BT>"])
    assert new.tags == ("<BT>", "<de>")
    [tokens] = new.encode_source([f"<BT> <de> {SOURCES[0]}"])
    assert tokens[:2] == [old.source_vocabulary.pieces.index("<BT>"), 300]


def test_an_ordinary_piece_becomes_a_symbol_at_its_place() -> None:
    old = train()
    piece = next(
        piece for piece in old.source_vocabulary.pieces[4:] if len(piece) == 3 and piece.isalpha()
    )
    new = extend_vocabulary(old, symbols=[piece])
    assert new.source_vocabulary.pieces == old.source_vocabulary.pieces
    for line in (f"x{piece}y", f"{piece}{piece}"):
        pieces = open_model(new.models[0]).encode(line, out_type=str)
        assert pieces.count(piece) == line.count(piece)


@pytest.mark.parametrize("options", [{}, {"unk_id": 3, "bos_id": -1, "eos_id": 0, "pad_id": 7}])
def test_a_model_with_other_ids_is_extended_too(tmp_path: Path, options: dict) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*SOURCES, *TARGETS]),
        model_prefix=str(tmp_path / "own"),
        vocab_size=300,
        minloglevel=2,
        **options,
    )
    model = (tmp_path / "own.model").read_bytes()
    old = SubwordTokenizer(model, model)
    new = extend_vocabulary(old, tags=["<de>"])
    assert new.source_vocabulary.pieces == (*old.source_vocabulary.pieces, "<de>")
    assert new.encode_source(SOURCES) == old.encode_source(SOURCES)
    assert new.encode_source(["<de>"])[0][0] == old.source_vocab_size


def test_special_pieces_and_bytes_are_no_symbols() -> None:
    old = train_tokenizer(Tokenizer(vocab_size=500, byte_fallback=True), SOURCES, TARGETS, seed=1)
    for symbol in ("<s>", "<unk>", "<0x41>"):
        with pytest.raises(MtkitError, match=f"'{symbol}' is a special piece"):
            extend_vocabulary(old, symbols=[symbol])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_symbol_is_one_piece_inside_a_word_too(kind: str) -> None:
    old = train(kind=kind)
    words = {word for sentence in SOURCES for word in sentence.lower().strip(".").split()}
    longer = max(
        (word for word in words if f"\u2581{word}" in old.source_vocabulary.pieces), key=len
    )
    symbol = longer[1:-1]
    new = extend_vocabulary(old, symbols=[symbol])
    pieces = open_model(new.models[0]).encode(longer, out_type=str)
    assert symbol in pieces
    assert "".join(pieces) == f"\u2581{longer}"
    [tokens] = new.encode_target([longer])
    assert new.decode_target(tokens) == longer


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_segmentations_are_sampled_around_the_symbols(kind: str) -> None:
    tokenizer = extend_vocabulary(train(kind=kind), tags=["<de>"], symbols=["<ph>"])
    draw, random = tokenizer.resegmenter("source", 0.5), Random(1)
    [tokens] = tokenizer.encode_source([f"<de> {SOURCES[0]} <ph>"])
    drawn = [draw(tokens, random) for _ in range(20)]
    assert len(set(map(tuple, drawn))) > 1
    model = open_model(tokenizer.models[0])
    for sentence in drawn:
        assert sentence[0] == 300
        assert sentence.count(301) == 1
        assert model.decode(sentence[1:-1]) == f"{SOURCES[0]} <ph>"
