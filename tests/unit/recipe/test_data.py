"""Kinds of corpora, as a recipe names them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, dump_recipe, load_recipe
from mtkit.recipe.corpora import (
    FileCorpus,
    FileTrainingCorpus,
    HubTrainingCorpus,
    PairedFileCorpus,
    PairedFileTrainingCorpus,
    PhrasebookTrainingCorpus,
    corpus_names,
    name_file,
)
from mtkit.recipe.test_sets import PairedFileTestSet

RECIPE = """\
name = "small"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
path = "a.tsv"
[data.dev]
builtin = "phrasebook"
"""


@pytest.fixture(autouse=True)
def recipe_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    return tmp_path / "mtkit.toml"


def load(*overrides: str) -> Recipe:
    return load_recipe("mtkit.toml", overrides)


def fault_of(override: str) -> str:
    with pytest.raises(MtkitError) as caught:
        load(override)
    return caught.value.message.removeprefix(f"--set {override}: ")


def test_one_file_for_training_for_development_and_for_tests(tmp_path: Path) -> None:
    recipe = load(
        "data.data_root=text",
        'data.train.0={path="a.tsv.gz", source_column="en", target_column=3, tag="<BT>", '
        'name="back", weight=0.5, max_pairs=10}',
        'data.dev={path="dev.tmx", tag="<de>"}',
        'evaluation.test_sets=[{name="test", path="test.zip"}]',
    )
    assert recipe.data.train == (
        PairedFileTrainingCorpus(
            path=tmp_path / "text/a.tsv.gz",
            source_column="en",
            target_column=3,
            tag="<BT>",
            name="back",
            weight=0.5,
            max_pairs=10,
        ),
    )
    assert recipe.data.dev == PairedFileCorpus(path=tmp_path / "text/dev.tmx", tag="<de>")
    assert recipe.evaluation.test_sets == (
        PairedFileTestSet(name="test", path=tmp_path / "text/test.zip"),
    )
    Path("written.toml").write_text(dump_recipe(recipe))
    assert load_recipe("written.toml") == recipe


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.tsv", "tsv"),
        ("a.TXT", "tsv"),
        ("a.tab.xz", "tsv"),
        ("a.json", "json-lines"),
        ("a.ndjson.ZST", "json-lines"),
        ("a.jsonl.bz2", "json-lines"),
        ("a.parquet", "parquet"),
        ("a.tmx.gz", "tmx"),
        ("de-en.txt.zip", "zip"),
    ],
)
def test_the_ending_tells_the_format(name: str, kind: str) -> None:
    assert PairedFileCorpus(path=Path(name)).format == kind


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ('{path="a.xls"}',
         "data.train.0.path: expected a file name ending in .tsv, .tab, .csv, .txt, .jsonl, "
         ".ndjson, .json, .parquet, .tmx, .zip, .po, .mo, .xlf, .xliff, found a.xls; for two "
         "text files use `source` and `target`"),
        ('{path="a.gz"}', "data.train.0.path: expected a file name ending in .tsv, "),
        ('{path="a.parquet.gz"}', "data.train.0.path: a.parquet.gz is compressed twice: "),
        ('{path="ftp://opus.nlpl.eu/a.zip"}',
         "data.train.0.path: ftp://opus.nlpl.eu/a.zip is a URL, but files are read from disk, "
         "https://, http:// and s3://, az://, abfs://, gs://, hf://: download it first"),
        ('{source="s3://user:secret@x/a.en", target="a.de"}',
         "data.train.0.source: s3://...@x/a.en: expected STORE://BUCKET/PATH, without a password"),
        ('{path="a.tmx", source_column="en"}',
         "data.train.0.path: a.tmx has no columns: remove source_column and target_column"),
        ('{path="a.zip", target_column=1}', "data.train.0.path: a.zip has no columns"),
        ('{path="a.jsonl", source_column=1, target_column=2}',
         "data.train.0.path: columns of a.jsonl are given by name, not by number"),
        ('{path="a.parquet", source_column="en"}',
         "data.train.0.path: give both source_column and target_column, or neither"),
        ('{dataset="x", split="y", target_column="en"}',
         "data.train.0.dataset: give both source_column and target_column, or neither"),
        ('{dataset="x", split="y", target_column="en", source_column="en"}',
         "data.train.0.dataset: source_column and target_column are the same"),
        ('{path="a.tsv", source_column=2}',
         "data.train.0.path: source_column and target_column are the same"),
        ('{path="a.tsv", source_column=0}',
         "data.train.0.source_column: expected a name in quotes or a number, 1 or more, found 0"),
        ('{path="a.tsv", source_column=true}',
         "data.train.0.source_column: expected a name in quotes or a number, 1 or more, found "
         "true"),
        ('{path="a.tsv", source="a.en"}',
         "data.train.0.source: 'source' can't be combined with the keys next to it, which are of "
         "another kind"),
        ('{path="a.tsv", source_colum=1}',
         "data.train.0.source_colum: unknown key 'source_colum' (did you mean 'source_column'?)"),
        ('{path="a.tsv", wieght=1}',
         "data.train.0.wieght: unknown key 'wieght' (did you mean 'weight'?)"),
        ('{path="a.tsv", weight=0}', "data.train.0.weight: expected a value greater than or equal"),
        ('{path="a.tsv", weight=1001}', "data.train.0.weight: expected a value less than or equal"),
        ('{path="a.tsv", max_pairs=0}',
         "data.train.0.max_pairs: expected a value greater than 0, found 0"),
        ('{path="a.tsv", tag="BT"}',
         "data.train.0.tag: expected a tag in angle brackets without spaces, such as \"<BT>\", "
         'found "BT"'),
        ('{path="a.tsv", tag="<B T>"}', "data.train.0.tag: expected a tag"),
        ('{path="a.tsv", tag="<a><b>"}', "data.train.0.tag: expected a tag"),
        ('{path="a.tsv", name="a b"}', "data.train.0.name: expected letters, digits"),
    ],
)  # fmt: skip
def test_faults_of_a_corpus_are_told_by_key(corpus: str, message: str) -> None:
    fault = fault_of(f"data.train.0={corpus}")
    assert fault.startswith(message)
    assert "\n" not in fault


def test_an_unknown_kind_is_told_the_kinds_there_are() -> None:
    lines = fault_of('data.train.0={pth="a.tsv"}').splitlines()
    assert "`path` (one file with both sides" in lines[0]
    assert lines[1].endswith("data.train.0.pth: unknown key 'pth' (did you mean 'path'?)")


@pytest.mark.parametrize("key", ["weight", "max_pairs", "name"])
def test_a_held_out_corpus_has_no_keys_of_training(key: str) -> None:
    value = '"x"' if key == "name" else 1
    message = fault_of(f'data.dev={{path="a.tsv", {key}={value}}}')
    assert message.startswith(f"data.dev.{key}: unknown key '{key}'")


def test_names_of_corpora() -> None:
    files = [
        FileTrainingCorpus(source=Path(source), target=Path("x"))
        for source in ("text/train.en.gz", "europarl-v7.de-en.en", "corpus")
    ]
    paired = [
        PairedFileTrainingCorpus(path=Path(path))
        for path in ("x/tatoeba.tsv", "memory.tmx.xz", "de-en.txt.zip", "a.b.jsonl")
    ]
    others = [
        HubTrainingCorpus(dataset="wmt/wmt14", split="train"),
        HubTrainingCorpus(dataset="/text/my set", split="train"),
        PhrasebookTrainingCorpus(builtin="phrasebook"),
    ]
    assert corpus_names([*files, *paired, *others]) == [
        "train", "europarl-v7.de-en", "corpus",
        "tatoeba", "memory", "de-en", "a.b",
        "wmt14", "my set", "phrasebook",
    ]  # fmt: skip


def test_a_corpus_behind_an_address_is_named_by_its_file() -> None:
    corpus = PairedFileTrainingCorpus(path="https://example.org/a/news.tsv.gz?v=2")
    assert (corpus_names([corpus]), name_file(corpus).name) == (["news"], "news.tsv.gz")


def test_no_two_corpora_have_one_name() -> None:
    def corpus(folder: str, name: str = "") -> FileTrainingCorpus:
        return FileTrainingCorpus(
            source=Path(f"{folder}/train.en"), target=Path(f"{folder}/train.de"), name=name
        )

    assert corpus_names([corpus("a"), corpus("b"), corpus("c")]) == ["train", "train-2", "train-3"]
    # A name that was given stays.
    assert corpus_names([corpus("a"), corpus("b", "train"), corpus("c", "train-2")]) == [
        "train-3", "train", "train-2",
    ]  # fmt: skip
    assert corpus_names([corpus("a", "x"), corpus("b", "x")]) == ["x", "x-2"]


@pytest.mark.parametrize("tag", ["</s>", "<s>", "<pad>", "<unk>"])
def test_a_special_piece_is_no_tag(tag: str) -> None:
    with pytest.raises(ValidationError, match="special piece of every vocabulary"):
        FileCorpus(source=Path("a"), target=Path("b"), tag=tag)
