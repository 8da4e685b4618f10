"""Differences by hand, from scorers that know a line's probability by its text."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mtkit.data.preparation.text_store import (
    TextStoreWriter,
    make_text_batch,
    open_marks,
    write_part,
)
from mtkit.data.selection.differences import (
    DIFFERENCES_FILE,
    ScoringJob,
    open_differences,
    score_store,
)
from mtkit.errors import MtkitError
from mtkit.executor import LocalExecutor, WorkerNeeds

KEY = "0123456789abcdef"


@dataclass(frozen=True)
class WordModels:
    """Language models whose folder's name is what a word costs in nats; an end costs 1."""

    def check(self, folder: Path, language: str) -> None:
        pass

    def open(self, folder: Path):
        def score(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            words = np.array([len(line.split()) for line in lines])
            return -float(folder.name) * words - 1.0, words + 1

        return score

    def needs(self, folders: Sequence[Path]) -> WorkerNeeds:
        return WorkerNeeds()


@dataclass(frozen=True)
class StoppingModels(WordModels):
    """The same, until a line says so."""

    def open(self, folder: Path):
        score = super().open(folder)

        def stop(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            if "stop" in lines:
                raise KeyboardInterrupt
            return score(lines)

        return stop


def write(folder: Path, columns: dict[str, list[str]], sizes: list[int], duplicates=()) -> None:
    folder.mkdir(parents=True)
    with TextStoreWriter(folder) as store:
        first = 0
        for size in sizes:
            part = {name: lines[first : first + size] for name, lines in columns.items()}
            store.append(write_part(folder, make_text_batch(part)))
            first += size
    marks = open_marks(folder / "is_duplicate.npy", sum(sizes))
    marks[list(duplicates)] = True


def measure(
    folder: Path, by_column, sizes: list[int], *, unit="token", num_workers=1, models=None, key=KEY
) -> np.ndarray:
    out = folder.with_name(f"{folder.name}-out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    paths = {column: tuple(map(Path, pair)) for column, pair in by_column.items()}
    score_store(
        ScoringJob(folder, paths, unit, models or WordModels()),
        [(0, size) for size in sizes],
        out,
        key=key,
        unfinished=folder.with_name("unfinished"),
        executor=LocalExecutor(num_workers),
    )
    return np.array(open_differences(out))


def test_by_hand_per_token_and_per_character(tmp_path: Path) -> None:
    lines = ["one", "one two three", "one", "ab cd"]
    write(tmp_path / "text", {"text": lines}, [2, 2], duplicates=[2])
    found = measure(tmp_path / "text", {"text": ("2", "5")}, [2, 2])
    # (2 - 5) nats for each word, in one, three and two words; </s> counts as a token.
    assert found.tolist() == pytest.approx([-3 / 2, -9 / 4, math.nan, -6 / 3], nan_ok=True)
    found = measure(tmp_path / "text", {"text": ("2", "5")}, [2, 2], unit="character")
    assert found.tolist() == pytest.approx([-3 / 4, -9 / 14, math.nan, -6 / 6], nan_ok=True)


def test_pairs_have_the_sum_of_both_sides(tmp_path: Path) -> None:
    columns = {"source": ["a b c", "a"], "target": ["x", "y z"]}
    write(tmp_path / "text", columns, [2])
    by_column = {"source": ("1", "2"), "target": ("4", "1")}
    # Sources: -1 a word; targets: 3 a word.
    assert measure(tmp_path / "text", by_column, [2]).tolist() == pytest.approx(
        [-3 / 4 + 3 / 2, -1 / 2 + 6 / 3]
    )
    sources_alone = measure(tmp_path / "text", {"source": ("1", "2")}, [2])
    assert sources_alone.tolist() == pytest.approx([-3 / 4, -1 / 2])


def test_the_same_bytes_from_any_number_of_workers(tmp_path: Path) -> None:
    lines = ["w " * (1 + number % 13) for number in range(70)]
    write(tmp_path / "text", {"text": lines}, [10] * 7, duplicates=[3, 40])
    contents = []
    for num_workers in (1, 2, 3):
        measure(tmp_path / "text", {"text": ("2", "5")}, [10] * 7, num_workers=num_workers)
        contents.append((tmp_path / "text-out" / DIFFERENCES_FILE).read_bytes())
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.parametrize("num_bytes_lost", [0, 1, 7, 39, 41, 79])
def test_an_interrupted_measurement_goes_on(tmp_path: Path, num_bytes_lost: int) -> None:
    lines = [f"{number} " * (1 + number % 5) for number in range(50)]
    write(tmp_path / "whole", {"text": lines}, [10] * 5)
    expected = measure(tmp_path / "whole", {"text": ("2", "5")}, [10] * 5)
    write(tmp_path / "cut", {"text": [*lines[:25], "stop", *lines[26:]]}, [10] * 5)
    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path / "cut", {"text": ("2", "5")}, [10] * 5, models=StoppingModels())
    unfinished = tmp_path / "unfinished"
    # A key of 16 bytes, and two parts of ten numbers.
    assert unfinished.stat().st_size == 16 + 2 * 10 * 4
    content = unfinished.read_bytes()
    unfinished.write_bytes(content[: len(content) - num_bytes_lost])
    # What is measured already isn't measured again: other models would say something else.
    rest = measure(tmp_path / "whole", {"text": ("8", "5")}, [10] * 5)
    num_kept = 20 if not num_bytes_lost else 10 if num_bytes_lost <= 40 else 0
    assert rest[:num_kept].tolist() == expected[:num_kept].tolist()
    assert rest[num_kept:].tolist() == (-expected[num_kept:]).tolist()
    assert not unfinished.exists()


def test_what_other_models_measured_is_not_taken_over(tmp_path: Path) -> None:
    write(tmp_path / "text", {"text": ["a", "stop"]}, [1, 1])
    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path / "text", {"text": ("2", "5")}, [1, 1], models=StoppingModels())
    found = measure(tmp_path / "text", {"text": ("8", "5")}, [1, 1], key="f" * 16)
    assert found.tolist() == [1.5, 1.5]


def test_a_model_without_probabilities_is_named(tmp_path: Path) -> None:
    write(tmp_path / "text", {"text": ["a"]}, [1])
    with pytest.raises(MtkitError, match="nan: this model's probabilities are NaN or infinite"):
        measure(tmp_path / "text", {"text": ("2", "nan")}, [1])
