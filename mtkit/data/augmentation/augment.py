"""The examples that a recipe makes from its pairs.

They are added to the pairs, so a small corpus loses nothing. Each kind is counted separately.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import regex

from mtkit.data.augmentation.aligned_terms import (
    LinkedPair,
    LinkedTerm,
    TermLexicon,
    find_linked_terms,
)
from mtkit.recipe.augment import Augment, Terms
from mtkit.text.glossary import Glossary, read_glossary
from mtkit.text.sentences import find_gap
from mtkit.text.term_forms import TERM_SYMBOLS, annotate, find_uses, has_symbols
from mtkit.text.words import FindWords, Span, find_between_spaces, replace_spans

_TYPED_WORD = regex.compile(r"\p{L}{4,}")
_FINAL = regex.compile(r"(?<=\w[\p{Pe}\p{Pf}\"']?)[.!?。！？…]+(?=[\p{Pe}\p{Pf}\"”’]?\s*$)")
"""Final punctuation after a word."""
_WORD = regex.compile(r"\d+(?:[.,:/-]\d+)*|[\p{L}\p{M}\p{N}_]+(?:[-'’.@/][\p{L}\p{M}\p{N}_]+)*")
"""A number with its signs, or a word; in scripts without spaces, a word ends at the next sign."""
Example = tuple[str, str, str]
"""Kind, source and target."""


class TermAnnotator:
    """Annotates sources with translations from a dictionary."""

    def __init__(self, dictionary: Path, settings: Terms) -> None:
        read = read_glossary(dictionary)
        self._dictionary = Glossary([term for term in read.terms if not term.is_forbidden])
        self._settings = settings

    def annotate(self, pair: LinkedPair, random: Random) -> tuple[str, str] | None:
        """Returns a source annotated with translations from its target, and the target; or None."""
        found = self._dictionary.find(pair.source)
        if not found or has_symbols(pair.source + pair.target):
            return None
        terms = [(each.span, each.terms[0]) for each in found]
        uses = find_uses(pair.target, [(term.target, term.is_case_sensitive) for _, term in terms])
        there = [
            (span, term.target)
            for (span, term), use in zip(terms, uses, strict=True)
            if use.form != "missed"
        ]
        if not there:
            return None
        number = random.randint(1, min(len(there), self._settings.max_terms))
        chosen = random.sample(there, number)
        masked = _choose_masked(chosen, self._settings.masked, random)
        return annotate(pair.source, chosen, masked), pair.target


class AlignedTermAnnotator:
    """Annotates sources with their aligned target words, in their most frequent form."""

    def __init__(self, lexicon: TermLexicon, settings: Terms) -> None:
        self._lexicon, self._settings = lexicon, settings

    def annotate(self, pair: LinkedPair, random: Random) -> tuple[str, str] | None:
        """Returns a source annotated with translations, and its target; None if it has no terms."""
        if has_symbols(pair.source + pair.target):
            return None
        terms = find_linked_terms(pair, self._lexicon.common)
        if not terms:
            return None
        # A run of words is chosen less often than its single words.
        drawn = sorted(terms, key=lambda term: random.random() * term.num_words)
        number = random.randint(1, self._settings.max_terms)
        chosen: list[LinkedTerm] = []
        for term in drawn:
            if len(chosen) < number and not any(_overlap(term, other) for other in chosen):
                chosen.append(term)
        given: list[tuple[Span, str]] = []
        forms: list[tuple[Span, str]] = []
        for term in chosen:
            form = pair.target[slice(*term.target)]
            base = self._lexicon.find_base(pair.source[slice(*term.source)], form)
            if self._settings.invented and random.random() < self._settings.invented:
                base, form = self._lexicon.invent(base, form, random)
            given.append((term.source, base))
            forms.append((term.target, form))
        masked = _choose_masked(given, self._settings.masked, random)
        return annotate(pair.source, given, masked), replace_spans(pair.target, sorted(forms))


def _choose_masked(terms: Sequence[tuple[Span, str]], share: float, random: Random) -> list[Span]:
    """Returns the terms that are left out of the source."""
    return [span for span, _ in terms if share and random.random() < share]


def _overlap(first: LinkedTerm, second: LinkedTerm) -> bool:
    return first.source[0] < second.source[1] and second.source[0] < first.source[1]


def write_title(text: str) -> str:
    """Returns a text with each word's first letter in upper case; the others don't change."""
    return regex.sub(r"(?<![\p{L}\p{M}\p{N}'’])\p{Ll}", lambda found: found.group().upper(), text)


def strip_final_punctuation(text: str) -> str | None:
    """Returns a text without its final punctuation; None if it has none."""
    stripped, count = _FINAL.subn("", text)
    return stripped if count else None


def make_typos(text: str, share: float, random: Random) -> str | None:
    """Returns a text with errors in a share of its words of four or more letters, or None."""
    words = [found.span() for found in _TYPED_WORD.finditer(text)]
    if not words:
        return None
    changed = text
    for start, end in sorted(random.sample(words, max(1, round(share * len(words)))), reverse=True):
        changed = changed[:start] + _misspell(changed[start:end], random) + changed[end:]
    return changed if changed != text else None


def _misspell(word: str, random: Random) -> str:
    """Returns a word with one error after the first letter, which people seldom get wrong."""
    index = random.randrange(1, len(word) - 1)
    letter = word[index]
    match random.randrange(4):
        case 0:
            return word[:index] + word[index + 1] + letter + word[index + 2 :]
        case 1:
            return word[:index] + word[index + 1 :]
        case 2:
            return word[:index] + letter + word[index:]
        case _:
            return word[:index] + random.choice(word.lower()) + word[index + 1 :]


def find_shared(source: str, target: str) -> list[tuple[Span, Span]]:
    """Returns the spans of words that occur once on each side, in the same spelling.

    Single letters don't count: an article and a pronoun of two languages may look the same.
    """
    sides = [list(_WORD.finditer(side)) for side in (source, target)]
    counts = [Counter(found.group() for found in side) for side in sides]
    of_target = {found.group(): found.span() for found in sides[1]}
    return [
        (found.span(), of_target[word])
        for found in sides[0]
        if counts[0][word := found.group()] == 1 == counts[1][word]
        and (len(word) > 1 or word.isdecimal())
    ]


def put_symbols(
    source: str,
    target: str,
    shared: Sequence[tuple[Span, Span]],
    symbols: Sequence[str],
    random: Random,
) -> tuple[str, str]:
    """Returns a pair in which symbols replace one or more of the shared words (`find_shared`)."""
    # Half of the examples have one, so that the text around stays natural; all symbols are learned.
    most = min(len(shared), len(symbols))
    number = 1 if random.random() < 0.5 else random.randint(1, most)
    chosen = random.sample(shared, number)
    drawn = random.sample(symbols, number)
    edits = list(zip(chosen, drawn, strict=True))
    return (
        replace_spans(source, sorted((spans[0], symbol) for spans, symbol in edits)),
        replace_spans(target, sorted((spans[1], symbol) for spans, symbol in edits)),
    )


@dataclass(frozen=True)
class Examples:
    """Examples made from pairs, column by column."""

    kinds: list[str]
    sources: list[str]
    targets: list[str]


@dataclass(frozen=True)
class Links:
    """The word alignments of some pairs.

    Attributes:
        lines: `0-0 1-2` for each pair.
        find_words: Returns the spans of the words that the links count.
    """

    lines: Sequence[str]
    find_words: FindWords


def list_copy_symbols(augment: Augment | None) -> list[str]:
    """Returns the symbols for copied words; none if a recipe doesn't make them."""
    if augment is None or augment.placeholders is None:
        return []
    return [f"<copy{number}>" for number in range(augment.placeholders.num_symbols)]


def list_augment_symbols(augment: Augment | None) -> list[str]:
    """Returns all symbols that a recipe's examples need in a vocabulary."""
    has_terms = augment is not None and augment.terms is not None
    return [*list_copy_symbols(augment), *(TERM_SYMBOLS if has_terms else ())]


class Augmenter:
    """Makes examples from pairs; terms from alignments need a `lexicon`.

    `languages` are the pairs' source and target language.
    """

    def __init__(
        self,
        settings: Augment,
        seed: int,
        lexicon: TermLexicon | None = None,
        *,
        languages: tuple[str, str] = ("", ""),
    ) -> None:
        self._settings, self._seed = settings, seed
        self._gaps = [find_gap(language) for language in languages]
        self._symbols = list_copy_symbols(settings)
        self._terms: TermAnnotator | AlignedTermAnnotator | None = None
        if settings.terms is not None and settings.terms.dictionary is not None:
            self._terms = TermAnnotator(settings.terms.dictionary, settings.terms)
        elif settings.terms is not None:
            if lexicon is None:
                raise ValueError("terms from alignments need a lexicon")
            self._terms = AlignedTermAnnotator(lexicon, settings.terms)

    def augment(
        self, sources: Sequence[str], targets: Sequence[str], links: Links | None = None
    ) -> "Examples":
        """Returns the examples of neighbouring pairs, in order; aligned terms need `links`."""
        links = links or Links([""] * len(sources), find_between_spaces)
        added = [
            example
            for index, (source, target) in enumerate(zip(sources, targets, strict=True))
            for example in (
                *self.make_examples(source, target, links.lines[index], links.find_words),
                *self._join(sources, targets, index),
            )
        ]
        return Examples(
            [kind for kind, _, _ in added],
            [source for _, source, _ in added],
            [target for _, _, target in added],
        )

    def make_examples(
        self,
        source: str,
        target: str,
        links: str = "",
        find_words: FindWords = find_between_spaces,
    ) -> Iterator[Example]:
        """Yields a pair's examples, at most one of each kind, each made from the original."""
        settings = self._settings
        draw = partial(self._draw, source=source, target=target)

        def is_drawn(kind: str, rate: float) -> bool:
            return rate > 0.0 and draw(kind).random() < rate

        if settings.placeholders is not None and is_drawn(
            "placeholders", settings.placeholders.rate
        ):
            shared = find_shared(source, target)
            if shared and not any(symbol in source + target for symbol in self._symbols):
                drawn = draw("words that become symbols")
                yield "placeholders", *put_symbols(source, target, shared, self._symbols, drawn)
        if settings.casing is not None:
            for name, change in (
                ("upper", str.upper),
                ("title", write_title),
                ("lower", str.lower),
            ):
                if is_drawn(f"casing.{name}", getattr(settings.casing, name)):
                    made = change(source), change(target)
                    if made != (source, target):
                        yield f"casing.{name}", *made
        if settings.typos is not None and is_drawn("typos", settings.typos.rate):
            drawn = draw("words with errors")
            misspelled = make_typos(source, settings.typos.words, drawn)
            if misspelled is not None:
                yield "typos", misspelled, target
        missing = settings.missing_punctuation
        if missing is not None and is_drawn("missing_punctuation", missing.rate):
            sides = strip_final_punctuation(source), strip_final_punctuation(target)
            if sides[0] is not None and sides[1] is not None:
                yield (
                    "missing_punctuation",
                    sides[0],
                    sides[1] if missing.sides == "both" else target,
                )
        if settings.terms is not None and is_drawn("terms", settings.terms.rate):
            assert self._terms is not None
            pair = LinkedPair(source, target, links, find_words)
            annotated = self._terms.annotate(pair, draw("terms that are annotated"))
            if annotated is not None:
                yield "terms", *annotated

    def _join(
        self, sources: Sequence[str], targets: Sequence[str], first: int
    ) -> Iterator[Example]:
        """Yields an example that joins a pair with the next ones, if it is drawn."""
        settings, is_last = self._settings.joined, first + 1 == len(sources)
        if settings is None or is_last:
            return
        random = self._draw("joined", sources[first], targets[first])
        if random.random() < settings.rate:
            joined = slice(first, first + random.randint(2, settings.max_sentences))
            source_gap, target_gap = self._gaps
            yield "joined", source_gap.join(sources[joined]), target_gap.join(targets[joined])

    def _draw(self, purpose: str, source: str, target: str) -> Random:
        """Returns a pair's random numbers for one purpose.

        Each purpose has its own, so that a rate doesn't affect another kind's examples.
        """
        # No sentence holds the character between them.
        text = f"{self._seed}\n{purpose}\n{source}\n{target}"
        return Random(hashlib.blake2b(text.encode(), digest_size=16).digest())
