"""The `data.cleaning` section: which training pairs, or lines of one language, are dropped."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    model_validator,
)

from mtkit.recipe.section import Count, CountFromZero, RecipePath, Section, Share, refuse_boundless


class Filter(Section):
    """A rule that drops pairs.

    Most are on by default, so leaving out a section can't mean off: a key does.
    """

    enabled: bool = True
    """Whether the filter runs."""

    judges_text: ClassVar[bool] = True
    """Whether it judges words and punctuation, and so would misjudge the brackets of trees."""
    compares_sides: ClassVar[bool] = False
    """Whether it needs two sides, so that it doesn't run on text in one language."""


class Encoding(Filter):
    """Repairs stray characters; drops pairs with control characters or a broken encoding.

    Repaired: C1 controls are read as Windows-1252; tabs and line separators become spaces;
    byte-order marks, zero-width spaces and soft hyphens are removed. Dropped: pairs with other
    control characters, U+FFFD, noncharacters, private-use characters, or UTF-8 that was read as
    Windows-1252 or Latin-1.
    """

    invalid_utf8: Literal["error", "drop"] = "error"
    """What invalid UTF-8 does: end `prepare` with an error, or drop the pair."""

    judges_text = False


class Length(Filter):
    """Drops pairs with a side that is too long or too short."""

    min_characters: Count = 1
    """Minimum length of either side, or of a line of text in one language, in characters."""
    max_characters: Count = 2_000
    """Maximum length of either side in characters."""


class LengthRatio(Filter):
    """Drops pairs whose sides differ too much in length.

    The ratio is (t + c) / (r * s + c) or its inverse, whichever is greater: s and t are the lengths
    in characters, r is the development set's target characters per source character, c is
    `smoothing`.
    """

    max_ratio: Annotated[float, Field(gt=1.0), AfterValidator(refuse_boundless)] = 2.0
    """Maximum ratio of the longer side to the shorter, the source's length multiplied by r."""
    smoothing: Count = 15
    """Characters added to both lengths, so that short sentences may differ more."""

    compares_sides = True


class Identical(Filter):
    """Drops pairs whose sides are identical, ignoring case and spaces."""

    compares_sides = True


class Letters(Filter):
    """Drops pairs with a side that is mostly digits, punctuation or symbols."""

    min_share: Share = 0.4
    """Minimum share of letters and combining marks among a side's characters, not counting
    spaces."""


class Script(Filter):
    """Drops pairs with a side that isn't written in its language's script."""

    min_share: Share = 0.2
    """Minimum share of a side's letters in a script of its language. A letter of a script written
    without spaces, such as Han, counts as three; a letter shared by several scripts isn't
    counted."""
    source: tuple[str, ...] = ()
    """Scripts of the source, or of text in one language, as ISO 15924 codes, such as
    `["Cyrl", "Latn"]`; if empty, those that CLDR has for the language."""
    target: tuple[str, ...] = ()
    """Scripts of the target; if empty, those that CLDR has for the language."""


class Numbers(Filter):
    """Drops pairs whose sides contain different numbers.

    Numbers written in digits are compared by value; thousands separators are ignored, and a decimal
    separator splits a number in two. If too few match, each side is read in the way that fits the
    other best: grouped digits as one number or as several, with units such as 万, 亿 and million,
    三十五 as 35. Numbers up to 20 and round ones may be missing on one side, which spells them out.
    """

    min_value: CountFromZero = 10
    """Smallest number that is compared: smaller ones are often spelled out on one side."""
    min_numbers: Count = 2
    """Minimum count of numbers, on the side with more of them, for a pair to be judged."""
    min_match: Share = 0.3
    """Minimum share of that side's numbers that the other side has too."""

    compares_sides = True


class Urls(Filter):
    """Drops pairs whose sides contain different web or e-mail addresses."""

    min_match: Share = 0.5
    """Minimum share of the addresses of both sides that the other side has too."""

    compares_sides = True


class Repetition(Filter):
    """Drops pairs with a side that repeats one to four words, or characters, again and again.

    Characters are compared in scripts written without spaces.
    """

    max_repeats: Count = 4
    """Maximum number of times in a row that the same words or characters may occur."""


class LanguageIdentification(Filter):
    """Drops pairs with a side in another language, by py3langid.

    Off by default: it takes longer than all other filters together. The model doesn't know most
    languages; a side in one of these must look like the development set's.
    """

    enabled: bool = False
    """Whether the filter runs."""
    min_characters: Count = 15
    """Minimum length in characters of a side to identify; too many shorter ones are
    misidentified."""
    min_confidence: Share = 0.5
    """Minimum probability of another language for the pair to be dropped."""
    candidates: tuple[str, ...] = ()
    """Languages to choose from besides the pair's own, as ISO 639-1 codes; if empty, about 40
    widely written ones."""


class Overlap(Filter):
    """Drops pairs with a side that is in the development set or in a test set.

    Only letters and digits are compared, after the tokenizer's normalisation and case folding.
    """

    min_letters: Count = 20
    """Minimum letters and digits for one side in the held-out sets to be enough to drop the pair;
    with fewer, both sides must match the same held-out pair, and a line of text in one language
    stays. A letter of Han counts as three, a kana or a syllable of Hangul as two."""

    judges_text = False


class Duplicates(Filter):
    """Drops pairs that occurred earlier in the training text; runs after all other filters."""

    by: Literal["pair", "source", "target", "either"] = "pair"
    """What must have occurred before: both sides together, the source, the target, or either of the
    two. For text in one language it is the line."""

    judges_text = False


class Selection(Section):
    """Keeps the text that is most like yours, or the pairs that are translations, by models.

    By two causal language models, a line's rank is its cross-entropy under a model of text in your
    domain minus that under a model of general text (Moore and Lewis 2010); a pair's is the sum over
    both sides (Axelrod, He and Gao 2011). In nats per token with `</s>` where the two models of
    each side have the same vocabulary, else per character. By a classifier of pairs, a pair's rank
    is the probability that its label isn't `label`. Runs after all other filters and after
    duplicates are dropped.
    """

    in_domain: RecipePath | None = None
    """For text in one language: folder of a model trained on text in your domain,
    relative to `data.data_root`."""
    general: RecipePath | None = None
    """For text in one language: folder of a model trained on general text, as much as the other
    model's and best an even sample of the training corpora."""
    in_domain_source: RecipePath | None = None
    """For pairs: the same as `in_domain`, in the source language."""
    general_source: RecipePath | None = None
    """For pairs: the same as `general`, in the source language."""
    in_domain_target: RecipePath | None = None
    """For pairs: the same as `in_domain`, in the target language; if absent, sources alone
    decide."""
    general_target: RecipePath | None = None
    """For pairs: the same as `general`, in the target language."""
    classifier: RecipePath | None = None
    """For pairs, instead of language models: folder of a classifier that separates translations
    from planted faults, relative to `data.data_root`."""
    label: str = "translation"
    """The classifier's label of the pairs to keep."""
    keep: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Share of the pairs or lines to keep: those with the lowest differences, or the highest
    probabilities of `label`, over all corpora."""
    max_difference: Annotated[float, Field(ge=-1_000.0, le=1_000.0)] | None = None
    """Instead of `keep`: the largest difference to keep, in nats per token or per character."""
    min_probability: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Instead of `keep`, with a classifier: the smallest probability of `label` to keep."""

    @property
    def models(self) -> dict[str, tuple[Path, Path]]:
        """Folders of both models, in-domain and general, of each column that is scored."""
        given = {
            "text": (self.in_domain, self.general),
            "source": (self.in_domain_source, self.general_source),
            "target": (self.in_domain_target, self.general_target),
        }
        return {
            column: (in_domain, general)
            for column, (in_domain, general) in given.items()
            if in_domain is not None and general is not None
        }

    @property
    def max_value(self) -> float | None:
        """The largest difference, or probability of another label, to keep; None with `keep`."""
        if self.min_probability is not None:
            return 1.0 - self.min_probability
        return self.max_difference

    @model_validator(mode="after")
    def _keys_agree(self) -> "Selection":
        key = "max_difference" if self.classifier is None else "min_probability"
        other = {"max_difference", "min_probability"} - {key}
        if getattr(self, *other) is not None:
            raise ValueError(
                "min_probability is for a classifier, max_difference for language models"
            )
        if (self.keep is None) == (getattr(self, key) is None):
            raise ValueError(f"give either keep or {key}")
        if self.classifier is not None:
            if any(
                path is not None
                for name in type(self).model_fields
                if isinstance(path := getattr(self, name), Path) and name != "classifier"
            ):
                raise ValueError("give either a classifier or language models")
            return self
        for suffix in ("", "_source", "_target"):
            keys = (f"in_domain{suffix}", f"general{suffix}")
            missing = [key for key in keys if getattr(self, key) is None]
            if len(missing) == 1:
                raise ValueError(f"{missing[0]} is missing: give both {keys[0]} and {keys[1]}")
        if not self.models:
            raise ValueError(
                "name two model folders: in_domain and general for text in one language, "
                "in_domain_source and general_source for pairs; or a classifier of pairs"
            )
        return self


class Cleaning(Section):
    """Which training pairs are dropped. A pair with a blank side always is.

    Of text in one language, lines are dropped by the same rules, as if each were one side of a
    pair. What compares two sides doesn't apply: `length_ratio`, `identical`, `numbers`, `urls`; nor
    does `max_tokens`. Of trees, only `encoding`, `overlap`, by the sentence, `duplicates` and
    `max_tokens` apply.
    """

    max_tokens: Count = 256
    """Maximum length of either side in subword tokens, `</s>` included."""
    encoding: Encoding = Encoding()
    """Control characters and broken encodings."""
    length: Length = Length()
    """Length in characters."""
    length_ratio: LengthRatio = LengthRatio()
    """Length of one side relative to the other."""
    identical: Identical = Identical()
    """Identical sides."""
    letters: Letters = Letters()
    """Sides with few letters."""
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
    selection: Selection | None = None
    """Keep only the text that is most like yours."""

    @property
    def filters(self) -> dict[str, Filter]:
        """Each filter's section, by its key."""
        return {key: value for key, value in self if isinstance(value, Filter)}

    def without_rules_of_text(self) -> "Cleaning":
        """Returns the section for trees: without the filters that would misjudge brackets."""
        off = {
            name: each.model_copy(update={"enabled": False})
            for name, each in self.filters.items()
            if each.judges_text
        }
        return self.model_copy(update=off)
