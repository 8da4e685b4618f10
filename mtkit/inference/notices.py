"""What is said of single lines: faults, and warnings that don't flood the screen."""

from types import TracebackType
from typing import Self

from mtkit.console import warn
from mtkit.errors import MtkitError

_WARNINGS_OF_A_KIND = 5


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


class Notices:
    """Warnings about a stream's lines: the first few of each kind, then how many more there were.

    It belongs to one stream or call, and sums up when that ends, however it ends:

        with Notices() as notices:
            notices.tell("too long", "input line 7 is too long")

    Args:
        is_heard: Whether anything is printed at all.
    """

    def __init__(self, *, is_heard: bool = True) -> None:
        self._is_heard = is_heard
        self._counts: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for told, count in self._counts.items():
            if self._is_heard and count > _WARNINGS_OF_A_KIND:
                warn(f"{count - _WARNINGS_OF_A_KIND:,} more lines: {told}")

    def tell(self, kind: str, text: str) -> None:
        """Prints a warning, unless there were enough of its kind."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._is_heard and self._counts[kind] <= _WARNINGS_OF_A_KIND:
            warn(text)
