"""Symbols in place of words that both sides of a pair share, as OpusTrainer's Tags modifier has."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import regex

from mtkit.text.words import Span

_WORD = regex.compile(r"\d+(?:[.,:/-]\d+)*|[\p{L}\p{M}\p{N}_]+(?:[-'’.@/][\p{L}\p{M}\p{N}_]+)*")
"""A number with its signs, or a word; in scripts without spaces a word runs on to the next sign."""


def find_shared(source: str, target: str) -> list[tuple[Span, Span]]:
    """Returns where the words stand that occur once on each side, written the same.

    A single letter isn't one, as the article and the pronoun of two languages may look alike.
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
    """Returns a pair with symbols in place of one or more of the words that its sides share.

    Args:
        source: A source.
        target: Its target.
        shared: What `find_shared` found, at least one.
        symbols: Symbols to choose from.
        random: Decides how many words, which, and by which symbols.
    """
    # Half the examples have one, so that the text around stays natural; all symbols are learned.
    most = min(len(shared), len(symbols))
    number = 1 if random.random() < 0.5 else random.randint(1, most)
    chosen = random.sample(shared, number)
    drawn = random.sample(symbols, number)
    edits = list(zip(chosen, drawn, strict=True))
    return (
        _replace(source, [(spans[0], symbol) for spans, symbol in edits]),
        _replace(target, [(spans[1], symbol) for spans, symbol in edits]),
    )


def _replace(text: str, edits: Sequence[tuple[Span, str]]) -> str:
    for (start, end), symbol in sorted(edits, reverse=True):
        text = text[:start] + symbol + text[end:]
    return text
