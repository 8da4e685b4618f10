"""A parser's output as a tree of the sentence's words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import AttendingEngine, EncodedSource, Engine
from mtkit.inference.line import TextModel
from mtkit.inference.request import LineError
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.parsing import Linearization
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.trees.brackets import Tree, linearize, parse_tree, simplify, split_words, write_tree
from mtkit.text.trees.restore import Restored, correct_tags, restore

_SPACE = "▁"


@dataclass(frozen=True)
class OutputAttention:
    """What the pieces of an output attended to.

    Attributes:
        weights: Of each target piece to each source piece, [target, source].
        source_pieces: The sentence's, `</s>` last.
        target_pieces: The output's.
    """

    weights: NDArray[np.float32]
    source_pieces: Sequence[str]
    target_pieces: Sequence[str]

    def join(self, num_symbols: int, num_words: int) -> NDArray[np.float64] | None:
        """Returns the weight of each symbol to each word, [symbols, words].

        None where pieces don't tell where symbols and words begin.
        """
        symbols = [
            index for index, piece in enumerate(self.target_pieces) if piece.startswith(_SPACE)
        ]
        begins = [
            index for index, piece in enumerate(self.source_pieces) if piece.startswith(_SPACE)
        ]
        if len(symbols) != num_symbols or len(begins) != num_words or begins[:1] != [0]:
            return None
        of_pieces = self.weights[symbols, : len(self.source_pieces) - 1].astype(np.float64)
        return np.minimum(np.add.reduceat(of_pieces, begins, axis=1), 1.0)


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

    def make(
        self, sentence: str, output: str, attention: OutputAttention | None = None
    ) -> Restored:
        """Returns the tree that an output describes, of exactly the sentence's words.

        Args:
            sentence: What was parsed, its words parted by white space.
            output: Symbols, parted by spaces.
            attention: What the output attended to, where that is known.
        """
        words, symbols = split_words(sentence), output.split()
        weights = None
        if attention is not None and words and symbols:
            weights = attention.join(len(symbols), len(words))
        restored = restore(words, symbols, self._form, phrases=self._phrases, attention=weights)
        return correct_tags(restored)

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


class SentenceParser:
    """What of a parser differs from a translator: its sources, and its outputs, which are trees.

    Args:
        trees: Makes trees of outputs.
        engine: The engine, with its model.
        tokenizer: The model's.
    """

    def __init__(self, trees: TreeMaker, engine: Engine, tokenizer: SubwordTokenizer) -> None:
        self._trees, self._engine, self._tokenizer = trees, engine, tokenizer

    @classmethod
    def of(cls, model: TextModel, engine: Engine) -> "SentenceParser | None":
        """Returns a parser's; None for any other model."""
        trees = TreeMaker.of(model.linearization, model.tokenizer)
        return None if trees is None else cls(trees, engine, model.tokenizer)

    def spell(self, sentence: str) -> str:
        """Returns a sentence as the model has learned to read: a treebank has no bare brackets."""
        return " ".join(split_words(sentence))

    def write_symbols(self, tree: str, line: int) -> str:
        """Returns a given tree as the model writes it.

        Raises:
            LineError: It isn't one, or has a label that can't be written.
        """
        try:
            return self._trees.write_symbols(tree)
        except ValueError as error:
            raise LineError(
                line, f"no tree to score: {error}", "expected (TOP (S (VP (VB Go)) (. .)))"
            ) from error
        except MtkitError as error:
            raise LineError(line, error.message, error.hint) from error

    def make_trees(
        self, sentence: str, candidates: Sequence[Hypothesis], part: EncodedSource | None = None
    ) -> tuple[Hypothesis, ...]:
        """Returns candidates with their trees as text.

        Args:
            sentence: What was parsed.
            candidates: The outputs.
            part: The sentence in tokens; None where it wasn't searched.
        """
        restored = [
            self._trees.make(sentence, each.text, attention)
            for each, attention in zip(candidates, self._attend(part, candidates), strict=True)
        ]
        return tuple(
            replace(each, text=write_tree(one.tree), repairs=one.repairs)
            for each, one in zip(candidates, restored, strict=True)
        )

    def _attend(
        self, part: EncodedSource | None, candidates: Sequence[Hypothesis]
    ) -> list[OutputAttention | None]:
        """Returns what each candidate attended to, where the engine can tell."""
        found = None
        if part is not None and isinstance(self._engine, AttendingEngine):
            outputs = [each.token_ids for each in candidates]
            found = self._engine.attend(part.tokens, [(*part.begin, *output) for output in outputs])
        if part is None or found is None:
            return [None] * len(candidates)
        pieces = self._tokenizer.source_vocabulary.pieces
        of_source = [pieces[token] for token in part.tokens]
        return [
            OutputAttention(weights[len(part.begin) :], of_source, each.pieces)
            for weights, each in zip(found, candidates, strict=True)
        ]
