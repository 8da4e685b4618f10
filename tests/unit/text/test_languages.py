"""Codes of languages in all their forms, and what a translator of several needs."""

import pytest
from transformers.models.m2m_100 import tokenization_m2m_100
from transformers.models.nllb import tokenization_nllb

from mtkit.errors import MtkitError
from mtkit.model.importers.m2m100 import M2M100, NLLB, WMT21
from mtkit.text.languages import ModelLanguages, TranslatorLanguages, find_language
from mtkit.text.letters import name_language


# By Flores-200's own list of languages and by ISO 639's tables.
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("deu_Latn", "deu_Latn"),
        ("deu-latn", "deu_Latn"),
        ("deu", "deu_Latn"),
        ("de", "deu_Latn"),
        ("DE", "deu_Latn"),
        ("zh", "zho_Hans"),
        ("zh-Hant", "zho_Hant"),
        ("cmn", "zho_Hans"),
        ("ar", "arb_Arab"),
        ("arz", "arz_Arab"),
        ("fa", "pes_Arab"),
        ("sw", "swh_Latn"),
        ("lv", "lvs_Latn"),
        ("et", "est_Latn"),
        ("no", "nob_Latn"),
        ("nn", "nno_Latn"),
        ("sr", "srp_Cyrl"),
        ("he", "heb_Hebr"),
        ("iw", "heb_Hebr"),
        ("ace", "ace_Latn"),
        ("srp_Latn", ""),
        ("xx", ""),
        ("hsb", ""),
        ("", ""),
        ("german", ""),
        ("__de__", ""),
    ],
)
def test_codes_of_nllb(code, expected):
    assert find_language(code, NLLB) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [("deu_Latn", "de"), ("fra", "fr"), ("zho_Hans", "zh"), ("zho_Hant", ""), ("nso", "ns")],
)
def test_codes_of_m2m100(code, expected):
    assert find_language(code, M2M100) == expected


@pytest.mark.parametrize(
    ("code", "codes", "expected"),
    [
        # Tags of OPUS-MT.
        ("zh-Hans", ["cmn", "cmn_Hans", "cmn_Hant"], "cmn_Hans"),
        ("zh-Hant", ["cmn", "cmn_Hans", "cmn_Hant"], "cmn_Hant"),
        ("zh", ["cmn_Hans", "cmn", "cmn_Hant"], "cmn"),
        ("zh", ["zh-TW", "cmn_Hans"], "cmn_Hans"),
    ],
)
def test_a_code_has_a_script_if_it_is_asked_for(code: str, codes: list[str], expected: str) -> None:
    assert find_language(code, codes) == expected


def test_the_lists_are_those_of_transformers():
    assert list(M2M100) == tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    assert list(WMT21) == tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["wmt21"]
    assert list(NLLB) == tokenization_nllb.FAIRSEQ_LANGUAGE_CODES


def _several() -> TranslatorLanguages:
    pieces = {code: code for code in NLLB}
    return TranslatorLanguages.of(ModelLanguages.of_pieces(pieces, "before"), "mul", "mul")


def test_a_model_of_several_needs_both():
    languages = _several()
    assert languages.resolve("en", "de") == ("eng_Latn", "deu_Latn")
    with pytest.raises(MtkitError, match="no source language given, and this model has 202"):
        languages.resolve("", "de")
    with pytest.raises(MtkitError, match="no target language given") as found:
        languages.resolve("en", "")
    assert "--to eng_Latn or deu_Latn" in found.value.hint
    assert languages.with_default("en", "de").resolve("", "fr") == ("eng_Latn", "fra_Latn")


def test_an_unknown_one_is_named_with_what_was_meant():
    with pytest.raises(MtkitError, match=r"doesn't write 'deu_Latin' \(--to\) \(did you mean"):
        _several().resolve("en", "deu_Latin")
    with pytest.raises(MtkitError, match="doesn't read") as found:
        _several().resolve("x" * 10_000, "de")
    assert len(found.value.message) < 500


def test_a_bilingual_model_has_two():
    languages = TranslatorLanguages.of(None, "en", "de")
    assert languages.resolve() == ("en", "de")
    assert languages.resolve("eng", "deu_Latn") == ("en", "de")
    with pytest.raises(MtkitError, match=r"doesn't write 'fr' \(--to\)") as found:
        languages.resolve("en", "fr")
    assert found.value.hint == "it writes de"
    # Nothing says what it is.
    assert TranslatorLanguages.of(None, "und", "und").resolve("en", "de") == ("und", "und")


def test_tags_are_languages():
    tags = ModelLanguages.of_tags([">>deu<<", ">>cmn_Hans<<", "<BT>"])
    assert tags is not None
    languages = TranslatorLanguages.of(tags, "en", "mul")
    assert languages.target == ("deu", "cmn_Hans")
    assert languages.resolve() == ("en", "")
    assert languages.resolve("", "zh") == ("en", "cmn_Hans")
    assert ModelLanguages.of_tags(["<BT>"]) is None
    # One that writes its own source language reads the others, too.
    both = ModelLanguages.of_tags([">>deu<<", ">>eng<<"])
    assert TranslatorLanguages.of(both, "en", "de").resolve("de", "en") == ("deu", "eng")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("deu_Latn", "German"),
        ("pt-BR", "Portuguese (Brazil)"),
        ("zh_Hant", "Chinese (Traditional)"),
        # CLDR would read `und` as English.
        ("und", "Unknown language"),
        ("xx", "xx"),
    ],
)
def test_languages_have_english_names(code: str, name: str) -> None:
    assert name_language(code) == name
