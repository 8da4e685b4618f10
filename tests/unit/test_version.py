"""The command, the package's metadata and the changelog name one version."""

import re
import tomllib
from pathlib import Path

from mtkit.version import __version__

from ..command import run_here

ROOT = Path(__file__).parents[2]


def test_one_version_everywhere(tmp_path: Path) -> None:
    said = run_here(tmp_path, "--version").stdout
    assert re.search(r"\bmtkit (\S+)", said)[1] == __version__, said
    newest, *_ = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest == __version__
    # The wheel's version is read from that file when it is built.
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in settings["project"]["dynamic"]
    assert ROOT / settings["tool"]["hatch"]["version"]["path"] == ROOT / "mtkit" / "version.py"
