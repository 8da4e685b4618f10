"""Whether a model's translations depend on what is translated beside them.

python tests/equivalence/same_translations.py --model FOLDER [--beam 4] < input.txt

Translates in batches of 1, 7 and 64 sentences, as they stand and shuffled, in fp32 or
`--precision int8`, and prints how
many lines' n-best lists differ from those of single sentences, and the greatest gap of scores.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.engines.open_torch_engine import check_generates, make_ready
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.translation import Hypothesis
from mtkit.model.folder import load_model_folder
from mtkit.recipe.inference import Inference

BATCH_SIZES = (1, 7, 64)
NEAR_TIE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """How n-best lists differ from those of sentences translated one by one.

    Attributes:
        name: How they were batched.
        num_different: Lines whose tokens or order differ.
        greatest_gap: The greatest difference between the scores of equal ranks.
    """

    name: str
    num_different: int
    greatest_gap: float


def compare_batches(
    engine: Engine, sources: Sequence[Sequence[int]], settings: Inference, *, seed: int = 1
) -> list[Comparison]:
    """Returns a comparison for each size of batch, in order and shuffled."""
    alone = _search(engine, sources, settings, 1, list(range(len(sources))))
    shuffled = list(range(len(sources)))
    random.Random(seed).shuffle(shuffled)
    comparisons = []
    for size in BATCH_SIZES:
        for name, order in (("in order", list(range(len(sources)))), ("shuffled", shuffled)):
            if size == 1 and name == "in order":
                continue
            found = _search(engine, sources, settings, size, order)
            comparisons.append(_compare(f"batches of {size}, {name}", alone, found))
    return comparisons


def _search(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    settings: Inference,
    size: int,
    order: Sequence[int],
) -> list[list[Hypothesis]]:
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for first in range(0, len(order), size):
        places = order[first : first + size]
        batch = engine.search([EncodedSource(sources[place]) for place in places], settings)
        for place, hypotheses in zip(places, batch, strict=True):
            found[place] = hypotheses
    return found


def _compare(
    name: str, alone: Sequence[Sequence[Hypothesis]], found: Sequence[Sequence[Hypothesis]]
) -> Comparison:
    num_different, greatest_gap = 0, 0.0
    for expected, hypotheses in zip(alone, found, strict=True):
        assert len(expected) == len(hypotheses)
        num_different += [h.token_ids for h in expected] != [h.token_ids for h in hypotheses]
        for one, other in zip(expected, hypotheses, strict=True):
            greatest_gap = max(greatest_gap, abs(one.score - other.score))
    return Comparison(name, num_different, greatest_gap)


def main() -> int:
    """Returns the exit code: 1 where a line differs that is no near-tie."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
    options = parser.parse_args()
    loaded = load_model_folder(Path(options.model))
    settings = loaded.settings.model_copy(
        update={"beam_size": options.beam, "n_best": options.beam, "precision": options.precision}
    )
    lines = [line.strip() for line in sys.stdin if line.strip()]
    sources = loaded.tokenizer.encode_source(lines)
    network = check_generates(loaded.model, loaded.config)
    ready = make_ready(network, settings, torch.device("cpu"))
    comparisons = compare_batches(TorchEngine(ready, "cpu"), sources, settings)
    for comparison in comparisons:
        print(
            f"{comparison.name:26} {comparison.num_different:4} of {len(lines):,} lines differ, "
            f"greatest gap of scores {comparison.greatest_gap:.1e}"
        )
    return int(any(comparison.greatest_gap > NEAR_TIE for comparison in comparisons))


if __name__ == "__main__":
    sys.exit(main())
