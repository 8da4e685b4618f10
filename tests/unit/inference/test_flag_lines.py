"""Flags of what a translator writes."""

import io
import json

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.request import Request
from mtkit.inference.streams.translate_stream import translate_stream
from mtkit.inference.translator import Translator
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference

from .fakes import BracketEngine, CharacterTokenizer, bracket

LINE = "the committee meets again next week to discuss the new budget"


def name_flags(translation) -> list[str]:
    return [flag.name for flag in translation.flags]


def test_they_are_off_by_default():
    translator, _ = bracket()
    (found,) = translator.search([LINE])
    assert found.flags is None
    assert "flags" not in found.as_json(LINE)
    assert Inference().flags is None


def test_a_translation_with_its_flags():
    # Brackets around a line are no translation of it.
    translator, _ = bracket(flags=Flags())
    found, blank = translator.search([LINE, ""])
    assert name_flags(found) == ["copied", "wrong language"]
    assert blank.flags == ()
    (copied, _) = found.as_json(LINE)["flags"]
    assert copied == {
        "name": "copied",
        "found": 1.0,
        "threshold": 0.7,
        "text": "100% of its words are in the source",
    }


def test_tags_are_no_text_of_the_source():
    translator, _ = bracket(flags=Flags(names=("numbers differ",)))
    assert name_flags(translator.search(["<tag>in 1987"])[0]) == []


def test_the_mean_of_the_tokens_of_a_line():
    # The engine gives each hypothesis -1 in all, over 6 tokens: [abc] and </s>.
    translator, _ = bracket(flags=Flags(names=("unlikely",), min_log_probability=-0.16))
    (flag,) = translator.search(["abc"])[0].flags
    assert flag.found == pytest.approx(-1 / 6)
    mild, _ = bracket(flags=Flags(names=("unlikely",), min_log_probability=-0.17))
    assert mild.search(["abc"])[0].flags == ()


def test_given_translations_are_flagged_too():
    translator, _ = bracket(flags=Flags(names=("copied",)))
    assert name_flags(translator.score([(LINE, LINE)])[0]) == ["copied"]


def test_a_request_has_its_own_thresholds():
    translator, _ = bracket()
    with_flags = Inference(flags=Flags(names=("copied",)))
    one, other = translator.search([Request(LINE, settings=with_flags), Request(LINE)])
    assert name_flags(one) == ["copied"]
    assert other.flags is None


def test_what_is_no_translator():
    settings = Inference(flags=Flags(), batch_tokens=64)
    with pytest.raises(MtkitError, match=r"inference\.flags is for translators") as caught:
        Translator.of(BracketEngine(), CharacterTokenizer(), settings, continues=True)
    assert caught.value.hint == "remove it: --set '~inference.flags'"


def test_json_lines():
    translator, _ = bracket(flags=Flags(names=("copied",)))
    target = io.BytesIO()
    translate_stream(translator, io.BytesIO(f"{LINE}\n\n".encode()), target, as_json=True)
    flagged, blank = map(json.loads, target.getvalue().splitlines())
    assert [flag["name"] for flag in flagged["flags"]] == ["copied"]
    assert blank["flags"] == []
