"""Trains a language model with transformers' Trainer, as its users do; run in its environment.

    python trainer_worker.py BLOCKS.npz SETTINGS.json

BLOCKS has the tokens of a text's blocks end to end, and their lengths. Prints a JSON object: tokens
of text per second of the updates after a warm-up, padding, parameters. The `added` tokens of
each block, its `<s>`, aren't text.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


class Blocks(torch.utils.data.Dataset):
    """Blocks of text as the Trainer reads them."""

    def __init__(self, path: str) -> None:
        stored = np.load(path)
        self._rows = np.split(stored["tokens"], np.cumsum(stored["lengths"])[:-1])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {"input_ids": self._rows[index].tolist()}


def collate(rows: list[dict[str, list[int]]], settings: dict, generator: np.random.Generator):
    """Returns a padded batch, with masked tokens for a masked model."""
    longest = max(len(row["input_ids"]) for row in rows)
    inputs = np.full((len(rows), longest), settings["pad"])
    is_token = np.zeros((len(rows), longest), dtype=bool)
    for number, row in enumerate(rows):
        inputs[number, : len(row["input_ids"])] = row["input_ids"]
        is_token[number, : len(row["input_ids"])] = True
    labels = np.where(is_token, inputs, -100)
    if settings["objective"] == "masked-lm":
        hidden = is_token & (generator.random(inputs.shape) < 0.15)
        labels = np.where(hidden, inputs, -100)
        inputs = np.where(hidden, settings["mask"], inputs)
    return {
        "input_ids": torch.from_numpy(inputs),
        "attention_mask": torch.from_numpy(is_token.astype(np.int64)),
        "labels": torch.from_numpy(labels),
    }


class Clock(TrainerCallback):
    """Notes when updates begin and end, and what they held."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, args, state, control, **more) -> None:
        """Notes the end of an update."""
        self.ends.append(time.perf_counter())


def build(settings: dict) -> torch.nn.Module:
    """Returns a network of random weights, of the recipe's shape."""
    shape = settings["shape"]
    if settings["objective"] == "causal-lm":
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=settings["pieces"],
                n_positions=shape["positions"],
                n_embd=shape["d_model"],
                n_layer=shape["layers"],
                n_head=shape["heads"],
                n_inner=shape["d_ff"],
                attn_pdrop=0.0,
            )
        )
    return BertForMaskedLM(
        BertConfig(
            vocab_size=settings["pieces"],
            hidden_size=shape["d_model"],
            num_hidden_layers=shape["layers"],
            num_attention_heads=shape["heads"],
            intermediate_size=shape["d_ff"],
            max_position_embeddings=shape["positions"],
            attention_probs_dropout_prob=0.0,
        )
    )


def main() -> None:
    settings = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    torch.manual_seed(1)
    model, clock = build(settings), Clock()
    counts: list[tuple[int, int, int]] = []
    generator = np.random.default_rng(1)

    def note(rows):
        batch = collate(rows, settings, generator)
        filled = int(batch["attention_mask"].sum())
        counts.append((filled - settings["added"] * len(rows), filled, batch["input_ids"].numel()))
        return batch

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=settings["updates"],
            per_device_train_batch_size=settings["batch_size"],
            learning_rate=1e-3,
            weight_decay=0.01,
            bf16=settings["precision"] == "bf16",
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=10_000,
            disable_tqdm=True,
            remove_unused_columns=False,
            **settings["options"],
        )
        Trainer(
            model,
            arguments,
            train_dataset=Blocks(sys.argv[1]),
            data_collator=note,
            callbacks=[clock],
        ).train()
    first, last = settings["warm_up"], len(clock.ends)
    # The collator may be ahead by a batch, which isn't counted.
    timed = counts[first:last]
    real, filled, slots = map(sum, zip(*timed, strict=True))
    found = {
        "tokens_per_second": real / (clock.ends[-1] - clock.ends[first - 1]),
        "tokens_per_update": real / len(timed),
        "padding": 1.0 - filled / slots,
        "updates": len(timed),
        "parameters": sum(each.numel() for each in model.parameters()),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
