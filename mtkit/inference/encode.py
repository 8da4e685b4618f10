"""A line as an engine sees it: in tokens, and in parts where it is too long for the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.segment import cut_line
from mtkit.inference.translation import LineError, LineWarning, Request
from mtkit.text.languages import LanguageTokens, TranslatorLanguages
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span

_MAX_GIVEN_TOKENS = 4_096
"""Max tokens of a given text, which can't be cut, if the model itself has no limit: memory grows
with the square of the length."""


def limit_given(engine: Engine) -> int:
    """Returns the max tokens of texts that can't be cut: given targets, sources to be scored."""
    return engine.max_tokens or _MAX_GIVEN_TOKENS


class LineEncoder(Protocol):
    """Turns lines into what an engine searches."""

    def encode(
        self, requests: Sequence[Request], lines: Sequence[int], limits: Sequence[int]
    ) -> tuple[list[list[EncodedSource]], dict[int, LineWarning]]:
        """Returns each line's parts, and warnings of the lines that were cut, by their positions.

        A line that leaves no token has no part.

        Args:
            requests: Their texts and prefixes are encoded.
            lines: Each line's number.
            limits: Tokens that each line's parts have at most, `</s>` counted.

        Raises:
            LineError: It is too long, and can't be cut.
        """
        ...


def mark_request(
    tokenizer: SubwordTokenizer, languages: TranslatorLanguages, request: Request, line: int
) -> LanguageTokens:
    """Returns the tokens that tell the model a request's languages.

    Raises:
        LineError: The model hasn't one of them, or needs one that isn't given.
    """
    try:
        found = languages.resolve(request.source_language, request.target_language)
    except MtkitError as error:
        raise LineError(line, error.message, error.hint) from error
    return tokenizer.mark_languages(*found)


@dataclass(frozen=True)
class ContinuationEncoder:
    """Encodes lines that a language model continues.

    Attributes:
        tokenizer: The model's.
        max_tokens: Tokens at most of a line and of the first token that follows it.
    """

    tokenizer: SubwordTokenizer
    max_tokens: int

    def encode(
        self, requests: Sequence[Request], lines: Sequence[int], _: Sequence[int]
    ) -> tuple[list[list[EncodedSource]], dict[int, LineWarning]]:
        """Returns each line's one part; a blank line, or one that leaves no token, has none.

        Args:
            requests: Their texts are encoded.
            lines: Each line's number.

        Raises:
            LineError: A line is too long, or has a prefix beside its text.
        """
        encoded: list[list[EncodedSource]] = [[] for _ in requests]
        texts = [request.text.rstrip("\r\n") for request in requests]
        tokenized = self.tokenizer.encode_target(texts)
        for index, (request, line, tokens) in enumerate(
            zip(requests, lines, tokenized, strict=True)
        ):
            if request.prefix:
                raise LineError(
                    line,
                    "a prefix beside the text, but a language model continues the text itself",
                    "append the prefix to the text",
                )
            if len(tokens) > self.max_tokens:
                raise LineError(
                    line,
                    f"{len(tokens):,} tokens, but the model reads {self.max_tokens:,} at most",
                    "give the end of the text alone",
                )
            if texts[index].strip() and tokens[:-1]:
                span = (0, len(texts[index]))
                encoded[index] = [
                    EncodedSource(tokens[:-1], draw=(line, 0), span=span, is_text=True)
                ]
        return encoded, {}


@dataclass(frozen=True)
class SourceEncoder:
    """Turns lines into sources to translate, in parts where they are too long.

    Attributes:
        tokenizer: The model's.
        max_prefix_tokens: Maximum number of tokens of a target prefix, `</s>` counted.
        languages: What the model reads and writes.
        cuts: Whether a line that is too long is cut; else it has no part.
    """

    tokenizer: SubwordTokenizer
    max_prefix_tokens: int
    languages: TranslatorLanguages
    cuts: bool = True

    def encode(
        self, requests: Sequence[Request], lines: Sequence[int], limits: Sequence[int]
    ) -> tuple[list[list[EncodedSource]], dict[int, LineWarning]]:
        """Returns each line's parts, and warnings of the lines that were cut, by their positions.

        A line that leaves no token has no part: one of tags alone, or of characters that the
        tokenizer drops.

        Args:
            requests: Their texts and prefixes are encoded.
            lines: Each line's number.
            limits: Tokens that each line's parts have at most, tags and `</s>` counted.

        Raises:
            LineError: The model hasn't its languages; its prefix is too long, or its tags leave no
                room for text.
        """
        encoded: list[list[EncodedSource]] = [[] for _ in requests]
        warnings: dict[int, LineWarning] = {}
        indices = [index for index, request in enumerate(requests) if request.text.strip()]
        split = [
            self.tokenizer.split_tags(requests[index].text.rstrip("\r\n")) for index in indices
        ]
        tag_tokens = self.tokenizer.encode_source([tags for tags, _ in split])
        text_tokens = self.tokenizer.encode_source([text for _, text in split])
        for index, (tags, text), tag_ids, token_ids in zip(
            indices, split, tag_tokens, text_tokens, strict=True
        ):
            if not token_ids[:-1]:
                continue
            line, limit, sentence = lines[index], limits[index], requests[index].sentence
            prefix = self._encode_prefix(requests[index].prefix, line)
            marks = mark_request(self.tokenizer, self.languages, requests[index], line)
            before = [*marks.before, *tag_ids[:-1]]
            parts = [((0, len(text)), [*before, *token_ids, *marks.behind])]
            num_tokens = len(parts[0][1])
            if num_tokens > limit and not self.cuts:
                warnings[index] = LineWarning(
                    "too long for the model",
                    f"input line {line} has {num_tokens:,} tokens, more than the model's "
                    f"{limit:,}: not parsed",
                    line,
                )
                continue
            if num_tokens > limit:
                parts = self._cut(requests[index], before, marks.behind, line, limit)
            encoded[index] = [
                EncodedSource(
                    tokens,
                    begin=marks.begin,
                    prefix=() if number else prefix,
                    draw=(line, sentence, number) if sentence else (line, number),
                    span=(len(tags) + start, len(tags) + end),
                )
                for number, ((start, end), tokens) in enumerate(parts)
            ]
            if len(parts) > 1:
                warnings[index] = LineWarning(
                    "too long for the model",
                    f"input line {line} has {num_tokens:,} tokens, more than {limit:,} "
                    f"(inference.max_source_tokens): translated in {len(parts)} parts",
                    line,
                )
        return encoded, warnings

    def _encode_prefix(self, prefix: str, line: int) -> tuple[int, ...]:
        if not prefix:
            return ()
        tokens = self.tokenizer.encode_target([prefix])[0]
        if len(tokens) > self.max_prefix_tokens:
            raise LineError(
                line,
                f"the target prefix has {len(tokens):,} tokens, but the model takes at most "
                f"{self.max_prefix_tokens:,}",
                "give a shorter prefix",
            )
        return tuple(tokens[:-1])

    def _cut(
        self,
        request: Request,
        tags: list[int],
        behind: Sequence[int],
        line: int,
        limit: int,
    ) -> list[tuple[Span, list[int]]]:
        """Returns the parts of text and their tokens, each behind the tags, without empty ones.

        Behind each part's `</s>` comes what is behind the text's.
        """
        if len(tags) > limit // 2:
            raise LineError(
                line,
                f"{len(tags):,} tags before the text leave too little room for it in "
                f"{limit:,} tokens (inference.max_source_tokens)",
                "remove some tags, or give a shorter line",
            )

        def fits(part: str) -> bool:
            return len(self.tokenizer.encode_source([part])[0]) <= limit - len(tags) - len(behind)

        _, text = self.tokenizer.split_tags(request.text.rstrip("\r\n"))
        language, _ = self.languages.resolve(request.source_language, request.target_language)
        spans = cut_line(text, fits, language)
        parts = self.tokenizer.encode_source([text[start:end] for start, end in spans])
        return [
            (span, [*tags, *part, *behind])
            for span, part in zip(spans, parts, strict=True)
            if part[:-1]
        ]
