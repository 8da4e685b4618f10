"""Our beam search = that of transformers, on the same weights."""

import random

import pytest
import torch

from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.text.token_ids import BOS, EOS, PAD

from .half_trained import draw_sources, encoded, half_trained_model

_NUM_SENTENCES = 25
_NEAR_TIE = 1e-4


@pytest.mark.parametrize(
    ("beam_size", "alpha"),
    [
        *((2, 0.6), (4, 0.0), (4, 0.6), (4, 1.0), (7, 0.6)),
        *(pytest.param(b, a, marks=pytest.mark.patient) for b in (2, 7) for a in (0.0, 1.0)),
    ],
)
@pytest.mark.parametrize(
    ("stop_margin", "early_stopping", "is_alone"),
    [(1000, "never", False), (0, False, False), (0, False, True)],
)
def test_finds_the_n_best_that_transformers_finds(
    marian_twin, beam_size, alpha, stop_margin, early_stopping, is_alone
):
    model = half_trained_model("post")
    twin = marian_twin(model, pad_id=PAD, bos_id=BOS, eos_id=EOS)
    sources = draw_sources(random.Random(11), _NUM_SENTENCES)
    settings = Inference(
        beam_size=beam_size,
        n_best=1 if is_alone else beam_size,
        length_penalty=LengthPenalty(kind="power", alpha=alpha),
        max_extra_tokens=8,
        stop_margin=stop_margin,
    )
    ours = TorchEngine(model, "cpu").search(encoded(sources), settings)

    near_ties = 0
    for source, hypotheses in zip(sources, ours, strict=True):
        theirs = twin.generate(
            input_ids=torch.tensor([source]),
            attention_mask=torch.ones(1, len(source), dtype=torch.int64),
            num_beams=beam_size,
            num_return_sequences=settings.n_best,
            do_sample=False,
            early_stopping=early_stopping,
            length_penalty=alpha,
            max_new_tokens=len(source) + settings.max_extra_tokens,
            suppress_tokens=[PAD, BOS],
            return_dict_in_generate=True,
            output_scores=True,
        )
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(
            theirs.sequences_scores.tolist(), abs=_NEAR_TIE
        )
        outputs = [_cut(output) for output in theirs.sequences.tolist()]
        near_ties += [hypothesis.token_ids for hypothesis in hypotheses] != outputs
    print(f"{near_ties} near-ties in {len(sources)} lines")
    assert near_ties <= 2
    assert {h.is_finished for hypotheses in ours for h in hypotheses} == {True, False}


def _cut(output: list[int]) -> tuple[int, ...]:
    """Returns an output without the <s> before it and the filling after it.

    transformers fills with </s> where the id of padding is 0, since it tests the id for truth.
    """
    tokens = output[1:]
    return tuple(tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens)
