"""Which signs at the edges of a run of target atoms belong to the element that the run is for."""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from mtkit.documents.atoms import SignKind
from mtkit.documents.document import Span

_BEFORE: frozenset[SignKind] = frozenset(("open", "quote"))
"""Signs that may belong to the word behind them."""
_BEHIND: frozenset[SignKind] = frozenset(("end", "pause", "quote", "close"))
"""Signs that may belong to the word before them."""

Tells = Callable[[int], bool]


class SignEdges:
    """Moves the edges of runs across signs, so that these are where the source has them.

    Args:
        source: What kind of sign each source atom is.
        target: The same of the target's.
    """

    def __init__(self, source: Sequence[SignKind], target: Sequence[SignKind]) -> None:
        self._source, self._target = source, target
        self._has_signs = any(source) and any(target)

    def is_of_signs(self, words: Span) -> bool:
        """Returns whether an element has signs alone."""
        return not _has_word(self._source, words)

    def settle(self, words: Span, run: Span, is_free: Tells) -> Span:
        """Returns a run with the signs at its edges that belong to it.

        A sign beside the run is taken in where the element has one of its kind at that edge and the
        run lacks it. One at the run's edge is left out where the element has none there, and the
        text beside the element has one of its kind. Elements and runs of signs alone stay.

        Args:
            words: The element's source atoms.
            run: The target atoms that it has so far.
            is_free: Tells of a target atom whether the run may take it.
        """
        start, end = run
        beside = (max(0, start - 1), start, end - 1, min(end, len(self._target) - 1))
        if not any(self._target[index] for index in beside):
            return run
        if not (
            self._has_signs and _has_word(self._source, words) and _has_word(self._target, run)
        ):
            return run
        (first, last), (start, end) = words, run
        num_source, num_target = len(self._source), len(self._target)
        before = _count_moved(
            _read(self._source, range(first, last), _BEFORE),
            _read(self._source, range(first - 1, -1, -1), _BEFORE),
            _read(self._target, range(start, end), _BEFORE),
            _read(self._target, takewhile(is_free, range(start - 1, -1, -1)), _BEFORE),
        )
        behind = _count_moved(
            _read(self._source, range(last - 1, first - 1, -1), _BEHIND),
            _read(self._source, range(last, num_source), _BEHIND),
            _read(self._target, range(end - 1, start - 1, -1), _BEHIND),
            _read(self._target, takewhile(is_free, range(end, num_target)), _BEHIND),
        )
        return start - before, end + behind


def _has_word(kinds: Sequence[SignKind], atoms: Span) -> bool:
    return any(not kinds[index] for index in range(*atoms))


def _read(
    kinds: Sequence[SignKind], indices: Iterable[int], belonging: frozenset[SignKind]
) -> list[SignKind]:
    """Returns the signs that come first at these indices."""
    return list(takewhile(belonging.__contains__, (kinds[index] for index in indices)))


def _count_moved(
    inside: list[SignKind], beside: list[SignKind], held: list[SignKind], following: list[SignKind]
) -> int:
    """Returns how many signs an edge moves out across; below 0, how many it moves in across.

    Args:
        inside: Signs at the edge of the element, from the edge in.
        beside: Signs outside of it, from the edge out.
        held: Signs at the edge of the run, from the edge in.
        following: Free signs outside of it, from the edge out.
    """
    wanted, has = inside[::-1], held[::-1]
    if has == wanted[: len(has)]:
        lacking = zip(wanted[len(has) :], following, strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], lacking)))
    num_left = 0
    while len(held) - num_left > len(inside) and held[num_left] in beside:
        num_left += 1
    return -num_left
