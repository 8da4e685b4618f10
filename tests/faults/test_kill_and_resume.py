"""Killed and resumed = never killed; the script beside this file does it as often as is wanted."""

import shutil
from pathlib import Path

import pytest

from .. import warm
from ..phrasebook_text import write_text
from .kill_and_resume import AIMS, RECIPE, Harness

STAGES = """
[[data.train]]
builtin = "phrasebook"
sentences = 600
[[training.stages]]
steps = 20
weights = { phrasebook-2 = 0 }
[[training.stages]]
steps = 5
weights = { phrasebook = 0 }
[[training.stages]]
weights = {}
"""
"""The first stage ends with a checkpoint about where kills come, the second soon after."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "aims",
    [("validating",), pytest.param(sorted(set(AIMS)), marks=pytest.mark.patient)],
    ids=["aimed", "at any moment too"],
)
@pytest.mark.parametrize(
    "recipe",
    [
        "tiny",
        *(
            pytest.param(f"tiny-{kind}", marks=pytest.mark.patient)
            for kind in ("staged", "causal", "masked")
        ),
    ],
)
def test_killed_while_saving_and_while_validating(tmp_path, aims, recipe: str) -> None:
    is_staged = recipe == "tiny-staged"
    source = RECIPE if is_staged else RECIPE.with_name(f"{recipe}.toml")
    copied = shutil.copy(source, tmp_path)
    if is_staged:
        with Path(copied).open("a", encoding="utf-8") as stream:
            stream.write(STAGES)
    elif recipe != "tiny":
        write_text(tmp_path)
    # A kill at any moment could come after the end of fewer, and stages need as many.
    num_steps = 24 if recipe == "tiny" and aims == ("validating",) else 40
    harness = Harness(tmp_path, recipe=Path(copied), num_steps=num_steps, command=warm.command())
    harness.prepare()
    kills = [harness.kill(AIMS.index(aim)) for aim in aims]
    assert [kill.describe() for kill in kills if kill.differences] == []
    assert [kill.aim for kill in kills] == list(aims)
    aimed = [kill for kill in kills if kill.aim != "any moment"]
    assert [kill.phase.split()[0] for kill in aimed] == [kill.aim for kill in aimed]
