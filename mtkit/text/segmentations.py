"""Random segmentations of a sentence besides the best one.

BPE-dropout (arXiv 1910.13267, algorithm 1) and subword regularisation with a unigram model (arXiv
1804.10959, section 3, sampling from all segmentations). SentencePiece has both, but adds process
entropy to its generator's seed, so that no two runs are equal; here only the caller's generator is
used.

Segmentations are drawn word by word, from the tokens of the best one: neither algorithm looks
across the border of two words, since no piece does. Results per word are cached, since few words
make up most of a text, up to a memory limit: without spaces a sentence is one word, and takes a
hundred times as much.
"""

import math
from array import array
from bisect import bisect
from collections.abc import Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

# protobuf creates the class when the module is loaded, where mypy can't see it.
from mtkit.errors import MtkitError
from mtkit.text.arrange_pieces import read_proto

_SPACE = "▁"
"""A space in a piece."""
_MAX_BYTES = 64 << 20
"""Maximum memory of one segmenter, by the sizes below, measured on CPython 3.11."""
_BYTES_PER_WORD = 320
"""A word's string and its entry."""
_BYTES_PER_LETTER = 12
"""A letter of that string and the reference to a piece."""
_LATTICE_BYTES = 340
"""A `_Lattice` with three empty arrays."""
_BYTES_PER_BORDER = 9
"""One of its borders."""
_BYTES_PER_START = 18
"""A piece that ends at a position: its start and weight, with spare room."""

Known = TypeVar("Known")


class _Cache(Generic[Known]):
    """A cache of facts about words, limited in bytes; the least recently used are evicted."""

    # It has two generations: a lookup moves a word to the younger one. Once that fills half of the
    # limit, it replaces the older one.

    def __init__(self) -> None:
        self._young: dict[str, tuple[Known, int]] = {}
        self._old: dict[str, tuple[Known, int]] = {}
        self._num_bytes = 0

    def find(self, surface: str) -> Known | None:
        """Returns what is cached of a word, or None."""
        entry = self._young.get(surface)
        if entry is not None:
            return entry[0]
        entry = self._old.pop(surface, None)
        if entry is None:
            return None
        self.add(surface, *entry)
        return entry[0]

    def add(self, surface: str, known: Known, num_bytes: int) -> None:
        """Caches a word that `find` didn't know."""
        self._young[surface] = (known, num_bytes)
        self._num_bytes += num_bytes
        if self._num_bytes > _MAX_BYTES // 2:
            self._young, self._old, self._num_bytes = {}, self._young, 0


class Segmenter(Protocol):
    """Draws a word's segmentation."""

    def draw(self, surface: str, random: Random) -> Sequence[str]:
        """Returns the pieces of a segmentation of a word."""
        ...


class BpeDropout:
    """Merges the pieces of a word by score; skips each merge with probability `dropout`."""

    def __init__(self, scores: dict[str, float], dropout: float) -> None:
        self._costs = {piece: -score for piece, score in scores.items()}
        # Cached words share the strings of their pieces.
        self._strings = {piece: piece for piece in scores}
        self._log_left_out = math.log(dropout)
        self._log_kept = math.log1p(-dropout)
        self._words: _Cache[tuple[str, ...]] = _Cache()

    def draw(self, surface: str, random: Random) -> Sequence[str]:
        """Returns the pieces when no merge is possible, or all are skipped."""
        best = self._words.find(surface)
        if best is None:
            merging = _Merging(surface, self._costs)
            while merging.num_merges:
                merging.merge(0)
            best = tuple(self._strings.setdefault(piece, piece) for piece in merging.pieces)
            num_bytes = _BYTES_PER_WORD + _BYTES_PER_LETTER * len(surface)
            self._words.add(surface, best, num_bytes)
        # The number of merges before a skipped one is geometric: one draw suffices.
        num_kept = int(math.log(1.0 - random.random()) / self._log_kept)
        if num_kept >= len(surface) - len(best):
            return best
        merging = _Merging(surface, self._costs)
        for _ in range(num_kept):
            merging.merge(0)
        # Here the first merge is skipped for certain, later ones by chance.
        rank = 1
        while True:
            rank += int(math.log(1.0 - random.random()) / self._log_left_out)
            if rank >= merging.num_merges:
                return merging.pieces
            merging.merge(rank)
            rank = 0


class _Merging:
    __slots__ = ("_costs", "_piece_costs", "num_merges", "pieces")

    def __init__(self, surface: str, piece_costs: dict[str, float]) -> None:
        self.pieces = list(surface)
        self._piece_costs = piece_costs
        # The cost of merging each piece with the next; infinity if that isn't a piece.
        self._costs = [
            piece_costs.get(pair, math.inf) for pair in map(str.__add__, surface, surface[1:])
        ]
        self.num_merges = len(self._costs) - self._costs.count(math.inf)

    def merge(self, rank: int) -> None:
        """Makes the best merge after skipping `rank` better ones; ties go to the first."""
        pieces, costs = self.pieces, self._costs
        if rank == 0:
            position = costs.index(min(costs))
        else:
            position = sorted(range(len(costs)), key=costs.__getitem__)[rank]
        pieces[position : position + 2] = [pieces[position] + pieces[position + 1]]
        del costs[position]
        self.num_merges -= 1
        # Only the merges with its neighbours have changed.
        for left in (position - 1, position):
            if 0 <= left < len(costs):
                cost = self._piece_costs.get(pieces[left] + pieces[left + 1], math.inf)
                self.num_merges += (cost < math.inf) - (costs[left] < math.inf)
                costs[left] = cost


class UnigramSampling:
    """Draws among all segmentations of a word, by their probabilities to the power of alpha."""

    # Forward filtering, backward sampling over the lattice of pieces. `scores` are
    # log-probabilities.

    def __init__(self, scores: dict[str, float], alpha: float) -> None:
        self._scores = scores
        self._alpha = alpha
        self._max_length = max(map(len, scores), default=1)
        self._lattices: _Cache[_Lattice] = _Cache()

    def draw(self, surface: str, random: Random) -> Sequence[str]:
        """Returns the pieces of a segmentation."""
        lattice = self._lattices.find(surface)
        if lattice is None:
            lattice = self._build_lattice(surface)
            num_bytes = _BYTES_PER_WORD + _BYTES_PER_LETTER * len(surface)
            num_bytes += _LATTICE_BYTES + _BYTES_PER_BORDER * len(lattice.borders)
            num_bytes += _BYTES_PER_START * len(lattice.starts)
            self._lattices.add(surface, lattice, num_bytes)
        borders, starts, cumulative = lattice.borders, lattice.starts, lattice.cumulative
        pieces = []
        end = len(surface)
        while end:
            first, last = borders[end - 1], borders[end]
            drawn = random.random() * cumulative[last - 1]
            start = starts[bisect(cumulative, drawn, first, last)]
            pieces.append(surface[start:end])
            end = start
        return pieces[::-1]

    def _build_lattice(self, surface: str) -> "_Lattice":
        """Returns for each position of a word the pieces that end there, with their weights."""
        # Log weight of all segmentations up to each position.
        totals = [0.0] + [-math.inf] * len(surface)
        lattice = _Lattice()
        for end in range(1, len(surface) + 1):
            weights = []
            for start in range(max(0, end - self._max_length), end):
                score = self._scores.get(surface[start:end])
                if score is not None and totals[start] > -math.inf:
                    lattice.starts.append(start)
                    weights.append(totals[start] + self._alpha * score)
            if weights:
                largest = max(weights)
                total = 0.0
                for weight in weights:
                    total += math.exp(weight - largest)
                    lattice.cumulative.append(total)
                totals[end] = largest + math.log(total)
            lattice.borders.append(len(lattice.starts))
        return lattice


class _Lattice:
    """The pieces of a word that end at each position, with their starts and cumulative weights.

    Attributes:
        borders: Pieces that end after n letters are those from `borders[n - 1]` to `borders[n]`.
    """

    __slots__ = ("borders", "cumulative", "starts")

    def __init__(self) -> None:
        self.borders = array("l", [0])
        self.starts = array("l")
        self.cumulative = array("d")


def is_word_model(model: bytes) -> bool:
    """Returns whether a serialised SentencePiece model has a piece per word."""
    proto = read_proto(model)
    return bool(proto.trainer_spec.model_type == proto.trainer_spec.WORD)


class Resegmenter:
    """Draws other segmentations of sentences segmented by one SentencePiece model.

    For BPE, `alpha` is the probability of skipping a merge; for a unigram model, the exponent.
    """

    def __init__(self, model: bytes, alpha: float) -> None:
        proto = read_proto(model)
        normal = proto.SentencePiece.NORMAL
        scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == normal}
        self._pieces = [piece.piece if piece.type == normal else "" for piece in proto.pieces]
        self._ids = {piece: number for number, piece in enumerate(self._pieces) if piece}
        # If a piece spans words or ends them, the whole sentence is one word.
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
        """Returns another segmentation, by the model's own ids; pieces that aren't text stay."""
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
