"""Which training pairs are left out, and how many by what reason."""

from collections import Counter
from collections.abc import Iterable, Iterator

from mtkit.data.corpora import Pair


def drop_blank(pairs: Iterable[Pair], counts: Counter[str]) -> Iterator[Pair]:
    """Yields the pairs that have text on both sides; counts the others under `blank`."""
    for source, target in pairs:
        if source.strip() and target.strip():
            yield source, target
        else:
            counts["blank"] += 1


def is_too_long(source_tokens: list[int], target_tokens: list[int], max_tokens: int) -> bool:
    """Returns whether either side, `</s>` counted, is longer than `max_tokens`."""
    return max(len(source_tokens), len(target_tokens)) > max_tokens
