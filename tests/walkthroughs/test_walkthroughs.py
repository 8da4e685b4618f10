"""The walk-throughs of CONTRIBUTING.md apply to this tree, and their tests pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
DIFFS = {path.stem: path for path in sorted((ROOT / "docs" / "walkthroughs").glob("*.diff"))}
pytestmark = pytest.mark.skipif(not DIFFS, reason="installed without docs")
_SHOWN = re.compile(
    r"^### .*?\(docs/walkthroughs/(.+?)\.diff\).*?^```diff\n(.*?)^```$", re.M | re.S
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package and its tests, with bytecode, without git's files."""
    folder = tmp_path / "tree"
    for name in ("mtkit", "tests"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(tree: Path, *command: str) -> None:
    # git must not take a repository around the folder for its own, nor a test the tests' server.
    own = ("GIT_", "MTKIT_", "PYTEST_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    env |= {"GIT_CEILING_DIRECTORIES": str(tree.parent), "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        # One process imports torch once; alone each shows that it needs no other.
        pytest.param(list(DIFFS), id="together"),
        *(pytest.param([name], id=name, marks=pytest.mark.patient) for name in DIFFS),
    ],
)
def test_they_apply_and_their_tests_pass(tree: Path, names: list[str]) -> None:
    texts = [DIFFS[name].read_text("utf-8") for name in names]
    run(tree, "git", "apply", *(str(DIFFS[name]) for name in names))
    tests = re.findall(r"^\+\+\+ b/(tests/.*/test_\w+\.py)$", "\n".join(texts), re.M)
    assert len(tests) >= len(names)
    run(tree, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


def test_the_page_shows_lines_of_each() -> None:
    shown = dict(_SHOWN.findall(PAGE.read_text("utf-8")))
    assert shown.keys() == DIFFS.keys()
    for name, block in shown.items():
        lines = DIFFS[name].read_text("utf-8").splitlines()
        changed = [line for line in block.splitlines() if line[:1] in ("+", "-")]
        assert changed
        assert [line for line in changed if line not in lines] == []


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= 250
