"""The front door: a block of pairs in, those that are kept out, and why the others aren't."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mtkit.data.cleaning import filters
from mtkit.data.cleaning.alignment import Suspect, find_suspects
from mtkit.data.cleaning.characters import build_table, is_script, read_text
from mtkit.data.cleaning.filters import Flags, RepairedPairs, find_misread
from mtkit.data.cleaning.language import Languages, expand_script, scripts_of
from mtkit.data.cleaning.mentions import find_other_addresses, find_other_numbers
from mtkit.data.cleaning.overlap import HeldOut, find_overlap
from mtkit.data.cleaning.repairs import REPAIRS, repair, repair_lines, strip
from mtkit.data.cleaning.repetition import find_repetitive
from mtkit.data.sources.corpora import Pair
from mtkit.errors import MtkitError
from mtkit.recipe.cleaning import Cleaning


@dataclass(frozen=True)
class Cleaned:
    """What became of a block.

    Attributes:
        sources: Source lines of the pairs that are kept, repaired, without spaces at their ends.
        targets: Their target lines.
        indices: Their indices in the block, rising.
        dropped: By filter, in order of application: indices of the pairs that it is the first to
            drop, rising; filters that are off aren't in it.
        repaired: By kind of repair: lines changed, of both sides and of pairs dropped too.
        seconds: Time spent by filter, and on `characters`, `repairs` and `alignment`.
        suspects: Stretches of the block whose two sides don't go together.
    """

    sources: list[str]
    targets: list[str]
    indices: NDArray[np.int64]
    dropped: dict[str, NDArray[np.int64]]
    repaired: dict[str, int]
    seconds: dict[str, float]
    suspects: tuple[Suspect, ...]


class Cleaner:
    """Judges blocks of pairs; what it says of a pair depends on that pair alone."""

    def __init__(
        self,
        settings: Cleaning,
        *,
        languages: tuple[str, str],
        length_ratio: float,
        held_out: HeldOut,
    ) -> None:
        """Builds the tables, which takes some 0.2 s the first time in a process.

        Args:
            settings: Section of the recipe.
            languages: Codes of source and target.
            length_ratio: Target characters per source character, of `measure_length_ratio`.
            held_out: The development and test sets.

        Raises:
            MtkitError: A script or language that isn't known, or a package that isn't installed.
        """
        self._settings = settings
        self._notes: list[str] = []
        scripts = {
            side: self._choose_scripts(side, chosen, language)
            for side, chosen, language in (
                ("source", settings.script.source, languages[0]),
                ("target", settings.script.target, languages[1]),
            )
        }
        self._table = build_table(scripts["source"], scripts["target"])
        identified = Languages(settings.language, *languages) if settings.language.enabled else None
        self._filters = list(_arrange(settings, scripts, identified, length_ratio, held_out))

    def notes(self) -> tuple[str, ...]:
        """Returns what this cleaner can't do for these languages, a sentence each."""
        return tuple(self._notes)

    def clean(self, sources: Sequence[str], targets: Sequence[str]) -> Cleaned:
        """Returns which pairs of a block are kept, and which filter drops each of the others.

        Args:
            sources: Source lines, without their ends; U+FFFD where bytes were invalid UTF-8.
            targets: Target lines, as many.
        """
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources, but {len(targets)} targets")
        watch = _Stopwatch()
        block, repaired = self._read(sources, targets, watch)
        is_left = np.ones(len(block), np.bool_)
        dropped = {}
        for name, find in self._filters:
            found = find(block, is_left) & is_left
            dropped[name] = np.flatnonzero(found)
            is_left &= ~found
            watch.lap(name)
        suspects = find_suspects(block.source.lengths, block.target.lengths)
        watch.lap("alignment")
        indices = np.flatnonzero(is_left)
        kept = indices.tolist()
        return Cleaned(
            [block.source.lines[index] for index in kept],
            [block.target.lines[index] for index in kept],
            indices,
            dropped,
            repaired,
            dict(watch.seconds),
            suspects,
        )

    def _read(
        self, sources: Sequence[str], targets: Sequence[str], watch: "_Stopwatch"
    ) -> tuple[RepairedPairs, dict[str, int]]:
        """Returns the pairs repaired and stripped, and how many lines each repair changed."""
        repairs = self._settings.encoding.enabled
        is_misread = np.zeros(len(sources), np.bool_)
        repaired = dict.fromkeys(REPAIRS, 0)
        sides = []
        for lines in (sources, targets):
            text = read_text(lines, self._table)
            watch.lap("characters")
            if repairs:
                is_misread |= find_misread(text)
                watch.lap("encoding")
                clean_lines, changed = repair_lines(text)
                for kind, count in changed.items():
                    repaired[kind] += count
            else:
                clean_lines = list(map(strip, lines))
            watch.lap("repairs")
            sides.append(text if clean_lines == text.lines else read_text(clean_lines, self._table))
            watch.lap("characters")
        return RepairedPairs(sides[0], sides[1], is_misread), repaired

    def _choose_scripts(self, side: str, chosen: tuple[str, ...], language: str) -> tuple[str, ...]:
        """Returns the scripts of a side, and notes where none is known."""
        if not self._settings.script.enabled:
            return ()
        for script in chosen:
            if not all(map(is_script, expand_script(script))):
                raise MtkitError(
                    f'data.cleaning.script.{side}: "{script}" is no script that Unicode knows',
                    "expected ISO 15924 codes, such as Latn, Cyrl, Arab, Hani, Deva",
                )
        expanded = [code for script in chosen for code in expand_script(script)]
        if scripts := tuple(expanded) or scripts_of(language):
            return scripts
        self._notes.append(
            f"data.cleaning.script doesn't look at the {side}: no script is known for the language "
            f"'{language}'; name it with data.cleaning.script.{side}"
        )
        return ()


class _Stopwatch:
    """Adds up the time between one lap and the next by what was done in it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._lap_at = perf_counter()

    def lap(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name] += now - self._lap_at
        self._lap_at = now


_Find = Callable[[RepairedPairs, Flags], Flags]
"""Takes a block and the pairs that are still in it; returns which pairs to drop."""


def _arrange(
    settings: Cleaning,
    scripts: dict[str, tuple[str, ...]],
    languages: Languages | None,
    length_ratio: float,
    held_out: HeldOut,
) -> Iterator[tuple[str, _Find]]:
    """Yields the filters that are on, by name, in order of application: quick ones first."""
    yield "blank", lambda block, _: filters.find_blank(block)
    if settings.encoding.enabled:
        yield "encoding", lambda block, _: filters.find_broken(block)
    if settings.length.enabled:
        yield "length", lambda block, _: filters.find_wrong_length(block, settings.length)
    if settings.length_ratio.enabled:
        ratio = settings.length_ratio
        yield "length_ratio", lambda block, _: filters.find_uneven(block, ratio, length_ratio)
    if settings.identical.enabled:
        yield "identical", filters.find_identical
    if settings.letters.enabled:
        yield "letters", lambda block, _: filters.find_few_letters(block, settings.letters)
    if settings.script.enabled:
        yield (
            "script",
            lambda block, _: filters.find_foreign_script(
                block,
                settings.script,
                has_source=bool(scripts["source"]),
                has_target=bool(scripts["target"]),
            ),
        )
    if settings.numbers.enabled:
        yield "numbers", lambda block, chosen: find_other_numbers(block, settings.numbers, chosen)
    if settings.urls.enabled:
        yield "urls", lambda block, chosen: find_other_addresses(block, settings.urls, chosen)
    if settings.repetition.enabled:
        yield "repetition", lambda block, _: find_repetitive(block, settings.repetition)
    if settings.overlap.enabled:
        yield (
            "overlap",
            lambda block, chosen: find_overlap(block, settings.overlap, held_out, chosen),
        )
    if languages is not None:
        yield "language", languages.find_foreign


def measure_length_ratio(pairs: Iterable[Pair]) -> float:
    """Returns target characters per source character over pairs that go together.

    Args:
        pairs: Some hundreds or more, such as the development set; 1 if a side of all is empty.
    """
    source_length = target_length = 0
    for source, target in pairs:
        source_length += len(repair(source))
        target_length += len(repair(target))
    return target_length / source_length if source_length and target_length else 1.0
