"""Turns a parser's output into a tree of the sentence's words."""

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
from mtkit.text.trees.brackets import (
    Tree,
    linearize,
    parse_tree,
    simplify,
    split_tree_words,
    write_tree,
)
from mtkit.text.trees.restore import RestoredTree, correct_tags, restore_tree

_SPACE = "▁"


@dataclass(frozen=True)
class OutputAttention:
    """The attention of an output's pieces, [target, source]; `source_pieces` end with `</s>`."""

    weights: NDArray[np.float32]
    source_pieces: Sequence[str]
    target_pieces: Sequence[str]

    def join(self, num_symbols: int, num_words: int) -> NDArray[np.float64] | None:
        """Returns each symbol's weight on each word, [symbols, words]; None if pieces don't fit."""
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
    """Turns a parser's outputs into trees, and the reverse."""

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
        """Returns a parser's tree maker; None for a translator."""
        if linearization is None:
            return None
        return cls(linearization, tokenizer.target_vocabulary.pieces)

    def make(
        self, sentence: str, output: str, attention: OutputAttention | None = None
    ) -> RestoredTree:
        """Returns the tree that an output describes, of exactly the sentence's words."""
        words, symbols = split_tree_words(sentence), output.split()
        weights = None
        if attention is not None and words and symbols:
            weights = attention.join(len(symbols), len(words))
        restored = restore_tree(
            words, symbols, self._form, phrases=self._phrases, attention=weights
        )
        return correct_tags(restored)

    def read(self, sentence: str, symbols: str) -> Tree:
        """Returns the tree whose symbols `write_symbols` wrote, with unchanged tags."""
        words = split_tree_words(sentence)
        return restore_tree(words, symbols.split(), self._form, phrases=self._phrases).tree

    def write_symbols(self, tree: str) -> str:
        """Returns the symbols of a tree in brackets.

        Raises:
            ValueError: It isn't a tree.
            MtkitError: It has a label that can't be written.
        """
        return " ".join(linearize(simplify(parse_tree(tree)), self._form))


class SentenceParser:
    """Adapts a parser to the pipeline: its sources, and its outputs, which are trees."""

    def __init__(self, trees: TreeMaker, engine: Engine, tokenizer: SubwordTokenizer) -> None:
        self._trees, self._engine, self._tokenizer = trees, engine, tokenizer

    @classmethod
    def of(cls, model: TextModel, engine: Engine) -> "SentenceParser | None":
        """Returns a parser's adapter; None for another model."""
        trees = TreeMaker.of(model.linearization, model.tokenizer)
        return None if trees is None else cls(trees, engine, model.tokenizer)

    def spell(self, sentence: str) -> str:
        """Returns a sentence as the model learned to read it: treebanks have no bare brackets."""
        return " ".join(split_tree_words(sentence))

    def write_symbols(self, tree: str, line: int) -> str:
        """Returns a given tree in the model's form, or raises a LineError."""
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
        """Returns candidates with their trees as text; `part` is None if nothing was searched."""
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
        """Returns each candidate's attention, if the engine has it."""
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
