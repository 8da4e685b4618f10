"""Lines of a block that can't be read, reported together."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from mtkit.errors import MtkitError

_SHOWN = 5
_Row = TypeVar("_Row")


def parse_lines(
    lines: Sequence[str], first_line: int, parse: Callable[[str, int], _Row]
) -> list[_Row]:
    """Returns what each line holds.

    Args:
        lines: The lines.
        first_line: Number of the first.
        parse: Returns what a line holds, given its number.

    Raises:
        MtkitError: `parse` raised it, of one line or of several.
    """
    rows: list[_Row] = []
    faults: list[tuple[int, MtkitError]] = []
    for number, line in enumerate(lines, start=first_line):
        try:
            rows.append(parse(line, number))
        except MtkitError as error:
            faults.append((number, error))
    check_lines(faults, len(lines))
    return rows


def check_lines(faults: Sequence[tuple[int, MtkitError]], num_lines: int) -> None:
    """Checks that no line is broken.

    Args:
        faults: Number and fault of each broken line.
        num_lines: Lines that were read together.

    Raises:
        MtkitError: Some are: the first one's fault, with how many there are, and which.
    """
    if not faults:
        return
    _, first = faults[0]
    if len(faults) == 1:
        raise first
    shown = ", ".join(str(number) for number, _ in faults[:_SHOWN])
    more = ", ..." if len(faults) > _SHOWN else ""
    raise MtkitError(
        f"{first.message}; {len(faults):,} of {num_lines:,} lines are broken: {shown}{more}",
        first.hint,
    ) from first
