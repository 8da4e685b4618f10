"""The `inference.flags` section: when a translation is flagged, without a reference."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from mtkit.recipe.section import Count, CountFromZero, Section, Share, refuse_boundless

FlagName = Literal[
    "copied",
    "wrong language",
    "looping",
    "too short",
    "too long",
    "numbers differ",
    "addresses differ",
    "unlikely",
    "poorly covered",
]
FLAG_NAMES: tuple[FlagName, ...] = get_args(FlagName)


class Flags(Section):
    """Flags translations that look wrong, alone or compared with their source.

    A flag is a reason to look at a line. Good translations have some, and many bad ones have none:
    a fluent sentence that says something else isn't found. With the defaults, each flag that text
    alone decides is on less than one in a hundred lines of sixteen real systems, taken together.
    """

    names: tuple[FlagName, ...] = FLAG_NAMES
    """Flags that are looked for."""
    max_copied: Share = 0.7
    """`copied`: maximum share of the translation's words that occur in the source. Numbers and
    capitalised words, which may be names, aren't counted; fewer than four words aren't judged."""
    min_confidence: Share = 0.8
    """`wrong language`: minimum probability of another language."""
    min_letters: Count = 15
    """`wrong language`: minimum number of letters; too many shorter lines are misidentified. A
    letter of Han counts as three, a kana or a syllable of Hangul as two."""
    max_repeats: Annotated[int, Field(ge=2, le=1_000)] = 3
    """`looping`: maximum number of times in a row that a word may occur; two to four words may
    once less, more words twice less, and a few characters twice as often less one. What the source
    repeats as often isn't flagged."""
    length_ratio: Annotated[float, Field(gt=0.0, le=100.0)] | None = None
    """`too short`, `too long`: target characters per source character that are expected, where a
    letter of Han counts as three, a kana or a syllable of Hangul as two; default: the development
    set's, saved with a model that is trained with this section, and 1 without them."""
    max_ratio: Annotated[float, Field(gt=1.0), AfterValidator(refuse_boundless)] = 1.7
    """`too short`, `too long`: maximum ratio of the longer side to the shorter, as in
    `data.cleaning.length_ratio`, the characters counted in that way."""
    smoothing: Count = 15
    """`too short`, `too long`: characters added to both lengths, so that short lines may differ
    more."""
    max_other_numbers: CountFromZero = 0
    """`numbers differ`: maximum number of numbers that are missing, or aren't in the source."""
    max_other_addresses: CountFromZero = 0
    """`addresses differ`: maximum number of web and e-mail addresses that are missing or new."""
    min_log_probability: Annotated[float, Field(le=0.0, ge=-1_000.0)] = -2.5
    """`unlikely`: minimum mean natural log-probability of a token, for a model's own translations.
    A good human translation has a lower one: -5 flags about 1 % of references. Models
    differ in it, so measure yours."""
    min_coverage: Share = 0.33
    """`poorly covered`: minimum share of the source's words that are linked to a word of the
    translation; looked for where `inference.alignments` is on. Models differ in it, too."""
