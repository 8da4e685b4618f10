"""Short names for the systems whose files are scored."""

from collections.abc import Sequence
from itertools import chain, count, takewhile
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
    # One part of each is left in any case.
    spare = min(map(len, parts)) - 1
    first = min(spare, _count_shared(parts))
    last = min(spare - first, _count_shared([each[::-1] for each in parts]))
    cut = [separator.join(each[first : len(each) - last]) for each in parts]
    return cut if all(cut) else list(names)


def _count_shared(parts: Sequence[Sequence[str]]) -> int:
    """Returns how many first parts are the same in all."""
    return len(list(takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False))))
