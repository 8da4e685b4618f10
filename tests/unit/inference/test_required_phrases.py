"""Text spelled in target tokens; SentencePiece's own decoding is the outside view."""

import pytest
import sentencepiece

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.request import RequiredPhrase
from mtkit.inference.symbol_masks import require_phrases, spell
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

LINES = [f"open {{name}} ({{name}}) at www.a.org/{number} with %s now" for number in range(40)]
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


@pytest.fixture(params=[("bpe", 80), ("unigram", 40)], scope="module")
def tokenizer(request) -> SubwordTokenizer:
    kind, vocab_size = request.param
    settings = Tokenizer(kind=kind, vocab_size=vocab_size)
    return train_tokenizer(settings, LINES, LINES, seed=1)


@pytest.mark.parametrize("text", ["see {name} now", "{name}", "see www.a.org/7, now", "at %s"])
def test_behind_a_space_it_begins_with_one(tokenizer, text):
    piece = text.replace("see ", "").replace("at ", "").split(" ")[0].rstrip(",")
    start = text.index(piece)
    phrase = spell(tokenizer, text, (start, start + len(piece)))
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.models[1])
    assert "".join(map(model.id_to_piece, phrase.tokens)) == SPACE + piece
    # So that it can stand in the middle of an output.
    before = tokenizer.encode_target(["now"])[0][:-1]
    assert tokenizer.decode_target([*before, *phrase.tokens, *before]) == f"now {piece} now"


@pytest.mark.parametrize("before", ["(", '"', "see:", "a"])
def test_behind_another_character_it_does_not(tokenizer, before):
    # BPE has learned `({`, a piece that the placeholder can't be cut out of.
    text = f"{before}{{name}})"
    phrase = spell(tokenizer, text, (len(before), len(before) + 6))
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.models[1])
    assert "".join(map(model.id_to_piece, phrase.tokens)) == "{name}"


def test_what_the_vocabulary_lacks_has_no_spelling(tokenizer):
    assert spell(tokenizer, "see {größe} now", (4, 11)) is None
    assert spell(tokenizer, "({größe})", (1, 8)) is None
    # SentencePiece's normalisation writes the digits of full width narrow.
    assert spell(tokenizer, "at \uff17", (3, 4)) is None
    assert spell(tokenizer, "at 7", (3, 4)) is not None


def test_bytes_spell_what_the_vocabulary_lacks():
    tokenizer = train_tokenizer(Tokenizer(vocab_size=340, byte_fallback=True), LINES, LINES, seed=1)
    for text, span in (("see {größe} now", (4, 11)), ("({größe})", (1, 8))):
        phrase = spell(tokenizer, text, span)
        assert tokenizer.decode_target(phrase.tokens) == text[slice(*span)] == "{größe}"


def test_each_part_of_a_line_has_its_own_phrases():
    parts = [EncodedSource([9], span=(0, 8)), EncodedSource([9], span=(9, 20), required=((3,),))]
    phrases = [
        RequiredPhrase((2, 5), (4, 5)),
        RequiredPhrase((9, 12), (6,)),
        # Cut in two: of neither.
        RequiredPhrase((7, 10), (7,)),
        RequiredPhrase((14, 20), (4, 5)),
    ]
    found = require_phrases(parts, phrases)
    assert [part.required for part in found] == [((4, 5),), ((3,), (6,), (4, 5))]
