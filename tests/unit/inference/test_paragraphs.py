"""Lines of several sentences, translated sentence by sentence and joined as they stood."""

import json
from dataclasses import replace
from io import BytesIO

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.paragraphs import join_sentences
from mtkit.inference.request import LineError, Request
from mtkit.inference.streams.input_format import InputFormat
from mtkit.inference.streams.translate_stream import translate_stream
from mtkit.inference.translation import (
    Hypothesis,
    KeptPiece,
    Protection,
    TermUse,
    Translation,
    WordAlignment,
)
from mtkit.inference.translator import Translator
from mtkit.recipe.inference import Inference
from mtkit.recipe.paragraphs import Paragraphs
from mtkit.recipe.protection import Protect

from .fakes import BracketEngine, CharacterTokenizer, bracket

ON = {"paragraphs": Paragraphs()}


def translate(text: str, **settings: object) -> str:
    translator, _ = bracket(**{**ON, **settings})
    return translator.translate(text)


@pytest.mark.parametrize(
    ("line", "translation"),
    [
        ("He left. She stayed.", "[He left.] [She stayed.]"),
        ("He left.  She stayed.\tAll did.", "[He left.]  [She stayed.]\t[All did.]"),
        ("He left.\u00a0\u2003She stayed.", "[He left.]\u00a0\u2003[She stayed.]"),
        ("He left.\n\nShe stayed.", "[He left.]\n\n[She stayed.]"),
        # No space at the ends of a line, as without paragraphs, and one where the source has none.
        ("  He left. She stayed. ", "[He left.] [She stayed.]"),
        ("他走了。她没走。", "[他走了。] [她没走。]"),
        ("", ""),
        (" ", ""),
    ],
)
def test_space_between_sentences_stays(line, translation):
    assert translate(line) == translation


def test_into_a_language_without_spaces_a_single_space_goes():
    engine = BracketEngine()
    translator = Translator.of(engine, CharacterTokenizer(), Inference(**ON), target_language="ja")
    assert translator.translate("He left. She stayed.") == "[He left.][She stayed.]"
    assert translator.translate("He left.  She stayed.") == "[He left.]  [She stayed.]"


def test_a_line_of_one_sentence_is_what_it_is_without():
    line = "Dr. Smith paid $3.14, e.g. for tea."
    found, without = (bracket(n_best=2, **each)[0].search([line])[0] for each in (ON, {}))
    assert found == without
    assert json.dumps(found.as_json(line)) == json.dumps(without.as_json(line))


def test_sentences_of_all_lines_are_searched_together():
    translator, engine = bracket(**ON)
    translator.search(["A bee. A cow.", "An ant. A dog."])
    assert sum(map(len, engine.batches)) == 4
    assert len(engine.batches) == 1


def test_sentences_are_told_with_where_they_stand():
    translator, _ = bracket(**ON)
    (found,) = translator.search(["<tag>He left.  She stayed."])
    line = "<tag>He left.  She stayed."
    assert [line[slice(*each.source)] for each in found.sentences] == ["He left.", "She stayed."]
    told = found.as_json(line)
    # The tags hold for each sentence; this engine writes what it reads.
    assert told["text"] == "[<tag>He left.]  [<tag>She stayed.]"
    assert [told["text"][slice(*each["target"])] for each in told["sentences"]] == [
        "[<tag>He left.]",
        "[<tag>She stayed.]",
    ]
    assert [each["score"] for each in told["sentences"]] == [-1.0, -1.0]
    assert (told["score"], told["log_probability"]) == (-2.0, -2.0)


def test_the_k_th_candidate_is_made_of_each_sentences_k_th():
    translator, _ = bracket(n_best=2, **ON)
    (found,) = translator.search(["A bee. A cow."])
    assert [each.text for each in found.candidates] == ["[A bee.] [A cow.]", "{A bee.} {A cow.}"]
    assert [each.reached_limit for each in found.candidates] == [False, True]


def test_a_sentence_that_is_too_long_is_cut_and_the_others_are_not():
    translator, _ = bracket(max_source_tokens=20, **ON)
    (found,) = translator.search(["A bee. When it rains, we stay here."])
    assert found.text == "[A bee.] [When it rains,] [we stay here.]"
    assert found.was_split
    assert [each.was_split for each in found.sentences] == [False, True]
    # 28 characters and `</s>`.
    assert [each.text.split(",")[0] for each in found.warnings] == ["input line 1: 29 tokens"]


def test_a_prefix_beside_several_sentences_is_refused_by_name_and_beside_one_taken():
    translator, _ = bracket(**ON)
    with pytest.raises(LineError, match=r"input line 2: 2 sentences, but a prefix.*paragraphs"):
        translator.search(["A bee.", Request("A bee. A cow.", prefix="x")])
    assert translator.search([Request("A bee.", prefix="x")])[0].text == "x[A bee.]"


def test_models_that_do_not_translate_refuse_it():
    with pytest.raises(MtkitError, match=r"inference\.paragraphs is for translators"):
        Translator.of(BracketEngine(), CharacterTokenizer(), Inference(**ON), continues=True)
    translator = Translator.of(BracketEngine(), CharacterTokenizer(), Inference(), continues=True)
    with pytest.raises(MtkitError, match=r"inference\.paragraphs is for translators"):
        translator.search([Request("a", settings=Inference(**ON))])


def test_a_request_may_ask_for_it_and_a_sentence_stays_one():
    translator, _ = bracket()
    line = "A bee. A cow."
    asked = Request(line, settings=Inference(**ON))
    found = translator.search([line, asked, replace(asked, sentence=0)])
    assert [each.text for each in found] == [
        "[A bee. A cow.]",
        "[A bee.] [A cow.]",
        "[A bee. A cow.]",
    ]


def test_the_language_of_the_line_decides_or_the_one_that_is_set():
    engine = BracketEngine()
    line = "Es war am 3. Mai. Er kam."
    settings = Inference(**ON)
    german = Inference(paragraphs=Paragraphs(language="deu"))
    for code, asked, found in (
        ("de", settings, "[Es war am 3. Mai.] [Er kam.]"),
        ("en", settings, "[Es war am 3.] [Mai.] [Er kam.]"),
        ("en", german, "[Es war am 3. Mai.] [Er kam.]"),
    ):
        translator = Translator.of(engine, CharacterTokenizer(), asked, source_language=code)
        assert translator.translate(line) == found


def test_what_is_protected_is_not_cut():
    pattern = Protect(patterns=(r"Yahoo! Mail",), numbers=False)
    line = "I like Yahoo! Mail. You too?"
    assert translate(line, protect=pattern) == "[I like Yahoo! Mail.] [You too?]"
    message = "Open {n, plural, one {A file. Read it} other {# files}}. Go on."
    (found,) = bracket(protect=Protect(), **ON)[0].search([message])
    assert [message[slice(*each.source)] for each in found.sentences] == [
        "Open {n, plural, one {A file. Read it} other {# files}}.",
        "Go on.",
    ]
    assert found.protection.way == "plain"


def test_a_term_is_of_one_sentence_and_no_sentence_ends_in_one(tmp_path):
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Ask Alf! Now\tXX\nbee\tYY\n")
    settings = Inference(**ON, glossary={"path": glossary})
    translator = Translator.of(_Upper(), CharacterTokenizer(), settings, target_language="de")
    line = "We read Ask Alf! Now daily. A bee sings."
    (found,) = translator.search([line])
    assert [line[slice(*each.source)] for each in found.sentences] == [
        "We read Ask Alf! Now daily.",
        "A bee sings.",
    ]
    assert [(line[slice(*each.span)], each.target) for each in found.terms] == [
        ("Ask Alf! Now", "XX"),
        ("bee", "YY"),
    ]


class _Upper(BracketEngine):
    """Writes what an output must contain behind the text."""

    def search(self, sources, settings):
        found = super().search(sources, settings)
        return [
            [
                replace(
                    each,
                    token_ids=(*each.token_ids, *(t for one in source.required for t in one)),
                )
                for each in of_one
            ]
            for source, of_one in zip(sources, found, strict=True)
        ]


def test_n_lines_in_are_n_lines_out_with_line_breaks_in_a_text_too():
    translator, _ = bracket(**ON)
    lines = [json.dumps({"source": "A bee.\n\nA cow."}), json.dumps({"source": "An ant."})]
    target = BytesIO()
    translate_stream(
        translator,
        BytesIO("\n".join(lines).encode()),
        target,
        input_format=InputFormat(form="jsonl"),
    )
    assert target.getvalue() == b"[A bee.]  [A cow.]\n[An ant.]\n"


def test_a_key_of_its_own_named_sentences_is_refused_in_json():
    translator, _ = bracket(**ON)
    line = b'{"source": "a", "sentences": 1}'
    with pytest.raises(LineError, match='the key "sentences" is reserved'):
        translate_stream(
            translator,
            BytesIO(line),
            BytesIO(),
            input_format=InputFormat(form="jsonl"),
            as_json=True,
        )


def test_joined_spans_and_facts_are_those_of_the_text():
    def one(text: str, words: tuple[tuple[int, int], ...], *, lost: tuple[str, ...]) -> Translation:
        alignment = WordAlignment(words, ((0, len(text)),), ((0, 0),))
        hypothesis = Hypothesis((), -1.0, -1.0, is_finished=True, text=text, alignment=alignment)
        term = TermUse((0, 1), "a", "b", "used")
        protection = Protection((KeptPiece("url", "u"),), None if lost else "masked", lost)
        return Translation((hypothesis,), terms=(term,), protection=protection)

    text = "Ab. Cd."
    found = [one("Xyz.", ((0, 3),), lost=()), one("W.", ((0, 3),), lost=("u",))]
    joined = join_sentences(text, [(0, 3), (4, 7)], found, "de")
    links = joined.candidates[0].links
    assert [text[slice(*each.source)] for each in links] == ["Ab.", "Cd."]
    assert [joined.text[slice(*each.target)] for each in links] == ["Xyz.", "W."]
    assert [each.span for each in joined.terms] == [(0, 1), (4, 5)]
    assert joined.protection == Protection((KeptPiece("url", "u"),) * 2, None, ("u",))
