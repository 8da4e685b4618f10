"""Sources that name translations of some of their words, which their targets have in some form."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from mtkit.data.augmentation.aligned_terms import LinkedPair, LinkedTerm, find_linked_terms
from mtkit.data.augmentation.term_lexicon import TermLexicon
from mtkit.recipe.augment import Terms
from mtkit.text.glossary import Glossary, read_glossary
from mtkit.text.term_forms import annotate, find_uses, has_symbols
from mtkit.text.words import Span, replace_spans


class TermAnnotator:
    """Annotates sources by a dictionary.

    Args:
        dictionary: Its file.
        settings: How many terms an example has, and how many are left out of its source.

    Raises:
        MtkitError: The dictionary can't be read.
    """

    def __init__(self, dictionary: Path, settings: Terms) -> None:
        read = read_glossary(dictionary)
        self._dictionary = Glossary([term for term in read.terms if not term.is_forbidden])
        self._settings = settings

    def annotate(self, source: str, target: str, random: Random) -> tuple[str, str] | None:
        """Returns a source with translations that its target has, and that; None without any.

        Args:
            source: A source.
            target: Its target.
            random: Decides how many words are annotated, and which.
        """
        found = self._dictionary.find(source)
        if not found or has_symbols(source + target):
            return None
        terms = [(each.span, each.terms[0]) for each in found]
        uses = find_uses(target, [(term.target, term.is_case_sensitive) for _, term in terms])
        there = [
            (span, term.target)
            for (span, term), use in zip(terms, uses, strict=True)
            if use.form != "missed"
        ]
        if not there:
            return None
        number = random.randint(1, min(len(there), self._settings.max_terms))
        chosen = random.sample(there, number)
        masked = _choose_masked(chosen, self._settings.masked, random)
        return annotate(source, chosen, masked), target


class AlignedTermAnnotator:
    """Annotates sources by the words that theirs are aligned to, in the most frequent form.

    Args:
        lexicon: The terms of the corpora.
        settings: How many terms an example has, and how many are left out of its source.
    """

    def __init__(self, lexicon: TermLexicon, settings: Terms) -> None:
        self._lexicon, self._settings = lexicon, settings

    def annotate(self, pair: LinkedPair, random: Random) -> tuple[str, str] | None:
        """Returns a source with translations of some of its terms, and its target.

        None where it has none.

        Args:
            pair: The pair.
            random: Decides how many terms are annotated, and which.
        """
        if has_symbols(pair.source + pair.target):
            return None
        terms = find_linked_terms(pair, self._lexicon.common)
        if not terms:
            return None
        # A run of words is chosen less often than each of them.
        drawn = sorted(terms, key=lambda term: random.random() * term.num_words)
        number = random.randint(1, self._settings.max_terms)
        chosen: list[LinkedTerm] = []
        for term in drawn:
            if len(chosen) < number and not any(_overlap(term, other) for other in chosen):
                chosen.append(term)
        given: list[tuple[Span, str]] = []
        forms: list[tuple[Span, str]] = []
        for term in chosen:
            form = pair.target[slice(*term.target)]
            base = self._lexicon.find_base(pair.source[slice(*term.source)], form)
            if self._settings.invented and random.random() < self._settings.invented:
                base, form = self._lexicon.invent(base, form, random)
            given.append((term.source, base))
            forms.append((term.target, form))
        masked = _choose_masked(given, self._settings.masked, random)
        return annotate(pair.source, given, masked), replace_spans(pair.target, sorted(forms))


def _choose_masked(terms: Sequence[tuple[Span, str]], share: float, random: Random) -> list[Span]:
    """Returns those of the terms that are left out of the source."""
    return [span for span, _ in terms if share and random.random() < share]


def _overlap(first: LinkedTerm, second: LinkedTerm) -> bool:
    return first.source[0] < second.source[1] and second.source[0] < first.source[1]
