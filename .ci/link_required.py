"""Links what a wheel requires, and no more, from this environment into another one.

    python .ci/link_required.py WHEEL SITE_PACKAGES

pip would download the same versions again. Without what the wheel doesn't declare, an import of it
fails in the other environment.
"""

import os
import shutil
import sys
import zipfile
from email.parser import BytesParser
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement


def read_requirements(wheel: Path) -> list[str]:
    """Returns what a wheel's metadata require."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name)).get_all("Requires-Dist", [])


def find_distributions(requirements: list[str]) -> list[Distribution]:
    """Returns what is required, directly or not, in the versions that are here."""
    found: dict[tuple[str, str], Distribution] = {}
    remaining = [(text, "") for text in requirements]
    while remaining:
        text, extra = remaining.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        here = distribution(requirement.name)
        if not requirement.specifier.contains(here.version, prereleases=True):
            sys.exit(f"{text} is required, but {here.version} is here")
        for each in ("", *requirement.extras):
            if (requirement.name, each) not in found:
                found[requirement.name, each] = here
                remaining += [(more, each) for more in here.requires or []]
    return [here for (_, extra), here in found.items() if not extra]


def link(here: Distribution, folder: Path) -> None:
    """Links a distribution's files, and their bytecode."""
    for file in here.files or []:
        if ".." in file.parts:
            # A program, which mtkit doesn't run.
            continue
        source, target = Path(str(file.locate())), folder / file
        paths = [(source, target)]
        if source.suffix == ".py":
            paths.append((Path(cache_from_source(source)), Path(cache_from_source(target))))
        for original, copy in paths:
            if original.is_file() and not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(original, copy)
                except OSError:
                    # Another disk.
                    shutil.copy2(original, copy)


def main() -> None:
    """Links them."""
    wheel, folder = map(Path, sys.argv[1:])
    for here in find_distributions(read_requirements(wheel)):
        link(here, folder)


main()
