"""The recipes that a recipe's translators are trained by: the other direction, pairs, rounds."""

import tomllib
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.pipeline.teacher_runs import Run
from mtkit.recipe import Recipe
from mtkit.recipe.loading import check_recipe
from mtkit.workspace import Workspace

BASE = """\
name = "x"
[data]
source_language = "en"
target_language = "de"
data_root = "/corpora"
dev = { source = "dev.en", target = "dev.de" }
cleaning.script = { source = ["Latn"], target = ["Grek"] }
word_aligner = true
[tokenizer]
vocab_size = 77
[[evaluation.test_sets]]
name = "test"
path = "test.tsv"
"""
PAIRS = '[[data.train]]\nsource = "a.en"\ntarget = "a.de"\nweight = 2.0\n'
BACK = '[[data.train]]\ntarget = "m.de"\ntranslated_by = "reverse"\n'
ROUNDS = BACK + "synthesis.rounds = 3\n"
FORWARD = '[[data.train]]\nsource = "m.en"\ntranslated_by = "pairs"\ntag = "<S>"\nmax_pairs = 9\n'
HERE = Workspace(Path("/runs/x"))


def load(*corpora: str, text: str = BASE) -> Recipe:
    return check_recipe(tomllib.loads(text + "".join(corpora)), "x.toml", Path("/"))


def name_runs(recipe: Recipe) -> list[str]:
    return [run.workspace.root.name for run in Run(recipe, HERE).list_teachers()]


def test_the_other_direction_swaps_languages_and_sides() -> None:
    run = Run(load(PAIRS, BACK), HERE).find_teacher("reverse")
    assert run is not None
    recipe, data = run.recipe, run.recipe.data
    assert (recipe.name, run.workspace.root) == ("x-reverse", Path("/runs/x-reverse"))
    assert data.languages == ("de", "en")
    [pairs] = data.train
    assert (pairs.source, pairs.target, pairs.weight) == (
        Path("/corpora/a.de"),
        Path("/corpora/a.en"),
        2.0,
    )
    assert data.dev.source == Path("/corpora/dev.de")
    [test_set] = recipe.evaluation.test_sets
    assert (test_set.source_column, test_set.target_column) == (2, 1)
    assert (data.cleaning.script.source, data.cleaning.script.target) == (("Grek",), ("Latn",))
    assert not data.word_aligner
    assert recipe.tokenizer.vocab_size == 77


@pytest.mark.parametrize(
    ("corpus", "expected"),
    [
        ('path = "a.tsv"', (2, 1)),
        ('path = "a.csv"\nsource_column = "en"\ntarget_column = "de"', ("de", "en")),
        ('path = "a.tsv"\ntarget_column = 5', (5, 1)),
        # Named by language, or both in the file by language.
        ('path = "a.jsonl"', ("", "")),
        ('path = "a.tmx"', ("", "")),
        ('dataset = "d"\nsplit = "t"\nsource_column = "x"\ntarget_column = "y"', ("y", "x")),
    ],
)
def test_columns_swap_where_they_have_numbers_or_names(corpus: str, expected: tuple) -> None:
    run = Run(load(f"[[data.train]]\n{corpus}\n", BACK), HERE).find_teacher("reverse")
    assert run is not None
    [swapped] = run.recipe.data.train
    assert (swapped.source_column, swapped.target_column) == expected


def test_files_of_a_programs_strings_have_one_direction() -> None:
    with pytest.raises(MtkitError, match=r"a\.po can't be read in the other direction") as fault:
        Run(load('[[data.train]]\npath = "a.po"\n', BACK), HERE).find_teacher("reverse")
    assert "mtkit split" in fault.value.hint


def test_pairs_are_what_is_left_without_translated_text() -> None:
    run = Run(load(PAIRS, BACK, FORWARD), HERE).find_teacher("pairs")
    assert run is not None
    assert [corpus.source for corpus in run.recipe.data.train] == [Path("/corpora/a.en")]
    assert run.workspace.root == Path("/runs/x-pairs")
    with pytest.raises(MtkitError, match="train on pairs, and each corpus names a translator"):
        Run(load(BACK), HERE).find_teacher("reverse")


def test_a_model_folder_has_no_run() -> None:
    assert Run(load(PAIRS), HERE).find_teacher("/models/x") is None
    assert name_runs(load(PAIRS, BACK.replace('"reverse"', '"m"'))) == []


def test_each_round_trains_both_directions_in_turn() -> None:
    # W18-2703: each translator translates for the other, three times here.
    recipe = load(PAIRS, ROUNDS, FORWARD)
    runs = list(Run(recipe, HERE).list_teachers())
    names = [run.workspace.root.name for run in runs]
    order = ["x-reverse", "x-round-1", "x-reverse-2", "x-round-2", "x-reverse-3"]
    assert [name for name in dict.fromkeys(names) if name != "x-pairs"] == order
    assert names.index("x-pairs") < names.index("x-round-1")
    by_name = {run.workspace.root.name: run.recipe.data.train for run in runs}
    assert len(by_name["x-reverse"]) == 1
    for number in (2, 3):
        _, text = by_name[f"x-reverse-{number}"]
        assert text.target == Path("/corpora/m.en")
        assert text.translated_by == (f"/runs/x-round-{number - 1}/model",)
        assert (text.tag, text.max_pairs) == ("<S>", 9)
    for number, reverse in ((1, "x-reverse"), (2, "x-reverse-2")):
        _, back, forward = by_name[f"x-round-{number}"]
        assert back.translated_by == (f"/runs/{reverse}/model",)
        assert forward.translated_by == ("/runs/x-pairs/model",)


def test_names_that_look_like_a_rounds_are_ones_own() -> None:
    run = Run(load(PAIRS, BACK), Workspace(Path("/runs/exp-round-2"))).find_teacher("reverse")
    assert run is not None
    assert run.workspace.root == Path("/runs/exp-round-2-reverse")


def test_a_recipe_that_starts_from_a_model_has_no_reverse() -> None:
    start = '[training.start_from]\nmodel = "m"\n'
    with pytest.raises(MtkitError, match=r"this recipe has training\.start_from"):
        Run(load(PAIRS, BACK, text=BASE + start), HERE).find_teacher("reverse")


def test_tags_go_and_filters_swap() -> None:
    text = BASE.replace("word_aligner", 'cleaning.duplicates.by = "source"\nword_aligner')
    run = Run(load(PAIRS + 'tag = "<de>"\n', BACK, text=text), HERE).find_teacher("reverse")
    assert run is not None
    assert run.recipe.data.cleaning.duplicates.by == "target"
    assert run.recipe.data.train[0].tag == ""


def test_test_sets_that_have_one_direction_are_left_out() -> None:
    text = BASE.replace('path = "test.tsv"', 'path = "test.po"')
    run = Run(load(PAIRS, BACK, text=text), HERE).find_teacher("reverse")
    assert run is not None
    assert run.recipe.evaluation.test_sets == ()


def test_rounds_need_text_of_the_source_language() -> None:
    with pytest.raises(MtkitError, match=r"rounds = 3 needs text of the source language"):
        name_runs(load(PAIRS, ROUNDS))


def test_recipes_that_need_each_other_are_refused(tmp_path: Path) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        languages = ("en", "de") if name == "one" else ("de", "en")
        text = (
            f'name = "{name}"\n[data]\nsource_language = "{languages[0]}"\n'
            f'target_language = "{languages[1]}"\ndev = {{ source = "d", target = "d" }}\n'
            f'{PAIRS}[[data.train]]\ntarget = "m"\ntranslated_by = "{other}.toml"\n'
        )
        (tmp_path / f"{name}.toml").write_text(text)
    recipe = check_recipe(tomllib.loads((tmp_path / "one.toml").read_text()), "one", tmp_path)
    with pytest.raises(MtkitError, match="one -> two -> one"):
        list(Run(recipe, Workspace(tmp_path / "runs" / "one")).list_teachers())


def test_a_recipes_run_stands_beside_its_own(tmp_path: Path) -> None:
    (tmp_path / "rev.toml").write_text(
        'name = "rev"\n[data]\nsource_language = "de"\ntarget_language = "en"\n'
        f'dev = {{ source = "d", target = "d" }}\n{PAIRS}'
    )
    recipe = load(PAIRS, BACK.replace("reverse", str(tmp_path / "rev.toml")))
    [run] = Run(recipe, HERE).list_teachers()
    assert (run.recipe.name, run.workspace.root) == ("rev", Path("/runs/rev"))


def test_two_recipes_of_one_name_are_refused(tmp_path: Path) -> None:
    """Only one of them could be trained in their workspace."""
    for name, steps in (("one", 5), ("two", 6)):
        (tmp_path / f"{name}.toml").write_text(
            'name = "rev"\n[data]\nsource_language = "de"\ntarget_language = "en"\n'
            f'dev = {{ source = "d", target = "d" }}\n{PAIRS}[training]\nmax_steps = {steps}\n'
        )
    paths = [str(tmp_path / f"{name}.toml") for name in ("one", "two")]
    same = load(PAIRS, *(BACK.replace("reverse", path) for path in paths[:1] * 2))
    assert len(Run(same, HERE).collect_teachers()) == 1
    recipe = load(PAIRS, *(BACK.replace("reverse", path) for path in paths))
    with pytest.raises(MtkitError, match="two recipes are named rev"):
        Run(recipe, HERE).collect_teachers()
