"""Error responses."""

import sys
import traceback
from dataclasses import dataclass

from mtkit.errors import MtkitError


class RequestError(Exception):
    """Ends a request with an error.

    Attributes:
        status: The HTTP status code.
        message: Sent in the response.
        headers: Additional headers of the response.
        line: The invalid line, from 1; None for all.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        headers: dict[str, str] | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.headers, self.line = status, message, headers or {}, line


def log_bug(error: BaseException) -> None:
    """Prints where an error comes from, without its message, which may contain a text."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    print(f"{frames}{type(error).__name__}", file=sys.stderr, flush=True)


def busy(message: str, retry_seconds: int) -> RequestError:
    """Returns the error of a busy server."""
    return RequestError(503, message, headers={"Retry-After": str(retry_seconds)})


@dataclass(frozen=True)
class LineFault:
    """An error instead of a line's translation.

    Attributes:
        message: Without the line's number.
        is_fault_of_server: The line itself isn't invalid, as far as is known.
        is_of_neighbour: The error is in another line of the request.
    """

    message: str
    hint: str = ""
    is_fault_of_server: bool = False
    is_of_neighbour: bool = False

    @classmethod
    def of(cls, error: MtkitError) -> "LineFault":
        """Returns the error that a translator reports."""
        return cls(error.message, error.hint)
