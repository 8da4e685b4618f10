"""A search's outputs: checked for NaN, as text, and the warning that one was cut."""

import math
from collections.abc import Sequence

from mtkit.inference.request import LineError, LineWarning
from mtkit.inference.translation import Candidate, Hypothesis
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import SubwordTokenizer

CUT = "cut at the length limit"
"""The kind of the warning that a translation was cut."""


class OutputDecoder:
    """Adds their text to outputs.

    Args:
        tokenizer: The model's.
    """

    def __init__(self, tokenizer: SubwordTokenizer) -> None:
        self._tokenizer = tokenizer
        self._pieces = tokenizer.target_vocabulary.pieces

    def decode(self, hypothesis: Hypothesis, *, begun: Sequence[int] = ()) -> Candidate:
        """Returns a hypothesis with its text, which has one line, and its pieces.

        Args:
            hypothesis: An output.
            begun: Tokens that the text has before the output's.
        """
        text = self._tokenizer.decode_target([*begun, *hypothesis.token_ids])
        return Candidate(
            hypothesis.token_ids,
            hypothesis.log_probability,
            hypothesis.score,
            hypothesis.is_finished,
            hypothesis.token_log_probabilities,
            hypothesis.fused_log_probability,
            text.replace("\n", " ").replace("\r", " "),
            tuple(self._pieces[token] for token in hypothesis.token_ids),
            alignment_weights=hypothesis.alignment_weights,
        )


def are_finite(hypotheses: Sequence[Hypothesis]) -> bool:
    """Whether there are hypotheses, with scores that are neither NaN nor infinite."""
    numbers = (number for each in hypotheses for number in (each.log_probability, each.score))
    return bool(hypotheses) and all(map(math.isfinite, numbers))


def check_finite(hypotheses: Sequence[Hypothesis], settings: Inference, line: int) -> None:
    """Checks that there are hypotheses, with scores that are neither NaN nor infinite.

    Raises:
        LineError: There are none, or a score is NaN or infinite.
    """
    if are_finite(hypotheses):
        return
    rules = [
        f"inference.{key} = {value}"
        for key in ("min_length", "no_repeat_ngram")
        if (value := getattr(settings, key))
    ]
    raise LineError(
        line,
        "the model's probabilities are NaN"
        + (f", or no output satisfies {' and '.join(rules)}" if rules else ""),
        ("change these settings; or " if rules else "")
        + "its training diverged: use an earlier checkpoint, or train with a lower learning rate",
    )


def cut_warning(line: int) -> LineWarning:
    """Returns the warning that a line's translation was cut."""
    return LineWarning(
        CUT,
        f"input line {line}: the translation was cut at the length limit "
        "(inference.max_extra_tokens or inference.max_output_tokens)",
        line,
    )
