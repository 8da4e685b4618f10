"""A vocabulary cut to the pieces of some text: SentencePiece's own cut of it stays the same."""

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.text.trim_vocabulary import trim_vocabulary

PAIRS = list(generate_pairs("train", 400))
SOURCES, TARGETS = ([pair[side] for pair in PAIRS] for side in (0, 1))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_what_remains_is_cut_as_before(kind: str, *, joint: bool, byte_fallback: bool) -> None:
    settings = Tokenizer(
        vocab_size=700 if byte_fallback else 400,
        kind=kind,
        joint=joint,
        byte_fallback=byte_fallback,
    )
    trained = train_tokenizer(settings, SOURCES, TARGETS, seed=1)
    whole = extend_vocabulary(trained, tags=["<de>"], symbols=["<ph>"])
    text = [*SOURCES[:20], *TARGETS[:20]]
    trimmed = trim_vocabulary(whole, text)
    ours = trimmed.tokenizer
    assert ours.is_joint is joint
    for side, kept in (("source", trimmed.source), ("target", trimmed.target)):
        before, after = (getattr(each, f"{side}_vocabulary").pieces for each in (whole, ours))
        assert after == tuple(before[token] for token in kept)
        assert kept[:4] == (0, 1, 2, 3)
        assert len(after) < len(before)
        # Nothing that could be spelled has become unknown.
        assert {piece for piece in before if len(piece) == 1} <= set(after)
        assert "<ph>" in after
        if byte_fallback:
            assert sum(piece.startswith("<0x") for piece in after) == 256
    assert "<de>" in ours.source_vocabulary.pieces
    assert ours.tags == ("<de>",)
    # All other text whose pieces are still there, the tag before some of it.
    num_same = 0
    for line in (*SOURCES, *(f"<de> {line}" for line in SOURCES), "", "x"):
        [found], [wanted] = ours.encode_source([line]), whole.encode_source([line])
        if set(wanted) <= set(trimmed.source):
            assert [trimmed.source[token] for token in found] == wanted
            num_same += 1
    for line in TARGETS:
        [found], [wanted] = ours.encode_target([line]), whole.encode_target([line])
        if set(wanted) <= set(trimmed.target):
            assert [trimmed.target[token] for token in found] == wanted
            assert ours.decode_target(found) == whole.decode_target(wanted)
            num_same += 1
    assert num_same > 60
