"""Corpora that a translator completes: who translates them, how, and which pairs are kept."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationInfo, model_validator

from mtkit.recipe.corpus_files import FileLocation
from mtkit.recipe.inference import BeamSize, Sampling
from mtkit.recipe.section import Section, start_from_data_root

TEACHER_KEYS = ("translated_by", "synthesis.checked_by")
"""Keys that name a translator."""
REVERSE, PAIRS = "reverse", "pairs"
"""Teachers that `mtkit run` trains from the recipe itself."""


def is_address(model: str) -> bool:
    """Checks whether a model is the address of a server."""
    return model.startswith(("http://", "https://"))


def _as_teachers(value: Any) -> Any:
    # Of a tuple: once a validator has run, pydantic no longer takes JSON's lists for one.
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(value) if isinstance(value, list) else value


def _find_teacher(name: Any, info: ValidationInfo) -> Any:
    if not isinstance(name, str) or name in ("", REVERSE, PAIRS) or is_address(name):
        return name
    return str(start_from_data_root(Path(name), info))


Teacher = Annotated[str, BeforeValidator(_find_teacher)]
"""A translator that completes a corpus, or a path or an address of one."""
Teachers = Annotated[tuple[Teacher, ...], BeforeValidator(_as_teachers)]


class Synthesis(Section):
    """How a corpus's missing side is translated, and which of the new pairs are kept."""

    beam_size: BeamSize = 4
    """Hypotheses kept per sentence; 1 is greedy search."""
    sampling: Sampling | None = None
    """Sample translations instead of using a beam (arXiv 1808.09381). With a weak translator a beam
    is better."""
    closest_to_reference: Literal["bleu", "chrf"] | None = None
    """For a corpus with both sides: of the `beam_size` best translations, or as many samples, take
    the one that is closest to the corpus's own target, by sentence BLEU or chrF (arXiv 1606.07947,
    section 3.3). By default the most probable one."""
    rounds: Annotated[int, Field(ge=1, le=3)] = 1
    """With `translated_by = "reverse"`: how often both translators are trained
    (aclanthology.org/W18-2703). From the second round on the reverse translator also learns from
    the corpora with `source` alone, which this recipe's translator of the round before
    translates."""
    checked_by: Annotated[str, BeforeValidator(_find_teacher)] = ""
    """A translator in the other direction, for the next two keys: as in `translated_by`."""
    min_round_trip: Annotated[float, Field(ge=0.0, le=100.0)] | None = None
    """Minimum sentence chrF between a line and its translation that `checked_by` has translated
    back."""
    keep: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Share of the pairs to keep: those with the best dual cross-entropy (arXiv 1809.00197,
    equation 1), from forced scores by `translated_by` and by `checked_by`."""
    drop_flagged: bool = False
    """Drop translations with a flag of `inference.flags`, such as `looping` or `copied`."""

    @model_validator(mode="after")
    def _is_checked_by_someone(self) -> Self:
        for key in ("min_round_trip", "keep"):
            if getattr(self, key) is not None and not self.checked_by:
                raise ValueError(f"{key} needs checked_by, a translator in the other direction")
        if self.closest_to_reference and self.beam_size == 1:
            raise ValueError("closest_to_reference chooses among beam_size translations: raise it")
        if self.checked_by and self.min_round_trip is None and self.keep is None:
            raise ValueError("checked_by is for min_round_trip and keep: give one of them")
        return self


class TranslatedKeys(Section):
    """Keys of a corpus that a translator may complete."""

    translated_by: Teachers = ()
    """A translator of the missing side; of a corpus with both sides it replaces the targets
    (distillation). A model folder, or a list of folders, which is an ensemble; a recipe, which
    `mtkit run` trains first; `"reverse"`, this recipe in the other direction on its pairs alone;
    or `"pairs"`, this recipe on its pairs alone. With `--set` also the address of a server or the
    file of a large language model: a recipe alone sends nothing."""
    synthesis: Synthesis = Synthesis()
    """How it translates, and which pairs are kept."""
    _typed_keys: frozenset[str] = PrivateAttr(frozenset())

    @property
    def command_line_keys(self) -> frozenset[str]:
        """Keys that name a translator and were given on the command line, not by a recipe."""
        return self._typed_keys

    def record_command_line_keys(self, keys: frozenset[str]) -> None:
        """Remembers which keys were given on the command line."""
        self._typed_keys = keys

    @property
    def is_backwards(self) -> bool:
        """Whether the source side is what is missing."""
        return False

    @model_validator(mode="after")
    def _is_completed_by_someone(self) -> Self:
        if not self.translated_by and self.synthesis != Synthesis():
            raise ValueError("synthesis is for a corpus with translated_by: name a translator")
        if self.synthesis.rounds > 1 and self.translated_by != (REVERSE,):
            raise ValueError(f'synthesis.rounds is for translated_by = "{REVERSE}"')
        if "" in self.translated_by:
            raise ValueError("translated_by: an empty name")
        if len(self.translated_by) > 1:
            for name in self.translated_by:
                if name in (REVERSE, PAIRS) or is_address(name) or name.endswith(".toml"):
                    raise ValueError(
                        f"translated_by: {name} can't be part of an ensemble: name model folders"
                    )
        teacher, checker = (REVERSE, PAIRS) if self.is_backwards else (PAIRS, REVERSE)
        for key, names, expected in (
            ("translated_by", self.translated_by, teacher),
            ("checked_by", (self.synthesis.checked_by,), checker),
        ):
            if {REVERSE, PAIRS} & set(names) - {expected}:
                side = "source" if self.is_backwards else "target"
                raise ValueError(
                    f'{key} = "{names[0]}" translates the other way: the {side} side is missing, '
                    f'so it needs "{expected}"'
                )
        return self


class OneSide(Section):
    """Text of one side; a translator writes the other."""

    source: FileLocation | None = None
    """Text of the source language; its target is made (forward translation)."""
    target: FileLocation | None = None
    """Text of the target language; its source is made (back-translation)."""

    @property
    def path(self) -> FileLocation:
        """The file that there is."""
        found = self.source if self.source is not None else self.target
        assert found is not None
        return found
