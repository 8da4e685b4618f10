"""Measures reading from a token store to padded batches: speed, padding and memory.

Memory is anonymous memory, as Linux reports it; the mapped files are the page cache's.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from mtkit.data.batches.collate import lay_out
from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.batches.micro_batches import split_update
from mtkit.data.batches.token_store import TokenStore
from mtkit.data.batches.updates import plan_epoch

_PARTS = ("start", "middle", "end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="such as runs/NAME/data/train")
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument("--length-groups", type=int, default=8)
    parser.add_argument("--micro-batch-tokens", type=int, default=8_192)
    parser.add_argument("--updates", type=int, default=None, help="all of an epoch by default")
    options = parser.parse_args()
    store, order = TokenStore(options.folder), LengthOrder(options.folder)
    before = _anonymous_mib()
    started_at = time.perf_counter()
    updates = plan_epoch(
        order,
        weights=[1.0] * len(store.corpus_sizes),
        batch_tokens=options.batch_tokens,
        length_groups=options.length_groups,
        seed=1,
        epoch=0,
    )
    planned_at = time.perf_counter()
    peaks = []
    num_real = num_padded = num_target_tokens = num_micro_batches = 0
    # Spread over the epoch, so that memory is that of its start, middle and end.
    chosen = np.linspace(0, len(updates) - 1, options.updates or len(updates)).astype(int)
    for indices in np.array_split(chosen, len(_PARTS)):
        peak = 0.0
        for index in indices.tolist():
            update = updates[index]
            source_lengths, target_lengths = store.lengths(update).values()
            [micro_batches] = split_update(
                update,
                source_lengths,
                target_lengths,
                micro_batch_tokens=options.micro_batch_tokens,
                num_processes=1,
                grid_slots=64,
            )
            for micro_batch in micro_batches:
                batch = lay_out(
                    *store.gather(micro_batch.sentences).values(), micro_batch.grid_sizes
                )
                num_padded += batch.source_tokens.numel() + batch.target_inputs.numel()
            num_micro_batches += len(micro_batches)
            num_target_tokens += int(target_lengths.sum())
            num_real += int(source_lengths.sum() + target_lengths.sum())
            peak = max(peak, _anonymous_mib())
        peaks.append(peak)
    elapsed_seconds = time.perf_counter() - planned_at
    print(
        f"{len(store):,} pairs, {store.num_tokens['target'] / len(store):.1f} target tokens each; "
        f"{len(updates):,} updates, planned in {planned_at - started_at:.2f} s"
    )
    print(f"{num_target_tokens / elapsed_seconds:,.0f} target tokens per second")
    print(
        f"{100 * (num_padded / num_real - 1):.1f} % padding, "
        f"{num_micro_batches / len(chosen):.1f} micro-batches per update"
    )
    memory = ", ".join(
        f"{peak:.1f} at the {part}" for part, peak in zip(_PARTS, peaks, strict=True)
    )
    print(f"anonymous memory in MiB: {before:.1f} before, {memory}")


def _anonymous_mib() -> float:
    status = Path("/proc/self/status").read_text("utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
