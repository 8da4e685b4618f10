"""Faults planted in real text, in a corpus of each kind: `mtkit prepare` finds and counts each."""

import bz2
import gzip
import json
import lzma
import os
import subprocess
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .. import warm

pytestmark = pytest.mark.skipif(
    "MTKIT_TEST_DATA" not in os.environ, reason="MTKIT_TEST_DATA isn't set"
)

Pairs = list[tuple[str, str]]

RECIPE = """\
name = "planted"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
name = "text"
source = "text.en.xz"
target = "text.de.zst"
[[data.train]]
path = "sheet.tsv.bz2"
[[data.train]]
path = "rows.jsonl.gz"
source_column = "src"
target_column = "tgt"
[[data.train]]
path = "table.parquet"
[[data.train]]
path = "memory.tmx"
[[data.train]]
path = "Captions.de-en.txt.zip"
[[data.train]]
dataset = "folder"
split = "train"
source_column = "english"
target_column = "german"
[data.dev]
source = "val.en"
target = "val.de"
[tokenizer]
vocab_size = 2000
[[evaluation.test_sets]]
name = "test2016"
source = "test.en"
target = "test.de"
"""


def read(name: str) -> Pairs:
    folder = Path(os.environ["MTKIT_TEST_DATA"]) / "multi30k"
    sides = [
        gzip.decompress((folder / f"{name}.{language}.gz").read_bytes()).decode().split("\n")[:-1]
        for language in ("en", "de")
    ]
    return list(zip(*sides, strict=True))


def write_lines(path: Path, lines: list[str], compression: str | None = None) -> None:
    content = "\n".join(lines).encode()
    if compression == "xz":
        content = lzma.compress(content)
    elif compression is not None:
        content = pa.Codec(compression).compress(content, asbytes=True)
    path.write_bytes(content)


def garble(line: str) -> str:
    """UTF-8 that somebody read as Windows-1252."""
    return line.encode().decode("cp1252", errors="replace")


def find_umlauts(pairs: Pairs, count: int) -> list[int]:
    found = [place for place, (_, target) in enumerate(pairs) if "ß" in target and "ä" in target]
    assert len(found) >= count
    return found[:count]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """The report on each corpus by its name."""
    folder = tmp_path_factory.mktemp("project")
    train, test = read("train"), read("test_2016_flickr")
    for name, pairs in (("val", read("val")), ("test", test)):
        for place, language in enumerate(("en", "de")):
            write_lines(folder / f"{name}.{language}", [pair[place] for pair in pairs])
    parts = [train[first : first + 3000] for first in range(0, 21_000, 3000)]
    plant_text(folder, parts[0], test)
    plant_sheet(folder, parts[1], parts[0])
    plant_rows(folder, parts[2], test)
    plant_table(folder, parts[3])
    plant_memory(folder, parts[4])
    plant_archive(folder, parts[5])
    plant_data_set(folder, parts[6])
    (folder / "mtkit.toml").write_text(RECIPE)
    subprocess.run([*warm.command(), "prepare", "--workers", "2"], cwd=folder, check=True)
    found = json.loads((folder / "runs" / "planted" / "data" / "report.json").read_text())
    for corpus in found["corpora"]:
        assert corpus["read"] == corpus["kept"] + sum(corpus["dropped"].values())
    return {corpus["name"]: corpus for corpus in found["corpora"]} | {"": found}


def plant_text(folder: Path, pairs: Pairs, test: Pairs) -> None:
    """Stray characters, a line of 100,000 characters, a byte-order mark, no newline at the end."""
    pairs = list(pairs)
    for place in (10, 11, 12):
        pairs[place] = (pairs[place][0] + "\x00", pairs[place][1])
    for place in (20, 21):
        pairs[place] = (pairs[place][0], pairs[place][1].replace(" ", "\u2028", 1))
    # Windows-1252's three dots, as they stand in German news.
    pairs[30] = (pairs[30][0], pairs[30][1] + "\u0085")
    pairs[40] = ("word " * 20_000, pairs[40][1])
    pairs[50] = ("", pairs[50][1])
    pairs[60] = (pairs[60][0], " \t ")
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    write_lines(folder / "text.en.xz", ["\ufeff" + sources[0], *sources[1:]], "xz")
    write_lines(folder / "text.de.zst", targets, "zstd")


def plant_sheet(folder: Path, pairs: Pairs, before: Pairs) -> None:
    """Two hundred pairs that an earlier corpus has, fifty that come twice here."""
    pairs = [*pairs, *before[1000:1200], *pairs[:50]]
    lines = [f"{source}\t{target}" for source, target in pairs]
    (folder / "sheet.tsv.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))


def plant_rows(folder: Path, pairs: Pairs, test: Pairs) -> None:
    """Sentences of the test set: as they are, in other case and punctuation, one side alone."""
    whole = test[:100]
    changed = [(source.upper(), target.rstrip(".") + " !") for source, target in test[100:200]]
    long = [pair for pair in test[200:] if len(pair[0]) > 60][:40]
    one_side = [
        (source, "Das steht ganz gewiss in keinem der Texte, die sonst noch hier zu lesen sind.")
        for source, _ in long
    ]
    rows = [*pairs, *whole, *changed, *one_side]
    text = "".join(json.dumps({"src": source, "tgt": target}) + "\n" for source, target in rows)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(text.encode()))


def plant_table(folder: Path, pairs: Pairs) -> None:
    """Thirty pairs whose German was misread, and twenty with the same text on both sides."""
    pairs = list(pairs)
    for place in find_umlauts(pairs, 30):
        pairs[place] = (pairs[place][0], garble(pairs[place][1]))
    # None of those.
    plain = [place for place, (_, target) in enumerate(pairs) if "Ã" not in target][:20]
    for place in plain:
        pairs[place] = (pairs[place][0], pairs[place][0].upper())
    rows = [{"en": source, "de": target} for source, target in pairs]
    pq.write_table(pa.table({"translation": rows}), folder / "table.parquet")


def plant_memory(folder: Path, pairs: Pairs) -> None:
    """Units in one language alone; numbers and addresses that don't match."""
    pairs = list(pairs)
    for place in range(100, 110):
        pairs[place] = (pairs[place][0] + " 1984, 2001", pairs[place][1] + " 1789, 1848")
    for place in range(200, 210):
        pairs[place] = (f"{pairs[place][0]} http://a.org/x", f"{pairs[place][1]} http://b.org/y")
    for place in range(300, 310):
        pairs[place] = (pairs[place][0], "ha ha ha ha ha ha ha ha ha ha ha")
    units = [
        f'<tu><tuv xml:lang="en-US"><seg>{escape(source)}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{escape(target)}</seg></tuv></tu>\n'
        for source, target in pairs
    ]
    units[5:5] = ['<tu><tuv xml:lang="fr"><seg>Bonjour</seg></tuv></tu>\n'] * 7
    head = '<?xml version="1.0" encoding="utf-8"?>\n<tmx version="1.4"><header/><body>\n'
    (folder / "memory.tmx").write_text(head + "".join(units) + "</body></tmx>\n", "utf-8")


def plant_archive(folder: Path, pairs: Pairs) -> None:
    """A thousand lines that are late by one, as after a line that one side lacks."""
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    targets[1000:2000] = [targets[2999], *targets[1000:1999]]
    with zipfile.ZipFile(folder / "Captions.de-en.txt.zip", "w") as archive:
        archive.writestr("README", "captions")
        archive.writestr("Captions.de-en.en", "".join(f"{line}\n" for line in sources))
        archive.writestr("Captions.de-en.de", "".join(f"{line}\n" for line in targets))


def plant_data_set(folder: Path, pairs: Pairs) -> None:
    """Cyrillic and Chinese where German should be, rows of symbols, nulls."""
    sources, targets = [source for source, _ in pairs], list[str | None](t for _, t in pairs)
    targets[0:15] = ["Двое молодых людей смотрят на свои руки во дворе."] * 15
    targets[20:30] = ["两个年轻的白人男子在外面看着他们的手，旁边有许多灌木。"] * 10
    targets[40:45] = ["+++ 123 --- 456 === 789 ### 321 *** 654 /// 987 %%% 55"] * 5
    targets[50:52] = [None, None]
    table = pa.table({"english": sources, "german": targets})
    (folder / "folder").mkdir()
    pq.write_table(table, folder / "folder" / "train-00000.parquet")


def dropped(corpus: dict) -> dict[str, int]:
    return {name: count for name, count in corpus["dropped"].items() if count}


def test_stray_characters(report: dict) -> None:
    corpus = report["text"]
    assert corpus["read"] == 3000
    found = dropped(corpus)
    assert (found.pop("encoding"), found.pop("blank"), found.pop("length")) == (3, 2, 1)
    assert sum(found.values()) <= 2
    assert (corpus["repaired"]["separator"], corpus["repaired"]["c1_control"]) == (3, 1)
    assert corpus["longest"][0]["characters"] > 100_000
    assert len(corpus["longest"][0]["source"]) <= 300
    assert [sample["line"] for sample in corpus["samples"]["encoding"]] == [11, 12, 13]


def test_duplicates_across_corpora(report: dict) -> None:
    corpus = report["sheet"]
    assert corpus["read"] == 3250
    # One of Multi30k's own is among them, or none.
    assert 250 <= dropped(corpus)["duplicates"] <= 251


def test_test_sentences(report: dict) -> None:
    corpus = report["rows"]
    assert corpus["read"] == 3240
    assert 240 <= dropped(corpus)["overlap"] <= 242
    # The filter does its work: no warning.
    assert not any("test sets" in note for note in report[""]["notes"])


def test_misread_and_untranslated(report: dict) -> None:
    found = dropped(report["table"])
    assert (found["encoding"], found["identical"]) == (30, 20)


def test_mismatches(report: dict) -> None:
    corpus = report["memory"]
    assert (corpus["read"], corpus["skipped"]) == (3000, 7)
    found = dropped(corpus)
    assert (found["numbers"], found["urls"]) == (10, 10)
    # Some are caught by their length before.
    assert found["repetition"] + found.get("length_ratio", 0) >= 10
    assert found["repetition"] >= 5


def test_misaligned_lines(report: dict) -> None:
    corpus = report["Captions.de-en"]
    [stretch] = corpus["misaligned"]
    assert stretch["shift"] == 1
    assert abs(stretch["first"] - 1001) < 300
    assert abs(stretch["last"] - 2000) < 300
    assert any("the target is 1 line behind" in note for note in report[""]["notes"])
    # A filter that judges single pairs catches some of them.
    assert dropped(corpus)["length_ratio"] > 30


def test_other_scripts(report: dict) -> None:
    found = dropped(report["folder"])
    # Chinese is short: some of it goes by its length.
    assert 23 <= found["script"] + found.get("length_ratio", 0) <= 27
    assert found["letters"] == 5
    assert found["blank"] == 2
