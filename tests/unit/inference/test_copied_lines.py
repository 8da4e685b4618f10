"""Lines without a letter or a digit."""

import pytest

from mtkit.inference.line_pipeline import copy_line, is_copied
from mtkit.inference.request import Request
from mtkit.inference.translator import Translator
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference
from mtkit.recipe.paragraphs import Paragraphs
from mtkit.recipe.protection import Protect
from mtkit.text.glossary import Term

from .fakes import BracketEngine, CharacterTokenizer

SYMBOLS = [
    "😀🎉",
    "...",
    "→",
    "❤️",
    "#️⃣",
    "👨‍👩‍👧",
    "--- * ---",
    "€",
    "„…“",
    "🇩🇪",
    " ( ) ",
    "।",
    "\ue000",
    "\0",
]
WORDS = ["A.", "1", "½", "²", "中", "কি", "\u0301", "…a", "1️⃣", "①", "Ⅳ", "ª", "\ud7fc"]
INVISIBLE = ["", " ", "\u200b", "\u00a0", "\ufeff", "\u00ad"]


def translate(*lines: str | Request, **settings: object) -> list:
    engine, tokenizer = BracketEngine(), CharacterTokenizer()
    return Translator.of(engine, tokenizer, Inference(**settings)).search(lines)


@pytest.mark.parametrize("text", SYMBOLS)
def test_a_line_of_symbols_is_its_own_translation(text: str) -> None:
    assert is_copied(text)
    before, found, behind = translate("a", text + "\r\n", "b")
    assert (before.text, found.text, behind.text) == ("[a]", text, "[b]")


@pytest.mark.parametrize("text", WORDS)
def test_a_letter_a_mark_or_a_digit_is_translated(text: str) -> None:
    assert translate(text)[0].text == f"[{text}]"


@pytest.mark.parametrize("text", INVISIBLE)
def test_nothing_to_see_is_no_symbol(text: str) -> None:
    assert not is_copied(text)


def test_a_copy_has_no_tokens_and_is_certain() -> None:
    (found,) = translate("<tag>* *", n_best=2)
    assert found.as_json("<tag>* *")["text"] == "* *"
    (candidate,) = found.candidates
    assert (candidate.token_ids, candidate.log_probability, candidate.score) == ((), 0.0, 0.0)
    assert not found.warnings
    assert not found.was_split


def test_a_prefix_or_a_term_is_followed() -> None:
    (found,) = translate(Request("→", prefix="x"))
    assert found.text.startswith("x")
    # Nothing is told of a term that the line hasn't.
    engine = BracketEngine()
    translator = Translator.of(engine, CharacterTokenizer(), Inference())
    arrow = Request("→", glossary=(Term("→", "to"),))
    assert translator.search([arrow])[0].text == "[→]"
    other = Request("→", glossary=(Term("dog", "Hund"),))
    assert translator.search([other])[0].text == "→"


def test_within_a_paragraph_a_sentence_of_symbols_is_copied() -> None:
    settings = {"paragraphs": Paragraphs(), "protect": Protect(), "flags": Flags()}
    (found,) = translate("A dog. 😀", **settings)
    assert "😀" in found.text
    (alone,) = translate("😀", **settings)
    assert (alone.text, alone.flags, alone.protection.lost) == ("😀", (), ())


def test_a_language_model_continues_symbols() -> None:
    engine = BracketEngine()
    translator = Translator.of(engine, CharacterTokenizer(), Inference(), continues=True)
    assert translator.search(["..."])[0].text != "..."


def test_a_copy_s_words_are_linked_with_themselves() -> None:
    (copy,) = copy_line("* →", num_before=5, alignments=True).candidates
    assert copy.alignment.as_pharaoh("<tag>* →", "* →") == "0-0 1-1"
    assert copy.alignment.source_words == ((5, 6), (7, 8))
    assert copy.alignment.target_words == ((0, 1), (2, 3))
