"""What normalisation does to targets, and the warning about it."""

import gzip
import io
import os
from pathlib import Path

import pytest
import sentencepiece

from mtkit.data.check import check_recipe_data
from mtkit.data.note_normalization import choose_normalization, note_changed_targets
from mtkit.data.prepare import prepare
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.recipe import Recipe, load_recipe
from mtkit.text.normalization import RULES
from mtkit.workspace import Workspace

RECIPE = """\
name = "small"
[data]
source_language = "en"
target_language = "zh"
[[data.train]]
source = "train.en"
target = "train.zh"
[data.dev]
source = "dev.en"
target = "dev.zh"
[tokenizer]
vocab_size = 120
"""
WORDS = ["他", "今天", "看", "一本", "书", "，", "明天", "去", "公园", "。"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    for split, count in (("train", 200), ("dev", 50)):
        targets = [
            f"{WORDS[n % 10]}{WORDS[n // 10 % 10]}看书，去公园{WORDS[n % 7]}{n}"
            for n in range(count)
        ]
        sources = [f"he reads a book {n} today, goes to the park" for n in range(count)]
        for language, lines in (("en", sources), ("zh", targets)):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    return tmp_path


def open_recipe(folder: Path, *overrides: str) -> Recipe:
    return load_recipe(folder / "mtkit.toml", overrides)


def test_prepare_says_what_no_translation_can_have(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = open_recipe(project)
    prepare(recipe, Workspace(project / "run"))
    said = " ".join(capsys.readouterr().err.split())
    assert "changes 50 of 50 development targets (， to ,)" in said
    assert 'set tokenizer.normalization = "identity"' in said
    assert said.count("development targets (") == 1
    notes = check_recipe_data(recipe).report.notes
    assert sum("changes 50 of 50" in note for note in notes) == 1


def test_with_the_value_that_it_names_nothing_is_said(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = open_recipe(project, "tokenizer.normalization=identity")
    prepare(recipe, Workspace(project / "run"))
    assert "development targets" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rule", "targets", "expected"),
    [
        ("nmt_nfkc", ["Der Mann\u00a0schläft  hier."] * 50, ""),
        ("nmt_nfkc", ["Der Mann schläft."] * 49 + ["Er geht…"], ""),
        ("nmt_nfkc", ["Der Mann schläft."] * 48 + ["Er geht…"] * 2, '"identity"'),
        ("nfkc", ["１２"] * 9, '"identity"'),
        ("nmt_nfkc_cf", ["Der Mann schläft."] * 9, '"nmt_nfkc"'),
        ("nfkc_cf", ["Der Mann schläft."] * 9, '"nfkc"'),
        ("nfkc_cf", ["他，" + "A"] * 9, '"identity"'),
        ("nfkc", ["a\u0308"] * 9, "by joining characters"),
        ("identity", ["１２，Ａ　ａ\u0308"] * 9, ""),
        ("nmt_nfkc", [], ""),
    ],
)
def test_where_it_is_said(project: Path, rule: str, targets: list[str], expected: str) -> None:
    notes = note_changed_targets(
        TokenizerChoice.of(open_recipe(project, f"tokenizer.normalization={rule}")), targets
    )
    assert bool(notes) == bool(expected)
    assert all(expected in note for note in notes)


@pytest.mark.parametrize("rule", RULES)
def test_a_pretrained_model_s_rule_counts(project: Path, rule: str) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["他看书，去公园", "a b c"]),
        model_writer=model,
        vocab_size=30,
        hard_vocab_limit=False,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    (project / "own.model").write_bytes(model.getvalue())
    recipe = open_recipe(
        project, "tokenizer.pretrained.source=own.model", "tokenizer.normalization=identity"
    )
    choice = TokenizerChoice.of(recipe)
    assert choose_normalization(choice) == (rule, rule)
    notes = note_changed_targets(choice, ["他看书，去公园"] * 9)
    assert bool(notes) == (rule != "identity")
    assert all("--normalization_rule_name=identity" in note for note in notes)


def test_a_tokenizer_that_is_missing_is_one_fault(project: Path) -> None:
    recipe = open_recipe(project, "tokenizer.pretrained.source=none.model")
    faults = check_recipe_data(recipe).faults
    assert len([fault for fault in faults if "none.model" in str(fault)]) == 1


@pytest.mark.parametrize(
    ("name", "language", "is_said"),
    [
        ("python_docs_en_zh/test", "zh", True),
        ("flores200/devtest", "zh", True),
        ("flores200/devtest", "ja", True),
        ("flores200/devtest", "fr", False),
        ("flores200/devtest", "de", False),
        ("newstest_en_fr/newstest2014", "fr", False),
        ("mixed_en_de/dev", "de", False),
        ("multi30k/val", "de", False),
    ],
)
def test_real_targets(project: Path, name: str, language: str, *, is_said: bool) -> None:
    folder = os.environ.get("MTKIT_TEST_DATA")
    if folder is None:
        pytest.skip("MTKIT_TEST_DATA is not set: no folder of real parallel text")
    text = gzip.decompress(Path(folder, f"{name}.{language}.gz").read_bytes()).decode()
    choice = TokenizerChoice.of(open_recipe(project))
    assert bool(note_changed_targets(choice, text.split("\n")[:-1])) == is_said
