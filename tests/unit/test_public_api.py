"""`import mtkit` costs nothing, and the names it promises are there."""

import subprocess
import sys

import pytest

import mtkit


def test_importing_loads_nothing_heavy() -> None:
    program = (
        "import sys, mtkit\n"
        "print(sorted({'torch', 'pydantic', 'sacrebleu', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", mtkit.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(mtkit, name).__doc__
    assert name in dir(mtkit)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'fly'"):
        mtkit.fly  # noqa: B018
