"""Trains OpenNMT-py on a prepared workspace's pieces and translates with it.

    python benchmarks/onmt_quality.py train RECIPE WORKSPACE FOLDER --environments E --updates N
    python benchmarks/onmt_quality.py translate RECIPE WORKSPACE FOLDER --environments E \
        --step N < input.txt

`train` has the recipe's model (pre-norm, the only one it knows), label smoothing, Adam and the
paper's schedule with the recipe's warm-up. What is OpenNMT-py's own: Glorot's initialisation of
all matrices, dropout inside the feed-forward layer too, no `</s>` after a source, gradients
clipped to norm 5, which they don't reach. Its checkpoints and `clock.jsonl` are in FOLDER. With
`--step N` it resumes from that checkpoint, with its clock in `clock-from-N.jsonl`. Both read and
write exactly the pieces of the workspace, as numbers. Scores come from `mtkit score
--hypothesis`, as for any other system.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from peers.exported import NUM_SPECIAL, export
from peers.machine import environment_of

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.training import PaperSchedule
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.workspace import Workspace

PEERS = Path(__file__).parent / "peers"
_MAX_LENGTH = 250


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "translate"])
    parser.add_argument("recipe")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=0, help="0 leaves them to OpenNMT-py")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="padding counted")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--save-every", type=int, default=250)
    parser.add_argument(
        "--step", type=int, help="the checkpoint to translate with, or to resume from"
    )
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--alpha", type=float, default=0.6)
    return parser.parse_args()


def run(options: argparse.Namespace, task: dict[str, Any], *, clock: Path | None = None) -> None:
    """Runs the worker in OpenNMT-py's environment; its output goes to stderr.

    Raises:
        MtkitError: It failed.
    """
    file = options.folder / f"{options.what}.json"
    file.write_text(json.dumps(task), "utf-8")
    python = str(options.environments.absolute() / "onmt" / "bin" / "python")
    worker = str(PEERS / "onmt_quality_worker.py")
    command = [python, worker, str(file), options.what]
    environment = environment_of(command, threads=options.threads)
    if clock is not None:
        command = [sys.executable, str(PEERS / "clock.py"), str(clock), *command]
    done = subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise MtkitError(f"OpenNMT-py ended with {done.returncode}")


def checkpoint_of(options: argparse.Namespace) -> str:
    return str(options.folder.absolute() / f"model_step_{options.step}.pt")


def train(options: argparse.Namespace, recipe: Recipe) -> None:
    schedule = recipe.training.schedule
    if recipe.model.norm != "pre" or not isinstance(schedule, PaperSchedule):
        raise MtkitError(
            "OpenNMT-py is compared with pre-norm and the paper's schedule",
            "--set model.norm=pre --set 'training.schedule={kind=\"paper\", warmup_steps=1000}'",
        )
    options.folder.mkdir(parents=True, exist_ok=True)
    task = {
        "folder": str(options.folder.absolute()),
        "data": str(options.folder.absolute()),
        **export(options.workspace, options.folder, sys.maxsize),
        "model": recipe.model.model_dump(mode="json"),
        "batch_tokens": options.batch_tokens,
        "label_smoothing": recipe.training.label_smoothing,
        "warmup_steps": schedule.warmup_steps,
        "rate_factor": schedule.factor,
        "precision": "fp32",
        "device": "cpu",
        "seed": recipe.seed,
        "updates": options.updates,
        "save_every": options.save_every,
        "go_on_from": checkpoint_of(options) if options.step else "",
    }
    log = f"clock-from-{options.step}.jsonl" if options.step else "clock.jsonl"
    run(options, task, clock=options.folder / log)


def translate(options: argparse.Namespace) -> None:
    tokenizer = SubwordTokenizer.load(Workspace(options.workspace).tokenizer)
    lines = sys.stdin.read().split("\n")[:-1]
    source, output = options.folder / "input.ids", options.folder / "output.ids"
    sentences = [ids[:-1] for ids in tokenizer.encode_source(lines)]
    source.write_text("".join(" ".join(map(str, ids)) + "\n" for ids in sentences), "utf-8")
    task = {
        "checkpoint": checkpoint_of(options),
        "source": str(source.absolute()),
        "output": str(output.absolute()),
        "beam_size": options.beam,
        "alpha": options.alpha,
        "max_length": _MAX_LENGTH,
    }
    run(options, task)
    for line in output.read_text("utf-8").split("\n")[:-1]:
        tokens = [int(word) for word in line.split() if word.isdecimal()]
        print(tokenizer.decode_target([token for token in tokens if token >= NUM_SPECIAL]))


def main() -> None:
    options = parse_options()
    recipe = load_recipe(options.recipe, options.overrides)
    if options.what == "train":
        train(options, recipe)
    elif options.step is None:
        raise MtkitError("translate needs --step, the checkpoint's number of updates")
    else:
        translate(options)


if __name__ == "__main__":
    try:
        main()
    except MtkitError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")
