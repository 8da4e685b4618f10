"""constraints.txt: pins of what is tested, and nothing else."""

import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PLATFORMS = (("linux", "Linux"), ("win32", "Windows"), ("darwin", "Darwin"))


def read_pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if "==" in line]
    return {canonicalize_name(name): Version(version) for name, version in pins}


def is_wanted(requirement: Requirement, extras: set[str]) -> bool:
    return requirement.marker is None or any(
        requirement.marker.evaluate(
            {"extra": extra, "sys_platform": name, "platform_system": system}
        )
        for extra in ("", *extras)
        for name, system in PLATFORMS
    )


def list_tested() -> set[str]:
    """Returns what the tested installation reaches: mtkit, its build, and two of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    waiting = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        "mtkit[dev,test]",
    ]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = Requirement(waiting.pop())
        name = canonicalize_name(wanted.name)
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        if name == "mtkit":
            waiting += [each for extra in wanted.extras for each in extras[extra]]
            continue
        try:
            found = map(Requirement, requires(name) or ())
        except PackageNotFoundError:
            continue  # Of another platform.
        waiting += [str(each) for each in found if is_wanted(each, wanted.extras)]
    return {name for name, _ in seen}


def test_every_pin_is_of_what_the_tests_install() -> None:
    assert sorted(read_pins().keys() - list_tested()) == []


def test_no_pin_is_a_pre_release() -> None:
    assert [name for name, version in read_pins().items() if version.is_prerelease] == []
