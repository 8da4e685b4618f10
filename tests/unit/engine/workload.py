"""Random searches and scores with every option of the engine, without PyTorch.

As a program it loads the library of the given path and prints a digest of all that it finds:
`python workload.py plain.so`. Sanitizers run it.
"""

import hashlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.engine import library
from mtkit.engine.network import EngineNetwork
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.native_engine import NativeEngine
from mtkit.inference.search.bounds import NO_BOUNDS, OutputBounds
from mtkit.model.alignment_head import AlignmentHead, default_head
from mtkit.model.parameters import list_shapes
from mtkit.recipe.inference import Fusion, Inference, LengthPenalty, Sampling
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS

VOCAB = 41
SEARCHES = {
    "beam": {"beam_size": 4, "n_best": 4},
    "greedy": {"beam_size": 1},
    "power": {"beam_size": 3, "length_penalty": LengthPenalty(kind="power", alpha=1.3)},
    "exact": {"beam_size": 3, "stop_margin": 50},
    "coverage": {"beam_size": 3, "coverage_penalty": 0.4},
    "rules": {"beam_size": 3, "min_length": 4, "no_repeat_ngram": 2},
    "wide": {"beam_size": 60, "n_best": 60},
    "short": {"beam_size": 4, "n_best": 4, "max_output_tokens": 3},
    "samples": {"sampling": Sampling(seed=3), "n_best": 5},
    "top": {"sampling": Sampling(seed=3, top_k=5, top_p=0.7, temperature=0.7), "n_best": 40},
    "alignments": {"beam_size": 3, "n_best": 3, "alignments": True},
}


def make_network(
    seed: int = 0,
    *,
    vocab: int = VOCAB,
    precision: str = "fp32",
    has_source: bool = True,
    change: Callable[[str, NDArray[np.float32]], NDArray[np.float32]] = lambda _, weight: weight,
    **keys: object,
) -> tuple[EngineNetwork, Model]:
    """Returns a network of random weights, an encoder-decoder unless `has_source` is False.

    `change` gets each weight with its name, and returns what is taken for it.
    """
    section = {
        "num_encoder_layers": 2 if has_source else None,
        "num_decoder_layers": 2,
        "d_model": 24,
        "d_ff": 37,
        "num_heads": 3,
        "output_bias": True,
        **keys,
    }
    model = Model(**{key: value for key, value in section.items() if value is not None})
    objective = "translation" if has_source else "causal-lm"
    shapes = list_shapes(model, vocab, vocab, objective=objective)
    draws = np.random.default_rng(seed)
    weights = {
        name: change(
            name,
            draws.normal(
                1.0 if "norm" in name and name.endswith("weight") else 0.0,
                0.3 if len(shape) == 1 else shape[-1] ** -0.5,
                shape,
            ).astype(np.float32),
        )
        for name, shape in shapes.items()
    }
    return EngineNetwork(model, weights.__getitem__, precision, has_source=has_source), model


def make_engine(
    *seeds: int,
    num_threads: int = 3,
    fused: bool = False,
    bounds: OutputBounds = NO_BOUNDS,
    head: AlignmentHead | None = None,
    **keys: object,
) -> NativeEngine:
    """Returns an engine of random networks, one for each seed."""
    made = [make_network(seed, **keys) for seed in seeds or (0,)]
    return NativeEngine(
        [network for network, _ in made],
        [model for _, model in made],
        [head or default_head(model) for _, model in made],
        make_network(9, has_source=False)[0] if fused else None,
        num_threads=num_threads,
        bounds=bounds,
    )


def draw_sources(count: int, seed: int = 1, longest: int = 20) -> list[EncodedSource]:
    """Returns random sources of up to `longest` tokens and `</s>`."""
    draws = np.random.default_rng(seed)
    return [
        EncodedSource(
            [*draws.integers(4, VOCAB, draws.integers(1, longest)).tolist(), EOS], draw=(7, row)
        )
        for row in range(count)
    ]


def add_constraints(sources: list[EncodedSource], seed: int = 2) -> Iterator[EncodedSource]:
    """Yields sources with random prefixes, required and forbidden phrases."""
    draws = np.random.default_rng(seed)

    def phrases(most: int) -> tuple[tuple[int, ...], ...]:
        # Few different tokens, so that phrases overlap.
        drawn = [draws.integers(4, 9, draws.integers(1, 5)) for _ in range(draws.integers(most))]
        return tuple(tuple(each.tolist()) for each in drawn)

    for source in sources:
        yield replace(
            source,
            begin=tuple(draws.integers(4, VOCAB, draws.integers(3)).tolist()),
            prefix=tuple(draws.integers(4, VOCAB, draws.integers(4)).tolist()),
            required=phrases(6),
            forbidden=phrases(4),
        )


def run() -> Iterator[object]:
    """Yields what searches, scores and attention of all kinds give."""
    for precision in ("fp32", "bf16", "int8"):
        engine = make_engine(precision=precision)
        for keys in SEARCHES.values():
            yield engine.search(draw_sources(25), Inference(max_extra_tokens=8, **keys))
    engine = make_engine(norm="pre", activation="swiglu", d_key=5, d_value=7)
    for name in ("beam", "wide", "power"):
        settings = Inference(max_extra_tokens=8, **SEARCHES[name])
        yield engine.search(list(add_constraints(draw_sources(12))), settings)
    for keys in SEARCHES.values():
        settings = Inference(max_extra_tokens=6, **keys)
        yield make_engine(1, 2).search(draw_sources(12), settings)
        settings = replace_fusion(settings)
        yield make_engine(1, 2, fused=True).search(draw_sources(12), settings)
    sources = draw_sources(40)
    yield engine.score([each.tokens for each in sources], [each.tokens for each in sources[::-1]])
    for head in (None, 2):
        engine = make_engine(head=AlignmentHead(layer=1, head=head, at="input"))
        settings = Inference(beam_size=3, alignments=True)
        yield engine.search(draw_sources(9), settings)
        yield engine.attend(sources[0].tokens, [[5, 6, EOS], [7, EOS]])
    bounds = OutputBounds(length_ratio=5.0, max_repeated=6)
    for beam_size in (1, 4):
        settings = Inference(max_extra_tokens=30, beam_size=beam_size)
        yield make_engine(bounds=bounds).search(draw_sources(20), settings)
    text = make_engine(has_source=False, positions="learned", max_positions=40)
    texts = [replace(each, tokens=each.tokens[:-1], is_text=True) for each in sources]
    for name in ("beam", "greedy", "samples"):
        yield text.search(texts, Inference(max_extra_tokens=8, **SEARCHES[name]))
    yield from run_together()


def replace_fusion(settings: Inference) -> Inference:
    """Returns settings that fuse a language model."""
    return settings.model_copy(update={"fusion": Fusion(model=Path("lm"), weight=0.3)})


def run_together() -> Iterator[object]:
    """Yields what two callers at once get."""
    engine, settings = make_engine(), Inference(beam_size=3, max_extra_tokens=5)
    with ThreadPoolExecutor(2) as callers:
        yield from callers.map(
            lambda seed: engine.search(draw_sources(40, seed), settings), range(6)
        )


def cancel() -> str:
    """Interrupts a search of hours, and a score, once they have begun, as Ctrl-C does."""
    engine, sources = make_engine(norm="pre"), draw_sources(2_000)
    settings = Inference(beam_size=4, min_length=9_000, max_extra_tokens=10_000)
    tokens = [each.tokens * 20 for each in sources]
    main_thread = threading.main_thread().ident
    for call in (
        lambda: engine.search(sources, settings),
        lambda: engine.score(tokens, tokens),
    ):
        threading.Timer(0.2, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
        try:
            call()
        except KeyboardInterrupt:
            continue
        return "not cancelled"
    return "cancelled"


def main() -> None:
    """Runs it with the library of a path."""
    path = Path(sys.argv[1])
    library.library_path = lambda kind: path
    library.KINDS = ("plain",)
    assert library.choose_library() is not None, library.describe_library()
    found = [*run(), cancel()]
    assert found[-1] == "cancelled"
    print(hashlib.sha256(repr(found).encode()).hexdigest())


if __name__ == "__main__":
    main()
