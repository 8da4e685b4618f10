"""Languages of the sides: their scripts, and the filter for lines in another language."""

from mtkit.checks.characters import is_script
from mtkit.checks.language import OtherLanguage, require_identifier
from mtkit.data.cleaning.filters import Flags, RepairedRows
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.cleaning import LanguageIdentification
from mtkit.text.language_identification import WIDELY_WRITTEN, name_label
from mtkit.text.scripts import find_script

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
"""ISO 15924 codes of more than one script of Unicode, or of a variant of one."""


def scripts_of(language: str) -> tuple[str, ...]:
    """Returns the ISO 15924 codes of the scripts that a language is written in; none if unknown."""
    scripts = expand_script(find_script(language))
    return scripts if all(map(is_script, scripts)) else ()


def expand_script(code: str) -> tuple[str, ...]:
    """Returns the scripts of Unicode that an ISO 15924 code stands for: of Jpan, three."""
    return _SCRIPTS_OF.get(code, (code,))


class Languages:
    """Which language lines are in, of the recipe's own and some others."""

    def __init__(self, settings: LanguageIdentification, *languages: str) -> None:
        """Loads the model.

        Args:
            settings: Which others, and from where on a line is judged.
            languages: Languages of the recipe: of source and target, or of the text alone.

        Raises:
            MtkitError: The package isn't installed, or the model doesn't know a language.
        """
        self._settings = settings
        off = "--set data.cleaning.language.enabled=false"
        known = require_identifier("data.cleaning.language", off).labels

        def label(language: str, key: str) -> str:
            name = name_label(language)
            if name not in known:
                raise MtkitError(
                    f'{key} = "{language}": the language identification model doesn\'t know this '
                    f"language{suggest(name, known)}",
                    f"known: {', '.join(sorted(known))}; or {off}",
                )
            return name

        sides = ("data.source_language", "data.target_language")
        own = list(map(label, languages, sides if len(languages) > 1 else ("data.language",)))
        others = settings.candidates or WIDELY_WRITTEN
        candidates = [label(other, "data.cleaning.language.candidates") for other in others]
        self._sides = [OtherLanguage(name, (*own, *candidates)) for name in own]

    def find_foreign(self, block: RepairedRows, chosen: Flags) -> Flags:
        """Returns which of the chosen rows have a side in another language."""
        return block.judge(chosen, lambda *lines: any(map(self._is_foreign, lines, self._sides)))

    def _is_foreign(self, line: str, side: OtherLanguage) -> bool:
        if len(line) < self._settings.min_characters:
            return False
        other, confidence = side.find(line)
        return bool(other) and confidence >= self._settings.min_confidence
