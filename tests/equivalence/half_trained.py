"""A tiny model that has begun to learn copying: it ends most outputs, and is often in doubt."""

import functools
import random

import torch
from torch import nn

from mtkit.inference.engines.engine import EncodedSource
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS, PAD

VOCAB_SIZE = 20


@functools.cache
def half_trained_model(norm: str, num_steps: int = 40, **others: str) -> EncoderDecoder:
    """Returns the model, in evaluation mode.

    Args:
        norm: `post` or `pre`.
        num_steps: Updates that it is trained for.
        others: More keys of the recipe's section.
    """
    torch.manual_seed(3)
    shape = Model(
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=32,
        d_ff=64,
        num_heads=4,
        norm=norm,
        dropout=0.0,
        **others,
    )
    model = EncoderDecoder(shape, VOCAB_SIZE, VOCAB_SIZE)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = random.Random(7)
    for _ in range(num_steps):
        source = _pad(draw_sources(generator, 32))
        inputs = source.roll(1, dims=1)
        inputs[:, 0] = BOS
        logits = model.project(
            model(source, PaddedLayout(source != PAD), inputs, PaddedLayout.without_padding(inputs))
        )
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), source.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def draw_sources(generator: random.Random, count: int) -> list[list[int]]:
    """Returns sources of 2 to 13 tokens, `</s>` counted."""
    return [
        [*(generator.randrange(4, VOCAB_SIZE) for _ in range(generator.randint(1, 12))), EOS]
        for _ in range(count)
    ]


def encoded(sources: list[list[int]]) -> list[EncodedSource]:
    """Returns sources as an engine takes them."""
    return [EncodedSource(source) for source in sources]


def _pad(sources: list[list[int]]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(source) for source in sources], batch_first=True, padding_value=PAD
    )
