"""The costs of a network, computed from its recipe alone: weights, operations, memory.

Nothing is built and torch isn't loaded. `tests/unit/model/test_costs.py` compares weights (exactly)
and memory (approximately) with the networks themselves.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil, prod
from typing import get_args

from mtkit.model.parameters import (
    Part,
    find_part,
    is_low_rank,
    list_learned_shapes,
    list_shapes,
)
from mtkit.recipe.model import Model
from mtkit.recipe.objective import ENCODER_DECODERS, Objective
from mtkit.recipe.training import FrozenPart, Training

PER_WEIGHT = 6
"""Operations per weight and token: a multiplication and an addition, once forward, twice back."""
_HALF, _SINGLE = 2, 4
"""Bytes of a number in bf16 and in fp32."""
_MASK = 1
"""Bytes that dropout keeps per value."""
_NUM_KEPT_INNER = {"relu": 1, "gelu": 2, "gelu_tanh": 2, "silu": 2, "swiglu": 4}
"""Vectors of width d_ff kept per activation: its output, except for ReLU also its input, and four
with a gate."""
_NUM_MOMENTS = 2
"""Of Adam, in fp32."""


@dataclass(frozen=True)
class Weights:
    """Weights of each `Part` of a network; a shared one counts once."""

    encoder: int
    decoder: int
    embeddings: int
    output: int

    @property
    def total(self) -> int:
        """All weights."""
        return self.encoder + self.decoder + self.embeddings + self.output

    def count_trainable(self, frozen: Sequence[FrozenPart]) -> int:
        """Returns the number of weights that learn if some parts are frozen (`training.freeze`)."""
        counts: dict[str, int] = asdict(self)
        return self.total - sum(counts[part] for part in set(frozen))


@dataclass(frozen=True)
class Operations:
    """Operations of the matrix products per token, forward and backward.

    Of the embeddings only the output projection counts: a look-up has no operations.

    Attributes:
        per_source_token: The encoder, and the decoder's keys and values of the source; or without
            encoder the decoder.
        per_target_token: The rest of the decoder, and the output projection.
        per_attended_pair: One query with one key, in the attention of one layer.
    """

    per_source_token: int
    per_target_token: int
    per_attended_pair: int


def count_weights(
    model: Model,
    source_vocab_size: int,
    target_vocab_size: int,
    *,
    objective: Objective = "translation",
    next_sentence: bool = True,
) -> Weights:
    """Returns the number of weights of each part, including biases."""
    sizes = source_vocab_size, target_vocab_size
    shapes = list_shapes(model, *sizes, objective=objective, next_sentence=next_sentence)
    counts = Counter[Part]()
    for name, shape in shapes.items():
        counts[find_part(name)] += prod(shape)
    return Weights(**{part: counts[part] for part in get_args(Part)})


def count_trained(
    model: Model,
    training: Training,
    vocab_sizes: tuple[int, int],
    *,
    objective: Objective = "translation",
) -> tuple[Weights, int, int]:
    """Returns a network's weights, the number that learn, and the number that LoRA adds."""
    next_sentence = training.masked.next_sentence
    weights = count_weights(model, *vocab_sizes, objective=objective, next_sentence=next_sentence)
    if training.lora is None:
        return weights, weights.count_trainable(training.freeze), 0
    shapes = list_shapes(model, *vocab_sizes, objective=objective, next_sentence=next_sentence)
    learned = list_learned_shapes(shapes, model, training.lora)
    added = sum(prod(shape) for name, shape in learned.items() if is_low_rank(name))
    return weights, sum(map(prod, learned.values())), added


def count_operations(
    model: Model,
    target_vocab_size: int,
    *,
    objective: Objective = "translation",
    predicted_share: float = 1.0,
) -> Operations:
    """Returns the operations of a network's products, without biases, norms and the like.

    The tokens of a language model count as target tokens. A masked one predicts `predicted_share`
    of them; its pair head runs once per text and isn't counted.
    """
    keys, values = model.num_heads * model.d_key, model.num_heads * model.d_value
    attention = model.d_model * (2 * keys + values) + values * model.d_model
    of_source = model.d_model * (keys + values)
    feed_forward = (3 if model.activation == "swiglu" else 2) * model.d_model * model.d_ff
    projection = target_vocab_size * model.d_model
    match objective:
        case "causal-lm":
            per_source = 0
            per_target = model.num_decoder_layers * (attention + feed_forward) + projection
        case "masked-lm":
            per_source = 0
            per_target = model.num_encoder_layers * (attention + feed_forward)
            per_target += round(predicted_share * (projection + model.d_model**2))
        case _ if model.architecture == "decoder-only":
            per_source = model.num_decoder_layers * (attention + feed_forward)
            per_target = per_source + projection
        case _:
            per_source = model.num_encoder_layers * (attention + feed_forward)
            per_source += model.num_decoder_layers * of_source
            per_target = model.num_decoder_layers * (2 * attention - of_source + feed_forward)
            per_target += projection
    return Operations(
        PER_WEIGHT * per_source, PER_WEIGHT * per_target, PER_WEIGHT * (keys + values)
    )


def bytes_of_weights(
    num_weights: int,
    num_trainable: int,
    *,
    is_half: bool,
    has_average: bool = False,
    num_shards: int = 1,
) -> int:
    """Returns the memory that a training needs regardless of its batches.

    Args:
        num_weights: All weights.
        num_trainable: Weights that aren't frozen.
        is_half: Whether updates use 16-bit copies of weights and gradients.
        has_average: Whether a moving average of the weights is kept.
        num_shards: Ranks that share Adam's moments (`training.shard`).
    """
    copies = (1 + has_average) * _SINGLE + is_half * _HALF
    moments = ceil(num_trainable / num_shards) * _NUM_MOMENTS * _SINGLE
    return num_weights * (_SINGLE + is_half * _HALF) + num_trainable * copies + moments


def bytes_per_token(
    model: Model,
    *,
    is_half: bool,
    objective: Objective = "translation",
    recompute: bool = False,
) -> tuple[int, int]:
    """Returns the bytes that a forward pass keeps for backward, per source and per target token.

    This is for a GPU with packed batches, whose attention keeps no weights. Each product and each
    norm keeps its input; dropout keeps a byte per number. The tokens of a language model count as
    target tokens. `is_half` is for bf16 and fp16. With `recompute` every layer keeps its input, and
    only one at a time the rest.
    """
    width = _HALF if is_half else _SINGLE
    keys, values = model.num_heads * model.d_key, model.num_heads * model.d_value
    # A product's input, queries, keys and values, the heads' output, the norm's input, one number
    # per head, and a mask.
    attended = model.d_model + 2 * keys + 2 * values + model.d_model
    heads = model.num_heads * _SINGLE
    inner = _NUM_KEPT_INNER[model.activation] * model.d_ff
    fed = 2 * model.d_model + inner
    mask = model.d_model * _MASK
    encoder_layer = width * (attended + fed) + heads + 2 * mask
    decoder_layer = width * (2 * attended - keys - values + fed) + 2 * heads + 3 * mask
    of_source = width * (keys + values)

    def keep(num_layers: int, layer: int, kept: int = width * model.d_model) -> int:
        return num_layers * kept + layer if recompute else num_layers * layer

    is_joined = model.architecture == "decoder-only" and objective in ENCODER_DECODERS
    if objective not in ENCODER_DECODERS or is_joined:
        is_causal = objective == "causal-lm" or is_joined
        num_layers = model.num_decoder_layers if is_causal else model.num_encoder_layers
        layers = keep(num_layers, encoder_layer)
        # A masked model's head isn't counted: it sees few tokens.
        loss = 2 * width * model.d_model if is_causal else 0
        num_norms = (model.norm == "pre") + model.embedding_norm
        per_token = layers + mask + num_norms * width * model.d_model
        return per_token if is_joined else 0, per_token + loss
    per_source = keep(model.num_encoder_layers, encoder_layer)
    per_source += keep(model.num_decoder_layers, of_source, kept=0)
    # The encoder's output; for the loss, its input and its gradient instead of logits.
    per_source += mask + width * model.d_model
    per_target = keep(model.num_decoder_layers, decoder_layer) + mask + 2 * width * model.d_model
    # The input of norms outside layers.
    num_norms = (model.norm == "pre") + model.embedding_norm
    final_norm = num_norms * width * model.d_model
    return per_source + final_norm, per_target + final_norm
