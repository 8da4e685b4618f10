"""The error that a request is answered with."""

import sys
import traceback
from dataclasses import dataclass

from mtkit.errors import MtkitError


class RequestError(Exception):
    """Ends a request with an error.

    Attributes:
        status: The HTTP status code.
        message: Goes into the answer.
        headers: More headers of the answer.
        line: Which of the request's lines is at fault, the first being 1; None for all.
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
    """Prints where an error comes from, without its message, which may hold a text."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    print(f"{frames}{type(error).__name__}", file=sys.stderr, flush=True)


def busy(message: str, retry_seconds: int) -> RequestError:
    """Returns the error of a server that can't take more now.

    Args:
        message: What is full, or missing.
        retry_seconds: When to try again.
    """
    return RequestError(503, message, headers={"Retry-After": str(retry_seconds)})


@dataclass(frozen=True)
class LineFault:
    """What a model says in place of a line's translation.

    Attributes:
        message: What was found, without the line's number.
        hint: What to do; may be empty.
        is_fault_of_server: Whether the line itself is innocent, as far as is known.
        is_of_neighbour: Whether another line of the request is at fault.
    """

    message: str
    hint: str = ""
    is_fault_of_server: bool = False
    is_of_neighbour: bool = False

    @classmethod
    def of(cls, error: MtkitError) -> "LineFault":
        """Returns the fault that a translator reports."""
        return cls(error.message, error.hint)
