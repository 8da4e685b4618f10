"""However many sentences, searched by an engine in batches of like length."""

from collections.abc import Sequence

from mtkit.inference.batching import make_batches
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.hypothesis import Hypothesis
from mtkit.recipe.inference import Inference


def search_in_batches(
    engine: Engine, sources: Sequence[EncodedSource], settings: Inference
) -> list[list[Hypothesis]]:
    """Returns each source's hypotheses, as the engine finds them.

    Args:
        engine: What searches.
        sources: However many.
        settings: How to search; `batch_tokens` bounds what is searched together.

    Raises:
        MtkitError: What the engine raises.
    """
    found: list[list[Hypothesis]] = [[] for _ in sources]
    batch_tokens = settings.batch_tokens * engine.batches_at_once
    for batch in make_batches([len(source.tokens) for source in sources], batch_tokens):
        hypotheses = engine.search([sources[index] for index in batch], settings)
        for index, of_source in zip(batch, hypotheses, strict=True):
            found[index] = of_source
    return found
