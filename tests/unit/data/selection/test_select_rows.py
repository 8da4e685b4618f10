"""Which rows are kept: by share or by threshold, over all corpora, ties in order."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mtkit.data.preparation.facts import SelectionFacts
from mtkit.data.preparation.text_store import (
    TextStore,
    TextStoreWriter,
    make_text_batch,
    open_marks,
    write_part,
)
from mtkit.data.selection.select_rows import LEFT_OUT_FILE, select_rows
from mtkit.errors import MtkitError
from mtkit.recipe.cleaning import Selection

NAN = float("nan")


def choose(**how: float) -> Selection:
    return Selection(in_domain=Path("ours"), general=Path("general"), **how)


def select(
    folder: Path, settings: Selection, parts: Sequence[tuple[int, Sequence[float]]]
) -> tuple[list[int], SelectionFacts]:
    """Returns the rows that are kept; each part has its corpus and its rows' differences."""
    differences = np.array([each for _, found in parts for each in found], np.float32)
    with TextStoreWriter(folder) as store:
        first = 0
        for _, found in parts:
            rows = np.arange(first, first + len(found))
            texts = [f"row {row}" for row in rows]
            batch = make_text_batch({"text": texts, "line": rows + 1})
            store.append(write_part(folder, batch))
            first += len(found)
    marks = open_marks(folder / "is_duplicate.npy", len(differences))
    marks[:] = np.isnan(differences)
    sizes = [(corpus, len(found)) for corpus, found in parts]
    facts = select_rows(
        settings,
        folder,
        sizes,
        differences,
        folder,
        unit="token",
        files=["a.txt", "b.txt"],
        columns=["text"],
    )
    store = TextStore(folder, left_out=folder / LEFT_OUT_FILE)
    kept = [
        int(text.removeprefix("row "))
        for part in store.iterate_unique()
        for text in part.column("text").to_pylist()
    ]
    return kept, facts


PARTS = [(0, [0.5, -1.0, NAN, 2.0]), (0, [0.25, -1.0]), (1, [-3.0, 0.25, 7.0])]
"""Eight rows: -3 (6), -1 (1), -1 (5), 0.25 (4), 0.25 (7), 0.5 (0), 2 (3), 7 (8)."""


@pytest.mark.parametrize(
    ("how", "expected", "limit"),
    [
        ({"keep": 0.5}, [1, 4, 5, 6], 0.25),
        # Of two with the same difference, the first.
        ({"keep": 0.25}, [1, 6], -1.0),
        ({"keep": 0.375}, [1, 5, 6], -1.0),
        # One at least.
        ({"keep": 0.001}, [6], -3.0),
        ({"keep": 1.0}, [0, 1, 3, 4, 5, 6, 7, 8], 7.0),
        # A threshold keeps all that equal it.
        ({"max_difference": 0.25}, [1, 4, 5, 6, 7], 0.25),
        ({"max_difference": 0.3}, [1, 4, 5, 6, 7], pytest.approx(0.3)),
        ({"max_difference": -3.0}, [6], -3.0),
        ({"max_difference": 100.0}, [0, 1, 3, 4, 5, 6, 7, 8], 100.0),
    ],
)
def test_the_rows_that_are_kept(
    tmp_path: Path, how: dict[str, float], expected: list[int], limit: float
) -> None:
    kept, facts = select(tmp_path, choose(**how), PARTS)
    assert kept == expected
    assert facts["kept"] == len(expected)
    assert facts["scored"] == 8
    assert facts["limit"] == limit
    assert sum(corpus["kept"] for corpus in facts["corpora"]) == len(expected)


def test_what_a_reader_sees(tmp_path: Path) -> None:
    _, facts = select(tmp_path, choose(keep=0.5), PARTS)
    # Corpus 0: (0.5 - 1 + 2 + 0.25 - 1) / 5; corpus 1: (-3 + 0.25 + 7) / 3.
    assert facts["corpora"] == [
        {"scored": 5, "kept": 3, "mean": pytest.approx(0.15)},
        {"scored": 3, "kept": 1, "mean": pytest.approx(4.25 / 3)},
    ]
    assert (facts["quantiles"]["0%"], facts["quantiles"]["100%"]) == (-3.0, 7.0)
    # The nearest rank: 0.5 of the way from rank 0 to rank 7 is rank 4, to even.
    assert facts["quantiles"]["50%"] == 0.25
    shown = {
        where: [(row["text"], row["corpus"], row["difference"]) for row in rows]
        for where, rows in facts["samples"].items()
    }
    assert shown["lowest"][:2] == [("row 6", 1, -3.0), ("row 1", 0, -1.0)]
    assert shown["last kept"][-1] == ("row 4", 0, 0.25)
    assert shown["highest"][-2:] == [("row 3", 0, 2.0), ("row 8", 1, 7.0)]


def test_a_corpus_of_duplicates_has_no_mean(tmp_path: Path) -> None:
    _, facts = select(tmp_path, choose(keep=0.5), [(0, [1.0, 2.0]), (1, [NAN, NAN])])
    assert facts["corpora"][1] == {"scored": 0, "kept": 0, "mean": None}


def test_a_threshold_below_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match=r"max_difference = -4 leaves nothing: .* is -3 nats"):
        select(tmp_path, choose(max_difference=-4.0), PARTS)


def test_the_same_rows_however_the_text_is_cut_into_parts(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(-5, 5, size=90).astype(float).tolist()
    found = []
    for size in (90, 7, 1):
        folder = tmp_path / str(size)
        folder.mkdir()
        parts = [(0, values[first : first + size]) for first in range(0, 90, size)]
        kept, facts = select(folder, choose(keep=0.3), parts)
        found.append((kept, facts["samples"]))
    assert found[0] == found[1] == found[2]
    assert len(found[0][0]) == 27
    # A stable sort's first 27.
    assert sorted(np.argsort(values, kind="stable")[:27].tolist()) == found[0][0]
