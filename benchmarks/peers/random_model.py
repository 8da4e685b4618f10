"""A model folder with random weights whose outputs all have one length, to measure speed with.

A random model never ends a sentence. Here the weights make it do so: the decoder's
positions, which are learned ones, carry a direction that is `</s>`'s own, against it as long as the
output is too short and along it from then on. It runs through the residual sums to the last norm,
so that `</s>` is out of the question first and all but certain afterwards. No engine
needs to know: all end each hypothesis in the same step, as they end any.
"""

from pathlib import Path

import torch

from mtkit.errors import MtkitError
from mtkit.model.config import (
    CONFIG_FILE,
    INFERENCE_FILE,
    WEIGHTS_FILE,
    ModelConfig,
    write_section,
)
from mtkit.model.weights import pack_weights, write_tensors
from mtkit.network import EncoderDecoder
from mtkit.network.embeddings import LearnedPositions
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS, PAD
from mtkit.text.tokenizer import SubwordTokenizer

SHAPES = {
    "tiny": (4, 128, 256, 4),
    "base": (6, 512, 2048, 8),
    "big": (6, 1024, 4096, 16),
}
"""Layers of encoder and of decoder, d_model, d_ff, heads."""
_AGAINST, _ALONG = -2.0, 8.0
"""Lengths along the direction, in those of an embedding."""


def make_random_model(folder: Path, shape: str, pieces: Path, num_tokens: int) -> None:
    """Writes a model folder, pre-norm and tied three-way.

    Args:
        folder: Where to.
        shape: A key of `SHAPES`.
        pieces: A folder with a tokenizer of one vocabulary.
        num_tokens: Tokens of every output, `</s>` not counted.

    Raises:
        MtkitError: There is no tokenizer, or one with two vocabularies.
    """
    tokenizer = SubwordTokenizer.load(pieces)
    if not tokenizer.is_joint:
        raise MtkitError(f"{pieces}: a random model needs one vocabulary for both sides")
    layers, d_model, d_ff, heads = SHAPES[shape]
    section = Model(
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        d_model=d_model,
        d_ff=d_ff,
        num_heads=heads,
        norm="pre",
        positions="learned",
    )
    vocab_size = tokenizer.target_vocab_size
    torch.manual_seed(1)
    model = EncoderDecoder(section, vocab_size, vocab_size)
    _end_after(model, num_tokens)
    config = ModelConfig(
        recipe=f"random-{shape}",
        source_language="en",
        target_language="de",
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        model=section,
    )
    # With a length penalty a search that stops once nothing longer can win would go on to its
    # limit: pieces from chance are so unlikely that any number of them might.
    settings = Inference(length_penalty=LengthPenalty(kind="power", alpha=0.0))
    folder.mkdir(parents=True, exist_ok=True)
    write_section(folder / CONFIG_FILE, config)
    write_section(folder / INFERENCE_FILE, settings)
    tokenizer.save(folder)
    write_tensors(pack_weights(model), folder / WEIGHTS_FILE)
    (folder / "README.md").write_text("Random weights, to measure speed with.\n", "utf-8")


@torch.no_grad()
def _end_after(model: EncoderDecoder, num_tokens: int) -> None:
    """Sets a tied model's weights for outputs of this many tokens before `</s>`."""
    embeddings = model.output_embedding.weight
    d_model = embeddings.shape[1]
    # Of length 1 as embeddings are, with a mean of 0, which a norm leaves alone.
    direction = torch.tensor([1.0, -1.0]).repeat(d_model // 2) / d_model**0.5
    embeddings[EOS] = direction
    # mtkit gives these to nobody, and the others needn't.
    embeddings[[PAD, BOS]] = 0.0
    positions = model.target_embedding.positions
    assert isinstance(positions, LearnedPositions)
    length = d_model**0.5
    positions.weight[:num_tokens] += _AGAINST * length * direction
    positions.weight[num_tokens:] += _ALONG * length * direction
