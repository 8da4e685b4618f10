"""Walks the path of a GPU without one, in PyTorch's CUDA build; needs no driver.

    python benchmarks/gpu_walk.py

Forward passes, a search's steps and the optimizer's step run on fake tensors on "cuda", in each
layout and precision, so that everything that depends on the device is taken. Backward passes need a
driver there: they run on tensors without contents, and each of their operations is looked up among
the kernels that this build has for CUDA. Exits with 1 if one is missing.
"""

import sys
import warnings
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.inference.search import beam
from mtkit.inference.search.sampling import draw
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.inference import Sampling
from mtkit.recipe.model import Model
from mtkit.recipe.training import Adam
from mtkit.text.token_ids import EOS
from mtkit.training.learner import build_optimizer
from mtkit.training.loss import measure_translation
from mtkit.training.precision import WorkingCopy

KINDS = {
    "post": {},
    "pre, SwiGLU, learned": {
        "norm": "pre", "activation": "swiglu", "positions": "learned", "max_positions": 64,
    },
    "rotary, restricted": {"positions": "rotary", "norm": "pre", "attention_window": 3},
}  # fmt: skip
LAYOUTS = {
    "grids": lambda source, target: lay_out(source, target, [3, 2], row_step=16),
    "packed": lambda source, target: pack(source, target, [3, 2]),
    "filled": lambda source, target: pack(source, target, [3, 2]).fill(12),
}
PRECISIONS = ("fp32", "bf16", "fp16")
_VOCAB_SIZE = 64
_SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 64, "d_ff": 64}
_KEYS_WITH_KERNELS = ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
_KEYS_WITH_KERNELS += ("CompositeExplicitAutogradNonFunctional",)


class Recorded(TorchDispatchMode):
    """The operations that run while it is entered, with the types of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operation and records it."""
        self.found.add(op.name())
        return op(*args, **(kwargs or {}))


def has_kernel(name: str) -> bool:
    """Checks that an operation has a kernel for CUDA in this build."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has(name, key) for key in _KEYS_WITH_KERNELS)


def make_batch(layout: str) -> TranslationBatch:
    """Returns five pairs."""
    side = Ragged(np.full(40, EOS), np.array([9, 8, 8, 8, 7]))
    return LAYOUTS[layout](side, side)


def send(batch: TranslationBatch, device: str) -> TranslationBatch:
    """Returns a batch on a device; memory isn't pinned, which needs a driver."""
    with patch.object(Tensor, "pin_memory", lambda tensor: tensor):
        return batch.to(torch.device(device))


def build(kind: str, precision: str, device: str) -> nn.Module:
    """Returns a network as passes of training see it."""
    with torch.device(device):
        model = EncoderDecoder(
            Model(**_SIZES, num_heads=2, dropout=0.1, **KINDS[kind]), _VOCAB_SIZE, _VOCAB_SIZE
        )
    return WorkingCopy(model, precision).model.train()


def walk_forward(kind: str, precision: str, layout: str) -> None:
    """Runs a pass to its loss, and Adam's step, on fake tensors of a GPU."""
    batch = make_batch(layout)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = build(kind, precision, "cuda")
        sums = measure_translation(model, send(batch, "cuda"), label_smoothing=0.1)
        assert sums.loss.device.type == "cuda"
        weights = build(kind, "fp32", "cuda")
        optimizer = build_optimizer(weights, Adam())
        for weight in weights.parameters():
            weight.grad = torch.zeros_like(weight)
        nn.utils.clip_grad_norm_(weights.parameters(), 1.0)
        optimizer.step()


def walk_search(kind: str, precision: str) -> None:
    """Takes steps of a beam search and of sampling on fake tensors of a GPU."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        model = build(kind, precision, "cuda").eval()
        tokens = torch.full((3, 6), EOS, device="cuda")
        layout = PaddedLayout(torch.ones(3, 6, dtype=torch.bool, device="cuda"))
        # Whether there is padding is read before the first step.
        with patch.object(Tensor, "__bool__", lambda _: False):
            cache = model.start(tokens, layout)
        newest = tokens[:, :1]
        for _ in range(4):
            log_probs = model.step(newest, cache).float().log_softmax(dim=-1)
            values, indices = beam.top_k(log_probs.flatten(1), 4)
            assert values.device.type == "cuda"
            cache.select(range(3), indices // _VOCAB_SIZE)
            newest = indices % _VOCAB_SIZE
        random = torch.zeros(3, 4, dtype=torch.float64, device="cuda")
        draw(log_probs.expand(3, 4, -1), random, Sampling(top_k=9, top_p=0.9, epsilon=0.01))


def list_operations(kind: str, precision: str, layout: str) -> set[str]:
    """Returns the operations of a pass forward and back, on tensors without contents."""
    model = build(kind, precision, "meta")
    batch = send(make_batch(layout), "meta")
    with Recorded() as recorded:
        measure_translation(model, batch, label_smoothing=0.1).loss.backward()
    return recorded.found


def main() -> None:
    if not torch.backends.cuda.is_built():
        sys.exit("this PyTorch is built without CUDA: pip install torch from PyPI")
    # A copy of a network looks at where its fake tensors are.
    warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
    print(
        f"torch {torch.__version__}, CUDA {torch.version.cuda}, GPUs: {torch.cuda.device_count()}"
    )
    assert not has_kernel("aten::mkldnn_linear"), "an operation of CPUs alone"
    operations: set[str] = set()
    for kind, precision in product(KINDS, PRECISIONS):
        for layout in LAYOUTS:
            walk_forward(kind, precision, layout)
            operations |= list_operations(kind, precision, layout)
        walk_search(kind, precision)
        print(f"{kind}, {precision}: {', '.join(LAYOUTS)}, search, Adam's step", flush=True)
    missing = sorted(name for name in operations if not has_kernel(name))
    print(f"{len(operations)} operations forward and back, without a kernel: {missing or 'none'}")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
