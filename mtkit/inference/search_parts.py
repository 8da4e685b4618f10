"""Searches the parts of lines, again where a translation lacks a term, and ranks what is found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mtkit.inference.batching import search_in_batches
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.outputs import OutputDecoder, are_finite, check_finite
from mtkit.inference.request_terms import annotate_lines, find_lacking
from mtkit.inference.terms import GlossaryTerms
from mtkit.inference.translation import BLANK, Hypothesis
from mtkit.recipe.inference import Inference

Reranker = Callable[[EncodedSource, list[Hypothesis]], list[Hypothesis]]
"""Reorders the decoded hypotheses of a part, best first.

The first of the returned hypotheses is the translation. It may drop some, but not all.
"""


def keep_order(_: EncodedSource, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Returns hypotheses as the search ranks them."""
    return hypotheses


@dataclass(frozen=True)
class EncodedLine:
    """A line to search.

    Attributes:
        text: The line.
        parts: It in tokens; none where it has none.
        number: Its number, the first being 1.
        limit: Tokens that a part has at most.
        settings: How to search.
        terms: Its terms; None where it has no glossary.
    """

    text: str
    parts: list[EncodedSource]
    number: int
    limit: int
    settings: Inference
    terms: GlossaryTerms | None


class PartSearch:
    """Searches the parts of lines.

    Args:
        engine: The engine, with its model.
        decoder: Adds their text to outputs.
        rerank: Orders each part's hypotheses.
        continues: Whether outputs continue the sources.
        needs_attention: Whether alignments are read from attention.
    """

    def __init__(
        self,
        engine: Engine,
        decoder: OutputDecoder,
        *,
        rerank: Reranker,
        continues: bool,
        needs_attention: bool = True,
    ) -> None:
        self._engine, self._decoder = engine, decoder
        self._needs_attention = needs_attention
        self._rerank, self._continues = rerank, continues

    def search(self, lines: Sequence[EncodedLine]) -> list[list[list[Hypothesis]]]:
        """Returns the hypotheses of each part of each line, best first, with their texts.

        Raises:
            MtkitError: The engine doesn't support the settings.
            LineError: A score is NaN or infinite, or no output satisfies the settings.
        """
        given = annotate_lines(
            [line.terms for line in lines],
            [line.text for line in lines],
            [line.parts for line in lines],
            [line.limit for line in lines],
        )
        settings = [line.settings for line in lines for _ in line.parts]
        searched = iter(self._search([part for parts in given for part in parts], settings))
        ranked: list[list[list[Hypothesis]]] = []
        for line, read in zip(lines, given, strict=True):
            found = [_allow_none(part, next(searched)) for part in line.parts]
            found = list(map(_forget_unless_read, line.parts, read, found))
            for hypotheses in found:
                check_finite(hypotheses, line.settings, line.number)
            ranked.append(list(map(self._decode_and_rank, line.parts, found)))
        self._insist_on_terms(lines, given, ranked)
        return ranked

    def _insist_on_terms(
        self,
        lines: Sequence[EncodedLine],
        given: Sequence[Sequence[EncodedSource]],
        ranked: Sequence[list[list[Hypothesis]]],
    ) -> None:
        """Searches parts again whose translations lack terms, and puts what is found in place."""
        again = find_lacking(
            [line.terms for line in lines], [line.text for line in lines], given, ranked
        )
        settings = [lines[index].settings for index, _ in again]
        searched = self._search(list(again.values()), settings)
        for ((index, number), read), hypotheses in zip(again.items(), searched, strict=True):
            # Where no output has all that is asked for, what was found before stays.
            if are_finite(hypotheses):
                part = lines[index].parts[number]
                known = _forget_unless_read(part, read, hypotheses)
                ranked[index][number] = self._decode_and_rank(part, known)

    def _search(
        self, parts: Sequence[EncodedSource], settings: Sequence[Inference]
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each part; those with equal settings share batches.

        Alignments change no search: parts with and without share batches, too.
        """
        aligns = self._needs_attention and any(each.alignments for each in settings)
        groups: dict[Inference, list[int]] = {}
        # Requests share settings, and it takes time to copy and to compare them.
        group_of: dict[int, list[int]] = {}
        for index, each in enumerate(settings):
            if id(each) not in group_of:
                shared = each.model_copy(update={"alignments": aligns})
                group_of[id(each)] = groups.setdefault(shared, [])
            group_of[id(each)].append(index)
        found: list[list[Hypothesis]] = [[] for _ in parts]
        for each, group in groups.items():
            searched = search_in_batches(self._engine, [parts[index] for index in group], each)
            for index, hypotheses in zip(group, searched, strict=True):
                is_as_asked = settings[index].alignments or not aligns
                found[index] = hypotheses if is_as_asked else _forget_weights(hypotheses)
        return found

    def _decode_and_rank(
        self, part: EncodedSource, hypotheses: Sequence[Hypothesis]
    ) -> list[Hypothesis]:
        begun = part.tokens if self._continues else ()
        decoded = [self._decoder.decode(each, begun=begun) for each in hypotheses]
        return self._rerank(part, decoded)


def _allow_none(part: EncodedSource, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Returns what was found, or an empty output where none has what it must contain."""
    is_missed = bool(part.required) and not are_finite(hypotheses)
    return list(BLANK.candidates) if is_missed else hypotheses


def _forget_unless_read(
    part: EncodedSource, read: EncodedSource, hypotheses: list[Hypothesis]
) -> list[Hypothesis]:
    """Returns hypotheses without attention to what a glossary put in between a part's words."""
    return hypotheses if part.tokens == read.tokens else _forget_weights(hypotheses)


def _forget_weights(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Returns hypotheses without what alignments are read from."""
    return [replace(each, alignment_weights=None) for each in hypotheses]
