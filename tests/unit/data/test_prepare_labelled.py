"""Labelled texts through the stages of preparation."""

from pathlib import Path

import pytest

from mtkit.data.check import check_recipe_data
from mtkit.data.prepare import is_prepared, prepare
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe
from mtkit.text.token_ids import EOS
from mtkit.workspace import Workspace

RECIPE = """
name = "labels"
objective = "classification"
[data]
language = "en"
block_tokens = 12
[[data.train]]
path = "train.tsv"
text_column = 1
{second}label_column = {label}
[data.dev]
path = "dev.tsv"
text_column = 1
{second}label_column = {label}
[tokenizer]
vocab_size = 40
[training]
batch_tokens = 400
validation = {{ metric = "macro_f1" }}
"""
TRAIN = ["a cat is here", "a dog is there", "the cat sat down", "no dog sat down", "dogs and cats"]
KINDS = ["cat", "dog", "cat", "dog", "both"]


def write(folder: Path, train: list[str], dev: list[str], *, has_pairs: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in (("train", train), ("dev", dev)):
        (folder / f"{name}.tsv").write_text("".join(f"{row}\n" for row in rows), "utf-8")
    second, label = ("second_column = 2\n", 3) if has_pairs else ("", 2)
    path = folder / "labels.toml"
    path.write_text(RECIPE.format(second=second, label=label), "utf-8")
    return path


def rows_of(texts: list[str], labels: list[str]) -> list[str]:
    return [f"{text}\t{label}" for text, label in zip(texts, labels, strict=True)]


def prepare_folder(path: Path, *overrides: str):
    recipe, workspace = load_recipe(str(path), overrides), Workspace(path.parent / "run")
    prepare(recipe, workspace)
    assert is_prepared(recipe, workspace)
    return open_prepared(recipe, workspace)


def test_labels_are_sorted_and_stay_with_their_texts(tmp_path: Path) -> None:
    path = write(tmp_path, rows_of(TRAIN, KINDS), ["a bird\tdog", "two cats\tboth"])
    data = prepare_folder(path)
    assert data.labels == ("both", "cat", "dog")
    assert data.train_labels.tolist() == [1, 2, 1, 2, 0]
    assert data.dev_labels.tolist() == [2, 0]
    rows = data.train.gather(data.train_order.rows[:5] * 0 + [0, 1, 2, 3, 4])["text"].to_lists()
    assert [data.tokenizer.decode_target(row) for row in rows] == TRAIN
    assert all(row[-1] == EOS and row.count(EOS) == 1 for row in rows)
    assert data.dev_text[0] == ["a bird", "two cats"]


def test_pairs_are_joined_and_cut(tmp_path: Path) -> None:
    train = [f"{text}\t{text}\t{kind}" for text, kind in zip(TRAIN, KINDS, strict=True)]
    data = prepare_folder(write(tmp_path, train, ["a\tb\tcat"], has_pairs=True))
    rows = data.train.gather(data.train_order.rows[:5] * 0 + [0, 1, 2, 3, 4])["text"].to_lists()
    for row, text in zip(rows, TRAIN, strict=True):
        assert len(row) <= 11
        assert row.count(EOS) == 2
        first = row[: row.index(EOS)]
        assert text.startswith(data.tokenizer.decode_target(first))
    assert data.dev_text[0] == ["a\tb"]


def test_both_texts_of_pairs_give_the_vocabulary_and_neither_may_be_blank(tmp_path: Path) -> None:
    seconds = ["ein Käse", "die Straße", "ein Käse", "die Straße", ""]
    train = ["\t".join(row) for row in zip(TRAIN, seconds, KINDS, strict=True)]
    path = write(tmp_path, [*train, "\tein Fuß\tcat"], ["a\tb\tcat"], has_pairs=True)
    data = prepare_folder(path)
    assert len(data.train) == 4
    pieces = "".join(data.tokenizer.source_vocabulary.pieces)
    assert "ä" in pieces
    assert "ß" in pieces


def test_a_label_is_shown_without_control_characters(tmp_path: Path) -> None:
    train = rows_of(TRAIN, ["\x1b[31m" + "x" * 10_000] * 5)
    with pytest.raises(MtkitError) as caught:
        prepare_folder(write(tmp_path, train, ["a bird\tx"]))
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 200


def test_rows_of_the_development_set_and_repeated_ones_are_left_out(tmp_path: Path) -> None:
    train = [*rows_of(TRAIN, KINDS), "a cat is here\tcat", "a bird\tcat", "a cat is here\tdog"]
    path = write(tmp_path, train, ["a bird\tdog"])
    assert prepare_folder(path).train_labels.tolist() == [1, 2, 1, 2, 0, 2]
    keep = ("data.cleaning.overlap.enabled=false", "data.cleaning.duplicates.enabled=false")
    assert len(prepare_folder(path, *keep).train) == 8


def test_a_label_that_training_lacks_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, rows_of(TRAIN, KINDS), ["a bird\tdog", "a bird\tdogs"])
    with pytest.raises(MtkitError, match=r"dev\.tsv:2: label 'dogs' isn't among.*did you mean"):
        prepare_folder(path)


def test_one_label_alone_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, rows_of(TRAIN, ["x"] * 5), ["a bird\tx"])
    with pytest.raises(MtkitError, match="every text has the label 'x'"):
        prepare_folder(path)


def test_a_changed_label_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, rows_of(TRAIN, KINDS), ["a bird\tdog"])
    before = prepare_folder(path).digest
    (tmp_path / "train.tsv").write_text(
        "".join(f"{row}\n" for row in rows_of(TRAIN, ["dog", *KINDS[1:]])), "utf-8"
    )
    assert prepare_folder(path).digest != before


def test_symbols_of_a_causal_classifier_are_in_the_vocabulary(tmp_path: Path) -> None:
    path = write(tmp_path, rows_of(TRAIN, KINDS), ["a bird\tdog"])
    pieces = prepare_folder(path).tokenizer.source_vocabulary.ids
    assert "<extract>" not in pieces
    data = prepare_folder(path, "training.classification.kind=causal-lm")
    assert {"<delimiter>", "<extract>"} <= data.tokenizer.source_vocabulary.ids.keys()


def test_a_check_knows_labels_that_its_sample_lacks(tmp_path: Path) -> None:
    # 200 blocks of a check, of which every fourth is chosen; the rare label is in another.
    train = [f"text {number} here\t{KINDS[number % 4]}" for number in range(200_000)]
    train[1_500] = "a rare one\trare"
    path = write(tmp_path, train, ["a bird\trare"])
    found = check_recipe_data(load_recipe(str(path), []))
    assert not found.faults
    assert found.report is not None
    assert found.report.corpora[0]["read"] == 50_000
