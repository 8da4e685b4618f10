"""The languages on which an export of a model of several is compared with the model."""

from mtkit.console import say
from mtkit.model.folder import LoadedModel
from mtkit.text.languages import NO_MARKS, LanguageTokens, TranslatorLanguages, find_language


def choose_languages(loaded: LoadedModel) -> tuple[str, str] | None:
    """Returns the languages that programs are compared on; None for a model that isn't told them.

    Of a model of several without a default they are English and German, or its first two: the
    programs must do the same, whatever the text.
    """
    config, tokenizer = loaded.config, loaded.tokenizer
    languages = TranslatorLanguages.of(
        tokenizer.languages, config.source_language, config.target_language
    )
    if not languages.are_needed:
        return None
    usual = [find_language(code, languages.target) for code in ("en", "de")]
    source, target = (
        default or other or languages.target[index]
        for index, (default, other) in enumerate(zip(languages.default, usual, strict=True))
    )
    say(f"comparing on translation from {source} to {target}")
    return source, target


def choose_marks(loaded: LoadedModel) -> LanguageTokens:
    """Returns the tokens of `choose_languages`."""
    languages = choose_languages(loaded)
    return NO_MARKS if languages is None else loaded.tokenizer.mark_languages(*languages)
