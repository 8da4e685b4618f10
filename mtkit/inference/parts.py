"""A line as an engine sees it: in tokens, and in parts where it is too long for the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.long_lines import cut_line
from mtkit.inference.notices import LineError
from mtkit.inference.translation import Request
from mtkit.text.tokenizer import SubwordTokenizer

LONGEST_GIVEN = 4_096
"""Tokens of a text that is given and can't be cut, at most, where the model sets no limit itself:
memory grows with the square of its length."""


@dataclass(frozen=True)
class EncodedLine:
    """A line in tokens.

    Attributes:
        parts: What is searched, in order; none where nothing is left of the line, one as a rule.
        num_tokens: Source tokens of the whole line, its tags and `</s>` counted.
    """

    parts: tuple[EncodedSource, ...] = ()
    num_tokens: int = 0


@dataclass(frozen=True)
class LineEncoder:
    """Turns lines into what an engine searches.

    Attributes:
        tokenizer: What the model's text was cut with.
        longest_source: Tokens of a part at most, `</s>` counted.
        longest_prefix: Tokens at most of the output's beginning that is given, and `</s>`.
    """

    tokenizer: SubwordTokenizer
    longest_source: int
    longest_prefix: int

    def encode(self, lines: Sequence[Request], first_line: int) -> list[EncodedLine]:
        """Returns each line in tokens.

        Raises:
            LineError: Its prefix is too long, or its tags leave no room for text.
        """
        encoded = [EncodedLine()] * len(lines)
        places = [place for place, line in enumerate(lines) if line.text.strip()]
        split = [self.tokenizer.split_tags(lines[place].text.rstrip("\r\n")) for place in places]
        tag_tokens = self.tokenizer.encode_source([tags for tags, _ in split])
        text_tokens = self.tokenizer.encode_source([text for _, text in split])
        for place, (_, text), tags, tokens in zip(
            places, split, tag_tokens, text_tokens, strict=True
        ):
            # Nothing may be left: of tags alone, or of characters that the tokenizer drops.
            if tokens[:-1]:
                line = first_line + place
                prefix = self._encode_prefix(lines[place].prefix, line)
                parts = self._cut(text, tokens, tags[:-1], line)
                encoded[place] = EncodedLine(
                    tuple(
                        EncodedSource(part, () if number else prefix, (line, number))
                        for number, part in enumerate(parts)
                    ),
                    len(tags) - 1 + len(tokens),
                )
        return encoded

    def _encode_prefix(self, prefix: str, line: int) -> tuple[int, ...]:
        if not prefix:
            return ()
        tokens = self.tokenizer.encode_target([prefix])[0]
        if len(tokens) > self.longest_prefix:
            raise LineError(
                line,
                f"the beginning of its translation that is given has {len(tokens):,} tokens, but "
                f"the model takes at most {self.longest_prefix:,}",
                "give less of it",
            )
        return tuple(tokens[:-1])

    def _cut(self, text: str, tokens: list[int], tags: list[int], line: int) -> list[list[int]]:
        """Returns the tokens of a line's parts, each behind its tags; empty ones are left out.

        Args:
            text: The line behind its tags.
            tokens: All of it, closed by `</s>`.
            tags: The tags.
            line: The line's number.
        """
        if len(tags) + len(tokens) <= self.longest_source:
            return [[*tags, *tokens]]
        if len(tags) > self.longest_source // 2:
            raise LineError(
                line,
                f"{len(tags):,} tags before the text, which a part of at most "
                f"{self.longest_source:,} tokens (inference.max_source_tokens) has no room for",
                "take tags out, or give a shorter line",
            )
        room = self.longest_source - len(tags)

        def fits(part: str) -> bool:
            return len(self.tokenizer.encode_source([part])[0]) <= room

        parts = self.tokenizer.encode_source(cut_line(text, fits))
        return [[*tags, *part] for part in parts if part[:-1]]
