"""The entry point: returns which pairs or lines of a block are kept, and why others are dropped."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mtkit.checks.language import (
    WIDELY_WRITTEN,
    OtherLanguage,
    find_label,
    find_own_labels,
    name_label,
    open_identifier,
)
from mtkit.checks.text import (
    CharacterKind,
    StrangeLetters,
    build_table,
    find_strange,
    is_script,
    measure_length_ratio,
    read_code_points,
)
from mtkit.data.cleaning import filters
from mtkit.data.cleaning.alignment import Misaligned, find_misaligned
from mtkit.data.cleaning.filters import (
    REPAIRS,
    Flags,
    RepairedRows,
    find_misread,
    repair,
    repair_lines,
    strip,
)
from mtkit.data.cleaning.overlap import HeldOut, find_overlap
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.cleaning import Cleaning, LanguageIdentification
from mtkit.text.languages import find_script

_SCRIPTS_OF = {
    "Hans": ("Hani",),
    "Hant": ("Hani",),
    "Hanb": ("Hani", "Bopo"),
    "Jpan": ("Hani", "Hira", "Kana"),
    "Hrkt": ("Hira", "Kana"),
    "Kore": ("Hang", "Hani"),
    "Jamo": ("Hang",),
    "Latf": ("Latn",),
    "Latg": ("Latn",),
    "Cyrs": ("Cyrl",),
    "Aran": ("Arab",),
}
"""ISO 15924 codes for several Unicode scripts, or for a variant of one."""
_Find = Callable[[RepairedRows, Flags], Flags]
"""Takes a block and the rows that are left in it; returns which rows to drop."""
_SCRIPT_KINDS = (CharacterKind.SOURCE_SCRIPT, CharacterKind.TARGET_SCRIPT)


def scripts_of(language: str) -> tuple[str, ...]:
    """Returns the ISO 15924 codes of the scripts of a language; none if unknown."""
    scripts = expand_script(find_script(language))
    return scripts if all(map(is_script, scripts)) else ()


def expand_script(code: str) -> tuple[str, ...]:
    """Returns the Unicode scripts of an ISO 15924 code: three for Jpan."""
    return _SCRIPTS_OF.get(code, (code,))


class LanguageFilter:
    """Distinguishes the recipe's languages from some others."""

    def __init__(self, settings: LanguageIdentification, labels: Sequence[frozenset[str]]) -> None:
        """Loads the model; `labels` are those of source and target, or of text alone."""
        self._settings = settings
        known = open_identifier().labels
        for language in settings.candidates:
            if not find_label(language, known):
                raise MtkitError(
                    f'data.cleaning.language.candidates = "{language}": the language '
                    f"identification model doesn't know this language{suggest(language, known)}",
                    f"known: {', '.join(sorted(known))}",
                )
        others = map(name_label, settings.candidates or WIDELY_WRITTEN)
        candidates = frozenset(others).union(*labels)
        self._sides = [OtherLanguage(own, candidates) if own else None for own in labels]

    def find_foreign(self, block: RepairedRows, chosen: Flags) -> Flags:
        """Returns which of the chosen rows have a side in another language."""
        return block.judge(chosen, lambda *lines: any(map(self._is_foreign, lines, self._sides)))

    def _is_foreign(self, line: str, side: OtherLanguage | None) -> bool:
        if side is None or len(line) < self._settings.min_characters:
            return False
        other, confidence = side.find(line)
        return bool(other) and confidence >= self._settings.min_confidence


@dataclass(frozen=True)
class Cleaned:
    """The result for a block.

    Attributes:
        sides: Each side's kept lines, repaired and stripped.
        indices: Indices of the kept rows in the block, ascending.
        dropped: By active filter, in order of application, the rows that it is the first to drop.
        repaired: Lines changed by kind of repair, on all sides and in dropped rows too.
        seconds: Time by filter, and for `characters`, `repairs` and `alignment`.
        misaligned: Stretches of a block of pairs whose sides don't match.
        strange: For each side, the lines with letters that its language doesn't have.
        notes: A sentence for each check that the languages don't allow.
    """

    sides: tuple[list[str], ...]
    indices: NDArray[np.int64]
    dropped: dict[str, NDArray[np.int64]]
    repaired: dict[str, int]
    seconds: dict[str, float]
    misaligned: list[Misaligned]
    strange: tuple[StrangeLetters, ...] = ()
    notes: tuple[str, ...] = ()


class Cleaner:
    """Judges blocks of pairs or lines; the verdict on a row depends on that row alone."""

    def __init__(
        self,
        settings: Cleaning,
        *,
        languages: tuple[str, ...],
        length_ratio: float,
        held_out: HeldOut,
        letters: tuple[frozenset[str], ...] = (),
        dev: tuple[Sequence[str], ...] = (),
    ) -> None:
        """Builds the tables, which takes about 0.2 s the first time in a process.

        With a single language, filters that compare two sides don't run. `length_ratio` is from
        `learn_length_ratio`; `letters` are those that each side may have beyond ASCII, all if
        empty. `dev` are the development set's lines of each side, which show what a language looks
        like that the identification doesn't know.
        """
        self._settings = settings
        self._notes: list[str] = []
        wanted = (("source", settings.script.source), ("target", settings.script.target))
        scripts = [
            self._choose_scripts(side if len(languages) > 1 else "text", side, chosen, language)
            for (side, chosen), language in zip(wanted, languages, strict=False)
        ]
        self._table = build_table(scripts[0], scripts[-1])
        self._letters = letters
        identified = None
        if settings.language.enabled:
            lines = dev or [()] * len(languages)
            identified = LanguageFilter(
                settings.language, list(map(find_own_labels, languages, lines))
            )
        self._filters = list(_arrange(settings, scripts, identified, length_ratio, held_out))

    def clean(self, *sides: Sequence[str]) -> Cleaned:
        """Returns which rows of a block are kept, and which filter drops each of the others.

        Lines have no line ends, and U+FFFD where bytes were invalid UTF-8.
        """
        if len(sides[0]) != len(sides[-1]):
            raise ValueError(f"{len(sides[0])} sources, but {len(sides[-1])} targets")
        seconds: defaultdict[str, float] = defaultdict(float)
        lap_at = perf_counter()

        def lap(name: str) -> None:
            nonlocal lap_at
            now = perf_counter()
            seconds[name] += now - lap_at
            lap_at = now

        block, repaired = self._read(sides, lap)
        is_left = np.ones(len(block), np.bool_)
        dropped = {}
        for name, find in self._filters:
            found = find(block, is_left) & is_left
            dropped[name] = np.flatnonzero(found)
            is_left &= ~found
            lap(name)
        misaligned: list[Misaligned] = []
        if len(sides) > 1:
            misaligned = find_misaligned(block.source.lengths, block.target.lengths)
            lap("alignment")
        indices = np.flatnonzero(is_left)
        kept = indices.tolist()
        return Cleaned(
            tuple([side.lines[index] for index in kept] for side in block.sides),
            indices,
            dropped,
            repaired,
            dict(seconds),
            misaligned,
            tuple(map(find_strange, block.sides, _SCRIPT_KINDS, self._letters)),
            tuple(self._notes),
        )

    def _read(
        self, sides: Sequence[Sequence[str]], lap: Callable[[str], None]
    ) -> tuple[RepairedRows, dict[str, int]]:
        """Returns the rows repaired and stripped, and how many lines each repair changed."""
        repairs = self._settings.encoding.enabled
        is_misread = np.zeros(len(sides[0]), np.bool_)
        repaired = dict.fromkeys(REPAIRS, 0)
        mended = []
        for lines in sides:
            text = read_code_points(lines, self._table)
            lap("characters")
            if repairs:
                is_misread |= find_misread(text)
                lap("encoding")
                clean_lines, changed = repair_lines(text)
                for kind, count in changed.items():
                    repaired[kind] += count
            else:
                clean_lines = list(map(strip, lines))
            lap("repairs")
            mended.append(
                text if clean_lines == text.lines else read_code_points(clean_lines, self._table)
            )
            lap("characters")
        return RepairedRows(tuple(mended), is_misread), repaired

    def _choose_scripts(
        self, what: str, side: str, chosen: tuple[str, ...], language: str
    ) -> tuple[str, ...]:
        """Returns the scripts of a side, called `what`; adds a note if none is known."""
        if not self._settings.script.enabled:
            return ()
        for script in chosen:
            if not all(map(is_script, expand_script(script))):
                raise MtkitError(
                    f'data.cleaning.script.{side}: unknown script "{script}"',
                    "use ISO 15924 codes, such as Latn, Cyrl, Arab, Hani, Deva",
                )
        expanded = [code for script in chosen for code in expand_script(script)]
        if scripts := tuple(expanded) or scripts_of(language):
            return scripts
        self._notes.append(
            f"data.cleaning.script can't check the {what}: no script is known for the language "
            f"'{language}'; set data.cleaning.script.{side}"
        )
        return ()


def _arrange(
    settings: Cleaning,
    scripts: Sequence[tuple[str, ...]],
    languages: LanguageFilter | None,
    length_ratio: float,
    held_out: HeldOut,
) -> Iterator[tuple[str, _Find]]:
    """Yields the active filters by name, in order of application: fast ones first."""
    ratio, known = settings.length_ratio, list(map(bool, scripts))
    finders: dict[str, _Find] = {
        "encoding": lambda block, _: filters.find_broken(block),
        "length": lambda block, _: filters.find_wrong_length(block, settings.length),
        "length_ratio": lambda block, _: filters.find_uneven(block, ratio, length_ratio),
        "identical": filters.find_identical,
        "letters": lambda block, _: filters.find_few_letters(block, settings.letters),
        "script": lambda block, _: filters.find_foreign_script(block, settings.script, known),
        "numbers": lambda block, left: filters.find_other_numbers(block, settings.numbers, left),
        "urls": lambda block, left: filters.find_other_addresses(block, settings.urls, left),
        "repetition": lambda block, _: filters.find_repeated(block, settings.repetition),
        "overlap": lambda block, left: find_overlap(block, settings.overlap, held_out, left),
    }
    if languages is not None:
        finders["language"] = languages.find_foreign
    yield "blank", lambda block, _: filters.find_blank(block)
    for name, find in finders.items():
        section = settings.filters[name]
        if section.enabled and (len(scripts) > 1 or not section.compares_sides):
            yield name, find


def learn_length_ratio(pairs: Iterable[tuple[str, ...]]) -> float:
    """Returns target characters per source character; give it a few hundred good pairs or more."""
    return measure_length_ratio(pairs, lambda line: len(repair(line)))
