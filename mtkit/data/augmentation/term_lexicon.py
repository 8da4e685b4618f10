"""Terms of a corpus by its alignments: how often each has which translation.

From it comes the form in which a translation is given to a model: the most frequent one of its
stem, for which no lemmatizer is needed. So `Katzen` is given as `Katze` behind `cats`, if `cat` and
`cats` have `Katze` more often than any other form.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

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

    def _find_related(self, term: str) -> Iterable[str]:
        """Returns the terms that are forms of one, itself among them if it is known."""
        near = dict.fromkeys(each for stem in _list_stems(term) for each in self._stems[stem])
        return [each for each in near if are_forms(each, term)]


def _list_stems(term: str) -> list[str]:
    """Returns how a term may begin; two that are forms of each other have one in common."""
    letters = strip_marks(term)
    shortest = max(MIN_STEM, len(letters) - MAX_ENDING)
    return [letters, *(letters[:length] for length in range(shortest, len(letters)))]
