"""Translations that keep what they must, by an engine whose outputs a test chooses."""

import json
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.documents.document import LanguageCodes
from mtkit.documents.paragraph_translator import SentenceTranslator
from mtkit.documents.translate_file import translate_content
from mtkit.errors import MtkitError
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.paragraphs import WAYS
from mtkit.inference.request import Request
from mtkit.inference.symbol_masks import mask
from mtkit.inference.translation import Hypothesis, WordAlignment
from mtkit.inference.translator import Translator
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference, Sampling
from mtkit.recipe.paragraphs import Paragraphs
from mtkit.recipe.protection import Protect, ProtectionWay
from mtkit.text.protected import PieceFinder
from mtkit.text.token_ids import EOS

from .fakes import BracketEngine, CharacterTokenizer


class _Masking(CharacterTokenizer):
    masks = ("<copy0>", "<copy1>")


class _Engine(BracketEngine):
    """Writes what a table says for a text, as many hypotheses as are asked for."""

    def __init__(self, table):
        super().__init__()
        self._table = table

    def search(self, sources, settings):
        self.batches.append(list(sources))
        return [self._answer(source, settings) for source in sources]

    def _answer(self, source, settings):
        text = "".join(chr(token - 4) for token in source.tokens[:-1])
        outputs = self._table.get(text, [text.upper()])[: settings.n_best]
        return [
            Hypothesis((*(ord(each) + 4 for each in output), EOS), -rank, -rank, is_finished=True)
            for rank, output in enumerate(outputs)
        ]


class _ConstrainingEngine(_Engine):
    """Writes what it must contain behind what its table says, in brackets."""

    def _answer(self, source, settings):
        outputs = super()._answer(source, settings)
        if not source.required:
            return outputs
        needed = [token for phrase in source.required for token in (*phrase, ord("|") + 4)]
        tokens = (*outputs[0].token_ids[:-1], *needed, EOS)
        return [Hypothesis(tokens, -1.0, -1.0, is_finished=True)]


def open_constraining(table, tokenizer=None, **settings):
    engine = _ConstrainingEngine(table)
    chosen = Inference(**{"batch_tokens": 64, "protect": Protect(), **settings})
    return Translator.of(engine, tokenizer or CharacterTokenizer(), chosen), engine


def list_required(batch):
    return ["".join(chr(token - 4) for token in phrase) for phrase in batch[0].required]


def open_translator(table, tokenizer=None, **settings):
    engine = _Engine(table)
    protect = Protect(ways=("masked", "n_best"))
    chosen = Inference(**{"batch_tokens": 64, "protect": protect, **settings})
    return Translator.of(engine, tokenizer or CharacterTokenizer(), chosen), engine


def test_a_translation_that_keeps_all_is_left_alone():
    translator, engine = open_translator({"a {x} 5": ["b 5 {x}"], "c": ["d 7"]})
    (found, other, blank) = translator.search(["a {x} 5", "c", ""])
    assert (found.text, other.text, blank.text) == ("b 5 {x}", "d 7", "")
    assert found.as_json("a {x} 5")["protection"] == {
        "pieces": [
            {"kind": "placeholder", "text": "{x}"},
            {"kind": "number", "text": "5"},
        ],
        "way": "plain",
        "lost": [],
    }
    assert other.as_json("c")["protection"] == {"pieces": [], "way": "plain", "lost": []}
    assert len(engine.batches) == 1


def test_the_first_of_a_wider_beam_that_keeps_all_is_taken():
    translator, engine = open_translator({"a {x}": ["b", "c {y}", "d {x}", "e {x}"]}, n_best=2)
    (found,) = translator.search(["a {x}"])
    assert [each.text for each in found.candidates] == ["d {x}", "b"]
    assert (found.protection.way, found.warnings) == ("n_best", ())
    assert len(engine.batches) == 2


def test_candidates_that_are_there_are_looked_at_before_another_search():
    translator, engine = open_translator({"a {x}": ["b", "c {x}"]}, n_best=2)
    (found,) = translator.search(["a {x}"])
    assert [each.text for each in found.candidates] == ["c {x}", "b"]
    assert found.protection.way == "n_best"
    assert len(engine.batches) == 1


def test_symbols_that_the_model_copies_stand_for_lost_pieces():
    table = {
        "<tag>a {x} of {y} 5": ["b {x} 5"],
        # The number wasn't lost, so it stays.
        "<tag>a <copy0> of <copy1> 5": ["<copy1> b 5", "<copy1> <copy0> b 5"],
    }
    translator, engine = open_translator(table, _Masking())
    # The fake's engine gets the tag as characters, too.
    (found,) = translator.search(["<tag>a {x} of {y} 5"])
    assert found.text == "{y} {x} b 5"
    assert found.protection.way == "masked"
    assert len(engine.batches) == 2


def test_a_line_that_holds_a_symbol_is_masked_with_another():
    table = {
        "<copy0> {x}": ["<copy0>"],
        "<copy0> <copy1>": ["<copy1> <copy0>"],
    }
    translator, _ = open_translator(table, _Masking())
    assert translator.translate(["<copy0> {x}"]) == ["{x} <copy0>"]


def test_outputs_are_made_to_contain_what_was_lost():
    line = "<tag>a {x} 5 ({x}) 7 a@b.org"
    # 5 is there; 7 was lost, and so was one of two placeholders.
    only = Protect(ways=("constrained",))
    translator, engine = open_constraining({line: ["b 5 {x} a@b.org"]}, protect=only)
    (found,) = translator.search([line])
    assert len(engine.batches) == 2
    assert list_required(engine.batches[1]) == ["{x}", "{x}", "7", "a@b.org"]
    # The fake adds to what was there, so the address is there too often.
    assert found.protection.way is None
    translator, engine = open_constraining({line: ["b 5"]}, protect=only)
    (found,) = translator.search([line])
    assert found.text == "b 5{x}|{x}|7|a@b.org|"
    assert found.protection.way == "constrained"


def test_ways_are_tried_in_their_order():
    table = {"a {x}": ["b", "c {x}"], "a <copy0>": ["d <copy0>"]}
    orders = {
        ("masked", "constrained", "n_best"): "d {x}",
        ("constrained", "masked", "n_best"): "b{x}|",
        ("n_best", "masked", "constrained"): "c {x}",
        ("n_best",): "c {x}",
        (): "b",
    }
    for ways, expected in orders.items():
        translator, engine = open_constraining(table, _Masking(), protect=Protect(ways=ways))
        assert [each.text for each in translator.search(["a {x}"], warns=False)] == [expected]
        assert len(engine.batches) == 1 + bool(ways)


def test_each_line_has_its_own_ways():
    plain, masked = (
        Inference(batch_tokens=64, protect=Protect(ways=ways)) for ways in ((), ("masked",))
    )
    table = {"a {x}": ["b", "c {x}"], "a <copy0>": ["d <copy0>"]}
    translator, engine = open_constraining(table, _Masking())
    lines = [Request("a {x}", settings=each) for each in (plain, None, masked)]
    assert [each.text for each in translator.search(lines, warns=False)] == ["b", "d {x}", "d {x}"]
    # Lines are searched by their settings, and again together.
    assert [len(batch) for batch in engine.batches] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        # More than an output is made to contain.
        ("a http://x.org/" + "y" * 150, {}),
        ("a {x}", {"sampling": Sampling()}),
    ],
)
def test_where_constraints_cannot_be_had_the_next_way_is_tried(line, settings):
    piece = line.removeprefix("a ")
    translator, engine = open_constraining({line: ["b", f"c {piece}"]}, **settings)
    (found,) = translator.search([line])
    assert (found.text, found.protection.way) == (f"c {piece}", "n_best")
    assert not any(source.required for batch in engine.batches for source in batch)


def test_where_nothing_helps_the_line_has_a_warning(capsys):
    translator, engine = open_translator({"a {x} 12": ["b", "c"]}, _Masking())
    (found,) = translator.search([Request("a {x} 12", line=70)], warns=False)
    assert found.text == "b"
    assert (found.protection.way, found.protection.lost) == (None, ("{x}", "12"))
    (warning,) = found.warnings
    assert (warning.kind, warning.line) == ("protected text was lost", 70)
    assert warning.text == (
        "input line 70: the translation doesn't contain {x}, 12 as often as the line, and no "
        "other translation was found (inference.protect)"
    )
    # Plain, masked, and more candidates.
    assert len(engine.batches) == 3
    assert capsys.readouterr().err == ""


def test_lines_that_lose_nothing_are_not_searched_again():
    translator, engine = open_translator({"a {x}": ["b"], "c": ["d"]})
    translator.search(["c", "a {x}", "c"])
    assert [len(batch) for batch in engine.batches] == [3, 1]


def test_each_request_has_its_own_protection():
    plain = Inference(batch_tokens=64)
    translator, _ = open_translator({"a {x}": ["b", "c {x}"]})
    protected, bare = translator.search(["a {x}", Request("a {x}", settings=plain)])
    assert (protected.text, bare.text, bare.protection) == ("c {x}", "b", None)
    assert "protection" not in bare.as_json("a {x}")


def test_what_is_no_translator_refuses():
    settings = Inference(protect=Protect())
    with pytest.raises(MtkitError, match="for translators"):
        Translator.of(_Engine({}), CharacterTokenizer(), settings, continues=True)


def test_documents_keep_what_their_translator_protects():
    translator, _ = open_translator({"Take {x}.": ["Nimm.", "Nimm {x}."]})
    sentences = SentenceTranslator(translator, "de")
    assert [each.text for each in sentences(["Take {x}. Take {x}."])] == ["Nimm {x}. Nimm {x}."]


def translate_json(translator):
    """Returns the translation of the JSON of a message, and the report on it."""
    sentences = SentenceTranslator(translator, "de")
    content = b'{"menu": {\n"take": "Take {x}.", "put": "Put."}}'
    return translate_content(content, "json", sentences, LanguageCodes("en", "de"))


def test_strings_of_programs_are_protected_by_default():
    table = {"Take {x}.": ["Nimm.", "Nimm {x}."], "Put.": ["Setz."]}
    written, _ = translate_json(open_translator(table, protect=None)[0])
    assert json.loads(written) == {"menu": {"take": "Nimm {x}.", "put": "Setz."}}
    translator, _ = open_translator(table, protect=None)
    assert translator.search(["Take {x}."])[0].text == "Nimm."
    written, _ = translate_json(open_translator(table, protect=None, protect_strings=False)[0])
    assert json.loads(written)["menu"]["take"] == "Nimm."
    # What the settings say goes before.
    chosen = Protect(placeholders=False)
    written, _ = translate_json(open_translator(table, protect=chosen)[0])
    assert json.loads(written)["menu"]["take"] == "Nimm."


def test_strings_go_to_what_is_no_translator_unprotected():
    engine = _Engine({})
    model = Translator.of(engine, CharacterTokenizer(), Inference(), continues=True)
    assert json.loads(translate_json(model)[0])["menu"]["put"]


def test_a_warning_about_a_string_names_it(capsys):
    translator, _ = open_translator({"Take {x}.": ["Nimm."], "Put.": ["Setz."]}, protect=None)
    _, report = translate_json(translator)
    [warning] = report.warnings
    assert warning.text.startswith(
        "2: take: 'Take {x}.': the translation doesn't contain {x} as often as the line"
    )
    assert capsys.readouterr().err == ""


def test_links_are_of_the_text_before_and_of_the_text_restored():
    # Words by hand: "Open|<copy0>s|now" and "<copy0>s|jetzt|öffnen".
    text = "Open {name}s now"
    pieces = PieceFinder(Protect()).find(text).pieces
    masked = mask(text, pieces, ["<copy0>"])
    assert masked.text == "Open <copy0>s now"
    alignment = WordAlignment(
        ((0, 4), (5, 13), (14, 17)), ((0, 8), (9, 14), (15, 21)), ((0, 2), (1, 0), (2, 1))
    )
    output = Hypothesis(
        (), 0.0, 0.0, is_finished=True, text="<copy0>s jetzt öffnen", alignment=alignment
    )
    restored = masked.restore(output)
    assert restored.text == "{name}s jetzt öffnen"
    words = [text[slice(*span)] for span in restored.alignment.source_words]
    assert words == ["Open", "{name}s", "now"]
    words = [restored.text[slice(*span)] for span in restored.alignment.target_words]
    assert words == ["{name}s", "jetzt", "öffnen"]


def test_a_model_that_knows_nothing_keeps_what_it_must(make_recipe, make_model, tokenizer):
    # Random weights: whatever is kept is the search's doing. Its pieces are of these letters.
    torch.manual_seed(3)
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    settings = Inference(
        beam_size=2,
        max_extra_tokens=5,
        protect=Protect(patterns=("jugs", "fox"), ways=("constrained",)),
    )
    translator = Translator.of(engine, tokenizer, settings)
    lines = ["the fox", "fox or fox", "the lazy dog", "the zebras"]
    found = translator.search(lines, warns=False)
    assert [each.protection.way for each in found] == ["constrained"] * 2 + ["plain"] * 2
    assert [each.text.count("fox") for each in found[:2]] == [1, 2]
    bare = Translator.of(engine, tokenizer, settings.model_copy(update={"protect": None}))
    for kept, other in zip(found[2:], bare.search(lines[2:]), strict=True):
        assert [each.token_ids for each in kept.candidates] == [
            each.token_ids for each in other.candidates
        ]
        # Their batches are of other sizes, and some processors' sums differ in the last bit then.
        assert [each.score for each in kept.candidates] == pytest.approx(
            [each.score for each in other.candidates], abs=1e-5
        )


@pytest.mark.parametrize("paragraphs", [None, Paragraphs()])
def test_lines_that_are_searched_again_have_flags_and_sentences(
    make_recipe, make_model, tokenizer, paragraphs
):
    torch.manual_seed(3)
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    settings = Inference(
        beam_size=2,
        max_extra_tokens=5,
        flags=Flags(),
        paragraphs=paragraphs,
        protect=Protect(patterns=("jugs", "fox"), ways=("constrained",)),
    )
    lines = ["the lazy dog. the fox or fox jumps over it.", "the zebras"]
    for each in Translator.of(engine, tokenizer, settings).search(lines, warns=False):
        assert each.protection is not None
        assert each.flags is not None
    assert set(WAYS) == {"plain", *get_args(ProtectionWay)}


@pytest.mark.parametrize(
    ("line", "is_copied"),
    [
        ("https://example.org/a", True),
        ("/etc/passwd --help", True),
        ("{name}: %s", True),
        ("see /etc/passwd", False),
        ("12", False),
        ("fox", False),
    ],
)
def test_a_line_that_is_only_protected_pieces_is_copied(
    make_recipe, make_model, tokenizer, line: str, is_copied
):
    torch.manual_seed(3)
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    settings = Inference(beam_size=1, max_extra_tokens=5, protect=Protect(ways=()))
    (found,) = Translator.of(engine, tokenizer, settings).search([line], warns=False)
    assert (found.text == line and not found.candidates[0].token_ids) == is_copied


def test_what_no_output_can_contain_leaves_the_line_as_it_was(make_recipe, make_model, tokenizer):
    model = make_model(make_recipe())
    engine = TorchEngine(model, "cpu")
    # No output is long enough: the model has but so many positions.
    engine.max_tokens = 8
    settings = Inference(
        beam_size=2,
        max_extra_tokens=2,
        protect=Protect(patterns=("lazy.*",), ways=("constrained",)),
    )
    translator = Translator.of(engine, tokenizer, settings)
    (found,) = translator.search(["the lazydogoverbox"], warns=False)
    assert found.protection.lost == ("lazydogoverbox",)


_PIECES = st.lists(st.sampled_from(["{a}", "%s", "12,5", "x y", "."]), max_size=6)


@given(_PIECES)
def test_a_masked_text_is_restored(parts):
    text = " ".join(parts)
    pieces = PieceFinder(Protect()).find(text).pieces
    symbols = [f"<copy{number}>" for number in range(len(pieces))]
    masked = mask(text, pieces, symbols)
    output = Hypothesis((), 0.0, 0.0, is_finished=True, text=masked.text)
    assert masked.restore(output).text == text
    if symbols:
        twice = Hypothesis((), 0.0, 0.0, is_finished=True, text=masked.text + symbols[0])
        assert masked.restore(twice) is None
