"""`mtkit split`: rows that are alike stay together, wherever they are in the corpus."""

import random
from collections import defaultdict
from pathlib import Path

import pytest

from mtkit.data.split import Splitting, read_as_corpora
from mtkit.errors import MtkitError

SIZES = {"test": 30, "dev": 20}
NAMES = ("train", *SIZES)
Rows = list[tuple[str, str]]


def make_rows() -> Rows:
    generator = random.Random(3)
    letters = "abcdefghijklmnopqrstuvwxyz"

    def word() -> str:
        return "".join(generator.choices(letters, k=8))

    rows = [(f"{word()} {word()} {word()}", f"{word()} {word()}") for _ in range(400)]
    names = [word() for _ in range(150)]
    rows += [(f"documentation for the package {name}", f"Handbuch zu {name}") for name in names]
    # Two translations of a text, and a text that a translation shares.
    rows += [(rows[0][0], "erste"), (rows[0][0].upper() + ".", "zweite"), ("dritte", rows[1][1])]
    rows += [("untranslated text", "untranslated text"), ("", "leer"), ("", "")]
    generator.shuffle(rows)
    return rows


def split(folder: Path, rows: Rows, by: str = "rows") -> dict[str, set[tuple[str, str]]]:
    folder.mkdir()
    (folder / "all.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    corpora = read_as_corpora([folder / "all.tsv"])
    splitting = Splitting(corpora, ("en", "de"), by)  # type: ignore[arg-type]
    counts = splitting.split(folder / "corpus", SIZES)
    found = {name: (folder / "corpus" / f"{name}.tsv").read_text().splitlines() for name in NAMES}
    assert {name: len(lines) for name, lines in found.items()} == counts
    return {name: {tuple(line.split("\t")) for line in lines} for name, lines in found.items()}  # type: ignore[misc]


@pytest.mark.parametrize("by", ["rows", "templates"])
def test_every_row_is_in_one_set_and_none_is_lost(tmp_path: Path, by: str) -> None:
    rows = make_rows()
    found = split(tmp_path / "a", rows, by)
    assert (len(found["test"]), len(found["dev"])) == (30, 20)
    assert set.union(*found.values()) == {row for row in rows if row != ("", "")}
    for side in (0, 1):
        sets = defaultdict(set)
        for name, chosen in found.items():
            for row in chosen:
                sets[row[side].casefold().rstrip(".")].add(name)
        assert all(len(each) == 1 for each in sets.values())
    assert {("", "leer"), ("untranslated text", "untranslated text")} <= found["train"]
    # The same whatever the order of the corpus is.
    assert split(tmp_path / "b", sorted(rows), by) == found


def test_rows_of_a_template_stay_in_training(tmp_path: Path) -> None:
    rows = make_rows()
    by_rows, by_templates = (split(tmp_path / by, rows, by) for by in ("rows", "templates"))

    def count(found: dict[str, set[tuple[str, str]]]) -> int:
        return sum(row[0].startswith("documentation") for row in found["test"] | found["dev"])

    assert count(by_rows) > 5
    assert count(by_templates) == 0


def test_documents_stay_whole(tmp_path: Path) -> None:
    rows = [
        (f"text {document} line {line}", f"Text {document} Zeile {line}")
        for document in range(60)
        for line in range(5)
    ]
    (tmp_path / "all.en").write_text(
        "".join(f"{row[0]}\n" + "\n" * (number % 5 == 4) for number, row in enumerate(rows))
    )
    (tmp_path / "all.de").write_text(
        "".join(f"{row[1]}\n" + "\n" * (number % 5 == 4) for number, row in enumerate(rows))
    )
    corpora = read_as_corpora([tmp_path / "all.en", tmp_path / "all.de"])
    splitting = Splitting(corpora, ("en", "de"), "documents")
    assert splitting.split(tmp_path / "corpus", SIZES) == {"train": 250, "test": 30, "dev": 20}
    places = defaultdict(set)
    for name in NAMES:
        for line in (tmp_path / "corpus" / f"{name}.tsv").read_text().splitlines():
            places[line.split()[1]].add(name)
    assert len(places) == 60
    assert all(len(each) == 1 for each in places.values())


def test_faults(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\teins\ntwo\tzwei\n")
    splitting = Splitting(read_as_corpora([tmp_path / "a.tsv"]), ("en", "de"))
    with pytest.raises(MtkitError, match="2 pairs are too few for sets of 30 and 20") as caught:
        splitting.split(tmp_path / "corpus", SIZES)
    assert caught.value.hint.endswith("--dev 1 --test 1")
    assert not (tmp_path / "corpus").exists()
    splitting.split(tmp_path / "corpus", {"test": 1})
    with pytest.raises(MtkitError, match="exists"):
        splitting.split(tmp_path / "corpus", {"test": 1})
    (tmp_path / "a.en").touch()
    with pytest.raises(MtkitError, match="expected two text files"):
        read_as_corpora([tmp_path / "a.en"])
    with pytest.raises(MtkitError, match=r"absent\.csv: no such file"):
        read_as_corpora([tmp_path / "absent.csv"])


def test_misaligned_pairs_stay_in_training(tmp_path: Path) -> None:
    generator = random.Random(5)
    rows = []
    for number in range(2_000):
        length = generator.randint(3, 90)
        rows.append((f"{number} " + "a" * length, f"{number} " + "b" * (length + 2)))
    targets = [target for _, target in rows]
    del targets[1_200]
    (tmp_path / "all.en").write_text("".join(f"{source}\n" for source, _ in rows[:-1]))
    (tmp_path / "all.de").write_text("".join(f"{target}\n" for target in targets))
    splitting = Splitting(read_as_corpora([tmp_path / "all.en", tmp_path / "all.de"]), ("en", "de"))
    splitting.split(tmp_path / "corpus", SIZES)
    [note] = splitting.notes
    assert "all.en: lines 1,201 to 1,999 look misaligned (the target is 1 line ahead)" in note
    for name in SIZES:
        for line in (tmp_path / "corpus" / f"{name}.tsv").read_text().splitlines():
            source, target = line.split("\t")
            assert source.split()[0] == target.split()[0]


def test_columns_and_quotes_of_a_table(tmp_path: Path) -> None:
    rows = [f'"{number}","text {number}","Wort {number}"' for number in range(40)]
    table = "\n".join(["id,English,German", *rows]) + "\n"
    (tmp_path / "a.csv").write_text(table)
    corpora = read_as_corpora([tmp_path / "a.csv"], ("English", "German"))
    splitting = Splitting(corpora, ("en", "de"))
    assert splitting.split(tmp_path / "corpus", {"test": 5}) == {"train": 35, "test": 5}
    assert splitting.notes == []
    assert "id" not in (tmp_path / "corpus/train.tsv").read_text()
    (tmp_path / "b.tsv").write_text('"a b"\t"c d"\n' * 30)
    splitting = Splitting(read_as_corpora([tmp_path / "b.tsv"]), ("en", "de"))
    splitting.split(tmp_path / "other", {"test": 5})
    assert "30 of 30 pairs are in quotation marks" in splitting.notes[0]
