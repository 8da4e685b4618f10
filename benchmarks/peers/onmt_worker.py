"""Trains OpenNMT-py for the benchmark: `onmt_train` itself, with a clock around its updates.

Its own log counts real tokens too, of the target with `</s>` (`Statistics.n_words` leaves padding
out); here the very batches are counted, over whole updates, and memory and padding, too.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from measured import Window, read_task
from onmt.bin.train import main as onmt_train
from onmt.trainer import Trainer

_MAX_BUCKET = 262_144
"""OpenNMT-py's own; a corpus that is smaller would be read over and over to fill it."""


def options(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns what OpenNMT-py's configuration file says."""
    model, data = task["model"], Path(task["data"])
    on_gpu = task["device"] == "cuda"
    return {
        "data": {
            "corpus": {"path_src": str(data / "source.txt"), "path_tgt": str(data / "target.txt")}
        },
        "save_data": str(folder / "data"),
        "save_model": str(folder / "model"),
        "src_vocab": str(data / "vocabulary.txt"),
        "tgt_vocab": str(data / "vocabulary.txt"),
        "src_vocab_size": task["vocab_size"],
        "tgt_vocab_size": task["vocab_size"],
        "share_vocab": True,
        "bucket_size": min(_MAX_BUCKET, task["pairs"]),
        # On a CPU, workers would take the cores that compute.
        "num_workers": 2 if on_gpu else 0,
        "batch_type": "tokens",
        "batch_size": task["batch_tokens"],
        "normalization": "tokens",
        "train_steps": task["warm_up"] + task["updates"] + 1,
        "save_checkpoint_steps": 0,
        "valid_steps": 10**9,
        "seed": task["seed"],
        "model_dtype": task["precision"],
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "enc_layers": model["num_encoder_layers"],
        "dec_layers": model["num_decoder_layers"],
        "hidden_size": model["d_model"],
        "word_vec_size": model["d_model"],
        "transformer_ff": model["d_ff"],
        "heads": model["num_heads"],
        "add_qkvbias": True,
        "add_ffnbias": True,
        "dropout": [model["dropout"]],
        "attention_dropout": [0.0],
        "label_smoothing": task["label_smoothing"],
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "optim": "adam",
        "adam_beta2": 0.98,
        "learning_rate": 1e-4,
        **({"world_size": 1, "gpu_ranks": [0]} if on_gpu else {}),
    }


def watch_updates(window: Window) -> None:
    """Makes OpenNMT-py's trainer report each of its updates to the window."""
    make_update = Trainer._gradient_accumulation

    def make_update_and_tell(trainer: Trainer, batches: list[Any], *others: Any) -> None:
        make_update(trainer, batches, *others)
        # There is one, as gradients aren't accumulated.
        [batch] = batches
        targets = batch["tgt"][:, 1:, 0]
        is_token = targets.ne(trainer.train_loss.padding_idx)
        num_slots = batch["src"].shape[:2].numel() + targets.numel()
        window.end_update(batch["srclen"], is_token.sum(1), num_slots)

    Trainer._gradient_accumulation = make_update_and_tell


def main() -> None:
    task = read_task()
    watch_updates(Window(task, task["precision"], "OpenNMT-py"))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        # JSON is YAML.
        config.write_text(json.dumps(options(task, Path(folder))), "utf-8")
        sys.argv = ["onmt_train", "-config", str(config)]
        onmt_train()


if __name__ == "__main__":
    main()
