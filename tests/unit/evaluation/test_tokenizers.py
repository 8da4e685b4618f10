"""Which tokeniser a language gets, and what is said where sacreBLEU can't make it."""

from pathlib import Path
from typing import NoReturn
from urllib.error import URLError

import pytest
import sentencepiece
from sacrebleu.metrics.bleu import BLEU

from mtkit.errors import MtkitError
from mtkit.evaluation.scores import score_corpus
from mtkit.evaluation.tokenizers import choose_tokenizer
from mtkit.recipe.evaluation import Evaluation


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        # ISO 639-1 and 639-3, with scripts and territories as FLORES, BCP 47 and Java write them.
        ("zh zh-CN zh_TW zho_Hans zho_Hant cmn yue yue-HK wuu", "zh"),
        ("ja ja-JP jpn jpn_Jpan", "ja-mecab"),
        ("ko kor_Hang ko_KR", "ko-mecab"),
        ("th tha_Thai lo km khm_Khmr my mya_Mymr bo bod_Tibt dz", "char"),
        ("en de-AT deu_Latn vi sr-Cyrl zh-Latn nan-Latn hi ar xx klingon x_y_z", "13a"),
    ],
)
def test_a_languages_tokeniser(languages: str, expected: str) -> None:
    assert {choose_tokenizer("auto", language) for language in languages.split()} == {expected}


def test_a_setting_other_than_auto_is_kept() -> None:
    assert choose_tokenizer("intl", "zh") == "intl"
    assert choose_tokenizer("auto") == "13a"


def test_every_value_of_the_recipe_is_a_tokeniser_of_sacrebleus() -> None:
    schema = Evaluation.model_json_schema()["properties"]["tokenize"]
    assert set(schema["enum"]) - {"auto"} <= set(BLEU.TOKENIZERS)
    assert schema["default"] == "auto"


@pytest.mark.parametrize(
    ("language", "tokenizer"), [("", "13a"), ("zh", "zh"), ("th", "char"), ("de", "13a")]
)
def test_the_signature_names_what_was_chosen(language: str, tokenizer: str) -> None:
    settings = Evaluation(metrics=("bleu",))
    [score] = score_corpus(["我爱你。"], [["我爱她。"]], settings, target_language=language)
    assert f"tok:{tokenizer}|" in score.signature


def test_chinese_is_scored_by_its_characters() -> None:
    # 3 of 4 unigrams match, 1 of 3 bigrams, no more; as one word, nothing does.
    settings = Evaluation(metrics=("bleu",), smooth="floor")
    [known] = score_corpus(["你好吗？"], [["你好啊？"]], settings, target_language="zh")
    [unknown] = score_corpus(["你好吗？"], [["你好啊？"]], settings)
    # sacreBLEU's floor counts 0.1 of a match: (3/4 * 1/3 * 0.1/2 * 0.1/1) ** (1/4)
    assert known.value == pytest.approx(100 * (3 / 4 * 1 / 3 * 0.1 / 2 * 0.1) ** 0.25)
    assert unknown.value == 0.0


@pytest.mark.parametrize("tokenizer", ["flores101", "flores200", "spBLEU-1K"])
def test_a_model_that_cannot_be_fetched(
    tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> NoReturn:
        raise URLError("Name or service not known")

    monkeypatch.setattr("urllib.request.urlopen", fail)
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(MtkitError, match=f"{tokenizer}.*Name or service not known") as fault:
        score_corpus(["a"], [["a"]], Evaluation(tokenize=tokenizer))
    assert fault.value.hint is not None
    assert "https://" in fault.value.hint
    assert "--set evaluation.tokenize=char" in fault.value.hint


def test_a_model_that_lies_there_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / "flores200sacrebleuspm").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["ab ba abba"] * 20), model_writer=file, vocab_size=8
        )
    settings = Evaluation(metrics=("bleu",), tokenize="flores200")
    [score] = score_corpus(["abba abba ab ba"], [["abba abba ab ba"]], settings)
    assert score.value == pytest.approx(100)
    assert "tok:flores200|" in score.signature
