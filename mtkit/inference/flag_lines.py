"""Flags on lines' translations, with what the model knows of them."""

from dataclasses import replace
from functools import lru_cache

from mtkit.errors import MtkitError
from mtkit.evaluation.flags import FlagFinder, Found
from mtkit.inference.line import TextModel
from mtkit.inference.request import Request
from mtkit.inference.translation import Hypothesis, Translation, WordAlignment
from mtkit.recipe.flags import Flags

find_by = lru_cache(maxsize=8)(FlagFinder)
"""The finder of some thresholds, which requests share."""


class LineFlagger:
    """Flags translations.

    Args:
        model: What is known of the model.
    """

    def __init__(self, model: TextModel) -> None:
        self._model = model

    def check(self, settings: Flags) -> None:
        """Checks that translations can be flagged.

        Raises:
            MtkitError: They can't: it is no translator, or a package is missing.
        """
        if not self._model.translates:
            raise MtkitError(
                "inference.flags is for translators, and this model isn't one",
                "remove it: --set '~inference.flags'",
            )
        find_by(settings)

    def flag(self, request: Request, translation: Translation, settings: Flags) -> Translation:
        """Returns a translation with its flags.

        Args:
            request: The line.
            translation: Its translation.
            settings: Thresholds.
        """
        source, target = self._model.resolve(request)
        best = translation.candidates[0]
        _, text = self._model.tokenizer.split_tags(request.text.rstrip("\r\n"))
        found = Found(
            text,
            best.text,
            source,
            target,
            mean_log_probability=_find_mean(best),
            coverage=None if best.alignment is None else _measure_coverage(text, best.alignment),
        )
        return replace(translation, flags=find_by(settings).find(found))


def _find_mean(hypothesis: Hypothesis) -> float | None:
    """Returns the mean log-probability of a token; None where there are none."""
    num_tokens = len(hypothesis.token_ids)
    return hypothesis.log_probability / num_tokens if num_tokens else None


def _measure_coverage(line: str, alignment: WordAlignment) -> float | None:
    """Returns the share of a line's words that are linked; None without any of letters or digits.

    Args:
        line: The line.
        alignment: Its words, and which of them are linked.
    """
    words = {
        index
        for index, (start, end) in enumerate(alignment.source_words)
        if any(map(str.isalnum, line[start:end]))
    }
    linked = {source for source, _ in alignment.pairs}
    return len(words & linked) / len(words) if words else None
