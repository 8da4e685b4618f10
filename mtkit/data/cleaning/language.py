"""Languages by Babel and py3langid: their scripts, and which one a line is in."""

from typing import Any

import numpy as np
from babel.core import get_global, parse_locale

from mtkit.data.cleaning.characters import is_script
from mtkit.data.cleaning.filters import Flags, RepairedRows
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.cleaning import LanguageIdentification
from mtkit.text.language_identification import WIDELY_WRITTEN, load_identifier, name_label

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
    """Returns the ISO 15924 codes of the scripts that a language is written in; none if unknown.

    Args:
        language: Code such as `de`, `zh-TW`, or `sr-Latn`, whose script counts.
    """
    try:
        name, territory, script = parse_locale(language.replace("-", "_"))[:3]
    except ValueError:
        return ()
    if script is None:
        known = get_global("likely_subtags")
        name = get_global("language_aliases").get(name, name)
        likely = known.get(f"{name}_{territory}") or known.get(name)
        if likely is None:
            return ()
        script = parse_locale(likely)[2]
    scripts = expand_script(str(script))
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
        self._identifier = _load_model()
        known = self._identifier.labels
        keys = ("data.source_language", "data.target_language")
        self._sides = [
            _label(language, known, key)
            for language, key in zip(
                languages, keys if len(languages) > 1 else ("data.language",), strict=True
            )
        ]
        others = [
            _label(language, known, "data.cleaning.language.candidates")
            for language in settings.candidates or WIDELY_WRITTEN
        ]
        self._identifier.set_languages(sorted({*self._sides, *others}))

    def find_foreign(self, block: RepairedRows, chosen: Flags) -> Flags:
        """Returns which of the chosen rows have a side in another language."""
        found = np.zeros(len(block), np.bool_)
        for index, lines in block.rows(chosen):
            found[index] = any(map(self._is_foreign, lines, self._sides))
        return found

    def _is_foreign(self, line: str, language: str) -> bool:
        if len(line) < self._settings.min_characters:
            return False
        identified, confidence = self._identifier.classify(line)
        return bool(identified != language and confidence >= self._settings.min_confidence)


def _load_model() -> Any:
    try:
        return load_identifier()
    except ImportError as error:
        raise MtkitError(
            "data.cleaning.language needs the package py3langid, which isn't installed",
            'pip install "mtkit[language-id]", or --set data.cleaning.language.enabled=false',
        ) from error


def _label(language: str, known: list[str], key: str) -> str:
    """Returns the model's label of a language."""
    name = name_label(language)
    if name not in known:
        raise MtkitError(
            f'{key} = "{language}": the language identification model doesn\'t know this language'
            + suggest(name, known),
            f"known: {', '.join(sorted(known))}; or --set data.cleaning.language.enabled=false",
        )
    return name
