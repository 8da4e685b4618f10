"""Chooses sacreBLEU's tokeniser for a language, and explains missing ones."""

from mtkit.errors import MtkitError, how_to_install
from mtkit.recipe.evaluation import Evaluation
from mtkit.text.languages import find_script

_WITHOUT_SPACES = ("Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Lana", "Talu", "Tavt", "Java", "Bali")
"""Scripts without spaces between words, and without a tokeniser in sacreBLEU."""


def choose_tokenizer(setting: str, target_language: str = "") -> str:
    """Returns the name of sacreBLEU's tokeniser for a language."""
    # A score must be reproducible anywhere, even offline. So Thai, Lao, Khmer, Burmese and Tibetan
    # are split into characters, although papers on many languages use `flores200`, whose model
    # sacreBLEU downloads. A `setting` other than `auto` is returned unchanged; an unknown language
    # is empty.
    if setting != "auto":
        return setting
    match find_script(target_language):
        case "Hans" | "Hant" | "Hani" | "Hanb" | "Bopo":
            return "zh"
        case "Jpan" | "Hira" | "Kana" | "Hrkt":
            return "ja-mecab"
        case "Kore" | "Hang":
            return "ko-mecab"
        case script if script in _WITHOUT_SPACES:
            return "char"
        case _:
            return "13a"


def resolve_tokenizer(settings: Evaluation, target_language: str) -> Evaluation:
    """Returns the settings with `auto` resolved to a tokeniser."""
    tokenize = choose_tokenizer(settings.tokenize, target_language)
    return settings.model_copy(update={"tokenize": tokenize})


def explain_missing(tokenizer: str, error: Exception) -> MtkitError:
    """Returns the error for a tokeniser that sacreBLEU couldn't load."""
    if tokenizer in ("ja-mecab", "ko-mecab"):
        language = tokenizer.partition("-")[0]
        return MtkitError(
            f'evaluation.tokenize = "{tokenizer}" needs packages that are not installed',
            how_to_install(language),
        )
    # sacreBLEU takes a while to load.
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS  # noqa: PLC0415
    from sacrebleu.utils import SACREBLEU_DIR  # noqa: PLC0415

    url = SPM_MODELS[tokenizer]["url"]
    return MtkitError(
        f'evaluation.tokenize = "{tokenizer}" needs a model that sacreBLEU could neither find nor '
        f"download: {error}",
        f"save {url} as {SACREBLEU_DIR}/models/{url.rpartition('/')[2]}, or score characters: "
        "--set evaluation.tokenize=char",
    )
