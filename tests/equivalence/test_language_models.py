"""Our language models are transformers' OpenAIGPTLMHeadModel and BertForPreTraining.

Weights are random, and copied over in either direction by the table that import and export use.
"""

import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import (
    BertConfig,
    BertForPreTraining,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    PreTrainedModel,
)

from mtkit.data.batches.collate import (
    MaskedBatch,
    collate_text,
    lay_out,
    pack,
    pack_side,
    spread_tokens,
)
from mtkit.data.batches.ragged import Ragged
from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.transformers_config import BertConfig as OurBertConfig
from mtkit.model.transformers_config import GptConfig, describe_language_model
from mtkit.model.transformers_names import (
    convert_to_mtkit,
    convert_to_transformers,
    list_counterparts,
)
from mtkit.model.weights import distinct_weights, load_weights
from mtkit.network import CausalLanguageModel, Layout, MaskedLanguageModel, Network
from mtkit.network.cpu import attention as cpu_attention
from mtkit.network.cpu import dropout as cpu_dropout
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS
from mtkit.training.loss import measure_causal, measure_masked

from ..padded import pad_pairs

VOCAB_SIZE, NUM_POSITIONS = 61, 16
LENGTHS = [9, 4, 16, 1, 7]
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
SIZES = {"num_encoder_layers": 2, "num_decoder_layers": 3, "d_model": 32, "num_heads": 4}
KEYS = {
    "positions": "learned",
    "max_positions": NUM_POSITIONS,
    "scale_embeddings": False,
    "initial_std": 0.02,
}
GPT = {"d_ff": 128, "activation": "gelu_tanh"}
BERT = {"d_ff": 56, "activation": "gelu", "embedding_norm": True, "norm_epsilon": 1e-12}
GPT_PAPER = {"d_model": 768, "num_heads": 12, "d_ff": 3072, "num_decoder_layers": 12}
BERT_BASE = {"d_model": 768, "num_heads": 12, "d_ff": 3072, "num_encoder_layers": 12}
BERT_LARGE = {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "num_encoder_layers": 24}

MAKE = {
    "padded": pad_pairs,
    "grids": lambda source, target: lay_out(source, target, [2, 3], row_step=8),
    "packed": pack,
}
in_both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def _configure(objective: str, vocab_size: int = VOCAB_SIZE, **keys: object) -> ModelConfig:
    return ModelConfig(
        recipe="tiny",
        objective=objective,
        source_language="en",
        target_language="en",
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        model=Model(**{**SIZES, **KEYS, **keys}),
    )


def _perturb(model: nn.Module, *, scale: float = 0.15) -> None:
    """Adds noise to all weights: zeros and ones would hide a swapped pair."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * scale)


def _build_theirs(config: ModelConfig) -> PreTrainedModel:
    described = describe_language_model(config).model_dump(exclude={"model_type", "mtkit"})
    if config.objective == "causal-lm":
        return OpenAIGPTLMHeadModel(OpenAIGPTConfig(**described, attn_implementation="eager"))
    return BertForPreTraining(BertConfig(**described, attn_implementation="eager"))


def _copy_over(
    config: ModelConfig, dtype: torch.dtype, direction: str
) -> tuple[Network, PreTrainedModel]:
    """Returns our network and theirs with the same random weights, drawn on one side."""
    torch.manual_seed(20)
    ours, theirs = build(config), _build_theirs(config)
    ours, theirs = ours.to(dtype).eval(), theirs.to(dtype).eval()
    counterparts = list_counterparts(config)
    if direction == "export":
        _perturb(ours)
        missing, unexpected = theirs.load_state_dict(
            convert_to_transformers(distinct_weights(ours), counterparts), strict=False
        )
        assert not unexpected
        # Names of what is tied.
        assert set(missing) <= {
            "lm_head.weight",
            "cls.predictions.decoder.weight",
            "cls.predictions.decoder.bias",
        }
    else:
        _perturb(theirs)
        load_weights(ours, convert_to_mtkit(theirs.state_dict(), counterparts))
    return ours, theirs


def _lay_out(kind: str, rows: list[list[int]]) -> tuple[Tensor, Layout]:
    side = Ragged.of(rows)
    batch = MAKE[kind](side, side)
    return batch.source_tokens, batch.source_layout


def _pad(rows: list[list[int]], filler: int = 0) -> Tensor:
    return torch.tensor([row + [filler] * (max(LENGTHS) - len(row)) for row in rows])


def _draw_rows(num_ids: int = VOCAB_SIZE, *, first: int = 1) -> list[list[int]]:
    return [torch.randint(first, num_ids, (length,)).tolist() for length in LENGTHS]


def _compare_gradients(
    config: ModelConfig, ours: Network, theirs: PreTrainedModel, *, scale: int = 1
) -> None:
    """Checks each weight's gradient by itself; `scale` is that of a loss that is no mean."""
    counterparts = list_counterparts(config)
    expected = {name: weight.grad for name, weight in theirs.named_parameters()}
    found = convert_to_transformers(
        {name: weight.grad for name, weight in distinct_weights(ours).items()}, counterparts
    )
    assert found.keys() == expected.keys()
    tolerance = TOLERANCE[next(ours.parameters()).dtype]
    for name, gradient in expected.items():
        largest = gradient.abs().max().item()
        if name.endswith("key.bias"):
            # A softmax over keys cancels it: what they find is rounding.
            assert largest < tolerance * scale
            largest = scale
        assert largest > 1e-3, name
        torch.testing.assert_close(
            found[name],
            gradient,
            rtol=0,
            atol=tolerance * min(scale, largest),
            msg=lambda text, of=name: f"{of}: {text}",
        )


@in_both_precisions
@pytest.mark.parametrize("direction", ["export", "import"])
@pytest.mark.parametrize(
    ("kind", "activation"),
    [("padded", "gelu_tanh"), ("grids", "gelu_tanh"), ("packed", "relu"), ("padded", "silu")],
)
def test_gpt_has_the_same_logits_loss_and_gradients(
    activation: str, direction: str, kind: str, dtype: torch.dtype
) -> None:
    config = _configure("causal-lm", **{**GPT, "activation": activation})
    ours, theirs = _copy_over(config, dtype, direction)
    assert isinstance(ours, CausalLanguageModel)
    rows = _draw_rows()
    tokens, layout = _lay_out(kind, rows)
    logits = ours.project(layout.select_tokens(ours(tokens, layout)))
    # It shifts labels itself: the first of a text is predicted by nothing, the last predicts none.
    found = theirs(
        input_ids=_pad(rows),
        attention_mask=_pad([[1] * length for length in LENGTHS]),
        labels=_pad(rows, -100),
    )
    is_token = _pad([[1] * length for length in LENGTHS]).bool()
    assert logits.abs().max() > 1.0
    torch.testing.assert_close(logits, found.logits[is_token], rtol=0, atol=TOLERANCE[dtype])

    following = torch.cat([torch.tensor([*row[1:], -100]) for row in rows])
    loss = cross_entropy(logits, following)
    # It takes the loss in fp32, whatever it computes in: their gradients are those of their logits.
    torch.testing.assert_close(loss.float(), found.loss, rtol=1e-6, atol=0)
    their_loss = cross_entropy(found.logits[is_token], following)
    torch.testing.assert_close(loss, their_loss, rtol=0, atol=TOLERANCE[dtype])
    loss.backward()
    their_loss.backward()
    _compare_gradients(config, ours, theirs)


@in_both_precisions
@pytest.mark.parametrize("direction", ["export", "import"])
@pytest.mark.parametrize(
    ("kind", "activation"),
    [("padded", "gelu"), ("grids", "gelu"), ("packed", "gelu_tanh"), ("padded", "relu")],
)
def test_bert_has_the_same_logits_losses_and_gradients(
    activation: str, direction: str, kind: str, dtype: torch.dtype
) -> None:
    config = _configure("masked-lm", **{**BERT, "activation": activation})
    ours, theirs = _copy_over(config, dtype, direction)
    assert isinstance(ours, MaskedLanguageModel)
    rows = _draw_rows()
    # A text of one token has no second part.
    segments = [[0] * (length // 2 + 1) + [1] * (length - length // 2 - 1) for length in LENGTHS]
    tokens, layout = _lay_out(kind, rows)
    parts, _ = _lay_out(kind, segments)
    # Some of each text's tokens are hidden, by whatever mask; the first sentence's last too.
    is_masked = torch.cat([torch.arange(length) % 4 == 0 for length in LENGTHS])
    hidden = torch.randint(1, VOCAB_SIZE, (int(is_masked.sum()),))
    labels = torch.full((sum(LENGTHS),), -100)
    labels[is_masked] = hidden
    is_random = torch.tensor([0, 1, 1, 0, 1])

    states = ours(tokens, parts, layout)
    logits = ours.predict(layout.select_tokens(states)[is_masked])
    pairs = ours.classify_pair(states, layout)
    found = theirs(
        input_ids=_pad(rows),
        token_type_ids=_pad(segments),
        attention_mask=_pad([[1] * length for length in LENGTHS]),
        labels=_pad([part.tolist() for part in labels.split(LENGTHS)], -100),
        next_sentence_label=is_random,
    )
    is_token = _pad([[1] * length for length in LENGTHS]).bool()
    expected = found.prediction_logits[is_token][is_masked]
    tolerance = TOLERANCE[dtype]
    assert logits.abs().max() > 1.0
    torch.testing.assert_close(logits, expected, rtol=0, atol=tolerance)
    torch.testing.assert_close(pairs, found.seq_relationship_logits, rtol=0, atol=tolerance)

    loss = cross_entropy(logits, hidden) + cross_entropy(pairs, is_random)
    torch.testing.assert_close(loss, found.loss, rtol=0, atol=tolerance)
    loss.backward()
    found.loss.backward()
    _compare_gradients(config, ours, theirs)


def test_the_loss_that_gpt_is_trained_by_is_theirs() -> None:
    config = _configure("causal-lm", **GPT)
    ours, theirs = _copy_over(config, torch.float64, "export")
    rows = _draw_rows()
    text = Ragged.of(rows)
    batch = collate_text(text, pack_side(text.lengths))
    sums = measure_causal(ours, batch, label_smoothing=0.0)
    # `<s>` stands before each text there too, and is predicted by nothing.
    begun = [[BOS, *row[:-1]] for row in rows]
    logits = theirs(input_ids=_pad(begun)).logits
    loss = cross_entropy(logits.flatten(0, 1), _pad(rows, -100).flatten(), reduction="sum")
    torch.testing.assert_close(sums.loss, loss, rtol=1e-12, atol=0)
    sums.loss.backward()
    loss.backward()
    _compare_gradients(config, ours, theirs, scale=sum(LENGTHS))


def test_the_losses_that_bert_is_trained_by_are_theirs() -> None:
    config = _configure("masked-lm", **BERT)
    ours, theirs = _copy_over(config, torch.float64, "export")
    rows = _draw_rows()
    text = Ragged.of(rows)
    layout = pack_side(text.lengths)
    segments = [[0] * (length // 2 + 1) + [1] * (length - length // 2 - 1) for length in LENGTHS]
    indices = torch.arange(0, sum(LENGTHS), 4)
    labels = torch.full((sum(LENGTHS),), -100)
    labels[indices] = torch.randint(1, VOCAB_SIZE, indices.shape)
    is_random = torch.tensor([0, 1, 1, 0, 1])
    batch = MaskedBatch(
        inputs=spread_tokens(text.tokens, layout),
        segments=spread_tokens(Ragged.of(segments).tokens, layout, padding=0),
        layout=layout,
        indices=indices,
        outputs=labels[indices],
        is_random=is_random,
    )
    sums = measure_masked(ours, batch, label_smoothing=0.0)
    # BertForPreTraining's loss is the sum of both means.
    loss = sums.loss / len(indices) + sums.example_loss / len(LENGTHS)
    expected = theirs(
        input_ids=_pad(rows),
        token_type_ids=_pad(segments),
        attention_mask=_pad([[1] * length for length in LENGTHS]),
        labels=_pad([part.tolist() for part in labels.split(LENGTHS)], -100),
        next_sentence_label=is_random,
    ).loss
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    loss.backward()
    expected.backward()
    _compare_gradients(config, ours, theirs)


@pytest.mark.parametrize("objective", ["causal-lm", "masked-lm"])
def test_dropout_is_where_theirs_is(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def scale(inputs: Tensor, rate: float, *_: object, **__: object) -> Tensor:
        return inputs * (1 - 3 * rate)

    def drop(inputs: Tensor, p: float = 0.5, training: bool = True, *_: object) -> Tensor:
        return scale(inputs, p) if training else inputs

    # A factor at each site in place of chance: a site missing, or one more, another outcome.
    monkeypatch.setattr(torch.nn.functional, "dropout", drop)
    monkeypatch.setattr(cpu_dropout, "drop", scale)
    monkeypatch.setattr(
        cpu_dropout, "drop_and_add", lambda states, inputs, rate: states + scale(inputs, rate)
    )
    monkeypatch.setattr(cpu_attention, "_drop", lambda weights, _, rate: scale(weights, rate))
    keys = GPT if objective == "causal-lm" else BERT
    config = _configure(objective, **keys, dropout=0.1, attention_dropout=0.2)
    ours, theirs = _copy_over(config, torch.float64, "export")
    tokens, layout = _lay_out("padded", [[5, 8, 2, 44, 9, 17], [3, 4, 1, 5, 6, 7]])
    outcomes = []
    for trains in (True, False):
        ours.train(trains)
        theirs.train(trains)
        if isinstance(ours, CausalLanguageModel):
            found = ours.project(ours(tokens, layout))
            expected = theirs(input_ids=tokens).logits
        else:
            assert isinstance(ours, MaskedLanguageModel)
            states = ours(tokens, torch.zeros_like(tokens), layout)
            found = torch.cat(
                (ours.predict(states).flatten(1), ours.classify_pair(states, layout)), dim=1
            )
            both = theirs(input_ids=tokens, attention_mask=torch.ones_like(tokens))
            expected = torch.cat(
                (both.prediction_logits.flatten(1), both.seq_relationship_logits), dim=1
            )
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
        outcomes.append(found)
    assert (outcomes[0] - outcomes[1]).abs().max() > 0.1


@pytest.mark.parametrize(
    ("objective", "vocab_size", "keys", "count"),
    [
        # Printed by transformers' own classes on the meta device, below too.
        ("causal-lm", 40_478, {**GPT, **GPT_PAPER}, 116_534_784),
        ("masked-lm", 30_522, {**BERT, **BERT_BASE}, 110_106_428),
        ("masked-lm", 30_522, {**BERT, **BERT_LARGE}, 336_226_108),
    ],
    ids=["gpt", "bert-base", "bert-large"],
)
def test_sizes_of_the_papers_have_transformers_counts(
    objective: str, vocab_size: int, keys: dict[str, object], count: int
) -> None:
    config = _configure(objective, vocab_size, **{**keys, "max_positions": 512})
    with torch.device("meta"):
        ours, theirs = build(config), _build_theirs(config)
    assert sum(weight.numel() for weight in ours.parameters()) == count
    assert sum(weight.numel() for weight in theirs.parameters()) == count


def test_defaults_are_those_of_transformers_and_of_the_papers() -> None:
    own = {"mtkit", "pad_token_id", "bos_token_id", "eos_token_id"}
    for ours, theirs in ((GptConfig(), OpenAIGPTConfig()), (OurBertConfig(), BertConfig())):
        expected = {"is_decoder": False, **theirs.to_dict()}
        assert ours.model_dump(exclude=own).items() <= expected.items()
    gpt = {**GPT, **GPT_PAPER, "max_positions": 512, "attention_dropout": 0.1}
    assert describe_language_model(_configure("causal-lm", 40_478, **gpt)) == GptConfig()
    bert = {**BERT, **BERT_BASE, "max_positions": 512, "attention_dropout": 0.1}
    assert describe_language_model(_configure("masked-lm", 30_522, **bert)) == OurBertConfig()


@pytest.mark.parametrize(
    ("objective", "keys", "fault"),
    [
        ("causal-lm", {"norm": "pre"}, 'model.norm = "pre", expected "post"'),
        ("causal-lm", {"d_ff": 100}, "model.d_ff = 100, expected 128"),
        ("causal-lm", {"activation": "gelu"}, 'model.activation = "gelu", expected relu or'),
        ("causal-lm", {"output_bias": True}, "model.output_bias = true, expected false"),
        ("masked-lm", {"embedding_norm": False}, "model.embedding_norm = false, expected true"),
        ("masked-lm", {"attention_window": 3}, "model.attention_window = 3, expected none"),
        ("masked-lm", {"tied_embeddings": "none"}, "expected one matrix"),
        ("masked-lm", {"d_key": 9}, "model.d_key = 9, expected 8"),
    ],
)
def test_networks_that_transformers_lacks_are_refused_by_their_keys(
    objective: str, keys: dict[str, object], fault: str
) -> None:
    usual = GPT if objective == "causal-lm" else BERT
    list_counterparts(_configure(objective, **usual))
    with pytest.raises(MtkitError, match=re.escape(fault)):
        list_counterparts(_configure(objective, **{**usual, **keys}))
