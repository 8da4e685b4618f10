"""What translates the corpora that name a translator, as a protocol: models run above `data`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.executor import WorkerNeeds
from mtkit.recipe.corpora import TranslatedCorpus


@dataclass(frozen=True)
class TeacherLine:
    """A line to translate.

    Attributes:
        number: Its number in the file, from 1.
        reference: Its translation by a human, where the corpus has one.
    """

    number: int
    text: str
    reference: str = ""


@dataclass(frozen=True)
class Translated:
    """The translations of some lines.

    Attributes:
        texts: The translation of each line.
        reasons: Why each is dropped; empty strings for those that stay.
        scores: Dual cross-entropy of each, 0 to 1, NaN if not requested, [lines].
        probabilities: Mean natural log-probability of each one's tokens, NaN if unknown, [lines].
        summary: Requests so far to a server or a large language model, and their cost.
    """

    texts: Sequence[str]
    reasons: Sequence[str]
    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    summary: str = ""


TranslateLines = Callable[[Sequence[TeacherLine]], Translated]


class Teachers(Protocol):
    """Translators of corpora; picklable, because each worker opens its own."""

    def is_ready(self, corpus: TranslatedCorpus) -> bool:
        """Checks that the models of a corpus exist, or have existed for the run's translations."""
        ...

    def are_trained_first(self, corpus: TranslatedCorpus) -> bool:
        """Checks that `mtkit run` must first train a model of a corpus."""
        ...

    def check(self, corpus: TranslatedCorpus, *, are_trained_first: bool = False) -> None:
        """Checks, before work starts, that the models of a corpus can translate it.

        Models that aren't trained yet are an error unless they `are_trained_first`.
        """
        ...

    def describe(self, corpus: TranslatedCorpus) -> dict[str, Any]:
        """Returns names, digests and licences of the models of a corpus."""
        ...

    def open(self, corpus: TranslatedCorpus) -> TranslateLines:
        """Returns what translates a corpus's lines."""
        ...

    def needs(self, corpus: TranslatedCorpus) -> WorkerNeeds:
        """Returns what a worker that translates a corpus needs."""
        ...
