"""What selecting text would keep, from a sample."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from mtkit.data.preparation.facts import ReportedSelection
from mtkit.data.preparation.report import describe_selection
from mtkit.data.preparation.text_store import (
    TextStoreWriter,
    make_text_batch,
    open_duplicate_marks,
)
from mtkit.data.selection.differences import ScoringJob, open_differences, score_text
from mtkit.data.selection.language_models import LanguageModels, check_models
from mtkit.data.selection.select_rows import select_rows
from mtkit.recipe.corpora import corpus_names
from mtkit.recipe.data import Data

_SAMPLE_ROWS = 5_000
_ROWS_PER_PART = 1_000
_KEY = "0" * 16


def estimate_selection(
    data: Data,
    rows: Sequence[tuple[str, ...]],
    corpora: Sequence[int],
    models: LanguageModels | None,
    *,
    num_workers: int,
) -> ReportedSelection | None:
    """Returns how a recipe ranks some rows; None where it selects no text, or there are no rows.

    Args:
        data: The recipe's section.
        rows: Pairs or lines, evenly drawn; 5,000 of them at most are ranked.
        corpora: The index of each one's corpus, rising, [rows].
        models: What runs language models.
        num_workers: Processes that measure.

    Raises:
        MtkitError: A language model can't be used; no row would be left.
        ValueError: There is nothing that runs language models.
    """
    settings = data.cleaning.selection
    if settings is None:
        return None
    if models is None:
        raise ValueError("data.cleaning.selection needs something that runs language models")
    check_models(data, models)
    if not rows:
        return None
    step = -(-len(rows) // _SAMPLE_ROWS)
    with TemporaryDirectory(prefix="mtkit-check-") as name:
        folder = Path(name)
        columns = ("text",) if data.is_text else ("source", "target")
        parts = _write_sample(folder, columns, rows[::step], corpora[::step])
        job = ScoringJob.of(settings, folder, models)
        score_text(
            job,
            parts,
            folder,
            key=_KEY,
            unfinished=folder / "unfinished",
            num_workers=num_workers,
        )
        differences = open_differences(folder)
        facts = select_rows(settings, folder, parts, differences, folder, unit=job.unit)
    return describe_selection(facts, corpus_names(data.train), is_estimate=True)


def _write_sample(
    folder: Path,
    columns: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    corpora: Sequence[int],
) -> list[tuple[int, int]]:
    """Writes rows as a text store without duplicates; returns corpus and size of each part."""
    parts: list[tuple[int, int]] = []
    with TextStoreWriter(folder, columns) as store:
        for corpus, of_corpus in groupby(zip(corpora, rows, strict=True), lambda each: each[0]):
            texts = [row for _, row in of_corpus]
            for first in range(0, len(texts), _ROWS_PER_PART):
                part = texts[first : first + _ROWS_PER_PART]
                sides = zip(*part, strict=True)
                batch = make_text_batch(
                    {name: list(lines) for name, lines in zip(columns, sides, strict=True)}
                )
                store.append(batch)
                parts.append((corpus, len(part)))
    open_duplicate_marks(folder, len(rows))
    return parts
