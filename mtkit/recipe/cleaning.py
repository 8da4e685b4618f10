"""The `data.cleaning` section: which training pairs are left out."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mtkit.recipe.section import Count, CountFromZero, Section, refuse_boundless

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Filter(Section):
    """A rule that leaves pairs out.

    Most are on without being named, so a section that is absent can't say "off": a key does.
    """

    enabled: bool = True
    """Whether the filter runs."""


class Encoding(Filter):
    """Repairs stray characters; drops pairs with control characters or a broken encoding.

    Repaired: C1 controls are read as Windows-1252, tabs and line separators become spaces,
    byte-order marks, zero-width spaces and soft hyphens go. Dropped: what is left of controls,
    U+FFFD, noncharacters, private use, and UTF-8 that was read as Windows-1252 or Latin-1.
    """

    invalid_utf8: Literal["error", "drop"] = "error"
    """Invalid UTF-8: end `prepare` with an error, or drop the pair."""


class Length(Filter):
    """Drops pairs with a side that is too long or too short."""

    min_characters: Count = 1
    """Minimum length of either side in characters."""
    max_characters: Count = 2_000
    """Maximum length of either side in characters."""


class LengthRatio(Filter):
    """Drops pairs whose sides differ too much in length.

    The ratio is (t + c) / (balance * s + c) or its inverse, whichever is greater: s and t are the
    lengths in characters, balance is the development set's target characters per source character,
    c is `smoothing`.
    """

    max_ratio: Annotated[float, Field(gt=1.0), AfterValidator(refuse_boundless)] = 2.0
    """Maximum ratio of the longer side to the shorter, after balancing."""
    smoothing: Count = 15
    """Characters added to both sides, so that short sentences may differ more."""


class Identical(Filter):
    """Drops pairs whose sides are the same but for case and spaces."""


class Letters(Filter):
    """Drops pairs with a side that is mostly digits, punctuation or symbols."""

    min_share: Share = 0.4
    """Minimum share of letters and combining marks among a side's characters, spaces left out."""


class Script(Filter):
    """Drops pairs with a side that isn't written in its language's script."""

    min_share: Share = 0.2
    """Minimum share of a side's letters in a script of its language. A letter of a script written
    without spaces, such as Han, counts for three; one that belongs to no one script, for none."""
    source: tuple[str, ...] = ()
    """Scripts of the source by ISO 15924 code, such as `["Cyrl", "Latn"]`; empty takes what CLDR
    says of the language."""
    target: tuple[str, ...] = ()
    """Scripts of the target; empty takes what CLDR says of the language."""


class Numbers(Filter):
    """Drops pairs whose sides hold different numbers.

    Numbers written in digits are compared by value; separators of thousands are ignored, and a
    decimal separator parts two numbers. Where too few match, each side is read as it fits the
    other best: digits in groups as one number or as several, with units such as 万, 亿 and million,
    三十五 as 35.
    """

    min_value: CountFromZero = 10
    """Minimum number that is compared: smaller ones are often spelled out on one side."""
    min_numbers: Count = 2
    """Numbers on the side with more of them from which the pair is judged."""
    min_match: Share = 0.3
    """Minimum share of that side's numbers that the other side has too."""


class Urls(Filter):
    """Drops pairs whose sides hold different web or e-mail addresses."""

    min_match: Share = 0.5
    """Minimum share of the addresses of both sides that the other side has too."""


class Repetition(Filter):
    """Drops pairs with a side that repeats one to four words, or characters, again and again.

    Characters are looked at in scripts written without spaces.
    """

    max_repeats: Count = 4
    """Maximum number of times in a row that the same stretch may stand."""


class LanguageIdentification(Filter):
    """Drops pairs with a side in another language (py3langid; `pip install "mtkit[language-id]"`).

    Off by default: it needs that package, and takes more time than all the others together.
    """

    enabled: bool = False
    """Whether the filter runs."""
    min_characters: Count = 15
    """Minimum length in characters of a side that is identified; of shorter ones too many are
    mistaken."""
    min_confidence: Share = 0.5
    """Minimum probability that the model gives another language for it to count."""
    candidates: tuple[str, ...] = ()
    """Languages to choose among beside the pair's own, as ISO 639-1 codes; empty takes some 40
    widely written ones."""


class Overlap(Filter):
    """Drops pairs with a side that stands in the development set or in a test set.

    Sides are compared by letters and digits alone, normalised as the tokenizer does it and case
    folded.
    """

    min_letters: Count = 20
    """Letters and digits from which one side that stands in the held-out sets is enough; with
    fewer, both sides must match the same held-out pair. A letter of Han counts for three, a kana
    or a syllable of Hangul for two."""


class Duplicates(Filter):
    """Drops pairs that stood in the training text before, after all other filters."""

    by: Literal["pair", "source", "target", "either"] = "pair"
    """What must have stood there before: both sides together, the source, the target, or either
    of the two."""


class Cleaning(Section):
    """Which training pairs are left out. A pair with a blank side always is."""

    max_tokens: Count = 256
    """Maximum length of either side in subword tokens, `</s>` counted."""
    encoding: Encoding = Encoding()
    """Control characters and broken encodings."""
    length: Length = Length()
    """Length in characters."""
    length_ratio: LengthRatio = LengthRatio()
    """One side's length against the other's."""
    identical: Identical = Identical()
    """Both sides the same."""
    letters: Letters = Letters()
    """Sides without much text."""
    script: Script = Script()
    """Sides in another script."""
    numbers: Numbers = Numbers()
    """Numbers that don't match."""
    urls: Urls = Urls()
    """Web and e-mail addresses that don't match."""
    repetition: Repetition = Repetition()
    """Repeated words."""
    language: LanguageIdentification = LanguageIdentification()
    """Sides in another language."""
    overlap: Overlap = Overlap()
    """Sentences of the development and test sets."""
    duplicates: Duplicates = Duplicates()
    """Duplicate pairs."""
