"""Other segmentations of a sentence than the best one, drawn at random.

BPE-dropout (arXiv 1910.13267, algorithm 1) and subword regularisation with a unigram model (arXiv
1804.10959, section 3, sampling from all segmentations). SentencePiece has both, but adds entropy of
the process to its generator's seed, so that no two runs draw alike; here the caller's generator
alone decides.

Segmentations are drawn word by word, from the tokens of the best one: neither algorithm looks
across the border of two words, since no piece does. What was worked out for a word is remembered,
since few words make up most of a text.
"""

import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

# protobuf makes the class when the module is loaded, where mypy can't see it.
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from mtkit.errors import MtkitError

_SPACE = "▁"
"""Stands for a space in a piece."""
_MAX_WORDS = 50_000
"""Words remembered, some tens of megabytes; then memory starts afresh."""


class Segmenter(Protocol):
    """Draws a word's segmentation."""

    def draw(self, surface: str, random: Random) -> Sequence[str]:
        """Returns the pieces of a segmentation of a word."""
        ...


class BpeDropout:
    """Merges the pieces of a word, leaving each possible merge out with some probability.

    Args:
        scores: The score of each piece that merges can make; the highest is merged first.
        dropout: Probability that a merge is left out, at each step anew.
    """

    def __init__(self, scores: dict[str, float], dropout: float) -> None:
        self._scores = scores
        self._dropout = dropout
        self._log_left_out = math.log(dropout)
        self._log_kept = math.log1p(-dropout)
        self._words: dict[str, list[_State]] = {}

    def draw(self, surface: str, random: Random) -> Sequence[str]:
        """Returns the pieces that are left when no merge is possible, or all are left out."""
        steps = self._words.get(surface)
        if steps is None:
            steps = self._remember(surface)
        # Steps until a first merge is left out: geometric, so that one draw tells.
        num_kept = int(math.log(1.0 - random.random()) / self._log_kept)
        if num_kept >= len(steps) - 1:
            return steps[-1].pieces
        state = steps[num_kept]
        # The first merge is left out for certain here, later on by chance.
        place = 1
        while True:
            place += int(math.log(1.0 - random.random()) / self._log_left_out)
            following = self._merge(state, place)
            if following is None:
                return state.pieces
            state, place = following, 0

    def _remember(self, surface: str) -> list["_State"]:
        """Returns a word's states while nothing is left out, the last of which is the best one."""
        if len(self._words) >= _MAX_WORDS:
            self._words.clear()
        steps = [_State(tuple(surface))]
        while (following := self._merge(steps[-1], 0)) is not None:
            steps.append(following)
        self._words[surface] = steps
        return steps

    def _merge(self, state: "_State", rank: int) -> "_State | None":
        """Returns the state that the best merge but `rank` others leads to; None past the last."""
        if state.merges is None:
            pieces, scores = state.pieces, self._scores
            ranked = sorted(
                (-scores[merged], place)
                for place, merged in enumerate(map(str.__add__, pieces, pieces[1:]))
                if merged in scores
            )
            state.merges = [place for _, place in ranked]
        if rank >= len(state.merges):
            return None
        following = state.nexts.get(rank)
        if following is None:
            pieces, place = state.pieces, state.merges[rank]
            merged = pieces[place] + pieces[place + 1]
            following = _State((*pieces[:place], merged, *pieces[place + 2 :]))
            state.nexts[rank] = following
        return following


class _State:
    """A word while its pieces are merged.

    Attributes:
        pieces: What it consists of.
        merges: Where two pieces can be merged, the best merge first; None until it is asked for.
        nexts: The states that merges lead to, by the merge's rank.
    """

    __slots__ = ("merges", "nexts", "pieces")

    def __init__(self, pieces: tuple[str, ...]) -> None:
        self.pieces = pieces
        self.merges: list[int] | None = None
        self.nexts: dict[int, _State] = {}


class UnigramSampling:
    """Draws among all segmentations of a word, each by its probability to the power of alpha.

    Forward filtering, backward sampling over the lattice of pieces.

    Args:
        scores: Log probability of each piece.
        alpha: The exponent.
    """

    def __init__(self, scores: dict[str, float], alpha: float) -> None:
        self._scores = scores
        self._alpha = alpha
        self._max_length = max(map(len, scores), default=1)
        self._lattices: dict[str, list[_Ends]] = {}

    def draw(self, surface: str, random: Random) -> Sequence[str]:
        """Returns the pieces of a segmentation."""
        lattice = self._lattices.get(surface)
        if lattice is None:
            lattice = self._remember(surface)
        pieces = []
        end = len(surface)
        while end:
            ends = lattice[end]
            start = ends.starts[bisect(ends.cumulated, random.random() * ends.cumulated[-1])]
            pieces.append(surface[start:end])
            end = start
        return pieces[::-1]

    def _remember(self, surface: str) -> list["_Ends"]:
        """Returns for each place of a word the pieces that end there, with their weights."""
        if len(self._lattices) >= _MAX_WORDS:
            self._lattices.clear()
        # Log weight of all ways to each place.
        totals = [0.0] + [-math.inf] * len(surface)
        lattice = [_Ends()]
        for end in range(1, len(surface) + 1):
            ends = _Ends()
            weights = []
            for start in range(max(0, end - self._max_length), end):
                score = self._scores.get(surface[start:end])
                if score is not None and totals[start] > -math.inf:
                    ends.starts.append(start)
                    weights.append(totals[start] + self._alpha * score)
            if weights:
                greatest = max(weights)
                total = 0.0
                for weight in weights:
                    total += math.exp(weight - greatest)
                    ends.cumulated.append(total)
                totals[end] = greatest + math.log(total)
            lattice.append(ends)
        self._lattices[surface] = lattice
        return lattice


@dataclass
class _Ends:
    """Pieces that end at one place of a word: where each begins, and the sums of their weights."""

    starts: list[int] = field(default_factory=list)
    cumulated: list[float] = field(default_factory=list)


class Resegmenter:
    """Draws other segmentations of sentences that one SentencePiece model has cut.

    Args:
        model: The serialised model.
        alpha: Of BPE, the probability that a merge is left out; of a unigram model, the exponent.

    Raises:
        MtkitError: The model is neither BPE nor unigram.
    """

    def __init__(self, model: bytes, alpha: float) -> None:
        proto = ModelProto()
        proto.ParseFromString(model)
        normal = proto.SentencePiece.NORMAL
        scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == normal}
        self._pieces = [piece.piece if piece.type == normal else "" for piece in proto.pieces]
        self._ids = {piece: number for number, piece in enumerate(self._pieces) if piece}
        # A piece that spans words, or ends them, makes the whole sentence one word.
        self._has_words = not any(_SPACE in piece[1:] for piece in scores)
        match proto.trainer_spec.model_type:
            case proto.trainer_spec.BPE:
                self._segmenter: Segmenter = BpeDropout(scores, alpha)
            case proto.trainer_spec.UNIGRAM:
                self._segmenter = UnigramSampling(scores, alpha)
            case _:
                raise MtkitError(
                    "tokenizer.sampling: the pretrained model is neither BPE nor unigram",
                    "remove the section: --set '~tokenizer.sampling'",
                )

    def draw(self, best: list[int], random: Random) -> list[int]:
        """Returns another segmentation of a sentence, by the model's own ids of the best one.

        Pieces that aren't text, such as unknown ones, bytes and symbols of the user, stay.
        """
        pieces, ids, draw = self._pieces, self._ids, self._segmenter.draw
        drawn: list[int] = []
        word = ""
        for number in best:
            piece = pieces[number]
            if word and (not piece or (self._has_words and piece[0] == _SPACE)):
                drawn.extend([ids[part] for part in draw(word, random)])
                word = ""
            if piece:
                word += piece
            else:
                drawn.append(number)
        if word:
            drawn.extend([ids[part] for part in draw(word, random)])
        return drawn
