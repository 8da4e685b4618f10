"""Pieces and ids; SentencePiece's own calls are the outside view."""

import io

import sentencepiece

from mtkit.text.sentencepiece_segmenter import SentencePieceSegmenter
from mtkit.text.vocabulary import Vocabulary

LINES = ["a man walks down the street", "two dogs run in the snow", "the man has a red hat"] * 9


def train_model(**options) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=40,
        model_type="bpe",
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def test_the_special_pieces_come_first() -> None:
    vocabulary = Vocabulary.of(["a", "b", "a"])
    assert vocabulary.pieces == ("<pad>", "<unk>", "<s>", "</s>", "a", "b", "a")
    assert len(vocabulary) == 7
    # Of two that are spelled alike, the first.
    assert [vocabulary.id_of(piece) for piece in ("a", "b", "</s>", "c")] == [4, 5, 3, 1]


def test_a_model_with_these_ids_is_as_it_was() -> None:
    model = train_model(pad_id=0, unk_id=1, bos_id=2, eos_id=3)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary = SentencePieceSegmenter(model).vocabulary
    assert len(vocabulary) == 40
    assert vocabulary.ids == {processor.id_to_piece(token): token for token in range(40)}


def test_a_model_with_other_ids_keeps_its_order() -> None:
    """SentencePiece's defaults: <unk> 0, <s> 1, </s> 2, and no padding."""
    model = train_model()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    segmenter = SentencePieceSegmenter(model)
    ordinary = [processor.id_to_piece(number) for number in range(3, 40)]
    assert segmenter.vocabulary == Vocabulary.of(ordinary)
    assert segmenter.num_pieces == len(segmenter.vocabulary) == 41
    pieces = processor.encode("the man runs", out_type=str)
    [tokens] = segmenter.encode(["the man runs"])
    assert tokens == [*map(segmenter.vocabulary.id_of, pieces), 3]
    assert segmenter.decode(tokens) == "the man runs"
