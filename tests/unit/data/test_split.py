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
    assert caught.value.hint == "are these the right files?"
    (tmp_path / "b.tsv").write_text("one\teins\ntwo\tzwei\nthree\tdrei\nfour\tvier\n")
    four = Splitting(read_as_corpora([tmp_path / "b.tsv"]), ("en", "de"))
    with pytest.raises(MtkitError, match="4 pairs are too few for sets of 30 and 20") as caught:
        four.split(tmp_path / "corpus", SIZES)
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


def test_a_document_may_have_lines_that_are_equal_on_both_sides(tmp_path: Path) -> None:
    pairs = [(f"text {each} line", f"Text {each} Zeile") for each in range(4)]
    documents = [
        [(f"{number} {source}", f"{number} {target}") for source, target in pairs]
        + [("2020", "2020")] * (1 if number < 20 else 5)
        for number in range(40)
    ]
    rows = [row for document in documents for row in [*document, ("", "")]]
    found = split(tmp_path / "a", rows, "documents")
    chosen = {int(row[0].split()[0]) for name in SIZES for row in found[name]} - {2020}
    assert len(found["test"]) > 10
    # A document that isn't translated stays in the training set.
    assert max(chosen) < 20


@pytest.mark.parametrize("direction", [(0, 1), (1, 0)])
def test_templates_of_a_language_without_spaces(tmp_path: Path, direction: tuple[int, int]) -> None:
    names = [f"lib{number:x}name" for number in range(600)]
    templates = [
        (f"This package contains the documents of {name}", f"此软件包包含{name}的开发文档")
        for name in names
    ]
    others = [(f"w{number} x{number} y{number}", f"甲{number}乙{number}") for number in range(400)]
    rows = [(row[direction[0]], row[direction[1]]) for row in templates + others]
    found = split(tmp_path / "a", rows, "templates")
    held_out = found["test"] | found["dev"]
    assert held_out
    assert not any("name" in source for source, _ in held_out)


@pytest.mark.parametrize(
    ("names", "contents"),
    [
        (("en.txt", "de.txt"), ("one\ntwo\n", "eins\nzwei\n")),
        (("en.json", "de.json"), ('{\n"a": "one",\n"b": "two"}', '{"b": "zwei", "a": "eins"}')),
    ],
)
def test_two_files_of_one_side_each(tmp_path: Path, names, contents) -> None:
    paths = [tmp_path / name for name in names]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content)
    splitting = Splitting(read_as_corpora(paths), ("en", "de"))
    splitting.split(tmp_path / "corpus", {"test": 1})
    rows = [
        line
        for name in ("train", "test")
        for line in (tmp_path / "corpus" / f"{name}.tsv").read_text().splitlines()
    ]
    assert sorted(rows) == ["one\teins", "two\tzwei"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("{}.txt", "a{0}\tb{0}\n"), ("{}.json", '{{"en": "a{0}", "de": "b{0}"}}\n')],
)
def test_two_files_with_both_sides(tmp_path: Path, name: str, content: str) -> None:
    paths = [tmp_path / name.format(part) for part in ("first", "second")]
    for number, path in enumerate(paths):
        path.write_text("".join(content.format(2 * number + row) for row in range(2)))
    Splitting(read_as_corpora(paths), ("en", "de")).split(tmp_path / "corpus", {"test": 2})
    rows = (tmp_path / "corpus" / "train.tsv").read_text() + (
        tmp_path / "corpus" / "test.tsv"
    ).read_text()
    assert sorted(rows.splitlines()) == [f"a{row}\tb{row}" for row in range(4)]


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("a.jsonl", (1, 2), r"a\.jsonl: .*name"),
        ("a.tsv", (2, 2), r"a\.tsv: .*same"),
        ("a.parquet.gz", None, r"a\.parquet\.gz: "),
        ("a.tmx", (1, 2), "--columns: none of these files is a table"),
    ],
)
def test_columns_that_a_file_does_not_have(tmp_path: Path, name, columns, message) -> None:
    (tmp_path / name).write_text("x\ty\n")
    with pytest.raises(MtkitError, match=message):
        read_as_corpora([tmp_path / name], columns)


def test_languages_that_a_file_declares(tmp_path: Path) -> None:
    units = "".join(
        f"<trans-unit id='{each}'><source>a{each}</source><target>b{each}</target></trans-unit>"
        for each in range(4)
    )
    (tmp_path / "a.xlf").write_text(
        "<xliff version='1.2'><file source-language='en' target-language='de-AT'><body>"
        f"{units}</body></file></xliff>"
    )
    corpora = read_as_corpora([tmp_path / "a.xlf"])
    with pytest.raises(MtkitError, match=r"a\.xlf: it declares en to de-AT, not de to en$"):
        Splitting(corpora, ("de", "en")).split(tmp_path / "corpus", {"test": 1})
    assert not (tmp_path / "corpus").exists()
    found = Splitting(corpora, ("en", "de")).split(tmp_path / "corpus", {"test": 1})
    assert found == {"train": 3, "test": 1}


def test_utf_16_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n", encoding="utf-16")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    corpora = read_as_corpora([tmp_path / "a.en", tmp_path / "a.de"])
    with pytest.raises(MtkitError, match=r"a\.en:1: byte 1") as caught:
        Splitting(corpora, ("en", "de")).split(tmp_path / "corpus", {"test": 1})
    assert "it is UTF-16" in caught.value.hint
