"""A line as an engine sees it: in tokens, and in parts where it is too long for the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.segment import Span, cut_line
from mtkit.inference.translation import LineError, LineWarning, Request
from mtkit.text.tokenizer import SubwordTokenizer


@dataclass(frozen=True)
class LineEncoder:
    """Turns lines into what an engine searches.

    Attributes:
        tokenizer: The model's.
        max_prefix_tokens: Tokens at most of the output's beginning that is given, and `</s>`.
    """

    tokenizer: SubwordTokenizer
    max_prefix_tokens: int

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
            LineError: Its prefix is too long, or its tags leave no room for text.
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
            line, limit = lines[index], limits[index]
            prefix = self._encode_prefix(requests[index].prefix, line)
            parts = [((0, len(text)), [*tag_ids[:-1], *token_ids])]
            num_tokens = len(parts[0][1])
            if num_tokens > limit:
                parts = self._cut(text, tag_ids[:-1], line, limit)
            encoded[index] = [
                EncodedSource(
                    tokens,
                    prefix=() if number else prefix,
                    draw=(line, number),
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
                f"the beginning of its translation that is given has {len(tokens):,} tokens, but "
                f"the model takes at most {self.max_prefix_tokens:,}",
                "give less of it",
            )
        return tuple(tokens[:-1])

    def _cut(
        self, text: str, tags: list[int], line: int, limit: int
    ) -> list[tuple[Span, list[int]]]:
        """Returns the parts of text and their tokens, each behind the tags, without empty ones."""
        if len(tags) > limit // 2:
            raise LineError(
                line,
                f"{len(tags):,} tags before the text, which a part of at most "
                f"{limit:,} tokens (inference.max_source_tokens) has no room for",
                "take tags out, or give a shorter line",
            )

        def fits(part: str) -> bool:
            return len(self.tokenizer.encode_source([part])[0]) <= limit - len(tags)

        spans = cut_line(text, fits)
        parts = self.tokenizer.encode_source([text[start:end] for start, end in spans])
        return [
            (span, [*tags, *part]) for span, part in zip(spans, parts, strict=True) if part[:-1]
        ]
