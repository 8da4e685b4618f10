"""Searches, scores and model folders that nobody asks for: errors or results, no crash, no hang.

`python fuzz.py 3600 0` runs for an hour from seed 0, and prints the seed of each case before it.
"""

import faulthandler
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from mtkit.engine import search
from mtkit.engine.network import EngineNetwork
from mtkit.engine.search import Member, Request
from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.native_engine import NativeEngine, open_native_engine
from mtkit.model.alignment_head import default_head
from mtkit.model.config import CONFIG_FILE, WEIGHTS_FILE, ModelConfig
from mtkit.model.parameters import list_shapes
from mtkit.recipe.inference import Inference, LengthPenalty, Sampling
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS

ALLOWED = (MtkitError, IndexError, MemoryError)
_MAX_SECONDS_OF_A_CASE = 120
_ODD_TOKENS = (-(2**63), -(2**70), -1, 0, 1, 2, EOS, 2**31, 2**62, 2**70)


class Draw(random.Random):
    """Random choices of a case."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.has_odd_tokens = self.random() < 0.2


def draw_model(draw: Draw, *, has_source: bool) -> Model:
    """Returns a network of an odd shape."""
    heads = draw.choice([1, 1, 2, 3, 7])
    width = 2 * draw.randint(1, 20)
    keys = {
        "num_decoder_layers": draw.choice([1, 1, 2, 3]),
        "d_model": width,
        "num_heads": heads,
        "d_key": draw.choice([1, 2, 5, 16, 17]),
        "d_value": draw.choice([1, 2, 5, 16, 33]),
        "d_ff": draw.choice([1, 3, 16, 61]),
        "norm": draw.choice(["pre", "post"]),
        "activation": draw.choice(["relu", "gelu", "gelu_tanh", "silu", "swiglu"]),
        "output_bias": draw.random() < 0.5,
        "embedding_norm": draw.random() < 0.3,
        "tied_embeddings": draw.choice(["none", "decoder", "three-way"]),
    }
    if has_source:
        keys["num_encoder_layers"] = draw.choice([1, 1, 2])
    elif keys["tied_embeddings"] == "decoder":
        keys["tied_embeddings"] = "three-way"
    if draw.random() < 0.4:
        keys |= {"positions": "learned", "max_positions": draw.choice([8, 9, 40])}
    return Model(**keys)


def draw_weights(draw: Draw, model: Model, vocab: int, objective: str) -> dict[str, np.ndarray]:
    """Returns random weights, of which some aren't finite, or huge or tiny."""
    numbers = np.random.default_rng(draw.randrange(2**32))
    scale = draw.choice([1.0, 1.0, 1.0, 1e-30, 1e-42, 1e5, 1e30])
    weights = {
        name: (scale * numbers.normal(size=shape)).astype(np.float32)
        for name, shape in list_shapes(model, vocab, vocab, objective=objective).items()
    }
    if draw.random() < 0.3:
        damaged = weights[draw.choice(sorted(weights))].reshape(-1)
        count = draw.choice([1, len(damaged)])
        damaged[:count] = draw.choice([np.nan, np.inf, -np.inf, 3e38])
    return weights


def draw_tokens(draw: Draw, vocab: int, longest: int) -> list[int]:
    """Returns tokens; where a case has odd tokens, one in ten lists has one."""
    tokens = [draw.randrange(vocab) for _ in range(draw.choice([0, 1, 2, longest]))]
    if draw.has_odd_tokens and tokens and draw.random() < 0.1:
        tokens[draw.randrange(len(tokens))] = draw.choice([*_ODD_TOKENS, vocab, vocab + 1])
    return tokens


def draw_phrases(draw: Draw, vocab: int) -> tuple[tuple[int, ...], ...]:
    """Returns phrases; few, many or empty ones."""
    count = draw.choice([0, 0, 0, 1, 3, 60])
    return tuple(tuple(draw_tokens(draw, vocab, draw.choice([3, 40]))) for _ in range(count))


def draw_settings(draw: Draw) -> Inference:
    """Returns settings at their bounds or between."""
    keys: dict[str, object] = {
        "beam_size": draw.choice([1, 1, 2, 4, 40, 1000]),
        "length_penalty": LengthPenalty(
            kind=draw.choice(["gnmt", "power"]), alpha=draw.choice([0.0, 0.6, 10.0])
        ),
        "stop_margin": draw.choice([0, 5, 100_000]),
        "min_length": draw.choice([0, 0, 3, 100_000]),
        "no_repeat_ngram": draw.choice([None, None, 1, 2, 100]),
        "max_extra_tokens": draw.choice([0, 1, 5, 20]),
        "max_output_tokens": draw.choice([None, None, 1, 2, 7]),
        "coverage_penalty": draw.choice([0.0, 0.0, 0.4, 1000.0]),
        "alignments": draw.random() < 0.2,
    }
    keys["n_best"] = draw.choice([1, 1, keys["beam_size"]])
    if draw.random() < 0.25:
        keys |= {"n_best": draw.choice([1, 3, 1000]), "coverage_penalty": 0.0}
        keys["sampling"] = Sampling(
            temperature=draw.choice([0.001, 1.0, 1000.0]),
            top_k=draw.choice([None, 1, 5, 10_000]),
            top_p=draw.choice([1e-9, 0.5, 1.0]),
            epsilon=draw.choice([0.0, 0.02, 0.99]),
        )
    return Inference(**keys)


def search_oddly(seed: int) -> str:
    """Returns what became of a random search, score or attention."""
    draw = Draw(seed)
    vocab = draw.choice([5, 5, 6, 17, 70])
    has_source = draw.random() < 0.8
    objective = "translation" if has_source else "causal-lm"
    model = draw_model(draw, has_source=has_source)
    networks = []
    for _ in range(draw.choice([1, 1, 1, 2])):
        weights = draw_weights(draw, model, vocab, objective)
        precision = draw.choice(["fp32", "bf16", "int8"])
        networks.append(EngineNetwork(model, weights.__getitem__, precision, has_source=has_source))
    models = [model] * len(networks)
    engine = NativeEngine(
        networks, models, list(map(default_head, models)), num_threads=draw.choice([1, 2, 9])
    )
    settings = draw_settings(draw)
    width = max(settings.beam_size, settings.n_best)
    count = draw.choice([0, 1, 2]) if width > 40 else draw.choice([0, 1, 2, 40, 40])
    if width == 1 and draw.random() < 0.1:
        count = 3_000
    sources = [
        EncodedSource(
            draw_tokens(draw, vocab, 20)
            + [EOS] * (not draw.has_odd_tokens or draw.random() < 0.99),
            draw=(row,),
            is_text=not has_source,
            begin=draw_tokens(draw, vocab, 3) if has_source and draw.random() < 0.1 else (),
            prefix=draw_tokens(draw, vocab, 30) if draw.random() < 0.1 else (),
            required=draw_phrases(draw, vocab) if count < 99 and draw.random() < 0.1 else (),
            forbidden=draw_phrases(draw, vocab) if count < 99 and draw.random() < 0.1 else (),
        )
        for row in range(count)
    ]
    try:
        if draw.random() < 0.2:
            targets = [draw_tokens(draw, vocab, 30) for _ in sources]
            scores = engine.score([each.tokens for each in sources], targets)
            assert list(map(len, scores)) == list(map(len, targets))
            return "scored"
        if draw.random() < 0.1:
            return search_directly(draw, engine, networks, sources, settings)
        found = engine.search(sources, settings)
    except ALLOWED as error:
        return name_error(error)
    assert len(found) == len(sources)
    for source, hypotheses in zip(sources, found, strict=True):
        assert len(hypotheses) <= settings.n_best
        request = engine._request(source, settings)
        for each in hypotheses:
            written = [*source.begin, *each.token_ids]
            assert len(written) <= request.limit
            assert all(0 <= token < vocab for token in written)
            assert len(each.token_log_probabilities) == len(each.token_ids)
            forced = min(len(source.forced), len(written))
            # A prefix of `<pad>` or `<s>` has probability 0.
            if each.log_probability > -np.inf:
                assert tuple(written[:forced]) == source.forced[:forced]
    return "found"


def name_error(error: Exception) -> str:
    """Returns an error's name; it must have a message."""
    assert len(str(error)) > 10, repr(error)
    return type(error).__name__


def search_directly(
    draw: Draw,
    engine: NativeEngine,
    networks: list[EngineNetwork],
    sources: list[EncodedSource],
    settings: Inference,
) -> str:
    """Calls the library without the checks of `NativeEngine`."""
    requests = [
        replace(
            engine._read(source.tokens),
            limit=draw.choice([-1, 0, 1, 5, 30]),
            prefix=source.forced,
            num_certain=draw.choice([0, 1, 100]),
            draw=(0,),
        )
        for source in sources
    ]
    if draw.random() < 0.2:
        requests.append(Request((), (BOS,), 3))
    members = [Member(network) for network in networks]
    found = search.search(members, requests, settings, 2, max_repeated=draw.choice([1, 3, None]))
    assert len(found) == len(requests)
    return "found directly"


def open_oddly(seed: int) -> str:
    """Returns what became of opening, and using, a model folder that has faults."""
    draw = Draw(seed)
    model = draw_model(draw, has_source=True)
    weights = draw_weights(draw, model, 17, "translation")
    config = ModelConfig(
        recipe="fuzz",
        source_language="de",
        target_language="en",
        source_vocab_size=17,
        target_vocab_size=17,
        model=model,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = config.model_dump(mode="json")
        if draw.random() < 0.3:
            key = draw.choice(["source_vocab_size", "target_vocab_size", "format_version"])
            content[key] = draw.choice([0, -1, 5, 18, 10**6, 2**31, 2**63, "x"])
        if draw.random() < 0.3:
            key = draw.choice(sorted(content["model"]))
            content["model"][key] = draw.choice([0, -1, 1, 3, 64, 10**6, 2**40, "x", None])
        (folder / CONFIG_FILE).write_text(json.dumps(content))
        save_file(weights, folder / WEIGHTS_FILE)
        damage(draw, folder / WEIGHTS_FILE)
        try:
            precision = draw.choice(["fp32", "bf16", "int8"])
            settings = Inference(precision=precision, max_extra_tokens=5)
            engine = open_native_engine([folder], settings, "cpu")
            if engine is None:
                return "for PyTorch"
            engine.search([EncodedSource([5, 6, EOS])], settings)
        except ALLOWED as error:
            return f"{name_error(error)} of a folder"
    return "opened"


def damage(draw: Draw, path: Path) -> None:
    """Cuts or changes a file of safetensors, most often in its header."""
    data = bytearray(path.read_bytes())
    header_size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + header_size]
    match draw.randrange(6):
        case 0:
            data = data[: draw.randrange(len(data))]
        case 1:
            data[:8] = draw.choice([0, 1, header_size - 1, 2**40, 2**64 - 1]).to_bytes(8, "little")
        case 2:
            for _ in range(draw.choice([1, 5])):
                data[8 + draw.randrange(header_size)] = draw.randrange(256)
        case 3:
            # Offsets or shapes of others.
            old, new = (str(draw.choice([0, 1, 17, 64, 10**6])).encode() for _ in range(2))
            changed = bytes(header).replace(old, new)
            data = bytearray(len(changed).to_bytes(8, "little") + changed) + data[8 + header_size :]
        case 4:
            data += bytes(draw.choice([1, 4096]))
        case _:
            return
    path.write_bytes(bytes(data))


def main() -> None:
    """Runs cases until the time is up, or one for each of some seeds; prints how many ended how."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    end = seed + int(sys.argv[3]) if len(sys.argv) > 3 else math.inf
    ends, counts = time.monotonic() + seconds, Counter()
    while time.monotonic() < ends and seed < end:
        print(f"\rseed {seed}", end="", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(_MAX_SECONDS_OF_A_CASE, exit=True)
        counts[open_oddly(seed) if seed % 5 == 0 else search_oddly(seed)] += 1
        seed += 1
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
