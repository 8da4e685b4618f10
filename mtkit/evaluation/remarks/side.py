"""One side's text, hypotheses or references, and what can be asked about it."""

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
    """Something that was seen in the text.

    Attributes:
        kind: One word for it, such as `tokenized`; for programs.
        text: The finding, with numbers, its possible meaning, and advice.
    """

    kind: str
    text: str


def of_all(count: int, total: int) -> str:
    """Returns a count of all, in words."""
    return f"{count:,} of {total:,}"


class Side:
    """Lines, and what they have in common; worked out when it is first asked for.

    Attributes:
        name: What they are: hypotheses, references or sources.
        raw: The lines as given.
        lines: The lines without space around them.
        text: All of them.
    """

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        """Takes one sentence a line."""
        self.name, self.raw = name, lines
        self.lines = [line.strip() for line in lines]
        self.text = "\n".join(self.lines)

    @cached_property
    def is_tokenized(self) -> bool | None:
        """Whether spaces stand before commas and full stops; None where the text is too short."""
        spaced = len(_SPACED_MARK.findall(self.text))
        glued = len(_GLUED_MARK.findall(self.text))
        if spaced + glued < _MIN_MARKS or 0.4 * glued < spaced < 2.5 * glued:
            return None
        return spaced > glued

    @cached_property
    def letters(self) -> Counter[str]:
        """Number of letters of each script."""
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
        """Returns the share of the letters that is in some scripts."""
        return sum(self.letters[script] for script in scripts) / max(1, self.num_letters)

    @cached_property
    def words(self) -> Counter[str]:
        """Occurrences of each word of letters alone, in lower case."""
        return Counter(word for word in self.text.lower().split() if word.isalpha())

    @cached_property
    def sets(self) -> list[frozenset[str]]:
        """Each line's words, or its characters where no spaces part words."""
        apart = self.share_of(UNSPACED) < 0.3
        return [frozenset(line.split() if apart else line) for line in self.lines]

    @cached_property
    def share_with_capitals(self) -> float:
        """Share of the lines that have a capital letter."""
        return sum(line != line.lower() for line in self.lines) / len(self.lines)

    def describe(self, count: int) -> str:
        """Returns a count of the lines, in words."""
        return f"{of_all(count, len(self.lines))} {self.name}"

    def count(self, pattern: re.Pattern[str]) -> int:
        """Returns the number of lines that a pattern is found in."""
        return sum(map(bool, map(pattern.search, self.lines))) if pattern.search(self.text) else 0
