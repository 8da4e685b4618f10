from mtkit.inference.engines.batched_search import search_in_batches
from mtkit.inference.engines.engine import EncodedSource
from mtkit.recipe.inference import Inference

from ..fakes import BracketEngine


def test_an_engine_gets_as_many_batches_at_once_as_it_takes():
    sources = [EncodedSource([7] * 16) for _ in range(10)]
    for batches_at_once, expected in ((1, [2, 2, 2, 2, 2]), (3, [6, 4])):
        engine = BracketEngine()
        engine.batches_at_once = batches_at_once
        found = search_in_batches(engine, sources, Inference(batch_tokens=32, n_best=2))
        assert [len(batch) for batch in engine.batches] == expected
        assert all(len(hypotheses) == 2 for hypotheses in found)
