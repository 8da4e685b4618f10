"""What `mtkit prepare` leaves, and how it notices that its work is out of date."""

import errno
import json
import os
import shutil
import unicodedata
from importlib import import_module
from pathlib import Path

import numpy as np
import psutil
import pytest

import mtkit.cpus as cpus_module
from mtkit.data import phrasebook
from mtkit.data.prepare import is_prepared, prepare
from mtkit.data.prepared import open_prepared, read_digest
from mtkit.errors import MtkitError
from mtkit.executor import LocalExecutor
from mtkit.folders import remove_folder
from mtkit.pipeline.prepare import check_data_and_print
from mtkit.pipeline.prepare import prepare as prepare_run
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
    chosen = [0, 17, 299]
    source, target = (side.to_lists() for side in data.train.gather(np.array(chosen)).values())
    decoded = [data.tokenizer.decode_target(tokens) for tokens in target]
    assert decoded == [pairs[index][1] for index in chosen]
    assert source == data.tokenizer.encode_source([pairs[index][0] for index in chosen])
    assert data.dev_text == tuple(map(list, zip(*generate_pairs("dev", 10), strict=True)))
    assert len(data.dev) == 10


def test_blank_and_long_pairs_are_left_out_and_counted(project: Path) -> None:
    pairs = generate_pairs("train", 300)
    long = (" ".join(lines) for lines in zip(*pairs[10:20], strict=True))
    pairs[3:3] = [("", "leer"), ("blank", " "), tuple(long)]
    write(project, "train", pairs)
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    train = workspace.read_manifest()["prepare"]["train"]
    assert (train["read"], train["kept"]) == (303, 300)
    dropped = {name: count for name, count in train["dropped"].items() if count}
    assert dropped == {"blank": 2, "max_tokens": 1}
    data = open_prepared(recipe, workspace)
    assert (train["source_tokens"], train["target_tokens"]) == (
        data.train.num_tokens["source"],
        data.train.num_tokens["target"],
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
    changes = ["tokenizer.vocab_size=299", "data.train.0.weight=2.0", "training.max_steps=7"]
    other, _ = open_run(project, *changes)
    with pytest.raises(MtkitError, match="prepared from another recipe") as fault:
        open_prepared(other, workspace)
    size = recipe.tokenizer.vocab_size
    assert fault.value.message.endswith(
        f": data.train.0.weight was 1.0, now 2.0; tokenizer.vocab_size was {size}, now 299"
    )
    assert "use the same --set as for `mtkit prepare`" in fault.value.hint


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
    with pytest.raises(
        MtkitError, match="no pairs left: all 300 that passed the filters are longer"
    ):
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
    assert set(manifest["digests"]) == {"text", "tokenizer", "train", "dev"}
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
    with pytest.raises(MtkitError, match="made by an unreleased mtkit"):
        open_prepared(recipe, workspace)


def test_a_damaged_file_of_facts_is_written_again(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    path = workspace.data / "prepared.json"
    content = path.read_bytes()
    path.write_bytes(content[:20])
    with pytest.raises(MtkitError, match="damaged, invalid JSON") as found:
        open_prepared(recipe, workspace)
    assert found.value.hint == "run `mtkit prepare` again"
    prepare(recipe, workspace)
    assert path.read_bytes() == content


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


def write_rows(path: Path, pairs, languages=("en", "de")) -> None:
    rows = (json.dumps({"translation": dict(zip(languages, pair, strict=True))}) for pair in pairs)
    path.write_text("".join(f"{row}\n" for row in rows))


def test_another_direction_turns_the_development_set_too(project: Path) -> None:
    for split, count in (("train", 300), ("dev", 10)):
        write_rows(project / f"{split}.jsonl", generate_pairs(split, count))
    overrides = ("data.train=[{path='train.jsonl'}]", "data.dev={path='dev.jsonl'}")
    turned = ("data.source_language=de", "data.target_language=en")
    recipe, workspace = open_run(project, *overrides)
    prepare(recipe, workspace)
    assert open_prepared(recipe, workspace).dev_text[0][0] == generate_pairs("dev", 1)[0][0]
    recipe, workspace = open_run(project, *overrides, *turned)
    prepare(recipe, workspace)
    assert open_prepared(recipe, workspace).dev_text[0][0] == generate_pairs("dev", 1)[0][1]


def test_a_pair_belongs_to_the_corpus_that_has_it_now(project: Path) -> None:
    """The same text, but of the second corpus where it was of the first."""
    for language in ("en", "de"):
        (project / f"same.{language}").write_text("nothing but the same\n" * 5)
    full, empty = "{source='train.en', target='train.de'}", "{source='same.en', target='same.de'}"
    for corpora, expected in (([full, empty], [300]), ([empty, full], [0, 300])):
        recipe, workspace = open_run(project, f"data.train=[{', '.join(corpora)}]")
        prepare(recipe, workspace)
        assert open_prepared(recipe, workspace).train.corpus_sizes == expected


def test_what_changes_training_changes_the_digest(project: Path) -> None:
    sampling = "tokenizer.sampling={alpha=0.2}"
    digests = set()
    for overrides in (
        (),
        ("data.train.0.weight=2.0",),
        (sampling,),
        # Drawn segmentations may be as long as this says.
        (sampling, "data.cleaning.max_tokens=90"),
    ):
        recipe, workspace = open_run(project, *overrides)
        prepare(recipe, workspace)
        digests.add(open_prepared(recipe, workspace).digest)
    assert len(digests) == 4
    plain, _ = open_run(project)
    named, workspace = open_run(project, "data.train.0.name=other")
    prepare(plain, workspace)
    digest = open_prepared(plain, workspace).digest
    prepare(named, workspace)
    assert open_prepared(named, workspace).digest == digest


@pytest.mark.parametrize("damage", ["a file is gone", "a file is cut", "its record is empty"])
def test_damaged_data_are_made_again(project: Path, damage: str) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    path = workspace.data / "train" / "tokens.arrow"
    content = path.read_bytes()
    match damage:
        case "a file is gone":
            path.unlink()
        case "a file is cut":
            path.write_bytes(content[:-1])
        case _:
            (workspace.data / "train" / "stage.json").write_bytes(b"")
    assert not is_prepared(recipe, workspace)
    prepare(recipe, workspace)
    assert path.read_bytes() == content
    assert len(open_prepared(recipe, workspace).train) == 300


def test_tags_and_models_of_ones_own(project: Path) -> None:
    prepare(*open_run(project, "data.train.0.tag=<BT>"))
    _, workspace = open_run(project)
    (project / "own.model").write_bytes((workspace.tokenizer / "joint.spm").read_bytes())
    overrides = ("tokenizer.pretrained.source=own.model", "data.train.0.tag=<BT>")
    recipe, workspace = open_run(project, *overrides)
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    [tag, _] = data.tokenizer.encode_source(["<BT>"])[0]
    source = data.train.gather(np.arange(300))["source"]
    assert {tokens[0] for tokens in source.to_lists()} == {tag}
    # The development set has no tag.
    assert tag not in data.dev.gather(np.arange(10))["source"].tokens
    with pytest.raises(MtkitError, match="no piece '<XX>'"):
        prepare(*open_run(project, *overrides[:1], "data.train.0.tag=<XX>"))


def test_held_out_pairs_are_those_that_the_tokenizer_can_t_tell_apart(project: Path) -> None:
    pairs = generate_pairs("train", 300)
    held_out = [("He sees 12 ﬁshes over there.", "Er sieht dort drüben 12 Füchse."), *pairs[:9]]
    write(project, "dev", held_out)
    source, target = held_out[0]
    copy = (source.replace("12", "１２"), unicodedata.normalize("NFD", target))
    write(project, "train", [*pairs[9:], copy])
    dropped = {}
    for rule in ("nmt_nfkc", "identity"):
        recipe, workspace = open_run(project, f"tokenizer.normalization={rule}")
        assert not is_prepared(recipe, workspace)
        prepare(recipe, workspace)
        dropped[rule] = workspace.read_manifest()["prepare"]["train"]["dropped"]["overlap"]
    assert dropped["nmt_nfkc"] == dropped["identity"] + 1


@pytest.mark.parametrize("work", ["prepare", "check"])
def test_workers_are_no_more_than_a_containers_quota(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("300000 100000\n", encoding="ascii")
    monkeypatch.setattr(cpus_module, "_QUOTA_FILE", quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    asked = []
    module = import_module("mtkit.pipeline.choose_executor")

    def note(num_workers: int) -> LocalExecutor:
        asked.append(num_workers)
        return LocalExecutor(1)

    monkeypatch.setattr(module, "LocalExecutor", note)
    recipe, workspace = open_run(project)
    if work == "check":
        check_data_and_print(recipe, workspace)
    else:
        prepare_run(recipe, workspace)
    assert asked == [3]


def test_an_error_of_the_parent_ends_the_workers_first(project: Path, monkeypatch) -> None:
    # Otherwise they would write parts into a folder that is being removed.
    pairs = [(f"the {n} cats of house {n}", f"die {n} Katzen von Haus {n}") for n in range(60_000)]
    write(project, "train", pairs)
    folders: list[Path] = []

    def fail(folder: Path, frame: bytes) -> None:
        folders.append(folder)
        if len(folders) > 2:
            raise OSError(errno.EIO, "the disk failed")

    def count_workers(folder: Path) -> None:
        num_workers.append(len(psutil.Process().children()) - num_others)
        remove_folder(folder)

    num_workers: list[int] = []
    num_others = len(psutil.Process().children())
    monkeypatch.setattr("mtkit.data.preparation.clean_corpora.append_dropped", fail)
    monkeypatch.setattr("mtkit.folders.remove_folder", count_workers)
    recipe = load_recipe(str(project / "mtkit.toml"))
    workspace = Workspace(project / "run")
    with pytest.raises(OSError, match="the disk failed"):
        prepare(recipe, workspace, executor=LocalExecutor(2))
    assert num_workers[-1] == 0
    assert not folders[0].exists()
    assert not workspace.data_draft.exists()
