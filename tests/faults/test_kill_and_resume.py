"""Killed and resumed = never killed; the script beside this file does it as often as is wanted."""

import pytest

from .kill_and_resume import AIMS, Harness


@pytest.mark.slow
def test_killed_while_saving_while_validating_and_at_any_moment(tmp_path) -> None:
    harness = Harness(tmp_path)
    harness.prepare()
    kills = [harness.kill(number) for number in range(3)]
    assert [kill.describe() for kill in kills if kill.differences] == []
    assert {kill.aim for kill in kills} == set(AIMS)
    assert [kill.phase.split()[0] for kill in kills if kill.aim != "any moment"] == [
        "saving",
        "validating",
    ]
