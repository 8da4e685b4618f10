"""What `mtkit prepare` leaves of text in one language."""

import json
import re
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepare import is_prepared, prepare
from mtkit.data.prepared import PreparedData, open_prepared, read_dev_text
from mtkit.errors import MtkitError
from mtkit.pipeline.prepare import check_data_and_print
from mtkit.recipe import Recipe, load_recipe
from mtkit.text.token_ids import BOS, EOS, PAD
from mtkit.workspace import Workspace

RECIPE = """\
name = "small"
objective = "causal-lm"
[data]
language = "en"
block_tokens = 64
[[data.train]]
text = "train.txt"
[data.dev]
text = "dev.txt"
[tokenizer]
vocab_size = 300
[training]
batch_tokens = 512
validation = { metric = "loss" }
"""
SIZES = [1, 2, 40, 3, 5, 60, 9]
"""Sentences of each document, over and over."""


def sentences_of(split: str, count: int) -> list[str]:
    """Sentences, no two of which are the same."""
    found = dict.fromkeys(source for source, _ in generate_pairs(split, 2 * count))
    return list(found)[:count]


def as_documents(sentences: list[str]) -> list[list[str]]:
    documents, first = [], 0
    while first < len(sentences):
        size = SIZES[len(documents) % len(SIZES)]
        documents.append(sentences[first : first + size])
        first += size
    return documents


def write(path: Path, documents: list[list[str]]) -> None:
    text = "\n".join("".join(f"{line}\n" for line in lines) for lines in documents)
    path.write_text(text, "utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a recipe, 600 sentences of training in documents, and 40 of development."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mtkit.toml").write_text(RECIPE)
    write(folder / "train.txt", as_documents(sentences_of("train", 600)))
    write(folder / "dev.txt", as_documents(sentences_of("dev", 40)))
    return folder


def open_run(project: Path, *overrides: str) -> tuple[Recipe, Workspace]:
    return load_recipe(project / "mtkit.toml", list(overrides)), Workspace(project / "run")


def prepared(project: Path, *overrides: str) -> PreparedData:
    recipe, workspace = open_run(project, *overrides)
    prepare(recipe, workspace)
    assert is_prepared(recipe, workspace)
    return open_prepared(recipe, workspace)


def rows_by_document(data: PreparedData) -> list[list[list[int]]]:
    assert data.documents is not None
    rows = data.train.gather(np.arange(len(data.train)))["text"].to_lists()
    grouped = groupby(zip(data.documents.tolist(), rows, strict=True), key=lambda row: row[0])
    return [[row for _, row in group] for _, group in grouped]


def join(rows: list[list[int]]) -> list[int]:
    return [token for row in rows for token in row]


def split_sentences(tokens: list[int]) -> list[list[int]]:
    """Tokens of each sentence, with the `</s>` that closes it."""
    assert tokens[-1] == EOS
    ends = [index + 1 for index, token in enumerate(tokens) if token == EOS]
    return [tokens[start:end] for start, end in pairwise([0, *ends])]


def test_blocks_are_the_documents_that_were_written(project: Path) -> None:
    data = prepared(project)
    assert data.train.columns == data.dev.columns == ("text",)
    expected = as_documents(sentences_of("train", 600))
    found = rows_by_document(data)
    assert len(found) == len(expected)
    for rows, document in zip(found, expected, strict=True):
        assert all(len(row) == 64 for row in rows[:-1])
        assert 1 <= len(rows[-1]) <= 64
        sentences = split_sentences(join(rows))
        assert [data.tokenizer.decode_target(tokens) for tokens in sentences] == document
    assert data.dev_documents is not None
    assert data.dev_documents.tolist()[0] == 0
    assert len(set(data.dev_documents.tolist())) == len(as_documents(sentences_of("dev", 40)))
    assert data.dev_text == (sentences_of("dev", 40), sentences_of("dev", 40))
    assert len(data.train_order) == len(data.train)
    assert data.train_short is None
    assert data.tokenizer.is_joint
    assert data.tokenizer.source_vocab_size == 300


def test_a_masked_models_rows_are_whole_sentences_with_room_for_two_tokens(project: Path) -> None:
    data = prepared(project, "objective=masked-lm", "training.masking.short_tokens=24")
    whole = list(map(len, as_documents(sentences_of("train", 600))))
    assert data.train_short is not None
    stores = {
        62: (data.train, data.documents),
        22: (data.train_short.store, data.train_short.numbers),
    }
    for longest, (store, documents) in stores.items():
        assert documents is not None
        rows = store.gather(np.arange(len(store)))["text"].to_lists()
        assert max(map(len, rows)) <= longest
        cut = [row for row in rows if row[-1] != EOS]
        # Only a sentence longer than a row is cut.
        assert all(len(row) == longest for row in cut)
        assert not any(token in (PAD, BOS) for row in rows for token in row)
        ends = np.bincount(documents, [row.count(EOS) for row in rows])
        assert ends.astype(int).tolist() == whole
    mask = data.tokenizer.mask_token
    assert data.tokenizer.source_vocabulary.pieces[mask] == "<mask>"
    assert data.tokenizer.encode_source(["a <mask> b"])[0].count(mask) == 1
    # Nothing of the text is masked yet.
    assert mask not in data.train.gather(np.arange(len(data.train)))["text"].tokens


def test_a_causal_models_vocabulary_has_no_mask(project: Path) -> None:
    with pytest.raises(MtkitError, match="no piece <mask>"):
        _ = prepared(project).tokenizer.mask_token


def test_a_pretrained_tokenizer_gets_a_mask(project: Path) -> None:
    model = prepared(project).tokenizer.models[0]
    (project / "own.model").write_bytes(model)
    own = "tokenizer.pretrained.source=own.model"
    assert prepared(project, own).tokenizer.source_vocab_size == 300
    tokenizer = prepared(project, own, "objective=masked-lm").tokenizer
    assert (tokenizer.source_vocab_size, tokenizer.mask_token) == (301, 300)


def test_documents_never_run_on_from_one_corpus_into_the_next(project: Path) -> None:
    write(project / "one.txt", [sentences_of("train", 600)[:300]])
    write(project / "two.txt", [sentences_of("train", 600)[300:]])
    corpora = "data.train=[{text='one.txt'}, {text='two.txt', documents='file'}]"
    data = prepared(project, corpora)
    assert [len(split_sentences(join(rows))) for rows in rows_by_document(data)] == [300, 300]
    assert data.train.corpus_sizes == [len(rows) for rows in rows_by_document(data)]


def test_what_cleaning_drops_and_what_it_keeps(project: Path) -> None:
    held_out = next(line for line in sentences_of("dev", 40) if len(line) > 30)
    good = sentences_of("train", 600)
    documents = [
        ["The first document begins.", *good[:200], "\x07 A bell rings.", "1 2 3 4 5 6 7 8 9"],
        # Short lines that stand in the development set too are no copies of it.
        [held_out.upper(), *good[200:], good[0], "no no no no no no no", "Это другой язык."],
        ["Tab\there, and a soft\u00adhyphen."],
    ]
    write(project / "train.txt", documents)
    data = prepared(project)
    found = [split_sentences(join(rows)) for rows in rows_by_document(data)]
    texts = [[data.tokenizer.decode_target(line) for line in lines] for lines in found]
    assert texts == [documents[0][:201], good[200:], ["Tab here, and a softhyphen."]]
    report = json.loads((project / "run" / "data" / "report.json").read_text())
    [corpus] = report["corpora"]
    dropped = {name: count for name, count in corpus["dropped"].items() if count}
    assert dropped == {
        "encoding": 1, "letters": 1, "overlap": 1, "repetition": 1, "script": 1, "duplicates": 1
    }  # fmt: skip
    assert corpus["read"] == corpus["kept"] + 6
    # Line numbers are the file's, its blank lines counted.
    lines = (project / "train.txt").read_text().split("\n")
    for name in ("encoding", "letters", "overlap", "repetition", "script", "duplicates"):
        [sample] = corpus["samples"][name]
        assert lines[sample["line"] - 1].strip() == sample["text"].strip()
    # The second of the two.
    assert corpus["samples"]["duplicates"][0]["line"] > lines.index(good[0]) + 1
    assert not {"length_ratio", "identical", "numbers", "urls"} & corpus["dropped"].keys()


def test_a_filter_of_one_side_can_be_turned_off(project: Path) -> None:
    lines = sentences_of("train", 100)
    write(project / "train.txt", [lines, lines])
    off = "data.cleaning.duplicates.enabled=false"
    assert len(rows_by_document(prepared(project))) == 1
    twice = rows_by_document(prepared(project, off, "data.cleaning.script.source=['Latn']"))
    assert len(twice) == 2
    assert twice[0] == twice[1]


def test_the_report_speaks_of_lines(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = prepared(project)
    assert data.documents is not None
    said = capsys.readouterr().err
    folder = project / "run" / "data"
    page, report = (
        (folder / "report.html").read_text(),
        json.loads((folder / "report.json").read_text()),
    )
    for text in (said, re.sub("<svg.*</svg>", "", page, flags=re.DOTALL), json.dumps(report)):
        assert not re.search(r"\b(pairs?|source|targets?)\b", text), text
    assert "lines read" in page
    assert report["languages"] == ["en"]
    [corpus] = report["corpora"]
    assert corpus["documents"] == len(set(data.documents.tolist()))
    assert corpus["blocks"] == len(data.train)
    tokens = data.train.num_tokens["text"]
    assert report["epoch"]["blocks"] == len(data.train)
    assert report["epoch"]["tokens"] == report["tokens"]["text"]["tokens"] == tokens
    assert sum(report["tokens"]["text"]["lengths"]) == len(data.train)
    assert f"{len(data.train):,} blocks, {tokens:,} tokens" in said
    manifest = Workspace(project / "run").read_manifest()["prepare"]
    assert manifest["train"]["text_tokens"] == tokens


def test_check_finds_about_the_same_and_writes_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, workspace = open_run(project)
    assert check_data_and_print(recipe, workspace)
    said = capsys.readouterr().err
    assert not workspace.root.exists()
    found = re.search(r"([\d,]+) blocks, ([\d,]+) tokens", said)
    assert found is not None
    data = prepared(project)
    for told, true in zip(
        found.groups(), (len(data.train), data.train.num_tokens["text"]), strict=True
    ):
        assert int(told.replace(",", "")) == pytest.approx(true, rel=0.25)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n \n\t\n", "data.train: no text in it, only blank or skipped lines"),
        (b"12345\n67890\n", "data.train: no lines left of 2; dropped: 2 by letters"),
        (b"good\ncaf\xe9\n", r"train\.txt:2: byte 4 of the line is invalid UTF-8"),
    ],
)
def test_text_that_is_none_is_told(project: Path, content: bytes, message: str) -> None:
    (project / "train.txt").write_bytes(content)
    recipe, workspace = open_run(project)
    with pytest.raises(MtkitError, match=message):
        prepare(recipe, workspace)
    assert not workspace.data.exists()
    assert not check_data_and_print(recipe, workspace)


def test_a_blank_development_set_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "dev.txt").write_text("\n\n")
    recipe, workspace = open_run(project)
    with pytest.raises(MtkitError, match=r"data\.dev: no text in it"):
        prepare(recipe, workspace)
    assert not check_data_and_print(recipe, workspace)
    assert "data.dev: no text in it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.cleaning.numbers.enabled=false", "cleaning.numbers compares source and target"),
        ("data.cleaning.length_ratio.max_ratio=3.0", "cleaning.length_ratio compares"),
        ("data.cleaning.duplicates.by=source", "cleaning.duplicates.by is for pairs"),
        ("data.cleaning.script.target=['Latn']", "cleaning.script.target is for pairs"),
        ("data.cleaning.max_tokens=100", "cleaning.max_tokens is for pairs"),
        ("tokenizer.joint=false", "tokenizer.joint = false"),
        ("tokenizer.sampling={}", "tokenizer.sampling"),
        ("training.masking.short_tokens=128", "training.masking is for"),
    ],
)
def test_keys_that_text_in_one_language_has_no_use_for(
    project: Path, override: str, message: str
) -> None:
    with pytest.raises(MtkitError, match=re.escape(message)):
        open_run(project, override)


def test_short_blocks_are_shorter(project: Path) -> None:
    for value in (64, 300, 5):
        with pytest.raises(MtkitError, match="short_tokens"):
            open_run(project, "objective=masked-lm", f"training.masking.short_tokens={value}")


def test_another_length_of_short_blocks_is_other_data(project: Path) -> None:
    masked = ("objective=masked-lm", "training.masking.short_tokens=24")
    digest = prepared(project, *masked).digest
    other = open_run(project, masked[0], "training.masking.short_tokens=32")
    assert not is_prepared(*other)
    with pytest.raises(MtkitError, match="prepared from another recipe"):
        open_prepared(*other)
    assert prepared(project, masked[0], "training.masking.short_tokens=32").digest != digest
    # What is masked is drawn while training.
    recipe, workspace = open_run(
        project, masked[0], "training.masking={short_tokens=32, share=0.2}"
    )
    assert is_prepared(recipe, workspace)


@pytest.mark.parametrize("name", ["documents.npy", "short/tokens.arrow", "short/documents.npy"])
def test_damaged_blocks_are_made_again(project: Path, name: str) -> None:
    masked = ("objective=masked-lm", "training.masking.short_tokens=24")
    prepared(project, *masked)
    recipe, workspace = open_run(project, *masked)
    path = workspace.data / "train" / name
    content = path.read_bytes()
    path.write_bytes(content[:-8])
    assert not is_prepared(recipe, workspace)
    with pytest.raises(MtkitError, match=r"damaged|incomplete"):
        open_prepared(recipe, workspace)
    prepare(recipe, workspace)
    assert path.read_bytes() == content


def test_the_development_text_is_its_lines_twice(project: Path) -> None:
    prepared(project)
    lines = sentences_of("dev", 40)
    assert read_dev_text(Workspace(project / "run")) == (lines, lines)


@pytest.fixture
def real_documents() -> list[list[str]]:
    """The Python documentation's pages, where Debian's package of it is installed."""
    paths = sorted(Path("/usr/share/doc").glob("python3*/html/_sources/library/*.rst.txt"))[:60]
    if not paths:
        pytest.skip("python3-doc is not installed: no real documents")
    return [path.read_text("utf-8").split("\n") for path in paths]


@pytest.mark.parametrize("objective", ["causal-lm", "masked-lm"])
def test_real_documents(project: Path, real_documents: list[list[str]], objective: str) -> None:
    """Every page is a document, all of whose tokens are in its own blocks and nowhere else."""
    pages = enumerate(real_documents)
    rows = [{"page": number, "text": "\n".join(lines)} for number, lines in pages]
    path = project / "pages.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    corpora = f"data.train=[{{path='{path}', text_column='text', document_column='page'}}]"
    filters = (
        "encoding", "length", "letters", "script", "repetition", "overlap", "duplicates"
    )  # fmt: skip
    off = [f"data.cleaning.{name}.enabled=false" for name in filters]
    data = prepared(project, corpora, *off, f"objective={objective}", "tokenizer.vocab_size=4000")
    encode = data.tokenizer.encode_source
    expected = [
        join(encode([line.strip() for line in lines if line.strip()])) for lines in real_documents
    ]
    assert [join(rows) for rows in rows_by_document(data)] == expected
