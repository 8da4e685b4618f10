"""Sources that name translations of some of their words, which their targets have in some form."""

from random import Random

from mtkit.recipe.augment_terms import Terms
from mtkit.text.glossary import Glossary, read_glossary
from mtkit.text.term_annotation import annotate, has_symbols
from mtkit.text.term_forms import find_uses


class TermAnnotator:
    """Annotates sources by a dictionary.

    Args:
        settings: The recipe's section.

    Raises:
        MtkitError: The dictionary can't be read.
    """

    def __init__(self, settings: Terms) -> None:
        read = read_glossary(settings.dictionary)
        self._dictionary = Glossary([term for term in read.terms if not term.is_forbidden])
        self._max_terms = settings.max_terms

    def annotate(self, source: str, target: str, random: Random) -> str | None:
        """Returns a source with translations that its target has; None where there are none.

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
        number = random.randint(1, min(len(there), self._max_terms))
        return annotate(source, random.sample(there, number))
