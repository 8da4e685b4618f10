from collections.abc import Sequence

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.engine_comparison import Parity, check_parity, exact_settings
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Inference

_SETTINGS = Inference(beam_size=2)
_TABLE = {(5, 3): -1.0, (6, 3): -1.00005, (7, 3): -3.0}
"""Outputs with the log-probability that the model gives them, whatever the source."""


class Fake:
    """An engine that finds some outputs, and says that they have some log-probabilities.

    Args:
        found: What each line's search returns, by the line's first token.
        off: What is wrong with each log-probability.
        shift: How far those that the search ranks by are off, beyond that.
    """

    max_tokens = None
    batches_at_once = 1

    def __init__(
        self, found: dict[int, list[tuple[int, ...]]], off: float = 0.0, shift: float = 0.0
    ) -> None:
        self._found, self._off, self._shift = found, off, shift

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        assert settings.length_penalty.kind == "power"
        divisor = 2.0**settings.length_penalty.alpha
        return [
            [
                Hypothesis(tokens, total, total / divisor, is_finished=True)
                for tokens in self._found[source.tokens[0]]
                for total in (_TABLE[tokens] + self._off + self._shift,)
            ]
            for source in sources
        ]

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        return [[_TABLE[tuple(target)] + self._off, 0.0] for target in target_batch]


_AS_OURS = [(5, 3), (7, 3)]


def compare(
    theirs: dict[int, list[tuple[int, ...]]], off: float = 0.0, shift: float = 0.0
) -> Parity:
    sources = [[line, 3] for line in theirs]
    ours = Fake(dict.fromkeys(theirs, _AS_OURS))
    return check_parity(
        ours,
        Fake(theirs, off, shift),
        sources,
        exact_settings(_SETTINGS, sources),
        library="CTranslate2",
        num_compared=2,
    )


def test_equal_lists():
    parity = compare({1: _AS_OURS, 2: _AS_OURS})
    assert (parity.num_lines, parity.num_near_ties, parity.num_different) == (2, 0, 0)
    assert parity.largest_gap == 0.0


def test_outputs_that_score_nearly_the_same_may_change_places():
    parity = compare({1: [(6, 3), (7, 3)], 2: _AS_OURS})
    assert (parity.num_near_ties, parity.num_different) == (1, 0)


def test_one_line_may_go_another_way_but_no_more():
    other = [(7, 3), (5, 3)]
    assert compare({1: other, 2: _AS_OURS}).num_different == 1
    with pytest.raises(MtkitError, match="2 of 3 lines have different outputs"):
        compare({1: other, 2: _AS_OURS, 3: other})
    # Two in a hundred.
    assert compare(dict.fromkeys(range(98), _AS_OURS) | {98: other, 99: other}).num_different == 2


def test_a_list_that_is_too_short_is_no_near_tie():
    assert compare({1: [(5, 3)], 2: _AS_OURS}).num_different == 1


def test_scores_that_differ_are_refused_though_the_lists_are_equal():
    assert compare({1: _AS_OURS}, off=1e-3).largest_gap == pytest.approx(1e-3 / 2**0.6)
    with pytest.raises(MtkitError, match="scores of the same output differ by"):
        compare({1: _AS_OURS}, off=2e-3)


def test_a_model_that_gives_much_to_pad_and_bos_is_warned_of(capsys):
    other = {1: [(7, 3), (5, 3)], 2: [(7, 3), (5, 3)]}
    with pytest.raises(MtkitError, match="2 of 2 lines have different outputs"):
        compare(other, shift=5e-3)
    assert capsys.readouterr().err == ""
    parity = compare(other, shift=0.1)
    assert parity.num_different == 2
    assert parity.largest_shift == pytest.approx(0.1 / 2**0.6)
    assert capsys.readouterr().err.startswith("warning: 2 of 2 lines have different outputs")
