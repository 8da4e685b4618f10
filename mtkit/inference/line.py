"""A line on its way through the pipeline, whose steps fill in its fields."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.learned_aligner import LearnedAligner
from mtkit.inference.request import LineWarning, Request
from mtkit.inference.translation import Hypothesis, Translation
from mtkit.recipe.inference import Inference
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span

if TYPE_CHECKING:
    from mtkit.inference.terms import GlossaryTerms
    from mtkit.recipe.parsing import Linearization


@dataclass(frozen=True)
class TextModel:
    """A model's properties apart from its engine.

    Attributes:
        target_language: The output language if a request names none.
        continues: It is a causal language model, which continues lines.
        linearization: The form of a parser's trees as targets; None for text.
        word_aligner: Replaces attention as the source of alignments; None if none was learned.
        has_alignments: Whether a head was chosen, or an aligner learned, for alignments.
    """

    tokenizer: SubwordTokenizer
    languages: TranslatorLanguages
    target_language: str = ""
    continues: bool = False
    linearization: "Linearization | None" = None
    word_aligner: LearnedAligner | None = None
    has_alignments: bool = False

    def resolve(self, request: Request) -> tuple[str, str]:
        """Returns the model's codes of a request's languages."""
        return self.languages.resolve(request.source_language, request.target_language)

    def choose_target_language(self, request: Request) -> str:
        """Returns the code of a request's target language."""
        return self.resolve(request)[1] or self.target_language

    @property
    def translates(self) -> bool:
        """Whether outputs are translations, not trees or continued text."""
        return not self.continues and self.linearization is None


@dataclass
class Line:
    """A line, or a sentence of one.

    Attributes:
        text: The line without its newline; for a parser in the form that the model reads.
        number: From 1.
        terms: None without a glossary.
        parts: The line as tokens; empty if it isn't searched.
        spans: The sentences' spans in the text, if it is translated sentence by sentence.
        sentences: These sentences; empty if the line is translated as one.
        translation: None before the last step.
    """

    request: Request
    text: str
    number: int
    settings: Inference
    terms: "GlossaryTerms | None" = None
    parts: list[EncodedSource] = field(default_factory=list)
    warnings: list[LineWarning] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    sentences: list["Line"] = field(default_factory=list)
    translation: Translation | None = None


class RankedPart(NamedTuple):
    """A part of a line with its candidates."""

    source: EncodedSource
    candidates: list[Hypothesis]
    settings: Inference


Reranker = Callable[[Sequence[RankedPart]], list[list[Hypothesis]]]
"""Reorders the candidates of parts, best first; it may drop some of a part's, but not all.

The first of the returned candidates is a part's translation.
"""


def list_parts(lines: Sequence[Line]) -> Iterator[tuple[Line, EncodedSource]]:
    """Yields the parts of lines, each with its line."""
    for line in lines:
        for part in line.parts:
            yield line, part
