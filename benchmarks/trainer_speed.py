"""Training speed of a language model, compared with transformers' Trainer on the same blocks.

    python benchmarks/trainer_speed.py WORKSPACE ENVIRONMENT [--rounds 2] [--updates 20]

WORKSPACE is a run of `gpt-small` or `bert-small` with prepared data; ENVIRONMENT one that has
transformers and accelerate (`peers/make_environments.sh FOLDER marian` makes FOLDER/marian). mtkit
trains as `mtkit train --processes 2` does, the Trainer in one process with as many threads. Both
take the run's blocks; an update of the Trainer has as many blocks as hold the recipe's
`batch_tokens` on average. It is timed with its own defaults; with blocks of about the same
length in a batch; and, "full blocks", with the text cut into blocks of `block_tokens` whatever the
documents, as transformers' own example for GPT does it: nothing is padded, but a block is no longer
one document. Its networks are `GPT2LMHeadModel`, which is `gpt-small` weight for weight, and
`BertForMaskedLM`, which is post-norm and has a few weights more or less than `bert-small`.

In each round every contestant trains once, in turn, in a process of its own. The script counts the
text's tokens of the updates after a warm-up, with `</s>`, without padding and `<s>`; for a masked
model masked and visible ones. By length, the Trainer sorts a number of batches at a time, longest
first; as many updates are timed as it sorts together.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers.machine import describe_machine, print_machine, run_worker

from mtkit.data.prepared import open_prepared
from mtkit.recipe import Recipe, load_recipe
from mtkit.text.token_ids import BOS, PAD
from mtkit.workspace import Workspace

NAMES = ("mtkit", "Trainer", "Trainer, by length", "Trainer, full blocks")
WARM_UP = 5
TIME_LIMIT = 900
WORKER = Path(__file__).parent / "peers" / "trainer_worker.py"
GROUPED = [{"train_sampling_strategy": "group_by_length"}, {"group_by_length": True}]
"""The option's name in version 5, and before."""
MAX_SORTED = 50
"""Batches that the Trainer sorts by length together, at most."""


@dataclass(frozen=True)
class Contestant:
    """A way of training by the Trainer.

    Attributes:
        blocks: File of the blocks.
        batch_size: Blocks of an update.
        added: Tokens of a block that aren't text.
        updates: Those that are timed.
        grouped: Whether blocks of about the same length make a batch.
    """

    blocks: Path
    batch_size: int
    added: int
    updates: int
    grouped: bool


def time_mtkit(recipe: Recipe, workspace: Path, precision: str, timed: int) -> dict[str, Any]:
    """Trains a copy of a workspace; returns its speed in `timed` updates after a warm-up."""
    updates = WARM_UP + timed
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        shutil.copytree(workspace / "data", folder / "data")
        command = [
            sys.executable,
            "-m",
            "mtkit",
            "train",
            "--recipe",
            str(workspace / "recipe.toml"),
        ]
        command += ["--workspace", str(folder), "--processes", "2"]
        for override in (
            f"training.max_steps={updates}",
            f"training.checkpoint_every={10 * updates}",
            f"training.log_every={WARM_UP}",
            f"training.precision={precision}",
        ):
            command += ["--set", override]
        done = run_worker(command, threads=0, time_limit=TIME_LIMIT)
        if done.returncode:
            raise SystemExit(done.stderr)
        lines = map(json.loads, (folder / "metrics.jsonl").read_text("utf-8").splitlines())
        logged = {line["step"]: line for line in lines if line["kind"] == "train"}
    seconds = logged[updates]["elapsed_seconds"] - logged[WARM_UP]["elapsed_seconds"]
    per_update = count_tokens(recipe, workspace)
    return {
        "tokens_per_second": timed * per_update / seconds,
        "tokens_per_update": per_update,
        "padding": logged[updates]["padding"],
    }


def count_tokens(recipe: Recipe, workspace: Path) -> float:
    """Returns the tokens of an update, averaged over an epoch."""
    report = json.loads((workspace / "data" / "report.json").read_text("utf-8"))
    return report["epoch"]["tokens"] / report["epoch"]["updates"]


def write_blocks(
    recipe: Recipe, workspace: Path, folder: Path, timed: int
) -> dict[str, Contestant]:
    """Writes a run's blocks as the Trainer reads them; returns the ways to train on them."""
    data = open_prepared(recipe, Workspace(workspace))
    text = data.train.gather(np.arange(len(data.train)))["text"]
    ends = np.cumsum(text.lengths)
    # Each begins with `<s>`, as in mtkit.
    tokens = np.insert(text.tokens, ends - text.lengths, BOS)
    own, full = folder / "blocks.npz", folder / "full.npz"
    np.savez(own, tokens=tokens, lengths=text.lengths + 1)
    batch_tokens, length = recipe.training.batch_tokens, recipe.data.block_tokens
    batch_size = max(1, round(batch_tokens / float(text.lengths.mean())))
    # Documents in no order, as the others draw them.
    order = np.random.default_rng(1).permutation(len(data.train))
    shuffled = data.train.gather(order)["text"].tokens
    count = len(shuffled) // length
    np.savez(full, tokens=shuffled[: count * length], lengths=np.full(count, length))
    num_sorted = max(1, min(len(data.train) // (4 * batch_size), MAX_SORTED))
    return {
        "Trainer": Contestant(own, batch_size, 1, timed, grouped=False),
        "Trainer, by length": Contestant(own, batch_size, 1, num_sorted, grouped=True),
        "Trainer, full blocks": Contestant(
            full, max(1, batch_tokens // length), 0, timed, grouped=False
        ),
    }


def time_trainer(
    environment: Path, contestant: Contestant, settings: dict[str, Any]
) -> dict[str, Any]:
    """Trains by the Trainer; returns its speed."""
    chosen = {
        "batch_size": contestant.batch_size,
        "added": contestant.added,
        "updates": WARM_UP + contestant.updates,
    }
    for options in GROUPED if contestant.grouped else [{}]:
        path = contestant.blocks.with_suffix(".json")
        path.write_text(json.dumps({**settings, **chosen, "options": options}), "utf-8")
        command = [str(environment / "bin" / "python"), str(WORKER)]
        done = run_worker(
            [*command, str(contestant.blocks), str(path)], threads=2, time_limit=TIME_LIMIT
        )
        if not done.returncode:
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return found
    raise SystemExit(done.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workspace", type=Path)
    parser.add_argument("environment", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--updates", type=int, default=20, help="timed ones; a multiple of 5")
    parser.add_argument("--contestants", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    machine = describe_machine()
    recipe = load_recipe(str(options.workspace / "recipe.toml"))
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        trainers = write_blocks(recipe, options.workspace, Path(folder), options.updates)
        model = recipe.model
        layers = model.num_decoder_layers
        if recipe.objective == "masked-lm":
            layers = model.num_encoder_layers
        settings = {
            "objective": recipe.objective,
            "pieces": recipe.tokenizer.vocab_size,
            "pad": PAD,
            "mask": recipe.tokenizer.vocab_size - 1,
            "warm_up": WARM_UP,
            "shape": {
                "d_model": model.d_model,
                "d_ff": model.d_ff,
                "layers": layers,
                "heads": model.num_heads,
                "positions": recipe.data.block_tokens + 1,
            },
        }
        for number in range(options.rounds):
            for precision in options.precision:
                settings["precision"] = precision
                for name in options.contestants:
                    if name == "mtkit":
                        result = time_mtkit(recipe, options.workspace, precision, options.updates)
                    else:
                        result = time_trainer(options.environment, trainers[name], settings)
                    found.setdefault(f"{name}, {precision}", []).append(result)
                    speed = result["tokens_per_second"]
                    print(f"round {number + 1}: {name}, {precision}: {speed:,.0f}", file=sys.stderr)
    print_machine(machine)
    print_table(found, options.precision, options.contestants)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine, "found": found}, indent=2) + "\n")


def print_table(
    found: dict[str, list[dict[str, Any]]], precisions: list[str], names: list[str]
) -> None:
    print(f"| | tokens per second, median | padding | {names[0]}'s speed to it, median of rounds |")
    print("|---|---|---|---|")
    for precision in precisions:
        ours = [each["tokens_per_second"] for each in found[f"{names[0]}, {precision}"]]
        for name in names:
            theirs = found[f"{name}, {precision}"]
            speeds = [each["tokens_per_second"] for each in theirs]
            ratio = statistics.median(a / b for a, b in zip(ours, speeds, strict=True))
            print(
                f"| {name}, {precision} | {statistics.median(speeds):,.0f} | "
                f"{theirs[0]['padding']:.0%} | {ratio:.2f} |"
            )


if __name__ == "__main__":
    main()
