"""What `mtkit prepare` leaves, and how it notices that its work is out of date."""

import json
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from mtkit.data import phrasebook
from mtkit.data.prepare import is_prepared, open_prepared, prepare, read_digest
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe
from mtkit.workspace import Workspace

RECIPE = """\
name = "small"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[data.cleaning]
max_tokens = 80
[tokenizer]
vocab_size = 300
"""


def generate_pairs(split: str, count: int) -> list[tuple[str, str]]:
    return list(phrasebook.generate_pairs(split, count))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a recipe, 300 training pairs and 10 of development."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mtkit.toml").write_text(RECIPE)
    for split, count in (("train", 300), ("dev", 10)):
        write(folder, split, generate_pairs(split, count))
    return folder


def write(folder: Path, split: str, pairs, end: str = "\n") -> None:
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        text = "".join(line + end for line in lines)
        (folder / f"{split}.{language}").write_bytes(text.encode())


def open_run(folder: Path, *overrides: str) -> tuple[Recipe, Workspace]:
    return load_recipe(folder / "mtkit.toml", overrides), Workspace(folder / "run")


def test_tokens_are_those_of_the_text(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    pairs = generate_pairs("train", 300)
    assert len(data.train) == 300
    for index in (0, 17, 299):
        assert data.tokenizer.decode_target(data.train.target(index).tolist()) == pairs[index][1]
        [tokens] = data.tokenizer.encode_source([pairs[index][0]])
        assert data.train.source(index).tolist() == tokens
    assert data.dev_text == tuple(map(list, zip(*generate_pairs("dev", 10), strict=True)))
    assert len(data.dev) == 10


def test_blank_and_long_pairs_are_left_out_and_counted(project: Path) -> None:
    pairs = generate_pairs("train", 300)
    pairs[3:3] = [("", "leer"), ("blank", " "), ("the man " * 60, "der Mann")]
    write(project, "train", pairs)
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    train = workspace.read_manifest()["prepare"]["train"]
    assert (train["read"], train["kept"]) == (303, 300)
    assert train["dropped"] == {"blank": 2, "too_long": 1}
    data = open_prepared(recipe, workspace)
    assert (train["source_tokens"], train["target_tokens"]) == (
        data.train.source_lengths.sum(),
        data.train.target_lengths.sum(),
    )


def test_a_development_set_keeps_every_line(project: Path) -> None:
    pairs = [*generate_pairs("dev", 4), ("", ""), ("a\u0085b", "c\rd")]
    write(project, "dev", pairs)
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    assert open_prepared(recipe, workspace).dev_text == tuple(map(list, zip(*pairs, strict=True)))


def test_crlf_makes_the_same_data(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    digest = open_prepared(recipe, workspace).digest
    write(project, "train", generate_pairs("train", 300), end="\r\n")
    prepare(recipe, workspace)
    assert open_prepared(recipe, workspace).digest == digest


def test_what_is_up_to_date(project: Path) -> None:
    recipe, workspace = open_run(project)
    assert not is_prepared(recipe, workspace)
    prepare(recipe, workspace)
    assert is_prepared(recipe, workspace)
    assert is_prepared(open_run(project, "training.max_steps=7")[0], workspace)
    assert not is_prepared(open_run(project, "tokenizer.vocab_size=299")[0], workspace)
    assert not is_prepared(open_run(project, "seed=2")[0], workspace)
    with (project / "train.en").open("a") as stream:
        stream.write("one more\n")
    assert not is_prepared(recipe, workspace)


def test_another_recipes_data_are_refused(project: Path) -> None:
    recipe, workspace = open_run(project)
    with pytest.raises(MtkitError, match="no prepared data"):
        open_prepared(recipe, workspace)
    prepare(recipe, workspace)
    other, _ = open_run(project, "tokenizer.vocab_size=299")
    with pytest.raises(MtkitError, match="prepared from another recipe"):
        open_prepared(other, workspace)


def test_a_project_that_moved_is_still_prepared(project: Path, tmp_path: Path) -> None:
    prepare(*open_run(project))
    digest = open_prepared(*open_run(project)).digest
    moved = tmp_path / "elsewhere"
    shutil.move(project, moved)
    assert open_prepared(*open_run(moved)).digest == digest


def test_a_failed_prepare_leaves_the_earlier_data_alone(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    before = sorted(path.name for path in workspace.data.rglob("*"))
    (project / "dev.de").write_bytes(b"\xff\n" * 10)
    with pytest.raises(MtkitError, match=r"dev\.de:1: byte 1"):
        prepare(recipe, workspace)
    assert sorted(path.name for path in workspace.data.rglob("*")) == before
    assert open_prepared(recipe, workspace).dev_text[1] == [t for _, t in generate_pairs("dev", 10)]


def test_nothing_left_after_cleaning(project: Path) -> None:
    recipe, workspace = open_run(project, "data.cleaning.max_tokens=1")
    with pytest.raises(MtkitError, match="no pair left: 0 with a blank side, 300 longer"):
        prepare(recipe, workspace)
    assert not workspace.data.exists()


def test_the_sample_is_bounded_and_seeded(project: Path) -> None:
    digests = []
    for seed in (1, 1, 2):
        limit = "tokenizer.max_training_sentences=150"
        recipe, workspace = open_run(project, limit, f"seed={seed}", "tokenizer.vocab_size=200")
        prepare(recipe, workspace)
        digests.append((workspace.tokenizer / "joint.spm").read_bytes())
    assert digests[0] == digests[1] != digests[2]


def test_the_manifest_says_what_was_read(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    manifest = json.loads(workspace.manifest_file.read_text())["prepare"]
    assert manifest["seed"] == 1
    assert [entry["name"] for entry in manifest["inputs"]] == [
        "train.en", "train.de", "dev.en", "dev.de"
    ]  # fmt: skip
    assert set(manifest["train"]["digests"]) == {"source", "target"}
    assert "torch" in manifest["environment"]


def test_a_missing_test_set_is_told_before_anything_is_done(project: Path) -> None:
    sets = "evaluation.test_sets=[{name='test', source='test.en', target='test.de'}]"
    recipe, workspace = open_run(project, sets)
    with pytest.raises(MtkitError, match=r"test\.en: no such file"):
        prepare(recipe, workspace)
    assert not workspace.root.exists()


def test_data_of_another_version_are_prepared_again(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    path = workspace.data / "prepared.json"
    facts = json.loads(path.read_text())
    del facts["format_version"]
    path.write_text(json.dumps(facts))
    assert not is_prepared(recipe, workspace)
    with pytest.raises(MtkitError, match="prepared by another version of mtkit"):
        open_prepared(recipe, workspace)


def test_another_development_set_is_other_data(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    digest = open_prepared(recipe, workspace).digest
    write(project, "dev", generate_pairs("dev", 11))
    prepare(recipe, workspace)
    assert open_prepared(recipe, workspace).digest != digest


def test_a_changed_data_set_folder_is_noticed(project: Path) -> None:
    datasets = import_module("datasets")
    rows = [{"en": source, "de": target} for source, target in generate_pairs("train", 300)]
    (project / "set").mkdir()

    def write_rows(rows: list[dict[str, str]]) -> None:
        data_set = datasets.Dataset.from_dict({"translation": rows})
        data_set.to_parquet(str(project / "set" / "train.parquet"))

    write_rows(rows)
    recipe, workspace = open_run(project, "data.train.0={dataset='set', split='train'}")
    prepare(recipe, workspace)
    assert is_prepared(recipe, workspace)
    write_rows(rows[:-1])
    assert not is_prepared(recipe, workspace)


def test_new_data_can_be_refused_before_they_replace_the_old(project: Path) -> None:
    recipe, workspace = open_run(project)
    digests: list[str] = []
    prepare(recipe, workspace, check=digests.append)
    assert digests == [open_prepared(recipe, workspace).digest] == [read_digest(workspace)]
    write(project, "train", generate_pairs("train", 299))

    def refuse(_: str) -> None:
        raise MtkitError("not these")

    with pytest.raises(MtkitError, match="not these"):
        prepare(recipe, workspace, check=refuse)
    assert read_digest(workspace) == digests[0]
