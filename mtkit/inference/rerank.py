"""The order of a part's hypotheses, between the search and the joining of parts."""

from collections.abc import Callable

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.hypothesis import Hypothesis

Reranker = Callable[[EncodedSource, list[Hypothesis]], list[Hypothesis]]
"""Takes a part and its decoded hypotheses, best first; returns them in the order that is wanted.

The first of what it returns is the translation. It may leave some out, but not all.
"""


def keep_order(source: EncodedSource, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Returns hypotheses as the search ranks them."""
    del source
    return hypotheses
