"""Measures the memory of one update of the base model: 25,000 target tokens, 37,000 pieces.

Each variant runs in its own process: the loss as mtkit computes it; as most toolkits compute it,
with all logits in memory; and as mtkit computes it, with activations recomputed.
"""

import argparse
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import torch
from peers.memory import peak_bytes

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.network import EncoderDecoder
from mtkit.network.device import choose_fastest_precision
from mtkit.recipe.model import Model
from mtkit.training import loss as loss_module
from mtkit.training.loss import LossSums
from mtkit.training.precision import WorkingCopy

_VOCAB_SIZE = 37_000
_SENTENCE_TOKENS, _ROW_SENTENCES = 25, 5
_VARIANTS = ("fused", "whole", "recompute")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16", "fp16"], default="auto")
    parser.add_argument("--update-tokens", type=int, default=25_000, help="of each side")
    parser.add_argument("--pass-tokens", type=int, default=8_192, help="of each side, at once")
    parser.add_argument("--variant", choices=_VARIANTS, help="only this one, in here")
    options = parser.parse_args()
    if options.variant is not None:
        _measure(options)
        return
    for variant in _VARIANTS:
        subprocess.run([sys.executable, *sys.argv, "--variant", variant], check=True)


def _measure(options: argparse.Namespace) -> None:
    device = torch.device(options.device)
    precision = (
        choose_fastest_precision(device) if options.precision == "auto" else options.precision
    )
    torch.manual_seed(1)
    model = EncoderDecoder(Model(), _VOCAB_SIZE, _VOCAB_SIZE).to(device).train()
    for stack in (model.encoder, model.decoder):
        stack.recomputes = options.variant == "recompute"
    working = WorkingCopy(model, precision)
    if options.variant == "whole":
        loss_module.projected_cross_entropy = _whole_cross_entropy
    before = peak_bytes(options.device)
    num_sentences = options.update_tokens // _SENTENCE_TOKENS
    num_passes = -(-options.update_tokens // options.pass_tokens)
    bounds = np.linspace(0, num_sentences, num_passes + 1).astype(int)
    working.refresh()
    began_at = time.process_time()
    for first, last in pairwise(bounds):
        measured = loss_module.measure_translation(
            working.model, _make_batch(last - first, working.model, device), label_smoothing=0.1
        ).loss
        (measured / options.update_tokens).backward()
        working.accumulate_gradients()
    print(
        f"{options.variant}: {peak_bytes(options.device) / 2**30:.2f} GiB at most, "
        f"{before / 2**30:.2f} GiB before the step; "
        f"{time.process_time() - began_at:.1f} s of CPU; {options.device}, {precision}, "
        f"{num_passes} passes, loss {measured.item():.1f}, torch {torch.__version__}"
    )


def _make_batch(
    num_sentences: int, model: EncoderDecoder, device: torch.device
) -> TranslationBatch:
    generator = np.random.default_rng(num_sentences)
    size = num_sentences * _SENTENCE_TOKENS
    source, target = (
        Ragged(generator.integers(4, _VOCAB_SIZE, size), np.full(num_sentences, _SENTENCE_TOKENS))
        for _ in range(2)
    )
    if device.type == "cuda":
        row, rest = divmod(num_sentences, _ROW_SENTENCES)
        batch = pack(source, target, [_ROW_SENTENCES] * row + [rest] * bool(rest))
    else:
        batch = lay_out(source, target, [num_sentences])
    return batch.to(device)


def _whole_cross_entropy(
    states: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    label_smoothing: float,
    **_: float,
) -> LossSums:
    logits = torch.nn.functional.linear(states, weight).float()
    loss = torch.nn.functional.cross_entropy(
        logits, targets, label_smoothing=label_smoothing, reduction="sum"
    )
    return LossSums(loss, loss.detach())


if __name__ == "__main__":
    main()
