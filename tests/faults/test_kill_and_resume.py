"""Killed and resumed = never killed; the script beside this file does it as often as is wanted."""

import shutil
from pathlib import Path

import pytest

from .. import warm
from ..phrasebook_text import write_text
from .kill_and_resume import AIMS, RECIPE, Harness


@pytest.mark.slow
@pytest.mark.parametrize(
    "aims",
    [("validating",), pytest.param(sorted(set(AIMS)), marks=pytest.mark.patient)],
    ids=["aimed", "at any moment too"],
)
@pytest.mark.parametrize(
    "recipe",
    ["tiny", *(pytest.param(f"tiny-{k}", marks=pytest.mark.patient) for k in ("causal", "masked"))],
)
def test_killed_while_saving_and_while_validating(tmp_path, aims, recipe: str) -> None:
    copied = shutil.copy(RECIPE.with_name(f"{recipe}.toml"), tmp_path)
    if recipe != "tiny":
        write_text(tmp_path)
    harness = Harness(tmp_path, recipe=Path(copied), num_steps=40, command=warm.command())
    harness.prepare()
    kills = [harness.kill(AIMS.index(aim)) for aim in aims]
    assert [kill.describe() for kill in kills if kill.differences] == []
    assert [kill.aim for kill in kills] == list(aims)
    aimed = [kill for kill in kills if kill.aim != "any moment"]
    assert [kill.phase.split()[0] for kill in aimed] == [kill.aim for kill in aimed]
