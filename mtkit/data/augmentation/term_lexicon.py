"""Terms of a corpus by its alignments: how often each has which translation.

From it comes the form in which a translation is given to a model: the most frequent one of its
stem, for which no lemmatizer is needed. So `Katzen` is given as `Katze` behind `cats`, if `cat` and
`cats` have `Katze` more often than any other form.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from random import Random

from mtkit.data.augmentation.aligned_terms import CommonWords
from mtkit.files import read_json, write_atomically
from mtkit.text.term_forms import MAX_ENDING, MIN_STEM, are_forms, strip_marks


class TermLexicon:
    """Terms and their translations.

    Args:
        common: Words that are too frequent to be terms.
        translations: How often each term, without capitals, is linked to which translation.
    """

    def __init__(self, common: CommonWords, translations: Mapping[str, Mapping[str, int]]) -> None:
        self.common: CommonWords = frozenset(common[0]), frozenset(common[1])
        self._translations = translations
        self._stems: defaultdict[str, list[str]] = defaultdict(list)
        for term in translations:
            for stem in _list_stems(term):
                self._stems[stem].append(term)

    def save(self, path: Path) -> None:
        """Writes the lexicon, for other processes to `load`."""
        tables = {"common": list(map(sorted, self.common)), "translations": self._translations}
        write_atomically(path, json.dumps(tables, ensure_ascii=False, sort_keys=True) + "\n")

    @classmethod
    def load(cls, path: Path) -> "TermLexicon":
        """Returns a lexicon that `save` wrote."""
        tables = read_json(path)
        return cls(tuple(tables["common"]), tables["translations"])

    def find_base(self, source: str, target: str) -> str:
        """Returns the form in which a translation is given; its own where no other is known.

        Args:
            source: A term as it stands in a source.
            target: Its translation as it stands in the target.
        """
        counts: Counter[str] = Counter()
        for term in self._find_related(source.casefold()):
            for form, count in self._translations[term].items():
                if are_forms(form, target):
                    counts[form] += count
        return min(counts, key=lambda form: (-counts[form], len(form), form), default=target)

    def invent(self, base: str, form: str, random: Random) -> tuple[str, str]:
        """Returns a translation and a form of it with another stem, which is no word as a rule.

        The stem is the beginning of one word and the end of another; endings and capitals stay.
        Forms that don't begin alike, and terms of several words, stay as they are.

        Args:
            base: The translation as it is given.
            form: As it stands in the target.
            random: Draws the words.
        """
        pairs = zip(base.lower(), form.lower(), strict=False)
        length = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        if length < MIN_STEM or " " in base + form or not self._words:
            return base, form
        first, last = random.choice(self._words), random.choice(self._words)
        stem = first[: (len(first) + 1) // 2] + last[len(last) // 2 :]
        capital = stem[0].upper() + stem[1:]

        def respell(word: str) -> str:
            return (capital if word[0].isupper() else stem) + word[length:]

        return respell(base), respell(form)

    @cached_property
    def _words(self) -> list[str]:
        """Words of the target that stems are made of, without capitals."""
        words = {
            form.casefold()
            for forms in self._translations.values()
            for form in forms
            if form.isalpha() and len(form) > MIN_STEM
        }
        return sorted(words)

    def _find_related(self, term: str) -> Iterable[str]:
        """Returns the terms that are forms of one, itself among them if it is known."""
        near = dict.fromkeys(each for stem in _list_stems(term) for each in self._stems[stem])
        return [each for each in near if are_forms(each, term)]


def _list_stems(term: str) -> list[str]:
    """Returns how a term may begin; two that are forms of each other have one in common."""
    letters = strip_marks(term)
    shortest = max(MIN_STEM, len(letters) - MAX_ENDING)
    return [letters, *(letters[:length] for length in range(shortest, len(letters)))]
