import torch

from mtkit.data.prepared import open_prepared
from mtkit.training.objective import TranslationObjective
from mtkit.training.plan import build_model


def test_a_micro_batch_made_ready_is_the_one_that_is_measured(tiny_run, monkeypatch) -> None:
    run = tiny_run("model.dropout=0")
    data = open_prepared(run.recipe, run.workspace)
    torch.manual_seed(1)
    model = build_model(run.recipe, data).eval()
    objective = TranslationObjective(model, data, run.recipe, torch.device("cpu"))
    [part] = objective.split_update(objective.plan_epoch(0)[0], 1, micro_batch_tokens=128)
    assert len(part) > 1
    expected = [objective.measure(one, 0).loss.item() for one in part]
    objective.prepare(part, 0)

    reads = []
    gather = data.train.gather
    monkeypatch.setattr(data.train, "gather", lambda rows: (reads.append(rows), gather(rows))[1])
    # In any order, and once each; what wasn't made ready is read.
    found = [objective.measure(one, 0).loss.item() for one in reversed(part)]
    assert found[::-1] == expected
    assert not reads
    assert objective.measure(part[0], 0).loss.item() == expected[0]
    assert len(reads) == 1
    objective.prepare(part[:1], 0)
    reads.clear()
    # Another epoch's segmentation may be another, and what is made ready anew replaces the rest.
    objective.measure(part[0], 1)
    objective.prepare(part[1:], 0)
    objective.measure(part[0], 0)
    assert [rows.tolist() for rows in reads] == [
        part[0].sentences.tolist(),
        *(one.sentences.tolist() for one in part[1:]),
        part[0].sentences.tolist(),
    ]
