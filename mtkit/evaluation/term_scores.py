"""How translations use the terms of a glossary: accuracy and consistency."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtkit.errors import MtkitError
from mtkit.evaluation.statistics import Statistics
from mtkit.files import digest_file
from mtkit.text.glossary import Glossary, Term, read_glossary
from mtkit.text.term_forms import find_uses
from mtkit.version import __version__


class TermScorer:
    """Scores systems by the terms of a glossary in a test set's sources.

    Args:
        path: The glossary.
        sources: The source sentences; None is an error.
        documents: Each sentence's document, or None: all are one.

    Attributes:
        num_occurrences: Occurrences of its terms; without any there are no scores.
    """

    def __init__(
        self, path: Path, sources: Sequence[str] | None, documents: Sequence[str] | None
    ) -> None:
        if sources is None:
            raise MtkitError(
                "terms are found in the source text, and there is none",
                "give it with --source FILE",
            )
        read = read_glossary(path)
        self._others = defaultdict[tuple[str, bool], list[Term]](list)
        for term in read.others:
            self._others[term.key].append(term)
        found = map(Glossary(read.terms).find, sources)
        self._occurrences = [
            [term for each in of_sentence for term in each.terms if not term.is_forbidden]
            for of_sentence in found
        ]
        self._documents = documents if documents is not None else [""] * len(sources)
        self.num_occurrences = sum(map(len, self._occurrences))
        self._signature = (
            f"glossary:{digest_file(path)[:12]}|occurrences:{self.num_occurrences}"
            f"|version:mtkit-{__version__}"
        )

    def measure(self, hypotheses: Sequence[str]) -> list[Statistics]:
        """Returns accuracy and consistency of a system, in percent of occurrences.

        Accuracy: the glossary's translation is used, also inflected; a word counts for one
        occurrence only. Consistency: the translation is the one that is most frequent in the
        document for this term, among all that the glossary has for it; an occurrence with none of
        these counts as inconsistent.
        """
        used = list(map(self._find_translations, self._occurrences, hypotheses))
        counts: defaultdict[tuple[str, Term], Counter[str]] = defaultdict(Counter)
        for document, terms, targets in zip(self._documents, self._occurrences, used, strict=True):
            for term, target in zip(terms, targets, strict=True):
                counts[document, term][target] += bool(target)
        commonest = {key: each.most_common(1)[0][0] for key, each in counts.items()}
        rows = np.zeros((len(used), 3), np.int64)
        for row, document, terms, targets in zip(
            rows, self._documents, self._occurrences, used, strict=True
        ):
            row[2] = len(terms)
            for term, target in zip(terms, targets, strict=True):
                row[0] += target == term.target
                row[1] += bool(target) and target == commonest[document, term]
        return [
            Statistics.of("accuracy", name, self._signature, rows[:, [column, 2]])
            for column, name in enumerate(("term accuracy", "term consistency"))
        ]

    def _find_translations(self, terms: Sequence[Term], hypothesis: str) -> list[str]:
        """Returns which translation of each term a sentence has; empty for none."""
        found = [""] * len(terms)
        others = [
            (index, other)
            for index, term in enumerate(terms)
            for other in self._others.get(term.key, ())
        ]
        # The glossary's own translations come first, so that no other takes their words.
        for translations in (list(enumerate(terms)), others):
            asked = [(index, term) for index, term in translations if not found[index]]
            targets = [(term.target, term.is_case_sensitive) for _, term in asked]
            for (index, term), use in zip(asked, find_uses(hypothesis, targets), strict=True):
                if use.form != "missed":
                    found[index] = found[index] or term.target
        return found
