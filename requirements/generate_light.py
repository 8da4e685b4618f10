"""Writes requirements/light.txt: what `mtkit translate`, `serve` and `score` need, pinned.

Run it where mtkit is installed with the extra `serve`, after a change of pyproject.toml or
constraints.txt.
"""

import tomllib
from collections.abc import Collection, Iterable
from importlib.metadata import PackageNotFoundError, requires
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mtkit.errors import FULL_INSTALL

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
UNIX = (("linux", "Linux"), ("darwin", "Darwin"))
WINDOWS = (("win32", "Windows"),)
_VERSIONS = ("3.11", "3.12", "3.13")
_HEADER = (
    "# Made by requirements/generate_light.py: pip install --no-deps -r requirements/light.txt .\n"
)


def list_reached(
    wanted: Iterable[str],
    platforms: Iterable[tuple[str, str]],
    without: Collection[str] = (),
) -> set[str]:
    """Returns the names of required packages, and of all that they require, on any platform."""
    project = PROJECT["project"]
    waiting = list(wanted)
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen or name in without:
            continue
        seen.add((name, extras))
        if name == "mtkit":
            found = [each for extra in extras for each in project["optional-dependencies"][extra]]
            found += project["dependencies"]
        else:
            try:
                found = requires(name) or []
            except PackageNotFoundError:
                continue  # Of another platform.
        waiting += [each for each in found if _is_needed(Requirement(each), extras, platforms)]
    return {name for name, _ in seen}


def _is_needed(
    requirement: Requirement, extras: Iterable[str], platforms: Iterable[tuple[str, str]]
) -> bool:
    return requirement.marker is None or any(
        requirement.marker.evaluate(
            {
                "extra": extra,
                "sys_platform": name,
                "platform_system": system,
                "python_version": version,
                "python_full_version": f"{version}.0",
            }
        )
        for extra, (name, system), version in product(("", *extras), platforms, _VERSIONS)
    )


def render_light() -> str:
    """Returns the content of light.txt."""
    names = list_reached(["mtkit[serve]"], UNIX, without=FULL_INSTALL) - {"mtkit"}
    pins = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    by_name = {canonicalize_name(pin.split("==")[0]): pin for pin in pins if "==" in pin}
    return _HEADER + "".join(f"{by_name[name]}\n" for name in sorted(names))


if __name__ == "__main__":
    (ROOT / "requirements" / "light.txt").write_text(render_light(), encoding="utf-8")
