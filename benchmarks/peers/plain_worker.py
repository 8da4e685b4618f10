"""Trains PyTorch's own nn.Transformer for the benchmark: what a page of code comes to.

The page is a good one: batches of alike lengths, only real tokens projected onto the vocabulary,
PyTorch's fused AdamW, its attention kernels without a mask where they can do without.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from exported import Pairs
from measured import Window, read_task
from torch import Tensor, nn

PAD, BOS = 0, 2


class Translator(nn.Module):
    """nn.Transformer between one embedding matrix, which is the output projection as well."""

    def __init__(self, model: dict[str, Any], vocab_size: int) -> None:
        super().__init__()
        width = model["d_model"]
        self.embedding = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.dropout = nn.Dropout(model["dropout"])
        self.transformer = nn.Transformer(
            width,
            model["num_heads"],
            model["num_encoder_layers"],
            model["num_decoder_layers"],
            model["d_ff"],
            model["dropout"],
            batch_first=True,
            norm_first=model["norm"] == "pre",
        )
        for module in self.transformer.modules():
            # As in the paper: neither attention weights nor inner activations are dropped.
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout = nn.Identity()
        self.register_buffer("positions", sinusoids(1024, width), persistent=False)

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns token vectors plus positions."""
        vectors = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        return self.dropout(vectors + self.positions[: tokens.shape[1]])

    def forward(self, source: Tensor, target_inputs: Tensor) -> Tensor:
        """Returns each target position's vector."""
        is_padding = source == PAD
        length = target_inputs.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(length, device=source.device)
        return self.transformer(
            self.embed(source),
            self.embed(target_inputs),
            tgt_mask=causal,
            src_key_padding_mask=is_padding,
            memory_key_padding_mask=is_padding,
            tgt_is_causal=True,
        )


def sinusoids(length: int, width: int) -> Tensor:
    """Returns the paper's position encoding."""
    angles = torch.arange(length)[:, None] * 10_000 ** (-torch.arange(0, width, 2) / width)
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)


def batches(pairs: Pairs, batch_tokens: int, seed: int) -> Iterator[list[int]]:
    """Yields pairs of similar length, up to `batch_tokens` a side with padding, without end."""
    generator = np.random.default_rng(seed)
    sources, targets = pairs.lengths
    while True:
        order = np.lexsort((generator.random(len(targets)), sources, targets))
        cut: list[list[int]] = [[]]
        longest = 0
        for row in order.tolist():
            longest = max(longest, sources[row], targets[row])
            if longest * (len(cut[-1]) + 1) > batch_tokens and cut[-1]:
                cut.append([])
                longest = max(sources[row], targets[row])
            cut[-1].append(row)
        for index in generator.permutation(len(cut)):
            yield cut[index]


def pad(sentences: list[np.ndarray]) -> Tensor:
    """Returns [batch, longest] tokens."""
    longest = max(map(len, sentences))
    padded = np.full((len(sentences), longest), PAD)
    for row, sentence in enumerate(sentences):
        padded[row, : len(sentence)] = sentence
    return torch.from_numpy(padded)


def main() -> None:
    task = read_task()
    torch.manual_seed(task["seed"])
    device, precision = task["device"], task["precision"]
    pairs = Pairs(task["data"])
    model = Translator(task["model"], task["vocab_size"]).to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    window = Window(task, precision)
    for rows in batches(pairs, task["batch_tokens"], task["seed"]):
        source = pad([pairs.source(row) for row in rows]).to(device, non_blocking=True)
        target = pad([pairs.target(row) for row in rows]).to(device, non_blocking=True)
        inputs = nn.functional.pad(target[:, :-1], (1, 0), value=BOS)
        is_token = target != PAD
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            states = model(source, inputs)[is_token]
            logits = nn.functional.linear(states, model.embedding.weight)
        loss = nn.functional.cross_entropy(
            logits.float(), target[is_token], label_smoothing=task["label_smoothing"]
        )
        loss.backward()
        optimizer.step()
        num_slots = source.numel() + target.numel()
        window.end_update((source != PAD).sum(1), is_token.sum(1), num_slots)


if __name__ == "__main__":
    main()
