"""Encodes lines as tokens, and cuts lines that are too long for the model."""

import sys
from collections.abc import Sequence

from mtkit.errors import MtkitError, shorten, suggest
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.line import Line, TextModel
from mtkit.inference.paragraphs import cut_line
from mtkit.inference.request import LineError, LineWarning
from mtkit.text.languages import LanguageTokens, is_language_tag
from mtkit.text.words import Span

_MAX_GIVEN_TOKENS = 4_096
"""Limit of a given text, which can't be cut, if the model has no limit: memory grows with the
square of the length."""
_MAX_PARSED_TOKENS = 1_024
"""Limit of a sentence to parse, longer than any in a treebank; time is quadratic."""


def find_given_limit(engine: Engine) -> int:
    """Returns the maximum tokens of texts that can't be cut: given targets, scored sources."""
    return engine.max_tokens or _MAX_GIVEN_TOKENS


def mark_request(model: TextModel, line: Line) -> LanguageTokens:
    """Returns the language tokens of a line; raises a LineError if the model lacks a language."""
    try:
        found = model.resolve(line.request)
    except MtkitError as error:
        raise LineError(line.number, error.message, error.hint) from error
    return model.tokenizer.mark_languages(*found)


class LineEncoder:
    """Encodes sources to translate, or texts that a language model continues."""

    def __init__(self, model: TextModel, engine: Engine) -> None:
        self._tokenizer, self._model, self._engine = model.tokenizer, model, engine

    def encode(self, lines: Sequence[Line]) -> None:
        """Sets each line's parts, and the warnings of cut lines; a line without tokens has no part.

        Raises:
            LineError: A line can't be cut, the model lacks its languages, its prefix is too long,
                or its tags leave no room for text.
        """
        if self._model.continues:
            self._encode_texts(lines)
        else:
            self._encode_sources([line for line in lines if line.text.strip()])
        if with_phrases := [line for line in lines if line.request.required]:
            # Imported here: few lines have any.
            from mtkit.inference.symbol_masks import require_phrases  # noqa: PLC0415

            for line in with_phrases:
                line.parts = require_phrases(line.parts, line.request.required)

    def _encode_texts(self, lines: Sequence[Line]) -> None:
        tokenized = self._tokenizer.encode_target([line.text for line in lines])
        for line, tokens in zip(lines, tokenized, strict=True):
            if line.request.prefix:
                raise LineError(
                    line.number,
                    "a prefix was given, but a language model continues the text itself",
                    "append the prefix to the text",
                )
            max_tokens = find_given_limit(self._engine)
            if len(tokens) > max_tokens:
                raise LineError(
                    line.number,
                    f"{len(tokens):,} tokens, but the model reads {max_tokens:,} at most",
                    "give only the end of the text",
                )
            if line.text.strip() and tokens[:-1]:
                span = (0, len(line.text))
                line.parts = [
                    EncodedSource(
                        tokens[:-1],
                        draw=(line.number, 0),
                        span=span,
                        text=line.text,
                        is_text=True,
                    )
                ]

    def _encode_sources(self, lines: Sequence[Line]) -> None:
        split = [self._tokenizer.split_tags(line.text) for line in lines]
        tag_tokens = self._tokenizer.encode_source([tags for tags, _ in split])
        text_tokens = self._tokenizer.encode_source([text for _, text in split])
        for line, (tags, text), tag_ids, token_ids in zip(
            lines, split, tag_tokens, text_tokens, strict=True
        ):
            if token_ids[:-1]:
                self._encode_source(line, len(tags), text, tag_ids[:-1], token_ids)

    def _encode_source(
        self, line: Line, num_before: int, text: str, tags: Sequence[int], tokens: Sequence[int]
    ) -> None:
        """Sets a line's parts from the tokens of its tags and of the text after them."""
        marks = mark_request(self._model, line)
        prefix = self._encode_prefix(line, len(marks.begin))
        before = [*marks.before, *tags]
        parts = [((0, len(text)), [*before, *tokens, *marks.behind])]
        num_tokens, limit = len(parts[0][1]), self.limit(line)
        if num_tokens > limit and self._model.linearization is not None:
            line.warnings = [
                _warn_too_long(line, f"{num_tokens:,} tokens, more than {limit:,}: not parsed")
            ]
            return
        if num_tokens > limit:
            parts = self._cut(line, text, before, marks.behind)
        sentence = line.request.sentence
        for number, ((start, end), of_part) in enumerate(parts):
            line.parts.append(
                EncodedSource(
                    of_part,
                    begin=marks.begin,
                    prefix=() if number else prefix,
                    draw=(line.number, sentence, number) if sentence else (line.number, number),
                    span=(num_before + start, num_before + end),
                    text=text[start:end],
                )
            )
        tag = next(iter(text.split(maxsplit=1)), "")
        if self._tokenizer.tags and is_language_tag(tag):
            which = f"{shorten(tag, 40)}{suggest(tag, self._tokenizer.tags)}"
            fault = f"the model has no tag {which}, so it is translated as text"
            line.warnings = [LineWarning("unknown tag", fault, line.number)]
        if len(parts) > 1:
            line.warnings += [
                _warn_too_long(
                    line,
                    f"{num_tokens:,} tokens, more than {limit:,} (inference.max_source_tokens): "
                    f"translated in {len(parts)} parts",
                )
            ]

    def limit(self, line: Line) -> int:
        """Returns the maximum tokens of a line's parts, including tags and `</s>`."""
        max_tokens = self._engine.max_tokens or sys.maxsize
        if self._model.linearization is not None:
            # A sentence's tree can't be made of the trees of its parts.
            return min(max_tokens, max(line.settings.max_source_tokens, _MAX_PARSED_TOKENS))
        return min(line.settings.max_source_tokens, max_tokens)

    def _encode_prefix(self, line: Line, num_begin: int) -> tuple[int, ...]:
        """Returns a line's prefix in tokens; `num_begin` tokens of languages come before it."""
        if not line.request.prefix:
            return ()
        tokens = self._tokenizer.encode_target([line.request.prefix])[0]
        max_tokens = find_given_limit(self._engine) - num_begin
        if len(tokens) > max_tokens:
            raise LineError(
                line.number,
                f"the target prefix has {len(tokens):,} tokens, but the model takes at most "
                f"{max_tokens:,}",
                "give a shorter prefix",
            )
        return tuple(tokens[:-1])

    def _cut(
        self, line: Line, text: str, tags: list[int], behind: Sequence[int]
    ) -> list[tuple[Span, list[int]]]:
        """Returns a text's non-empty parts and their tokens, each with tags and marks."""
        limit = self.limit(line)
        if len(tags) > limit // 2:
            raise LineError(
                line.number,
                f"{len(tags):,} tags before the text leave too little room for it in "
                f"{limit:,} tokens (inference.max_source_tokens)",
                "remove some tags, or give a shorter line",
            )

        def fits(part: str) -> bool:
            return len(self._tokenizer.encode_source([part])[0]) <= limit - len(tags) - len(behind)

        language, _ = self._model.resolve(line.request)
        spans = cut_line(text, fits, language)
        parts = self._tokenizer.encode_source([text[start:end] for start, end in spans])
        return [
            (span, [*tags, *part, *behind])
            for span, part in zip(spans, parts, strict=True)
            if part[:-1]
        ]


def _warn_too_long(line: Line, what: str) -> LineWarning:
    return LineWarning("too long for the model", what, line.number)
