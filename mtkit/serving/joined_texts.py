"""Translations of sentences, put together as the texts of a request were."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from mtkit.inference.paragraphs import join_sentences
from mtkit.inference.translation import Translation
from mtkit.text.words import Span, strip_span

if TYPE_CHECKING:
    # Loaded where a model flags.
    from mtkit.checks.flag import Flag

_ONE_SENTENCE = regex.compile(r"[\p{L}\p{M}\p{Nd} ,'’\-]*+[.!?]?+\s*+")
_SPACELESS = regex.compile(r"[\p{Han}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


@dataclass(frozen=True)
class TranslatedTexts:
    """What became of a request's texts.

    Attributes:
        texts: Translations, one for each text.
        alternatives: Others of each text, without equal ones.
        scores: Of each text the mean log-probability of a token, line by line; None for a blank
            line.
        flags: Of each text what looks wrong, line by line; None where the model doesn't flag.
    """

    texts: list[str]
    alternatives: list[list[str]]
    scores: list[list[float | None]]
    flags: "list[list[list[Flag]]] | None" = None


def find_one_sentence(line: str) -> list[Span] | None:
    """Returns the span of a plain line's one sentence, none of a blank line; None of another.

    A line is plain where nothing but its last character could end a sentence, in any language.
    """
    if not _ONE_SENTENCE.fullmatch(line) or _SPACELESS.search(line):
        return None
    start, end = strip_span(line, (0, len(line)))
    return [(start, end)] if start < end else []


def join_texts(
    lines: Sequence[Sequence[str]],
    spans: Sequence[Sequence[Span]],
    found: Sequence[Translation],
    target_language: str,
) -> TranslatedTexts:
    """Returns the translations of texts; line breaks and the space around a line stay.

    Args:
        lines: The lines of each text.
        spans: Where the sentences of each line are, over all texts.
        found: The sentences' translations, over all lines.
        target_language: Code of the language that they are in.
    """
    sentences, rest = iter(found), iter(spans)
    joined = TranslatedTexts([], [], [])
    flags: list[list[list[Flag]]] = []
    for of_text in lines:
        mine = []
        for line in of_text:
            of_line = next(rest)
            mine.append(
                join_sentences(line, of_line, [next(sentences) for _ in of_line], target_language)
            )
        best = _join_lines(of_text, mine, 0)
        others = dict.fromkeys(
            _join_lines(of_text, mine, rank)
            for rank in range(1, max(len(each.candidates) for each in mine))
        )
        joined.texts.append(best)
        joined.alternatives.append([other for other in others if other and other != best])
        joined.scores.append([_mean_log_probability(each) for each in mine])
        flags.append([list(each.flags or ()) for each in mine])
    if all(each.flags is None for each in found):
        return joined
    return TranslatedTexts(joined.texts, joined.alternatives, joined.scores, flags)


def _join_lines(lines: Sequence[str], found: Sequence[Translation], rank: int) -> str:
    return "\n".join(
        _restore_spaces(line, each, rank) for line, each in zip(lines, found, strict=True)
    )


def _restore_spaces(line: str, translation: Translation, rank: int) -> str:
    """Returns a candidate, or the last there is, with the space that its line had at the ends."""
    text = translation.candidates[min(rank, len(translation.candidates) - 1)].text
    before = line[: len(line) - len(line.lstrip())]
    return before + text + line[len(line.rstrip()) :] if text else before


def _mean_log_probability(translation: Translation) -> float | None:
    best = translation.candidates[0]
    return best.log_probability / len(best.token_ids) if best.token_ids else None
