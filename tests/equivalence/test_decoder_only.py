"""A decoder-only translator is GPT trained on "source </s> target </s>", targets alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

from mtkit.data.batches.collate import collate_joined, lay_out_side, pack_side
from mtkit.data.batches.ragged import Ragged
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.transformers_config import describe_language_model
from mtkit.model.transformers_names import convert_to_transformers, list_counterparts
from mtkit.model.weights import distinct_weights
from mtkit.network import CausalLanguageModel
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS
from mtkit.training.loss import measure_joined

VOCAB_SIZE = 23
PAIRS = st.lists(
    st.tuples(*[st.lists(st.integers(4, VOCAB_SIZE - 1), max_size=6)] * 2), min_size=1, max_size=5
)


def configure(objective: str, **keys: object) -> ModelConfig:
    model = Model(
        num_decoder_layers=2,
        num_encoder_layers=1,
        d_model=16,
        d_ff=64,
        num_heads=2,
        positions="learned",
        max_positions=32,
        scale_embeddings=False,
        activation="gelu_tanh",
        initial_std=0.3,
        dropout=0.0,
        **keys,
    )
    return ModelConfig(
        recipe="tiny",
        objective=objective,
        source_language="en",
        target_language="en",
        source_vocab_size=VOCAB_SIZE,
        target_vocab_size=VOCAB_SIZE,
        model=model,
    )


def build_both() -> tuple[CausalLanguageModel, OpenAIGPTLMHeadModel]:
    """Returns a decoder-only translator, and transformers' GPT with its weights."""
    torch.manual_seed(1)
    ours = build(configure("translation", architecture="decoder-only")).double().eval()
    assert isinstance(ours, CausalLanguageModel)
    as_text = configure("causal-lm")
    described = describe_language_model(as_text).model_dump(exclude={"model_type", "mtkit"})
    theirs = OpenAIGPTLMHeadModel(OpenAIGPTConfig(**described, attn_implementation="eager"))
    theirs = theirs.double().eval()
    weights = convert_to_transformers(distinct_weights(ours), list_counterparts(as_text))
    theirs.load_state_dict(weights, strict=False)
    return ours, theirs


def close(sides: list[list[int]]) -> list[list[int]]:
    return [[*side, EOS] for side in sides]


@settings(max_examples=20)
@given(PAIRS, st.booleans())
def test_the_loss_is_gpts_over_the_targets_alone(
    pairs: list[tuple[list[int], list[int]]], packs: bool
) -> None:
    ours, theirs = build_both()
    sources, targets = close([source for source, _ in pairs]), close([each for _, each in pairs])
    source, target = Ragged.of(sources), Ragged.of(targets)
    lengths = source.lengths + target.lengths
    layout = pack_side(lengths) if packs else lay_out_side(lengths, [len(pairs)], row_step=4)
    sums = measure_joined(ours, collate_joined(source, target, layout), label_smoothing=0.0)
    expected = torch.zeros((), dtype=torch.float64)
    for text, output in zip(sources, targets, strict=True):
        whole = torch.tensor([[BOS, *text, *output]])
        # Their own loss is computed in fp32, whatever the model is in.
        logits = theirs(input_ids=whole).logits[0, len(text) : -1]
        expected = expected + cross_entropy(logits, torch.tensor(output), reduction="sum")
    assert sums.loss.item() == pytest.approx(expected.item(), abs=1e-9)
    sums.loss.backward()
    expected.backward()
    found = convert_to_transformers(
        {name: weight.grad for name, weight in distinct_weights(ours).items()},
        list_counterparts(configure("causal-lm")),
    )
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    assert found.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-9, msg=name)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_generate_of_transformers_finds_the_same(beam_size: int) -> None:
    ours, theirs = build_both()
    torch.manual_seed(5)
    sources = close([torch.randint(4, VOCAB_SIZE, (length,)).tolist() for length in (3, 1, 5, 4)])
    beams = Inference(
        beam_size=beam_size,
        n_best=1,
        max_extra_tokens=3,
        stop_margin=1000,
        length_penalty=LengthPenalty(kind="power", alpha=0.0),
    )
    found = TorchEngine(ours, "cpu").search([EncodedSource(source) for source in sources], beams)
    for source, (hypothesis, *_) in zip(sources, found, strict=True):
        given_tokens = torch.tensor([[BOS, *source]])
        generated = theirs.generate(
            input_ids=given_tokens,
            attention_mask=torch.ones_like(given_tokens),
            num_beams=beam_size,
            do_sample=False,
            early_stopping="never",
            length_penalty=0.0,
            max_new_tokens=len(source) + 3,
            suppress_tokens=[0, BOS],
            eos_token_id=EOS,
            pad_token_id=0,
        )[0, given_tokens.shape[1] :].tolist()
        if EOS in generated:
            generated = generated[: generated.index(EOS) + 1]
        assert hypothesis.token_ids == tuple(generated)


def test_a_given_translation_is_scored_behind_its_source() -> None:
    ours, theirs = build_both()
    sources, targets = close([[5, 6], [9, 8, 7, 4]]), close([[4, 4, 6], [10]])
    found = TorchEngine(ours, "cpu").score(sources, targets)
    for source, target, log_probabilities in zip(sources, targets, found, strict=True):
        whole = torch.tensor([[BOS, *source, *target]])
        with torch.no_grad():
            log_probs = theirs(input_ids=whole).logits.log_softmax(dim=-1)[0, :-1]
        expected = log_probs.gather(1, whole[0, 1:, None])[len(source) :, 0]
        assert log_probabilities == pytest.approx(expected.tolist(), abs=1e-5)
