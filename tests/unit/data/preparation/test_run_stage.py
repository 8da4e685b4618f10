"""A stage is done once, is taken over where nothing changed, and is whole or absent."""

from pathlib import Path

import pytest

from mtkit.data.preparation.stage import Facts, clear_stages, run_stage


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
        found = run_stage(tmp_path / "draft" / "text", tmp_path / "data" / "text", "key", work)
        assert found == ({"length": 7}, expected)
        assert (tmp_path / "draft" / "text" / "inner" / "file").read_text() == "content"
    assert work.times == 1
    run_stage(tmp_path / "draft" / "text", tmp_path / "data" / "text", "other key", work)
    assert work.times == 2


def test_an_earlier_result_is_taken_over_and_stays(tmp_path: Path) -> None:
    work = Work()
    run_stage(tmp_path / "data" / "text", tmp_path / "none" / "text", "key", work)
    found = run_stage(tmp_path / "draft" / "text", tmp_path / "data" / "text", "key", work)
    assert (found, work.times) == (({"length": 7}, False), 1)
    for folder in ("draft", "data"):
        assert (tmp_path / folder / "text" / "inner" / "file").read_text() == "content"


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> Facts:
        (folder / "half").write_text("half")
        raise OSError("the disk is full")

    folder, earlier = tmp_path / "draft" / "text", tmp_path / "data" / "text"
    with pytest.raises(OSError, match="full"):
        run_stage(folder, earlier, "key", fail)
    assert list((tmp_path / "draft").iterdir()) == []
    assert run_stage(folder, earlier, "key", Work()) == ({"length": 7}, True)


def test_leftovers_of_a_kill_are_cleared_and_finished_stages_kept(tmp_path: Path) -> None:
    run_stage(tmp_path / "draft" / "text", tmp_path / "data" / "text", "key", Work())
    (tmp_path / "draft" / ".train.draft").mkdir()
    (tmp_path / "draft" / ".train.draft" / "tokens").write_text("half")
    (tmp_path / "draft" / "report.json").write_text("{}")
    clear_stages(tmp_path / "draft", ("text", "train"))
    assert [path.name for path in (tmp_path / "draft").iterdir()] == ["text"]
    clear_stages(tmp_path / "absent", ("text",))
