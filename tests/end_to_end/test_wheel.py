"""What an installed wheel holds: recipes and the phrasebook load without a checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """\
import mtkit, sys
from mtkit.data.phrasebook import generate_pairs
from mtkit.recipe import load_recipe, shipped_recipes
assert mtkit.__file__.startswith(sys.argv[1]), mtkit.__file__
assert len(list(generate_pairs("dev", 2))) == 2
for name in shipped_recipes():
    print(load_recipe(name).name)
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site-packages")
    return folder / "site-packages"


def test_shipped_recipes_load_by_name(unpacked: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(unpacked)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    in_checkout = sorted(path.stem for path in (ROOT / "recipes").rglob("*.toml"))
    assert sorted(done.stdout.split()) == in_checkout


def test_nothing_else_is_shipped(unpacked: Path) -> None:
    folders = {path.name for path in unpacked.iterdir()}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"mtkit"}
    [metadata] = unpacked.glob("*.dist-info")
    assert (metadata / "licenses" / "LICENSE").is_file()


def test_type_checkers_read_the_annotations(unpacked: Path) -> None:
    # PEP 561: without this file they ignore those of an installed package.
    assert (unpacked / "mtkit" / "py.typed").is_file()
