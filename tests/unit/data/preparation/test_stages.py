"""A stage is done once, is taken over where nothing changed, and is whole or absent."""

from pathlib import Path

import pytest

from mtkit.data.preparation.stages import Facts, Stages, clear_stages


class Work:
    """Writes a file, and counts how often."""

    def __init__(self, text: str = "content") -> None:
        self.text, self.times = text, 0

    def __call__(self, folder: Path) -> Facts:
        self.times += 1
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text(self.text)
        return {"length": len(self.text)}


def test_a_finished_stage_isnt_done_again(tmp_path: Path) -> None:
    work = Work()
    for expected in (True, False):
        stage = Stages(tmp_path / "draft", tmp_path / "data").run("text", "key", work)
        assert (stage.is_new, stage.facts) == (expected, {"length": 7})
        assert (stage.folder / "inner" / "file").read_text() == "content"
    assert work.times == 1
    Stages(tmp_path / "draft", tmp_path / "data").run("text", "other key", work)
    assert work.times == 2


def test_an_earlier_result_is_taken_over_and_stays(tmp_path: Path) -> None:
    work = Work()
    Stages(tmp_path / "data", tmp_path / "none").run("text", "key", work)
    stage = Stages(tmp_path / "draft", tmp_path / "data").run("text", "key", work)
    assert (stage.is_new, work.times) == (False, 1)
    assert stage.folder == tmp_path / "draft" / "text"
    for folder in ("draft", "data"):
        assert (tmp_path / folder / "text" / "inner" / "file").read_text() == "content"


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> Facts:
        (folder / "half").write_text("half")
        raise OSError("the disk is full")

    stages = Stages(tmp_path / "draft", tmp_path / "data")
    with pytest.raises(OSError, match="full"):
        stages.run("text", "key", fail)
    assert list((tmp_path / "draft").iterdir()) == []
    assert stages.run("text", "key", Work()).is_new


def test_leftovers_of_a_kill_are_cleared_and_finished_stages_kept(tmp_path: Path) -> None:
    Stages(tmp_path / "draft", tmp_path / "data").run("text", "key", Work())
    (tmp_path / "draft" / ".train.draft").mkdir()
    (tmp_path / "draft" / ".train.draft" / "tokens").write_text("half")
    (tmp_path / "draft" / "report.json").write_text("{}")
    clear_stages(tmp_path / "draft", ("text", "train"))
    assert [path.name for path in (tmp_path / "draft").iterdir()] == ["text"]
    clear_stages(tmp_path / "absent", ("text",))
