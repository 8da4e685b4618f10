"""The schema of a translation: what `--json` prints, the server sends and its client reads."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from mtkit.checks.flag import Flag
from mtkit.inference.translation import (
    Candidate,
    LineWarning,
    Protection,
    ScoredPiece,
    TermUse,
    TranslatedSentence,
    Translation,
    WordAlignment,
)
from mtkit.text.trees.restore import Repairs
from mtkit.text.words import Span


class AlignmentSchema(TypedDict):
    """Which words of a line and of its translation stand for each other."""

    pharaoh: Annotated[str, Field(description="Pairs of words between spaces: `0-0 1-2`.")]
    links: list[tuple[int, int]]
    source_words: list[Span]
    target_words: list[Span]


class CandidateSchema(TypedDict):
    """A translation with its scores."""

    text: str
    score: float
    log_probability: float
    language_model_log_probability: NotRequired[float]
    tokens: list[ScoredPiece]
    reached_limit: bool
    repairs: NotRequired[Repairs]
    alignment: NotRequired[AlignmentSchema]


class WarningSchema(TypedDict):
    """A warning about a line's translation."""

    kind: str
    text: str


class TranslationSchema(CandidateSchema):
    """A line's translation: the best candidate, and all of the n-best list."""

    was_split: bool
    flags: NotRequired[list[Flag]]
    terms: NotRequired[list[TermUse]]
    n_best: list[CandidateSchema]
    protection: NotRequired[Protection]
    sentences: NotRequired[list[TranslatedSentence]]
    warnings: NotRequired[list[WarningSchema]]


TRANSLATION = TypeAdapter(TranslationSchema)
_ALIGNMENT = TypeAdapter(AlignmentSchema)


def dump_alignment(alignment: WordAlignment, line: str, text: str) -> dict[str, Any]:
    """Returns the alignment of a line and its translation as JSON's types."""
    found: dict[str, Any] = _ALIGNMENT.dump_python(
        _describe_alignment(alignment, line, text), mode="json"
    )
    return found


def dump_translation(
    translation: Translation, line: str, *, with_warnings: bool = False
) -> dict[str, Any]:
    """Returns the translation of a line as JSON's types.

    Args:
        translation: The translation.
        line: The line.
        with_warnings: Whether it has `warnings`.
    """
    candidates = [_describe_candidate(each, line) for each in translation.candidates]
    content: Any = {
        **candidates[0],
        "was_split": translation.was_split,
    }
    if translation.flags is not None:
        content["flags"] = list(translation.flags)
    if translation.terms is not None:
        content["terms"] = list(translation.terms)
    content["n_best"] = candidates
    if translation.protection is not None:
        content["protection"] = translation.protection
    if translation.sentences:
        content["sentences"] = list(translation.sentences)
    if with_warnings:
        content["warnings"] = [
            {"kind": each.kind, "text": each.text} for each in translation.warnings
        ]
    found: dict[str, Any] = TRANSLATION.dump_python(content, mode="json", by_alias=True)
    return found


def read_translation(content: Mapping[str, Any], line: int) -> Translation:
    """Returns a translation that a server sent.

    Args:
        content: JSON's types.
        line: The line's number, for its warnings.

    Raises:
        ValidationError: The content doesn't have the schema.
    """
    found = TRANSLATION.validate_python(content)
    sentences = tuple(found.get("sentences", ()))
    flags, terms = found.get("flags"), found.get("terms")
    return Translation(
        tuple(_read_candidate(each, is_of_one_line=not sentences) for each in found["n_best"]),
        was_split=found["was_split"],
        warnings=tuple(
            # The server counts the request's own lines.
            LineWarning(each["kind"], f"input line {line}: {each['kind']}", line)
            for each in found.get("warnings", ())
        ),
        flags=None if flags is None else tuple(flags),
        terms=None if terms is None else tuple(terms),
        protection=found.get("protection"),
        sentences=sentences,
    )


def _describe_candidate(candidate: Candidate, line: str) -> dict[str, Any]:
    content: dict[str, Any] = {
        "text": candidate.text,
        "score": candidate.score,
        "log_probability": candidate.log_probability,
    }
    if candidate.fused_log_probability is not None:
        content["language_model_log_probability"] = candidate.fused_log_probability
    content["tokens"] = list(candidate.tokens)
    content["reached_limit"] = candidate.reached_limit
    if candidate.repairs is not None:
        content["repairs"] = candidate.repairs
    if candidate.alignment is not None:
        content["alignment"] = _describe_alignment(candidate.alignment, line, candidate.text)
    return content


def _describe_alignment(alignment: WordAlignment, line: str, text: str) -> AlignmentSchema:
    return {
        "pharaoh": alignment.as_pharaoh(line, text),
        "links": list(alignment.pairs),
        "source_words": list(alignment.source_words),
        "target_words": list(alignment.target_words),
    }


def _read_candidate(content: CandidateSchema, *, is_of_one_line: bool) -> Candidate:
    text, alignment = content["text"], content.get("alignment")
    if is_of_one_line:
        text = text.replace("\n", " ").replace("\r", " ")
    tokens = content["tokens"]
    return Candidate(
        token_ids=(),
        log_probability=content["log_probability"],
        score=content["score"],
        is_finished=not content["reached_limit"],
        token_log_probabilities=tuple(each.log_probability for each in tokens),
        fused_log_probability=content.get("language_model_log_probability"),
        text=text,
        pieces=tuple(each.piece for each in tokens),
        repairs=content.get("repairs"),
        alignment=None
        if alignment is None
        else WordAlignment(
            tuple(alignment["source_words"]),
            tuple(alignment["target_words"]),
            tuple(alignment["links"]),
        ),
    )
