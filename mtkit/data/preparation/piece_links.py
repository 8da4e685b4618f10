"""Links between words as links between the tokens that the words are cut into."""

from collections.abc import Callable, Sequence

from mtkit.text.languages import LanguageTokens
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span, find_owners

FindWords = Callable[[str], list[Span]]


def link_pieces(
    links: str, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[int]:
    """Returns source and target index of each link between tokens in turn, by target index.

    Each token of a word is linked to each of the other word.

    Args:
        links: `0-0 1-2`: links between words.
        sources: Tokens of each source word, by index.
        targets: Tokens of each target word, by index.
    """
    pairs = set()
    for link in links.split():
        source, target = map(int, link.split("-"))
        pairs |= {(late, early) for late in targets[target] for early in sources[source]}
    return [index for late, early in sorted(pairs) for index in (early, late)]


class WordPieces:
    """Finds the tokens of each word of a line.

    Args:
        tokenizer: What makes tokens.
        marks: Tokens of languages around those of a line.
    """

    def __init__(self, tokenizer: SubwordTokenizer, marks: LanguageTokens) -> None:
        self._tokenizer = tokenizer
        self._num_behind = {"source": len(marks.behind), "target": 0}

    def find(
        self, side: str, line: str, tokens: Sequence[int], find_words: FindWords
    ) -> list[list[int]]:
        """Returns the indices of the tokens of each word.

        Args:
            side: Source or target.
            line: The line.
            tokens: Its tokens, with tags, marks and `</s>`.
            find_words: Returns where the words of a line stand.
        """
        pieces = self._tokenizer.locate_normalized(side, line)
        # A tag and marks stand before the line's own tokens, and `</s>` and marks behind.
        num_before = len(tokens) - 1 - self._num_behind[side] - len(pieces)
        words = find_words(line)
        found: list[list[int]] = [[] for _ in words]
        for index, owner in enumerate(find_owners(pieces, words), start=num_before):
            if owner >= 0:
                found[owner].append(index)
        return found
