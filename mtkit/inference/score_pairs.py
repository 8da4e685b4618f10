"""Scores given pairs with a translator, and skips those that it can't score."""

from collections.abc import Sequence
from typing import Protocol

from mtkit.inference.request import Request
from mtkit.inference.streams.byte_lines import answer_window
from mtkit.inference.translation import Translation


class ScoresLines(Protocol):
    """What scores requests: a `LinePipeline`."""

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns given translations, the requests' prefixes, with their scores."""
        ...


def score_pairs(lines: ScoresLines, pairs: Sequence[Request]) -> list[Translation | None]:
    """Returns given translations, the requests' prefixes, with scores; None if one is too long."""
    found: list[Translation | None] = []

    while len(found) < len(pairs):
        scored, fault = answer_window(pairs[len(found) :], lines.score, 1)
        found += [*scored, *([None] if fault is not None else [])]
    return found
