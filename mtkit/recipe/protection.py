"""The `inference.protect` section: what a translation must keep as it is."""

import math
import re
from typing import Annotated, Literal

import regex
from pydantic import AfterValidator, Field

from mtkit.recipe.section import CountFromZero, Section

_MAX_PATTERNS = 64
_REPEATS = re.compile(r"\{(\d+)[,}]")
_MAX_REPEATS = 100_000
"""Maximum product of a pattern's minimum repetitions: the package expands `(a{99}){99}`."""


def refuse_invalid(pattern: str) -> str:
    """Returns a valid regular expression that doesn't match the empty string.

    Raises:
        ValueError: It isn't one.
    """
    # A number of thousands of digits can't be read.
    repeats = [int(each[:9]) for each in _REPEATS.findall(pattern)]
    if math.prod(max(1, each) for each in repeats) > _MAX_REPEATS:
        raise ValueError("too many repetitions in this regular expression: lower its {counts}")
    try:
        compiled = regex.compile(pattern)
        matches_empty = compiled.fullmatch("", timeout=0.1) is not None
    # A pattern may be nested deeper than Python's stack, or name lists that aren't there.
    except (regex.error, RecursionError, OverflowError, KeyError, TimeoutError) as error:
        raise ValueError(f"invalid regular expression: {error}") from error
    if matches_empty:
        raise ValueError("this regular expression matches an empty string: say what is in it")
    return pattern


Pattern = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(refuse_invalid)]


ProtectionWay = Literal["masked", "constrained", "n_best"]


class Protect(Section):
    """Pieces of a line that a translation must keep, as often and as they are written.

    If a translation loses one, mtkit searches again in the ways of `ways`, in order. If none keeps
    all pieces, the first translation stays, with a warning.
    """

    urls: bool = True
    """Protect web addresses."""
    emails: bool = True
    """Protect e-mail addresses."""
    placeholders: bool = True
    """Protect placeholders of programs, `{name}`, `{0}`, `%s`, `%(count)d`, `%1`, `$NAME`,
    `${NAME}`, `<0>`, and whole ICU messages such as `{n, plural, one {# file} other {# files}}`."""
    paths: bool = True
    """Protect paths of files: `/etc/passwd`, `~/.config/x`, `src/main.py`, `C:\\dir\\file`."""
    versions: bool = True
    """Protect versions: `1.2.3`, `v2.0.1`, `2.0-rc1`."""
    options: bool = True
    """Protect options of commands: `--output`, `-v`, `-j4`."""
    numbers: bool = True
    """Protect numbers in digits. 1,000.5 and 1.000,5 are the same; a number may be there more often
    than in the line, as one of its words can become digits."""
    min_number: CountFromZero = 0
    """Numbers below it aren't protected, as languages write small ones in words."""
    patterns: Annotated[tuple[Pattern, ...], Field(max_length=_MAX_PATTERNS)] = ()
    """Regular expressions of text to protect, in the syntax of the package `regex`. All of them
    together have a quarter of a second of CPU time for a line: one that takes longer matches
    nothing there, and the line gets a warning."""
    ways: Annotated[tuple[ProtectionWay, ...], Field(max_length=8)] = (
        "masked",
        "constrained",
        "n_best",
    )
    """Searches for a translation that keeps all pieces, in this order: `masked`, with symbols
    instead of lost pieces, if the model learned to copy them (`data.augment.placeholders`);
    `constrained`, among outputs that contain the lost pieces; `n_best`, among the best of a wider
    beam. Without any, lines are only checked."""
    beam_size: Annotated[int, Field(ge=1, le=1_000)] = 8
    """Beam size of these searches, if it is larger than `inference.beam_size`."""
