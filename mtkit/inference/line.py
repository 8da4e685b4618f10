"""A line on its way to its translation: what each step of the pipeline fills in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.learned_aligner import LearnedAligner
from mtkit.inference.request import LineWarning, Request
from mtkit.inference.translation import Translation
from mtkit.recipe.inference import Inference
from mtkit.recipe.parsing import Linearization
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span

if TYPE_CHECKING:
    from mtkit.inference.terms import GlossaryTerms


@dataclass(frozen=True)
class TextModel:
    """What is known of a model beside its engine.

    Attributes:
        tokenizer: Its tokenizer.
        languages: What it reads and writes.
        target_language: The language that it writes where a request names none.
        continues: It is a causal language model, which continues lines.
        linearization: What a parser's trees look like as targets; None for text.
        word_aligner: Aligns words in place of attention; None where nothing was learned.
        has_alignments: Whether something was chosen or learned that alignments come from.
    """

    tokenizer: SubwordTokenizer
    languages: TranslatorLanguages
    target_language: str = ""
    continues: bool = False
    linearization: Linearization | None = None
    word_aligner: LearnedAligner | None = None
    has_alignments: bool = False

    def resolve(self, request: Request) -> tuple[str, str]:
        """Returns the model's codes of a request's languages.

        Raises:
            MtkitError: The model hasn't one of them, or needs one that isn't given.
        """
        return self.languages.resolve(request.source_language, request.target_language)

    def choose_target_language(self, request: Request) -> str:
        """Returns the code of the language that a request is translated into."""
        return self.resolve(request)[1] or self.target_language

    @property
    def translates(self) -> bool:
        """Whether outputs are translations, not trees or a text that goes on."""
        return not self.continues and self.linearization is None


@dataclass
class Line:
    """A line, or a sentence of one.

    Attributes:
        request: What is asked.
        text: The line without its end; of a parser as the model reads it.
        number: Its number, the first being 1.
        settings: How to search.
        terms: Its terms; None where it has no glossary.
        parts: It in tokens; none where it isn't searched.
        warnings: What is to be said of it.
        spans: Where its sentences are in the text, where it is translated sentence by sentence.
        sentences: These; none where it is translated as one.
        translation: What it became; None before the last step.
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


def list_parts(lines: Sequence[Line]) -> Iterator[tuple[Line, EncodedSource]]:
    """Yields the parts of lines, each with its line."""
    for line in lines:
        for part in line.parts:
            yield line, part
