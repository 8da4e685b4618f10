"""Ranks every row of a text store, on disk: by a cross-entropy difference or a probability.

H_in(s) - H_gen(s) (Moore and Lewis 2010, section 2), in nats: low for a sentence that an in-domain
model expects more than a general model. For a pair it is the sum over both sides (Axelrod, He and
Gao 2011, section 3). H(s) is minus the log-probability of the sentence and its `</s>`, divided by
the model's number of tokens; or by the number of characters, counting the end as one, if the two
models' vocabularies differ (`choose_unit`). A classifier of pairs gives the probability that a pair
isn't a translation.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.console import show_progress
from mtkit.data.preparation.facts import DifferencesFacts
from mtkit.data.preparation.stage import Preparation, Stage
from mtkit.data.preparation.text_store import TextPart, TextStore
from mtkit.data.selection.language_models import (
    LanguageModels,
    LanguageModelScorer,
    PairJudge,
    Unit,
    choose_unit,
    damaged_weights,
    digest_models,
)
from mtkit.errors import MtkitError
from mtkit.executor import ONE_WORKER, Executor
from mtkit.files import digest, digest_file
from mtkit.recipe.cleaning import Selection

DIFFERENCES_FILE = "differences.f32"
"""A key of 16 characters, and a 32-bit number for each row; NaN for a duplicate."""
UNFINISHED_FILE = "differences.part"
"""The same, as far as an interrupted preparation has come."""

_NUMBER = np.dtype("<f4")
_KEY_BYTES = 16


@dataclass(frozen=True)
class ScoringJob:
    """The settings of a worker process that measures parts of a text store; picklable.

    Attributes:
        by_column: Folders of the in-domain and the general model of each measured column.
        unit: The divisor of a cross-entropy.
        classifier: Folder of a classifier of pairs, and the label to keep; instead of models.
        digests: Of the models, which are the same wherever parts are measured.
    """

    text: Path
    by_column: Mapping[str, tuple[Path, Path]]
    unit: Unit
    models: LanguageModels
    classifier: tuple[Path, str] | None = None
    digests: Sequence[str] = ()

    @classmethod
    def of(cls, selection: Selection, text: Path, models: LanguageModels) -> "ScoringJob":
        """Returns the job for the models of a recipe's section."""
        by_column, classifier = selection.models, None
        if selection.classifier is not None:
            classifier = selection.classifier, selection.label
        job = cls(text, by_column, choose_unit(by_column), models, classifier)
        return replace(job, digests=list(map(models.digest, job.folders)))

    @property
    def folders(self) -> list[Path]:
        """The folders of all models."""
        if self.classifier is not None:
            return [self.classifier[0]]
        # Both sides may share one.
        return list(dict.fromkeys(folder for pair in self.by_column.values() for folder in pair))


class PartScorer:
    """Measures parts of a text store; created once per process."""

    def __init__(self, job: ScoringJob) -> None:
        self._job = job
        if job.digests and list(map(job.models.digest, job.folders)) != job.digests:
            raise MtkitError(
                "data.cleaning.selection: a model was replaced while it measured the text, or this "
                "machine has another copy of it",
                "run the same command again, with the same models on every machine",
            )
        self._text = TextStore(job.text)
        self._judge: PairJudge | None = None
        self._scorers: dict[Path, LanguageModelScorer] = {}
        if job.classifier is None:
            self._scorers = {folder: job.models.open(folder) for folder in job.folders}
        else:
            self._judge = job.models.open_classifier(*job.classifier)

    def __call__(self, part: TextPart) -> NDArray[np.float32]:
        """Returns the difference of each row of a part; NaN for a duplicate, [rows]."""
        differences = np.full(len(part.is_unique), np.nan, dtype=_NUMBER)
        if part.is_unique.any():
            unique = self._text.read_unique(part)
            columns = unique.to_pydict()
            if self._judge is not None:
                differences[part.is_unique] = self._judge(columns["source"], columns["target"])
                return differences
            differences[part.is_unique] = sum(
                self._entropy(in_domain, columns[column]) - self._entropy(general, columns[column])
                for column, (in_domain, general) in self._job.by_column.items()
            )
        return differences

    def _entropy(self, folder: Path, lines: Sequence[str]) -> NDArray[np.float64]:
        """Returns the cross-entropy of each line, in nats per token or character, [lines]."""
        log_probabilities, num_units = self._scorers[folder](lines)
        if not np.isfinite(log_probabilities).all():
            raise damaged_weights(folder)
        if self._job.unit == "character":
            num_units = np.array([len(line) + 1 for line in lines])
        entropies: NDArray[np.float64] = -log_probabilities / num_units
        return entropies


def score_store(
    job: ScoringJob,
    parts: Sequence[tuple[int, int]],
    folder: Path,
    *,
    key: str,
    unfinished: Path,
    executor: Executor = ONE_WORKER,
) -> DifferencesFacts:
    """Writes the difference of each row of a text store, in order, in constant memory.

    The file doesn't depend on the number of workers. Measurements are written after each part to
    `unfinished`, so that a killed preparation continues after them. `parts` has the corpus and
    number of rows, with duplicates, of each part. `key` is a digest of all that the differences
    depend on.
    """
    num_rows = [count for _, count in parts]
    num_done = _count_done(unfinished, key, num_rows)
    done = sum(num_rows[:num_done])
    todo = islice(TextStore(job.text).list_parts(parts), num_done, None)
    executor = executor.fit(job.models.needs(job.folders))
    found = executor.run(partial(PartScorer, job), todo)
    unit = "line" if "text" in job.by_column else "pair"
    with unfinished.open("r+b" if num_done else "wb") as stream:
        if not num_done:
            stream.write(key.encode("ascii"))
        stream.truncate(_KEY_BYTES + done * _NUMBER.itemsize)
        stream.seek(0, os.SEEK_END)
        counted = ((len(differences), differences) for differences in found)
        for differences in show_progress(counted, "measuring", unit):
            stream.write(differences.tobytes())
            stream.flush()
            os.fsync(stream.fileno())
    unfinished.replace(folder / DIFFERENCES_FILE)
    differences = open_differences(folder)
    num_scored = sum(
        int(np.count_nonzero(~np.isnan(differences[first : first + count])))
        for first, count in zip(np.cumsum([0, *num_rows[:-1]]), num_rows, strict=True)
    )
    return {
        "unit": job.unit,
        "scored": num_scored,
        "digest": digest([digest_file(folder / DIFFERENCES_FILE)]),
    }


def _count_done(unfinished: Path, key: str, num_rows: Sequence[int]) -> int:
    """Returns how many whole parts an earlier preparation measured with the same key."""
    if not unfinished.is_file():
        return 0
    with unfinished.open("rb") as stream:
        if stream.read(_KEY_BYTES) != key.encode("ascii"):
            return 0
    num_found = (unfinished.stat().st_size - _KEY_BYTES) // _NUMBER.itemsize
    return int(np.searchsorted(np.cumsum(num_rows), num_found, side="right"))


def open_differences(folder: Path) -> NDArray[np.float32]:
    """Returns the difference of each row, [rows]; mapped from disk."""
    return np.memmap(folder / DIFFERENCES_FILE, dtype=_NUMBER, mode="r", offset=_KEY_BYTES)


def _measure(preparation: Preparation, folder: Path) -> DifferencesFacts:
    """Writes the difference of each row of the cleaned text."""
    if preparation.models is None:
        raise ValueError("data.cleaning.selection needs something that runs language models")
    settings = preparation.data.cleaning.selection
    assert settings is not None
    key = DIFFERENCES.compute_key(preparation)
    facts = score_store(
        ScoringJob.of(settings, preparation.text, preparation.models),
        preparation.parts,
        folder,
        key=key,
        unfinished=preparation.draft / UNFINISHED_FILE,
        executor=preparation.executor,
    )
    if DIFFERENCES.compute_key(preparation) != key:
        raise MtkitError(
            "a model of data.cleaning.selection was replaced while it measured the text",
            "run the same command again",
        )
    return facts


def selects(preparation: Preparation) -> bool:
    """Checks that models select a recipe's rows."""
    return preparation.data.cleaning.selection is not None


def _depends(preparation: Preparation) -> list[Any]:
    selection, text = preparation.data.cleaning.selection, preparation.found["text"]
    assert selection is not None
    assert preparation.models is not None
    return [text["digest"], text["parts"], digest_models(selection, preparation.models)]


DIFFERENCES = Stage("differences", _measure, _depends, selects)
