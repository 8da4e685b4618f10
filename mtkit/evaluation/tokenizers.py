"""The one of sacreBLEU's tokenisers that suits a language, and advice where it can't be had."""

from mtkit.errors import MtkitError
from mtkit.recipe.evaluation import Evaluation
from mtkit.text.words import find_script

_WITHOUT_SPACES = ("Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Lana", "Talu", "Tavt", "Java", "Bali")
"""Scripts that set no space between words, and that no tokeniser of sacreBLEU's cuts by itself."""


def choose_tokenizer(setting: str, target_language: str = "") -> str:
    """Returns the name of the tokeniser that sacreBLEU is to use.

    A score must come out the same everywhere, and offline too. So Thai, Lao, Khmer, Burmese and
    Tibetan are cut into characters, although papers on many languages use `flores200`, whose model
    sacreBLEU fetches from the network.

    Args:
        setting: `evaluation.tokenize`; any other than `auto` stays.
        target_language: Code such as `de`, `zh-TW`, `zho_Hans` or `jpn`; empty where unknown.
    """
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
    """Returns the settings with the tokeniser that `auto` stands for.

    Args:
        settings: How text is seen.
        target_language: As `choose_tokenizer` takes it.
    """
    tokenize = choose_tokenizer(settings.tokenize, target_language)
    return settings.model_copy(update={"tokenize": tokenize})


def explain_missing(tokenizer: str, error: Exception) -> MtkitError:
    """Returns the error to raise when sacreBLEU couldn't make a tokeniser.

    Args:
        tokenizer: Its name, `auto` resolved.
        error: sacreBLEU's own.
    """
    if tokenizer in ("ja-mecab", "ko-mecab"):
        language = tokenizer.partition("-")[0]
        return MtkitError(
            f'evaluation.tokenize = "{tokenizer}" needs packages that are not installed',
            f"pip install 'mtkit[{language}]'",
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
