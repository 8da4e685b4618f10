"""Requests to a translator, and its translations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field

from mtkit.errors import MtkitError
from mtkit.recipe.inference import Inference
from mtkit.text.glossary import Term
from mtkit.text.trees.restore import Repairs
from mtkit.text.words import Span, find_between_spaces, find_owners

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # Loaded where flags are asked for.
    from mtkit.checks.flag import Flag


@dataclass(frozen=True)
class Request:
    """A line to translate, or one to score.

    Attributes:
        text: The line, without its newline.
        prefix: Target text that the translation begins with; when scoring, the whole translation.
        settings: Search settings; the translator's if not given. `engine`, `precision`,
            `processes`, `batch_tokens` and `fusion` are always the translator's.
        line: Line number, used in messages and, with the seed, for sampling; by default the
            position among the requests of one call.
        source_language: A code of the line's language; the translator's default if not given.
        target_language: A code of the language to translate into; the same.
        extra: Other data that came with the line, such as other keys of a JSON object; passed on.
        glossary: Its own terms, which take the place of those of `inference.glossary`.
        required: What every output must contain; `inference.protect` sets it.
        sentence: Number of this sentence in its line, the first being 0, where the line was split
            before: it isn't split again (`inference.paragraphs`).
    """

    text: str
    prefix: str = ""
    settings: Inference | None = None
    line: int | None = None
    source_language: str = ""
    target_language: str = ""
    extra: Mapping[str, Any] | None = None
    glossary: tuple[Term, ...] = ()
    required: "tuple[RequiredPhrase, ...]" = ()
    sentence: int | None = None


@dataclass(frozen=True)
class RequiredPhrase:
    """Text of a line that an output must contain as it stands there.

    Attributes:
        span: Where it begins and ends in the line, in characters.
        tokens: The target tokens that spell it.
    """

    span: Span
    tokens: tuple[int, ...]


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
class Link:
    """A word of a line and a word of its translation that stand for each other.

    Attributes:
        source: Where the one begins and ends in the line, in characters.
        target: Where the other does in the translation.
    """

    source: Span
    target: Span


@dataclass(frozen=True)
class WordAlignment:
    """Which words of a line and of its translation stand for each other.

    Attributes:
        source_words: Where each word of the line begins and ends, in characters.
        target_words: The same of the translation.
        pairs: Indices of a source and a target word that are linked, in order.
        is_too_long: Whether there are no links, or none in a part, since it has too many words.
    """

    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    pairs: tuple[tuple[int, int], ...]
    is_too_long: bool = False

    @property
    def links(self) -> tuple[Link, ...]:
        """The pairs as stretches of text."""
        return tuple(
            Link(self.source_words[source], self.target_words[target])
            for source, target in self.pairs
        )

    def as_pharaoh(self, line: str, text: str) -> str:
        """Returns the links as other tools write and read them: `0-0 1-2`.

        Words are what spaces and tabs separate, whatever is between; words in `pairs` may be
        parts of them.

        Args:
            line: The line.
            text: Its translation.
        """
        sources = find_owners(self.source_words, find_between_spaces(line))
        targets = find_owners(self.target_words, find_between_spaces(text))
        pairs = {(sources[source], targets[target]) for source, target in self.pairs}
        return " ".join(f"{source}-{target}" for source, target in sorted(pairs))


@dataclass(frozen=True)
class Hypothesis:
    """An output of a search, in tokens.

    Attributes:
        token_ids: Target tokens, `</s>` included where the output ends in one.
        log_probability: Sum of the tokens' natural log-probabilities.
        score: Ranks the hypotheses: the log-probability divided by the length penalty, with other
            penalties.
        is_finished: The last token is `</s>`; otherwise the length limit cut the output.
        token_log_probabilities: One per token; empty if the engine doesn't give them.
        fused_log_probability: Natural log-probability by the language model of
            `inference.fusion`; None without one.
        attention: Each token's attention to each source token, [tgt_len, src_len]; None if the
            engine doesn't give it.
        alignment_weights: How much each token attends to each source token by the head that
            alignments are read from, [tgt_len, src_len]; None if the engine doesn't give it with
            the search.
    """

    token_ids: tuple[int, ...]
    log_probability: float
    score: float
    is_finished: bool
    token_log_probabilities: tuple[float, ...] = ()
    fused_log_probability: float | None = None
    attention: Sequence[Sequence[float]] | None = field(default=None, kw_only=True)
    alignment_weights: "NDArray[np.float32] | None" = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    @property
    def reached_limit(self) -> bool:
        """Whether the length limit cut the output before `</s>`."""
        return not self.is_finished


@dataclass(frozen=True)
class Candidate(Hypothesis):
    """A translation with its probability; of a line in several parts, their sum.

    Attributes:
        text: The translation.
        pieces: Each token as the tokenizer writes it.
        repairs: What it took to make a tree of a parser's output; None for text.
        alignment: Which words stand for which of the line; None unless `inference.alignments`.
    """

    text: str = ""
    pieces: tuple[str, ...] = ()
    repairs: Repairs | None = None
    alignment: WordAlignment | None = None

    @property
    def links(self) -> tuple[Link, ...]:
        """The words that stand for each other; empty where alignments weren't asked for."""
        return () if self.alignment is None else self.alignment.links

    @property
    def tokens(self) -> tuple[ScoredPiece, ...]:
        """Its tokens with log-probabilities, `</s>` included; empty if the engine gives none."""
        return tuple(map(ScoredPiece, self.pieces, self.token_log_probabilities))


@dataclass(frozen=True)
class LineWarning:
    """A warning about a line's translation.

    Attributes:
        kind: The kind that it is counted under, such as `too long for the model`.
        text: The warning, which names the line.
        line: The line's number, the first being 1.
    """

    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class TermUse:
    """What became of a term of `inference.glossary` in a translation.

    Attributes:
        span: Where the term begins and ends in the line, in characters.
        source: The term as it stands there.
        target: Its translation by the glossary.
        use: Whether the best candidate has it as it is given, in another form, or not at all;
            `avoided` where one that is forbidden isn't there.
        found: What the candidate has of it; None where it has nothing.
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
        text: It as it stands in the line.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Protection:
    """What of a line had to stay, and how a translation was found that keeps it.

    Attributes:
        pieces: What had to stay, in the line's order.
        way: `plain` where the translation kept all; how another one was found where it didn't; None
            where none was.
        lost: What the translation hasn't as often as the line.
    """

    pieces: tuple[KeptPiece, ...]
    way: Literal["plain", "masked", "constrained", "n_best"] | None
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a line of several (`inference.paragraphs`), and its best translation.

    Attributes:
        source: Where it begins and ends in the line, in characters.
        target: The same of its translation in the line's.
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


@dataclass(frozen=True)
class Translation:
    """A line's translation.

    Attributes:
        candidates: The n-best list, best first; at least one.
        was_split: The line was too long for the model, and was translated in parts.
        warnings: For example that the line was split or the best candidate was cut.
        flags: What looks wrong with the best candidate; None where flags weren't asked for.
        terms: What became of the line's terms, in order; None without `inference.glossary`.
        protection: What had to stay; None without `inference.protect`.
        sentences: The line's sentences, in order; empty where it was translated as one.
    """

    candidates: tuple[Candidate, ...]
    was_split: bool = False
    warnings: tuple[LineWarning, ...] = ()
    flags: "tuple[Flag, ...] | None" = None
    terms: tuple[TermUse, ...] | None = None
    protection: Protection | None = None
    sentences: tuple[TranslatedSentence, ...] = ()

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.candidates[0].text

    @property
    def reached_limit(self) -> bool:
        """Whether the best candidate was cut at the length limit."""
        return self.candidates[0].reached_limit

    def as_json(self, line: str) -> dict[str, Any]:
        """Returns the translation of a line as the object of a JSON line (`TranslationSchema`)."""
        # Imported here: the schema takes a while to build, and plain text needs none.
        from mtkit.inference.schema import dump_translation  # noqa: PLC0415

        return dump_translation(self, line)


FinishTranslations = Callable[[], list[Translation]]
"""Makes translations of what a search has found: aligns words, joins parts. It is called once, by
any thread."""


def join_alignments(parts: Sequence[Candidate], starts: Sequence[int]) -> WordAlignment | None:
    """Returns the alignment of a line whose parts were translated, each with its own.

    Args:
        parts: The parts' candidates; their source words stand in the line already.
        starts: Where each part's text begins in the joined text.
    """
    sources: list[Span] = []
    targets: list[Span] = []
    pairs: list[tuple[int, int]] = []
    for part, start in zip(parts, starts, strict=True):
        if part.alignment is None:
            return None
        found = part.alignment
        pairs += [(len(sources) + first, len(targets) + last) for first, last in found.pairs]
        sources += found.source_words
        targets += [(begin + start, end + start) for begin, end in found.target_words]
    is_too_long = any(each.alignment is not None and each.alignment.is_too_long for each in parts)
    return WordAlignment(tuple(sources), tuple(targets), tuple(pairs), is_too_long)


BLANK = Translation((Candidate((), 0.0, 0.0, is_finished=True),))
"""The translation of a blank line."""


class LineError(MtkitError):
    """An error in one line of input; the lines before it can still be translated.

    Attributes:
        line: Its number, the first being 1.
    """

    def __init__(self, line: int, fault: str, hint: str = "") -> None:
        super().__init__(f"input line {line}: {fault}", hint)
        self.line = line
        self._fault = fault

    def __reduce__(self) -> tuple[type[Self], tuple[int, str, str]]:
        # An exception is made again from its message alone, which isn't what this one takes.
        return type(self), (self.line, self._fault, self.hint)
