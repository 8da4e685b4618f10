"""The text of one side, hypotheses or references, with its properties."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_SPACED_MARK = re.compile(r" [,.，。、](?= |$)", re.MULTILINE)
_GLUED_MARK = re.compile(r"[^\W\d_][,.](?= |$)|\w[，。、]", re.MULTILINE)
_MIN_MARKS = 5
UNSPACED = {
    "CJK": "zh",
    "HIRAGANA": "ja-mecab",
    "KATAKANA": "ja-mecab",
    "THAI": "char",
    "LAO": "char",
    "KHMER": "char",
    "MYANMAR": "char",
    "TIBETAN": "char",
}
"""Scripts without spaces between words, by the first word of their letters' names in Unicode."""


@dataclass(frozen=True)
class Remark:
    """An observation about the text.

    Attributes:
        kind: One word, such as `tokenized`, for programs.
        text: The finding with numbers, its possible meaning, and advice.
    """

    kind: str
    text: str


def of_all(count: int, total: int) -> str:
    """Returns a count and the total, in words."""
    return f"{count:,} of {total:,}"


class Side:
    """Lines and their common properties, computed on demand.

    `name` is hypotheses, references or sources. `raw` are the given lines; `lines` have no space
    around them, and `text` joins these.
    """

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        """Stores one sentence per line."""
        self.name, self.raw = name, lines
        self.lines = [line.strip() for line in lines]
        self.text = "\n".join(self.lines)

    @cached_property
    def is_tokenized(self) -> bool | None:
        """Whether spaces precede commas and full stops; None if the text is too short."""
        spaced = len(_SPACED_MARK.findall(self.text))
        glued = len(_GLUED_MARK.findall(self.text))
        if spaced + glued < _MIN_MARKS or 0.4 * glued < spaced < 2.5 * glued:
            return None
        return spaced > glued

    @cached_property
    def letters(self) -> Counter[str]:
        """Number of letters by script."""
        scripts: Counter[str] = Counter()
        for character, count in Counter(self.text).items():
            if character.isalpha():
                scripts[unicodedata.name(character, "?").split()[0]] += count
        return scripts

    @cached_property
    def num_letters(self) -> int:
        """Number of letters."""
        return sum(self.letters.values())

    def share_of(self, scripts: Iterable[str]) -> float:
        """Returns the share of letters in these scripts."""
        return sum(self.letters[script] for script in scripts) / max(1, self.num_letters)

    @cached_property
    def words(self) -> Counter[str]:
        """Lower-cased words of only letters, with their counts."""
        return Counter(word for word in self.text.lower().split() if word.isalpha())

    @cached_property
    def sets(self) -> list[frozenset[str]]:
        """Each line's words, or its characters if words have no spaces between them."""
        apart = self.share_of(UNSPACED) < 0.3
        return [frozenset(line.split() if apart else line) for line in self.lines]

    @cached_property
    def share_with_capitals(self) -> float:
        """Share of lines with a capital letter."""
        return sum(line != line.lower() for line in self.lines) / len(self.lines)

    def describe(self, count: int) -> str:
        """Returns a count of the lines, in words."""
        return f"{of_all(count, len(self.lines))} {self.name}"

    def count(self, pattern: re.Pattern[str]) -> int:
        """Returns the number of lines that match a pattern."""
        return sum(map(bool, map(pattern.search, self.lines))) if pattern.search(self.text) else 0
