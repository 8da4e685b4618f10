"""Pairs that a translator completes: which ones, in which order, whatever happens on the way."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mtkit.data.check import check_recipe_data
from mtkit.data.preparation.teachers import TeacherLine, Translated
from mtkit.data.prepare import is_prepared, prepare
from mtkit.errors import MtkitError
from mtkit.executor import LocalExecutor, WorkerNeeds
from mtkit.recipe import Recipe, load_recipe
from mtkit.workspace import Workspace

RECIPE = """\
name = "test"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
name = "real"
source = "pairs.en"
target = "pairs.de"
[[data.train]]
name = "back"
target = "text.de"
translated_by = "teacher"
tag = "<BT>"
[data.dev]
source = "dev.en"
target = "dev.de"
[tokenizer]
vocab_size = 60
"""
ENGLISH = {
    "das": "the",
    "Boot": "boat",
    "Haus": "house",
    "Tier": "animal",
    "Buch": "book",
    "hat": "has",
    "die": "the",
    "Nummer": "number",
    "und": "and",
    "ist": "is",
    "schön": "nice",
    "Schleife": "loop",
}
THINGS = ["Boot", "Haus", "Tier", "Buch"]
NUM_LINES = 4_500


@dataclass(frozen=True)
class SpellingTeachers:
    """Translates word by word, with `of` before a line; stops at the line `stops_at`."""

    stops_at: int = 0
    prefix: str = "of"
    digest: str = "1"
    ready: bool = True

    def is_ready(self, corpus) -> bool:
        return True

    def are_trained_first(self, corpus) -> bool:
        return not self.ready

    def check(self, corpus, **_) -> None:
        pass

    def describe(self, corpus):
        return {"names": ["teacher"], "digests": [self.digest], "licences": {"teacher": "MIT"}}

    def open(self, corpus):
        return self.translate

    def translate(self, lines: Sequence[TeacherLine]) -> Translated:
        if any(line.number == self.stops_at for line in lines):
            raise MtkitError("stopped")
        return Translated(
            [f"{self.prefix} {translate(line.text)}" for line in lines],
            ["looping" if "Schleife" in line.text else "" for line in lines],
            # The score of a line is one part in its number.
            np.array([1.0 / line.number for line in lines]),
            np.full(len(lines), -0.5),
        )

    def needs(self, corpus) -> WorkerNeeds:
        return WorkerNeeds()


def translate(line: str) -> str:
    return " ".join(ENGLISH.get(word, word) for word in line.split())


def list_lines(count: int, word: str = "") -> list[str]:
    return [
        f"{word}das {THINGS[i % 4]} hat die Nummer {i + 10} und ist {'schön ' * (i % 3)}schön"
        for i in range(count)
    ]


def write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    for name, count in (("pairs", 50), ("dev", 9)):
        lines = list_lines(count, f"{name} ")
        write(tmp_path / f"{name}.en", list(map(translate, lines)))
        write(tmp_path / f"{name}.de", lines)
    write(tmp_path / "text.de", list_lines(NUM_LINES))
    return tmp_path


def open_run(folder: Path, *overrides: str, name: str = "run") -> tuple[Recipe, Workspace]:
    keys = ("data.cleaning.identical.enabled=false", *overrides)
    return load_recipe(folder / "mtkit.toml", keys), Workspace(folder / name)


def read(workspace: Workspace, side: str, index: int = 1) -> list[str]:
    """Returns one side of the pairs that a translator made, as zstd's own decoder reads them."""
    path = workspace.data / "synthetic" / f"{index}.{side}.zst"
    with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, "zstd") as stream:
        return stream.read().decode().split("\n")[:-1]


def facts(workspace: Workspace) -> dict:
    record = json.loads((workspace.data / "synthetic" / "stage.json").read_text())
    return record["facts"]["corpora"]["1"]


def test_each_line_becomes_a_pair_in_order(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace, teachers=SpellingTeachers())
    lines = list_lines(NUM_LINES)
    assert read(workspace, "target") == lines
    assert read(workspace, "source") == [f"of {translate(line)}" for line in lines]
    report = json.loads((workspace.data / "report.json").read_text())
    assert [corpus["read"] for corpus in report["corpora"]] == [50, NUM_LINES]
    manifest = workspace.read_manifest()["prepare"]
    assert manifest["teachers"]["back"]["licences"] == {"teacher": "MIT"}
    assert is_prepared(recipe, workspace, teachers=SpellingTeachers())
    # Another model makes another text.
    assert not is_prepared(recipe, workspace, teachers=SpellingTeachers(digest="2"))


def test_forward_it_is_the_target_that_is_made(project: Path) -> None:
    (project / "text.de").rename(project / "text.en")
    overrides = ("~data.train.1.target", "data.train.1.source=text.en")
    recipe, workspace = open_run(project, *overrides)
    prepare(recipe, workspace, teachers=SpellingTeachers())
    assert read(workspace, "source") == list_lines(NUM_LINES)
    assert read(workspace, "target")[0].startswith("of ")


def test_a_corpus_of_pairs_gets_other_targets(project: Path) -> None:
    recipe, workspace = open_run(project, "data.train.0.translated_by=teacher")
    prepare(recipe, workspace, teachers=SpellingTeachers())
    assert read(workspace, "target", 0) == [
        f"of {translate(line)}" for line in list_lines(50, "pairs ")
    ]


@pytest.mark.parametrize("num_workers", [2, 3])
def test_the_same_bytes_from_any_number_of_workers(project: Path, num_workers: int) -> None:
    for name, executor in (("one", LocalExecutor(1)), ("more", LocalExecutor(num_workers))):
        recipe, workspace = open_run(project, name=name)
        prepare(recipe, workspace, executor=executor, teachers=SpellingTeachers())
    one, more = (project / name / "data" / "synthetic" for name in ("one", "more"))
    for path in one.iterdir():
        assert path.read_bytes() == (more / path.name).read_bytes(), path.name


def test_translated_blocks_survive_a_stop(project: Path) -> None:
    recipe, workspace = open_run(project)
    with pytest.raises(MtkitError, match="stopped"):
        prepare(recipe, workspace, teachers=SpellingTeachers(stops_at=2_500))
    # A translator that writes something else shows which lines were translated again.
    prepare(recipe, workspace, teachers=SpellingTeachers(prefix="for"))
    first = [line.split()[0] for line in read(workspace, "source")]
    assert first == ["of"] * 2_000 + ["for"] * (NUM_LINES - 2_000)
    assert not (workspace.root / ".data.draft").exists()
    # What was translated for another model isn't used.
    other = open_run(project, name="other")
    with pytest.raises(MtkitError, match="stopped"):
        prepare(*other, teachers=SpellingTeachers(stops_at=2_500))
    prepare(*other, teachers=SpellingTeachers(prefix="for", digest="2"))
    assert {line.split()[0] for line in read(other[1], "source")} == {"for"}


def test_blank_skipped_and_further_lines_are_left_out(project: Path) -> None:
    lines = list_lines(30)
    lines[4], lines[5] = "", "  "
    write(project / "text.de", lines)
    recipe, workspace = open_run(project, 'data.train.1.skip="1-3"', "data.train.1.max_pairs=20")
    prepare(recipe, workspace, teachers=SpellingTeachers())
    assert read(workspace, "target") == [lines[3], *lines[6:20]]
    # What is dropped adds up.
    assert facts(workspace)["dropped"] == {"blank": 2}
    assert facts(workspace)["read"] == 17


def test_flagged_lines_and_those_with_low_scores_are_dropped_and_listed(project: Path) -> None:
    lines = list_lines(10)
    lines[0] = "das Tier ist die Schleife Nummer 7"
    write(project / "text.de", lines)
    recipe, workspace = open_run(
        project, 'data.train.1.synthesis={checked_by="teacher", keep=0.5, drop_flagged=true}'
    )
    prepare(recipe, workspace, teachers=SpellingTeachers())
    report = json.loads((workspace.data / "report.json").read_text())["translated"]["back"]
    assert report["dropped"] == {"dual_cross_entropy": 5, "looping": 1}
    reasons = [each["reason"] for each in report["samples"]]
    assert reasons == [""] * 4 + ["dual_cross_entropy"] * 5 + ["looping"]
    assert [each["line"] for each in report["samples"]] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 1]
    # Half of nine, rounded to even, with the highest scores: lines 2 to 5, down to 1/5.
    assert read(workspace, "target") == lines[1:5]
    found = facts(workspace)
    assert found["limit"] == pytest.approx(0.2)
    assert found["dropped"] == {"dual_cross_entropy": 5, "looping": 1}
    assert found["mean_probability"] == -0.5
    with (
        pa.OSFile(str(workspace.data / "dropped.tsv.zst")) as file,
        pa.CompressedInputStream(file, "zstd") as stream,
    ):
        rows = [line.split("\t") for line in stream.read().decode().splitlines()]
    assert rows[0] == ["filter", "file", "line", "source", "target"]
    assert ["looping", "text.de", "1", f"of {translate(lines[0])}", lines[0]] in rows
    assert sum(row[0] == "dual_cross_entropy" for row in rows) == 5
    # The header stands once.
    assert sum(row[0] == "filter" for row in rows) == 1


def test_a_corpus_without_a_pair_left_is_an_error(project: Path) -> None:
    write(project / "text.de", ["die Schleife"] * 3)
    recipe, workspace = open_run(project)
    with pytest.raises(MtkitError, match="back: no pairs left of 3 translations: 3 looping"):
        prepare(recipe, workspace, teachers=SpellingTeachers())
    # Nothing is said of files that only mtkit knows.
    [fault] = check_recipe_data(recipe, teachers=SpellingTeachers()).faults
    assert "back: no pairs left of 3 translations" in fault.message


def test_invalid_utf8_is_an_error_or_dropped(project: Path) -> None:
    with (project / "text.de").open("ab") as stream:
        stream.write(b"caf\xe9\n")
    with pytest.raises(
        MtkitError, match=rf"text\.de:{NUM_LINES + 1}: byte 4 of the line is invalid UTF-8"
    ):
        # The last line is found before the first is translated.
        prepare(*open_run(project), teachers=SpellingTeachers(stops_at=1))
    # A check finds it too, though it translates a sample, or nothing yet.
    for ready in (True, False):
        found = check_recipe_data(open_run(project)[0], teachers=SpellingTeachers(ready=ready))
        assert [f":{NUM_LINES + 1}: byte 4" in fault.message for fault in found.faults] == [True]
    dropped = open_run(project, "data.cleaning.encoding.invalid_utf8=drop")
    prepare(*dropped, teachers=SpellingTeachers())
    [_, corpus] = json.loads((dropped[1].data / "report.json").read_text())["corpora"]
    assert corpus["dropped"]["encoding"] == 1


def test_all_text_is_read_before_any_is_translated(project: Path) -> None:
    (project / "more.de").write_bytes(b"caf\xe9\n")
    more = '[[data.train]]\ntarget = "more.de"\ntranslated_by = "teacher"\n[data.dev]'
    (project / "mtkit.toml").write_text(RECIPE.replace("[data.dev]", more))
    with pytest.raises(MtkitError, match=r"more\.de:1: byte 4"):
        prepare(*open_run(project), teachers=SpellingTeachers(stops_at=1))


def test_a_check_translates_a_sample_and_scales_it(project: Path, capsys) -> None:
    found = check_recipe_data(open_run(project)[0], teachers=SpellingTeachers())
    assert found.faults == []
    assert found.report is not None
    assert found.report.epoch is not None
    assert found.report.epoch.pairs == pytest.approx(NUM_LINES + 50, rel=0.1)
    said = capsys.readouterr().err
    assert f"of {NUM_LINES:,} lines were translated" in said
    [section] = [each for each in found.sections if each.title == "Some translations"]
    assert all(row[4].startswith("of the") for row in section.rows)


def test_a_check_leaves_out_a_corpus_whose_translator_is_trained_later(
    project: Path, capsys
) -> None:
    found = check_recipe_data(open_run(project)[0], teachers=SpellingTeachers(ready=False))
    assert found.faults == []
    assert (
        "back: left out, since `mtkit run` trains its translator first" in capsys.readouterr().err
    )


def test_a_check_may_leave_out_all_corpora(project: Path) -> None:
    overrides = ("data.train.0.translated_by=teacher",)
    recipe, _ = open_run(project, *overrides)
    found = check_recipe_data(recipe, teachers=SpellingTeachers(ready=False))
    assert (found.report, found.faults) == (None, [])


def test_rows_keep_the_numbers_of_their_file(project: Path) -> None:
    """What the cleaning drops is listed by its line, beside blank and skipped lines."""
    lines = ["", "", *list_lines(20)]
    lines[12] = "das Haus hat die Nummer \ufffd"
    write(project / "text.de", lines)
    recipe, workspace = open_run(project, 'data.train.1.skip="4-6"')
    prepare(recipe, workspace, teachers=SpellingTeachers())
    with (
        pa.OSFile(str(workspace.data / "dropped.tsv.zst")) as file,
        pa.CompressedInputStream(file, "zstd") as stream,
    ):
        rows = [line.split("\t") for line in stream.read().decode().splitlines()]
    assert [row[:3] for row in rows if row[4] == lines[12]] == [["encoding", "text.de", "13"]]
    assert read(workspace, "line")[:2] == ["3", "7"]


def test_a_file_that_was_only_touched_isnt_translated_again(project: Path, capsys) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace, teachers=SpellingTeachers())
    (project / "text.de").touch()
    prepare(recipe, workspace, teachers=SpellingTeachers(stops_at=1))
    assert "synthetic: unchanged, reused" in capsys.readouterr().err


def test_a_corpus_with_another_name_isnt_translated_again(project: Path, capsys) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace, teachers=SpellingTeachers())
    renamed, _ = open_run(project, "data.train.1.name=other")
    prepare(renamed, workspace, teachers=SpellingTeachers(stops_at=1))
    assert "synthetic: unchanged, reused" in capsys.readouterr().err
    page = (workspace.data / "report.html").read_text()
    assert "other by teacher" in page
    assert "back by teacher" not in page


def test_a_corpus_isnt_translated_again_if_another_one_changes(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace, teachers=SpellingTeachers())
    before = read(workspace, "source")
    write(project / "more.de", list_lines(20, "more "))
    text = RECIPE.replace(
        "[data.dev]",
        '[[data.train]]\ntarget = "more.de"\ntranslated_by = "teacher"\n[data.dev]',
    )
    (project / "mtkit.toml").write_text(text)
    recipe, workspace = open_run(project)
    prepare(recipe, workspace, teachers=SpellingTeachers(prefix="for"))
    assert read(workspace, "source") == before
    assert {line.split()[0] for line in read(workspace, "source", 2)} == {"for"}
    # An interrupted preparation keeps them, too.
    (workspace.data / "prepared.json").unlink()
    workspace.data.rename(workspace.data_draft)
    write(project / "more.de", list_lines(30, "more "))
    prepare(recipe, workspace, teachers=SpellingTeachers(prefix="to"))
    assert read(workspace, "source") == before
    assert {line.split()[0] for line in read(workspace, "source", 2)} == {"to"}


def test_damaged_translations_are_made_again(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace, teachers=SpellingTeachers())
    [kept] = (workspace.data / "synthetic").glob("*.arrow")
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    (project / "mtkit.toml").write_text(RECIPE.replace('"<BT>"', '"<BT>"\nmax_pairs = 4000'))
    other, _ = open_run(project, "data.train.0.translated_by=teacher", "~data.train.1.max_pairs")
    prepare(other, workspace, teachers=SpellingTeachers(prefix="for"))
    assert {line.split()[0] for line in read(workspace, "source")} == {"for"}


def test_a_check_of_two_corpora_with_one_text(project: Path, capsys) -> None:
    more = '[[data.train]]\ntarget = "text.de"\ntranslated_by = "teacher"\n[data.dev]'
    (project / "mtkit.toml").write_text(RECIPE.replace("[data.dev]", more))
    assert check_recipe_data(open_run(project)[0], teachers=SpellingTeachers()).faults == []
    assert capsys.readouterr().err.count(f"of {NUM_LINES:,} lines were translated") == 2


def test_another_share_to_keep_translates_nothing_again(project: Path) -> None:
    write(project / "text.de", list_lines(20))
    synthesis = 'data.train.1.synthesis={checked_by="teacher", keep=%s}'
    recipe, workspace = open_run(project, synthesis % 0.5)
    prepare(recipe, workspace, teachers=SpellingTeachers())
    assert len(read(workspace, "source")) == 10
    other, _ = open_run(project, synthesis % 0.25)
    prepare(other, workspace, teachers=SpellingTeachers(stops_at=1))
    assert len(read(workspace, "source")) == 5


def test_a_translator_that_is_replaced_meanwhile_is_an_error(project: Path) -> None:
    class Replaced(SpellingTeachers):
        def describe(self, corpus):
            digest = str((project / "count").stat().st_size)
            with (project / "count").open("a") as stream:
                stream.write("x")
            return {**super().describe(corpus), "digests": [digest]}

    (project / "count").write_text("")
    with pytest.raises(MtkitError, match="was replaced during the translation"):
        prepare(*open_run(project), teachers=Replaced())


def test_a_blank_file_is_told(project: Path) -> None:
    write(project / "text.de", ["", " "])
    with pytest.raises(MtkitError, match="back: only blank or skipped lines"):
        prepare(*open_run(project), teachers=SpellingTeachers())
