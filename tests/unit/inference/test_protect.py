"""Translations that keep what they must, by an engine whose outputs a test chooses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.documents.sentences import SentenceTranslator
from mtkit.errors import MtkitError
from mtkit.inference.masking import mask
from mtkit.inference.translate import Translator
from mtkit.inference.translation import Hypothesis, Request, WordAlignment
from mtkit.recipe.inference import Inference
from mtkit.recipe.protection import Protect
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


def open_translator(table, tokenizer=None, **settings):
    engine = _Engine(table)
    chosen = Inference(**{"batch_tokens": 64, "protect": Protect(), **settings})
    return Translator.of(engine, tokenizer or CharacterTokenizer(), chosen), engine


def test_a_translation_that_keeps_all_is_left_alone():
    translator, engine = open_translator({"a {x} 5": ["b 5 {x}"], "c": ["d 7"]})
    (found, other, blank) = translator.search(["a {x} 5", "c", ""])
    assert (found.text, other.text, blank.text) == ("b 5 {x}", "d 7", "")
    assert found.protection.as_json() == {
        "pieces": [
            {"kind": "placeholder", "text": "{x}"},
            {"kind": "number", "text": "5"},
        ],
        "way": "plain",
        "lost": [],
    }
    assert other.protection.as_json() == {"pieces": [], "way": "plain", "lost": []}
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


def test_where_nothing_helps_the_line_has_a_warning(capsys):
    translator, engine = open_translator({"a {x} 12": ["b", "c"]}, _Masking())
    (found,) = translator.search([Request("a {x} 12", line=70)], warns=False)
    assert found.text == "b"
    assert (found.protection.way, found.protection.lost) == (None, ("{x}", "12"))
    (warning,) = found.warnings
    assert (warning.kind, warning.line) == ("protected text was lost", 70)
    assert warning.text == (
        "input line 70: the translation hasn't {x}, 12 as often as the line, and no other was "
        "found (inference.protect)"
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
    assert "protection" not in bare.as_json()


def test_what_is_no_translator_refuses():
    settings = Inference(protect=Protect())
    with pytest.raises(MtkitError, match="for translators"):
        Translator.of(_Engine({}), CharacterTokenizer(), settings, continues=True)


def test_documents_keep_what_their_translator_protects():
    translator, _ = open_translator({"Take {x}.": ["Nimm.", "Nimm {x}."]})
    sentences = SentenceTranslator(translator, "de")
    assert [each.text for each in sentences(["Take {x}. Take {x}."])] == ["Nimm {x}. Nimm {x}."]


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
