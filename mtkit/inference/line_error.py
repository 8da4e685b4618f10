"""The fault of a single line of input."""

from typing import Self

from mtkit.errors import MtkitError


class LineError(MtkitError):
    """A fault of one line of input; the lines before it can still be answered.

    Attributes:
        line: Its number, the first being 1.
    """

    def __init__(self, line: int, fault: str, hint: str = "") -> None:
        super().__init__(f"input line {line}: {fault}", hint)
        self.line = line
        self._fault = fault

    def __reduce__(self) -> tuple[type[Self], tuple[int, str, str]]:
        # An exception is made again from its message alone, which isn't what this one takes.
        return type(self), (self.line, self._fault, self.hint)
