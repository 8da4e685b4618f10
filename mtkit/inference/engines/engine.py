"""What a translator asks of an engine."""

from collections.abc import Sequence
from typing import Protocol

from mtkit.inference.search.hypothesis import Hypothesis
from mtkit.recipe.inference import Inference


class Engine(Protocol):
    """Something that holds a model and finds outputs with it."""

    @property
    def max_source_tokens(self) -> int | None:
        """The longest source the model can read, `</s>` counted; None where none is too long."""
        ...

    def search(
        self, source_batch: Sequence[Sequence[int]], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first; one where `beam_size` is 1.

        Args:
            source_batch: Source tokens of each sentence, closed by `</s>`.
            settings: How to search.
        """
        ...
