"""Converts links between words to links between their tokens."""

from collections.abc import Sequence

from mtkit.data.sources.pharaoh import read_link
from mtkit.text.languages import LanguageTokens
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import FindWords, find_owners


def link_pieces(
    links: str, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[int]:
    """Returns alternating source and target indices of linked tokens, by target index.

    `links` are in Pharaoh format, `0-0 1-2`. Each token of a word is linked to each of the other
    word.
    """
    pairs = set()
    for source, target in map(read_link, links.split()):
        pairs |= {(late, early) for late in targets[target] for early in sources[source]}
    return [index for late, early in sorted(pairs) for index in (early, late)]


class WordPieces:
    """Finds the tokens of each word of a line, between `marks` of languages."""

    def __init__(self, tokenizer: SubwordTokenizer, marks: LanguageTokens) -> None:
        self._tokenizer = tokenizer
        self._num_behind = {"source": len(marks.behind), "target": 0}

    def find(
        self, side: str, line: str, tokens: Sequence[int], find_words: FindWords
    ) -> list[list[int]]:
        """Returns the token indices of each word; `tokens` include tags, marks and `</s>`."""
        pieces = self._tokenizer.locate_normalized(side, line)
        # A tag and marks precede the line's own tokens, `</s>` and marks follow them.
        num_before = len(tokens) - 1 - self._num_behind[side] - len(pieces)
        words = find_words(line)
        found: list[list[int]] = [[] for _ in words]
        for index, owner in enumerate(find_owners(pieces, words), start=num_before):
            if owner >= 0:
                found[owner].append(index)
        return found
