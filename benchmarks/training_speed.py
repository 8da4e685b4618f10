"""Measures training speed: tokens per second, and the share of the matrix-product peak."""

import argparse
import time
from pathlib import Path

import torch

from mtkit.data.batches.ragged import Indices
from mtkit.data.prepared import open_prepared
from mtkit.recipe import load_recipe
from mtkit.training.distributed import Processes, choose_device
from mtkit.training.learner import Learner
from mtkit.training.objective import TranslationObjective
from mtkit.training.plan import build_model
from mtkit.training.update import Updater, Votes
from mtkit.workspace import Workspace

_NUM_WARM_UP = 5
_PEAK_SIZE = 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--updates", type=int, default=20)
    options = parser.parse_args()
    recipe = load_recipe(options.recipe, options.overrides)
    data = open_prepared(recipe, Workspace(options.workspace))
    device = choose_device("auto")
    torch.manual_seed(recipe.seed)
    model = build_model(recipe, data).to(device)
    objective = TranslationObjective(model, data, recipe, device)
    processes = Processes(0, 1, device)
    updater = Updater(recipe, objective, Learner.of(model, recipe), processes)
    limit = updater.fit_micro_batch()

    def update(examples: Indices) -> int:
        outcome = updater.update(1, examples, 0, rate=1e-4, micro_batch_tokens=limit, votes=Votes())
        return outcome.num_target_tokens

    updates = objective.plan_epoch(0)
    for examples in updates[:_NUM_WARM_UP]:
        update(examples)
    chosen = updates[_NUM_WARM_UP : _NUM_WARM_UP + options.updates]
    _wait(device)
    started_at = time.perf_counter()
    num_target_tokens = sum(update(examples) for examples in chosen)
    _wait(device)
    elapsed_seconds = time.perf_counter() - started_at
    num_source_tokens = sum(int(data.train.lengths(examples)[0].sum()) for examples in chosen)
    # Six operations per weight and token: two forward, four backward. Attention's own products and
    # all element-wise work count as nothing here, so the share is a lower bound.
    encoder_weights = sum(w.numel() for w in model.encoder.parameters())
    target_weights = sum(w.numel() for w in model.decoder.parameters())
    target_weights += model.output_embedding.weight.numel()
    operations = 6 * (encoder_weights * num_source_tokens + target_weights * num_target_tokens)
    peak = _measure_peak(device, recipe.training.precision)
    rate = operations / elapsed_seconds
    print(f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads")
    print(f"{num_target_tokens / elapsed_seconds:,.0f} real target tokens per second")
    print(f"{rate / 1e12:.3f} TFLOP/s, {100 * rate / peak:.0f} % of {peak / 1e12:.3f} measured")


def _measure_peak(device: torch.device, precision: str) -> float:
    """Returns operations per second of one large matrix product."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    matrix = torch.randn(_PEAK_SIZE, _PEAK_SIZE, dtype=dtype, device=device)
    _ = matrix @ matrix
    best = float("inf")
    for _ in range(5):
        _wait(device)
        started_at = time.perf_counter()
        _ = matrix @ matrix
        _wait(device)
        best = min(best, time.perf_counter() - started_at)
    return float(2 * _PEAK_SIZE**3 / best)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
