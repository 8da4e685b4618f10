"""What files at a URL have in common: versions, and retries of requests."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mtkit.errors import MtkitError

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each retry of a request that failed."""
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that a retry may change."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class FileVersion:
    """What distinguishes a version of a file at a URL from others."""

    num_bytes: int | None
    validator: str

    def is_other(self, found: "FileVersion") -> bool:
        """Checks that a later response is of another version."""
        return self.validator != found.validator or (
            None not in (self.num_bytes, found.num_bytes) and self.num_bytes != found.num_bytes
        )


@dataclass(frozen=True)
class Failure:
    """Why a request failed.

    Attributes:
        error: For the user, if it fails for good.
        is_transient: Whether a retry may help.
        wait_seconds: Minimum pause before the retry.
    """

    error: MtkitError
    is_transient: bool = True
    wait_seconds: float = 0.0


def retry(
    work: Callable[[], _Result],
    errors: tuple[type[Exception], ...],
    explain: Callable[[Exception], Failure],
) -> _Result:
    """Returns what a request gives, after some retries where the network or the server fails.

    Raises:
        MtkitError: It fails for good.
    """
    for pause in (*PAUSES, None):
        try:
            return work()
        except errors as error:
            failure = explain(error)
            if pause is None or not failure.is_transient:
                raise failure.error from error
        time.sleep(max(pause, failure.wait_seconds))
    raise AssertionError("the last try returns or raises")


def mask_secrets(url: str) -> str:
    """Returns a URL without what may be a password or a signature."""
    slashes = re.search(":/+", url)
    start = slashes.end() if slashes else 0
    user, _, host = url[start:].rpartition("@")
    rest = f"...@{host}" if ":" in user else url[start:]
    return url[:start] + re.sub(r"([?#]).*", r"\1...", rest, flags=re.DOTALL)


def changed_meanwhile(url: str) -> MtkitError:
    """Returns the error of a file that was replaced between two requests."""
    return MtkitError(f"{url}: changed while it was being read", "run the same command again")
