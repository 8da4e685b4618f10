"""Compares the C++ engine with PyTorch's search on real text, for each kind of search.

    python benchmarks/engine_equality.py MODEL captions.en --precision fp32 --precision int8

For each search it prints how many lines have the same list of candidates, how many differ
only by near-ties, how many by more, and the largest difference of a score between equal candidates.
In int8 PyTorch multiplies with the same kernel, but has its own attention, norms and search.
"""

import argparse
import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mtkit.inference.engines.engine import EncodedSource, search_in_batches
from mtkit.inference.engines.native_engine import open_native_engine
from mtkit.inference.engines.open_torch_engine import open_torch_engine
from mtkit.inference.translation import Hypothesis
from mtkit.model.config import open_model_folder
from mtkit.recipe.inference import Inference, LengthPenalty, Sampling

_NEAR_TIE = 1e-3
_SEARCHES: dict[str, dict[str, Any]] = {
    "beam of 4": {"beam_size": 4, "n_best": 4},
    "greedy": {"beam_size": 1},
    "power penalty": {"beam_size": 4, "length_penalty": LengthPenalty(kind="power", alpha=1.0)},
    "coverage": {"beam_size": 4, "coverage_penalty": 0.2},
    "rules": {"beam_size": 4, "min_length": 10, "no_repeat_ngram": 3},
    "samples": {"sampling": Sampling(top_k=20, top_p=0.9), "n_best": 2},
    "prefix": {"beam_size": 4},
    "phrases": {"beam_size": 4},
}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path, help="may be .gz")
    parser.add_argument("--lines", type=int, default=1_000)
    parser.add_argument("--precision", action="append", choices=("fp32", "bf16", "int8"))
    options = parser.parse_args()
    opened = open_model_folder(options.model)
    content = options.source.read_bytes()
    text = gzip.decompress(content) if options.source.suffix == ".gz" else content
    lines = [line for line in text.decode().split("\n") if line.strip()][: options.lines]
    tokens = opened.tokenizer.encode_source(lines)
    phrase = opened.tokenizer.encode_target(["der"])[0][:-1]
    torch.set_num_threads(1)
    print("| precision | search | lines | same | near-ties | others | largest difference |")
    print("|---|---|---|---|---|---|---|")
    for precision in options.precision or ["fp32"]:
        for name, keys in _SEARCHES.items():
            settings = Inference(precision=precision, **keys)
            sources = [EncodedSource(each, draw=(row,)) for row, each in enumerate(tokens)]
            if name == "prefix":
                sources = [replace(source, prefix=tuple(phrase)) for source in sources]
            if name == "phrases":
                sources = [replace(source, required=(tuple(phrase),)) for source in sources]
            ours = open_native_engine([options.model], settings, "cpu")
            assert ours is not None, "this CPU's library is compiled"
            theirs = open_torch_engine([options.model], settings, "cpu")
            found, expected = (
                search_in_batches(engine, sources, settings) for engine in (ours, theirs)
            )
            print(
                f"| {precision} | {name} | {len(lines)} | {compare(found, expected)} |", flush=True
            )


def compare(found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]) -> str:
    """Returns the cells of a row."""
    num_same = num_near = 0
    largest = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        if [each.token_ids for each in ours] == [each.token_ids for each in theirs]:
            num_same += 1
            gaps = [abs(a.score - b.score) for a, b in zip(ours, theirs, strict=True)]
            largest = max(largest, *gaps)
        elif abs(ours[0].score - theirs[0].score) < _NEAR_TIE:
            num_near += 1
    num_others = len(found) - num_same - num_near
    return f"{num_same} | {num_near} | {num_others} | {largest:.1e}"


if __name__ == "__main__":
    main()
