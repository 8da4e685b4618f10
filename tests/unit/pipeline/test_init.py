from pathlib import Path

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.pipeline.init import init, init_student
from mtkit.recipe import dump_recipe, load_recipe, shipped_recipes
from mtkit.workspace import Workspace

from ...command import run_here


@pytest.mark.parametrize("name", list(shipped_recipes()))
def test_the_copy_is_the_shipped_recipe_with_its_comments(name: str, tmp_path: Path) -> None:
    path = init(name, tmp_path)
    assert path == tmp_path / "mtkit.toml"
    shipped = shipped_recipes()[name].read_text("utf-8")
    assert path.read_text("utf-8").endswith(shipped)
    assert load_recipe(path).model == load_recipe(name).model


def test_a_recipe_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "mtkit.toml").write_text("mine")
    with pytest.raises(MtkitError, match=r"mtkit\.toml already exists"):
        init("phrasebook-en-de", tmp_path)
    assert (tmp_path / "mtkit.toml").read_text() == "mine"


def test_a_student_of_a_teacher_that_reranks_is_greedy(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "run")
    workspace.model.mkdir(parents=True)
    changes = ["inference.beam_size=8", "inference.rerank.candidates=8"]
    teacher = load_recipe("phrasebook-en-de", changes)
    workspace.recipe_file.write_text(dump_recipe(teacher), "utf-8")
    student = load_recipe(init_student(workspace.root, tmp_path)).inference
    assert (student.beam_size, student.rerank) == (1, None)


@pytest.mark.parametrize(("layers", "expected"), [(1, 2), (2, 3), (6, 9)])
def test_a_students_encoder_is_deeper(layers: int, expected: int, tmp_path: Path) -> None:
    # A run may have any name.
    workspace = Workspace(tmp_path / "model")
    workspace.model.mkdir(parents=True)
    teacher = load_recipe("phrasebook-en-de", [f"model.num_encoder_layers={layers}"])
    workspace.recipe_file.write_text(dump_recipe(teacher), "utf-8")
    for number, named in enumerate((workspace.root, workspace.model)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert load_recipe(init_student(named, folder)).model.num_encoder_layers == expected


def test_a_student_needs_sources(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "run")
    workspace.model.mkdir(parents=True)
    change = 'data.train=[{target="x.de", translated_by="teacher"}]'
    teacher = load_recipe("phrasebook-en-de", [change])
    workspace.recipe_file.write_text(dump_recipe(teacher), "utf-8")
    with pytest.raises(MtkitError, match="all its corpora are text of the target language"):
        init_student(workspace.root, tmp_path)


def test_an_unknown_name_gets_the_nearest_and_all(tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match=r"'phrasebok'.*did you mean 'phrasebook-en-de'") as fault:
        init("phrasebok", tmp_path)
    assert "multi30k-en-de-paper" in fault.value.hint
    assert list(tmp_path.iterdir()) == []


def test_without_a_name_the_recipes_are_listed(tmp_path: Path) -> None:
    done = run_here(tmp_path, "init")
    assert done.returncode == 0
    listed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert next(iter(listed)) == "own-corpus"
    assert sorted(listed) == sorted(shipped_recipes())
    assert all(sentence.endswith(".") and len(sentence) > 30 for sentence in listed.values())
    assert listed["opus-mt-finetune"] == "A translator of OPUS-MT, adapted to a domain."
    assert not list(tmp_path.iterdir())


def test_ones_own_corpus_passes_the_check_once_its_files_are_there(tmp_path: Path) -> None:
    init("own-corpus", tmp_path)
    (tmp_path / "corpus").mkdir()
    for split, count in (("train", 600), ("dev", 20), ("test", 20)):
        lines = map("\t".join, generate_pairs(split, count))
        (tmp_path / "corpus" / f"{split}.tsv").write_text("".join(f"{line}\n" for line in lines))
    done = run_here(tmp_path, "prepare", "--check")
    assert done.returncode == 0, done.stderr
