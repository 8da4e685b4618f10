"""Translations, and their schema for `--json`, the server and its client."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from mtkit.checks.flag import Flag
from mtkit.inference.request import LineWarning
from mtkit.text.trees.repairs import Repairs
from mtkit.text.words import Span, find_between_spaces, find_owners

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ScoredPiece:
    """A token of a translation.

    Attributes:
        piece: The token as the tokenizer writes it.
        log_probability: Its natural log-probability, given the source and what comes before.
    """

    piece: str
    log_probability: float


@dataclass(frozen=True)
class WordLink:
    """A word's span in a line, and the span of its translation, in characters."""

    source: Span
    target: Span


@dataclass(frozen=True)
class WordAlignment:
    """Links between the words of a line and of its translation.

    Attributes:
        source_words: The span of each word of the line, in characters.
        target_words: The same for the translation.
        pairs: Indices of a source and a target word that are linked, in order.
        is_too_long: The line, or a part of it, has too many words to be aligned.
    """

    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    pairs: tuple[tuple[int, int], ...]
    is_too_long: bool = False

    @property
    def links(self) -> tuple[WordLink, ...]:
        """The pairs as spans."""
        return tuple(
            WordLink(self.source_words[source], self.target_words[target])
            for source, target in self.pairs
        )

    def as_pharaoh(self, line: str, text: str) -> str:
        """Returns the links between words separated by spaces, as other aligners do: `0-0 1-2`."""
        sources = find_owners(self.source_words, find_between_spaces(line))
        targets = find_owners(self.target_words, find_between_spaces(text))
        pairs = {(sources[source], targets[target]) for source, target in self.pairs}
        return " ".join(f"{source}-{target}" for source, target in sorted(pairs))

    def as_json(self, line: str, text: str) -> "AlignmentSchema":
        """Returns the alignment of a line and its translation for JSON."""
        return {
            "pharaoh": self.as_pharaoh(line, text),
            "links": list(self.pairs),
            "source_words": list(self.source_words),
            "target_words": list(self.target_words),
        }


@dataclass(frozen=True)
class Hypothesis:
    """An output of a search; for a line in several parts, their outputs joined.

    Attributes:
        token_ids: Target tokens, including a final `</s>`.
        log_probability: Sum of the tokens' natural log-probabilities.
        score: Ranks the hypotheses: the log-probability divided by the length penalty, plus other
            penalties.
        is_finished: The last token is `</s>`; otherwise the length limit cut the output.
        token_log_probabilities: One per token; empty if the engine doesn't return them.
        fused_log_probability: Natural log-probability by the language model of
            `inference.fusion`; None without one.
        utility: Mean score against all candidates (`inference.rerank`), in percentage points, for
            a line in several parts the mean of theirs; None without.
        model_scores: Log-probability per token by each of `inference.rerank.models`, for a line in
            several parts the mean of theirs.
        text: The translation; empty in an engine.
        pieces: Each token as the tokenizer writes it.
        repairs: Repairs of a parser's output to make it a tree; None for text.
        alignment: Links to the line's words; None unless `inference.alignments`.
        alignment_weights: Each token's attention to each source token by the alignment head,
            [tgt_len, src_len]; None if the search doesn't return it.
    """

    token_ids: tuple[int, ...]
    log_probability: float
    score: float
    is_finished: bool
    token_log_probabilities: tuple[float, ...] = ()
    fused_log_probability: float | None = None
    text: str = ""
    pieces: tuple[str, ...] = ()
    repairs: Repairs | None = None
    alignment: WordAlignment | None = None
    utility: float | None = field(default=None, kw_only=True)
    model_scores: tuple[float, ...] = field(default=(), kw_only=True)
    alignment_weights: "NDArray[np.float32] | None" = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    @property
    def reached_limit(self) -> bool:
        """Whether the length limit cut the output before `</s>`."""
        return not self.is_finished

    @property
    def mean_log_probability(self) -> float | None:
        """Mean natural log-probability of a token; None without tokens."""
        num_tokens = len(self.token_log_probabilities) or len(self.token_ids)
        return self.log_probability / num_tokens if num_tokens else None

    @property
    def links(self) -> tuple[WordLink, ...]:
        """The linked words; empty without alignments."""
        return () if self.alignment is None else self.alignment.links

    @property
    def tokens(self) -> tuple[ScoredPiece, ...]:
        """Tokens with log-probabilities, including `</s>`; empty if the engine returns none."""
        return tuple(map(ScoredPiece, self.pieces, self.token_log_probabilities))


@dataclass(frozen=True)
class TermUse:
    """How a translation uses a term of `inference.glossary`.

    Attributes:
        span: The term's start and end in the line, in characters.
        source: The term as written there.
        target: Its translation in the glossary.
        use: Whether the best candidate has it as given, in another form, or not at all;
            `avoided` if it is forbidden and absent.
        found: The target as written in the candidate; None if absent.
        is_forbidden: Whether the target must not be used.
    """

    span: Span
    source: str
    target: str
    use: Literal["used", "inflected", "missed", "avoided"]
    found: str | None = None
    is_forbidden: Annotated[bool, Field(alias="forbidden")] = False


@dataclass(frozen=True)
class KeptPiece:
    """A piece of a line that a translation must keep.

    Attributes:
        kind: Its kind, such as `url`.
        text: Its text in the line.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Protection:
    """What a translation had to keep, and how one that keeps it was found.

    Attributes:
        pieces: Pieces to keep, in the line's order.
        way: `plain` if the first translation kept all, otherwise how another one was found; None
            if none was.
        lost: Pieces that the translation contains less often than the line.
    """

    pieces: tuple[KeptPiece, ...]
    way: Literal["plain", "masked", "constrained", "n_best"] | None
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class TranslatedSentence:
    """One of a line's several sentences (`inference.paragraphs`), and its best translation.

    Attributes:
        source: Its start and end in the line, in characters.
        target: Start and end of its translation in the line's translation.
        score: Its score.
        log_probability: Sum of its tokens' natural log-probabilities.
        reached_limit: Whether the length limit cut it.
        was_split: It was too long for the model, and was translated in parts.
    """

    source: Span
    target: Span
    score: float
    log_probability: float
    reached_limit: bool
    was_split: bool


class AlignmentSchema(TypedDict):
    """Which words of a line and of its translation correspond."""

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
    utility: NotRequired[float]
    model_scores: NotRequired[list[float]]
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
    quality: NotRequired[float]
    released: NotRequired[bool]
    model: NotRequired[str]
    warnings: NotRequired[list[WarningSchema]]


@dataclass(frozen=True)
class Translation:
    """A line's translation.

    Attributes:
        candidates: The n-best list, best first; at least one.
        was_split: The line was too long for the model, and was translated in parts.
        warnings: For example that the line was split or the best candidate was cut.
        flags: Signs of a bad best candidate; None unless flags were requested.
        terms: Uses of the line's terms, in order; None without `inference.glossary`.
        protection: Protected pieces; None without `inference.protect`.
        sentences: The line's sentences, in order; empty if it was translated as one.
        model: Name of its model, set by a server with a fallback.
        quality: Estimated probability that it is right (`inference.quality`), the lowest of several
            sentences'; None without an estimate.
        released: Whether every sentence's quality reaches the threshold of the risk; None without
            an estimate.
    """

    candidates: tuple[Hypothesis, ...]
    was_split: bool = False
    warnings: tuple[LineWarning, ...] = ()
    flags: tuple[Flag, ...] | None = None
    terms: tuple[TermUse, ...] | None = None
    protection: Protection | None = None
    sentences: tuple[TranslatedSentence, ...] = ()
    model: str | None = None
    quality: float | None = None
    released: bool | None = None

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.candidates[0].text

    @property
    def reached_limit(self) -> bool:
        """Whether the best candidate was cut at the length limit."""
        return self.candidates[0].reached_limit

    def as_json(self, line: str, *, with_warnings: bool = False) -> dict[str, object]:
        """Returns the translation of a line as JSON's types (`TranslationSchema`)."""
        candidates = [_describe_candidate(each, line) for each in self.candidates]
        warnings = [{"kind": each.kind, "text": each.text} for each in self.warnings]
        content: Any = candidates[0] | _without_absent(
            was_split=self.was_split,
            flags=None if self.flags is None else list(self.flags),
            terms=None if self.terms is None else list(self.terms),
            n_best=candidates,
            protection=self.protection,
            sentences=list(self.sentences) or None,
            quality=self.quality,
            released=self.released,
            model=self.model if with_warnings else None,
            warnings=warnings if with_warnings else None,
        )
        found: dict[str, object] = _translation_adapter().dump_python(
            content, mode="json", by_alias=True
        )
        return found


FinishTranslations = Callable[[], list[Translation]]
"""Turns search results into translations: aligns words, joins parts. Called once, by any thread."""


BLANK = Translation((Hypothesis((), 0.0, 0.0, is_finished=True),))
"""The translation of a blank line."""


def read_translation(content: Mapping[str, Any], line: int) -> Translation:
    """Returns a translation that a server sent; raises a ValidationError if it is malformed."""
    found = _translation_adapter().validate_python(content)
    sentences = tuple(found.get("sentences", ()))
    flags, terms = found.get("flags"), found.get("terms")
    return Translation(
        tuple(_read_candidate(each, is_of_one_line=not sentences) for each in found["n_best"]),
        was_split=found["was_split"],
        warnings=tuple(
            # The server counts the request's own lines.
            LineWarning(each["kind"], each["kind"], line)
            for each in found.get("warnings", ())
        ),
        flags=None if flags is None else tuple(flags),
        terms=None if terms is None else tuple(terms),
        protection=found.get("protection"),
        sentences=sentences,
        model=found.get("model"),
        quality=found.get("quality"),
        released=found.get("released"),
    )


@cache
def _translation_adapter() -> TypeAdapter[TranslationSchema]:
    # Plain text doesn't need it, and it builds slowly.
    return TypeAdapter(TranslationSchema)


def _describe_candidate(candidate: Hypothesis, line: str) -> dict[str, object]:
    alignment = candidate.alignment
    return _without_absent(
        text=candidate.text,
        score=candidate.score,
        log_probability=candidate.log_probability,
        language_model_log_probability=candidate.fused_log_probability,
        utility=candidate.utility,
        model_scores=list(candidate.model_scores) or None,
        tokens=list(candidate.tokens),
        reached_limit=candidate.reached_limit,
        repairs=candidate.repairs,
        alignment=None if alignment is None else alignment.as_json(line, candidate.text),
    )


def _without_absent(**keys: object) -> dict[str, object]:
    return {key: value for key, value in keys.items() if value is not None}


def _read_candidate(content: CandidateSchema, *, is_of_one_line: bool) -> Hypothesis:
    text, alignment = content["text"], content.get("alignment")
    if is_of_one_line:
        text = text.replace("\n", " ").replace("\r", " ")
    tokens = content["tokens"]
    return Hypothesis(
        token_ids=(),
        log_probability=content["log_probability"],
        score=content["score"],
        is_finished=not content["reached_limit"],
        token_log_probabilities=tuple(each.log_probability for each in tokens),
        fused_log_probability=content.get("language_model_log_probability"),
        utility=content.get("utility"),
        model_scores=tuple(content.get("model_scores", ())),
        text=text,
        pieces=tuple(each.piece for each in tokens),
        repairs=content.get("repairs"),
        alignment=None if alignment is None else _read_alignment(alignment),
    )


def _read_alignment(found: AlignmentSchema) -> WordAlignment:
    sources, targets = tuple(found["source_words"]), tuple(found["target_words"])
    return WordAlignment(sources, targets, tuple(found["links"]))
