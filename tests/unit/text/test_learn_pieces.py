"""Pieces of new text behind a vocabulary's own; SentencePiece itself is the outside view."""

import pytest
import sentencepiece

from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.learn_pieces import learn_pieces, spell_pieces
from mtkit.text.token_ids import UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

PAIRS = list(generate_pairs("train", 300))
SOURCES, TARGETS = ([pair[side] for pair in PAIRS] for side in (0, 1))
FRENCH = [
    "Un homme en chemise bleue nettoie une fenêtre.",
    "Deux garçons jouent au ballon près de la forêt.",
    "L'été, les élèves mangent à la maison.",
    "Une femme âgée achète des œufs au marché.",
    "Des gens attendent le train à la gare depuis ce matin.",
    "Le chien noir court dans la neige devant le château.",
    "Trois musiciens jouent dans la rue, et la foule les écoute.",
    "Elle préfère lire un livre au bord de la rivière.",
    "Nous étions fatigués, mais nous avons continué à marcher.",
    "Qu'est-ce que vous voulez boire, du thé ou du café ?",
] * 30
SETTINGS = Tokenizer(vocab_size=110)


def train(**settings) -> SubwordTokenizer:
    return train_tokenizer(Tokenizer(vocab_size=300, **settings), SOURCES, TARGETS, seed=1)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("joint", [True, False])
def test_new_pieces_stand_behind_and_are_used(kind: str, *, joint: bool) -> None:
    old = train(kind=kind, joint=joint)
    new = learn_pieces(old, SETTINGS, SOURCES, FRENCH, seed=1)
    before, after = old.target_vocabulary.pieces, new.target_vocabulary.pieces
    assert after[: len(before)] == before
    added = after[len(before) :]
    assert {"ê", "œ"} <= set(added)
    assert len(set(after)) == len(after)
    assert new.is_joint is joint
    # SentencePiece cuts the text into them: shorter than before, and nothing unknown.
    model = sentencepiece.SentencePieceProcessor(model_proto=new.models[1])
    lengths = [sum(len(line) for line in each.encode_target(FRENCH)) for each in (old, new)]
    assert lengths[1] < 0.9 * lengths[0]
    assert not any(UNK in line for line in new.encode_target(FRENCH))
    assert [model.decode(line[:-1]) for line in new.encode_target(FRENCH)] == FRENCH
    used = {token for line in new.encode_target(FRENCH) for token in line}
    assert len([token for token in used if token >= len(before)]) > len(added) / 3


def test_with_bpe_old_text_is_cut_as_before_but_for_merges_of_its_pieces() -> None:
    old = train()
    new = learn_pieces(old, SETTINGS, (), FRENCH, seed=1)
    pieces = new.target_vocabulary.pieces
    for line, other in zip(old.encode_target(TARGETS), new.encode_target(TARGETS), strict=True):
        joined = [pieces[token] for token in line[:-1]]
        assert "".join(pieces[token] for token in other[:-1]) == "".join(joined)
        # Each new piece ends where an old one did.
        ends = {len("".join(joined[: index + 1])) for index in range(len(joined))}
        length = 0
        for token in other[:-1]:
            length += len(pieces[token])
            assert length in ends


def test_a_piece_is_spelled_by_the_old_ones() -> None:
    old = train()
    pieces = old.target_vocabulary.pieces
    [word, inside, unknown] = spell_pieces(old.models[1], ["▁Haus", "aus", "ж"])
    assert "".join(pieces[token] for token in word) == "▁Haus"
    assert "".join(pieces[token] for token in inside) == "aus"
    assert unknown == []


def test_pieces_that_are_words_cannot_grow() -> None:
    words = train_tokenizer(
        Tokenizer(vocab_size=300, joint=False), SOURCES, TARGETS, seed=1, is_trees=True
    )
    with pytest.raises(MtkitError, match="words or characters"):
        learn_pieces(words, SETTINGS, SOURCES, FRENCH, seed=1)
