"""Each package's docstring is a map of its room: it names every file there is, and no other."""

import ast
import re
from pathlib import Path

import pytest

import mtkit

ROOT = Path(mtkit.__file__).parent
PACKAGES = sorted(file.parent for file in ROOT.rglob("__init__.py"))
ARCHITECTURE = ROOT.parent / "docs" / "architecture.md"
_NAME = re.compile(r"(?<![\w/*{}.])([a-z_][a-z0-9_]*(?:\.py|/))(?=[\s,:;]|$)")


def read_map(package: Path) -> set[str]:
    """Returns the files and rooms that lead a line of a package's docstring."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    named: set[str] = set()
    for line in docstring.splitlines():
        # Names lead a line, several apart by commas or bars; what follows describes them.
        leading = re.match(r"\s*(?:[a-z0-9_]+(?:\.py|/)(?:,? \| |, |,$|\s+|$))+", line)
        named |= set(_NAME.findall(leading[0])) if leading else set()
    return named


def list_room(package: Path) -> set[str]:
    """Returns the files and rooms that lie in a package."""
    files = {file.name for file in package.glob("*.py")} - {"__init__.py", "__main__.py"}
    return files | {f"{file.parent.name}/" for file in package.glob("*/__init__.py")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_a_map_names_what_is_in_the_room(package: Path) -> None:
    assert read_map(package) == list_room(package)


@pytest.mark.skipif(not ARCHITECTURE.is_file(), reason="installed without docs")
def test_the_architecture_names_the_rooms_there_are() -> None:
    text = ARCHITECTURE.read_text("utf-8")
    [drawn] = re.findall(r"^    mtkit/\n((?:      .*\n)+)", text, re.MULTILINE)
    rooms = set(re.findall(r"^      ([a-z]+/) ", drawn, re.MULTILINE))
    files = set(re.findall(r"([a-z_]+\.py)", drawn))
    assert rooms == {name for name in list_room(ROOT) if name.endswith("/")}
    assert files == {name for name in list_room(ROOT) if name.endswith(".py")}
