"""Pairs of sentences, each followed by the same pair with a planted fault.

A classifier learns to distinguish the two, as bicleaner does (Sánchez-Cartagena et al. 2018,
"Prompsit's submission to WMT 2018 Parallel Corpus Filtering shared task", section 3). Faults depend
on the text alone, so a test set is the same for everyone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from mtkit.recipe.text_corpora import PlantedFault

TRANSLATION, FAULT = "translation", "fault"
"""The label of an original pair, and of one with a planted fault."""

_PAIRS_AT_ONCE = 1_000
"""Pairs to draw another target or word from."""
_NUM_DRAWN = 8
"""Targets drawn to find one of similar length, as lengths mustn't reveal a fault; or for words."""
_MIN_UNITS = 3
"""Minimum words, or characters without spaces, of a text that is cut or changed."""

Pair = tuple[str, str]


def plant_faults(
    pairs: Sequence[Pair], kinds: Sequence[PlantedFault], first_number: int
) -> Iterator[tuple[int, Pair | None]]:
    """Yields the index of each pair without a blank side, and the pair with a planted fault.

    Kinds are used round-robin. If a pair is too short for one, the next is tried; None if all fail.
    Other targets and words come from 1,000 pairs around. Numbers count from 1 in the file.
    """
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        around = pairs[start : start + _PAIRS_AT_ONCE]
        for index, (source, target) in enumerate(around):
            if source.strip() and target.strip():
                number = first_number + start + index
                yield start + index, _plant(around, index, kinds, number)


def _plant(
    pairs: Sequence[Pair], index: int, kinds: Sequence[PlantedFault], number: int
) -> Pair | None:
    """Returns a pair with a fault; None if no kind of fault can be planted."""
    random = Random(f"{number} {pairs[index][0]}")
    for turn in range(len(kinds)):
        faulty = _PLANTERS[kinds[(number + turn) % len(kinds)]](pairs, index, random)
        if faulty is not None and faulty != pairs[index]:
            return faulty
    return None


def _shuffle(pairs: Sequence[Pair], index: int, random: Random) -> Pair | None:
    """Returns the source with another pair's target, of about the same length."""
    source, target = pairs[index]
    drawn = [pairs[random.randrange(len(pairs))][1] for _ in range(_NUM_DRAWN)]
    others = [other for other in drawn if other.strip() and other != target]
    if not others:
        return None
    return source, min(others, key=lambda other: abs(len(other) - len(target)))


def _truncate(pairs: Sequence[Pair], index: int, random: Random) -> Pair | None:
    """Returns the pair with one side cut to a third to two thirds, at its start or end."""
    sides = list(pairs[index])
    side = random.randrange(2)
    units, joint = _split(sides[side])
    if len(units) < _MIN_UNITS:
        return None
    num_kept = max(1, round(len(units) * random.uniform(1 / 3, 2 / 3)))
    kept = units[:num_kept] if random.random() < 0.5 else units[-num_kept:]
    sides[side] = joint.join(kept)
    return sides[0], sides[1]


def _perturb(pairs: Sequence[Pair], index: int, random: Random) -> Pair | None:
    """Returns the pair with a fifth to half of the target's words replaced by words of others."""
    source, target = pairs[index]
    units, joint = _split(target)
    drawn = [pairs[random.randrange(len(pairs))][1] for _ in range(_NUM_DRAWN)]
    strange = [unit for other in drawn for unit in _split(other)[0]]
    if len(units) < _MIN_UNITS:
        return None
    num_changed = max(1, round(len(units) * random.uniform(0.2, 0.5)))
    for place in random.sample(range(len(units)), num_changed):
        others = [unit for unit in strange if unit != units[place]]
        if others:
            units[place] = random.choice(others)
    return source, joint.join(units)


def _split(text: str) -> tuple[list[str], str]:
    """Returns a text's words, or characters if it has hardly any spaces, and what joins them."""
    words = text.split()
    if len(words) < _MIN_UNITS and len(text) > 3 * _MIN_UNITS * len(words):
        return list(text.strip()), ""
    return words, " "


_PLANTERS: Mapping[PlantedFault, Callable[[Sequence[Pair], int, Random], Pair | None]] = {
    "shuffled": _shuffle,
    "truncated": _truncate,
    "perturbed": _perturb,
}
