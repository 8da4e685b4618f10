"""Which files make a model, and what happens when they are replaced under a reader's hands."""

import shutil
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.folders import building
from mtkit.model.digest import digest_model, reading
from mtkit.model.folder import load_model_folder


def replace(folder: Path, name: str = "") -> None:
    """Puts a copy of a model in its place, one byte longer in a file."""
    with building(folder) as draft:
        shutil.copytree(folder, draft, dirs_exist_ok=True)
        if name:
            with (draft / name).open("ab") as stream:
                stream.write(b" ")


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("model.safetensors", True),
        ("config.json", True),
        ("joint.spm", True),
        ("tokenizer.json", True),
        ("inference.json", False),
        ("README.md", False),
        ("ctranslate2/model.bin", False),
    ],
)
def test_a_model_is_what_decides_how_it_translates(folder: Path, name: str, is_part: bool) -> None:
    (folder / "ctranslate2").mkdir()
    (folder / "ctranslate2" / "model.bin").touch()
    before = digest_model(folder)
    replace(folder)
    assert digest_model(folder) == before
    replace(folder, name)
    assert (digest_model(folder) != before) == is_part


def test_a_model_that_is_replaced_while_it_is_read(folder: Path) -> None:
    with reading(folder):
        load_model_folder(folder)
    with pytest.raises(MtkitError, match="was replaced by another command"):
        _read_while_it_is_replaced(folder)
    # What doesn't fit may be of two models, too.
    with pytest.raises(MtkitError, match="was replaced by another command"):
        _read_while_it_is_replaced(folder, MtkitError("doesn't fit"))
    with pytest.raises(MtkitError, match="doesn't fit"), reading(folder):
        raise MtkitError("doesn't fit")


def _read_while_it_is_replaced(folder: Path, fault: MtkitError | None = None) -> None:
    with reading(folder):
        load_model_folder(folder)
        replace(folder)
        if fault is not None:
            raise fault
