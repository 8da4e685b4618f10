"""constraints.txt and requirements/light.txt: pins of what is tested, and nothing else."""

import runpy
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
GENERATOR = runpy.run_path(str(ROOT / "requirements" / "generate_light.py"))


def read_pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if "==" in line]
    return {canonicalize_name(name): Version(version) for name, version in pins}


def test_every_pin_is_of_what_the_tests_install() -> None:
    wanted = [*GENERATOR["PROJECT"]["build-system"]["requires"], "mtkit[dev,test]"]
    platforms = [*GENERATOR["UNIX"], *GENERATOR["WINDOWS"]]
    assert sorted(read_pins().keys() - GENERATOR["list_reached"](wanted, platforms)) == []


def test_no_pin_is_a_pre_release() -> None:
    assert [name for name, version in read_pins().items() if version.is_prerelease] == []


def test_the_light_install_is_up_to_date() -> None:
    light = (ROOT / "requirements" / "light.txt").read_text("utf-8")
    assert light == GENERATOR["render_light"](), "run requirements/generate_light.py"
