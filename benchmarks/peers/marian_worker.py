"""Trains transformers' MarianMT from random weights, with transformers' own Seq2SeqTrainer."""

import tempfile
from typing import Any

import numpy as np
import torch
from exported import Pairs
from measured import Window, read_task
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import MarianConfig, MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments

PAD, EOS = 0, 3
IGNORED = -100
_LONGEST_TURN = 50
"""Batches that the trainer sorts by length together, at most."""


class Examples(Dataset):
    """Pairs by number, as the trainer takes them."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, row: int) -> dict[str, np.ndarray]:
        return {"input_ids": self._pairs.source(row), "labels": self._pairs.target(row)}


def collate(examples: list[dict[str, np.ndarray]]) -> dict[str, Tensor]:
    """Returns one batch, padded at the end."""

    def pad(name: str, value: int) -> Tensor:
        sides = [torch.from_numpy(example[name].astype(np.int64)) for example in examples]
        return nn.utils.rnn.pad_sequence(sides, batch_first=True, padding_value=value)

    source, labels = pad("input_ids", PAD), pad("labels", IGNORED)
    # With label smoothing the trainer makes the loss, and leaves this to the collator.
    inputs = nn.functional.pad(labels[:, :-1].clamp(min=PAD), (1, 0), value=PAD)
    return {
        "input_ids": source,
        "attention_mask": (source != PAD).long(),
        "decoder_input_ids": inputs,
        "labels": labels,
    }


class MeasuredTrainer(Seq2SeqTrainer):
    """Predicate the window of each update; at its backward pass, which there is one of in each."""

    window: Window

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *others: Any) -> Tensor:
        """Passes a batch forward and backward."""
        source, labels = inputs["attention_mask"], inputs["labels"]
        loss = super().training_step(model, inputs, *others)
        num_slots = source.numel() + labels.numel()
        self.window.end_update(source.sum(1), (labels != IGNORED).sum(1), num_slots)
        return loss


def build(model: dict[str, Any], vocab_size: int) -> MarianMTModel:
    """Returns the network; it is post-norm, since MarianMT has no other kind."""
    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=model["d_model"],
        encoder_layers=model["num_encoder_layers"],
        decoder_layers=model["num_decoder_layers"],
        encoder_attention_heads=model["num_heads"],
        decoder_attention_heads=model["num_heads"],
        encoder_ffn_dim=model["d_ff"],
        decoder_ffn_dim=model["d_ff"],
        activation_function="relu",
        dropout=model["dropout"],
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        decoder_start_token_id=PAD,
        use_cache=False,
    )
    return MarianMTModel(config)


def main() -> None:
    task = read_task()
    torch.manual_seed(task["seed"])
    pairs = Pairs(task["data"])
    # The trainer's batches are a number of sentences: so many that the budget is met on average.
    batch_size = max(1, round(task["batch_tokens"] / float(np.maximum(*pairs.lengths).mean())))
    # They go from long to short sentences over and over: only whole turns are typical.
    turn = max(1, min(len(pairs) // (4 * batch_size), _LONGEST_TURN))
    task["updates"] = turn * -(-task["updates"] // turn)
    with tempfile.TemporaryDirectory() as folder:
        settings = Seq2SeqTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch_size,
            train_sampling_strategy="group_by_length",
            max_steps=task["warm_up"] + task["updates"] + 1,
            learning_rate=1e-4,
            adam_beta2=0.98,
            label_smoothing_factor=task["label_smoothing"],
            bf16=task["precision"] == "bf16",
            use_cpu=task["device"] == "cpu",
            # On a CPU, workers would take the cores that compute.
            dataloader_num_workers=2 if task["device"] == "cuda" else 0,
            dataloader_drop_last=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=task["seed"],
        )
        trainer = MeasuredTrainer(
            model=build(task["model"], task["vocab_size"]),
            args=settings,
            train_dataset=Examples(pairs),
            data_collator=collate,
        )
        trainer.window = Window(task, task["precision"], "transformers")
        trainer.train()


if __name__ == "__main__":
    main()
