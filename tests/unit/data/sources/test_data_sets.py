"""Data sets in local folders, which need no network."""

from importlib import import_module
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe.corpora import HubCorpus, HubTrainingCorpus

from ....corpus_rows import decode_block

ROWS = [{"en": "one\ntwo", "de": "eins zwei"}, {"en": "three", "de": "drei"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of Parquet, as `datasets` itself writes it."""
    datasets = import_module("datasets")
    folder = tmp_path / "set"
    folder.mkdir()
    data_set = datasets.Dataset.from_dict({"translation": ROWS, "number": [1, 2]})
    data_set.to_parquet(str(folder / "train.parquet"))
    return folder


def test_the_translation_column(folder: Path, pairs_of) -> None:
    corpus = HubCorpus(dataset=str(folder), split="train")
    # A sentence is a line, so that the break inside the first became a space.
    assert pairs_of(corpus) == [("one two", "eins zwei"), ("three", "drei")]
    assert pairs_of(corpus, "de", "en")[1] == ("drei", "three")


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_two_text_columns(tmp_path: Path, pairs_of, ending: str) -> None:
    datasets = import_module("datasets")
    data_set = datasets.Dataset.from_dict({"id": [1, 2], "src": ["a, b", None], "tgt": ["ä", "c"]})
    path = str(tmp_path / f"train.{ending}")
    match ending:
        case "parquet":
            data_set.to_parquet(path)
        case "jsonl":
            data_set.to_json(path)
        case "csv":
            data_set.to_csv(path)
    corpus = HubCorpus(
        dataset=str(tmp_path), split="train", source_column="src", target_column="tgt"
    )
    assert pairs_of(corpus) == [("a, b", "ä"), ("", "c")]


def test_columns_named_like_the_languages(tmp_path: Path, pairs_of) -> None:
    (tmp_path / "train.csv").write_text("en,de\none,eins\n")
    assert pairs_of(HubCorpus(dataset=str(tmp_path), split="train")) == [("one", "eins")]


def test_words_that_pandas_takes_for_nothing_are_sentences(tmp_path: Path, pairs_of) -> None:
    pairs = [("None", "Keine"), ("NA", "k. A."), ("null", "Null"), ("", "leer")]
    rows = "".join(f"{source},{target}\n" for source, target in pairs)
    (tmp_path / "train.csv").write_text(f"en,de\n{rows}")
    assert pairs_of(HubCorpus(dataset=str(tmp_path), split="train")) == pairs


def test_max_pairs(folder: Path, blocks_of) -> None:
    corpus = HubTrainingCorpus(dataset=str(folder), split="train", max_pairs=1)
    [block] = blocks_of(corpus)
    assert decode_block(block, drop_invalid=False) == (["one two"], ["eins zwei"], 0)


def test_a_data_set_without_the_language_or_column(folder: Path, pairs_of) -> None:
    corpus = HubCorpus(dataset=str(folder), split="train")
    with pytest.raises(MtkitError) as caught:
        pairs_of(corpus, "en", "fr")
    assert caught.value.message == (
        f"data set {folder} (default, train): expected a `translation` column with 'en' and 'fr', "
        "or columns 'en' and 'fr', found columns 'number', 'translation', `translation` with 'de', "
        "'en'"
    )
    keys = {"source_column": "number", "target_column": "translation"}
    with pytest.raises(MtkitError, match="expected text in 'number', found int64"):
        pairs_of(HubCorpus(dataset=str(folder), split="train", **keys))


@pytest.mark.parametrize(("name", "split"), [("nothing", "train"), ("set", "tarin")])
def test_a_data_set_or_split_that_is_not_there(
    tmp_path: Path, folder: Path, pairs_of, name: str, split: str
) -> None:
    with pytest.raises(MtkitError, match=rf"{name} \(default, {split}\): ") as caught:
        pairs_of(HubCorpus(dataset=str(tmp_path / name), split=split))
    assert "check its name" in caught.value.hint


def test_a_damaged_file_in_the_folder(folder: Path, pairs_of) -> None:
    (folder / "train.parquet").write_bytes(b"no such thing" * 10)
    with pytest.raises(MtkitError, match=r"set \(default, train\): "):
        pairs_of(HubCorpus(dataset=str(folder), split="train"))


@pytest.mark.filterwarnings("ignore:The Pandas builder:FutureWarning")
@pytest.mark.parametrize("reader", ["pandas", "webdataset"])
def test_readers_that_do_more_than_read_tables_are_refused(
    tmp_path: Path, pairs_of, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    # The library takes the name of a reader of its own for a data set in the current folder.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text("en,de\none,eins\n")
    with pytest.raises(MtkitError, match=f"files of type '{reader}' can't be read"):
        pairs_of(HubCorpus(dataset=reader, split="train"))
