"""Selects rows of a text store by the models' ranking, and describes the ranking.

Values at given ranks are found exactly and in constant memory: a first pass over the file counts
32-bit numbers by their upper 16 bits, and a second counts those in the bins of wanted ranks by
their lower 16 bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mtkit.data.batches.numbered_texts import TEXT_COLUMNS
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.cleaned_block import NUM_SAMPLES, shorten_row
from mtkit.data.preparation.facts import NamedRow, RankedRow, SelectedCorpus, SelectionFacts
from mtkit.data.preparation.preparation_report import PreparationReport
from mtkit.data.preparation.stage import (
    LEFT_OUT_FILE,
    Preparation,
    ReportSection,
    Stage,
    has_pairs,
    make_visible,
    share,
)
from mtkit.data.preparation.text_store import (
    LINE_COLUMN,
    TextStore,
    append_dropped,
    open_marks,
    pack_stored,
)
from mtkit.data.selection.differences import open_differences, selects
from mtkit.data.selection.language_models import Unit
from mtkit.errors import MtkitError
from mtkit.files import digest_file
from mtkit.recipe.cleaning import Selection

_AT_ONCE = 1_000_000
_HALF = 1 << 16
_QUANTILES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


def find_ranked(values: NDArray[np.float32], ranks: Sequence[int]) -> list[float]:
    """Returns the values at some ranks, from 0, in ascending order without NaN."""
    upper = np.zeros(_HALF, dtype=np.int64)
    for keys in _iterate_keys(values):
        upper += np.bincount(keys >> 16, minlength=_HALF)
    ends = np.cumsum(upper)
    if ranks and max(ranks) >= ends[-1]:
        raise IndexError(f"rank {max(ranks)} of {ends[-1]} numbers")
    halves = np.searchsorted(ends, ranks, side="right").tolist()
    lower = {half: np.zeros(_HALF, dtype=np.int64) for half in halves}
    for keys in _iterate_keys(values):
        for half in lower:
            chosen = keys[(keys >> 16) == half]
            lower[half] += np.bincount(chosen & (_HALF - 1), minlength=_HALF)
    found = []
    for rank, half in zip(ranks, halves, strict=True):
        inside = rank - int(ends[half] - upper[half])
        rest = int(np.searchsorted(np.cumsum(lower[half]), inside, side="right"))
        found.append(_to_float((half << 16) | rest))
    return found


def iterate_chunks(values: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """Yields numbers in order, a limited number at a time."""
    for first in range(0, len(values), _AT_ONCE):
        yield np.array(values[first : first + _AT_ONCE])


def _iterate_keys(values: NDArray[np.float32]) -> Iterator[NDArray[np.uint32]]:
    """Yields unsigned integers that sort like the numbers, without NaN."""
    for chunk in iterate_chunks(values):
        # Zero is added because -0.0 equals 0.0.
        bits = (chunk[~np.isnan(chunk)] + np.float32(0)).view(np.uint32)
        yield np.where(bits >> 31 != 0, ~bits, bits | np.uint32(1 << 31))


def _to_float(key: int) -> float:
    bits = key & ~(1 << 31) if key >> 31 else ~key & 0xFFFFFFFF
    return float(np.array(bits, dtype=np.uint32).view(np.float32))


@dataclass(frozen=True)
class _Limit:
    """What is kept: all below `value`, and the first `num_equal` that are equal to it."""

    value: float
    num_equal: int


def select_rows(
    settings: Selection,
    text: Path,
    parts: Sequence[tuple[int, int]],
    differences: NDArray[np.float32],
    folder: Path,
    *,
    unit: Unit,
    files: Sequence[str],
    columns: Sequence[str],
) -> SelectionFacts:
    """Marks the rows that aren't kept, in constant memory; returns facts on the ranking.

    Rows are ranked over all corpora; of rows with the same difference, the first come first.
    `parts` has the corpus and number of rows of each part, `files` the file of each corpus, and
    `columns` the names of those with text. A duplicate's difference is NaN.
    """
    num_scored = sum(int(np.count_nonzero(~np.isnan(each))) for each in iterate_chunks(differences))
    ranks = [round(share * (num_scored - 1)) for share in _QUANTILES]
    quantiles = find_ranked(differences, ranks)
    limit = _find_limit(settings, differences, num_scored)
    if limit.value < quantiles[0]:
        raise MtkitError(
            f"data.cleaning.selection.min_probability = {settings.min_probability:g} leaves "
            f"nothing: the highest probability is {1.0 - quantiles[0]:.4g}"
            if unit == "probability"
            else f"data.cleaning.selection.max_difference = {settings.max_difference:g} leaves "
            f"nothing: the lowest difference is {quantiles[0]:.4g} nats per {unit}",
            f"{'lower' if unit == 'probability' else 'raise'} it, or give keep = a share instead",
        )
    tally = _Tally(max(corpus for corpus, _ in parts) + 1)
    marks = open_marks(folder / LEFT_OUT_FILE, len(differences))
    store = TextStore(text)
    for number, (corpus, first, found, is_kept) in enumerate(
        _iterate_parts(parts, differences, limit)
    ):
        marks[first : first + len(found)] = ~is_kept
        tally.add(corpus, first, found, is_kept)
        dropped = store.read_part(number).filter(pa.array(~is_kept & ~np.isnan(found)))
        append_dropped(folder, pack_stored("selection", files[corpus], dropped, columns))
    shown = _ShownRows(text, parts)
    return {
        "unit": unit,
        "scored": num_scored,
        "kept": sum(corpus["kept"] for corpus in tally.corpora),
        "limit": limit.value,
        "quantiles": {
            f"{share:.0%}": value for share, value in zip(_QUANTILES, quantiles, strict=True)
        },
        "corpora": tally.corpora,
        "samples": {
            "lowest": shown.read(tally.lowest),
            "last kept": shown.read(tally.last_kept),
            "highest": shown.read(tally.highest),
        },
        "digest": digest_file(folder / LEFT_OUT_FILE),
    }


def _find_limit(settings: Selection, differences: NDArray[np.float32], num_scored: int) -> _Limit:
    if settings.max_value is not None:
        # In the precision of differences.
        return _Limit(float(np.float32(settings.max_value)), len(differences))
    assert settings.keep is not None
    num_kept = max(1, round(settings.keep * num_scored))
    [value] = find_ranked(differences, [num_kept - 1])
    num_below = sum(
        int(np.count_nonzero(each < np.float32(value))) for each in iterate_chunks(differences)
    )
    return _Limit(value, num_kept - num_below)


def _iterate_parts(
    parts: Sequence[tuple[int, int]], differences: NDArray[np.float32], limit: _Limit
) -> Iterator[tuple[int, int, NDArray[np.float32], NDArray[np.bool_]]]:
    """Yields corpus, first row, differences, and which rows are kept, of each part."""
    first, num_equal = 0, limit.num_equal
    value = np.float32(limit.value)
    for corpus, count in parts:
        found = np.array(differences[first : first + count])
        is_kept = found < value
        equal = np.flatnonzero(found == value)[:num_equal]
        is_kept[equal] = True
        num_equal -= len(equal)
        yield corpus, first, found, is_kept
        first += count


class _Tally:
    """Counts by corpus, and the rows at the ends of the ranking, over the parts so far."""

    def __init__(self, num_corpora: int) -> None:
        self.corpora: list[SelectedCorpus] = [
            {"scored": 0, "kept": 0, "mean": None} for _ in range(num_corpora)
        ]
        self.lowest: list[tuple[float, int]] = []
        self.last_kept: list[tuple[float, int]] = []
        self.highest: list[tuple[float, int]] = []

    def add(
        self, corpus: int, first: int, found: NDArray[np.float32], is_kept: NDArray[np.bool_]
    ) -> None:
        """Adds the next part; `first` is the number of its first row."""
        rows = np.flatnonzero(~np.isnan(found))
        facts = self.corpora[corpus]
        num_scored = facts["scored"] + len(rows)
        if len(rows):
            total = (facts["mean"] or 0.0) * facts["scored"]
            total += float(found[rows].sum(dtype=np.float64))
            facts["mean"] = total / num_scored
        facts["scored"] = num_scored
        facts["kept"] += int(np.count_nonzero(is_kept))
        order = rows[np.argsort(found[rows], kind="stable")]
        kept = order[is_kept[order]]

        def pick(chosen: NDArray[np.int64]) -> list[tuple[float, int]]:
            return [(float(found[row]), first + row) for row in chosen.tolist()]

        self.lowest = sorted([*self.lowest, *pick(order[:NUM_SAMPLES])])[:NUM_SAMPLES]
        self.last_kept = sorted([*self.last_kept, *pick(kept[-NUM_SAMPLES:])])[-NUM_SAMPLES:]
        self.highest = sorted([*self.highest, *pick(order[-NUM_SAMPLES:])])[-NUM_SAMPLES:]


class _ShownRows:
    """Reads a few rows of a text store by their numbers."""

    def __init__(self, text: Path, parts: Sequence[tuple[int, int]]) -> None:
        self._text, self._parts = TextStore(text), parts
        self._ends = np.cumsum([count for _, count in parts])

    def read(self, ranked: Sequence[tuple[float, int]]) -> list[RankedRow]:
        """Returns rows in the order of their differences."""
        found: list[RankedRow] = []
        for difference, row in ranked:
            number = int(np.searchsorted(self._ends, row, side="right"))
            corpus, count = self._parts[number]
            index = row - (int(self._ends[number]) - count)
            [texts] = self._text.read_part(number).take(pa.array([index])).to_pylist()
            shown = shorten_row(texts[LINE_COLUMN], texts)
            found.append({**shown, "corpus": corpus, "difference": round(difference, 4)})
        return found


def _select(preparation: Preparation, folder: Path) -> SelectionFacts:
    settings = preparation.data.cleaning.selection
    assert settings is not None
    return select_rows(
        settings,
        preparation.text,
        preparation.parts,
        open_differences(preparation.draft / "differences"),
        folder,
        unit=preparation.found["differences"]["unit"],
        files=preparation.files,
        columns=PAIR_COLUMNS if has_pairs(preparation) else TEXT_COLUMNS,
    )


def _depends(preparation: Preparation) -> list[Any]:
    settings = preparation.data.cleaning.selection
    assert settings is not None
    digest_ = preparation.found["differences"]["digest"]
    return [digest_, preparation.parts, [settings.keep, settings.max_value]]


def describe_ranking(report: PreparationReport, _: SelectionFacts) -> Iterator[ReportSection]:
    """Yields the sections on the ranking: its corpora, its quantiles, and sample rows."""
    found = report.selection
    assert found is not None, "the stage is done"
    unit, is_probability = report.unit, found["unit"] == "probability"
    value = "P(fault)" if is_probability else "difference"
    limit = (
        f"probabilities of a fault up to {found['limit']:.3f}"
        if is_probability
        else f"differences up to {found['limit']:.3f} nats per {found['unit']}"
    )
    sample = " of a sample" if found["is_estimate"] else ""
    yield ReportSection(
        "Selection",
        ["corpus", f"mean {value}", f"{unit}s ranked", "kept"],
        [
            [
                name,
                "" if each["mean"] is None else f"{each['mean']:.3f}",
                f"{each['scored']:,}",
                share(each["kept"], each["scored"]),
            ]
            for name, each in found["corpora"].items()
        ],
        caption=f"{found['kept']:,} of {found['scored']:,} {unit}s{sample} are selected: {limit}",
    )
    yield ReportSection(
        "Quantiles of the ranking",
        [f"{unit}s", f"{value} up to"],
        [[name, f"{number:.3f}"] for name, number in found["quantiles"].items()],
    )
    rows = [
        [where, f"{row['difference']:.3f}", *_list_texts(row, report.columns)]
        for where, ranked in found["samples"].items()
        for row in ranked
    ]
    header = ["of the ranking", value, "corpus", *report.columns]
    num_text_columns = 1 + len(report.columns)
    yield ReportSection("Rows of the ranking", header, rows, num_text_columns=num_text_columns)


def _list_texts(row: NamedRow, columns: Sequence[str]) -> list[str]:
    return [row["corpus"], *(make_visible(str(row.get(name, ""))) for name in columns)]


SELECTION = Stage("selection", _select, _depends, selects, describe_ranking)
