"""The one exception that a user's fault raises, and how close spellings are found."""

import difflib
from collections.abc import Iterable


class MtkitError(Exception):
    """A fault that the user can mend: what was found and where, and the next thing to type.

    Attributes:
        message: What was found, where (file:line or recipe key), and what was expected.
        hint: The next thing to do, as a sentence or a command; empty where there is none.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean 'x'?)` for the known name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""
