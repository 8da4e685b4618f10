"""The hypotheses of a line's parts, joined to those of the line."""

from collections.abc import Iterable, Sequence
from itertools import chain

from mtkit.inference.hypothesis import Hypothesis

_WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my", "yue", "bo", "dz")
"""Languages that put no space between sentences."""


def join_parts(
    of_parts: Sequence[Sequence[Hypothesis]], target_language: str
) -> tuple[Hypothesis, ...]:
    """Returns a line's hypotheses: the k-th is made of each part's k-th, while every part has one.

    Args:
        of_parts: Each part's decoded hypotheses, in the order of their ranks; at least one part.
        target_language: As `join_texts` takes it.
    """
    if len(of_parts) == 1:
        return tuple(of_parts[0])
    return tuple(_join(parts, target_language) for parts in zip(*of_parts, strict=False))


def join_texts(texts: Iterable[str], target_language: str) -> str:
    """Returns the translations of a line's parts as one line.

    Args:
        texts: In order; empty ones are left out.
        target_language: Its code, which may name a script or country too: `zh`, `zh_Hans`, `pt-BR`.
    """
    code = target_language.lower().replace("_", "-").split("-")[0]
    return ("" if code in _WITHOUT_SPACES else " ").join(filter(None, texts))


def _join(parts: Sequence[Hypothesis], target_language: str) -> Hypothesis:
    return Hypothesis(
        token_ids=tuple(chain.from_iterable(part.token_ids for part in parts)),
        log_probability=sum(part.log_probability for part in parts),
        score=sum(part.score for part in parts),
        is_finished=all(part.is_finished for part in parts),
        token_log_probabilities=tuple(
            chain.from_iterable(part.token_log_probabilities for part in parts)
        ),
        text=join_texts([part.text for part in parts], target_language),
        pieces=tuple(chain.from_iterable(part.pieces for part in parts)),
    )
