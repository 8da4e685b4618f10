import functools
import math
import random

import pytest
import torch

from mtkit.inference.search.beam import beam_search
from mtkit.inference.search.penalties import length_penalty
from mtkit.inference.search.rules import OutputRules
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.token_ids import EOS

from .table_model import A, B, TableModel, drawn_at_random, enumerate_outputs, written_out

_PLAIN = LengthPenalty(kind="power", alpha=0.0)
_UNK = 1


def _occurrences(output, phrase):
    starts = range(len(output) - len(phrase) + 1)
    return sum(output[start : start + len(phrase)] == tuple(phrase) for start in starts)


def _has_all(output, phrases):
    return all(_occurrences(output, phrase) >= phrases.count(phrase) for phrase in phrases)


@pytest.mark.parametrize(
    "phrases",
    [
        [(A,)],
        [(A, B)],
        [(A, A)],
        [(A, A, B)],
        [(A,), (A,)],
        [(B, B), (A,)],
        [(_UNK,), (B, A)],
        [(A, B, A)],
    ],
)
@pytest.mark.parametrize("penalty", [_PLAIN, LengthPenalty(kind="power", alpha=1.0)])
def test_a_wide_beam_finds_the_best_output_that_has_the_phrases(phrases, penalty):
    # Against all outputs, written out one by one.
    for seed in range(2):
        table, limit = functools.cache(drawn_at_random(seed)), 5
        outputs = {
            output: log_probability / length_penalty(penalty.kind, penalty.alpha, len(output))
            for output, log_probability in enumerate_outputs(table, limit).items()
            if _has_all(output, phrases)
        }
        expected = sorted(outputs, key=lambda output: -outputs[output])[:3]
        (found,) = beam_search(
            TableModel([table]),
            torch.tensor([limit]),
            beam_size=90,
            n_best=3,
            penalty=penalty,
            stop_margin=limit,
            required=[phrases],
        )
        assert [each.token_ids for each in found] == expected
        for each in found:
            assert each.score == pytest.approx(outputs[each.token_ids], abs=1e-5)


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_a_narrow_beam_has_every_phrase_too(beam_size):
    generator = random.Random(7)
    tables = [drawn_at_random(seed) for seed in range(40)]
    given = [
        [
            tuple(generator.choice((_UNK, A, B)) for _ in range(generator.randint(1, 3)))
            for _ in range(generator.randint(1, 3))
        ]
        for _ in tables
    ]
    # Just room for all of them, or some more.
    limits = [sum(map(len, phrases)) * 2 + generator.randint(0, 3) for phrases in given]
    found = beam_search(
        TableModel(tables),
        torch.tensor(limits),
        beam_size=beam_size,
        n_best=1,
        penalty=_PLAIN,
        required=given,
    )
    for phrases, (best,), limit in zip(given, found, limits, strict=True):
        assert _has_all(best.token_ids, phrases)
        assert len(best.token_ids) <= limit


def test_a_phrase_of_others_occurs_besides_them():
    table = drawn_at_random(3)
    (found,) = beam_search(
        TableModel([table]),
        torch.tensor([9]),
        beam_size=50,
        n_best=5,
        penalty=_PLAIN,
        required=[[(A, B), (B,)]],
    )
    for each in found:
        assert _occurrences(each.token_ids, (A, B)) >= 1
        assert _occurrences(each.token_ids, (B,)) >= 2


def test_a_phrase_that_is_almost_there_is_not_lost():
    # Of A A A B the phrase A A B is the end; who falls back to the beginning at the third A
    # doesn't see it.
    table = written_out({(): {A: 1.0}, (A,): {A: 1.0}, (A, A): {A: 1.0}, (A, A, A): {B: 1.0}})
    ((best,),) = beam_search(
        TableModel([table]),
        torch.tensor([9]),
        beam_size=2,
        n_best=1,
        penalty=_PLAIN,
        required=[[(A, A, B)]],
    )
    assert best.token_ids == (A, A, A, B, EOS)


def test_sentences_without_phrases_are_found_bit_for_bit_as_without_any():
    tables = [drawn_at_random(seed) for seed in range(12)]
    limits = torch.tensor([4, 6, 7, 5] * 3)
    required = [[(A, B)] if index % 3 == 0 else [] for index in range(12)]
    options = {"beam_size": 3, "penalty": LengthPenalty()}
    plain = beam_search(TableModel(tables), limits, **options)
    found = beam_search(TableModel(tables), limits, required=required, **options)
    for index in range(12):
        if index % 3:
            assert found[index] == plain[index]
        else:
            # Nor do its neighbours matter to a sentence with phrases.
            alone = beam_search(
                TableModel([tables[index]]),
                limits[index : index + 1],
                required=[required[index]],
                **options,
            )
            assert found[index] == alone[0]


def test_where_the_limit_is_too_low_as_much_is_there_as_was_found():
    ((best,),) = beam_search(
        TableModel([drawn_at_random(1)]),
        torch.tensor([3]),
        beam_size=3,
        n_best=1,
        penalty=_PLAIN,
        required=[[(A, A, B, A)]],
    )
    assert best.token_ids == (A, A, B)
    assert not best.is_finished


def test_a_phrase_goes_before_rules_and_behind_a_prefix():
    rules = OutputRules([(B, B)], no_repeat_ngram=1, min_length=5, forbidden=[[(A,), (_UNK, _UNK)]])
    (found,) = beam_search(
        TableModel([drawn_at_random(2)]),
        torch.tensor([8]),
        beam_size=4,
        penalty=_PLAIN,
        rules=rules,
        required=[[(A, B), (A,)]],
    )
    assert found
    for each in found:
        assert each.token_ids[:2] == (B, B)
        assert _has_all(each.token_ids, [(A, B)])
        # One in the phrase, one by itself, and none else: single tokens may not repeat.
        assert each.token_ids.count(A) == 2


def test_a_phrase_within_the_prefix_counts():
    table = written_out({(A, B): {EOS: 0.9, A: 0.1}, (): {A: 1.0}, (A,): {B: 1.0}})
    ((best, *_),) = beam_search(
        TableModel([table]),
        torch.tensor([8]),
        beam_size=2,
        penalty=_PLAIN,
        rules=OutputRules([(A, B)]),
        required=[[(A, B)]],
    )
    assert best.token_ids == (A, B, EOS)
    assert best.log_probability == pytest.approx(math.log(0.9), abs=1e-6)


@pytest.mark.parametrize("forbidden", [[(A,)], [(A, B)], [(B, B, A), (_UNK,)]])
def test_a_forbidden_phrase_never_occurs_and_the_best_of_all_others_is_found(forbidden):
    for seed in range(2):
        table, limit = functools.cache(drawn_at_random(seed)), 5
        outputs = {
            output: log_probability
            for output, log_probability in enumerate_outputs(table, limit).items()
            if not any(_occurrences(output, phrase) for phrase in forbidden)
        }
        ((best,),) = beam_search(
            TableModel([table]),
            torch.tensor([limit]),
            beam_size=90,
            n_best=1,
            penalty=_PLAIN,
            stop_margin=limit,
            rules=OutputRules(forbidden=[forbidden]),
        )
        assert best.token_ids == max(outputs, key=outputs.__getitem__)
