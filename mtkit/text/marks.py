"""Tokens beside a text: tags that stand before a source, and the pieces of its languages."""

import re
from collections.abc import Callable, Sequence

from mtkit.text.languages import NO_MARKS, LanguageTokens, ModelLanguages


class SourceTags:
    """Strings that may stand before a source, each one token.

    Args:
        tags: The strings.
        id_of: Returns the id of a source piece.

    Attributes:
        ids: Each tag's id.
    """

    def __init__(self, tags: Sequence[str], id_of: Callable[[str], int]) -> None:
        self.ids = {tag: id_of(tag) for tag in tags}
        self._leading = re.compile("|".join(rf"\s*{re.escape(tag)}\s*" for tag in tags) or "(?!)")

    def split(self, line: str) -> tuple[str, str]:
        """Returns the tags that stand before a source, as they stand there, and what follows."""
        rest = line
        while found := self._leading.match(rest):
            rest = rest[found.end() :]
        return line[: len(line) - len(rest)], rest

    def read(self, line: str) -> tuple[list[int], str]:
        """Returns the ids of the tags before a source, and what follows them."""
        tags, rest = self.split(line)
        return [self.ids[found[0].strip()] for found in self._leading.finditer(tags)], rest


class LanguageMarks:
    """The tokens that tell a model its languages.

    Args:
        languages: Those that the model has pieces for; None without any.
        id_of_source: Returns the id of a source piece.
        id_of_target: Returns that of a target piece.
    """

    def __init__(
        self,
        languages: ModelLanguages | None,
        id_of_source: Callable[[str], int],
        id_of_target: Callable[[str], int],
    ) -> None:
        self._languages = languages
        found = languages or ModelLanguages()
        # A tag stands before a source, whatever language it names.
        id_of_written = id_of_target if found.begins_output else id_of_source
        self._source = {code: id_of_source(piece) for code, piece in found.source.items()}
        self._target = {code: id_of_written(piece) for code, piece in found.target.items()}

    def mark(self, source: str, target: str) -> LanguageTokens:
        """Returns the tokens that tell the model two languages.

        Args:
            source: The source's code, if the model has pieces for those that it reads.
            target: The target's; empty for no tag.
        """
        if self._languages is None:
            return NO_MARKS
        if not self._languages.begins_output:
            return LanguageTokens(before=(self._target[target],) if target else ())
        of_source, begin = (self._source[source],), (self._target[target],)
        if self._languages.source_place == "behind":
            return LanguageTokens(behind=of_source, begin=begin)
        return LanguageTokens(before=of_source, begin=begin)
