"""A causal language model that has read texts gives, step by step, what the whole text gives."""

import itertools

import pytest
import torch
from torch import Tensor

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.network import CausalLanguageModel, EncoderDecoder, PaddedLayout
from mtkit.recipe.inference import Fusion, Inference, LengthPenalty
from mtkit.recipe.model import Model
from mtkit.text.token_ids import BOS, EOS, PAD

VOCAB_SIZE = 8
SIZES = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
    "d_model": 16,
    "d_ff": 24,
    "num_heads": 2,
}
KINDS = {
    "gpt": {"positions": "learned", "max_positions": 24, "scale_embeddings": False},
    "pre": {"norm": "pre", "activation": "swiglu"},
    "window": {"attention_window": 2},
    "rotary": {"positions": "rotary"},
    "rotary window": {"positions": "rotary", "attention_window": 2},
}
LENGTHS = (5, 1, 3)


def build(kind: str, dtype: torch.dtype = torch.float64) -> CausalLanguageModel:
    torch.manual_seed(4)
    config = Model(**{**SIZES, **KINDS[kind], "initial_std": 0.4})
    return CausalLanguageModel(config, VOCAB_SIZE).to(dtype).eval()


def read_all_at_once(model: CausalLanguageModel, tokens: list[int]) -> Tensor:
    """Returns the logits after a text."""
    whole = torch.tensor([tokens])
    return model.project(model(whole, PaddedLayout.without_padding(whole)))[0, -1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [LENGTHS, (3, 3, 3), (1, 1, 1)], ids=str)
@torch.no_grad()
def test_texts_of_any_length_are_read_together(kind: str, lengths: tuple[int, ...]) -> None:
    model = build(kind)
    torch.manual_seed(9)
    texts = [[BOS, *torch.randint(4, VOCAB_SIZE, (length,)).tolist()] for length in lengths]
    is_token = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    padded = torch.full(is_token.shape, PAD)
    for row, text in enumerate(texts):
        padded[row, : len(text) - 1] = torch.tensor(text[:-1])
    cache = model.read(padded, PaddedLayout(is_token))
    # Two hypotheses of each text from the second step on, then the second text is dropped.
    logits = model.step(torch.tensor([[text[-1]] for text in texts]), cache)
    for row, text in enumerate(texts):
        torch.testing.assert_close(
            logits[row, 0], read_all_at_once(model, text), rtol=0, atol=1e-12
        )
    cache.select([0, 1, 2], torch.zeros(3, 2, dtype=torch.int64))
    hypotheses = [[list(text) for _ in range(2)] for text in texts]
    sentences = [0, 1, 2]
    for step, kept in enumerate([[0, 1, 2], [0, 2], [0, 1]]):
        newest = torch.randint(4, VOCAB_SIZE, (len(sentences), 2))
        logits = model.step(newest, cache)
        for row, of_text in enumerate(hypotheses):
            for column, hypothesis in enumerate(of_text):
                hypothesis.append(int(newest[row, column]))
                torch.testing.assert_close(
                    logits[row, column], read_all_at_once(model, hypothesis), rtol=0, atol=1e-12
                )
        parents = torch.tensor([[1, step % 2]] * len(kept))
        cache.select(kept, parents)
        hypotheses = [
            [list(hypotheses[row][parent]) for parent in parents[0].tolist()] for row in kept
        ]
        sentences = [sentences[row] for row in kept]


def list_outputs(max_length: int) -> list[tuple[int, ...]]:
    """Returns every output there can be: ended, or cut at the limit."""
    ordinary = [token for token in range(VOCAB_SIZE) if token not in (PAD, BOS, EOS)]
    ended = [
        (*body, EOS)
        for length in range(max_length)
        for body in itertools.product(ordinary, repeat=length)
    ]
    return ended + list(itertools.product(ordinary, repeat=max_length))


@torch.no_grad()
def rate(model: CausalLanguageModel, text: list[int], output: tuple[int, ...]) -> float:
    """Returns the log-probability of what continues a text, by a pass over all of it."""
    whole = torch.tensor([[*text, *output]])
    logits = model.project(model(whole, PaddedLayout.without_padding(whole)))[0, :-1]
    log_probs = logits.log_softmax(dim=-1).gather(1, whole[0, 1:, None])[:, 0]
    return float(log_probs[len(text) - 1 :].sum())


@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(kind, marks=pytest.mark.patient) for kind in ("gpt", "window", "rotary")),
        "pre",
        "rotary window",
    ],
)
def test_a_wide_beam_finds_the_likeliest_continuation_of_all(kind: str) -> None:
    model = build(kind)
    texts = [[5, 7, 6, 4], [6]]
    settings = Inference(
        beam_size=200, n_best=3, max_extra_tokens=3, length_penalty=LengthPenalty(alpha=0.0)
    )
    found = TorchEngine(model, "cpu").search(
        [EncodedSource(text, is_text=True) for text in texts], settings
    )
    for text, hypotheses in zip(texts, found, strict=True):
        ranked = sorted(
            ((rate(model, [BOS, *text], output), output) for output in list_outputs(3)),
            reverse=True,
        )
        assert [hypothesis.token_ids for hypothesis in hypotheses] == [
            output for _, output in ranked[:3]
        ]
        # A search works in fp32.
        assert [hypothesis.log_probability for hypothesis in hypotheses] == pytest.approx(
            [log_probability for log_probability, _ in ranked[:3]], abs=1e-5
        )


@torch.no_grad()
def rate_translation(model: EncoderDecoder, source: list[int], output: tuple[int, ...]) -> float:
    tokens, target = torch.tensor([source]), torch.tensor([[BOS, *output]])
    layout = PaddedLayout.without_padding(tokens)
    inputs = target[:, :-1]
    states = model(tokens, layout, inputs, PaddedLayout.without_padding(inputs))
    log_probs = model.project(states)[0].log_softmax(dim=-1)
    return float(log_probs.gather(1, target[0, 1:, None]).sum())


@pytest.mark.parametrize(
    "weight", [0.5, *(pytest.param(one, marks=pytest.mark.patient) for one in (0.0, 2.0))]
)
def test_fusion_ranks_by_the_weighted_sum(tmp_path, weight: float) -> None:
    language_model = build("gpt")
    torch.manual_seed(6)
    config = Model(**SIZES, initial_std=0.4)
    translator = EncoderDecoder(config, VOCAB_SIZE, VOCAB_SIZE).double().eval()
    settings = Inference(
        beam_size=200,
        n_best=2,
        max_extra_tokens=0,
        length_penalty=LengthPenalty(alpha=0.0),
        fusion=Fusion(model=tmp_path, weight=weight),
    )
    sources = [[5, 6, EOS], [7, 4, EOS]]
    engine = TorchEngine(translator, "cpu", language_model=language_model)
    found = engine.search([EncodedSource(source) for source in sources], settings)
    for source, hypotheses in zip(sources, found, strict=True):
        rated = [
            (
                rate_translation(translator, source, output),
                rate(language_model, [BOS], output),
                output,
            )
            for output in list_outputs(3)
        ]
        ranked = sorted(rated, key=lambda each: each[0] + weight * each[1], reverse=True)
        assert [each.token_ids for each in hypotheses] == [output for *_, output in ranked[:2]]
        for hypothesis, (ours, theirs, _) in zip(hypotheses, ranked, strict=False):
            assert hypothesis.log_probability == pytest.approx(ours, abs=1e-5)
            assert hypothesis.fused_log_probability == pytest.approx(theirs, abs=1e-5)
            assert hypothesis.score == pytest.approx(ours + weight * theirs, abs=1e-5)
            assert sum(hypothesis.token_log_probabilities) == pytest.approx(ours, abs=1e-5)
