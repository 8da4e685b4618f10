"""Counts what an update costs a GPU, and the speed that this allows: a roofline, calculated.

    python benchmarks/roofline.py [--tflops 989] [--terabytes 3.35]

A pass of base and of big, forward and back, and the optimizer's step run on tensors without
contents (torch's `meta` device), packed as on a GPU. Each operation counts with the numbers that
its products multiply and the bytes that it reads and writes, each once; it takes the longer of both
at the rates given, by default an H100's from its data sheet (bf16, dense; HBM3). What no operation
can do at those rates (small products, tails, launches) isn't counted: the speed is an upper bound.
"""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from peers.random_model import SHAPES
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

import mtkit.network.layouts
from mtkit.data.batches.collate import TranslationBatch, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.rows import fill_rows
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS
from mtkit.training import cross_entropy, loss

VOCAB_SIZE = 37_000
UPDATES = (25_000, 3_125)
_TYPICAL_TOKENS = 24
_ADAM_BYTES = 30
"""A weight's: gradient, two moments and itself read and written in fp32, and its copy in bf16."""
_NO_KERNEL = ("detach", "_unsafe_view", "empty", "empty_like", "new_empty", "lift_fresh")
_NO_KERNEL += ("scalar_tensor",)


@dataclass
class Cost(TorchDispatchMode):
    """Operations, bytes, kernels and seconds of what runs while it is entered."""

    flops_a_second: float
    bytes_a_second: float
    flops: int = 0
    num_bytes: int = 0
    kernels: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(
        self, op: Any, types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Runs an operation, and counts it unless its result is a view."""
        result = op(*args, **(kwargs or {}))
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        made = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        name = op.overloadpacket.__name__
        if op.is_view or not made or name in _NO_KERNEL:
            return result
        flops = 0
        if op.overloadpacket in flop_registry:
            flops = flop_registry[op.overloadpacket](*args, **(kwargs or {}), out_val=result)
        num_bytes = sum(each.numel() * each.element_size() for each in (*given, *made))
        self.flops += flops
        self.num_bytes += num_bytes
        self.kernels += 1
        self.seconds += max(flops / self.flops_a_second, num_bytes / self.bytes_a_second)
        return result


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """Returns what the kernel of `attend_by_mask` returns on a GPU, where it is chosen by torch."""
    assert mask is not None
    bias = mask.expand(-1, queries.shape[1], -1, -1)
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    attended: Tensor = efficient(queries, keys, values, bias, True, dropout)[0]
    return attended


def drop(inputs: Tensor, rate: float) -> Tensor:
    """Returns what dropout's kernel returns on a GPU."""
    return torch.native_dropout(inputs, rate, True)[0]


def build(name: str) -> EncoderDecoder:
    """Returns the paper's base or big, in bf16 and without contents."""
    layers, d_model, d_ff, heads = SHAPES[name]
    sizes = {"num_encoder_layers": layers, "num_decoder_layers": layers, "d_model": d_model}
    with torch.device("meta"):
        model = EncoderDecoder(Model(**sizes, d_ff=d_ff, num_heads=heads), VOCAB_SIZE, VOCAB_SIZE)
    return model.to(torch.bfloat16).train()


def make_batch(num_tokens: int) -> TranslationBatch:
    """Returns packed pairs as long as news sentences, with this many tokens a side."""
    generator = np.random.default_rng(num_tokens)
    lengths = generator.lognormal(np.log(_TYPICAL_TOKENS), 0.6, num_tokens).clip(2, 200).astype(int)
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), num_tokens)]
    order, sizes = fill_rows(lengths, lengths)
    side = Ragged(np.full(lengths.sum(), EOS), lengths[order])
    # Without a GPU there is no memory to pin.
    with patch.object(Tensor, "pin_memory", lambda tensor: tensor):
        return pack(side, side, sizes.tolist()).to(torch.device("meta"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tflops", type=float, default=989.0)
    parser.add_argument("--terabytes", type=float, default=3.35)
    options = parser.parse_args()
    rates = options.tflops * 1e12, options.terabytes * 1e12
    print("| model | target tokens | TFLOP | GB | kernels | ms | target tokens/s | share of peak |")
    print("|---|---|---|---|---|---|---|---|")
    for name in ("base", "big"):
        for num_tokens in UPDATES:
            model, batch = build(name), make_batch(num_tokens)
            with (
                patch.object(mtkit.network.layouts, "attend_by_mask", attend),
                patch.object(torch.nn.functional, "dropout", drop),
                patch.dict(
                    cross_entropy._CHUNK_BYTES_OF_HALVES, meta=cross_entropy._CHUNK_BYTES["cuda"]
                ),
            ):
                # The first pass makes masks that later ones use.
                loss.measure_translation(model, batch, label_smoothing=0.1)
                with Cost(*rates) as cost:
                    sums = loss.measure_translation(model, batch, label_smoothing=0.1)
                    sums.loss.backward()
            step_bytes = _ADAM_BYTES * sum(weight.numel() for weight in model.parameters())
            seconds = cost.seconds + step_bytes / rates[1]
            real = len(batch.target_outputs)
            print(
                f"| {name} | {real:,} | {cost.flops / 1e12:.2f} | "
                f"{(cost.num_bytes + step_bytes) / 1e9:.1f} | {cost.kernels:,} | "
                f"{1e3 * seconds:.1f} | {real / seconds:,.0f} | "
                f"{100 * cost.flops / seconds / rates[0]:.0f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
