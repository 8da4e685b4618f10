"""How an output is found; no text here, and no knowledge of what network it comes from.

step_model.py   what a search asks of a model, and the encoder-decoder behind it
hypothesis.py   one output with its probability and score
penalties.py    how outputs of different lengths are compared
greedy.py       the likeliest token at each step
beam.py         the best few outputs, with an exact rule for when to stop
scoring.py      the probability of outputs that are given

Names for shapes: batch, beam, src_len, tgt_len, vocab; `rows` is batch * width, sentence by
sentence, where width is how many hypotheses of a sentence are alive: 1 before the first step, then
up to beam. A local that changes shape carries its axes as a suffix: B batch, W width,
K candidates, V vocab, T tgt_len.
"""

from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.greedy import greedy_search
from mtkit.inference.search.hypothesis import Hypothesis
from mtkit.inference.search.penalties import length_penalty
from mtkit.inference.search.scoring import score_targets
from mtkit.inference.search.step_model import EncoderDecoderSteps, StepModel

__all__ = [
    "EncoderDecoderSteps",
    "Hypothesis",
    "StepModel",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "score_targets",
]
