"""What a parser's output attended to, by symbols and words."""

import numpy as np

from mtkit.inference.parse import OutputAttention, TreeMaker

TARGET_PIECES = ["\u2581S", "\u2581/S", "\u2581DT", "\u2581NN", "\u2581VB"]


def test_a_word_gets_what_its_pieces_get() -> None:
    weights = np.array(
        [
            [0.1, 0.2, 0.3, 0.4],
            [0.5, 0.0, 0.5, 0.0],
            [0.7, 0.7, 0.2, 0.1],
            [0.0, 0.0, 0.1, 0.9],
        ],
        np.float32,
    )
    attention = OutputAttention(
        weights, ["\u2581bo", "ok", "\u2581s", "</s>"], ["\u2581S", "\u2581N", "N", "</s>"]
    )
    found = attention.join(2, 2)
    # Of "S" and of the piece that begins "NN"; a head's greatest weights may sum to more than 1.
    np.testing.assert_allclose(found, [[0.3, 0.3], [0.5, 0.5]], atol=1e-7)
    assert attention.join(3, 2) is None
    assert attention.join(2, 3) is None
    summed = OutputAttention(weights[2:3], attention.source_pieces, ["\u2581S"]).join(1, 2)
    np.testing.assert_allclose(summed, [[1.0, 0.2]], atol=1e-7)


def test_pieces_that_do_not_tell_where_words_begin_tell_nothing() -> None:
    weights = np.ones((2, 3), np.float32)
    assert (
        OutputAttention(weights, ["a", "\u2581b", "</s>"], ["\u2581S", "</s>"]).join(1, 1) is None
    )


def test_a_left_out_word_is_found() -> None:
    trees = TreeMaker("tensor2tensor", TARGET_PIECES)
    pieces = ["\u2581the", "\u2581old", "\u2581man", "</s>"]
    weights = np.zeros((5, 4), np.float32)
    weights[1, 0] = weights[2, 2] = 1.0
    attention = OutputAttention(
        weights, pieces, ["\u2581S", "\u2581DT", "\u2581NN", "\u2581/S", "</s>"]
    )
    output = "S DT NN /S"
    assert trees.make("the old man", output).tree.words == ["the", "old", "man"]
    marks = trees.make("the old man", output, attention)
    assert marks.repairs.leaves_added == 1
    assert [mark.tag for mark in marks.tree.marks if hasattr(mark, "word")] == ["DT", "XX", "NN"]
    assert trees.make("", "", attention).tree.words == []
