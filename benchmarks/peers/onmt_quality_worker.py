"""Trains OpenNMT-py and translates with it: what onmt_quality.py asks for, in its environment.

The first argument names a JSON file, the second says what to do: `train` or `translate`.
"""

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from onmt.bin.train import main as onmt_train
from onmt.bin.translate import main as onmt_translate
from onmt_worker import options


def training_options(task: dict[str, Any]) -> dict[str, Any]:
    """Returns what the configuration file says: the paper's schedule, and checkpoints to keep."""
    folder = Path(task["folder"])
    chosen = options({**task, "warm_up": 0}, folder)
    chosen |= {
        "train_steps": task["updates"],
        "save_checkpoint_steps": task["save_every"],
        "keep_checkpoint": -1,
        # arXiv 1706.03762, section 5.3; Glorot's initialisation of all matrices.
        "decay_method": "noam",
        "learning_rate": task["rate_factor"],
        "warmup_steps": task["warmup_steps"],
        "param_init": 0.0,
        "param_init_glorot": True,
    }
    if task["go_on_from"]:
        chosen["train_from"] = task["go_on_from"]
    return chosen


def translation_options(task: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": task["checkpoint"],
        "src": task["source"],
        "output": task["output"],
        "beam_size": task["beam_size"],
        "length_penalty": "wu" if task["alpha"] else "none",
        "alpha": task["alpha"],
        # Those of sentences this short never reach it.
        "max_length": task["max_length"],
        "max_length_ratio": 0,
        "batch_type": "tokens",
        "batch_size": 2048,
    }


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    # What torch reads of a file nowadays, unless told that more is harmless.
    torch.serialization.add_safe_globals([Namespace])
    config = Path(sys.argv[1]).with_suffix(".yaml")
    is_training = sys.argv[2] == "train"
    chosen = training_options(task) if is_training else translation_options(task)
    # JSON is YAML.
    config.write_text(json.dumps(chosen), "utf-8")
    sys.argv = ["onmt", "-config", str(config)]
    if is_training:
        onmt_train()
    else:
        onmt_translate()


if __name__ == "__main__":
    main()
