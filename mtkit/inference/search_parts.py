"""Searches the parts of lines, again if a translation lacks a term, and ranks the results."""

import math
from collections.abc import Sequence
from dataclasses import replace

from mtkit.inference.engines.engine import EncodedSource, Engine, search_in_batches
from mtkit.inference.line import Line, RankedPart, Reranker, TextModel, list_parts
from mtkit.inference.request import LineWarning, NotFiniteError
from mtkit.inference.translation import BLANK, Hypothesis
from mtkit.recipe.inference import Inference, Rerank
from mtkit.text.tokenizer import SubwordTokenizer

CUT = "cut at the length limit"
"""Kind of the warning about a cut translation."""


def detokenize(
    tokenizer: SubwordTokenizer, hypothesis: Hypothesis, *, begun: EncodedSource | None = None
) -> Hypothesis:
    """Returns a hypothesis with its pieces and its one-line text, which continues `begun`."""
    tokens = [] if begun is None else begun.tokens
    text = tokenizer.decode_target([*tokens, *hypothesis.token_ids])
    if begun is not None:
        known = tokenizer.decode_target(tokens)
        if text.startswith(known):
            # As it was given: pieces may lack its characters and its spaces.
            text = begun.text.rstrip() + text[len(known) :]
    pieces = tokenizer.target_vocabulary.pieces
    return replace(
        hypothesis,
        text=text.replace("\n", " ").replace("\r", " "),
        pieces=tuple(pieces[token] for token in hypothesis.token_ids),
    )


def are_finite(hypotheses: Sequence[Hypothesis]) -> bool:
    """Checks that there are hypotheses, and that no score is NaN or infinite."""
    numbers = (number for each in hypotheses for number in (each.log_probability, each.score))
    return bool(hypotheses) and all(map(math.isfinite, numbers))


def check_finite(hypotheses: Sequence[Hypothesis], settings: Inference, line: int) -> None:
    """Raises a LineError unless `are_finite`."""
    if are_finite(hypotheses):
        return
    rules = [
        f"inference.{key} = {value}"
        for key in ("min_length", "no_repeat_ngram")
        if (value := getattr(settings, key))
    ]
    raise NotFiniteError(
        line,
        "the model's probabilities are NaN"
        + (f", or no output satisfies {' and '.join(rules)}" if rules else ""),
        ("change these settings; or " if rules else "")
        + "its training diverged: use an earlier checkpoint, or train with a lower learning rate",
    )


def cut_warning(line: int) -> LineWarning:
    """Returns the warning that a line's translation was cut."""
    return LineWarning(
        CUT,
        "the output was cut at the length limit; usually the model is barely trained, else "
        "raise inference.max_extra_tokens or inference.max_output_tokens",
        line,
    )


def names_no_folder(settings: Rerank) -> bool:
    """Checks that settings name no folders: `rerank` opens none."""
    return not settings.folders


def rerank(parts: Sequence[RankedPart]) -> list[list[Hypothesis]]:
    """Returns candidates as `inference.rerank` orders them without other folders."""
    if all(part.settings.rerank is None for part in parts):
        return [part.candidates for part in parts]
    # Imported here: sacreBLEU loads slowly.
    from mtkit.inference.rerank import Ranker  # noqa: PLC0415

    return Ranker()(parts)


class PartSearch:
    """Searches the parts of lines."""

    def __init__(self, engine: Engine, model: TextModel, rerank: Reranker) -> None:
        self._engine, self._model, self._rerank = engine, model, rerank

    def search(self, lines: Sequence[Line]) -> None:
        """Sets the candidates of each part, best first.

        Raises:
            LineError: A score is NaN or infinite, or no output satisfies the settings.
        """
        parts = list(list_parts(lines))
        found = self._search([(part.annotated or part, line.settings) for line, part in parts])
        ranked = []
        for (line, part), hypotheses in zip(parts, found, strict=True):
            # The output is empty if none contains what it must.
            is_missed = bool(part.required) and not are_finite(hypotheses)
            known = BLANK.candidates if is_missed else hypotheses
            check_finite(known, line.settings, line.number)
            ranked.append((part, known, line.settings))
        self._rank(ranked)
        parts = [each for each in parts if each[0].terms is not None]
        if parts:
            self._insist_on_terms(parts)

    def _insist_on_terms(self, parts: Sequence[tuple[Line, EncodedSource]]) -> None:
        """Searches parts again whose translations lack terms."""
        again = []
        for line, part in parts:
            if line.terms is not None and line.terms.constrains:
                required = line.terms.require(line, part)
                if required is not None:
                    again.append((part, required, line.settings))
        found = self._search([(required, settings) for _, required, settings in again])
        # If no output has all required terms, the earlier result stays.
        self._rank(
            [
                (part, hypotheses, settings)
                for (part, _, settings), hypotheses in zip(again, found, strict=True)
                if are_finite(hypotheses)
            ]
        )

    def _search(self, asked: Sequence[tuple[EncodedSource, Inference]]) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each part; equal settings share batches."""
        # Alignments and utilities don't change a search: parts with and without share batches.
        aligns = self._model.word_aligner is None and any(
            settings.alignments for _, settings in asked
        )
        groups: dict[Inference, list[int]] = {}
        # Requests share settings, which are slow to copy and to compare.
        group_of: dict[int, list[int]] = {}
        for index, (_, settings) in enumerate(asked):
            if id(settings) not in group_of:
                shared = settings.model_copy(
                    update={"alignments": aligns, "n_best": settings.num_candidates, "rerank": None}
                )
                group_of[id(settings)] = groups.setdefault(shared, [])
            group_of[id(settings)].append(index)
        found: list[list[Hypothesis]] = [[] for _ in asked]
        for shared, group in groups.items():
            searched = search_in_batches(self._engine, [asked[index][0] for index in group], shared)
            for index, hypotheses in zip(group, searched, strict=True):
                is_as_asked = asked[index][1].alignments or not aligns
                found[index] = hypotheses if is_as_asked else _forget_weights(hypotheses)
        return found

    def _rank(self, found: Sequence[tuple[EncodedSource, Sequence[Hypothesis], Inference]]) -> None:
        """Sets the candidates of parts."""
        ranked = []
        for part, hypotheses, settings in found:
            # The attention refers to the glossary's insertions, too.
            has_others = part.annotated is not None
            known = _forget_weights(hypotheses) if has_others else hypotheses
            begun = part if self._model.continues else None
            candidates = [detokenize(self._model.tokenizer, each, begun=begun) for each in known]
            ranked.append(RankedPart(part, candidates, settings))
        for each, ordered in zip(ranked, self._rerank(ranked), strict=True):
            each.source.candidates = ordered


def _forget_weights(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Returns hypotheses without alignment weights."""
    return [replace(each, alignment_weights=None) for each in hypotheses]
