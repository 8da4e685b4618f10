"""A parser's output as a tree of the sentence's words."""

from collections.abc import Sequence

from mtkit.recipe.parsing import Linearization
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.trees.brackets import parse_tree, split_words
from mtkit.text.trees.restore import Restored, correct_tags, restore
from mtkit.text.trees.symbols import linearize
from mtkit.text.trees.tree import Tree, simplify

_SPACE = "▁"


class TreeMaker:
    """Makes trees of what a parser writes, and the reverse.

    Args:
        linearization: What a tree looks like as a target.
        target_pieces: The vocabulary of the parser's targets.
    """

    def __init__(self, linearization: Linearization, target_pieces: Sequence[str]) -> None:
        self._form = linearization
        symbols = {piece.removeprefix(_SPACE) for piece in target_pieces}
        self._phrases = {
            symbol[1:] for symbol in symbols if symbol[:1] == "/" and symbol[1:] in symbols
        }

    @classmethod
    def of(
        cls, linearization: Linearization | None, tokenizer: SubwordTokenizer
    ) -> "TreeMaker | None":
        """Returns a parser's; None for a translator."""
        if linearization is None:
            return None
        return cls(linearization, tokenizer.target_vocabulary.pieces)

    def make(self, sentence: str, output: str) -> Restored:
        """Returns the tree that an output describes, of exactly the sentence's words.

        Args:
            sentence: What was parsed, its words parted by white space.
            output: Symbols, parted by spaces.
        """
        words = split_words(sentence)
        return correct_tags(restore(words, output.split(), self._form, phrases=self._phrases))

    def read(self, sentence: str, symbols: str) -> Tree:
        """Returns the tree whose symbols `write_symbols` wrote; tags stay as they are."""
        words = split_words(sentence)
        return restore(words, symbols.split(), self._form, phrases=self._phrases).tree

    def write_symbols(self, tree: str) -> str:
        """Returns the symbols of a tree in brackets.

        Raises:
            ValueError: It isn't one.
            MtkitError: It has a label that can't be written.
        """
        return " ".join(linearize(simplify(parse_tree(tree)), self._form))
