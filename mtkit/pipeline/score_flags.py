"""Flags lines of translations without references: no score, but which lines to look at."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mtkit.console import say
from mtkit.data.sources.lines import read_lines
from mtkit.evaluation.evaluate import check_counts
from mtkit.evaluation.flags import Flag, FlagFinder, ScoredLine, count_flagged_lines
from mtkit.files import as_json_text, write_atomically
from mtkit.paths import as_text
from mtkit.pipeline.score_files import Scoring, load_scoring, read_systems, without_returns
from mtkit.recipe import PROJECT_RECIPE, load_recipe
from mtkit.recipe.flags import FlagName, Flags
from mtkit.recipe.inference import Inference
from mtkit.recipe.override_section import override_section, split_overrides

NOTE = (
    "no references, so no score: flags are reasons to look at a line, and lines without any may be "
    "wrong too"
)
_OF_MODELS: tuple[FlagName, ...] = ("unlikely", "poorly covered")
"""Flags that need a model."""


@dataclass(frozen=True)
class Flagging:
    """Settings for flagging files.

    Attributes:
        settings: Thresholds, and the flags that need only files.
        omitted: Omitted flags, with the reason.
        scoring: Metrics, significance and languages.
    """

    settings: Flags
    omitted: Mapping[str, str]
    scoring: Scoring


@dataclass(frozen=True)
class FlaggedSystem:
    """A system's lines with their flags; `names` are the flags that were checked."""

    name: str
    sources: Sequence[str]
    hypotheses: Sequence[str]
    flags: Sequence[tuple[Flag, ...]]
    names: tuple[FlagName, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many lines have each flag, and how many have any."""
        return {**count_flagged_lines(self.flags, self.names), "any": sum(map(bool, self.flags))}


def load_flagging(recipe: str, overrides: Sequence[str]) -> Flagging:
    """Returns the flagging settings of a recipe, or the defaults without a recipe.

    An empty `recipe` means `./mtkit.toml`, if that exists. Without a recipe `overrides` are only of
    `inference.flags` and `evaluation`.
    """
    if recipe or PROJECT_RECIPE.is_file():
        flags = load_recipe(recipe, overrides).inference.flags
    else:
        of_flags, overrides = split_overrides(overrides, "inference")
        flags = override_section(Inference(flags=Flags()), "inference", of_flags).flags
    scoring = load_scoring(recipe, overrides)
    flags = flags or Flags()
    omitted: dict[str, str] = {name: "needs a model" for name in _OF_MODELS if name in flags.names}
    if not scoring.target_language and "wrong language" in flags.names:
        omitted["wrong language"] = "name the language: --set evaluation.language=de"
    names = tuple(name for name in flags.names if name not in omitted)
    return Flagging(flags.model_copy(update={"names": names}), omitted, scoring)


def flag_files(hypotheses: Sequence[Path], source: Path, flagging: Flagging) -> list[FlaggedSystem]:
    """Returns the flags of each line of some files of translations, one file per system."""
    sources = list(read_lines(source))
    systems = read_systems(hypotheses)
    check_counts(as_text(source), sources, systems.items())
    finder = FlagFinder(flagging.settings)
    languages = flagging.scoring.source_language, flagging.scoring.target_language
    flagged = []
    for name, lines in systems.items():
        plain = without_returns(lines)
        flags = [
            finder.find(ScoredLine(*pair, *languages)) for pair in zip(sources, plain, strict=True)
        ]
        flagged.append(FlaggedSystem(name, sources, plain, flags, flagging.settings.names))
    return flagged


def as_flag_table(systems: Sequence[FlaggedSystem]) -> str:
    """Returns a line per system and flag: system, flag, flagged lines, and their percentage.

    A system's last line is `any`. Unchecked flags are left out.
    """
    return "".join(
        f"{system.name}\t{name}\t{count}\t{100 * count / len(system.flags):.2f}\n"
        for system in systems
        for name, count in system.counts.items()
    )


def as_content(
    systems: Sequence[FlaggedSystem], flagging: Flagging, *, has_lines: bool = False
) -> dict[str, Any]:
    """Returns counts as JSON values, with each flagged line if `has_lines`."""
    return {
        "note": NOTE,
        "settings": flagging.settings.model_dump(mode="json"),
        "source_language": flagging.scoring.source_language or None,
        "target_language": flagging.scoring.target_language or None,
        "not_looked_for": dict(flagging.omitted),
        "systems": [
            {
                "system": system.name,
                "num_lines": len(system.flags),
                "flags": {
                    name: {"lines": count, "share": count / len(system.flags)}
                    for name, count in system.counts.items()
                },
                **({"lines": _list_lines(system)} if has_lines else {}),
            }
            for system in systems
        ],
    }


def write_flags(path: Path, systems: Sequence[FlaggedSystem], flagging: Flagging) -> None:
    """Writes counts, and each flagged line with its flags, as JSON."""
    write_atomically(path, as_json_text(as_content(systems, flagging, has_lines=True)))
    say(f"flagged lines: {path}")


def _list_lines(system: FlaggedSystem) -> list[dict[str, Any]]:
    rows = zip(system.sources, system.hypotheses, system.flags, strict=True)
    return [
        {
            "line": number,
            "source": source,
            "hypothesis": hypothesis,
            "flags": [asdict(flag) for flag in flags],
        }
        for number, (source, hypothesis, flags) in enumerate(rows, start=1)
        if flags
    ]
