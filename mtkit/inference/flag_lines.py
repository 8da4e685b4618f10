"""Flags lines' translations, with what the model reports about them."""

from dataclasses import replace
from functools import lru_cache

from mtkit.errors import MtkitError
from mtkit.evaluation.flags import FlagFinder, ScoredLine
from mtkit.inference.line import TextModel
from mtkit.inference.request import Request
from mtkit.inference.translation import Translation, WordAlignment
from mtkit.recipe.flags import Flags

find_by = lru_cache(maxsize=8)(FlagFinder)
"""Returns a finder for thresholds; requests share it."""


class LineFlagger:
    """Flags translations."""

    def __init__(self, model: TextModel) -> None:
        self._model = model

    def check(self, settings: Flags) -> None:
        """Raises an MtkitError if the model isn't a translator or a package is missing."""
        if not self._model.translates:
            raise MtkitError(
                "inference.flags is for translators, and this model isn't one",
                "remove it: --set '~inference.flags'",
            )
        find_by(settings)

    def flag(self, request: Request, translation: Translation, settings: Flags) -> Translation:
        """Returns a translation with its flags."""
        source, target = self._model.resolve(request)
        best = translation.candidates[0]
        line = request.text.rstrip("\r\n")
        _, text = self._model.tokenizer.split_tags(line)
        found = ScoredLine(
            text,
            best.text,
            source,
            target,
            mean_log_probability=best.mean_log_probability,
            coverage=None if best.alignment is None else measure_coverage(line, best.alignment),
        )
        return replace(translation, flags=find_by(settings).find(found))


def measure_coverage(line: str, alignment: WordAlignment) -> float | None:
    """Returns the share of a line's words that are linked; None without letters or digits.

    `line` has its tags, as the alignment's spans count them.
    """
    words = {
        index
        for index, (start, end) in enumerate(alignment.source_words)
        if any(map(str.isalnum, line[start:end]))
    }
    linked = {source for source, _ in alignment.pairs}
    return len(words & linked) / len(words) if words else None
