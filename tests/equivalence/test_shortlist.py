"""Searches among short lists = searches of all pieces, but for what the lists leave out.

The outside source is CTranslate2 with the map of the vocabulary that we write, a sentence at a
time: of several it puts the lists together.
"""

import copy
import itertools
import random

import numpy as np
import pytest
import torch

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.open_torch_engine import make_ready
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.search import batch_vocabulary
from mtkit.inference.translation import Hypothesis
from mtkit.model.exporters.ctranslate2 import write_ctranslate2
from mtkit.recipe.inference import Inference, LengthPenalty, Sampling
from mtkit.text.shortlist import Shortlist
from mtkit.text.token_ids import BOS, EOS, PAD

from .half_trained import VOCAB_SIZE, draw_sources, encoded, half_trained_model
from .same_translations import NEAR_TIE, compare_batches

_SOURCES = draw_sources(random.Random(11), 25)
_ALL = Shortlist(
    np.arange(VOCAB_SIZE, dtype=np.int32), np.zeros(0, np.int32), np.zeros(VOCAB_SIZE, np.int64)
)
_CPU = torch.device("cpu")


def draw_table(seed: int = 5) -> Shortlist:
    """Returns a table in which each piece is its own translation, and has one or two more."""
    generator = random.Random(seed)
    lists = [
        [piece, *generator.sample(range(4, VOCAB_SIZE), generator.randint(1, 2))]
        for piece in range(VOCAB_SIZE)
    ]
    return Shortlist(
        np.array([6, 7], np.int32),
        np.array([each for one in lists for each in one], np.int32),
        np.cumsum([len(one) for one in lists]),
    )


@pytest.fixture(params=["part", "whole"])
def projected(request, monkeypatch) -> str:
    """Whether a part of the vocabulary is projected to, or all of it with the lists as a mask."""
    share = 1.0 if request.param == "part" else 0.0
    monkeypatch.setattr(batch_vocabulary, "_MAX_SHARE", share)
    return request.param


def ids_and_scores(found: list[list[Hypothesis]]) -> tuple[list, list]:
    return (
        [[each.token_ids for each in of_one] for of_one in found],
        [each.score for of_one in found for each in of_one],
    )


_SETTINGS = {
    "greedy": Inference(beam_size=1, max_extra_tokens=8),
    "beam": Inference(beam_size=4, n_best=4, max_extra_tokens=8),
    "rules": Inference(beam_size=3, min_length=3, no_repeat_ngram=2, max_extra_tokens=8),
    "coverage": Inference(beam_size=3, coverage_penalty=0.2, max_extra_tokens=8),
    "samples": Inference(n_best=3, sampling=Sampling(top_k=5, seed=3), max_extra_tokens=8),
    "int8": Inference(beam_size=4, precision="int8", max_extra_tokens=8),
}


@pytest.mark.parametrize("name", _SETTINGS)
def test_lists_of_all_pieces_leave_every_search_as_it_was(name, projected):
    settings = _SETTINGS[name]
    model = make_ready(copy.deepcopy(half_trained_model("pre")), settings, _CPU)
    sources = [EncodedSource(source, draw=(place,)) for place, source in enumerate(_SOURCES)]
    expected = TorchEngine(model, "cpu").search(sources, settings)
    found = TorchEngine(model, "cpu", shortlist=_ALL).search(sources, settings)
    (ids, scores), (expected_ids, expected_scores) = map(ids_and_scores, (found, expected))
    assert ids == expected_ids
    assert scores == pytest.approx(expected_scores, abs=1e-5)


@pytest.mark.parametrize("name", _SETTINGS)
def test_no_output_has_a_piece_beyond_its_list(name, projected):
    settings, table = _SETTINGS[name], draw_table()
    model = make_ready(copy.deepcopy(half_trained_model("pre")), settings, _CPU)
    # The prefix is beyond most lists, and is there nevertheless.
    sources = [
        EncodedSource(source, draw=(place,), prefix=(9,) * (place % 2))
        for place, source in enumerate(_SOURCES)
    ]
    engine = TorchEngine([model, model], "cpu", shortlist=table)
    found = engine.search(sources, settings)
    is_listed = table.find([source.tokens for source in sources], VOCAB_SIZE)
    for source, row, hypotheses in zip(sources, is_listed, found, strict=True):
        for each in hypotheses:
            assert each.token_ids[: len(source.prefix)] == source.prefix
            assert row[list(each.token_ids[len(source.prefix) :])].all() or 9 in source.prefix
            assert {PAD, BOS}.isdisjoint(each.token_ids)
    free, _ = ids_and_scores(TorchEngine(model, "cpu").search(sources, settings))
    assert free != ids_and_scores(found)[0]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_don_t_depend_on_batches_and_order(beam_size, projected):
    settings = Inference(beam_size=beam_size, n_best=beam_size, max_extra_tokens=8)
    engine = TorchEngine(half_trained_model("pre"), "cpu", shortlist=draw_table())
    comparisons = compare_batches(engine, _SOURCES[:21], settings)
    assert [comparison for comparison in comparisons if comparison.greatest_gap > NEAR_TIE] == []
    assert sum(comparison.num_different for comparison in comparisons) <= 6


@pytest.mark.parametrize("beam_size", [1, 4])
def test_ctranslate2_finds_the_same_by_its_map_of_the_vocabulary(beam_size, tmp_path, projected):
    ctranslate2 = pytest.importorskip("ctranslate2")
    model, table = copy.deepcopy(half_trained_model("pre")), draw_table()
    with torch.no_grad():
        # CTranslate2 gives to other tokens what <pad> and <s> would have got: here nothing.
        model.decoder.final_norm.weight[0], model.decoder.final_norm.bias[0] = 0.0, 10.0
        model.output_embedding.weight[:, 0] = 0.0
        model.output_embedding.weight[[PAD, BOS], 0] = -8.0
    pieces = ["<pad>", "<unk>", "<s>", "</s>", *(f"piece{i}" for i in range(4, VOCAB_SIZE))]
    write_ctranslate2(
        model,
        tmp_path,
        pieces=(pieces, pieces),
        max_tokens=64,
        quantization="float32",
        shortlist=table,
    )
    penalty = LengthPenalty(kind="power", alpha=0.6)
    settings = Inference(
        beam_size=beam_size, length_penalty=penalty, stop_margin=1_000, max_extra_tokens=8
    )
    ours = TorchEngine(model, "cpu", shortlist=table).search(encoded(_SOURCES), settings)
    free = TorchEngine(model, "cpu").search(encoded(_SOURCES), settings)
    translator = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    num_changed = num_same = 0
    for source, (best,), (unlimited,) in zip(_SOURCES, ours, free, strict=True):
        (theirs,) = translator.translate_batch(
            [[pieces[token] for token in source]],
            beam_size=beam_size,
            patience=len(source) + 8 if beam_size > 1 else 1,
            length_penalty=0.6,
            min_decoding_length=0,
            max_decoding_length=len(source) + 8,
            suppress_sequences=[["<pad>"], ["<s>"]],
            use_vmap=True,
            return_end_token=True,
            return_scores=True,
        )
        tokens = tuple(pieces.index(name) for name in theirs.hypotheses[0])
        num_same += tokens == best.token_ids
        score = best.score if beam_size > 1 else best.log_probability / len(best.token_ids) ** 0.6
        assert theirs.scores[0] == pytest.approx(score, abs=1e-3)
        num_changed += best.token_ids != unlimited.token_ids
    assert num_same >= len(_SOURCES) - 1
    # Or else the lists left nothing out.
    assert num_changed
    assert EOS in ours[0][0].token_ids


def test_what_an_output_must_contain_is_there_though_no_list_has_it(projected):
    settings, phrase = Inference(beam_size=3, max_extra_tokens=8), (19, 18)
    engine = TorchEngine(half_trained_model("pre"), "cpu", shortlist=draw_table())
    sources = [
        EncodedSource(source, required=(phrase,) * (place % 2), forbidden=((4, 5), (6,)))
        for place, source in enumerate(_SOURCES)
    ]
    for place, (best,) in enumerate(engine.search(sources, settings)):
        pairs = list(itertools.pairwise(best.token_ids))
        assert (phrase in pairs) >= place % 2
        assert (4, 5) not in pairs
        assert 6 not in best.token_ids
