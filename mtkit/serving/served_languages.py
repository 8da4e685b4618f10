"""The languages of a served model: callers' codes and its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from mtkit.text.languages import SEVERAL, ModelLanguages, list_sources, name_languages


@dataclass(frozen=True)
class ServedLanguages:
    """What a model translates.

    Attributes:
        source: Codes of source languages, each with the model's own code; empty without a language
            token.
        target: The same for target languages.
        default_target: The target if a request names none; empty if every request must name one.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    default_target: str = ""

    @classmethod
    def of(cls, languages: ModelLanguages | None, source: str, target: str) -> Self:
        """Returns the languages of a model, from its tokenizer's and its config's."""
        [default] = name_languages([target])
        if languages is None:
            return cls(dict.fromkeys(name_languages([source]), ""), {default: ""}, default)
        known = name_languages(list(languages.target))
        if languages.begins_output:
            return cls.of_codes(list(languages.source), list(languages.target))
        sources = name_languages(list_sources(source, list(languages.target)))
        return cls(dict.fromkeys(sources, ""), known, _only(known))

    @classmethod
    def of_codes(cls, sources: Sequence[str], targets: Sequence[str]) -> Self:
        """Returns the languages of a model that takes codes; from any source to any target."""
        known = name_languages(targets)
        return cls(name_languages(sources), known, _only(known))

    @property
    def pair(self) -> tuple[str, str]:
        """Its source and its target language; `mul` for several."""
        return _only(self.source) or SEVERAL, _only(self.target) or SEVERAL

    def translates(self, source: str, target: str) -> bool:
        """Checks that it translates from one language into another."""
        return source != target and source in self.source and target in self.target

    def describe(self) -> str:
        """Returns what it translates: `en to de`, or the number of languages."""
        if len(self.source) > 1 or len(self.target) > 1:
            return f"{len({*self.source, *self.target}):,} languages"
        return f"{next(iter(self.source))} to {next(iter(self.target))}"


def _only(codes: Mapping[str, str]) -> str:
    return next(iter(codes)) if len(codes) == 1 else ""
