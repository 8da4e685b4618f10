"""Attention weights as JSON or safetensors."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from safetensors.numpy import save

from mtkit.files import write_atomically
from mtkit.inference.attention import KINDS, HeadFigures, LineAttention


def write_numbers(path: Path, lines: Sequence[LineAttention], heads: Sequence[HeadFigures]) -> None:
    """Writes the weights of lines, and the figures of heads, as JSON or safetensors.

    JSON, for the extension `.json`, has the objects `lines` and `heads`. safetensors has an fp32
    tensor `LINE.KIND`, such as `0.cross`, per line and kind, [layers, heads, queries, memory]; its
    metadata has the rest as JSON.
    """
    texts = [
        {
            "source": line.source,
            "target": line.target,
            "source_pieces": list(line.source_pieces),
            "target_pieces": list(line.target_pieces),
        }
        for line in lines
    ]
    figures = [asdict(head) for head in heads]
    if path.suffix == ".json":
        with_weights = [
            {**text, **{kind: line.weights[kind].tolist() for kind in KINDS}}
            for text, line in zip(texts, lines, strict=True)
        ]
        content = {"lines": with_weights, "heads": figures}
        write_atomically(path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        tensors = {
            f"{number}.{kind}": line.weights[kind]
            for number, line in enumerate(lines)
            for kind in KINDS
        }
        metadata = {
            "lines": json.dumps(texts, ensure_ascii=False),
            "heads": json.dumps(figures, allow_nan=False),
        }
        write_atomically(path, save(tensors, metadata))
