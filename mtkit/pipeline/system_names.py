"""Short names for the systems whose files are scored."""

from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

from mtkit.paths import as_text


def name_systems(files: Sequence[Path]) -> list[str]:
    """Returns a name for each file: the part that others lack; no two are the same.

    Of `newstest.A.de` and `newstest.B.de` these are `A` and `B`. Of one file alone it is the file's
    name; the path where names are alike. Bytes and characters that a table can't hold are escaped.
    """
    names: list[str] = []
    for name in map(as_text, _tell_apart(files)):
        # Once escaped, a name may be what another file is really called.
        numbered = (f"{name} ({number})" for number in count(2))
        names.append(next(each for each in chain([name], numbered) if each not in names))
    return names


def _tell_apart(files: Sequence[Path]) -> list[str]:
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        return _cut([str(file) for file in files], "/")
    return _cut(names, ".")


def _cut(names: Sequence[str], separator: str) -> list[str]:
    """Returns the names without the first and last parts that all of them share."""
    if len(set(names)) < 2:
        return list(names)
    parts = [name.split(separator) for name in names]
    shortest = min(map(len, parts))
    first = last = 0
    while first < shortest - 1 and len({each[first] for each in parts}) == 1:
        first += 1
    while last < shortest - 1 - first and len({each[-1 - last] for each in parts}) == 1:
        last += 1
    cut = [separator.join(each[first : len(each) - last]) for each in parts]
    return cut if all(cut) else list(names)
