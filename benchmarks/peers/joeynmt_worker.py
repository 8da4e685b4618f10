"""Trains JoeyNMT for the benchmark: its own `train`, with a clock around its updates."""

import tempfile
from pathlib import Path
from typing import Any

from joeynmt.batch import Batch
from joeynmt.training import TrainManager, train
from measured import Window, read_task


def configuration(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns what JoeyNMT's configuration file says."""
    model, data = task["model"], Path(task["data"])
    for side in ("source", "target"):
        (folder / f"train.{side}").symlink_to(data / f"{side}.txt")
    # A development set must be there; it isn't reached.
    for side in ("source", "target"):
        lines = (data / f"{side}.txt").read_text("utf-8").split("\n", 8)[:8]
        (folder / f"dev.{side}").write_text("\n".join(lines) + "\n", "utf-8")
    # The text is in pieces: words to JoeyNMT.
    side = {"level": "word", "voc_file": str(data / "vocabulary.txt")}
    embeddings = {"embedding_dim": model["d_model"], "scale": True, "dropout": model["dropout"]}
    stack = {
        "type": "transformer",
        "num_heads": model["num_heads"],
        "embeddings": embeddings,
        "hidden_size": model["d_model"],
        "ff_size": model["d_ff"],
        "dropout": model["dropout"],
        "layer_norm": model["norm"],
    }
    return {
        "name": "train_speed",
        "model_dir": str(folder / "model"),
        "use_cuda": task["device"] == "cuda",
        "fp16": task["precision"] == "fp16",
        "random_seed": task["seed"],
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "dataset_type": "plain",
            "src": {"lang": "source", **side},
            "trg": {"lang": "target", **side},
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "scheduling": "noam",
            "learning_rate": 1e-4,
            "normalization": "tokens",
            "label_smoothing": task["label_smoothing"],
            "batch_type": "token",
            "batch_size": task["batch_tokens"],
            "epochs": 10**6,
            "validation_freq": 10**6,
            "logging_freq": 100,
        },
        "testing": {},
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": {**stack, "num_layers": model["num_encoder_layers"]},
            "decoder": {**stack, "num_layers": model["num_decoder_layers"]},
        },
    }


def watch_updates(window: Window) -> None:
    """Reports each update to the window; at its backward pass, which there is one of in each."""
    step = TrainManager._train_step

    def step_and_tell(manager: TrainManager, batch: Batch) -> tuple[float, int]:
        outcome = step(manager, batch)
        num_slots = batch.src.numel() + batch.trg.numel()
        window.end_update(batch.src_length, batch.trg_mask.sum((1, 2)), num_slots)
        return outcome

    TrainManager._train_step = step_and_tell


def main() -> None:
    task = read_task()
    watch_updates(Window(task, task["precision"], "joeynmt"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        train(rank=0, world_size=1, cfg=configuration(task, folder), skip_test=True)


if __name__ == "__main__":
    main()
