"""What a translator asks of an engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mtkit.errors import MtkitError
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Inference


@dataclass(frozen=True)
class EncodedSource:
    """One sentence to translate, in tokens.

    Attributes:
        tokens: Source tokens, closed by `</s>`.
        prefix: Target tokens that every output begins with.
        draw: Numbers that tell the sentence from others: what is sampled for it depends on them
            and the seed alone.
        span: Where its text begins and ends in the line that it is a part of, in characters.
    """

    tokens: Sequence[int]
    prefix: Sequence[int] = ()
    draw: tuple[int, ...] = ()
    span: tuple[int, int] = (0, 0)


class Engine(Protocol):
    """Something that holds a model and finds outputs with it.

    Several threads may call it: one that can do one thing at a time lets calls take turns.
    """

    @property
    def max_tokens(self) -> int | None:
        """The longest source and output the model can take, `</s>` counted; None without an end."""
        ...

    @property
    def batches_at_once(self) -> int:
        """Batches of `inference.batch_tokens` in one call: 1, unless it shares them out itself."""
        ...

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first, or as many as there are.

        Args:
            sources: What is translated together.
            settings: How to search.

        Raises:
            MtkitError: A setting that this engine can't do.
        """
        ...

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the natural log-probability of each token of each given target.

        Args:
            source_batch: Source tokens of each sentence, closed by `</s>`.
            target_batch: Its target tokens, as a search finds them.
        """
        ...


def find_limit(source: EncodedSource, settings: Inference, max_tokens: int | None) -> int:
    """Returns the maximum length of a source's output, `</s>` counted.

    Args:
        source: What is translated; a prefix longer than it counts instead.
        settings: How many more tokens an output may have.
        max_tokens: What the model can take; None without an end.

    Raises:
        MtkitError: The source or its prefix is longer than what the model can take.
    """
    limit = max(len(source.tokens), len(source.prefix)) + settings.max_extra_tokens
    if max_tokens is None:
        return max(limit, 1)
    for what, length in (("source", len(source.tokens)), ("prefix", len(source.prefix) + 1)):
        if length > max_tokens:
            raise MtkitError(
                f"a {what} of {length:,} tokens, but the model has positions for {max_tokens:,}",
                "give shorter lines, or export it again with a greater inference.max_source_tokens "
                "if it is an exported model",
            )
    return min(limit, max_tokens)
