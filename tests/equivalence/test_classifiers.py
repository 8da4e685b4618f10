"""Our classifiers are transformers' `...ForSequenceClassification` of BERT and GPT."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    OpenAIGPTConfig,
    OpenAIGPTForSequenceClassification,
    OpenAIGPTLMHeadModel,
)

from mtkit.data.batches.collate import lay_out_side, pack_side
from mtkit.data.batches.examples import ExampleBatch, add_begin, collate_examples
from mtkit.data.batches.joined_texts import join_rows
from mtkit.model.build import build
from mtkit.model.config import ClassifierConfig, ModelConfig
from mtkit.model.transformers_config import describe_language_model
from mtkit.model.transformers_names import (
    Counterpart,
    convert_to_mtkit,
    convert_to_transformers,
    list_counterparts,
)
from mtkit.model.weights import distinct_weights, load_weights
from mtkit.network import CausalClassifier, MaskedClassifier
from mtkit.recipe.model import Model
from mtkit.training.loss import measure_classification

VOCAB_SIZE, MAX_TOKENS = 61, 16
DELIMITER, EXTRACT = 59, 60
LABELS = ("a", "b", "c")
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
SIZES = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 32, "num_heads": 4}
KEYS = {"positions": "learned", "max_positions": MAX_TOKENS, "scale_embeddings": False}
BERT = {"d_ff": 56, "activation": "gelu", "embedding_norm": True, "norm_epsilon": 1e-12}
GPT = {"d_ff": 128, "activation": "gelu_tanh"}
LAYOUTS: dict[str, Callable] = {
    "one grid": lambda lengths: lay_out_side(lengths, [len(lengths)]),
    "grids": lambda lengths: lay_out_side(lengths, [2, len(lengths) - 2], row_step=8),
    "packed": pack_side,
}
in_every_way = pytest.mark.parametrize("kind", LAYOUTS)
in_both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
with_pairs_or_not = pytest.mark.parametrize("has_pairs", [False, True])


def _configure(kind: str, **keys: object) -> tuple[ModelConfig, ModelConfig]:
    """Returns a classifier's config, and that of the language model behind it."""
    common = {
        "recipe": "tiny",
        "source_language": "en",
        "target_language": "en",
        "source_vocab_size": VOCAB_SIZE,
        "target_vocab_size": VOCAB_SIZE,
        "model": Model(**{**SIZES, **KEYS, **keys}),
    }
    classifier = ClassifierConfig(kind=kind, labels=LABELS, has_pairs=True, max_tokens=MAX_TOKENS)
    return (
        ModelConfig(objective="classification", classifier=classifier, **common),
        ModelConfig(objective=kind, **common),
    )


def _draw_batch(kind: str, *, has_pairs: bool, closing: tuple[int, int] | None) -> ExampleBatch:
    lengths = [(7, 4), (1, 2), (12, 9), (3, 1)]
    draw = lambda size: [*torch.randint(4, 59, (size,)).tolist(), 3]  # noqa: E731
    rows = join_rows(
        [draw(first) for first, _ in lengths],
        [draw(second) for _, second in lengths] if has_pairs else None,
        max_tokens=MAX_TOKENS,
    )
    rows = add_begin(rows)
    labels = torch.tensor([2, 0, 1, 2]).numpy()
    return collate_examples(rows, labels, LAYOUTS[kind](rows.lengths), closing=closing)


def _pad(batch: ExampleBatch, tensor: Tensor) -> Tensor:
    """Returns one row a text, filled up with zeros."""
    values = batch.layout.select_tokens(tensor[..., None].double())[:, 0].long()
    texts = torch.tensor_split(values, batch.last[:-1] + 1)
    return nn.utils.rnn.pad_sequence(list(texts), batch_first=True)


def _list_counterparts(language_model: ModelConfig, head: dict[str, str]) -> list[Counterpart]:
    """Returns the counterparts that a classifier has, by the table of language models."""
    shared = ("source_embedding", "target_embedding", "encoder", "decoder", "pooler")
    kept = [one for one in list_counterparts(language_model) if one.origin.split(".")[0] in shared]
    return [*kept, *(Counterpart(ours, (theirs,)) for ours, theirs in head.items())]


def _describe(language_model: ModelConfig) -> dict[str, object]:
    """Returns the keys of transformers' config of a language model."""
    return describe_language_model(language_model).model_dump(exclude={"model_type", "mtkit"})


def _perturb(model: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.15)


def _compare_gradients(
    ours: nn.Module, theirs: nn.Module, counterparts: list[Counterpart], tolerance: float
) -> None:
    gradients = {name: weight.grad for name, weight in distinct_weights(ours).items()}
    found = convert_to_transformers(gradients, counterparts)
    expected = {name: weight.grad for name, weight in theirs.named_parameters()}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert gradient.abs().max() > 1e-4 or name.endswith("key.bias"), name
        torch.testing.assert_close(
            found[name], gradient, rtol=0, atol=tolerance, msg=lambda text, of=name: f"{of}: {text}"
        )


@in_both_precisions
@in_every_way
@with_pairs_or_not
def test_berts_logits_loss_and_gradients(kind: str, dtype: torch.dtype, *, has_pairs: bool) -> None:
    torch.manual_seed(20)
    config, language_model = _configure("masked-lm", **BERT)
    described = BertConfig(
        num_labels=len(LABELS), attn_implementation="eager", **_describe(language_model)
    )
    theirs = BertForSequenceClassification(described).to(dtype).eval()
    _perturb(theirs)
    ours = build(config).to(dtype).eval()
    assert isinstance(ours, MaskedClassifier)
    names = {name: name for name in ("classifier.weight", "classifier.bias")}
    counterparts = _list_counterparts(language_model, names)
    load_weights(ours, convert_to_mtkit(theirs.state_dict(), counterparts))
    batch = _draw_batch(kind, has_pairs=has_pairs, closing=None)
    found = theirs(
        input_ids=_pad(batch, batch.inputs),
        token_type_ids=_pad(batch, batch.segments),
        attention_mask=_pad(batch, torch.ones_like(batch.inputs)),
        labels=batch.labels,
    )
    _, logits = ours.label(batch.inputs, batch.segments, batch.layout, batch.last)
    torch.testing.assert_close(logits, found.logits, rtol=0, atol=TOLERANCE[dtype])
    sums = measure_classification(ours, batch, label_smoothing=0.0, auxiliary=0.5)
    loss = sums.join(len(batch.labels), len(batch.labels)) / len(batch.labels)
    torch.testing.assert_close(loss, found.loss, rtol=0, atol=TOLERANCE[dtype])
    loss.backward()
    found.loss.backward()
    _compare_gradients(ours, theirs, counterparts, TOLERANCE[dtype])


@in_both_precisions
@in_every_way
@with_pairs_or_not
def test_gpts_logits_losses_and_gradients(
    kind: str, dtype: torch.dtype, *, has_pairs: bool
) -> None:
    torch.manual_seed(21)
    config, language_model = _configure("causal-lm", **GPT)
    described = OpenAIGPTConfig(
        num_labels=len(LABELS), attn_implementation="eager", **_describe(language_model)
    )
    theirs = OpenAIGPTForSequenceClassification(described).to(dtype).eval()
    _perturb(theirs)
    predicting = OpenAIGPTLMHeadModel(described).to(dtype).eval()
    predicting.transformer = theirs.transformer
    predicting.tie_weights()
    ours = build(config).to(dtype).eval()
    assert isinstance(ours, CausalClassifier)
    counterparts = _list_counterparts(language_model, {"classifier.weight": "score.weight"})
    weights = convert_to_mtkit(theirs.state_dict(), counterparts)
    # Their linear map has no bias.
    load_weights(ours, {**weights, "classifier.bias": torch.zeros(len(LABELS), dtype=dtype)})
    batch = _draw_batch(kind, has_pairs=has_pairs, closing=(DELIMITER, EXTRACT))
    inputs = _pad(batch, batch.inputs)
    is_token = _pad(batch, torch.ones_like(batch.inputs))
    found = theirs(input_ids=inputs, attention_mask=is_token)
    _, logits = ours.label(batch.inputs, batch.segments, batch.layout, batch.last)
    torch.testing.assert_close(logits, found.logits, rtol=0, atol=TOLERANCE[dtype])

    their_tokens = predicting(input_ids=inputs, attention_mask=is_token).logits
    wanted = inputs.masked_fill(is_token == 0, -100)
    their_loss = nn.functional.cross_entropy(found.logits, batch.labels)
    their_loss = their_loss + 0.5 * nn.functional.cross_entropy(
        their_tokens[:, :-1].flatten(0, 1), wanted[:, 1:].flatten()
    )
    sums = measure_classification(ours, batch, label_smoothing=0.0, auxiliary=0.5)
    num_tokens = int((wanted[:, 1:] != -100).sum())
    loss = sums.join(num_tokens, len(batch.labels)) / num_tokens
    torch.testing.assert_close(loss, their_loss, rtol=0, atol=TOLERANCE[dtype])
    loss.backward()
    their_loss.backward()
    _compare_gradients(ours, theirs, counterparts, TOLERANCE[dtype])


def test_a_published_size_has_as_many_weights() -> None:
    # Devlin et al.'s base model with its 30,522 pieces and two labels, as that class counts it.
    model = Model(
        **{**KEYS, **BERT, "max_positions": 512, "d_ff": 3072},
        d_model=768,
        num_heads=12,
        num_encoder_layers=12,
    )
    with torch.device("meta"):
        ours = MaskedClassifier(model, 30_522, 2)
        theirs = BertForSequenceClassification(BertConfig())
    count = sum(weight.numel() for weight in ours.parameters())
    assert count == sum(weight.numel() for weight in theirs.parameters()) == 109_483_778
