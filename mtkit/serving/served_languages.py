"""The languages of a model that is served: by callers' codes, and by its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from mtkit.text.languages import ModelLanguages, name_languages


@dataclass(frozen=True)
class ServedLanguages:
    """What a model translates.

    Attributes:
        source: Codes of languages that it reads, each with the code that it has to be told; an
            empty one where it isn't told.
        target: Those of languages that it writes, likewise.
        default_target: What it writes where a request names nothing; empty where it must.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    default_target: str = ""

    @classmethod
    def of(cls, languages: ModelLanguages | None, source: str, target: str) -> Self:
        """Returns the languages of a model.

        Args:
            languages: Those that its tokenizer has pieces for, if any.
            source: The language that its config says it reads.
            target: The language that its config says it writes.
        """
        of_source = dict.fromkeys(name_languages([source]), "")
        [default] = name_languages([target])
        if languages is None:
            return cls(of_source, {default: ""}, default)
        known = name_languages(list(languages.target))
        if languages.begins_output:
            return cls(name_languages(list(languages.source)), known, _only(known))
        if of_source.keys() & known.keys():
            # It writes its own source language, so it reads the others.
            of_source |= dict.fromkeys(known, "")
        return cls(of_source, known, _only(known))

    @property
    def has_several(self) -> bool:
        """Whether it has more than one direction."""
        return len(self.source) > 1 or len(self.target) > 1

    def translates(self, source: str, target: str) -> bool:
        """Returns whether it translates from one language into another."""
        return source != target and source in self.source and target in self.target

    def describe(self) -> str:
        """Returns what it translates, for people: `en to de`, or how many languages."""
        if self.has_several:
            return f"{len({*self.source, *self.target}):,} languages"
        return f"{next(iter(self.source))} to {next(iter(self.target))}"


def _only(codes: Mapping[str, str]) -> str:
    return next(iter(codes)) if len(codes) == 1 else ""
