"""Terms in lines; the engine stands in for one that writes a word more for each that it must."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.request import Request
from mtkit.inference.terms import TextTerms
from mtkit.inference.translation import Hypothesis
from mtkit.inference.translator import Translator
from mtkit.recipe.inference import GlossarySection, Inference, Sampling
from mtkit.text.glossary import Term
from mtkit.text.term_forms import TERM_SYMBOLS
from mtkit.text.token_ids import UNK
from mtkit.text.vocabulary import Vocabulary

from .fakes import CharacterTokenizer, WordEngine


def open_translator(path: Path, terms: str, **settings: object) -> tuple[Translator, WordEngine]:
    path.write_text(terms, encoding="utf-8")
    engine = WordEngine()
    chosen = Inference(glossary=GlossarySection(path=path), **settings)
    return Translator.of(engine, CharacterTokenizer(), chosen, target_language="de"), engine


class _AnnotatedTokenizer(CharacterTokenizer):
    """Of a model that was trained on annotated sources."""

    source_vocabulary = Vocabulary(TERM_SYMBOLS)


def open_annotating(path: Path, terms: str, **settings: object) -> tuple[Translator, WordEngine]:
    path.write_text(terms, encoding="utf-8")
    engine = WordEngine()
    chosen = Inference(glossary=GlossarySection(path=path, **settings))
    return Translator.of(engine, _AnnotatedTokenizer(), chosen, target_language="de"), engine


@pytest.fixture
def terms_file(tmp_path) -> Path:
    return tmp_path / "terms.tsv"


def test_only_lines_that_lack_a_term_are_searched_again(terms_file):
    terms = "cats\tKatze\nzebra\tZebra\n"
    translator, engine = open_translator(terms_file, terms)
    found = translator.search(["the dog", "cats", "the zebra and cats", ""])
    assert [each.text for each in found] == ["das Hund", "Katzen", "das Zebra Katzen", ""]
    assert len(engine.batches) == 2
    (again,) = engine.batches[1]
    # An inflected form is asked for as it was found.
    decode = CharacterTokenizer().decode_target
    assert [decode(phrase) for phrase in again.required] == ["Zebra", "Katzen"]
    assert [[use.use for use in each.terms] for each in found] == [
        [],
        ["inflected"],
        ["used", "inflected"],
        [],
    ]
    assert translator.summary == "terms: 1 used, 2 inflected, 0 missed"
    assert found[2].as_json("")["terms"][0] == {
        "span": [4, 9],
        "source": "zebra",
        "target": "Zebra",
        "use": "used",
        "found": "Zebra",
        "forbidden": False,
    }


def test_forbidden_terms_are_kept_out(terms_file):
    terms = "car\tPKW\tforbidden\ncar\tAuto\ndog\tKatze\tforbidden\n"
    translator, engine = open_translator(terms_file, terms)
    found = translator.search(["the car", "dog"])
    assert [each.text for each in found] == ["das Auto", "Hund"]
    assert [(use.target, use.use) for use in found[0].terms] == [
        ("Auto", "used"),
        ("PKW", "avoided"),
    ]
    assert translator.summary == (
        "terms: 1 used, 0 inflected, 0 missed; forbidden terms: 2 avoided, 0 used, 0 inflected"
    )
    assert [len(batch) for batch in engine.batches] == [2, 1]


def find_forbidden(text: str, *terms: Term) -> tuple[list[str], list[str]]:
    spans = [((0, 1), term) for term in terms]
    found = TextTerms(
        tuple(each for each in spans if not each[1].is_forbidden),
        tuple(each for each in spans if each[1].is_forbidden),
    )
    wanted, forbidden = found.find_uses(text)
    return [use.form for use in wanted], [use.form for use in forbidden]


def test_another_case_is_no_use_of_a_forbidden_term_whose_case_matters():
    strict = Term("cat", "katze", is_forbidden=True, is_case_sensitive=True)
    assert find_forbidden("die Katze", strict) == ([], ["missed"])
    assert find_forbidden("die katze", strict) == ([], ["used"])
    assert find_forbidden("die katzen", strict) == ([], ["inflected"])
    assert find_forbidden("die Katze", replace(strict, is_case_sensitive=False)) == ([], ["used"])


def test_a_wanted_term_is_no_form_of_a_forbidden_one():
    wanted = Term("staff", "Mitarbeitende")
    forbidden = Term("staff", "Mitarbeiter", is_forbidden=True)
    assert find_forbidden("die Mitarbeitende", wanted, forbidden) == (["used"], ["missed"])
    both = "die Mitarbeitende, mit Mitarbeitern"
    assert find_forbidden(both, wanted, forbidden) == (["used"], ["inflected"])
    # A forbidden word inside a wanted term is still forbidden.
    inside = Term("x", "rote Katze"), Term("y", "Katze", is_forbidden=True)
    assert find_forbidden("eine rote Katze", *inside) == (["used"], ["used"])


def test_a_form_that_is_forbidden_is_not_required(terms_file):
    translator, engine = open_translator(terms_file, "cats\tKatze\ncats\tKatzen\tforbidden\n")
    translator.search(["cats"])
    decode = CharacterTokenizer().decode_target
    [again] = engine.batches[1]
    assert [decode(phrase) for phrase in again.required] == ["Katze"]
    assert "Katzen" in [decode(phrase) for phrase in again.forbidden]


def test_terms_of_a_line_in_parts_stand_in_the_line(terms_file):
    translator, _ = open_translator(terms_file, "zebra\tZebra\n", max_source_tokens=10)
    line = "The dog. A zebra."
    (found,) = translator.search([Request(line)], warns=False)
    assert found.was_split
    assert [line[slice(*use.span)] for use in found.terms] == ["zebra"]
    assert found.text.endswith("Zebra")


def test_more_terms_than_a_search_can_bear_are_left_to_the_model(terms_file):
    words = [chr(ord("a") + number) * 30 for number in range(4)]
    terms = "".join(f"{word}\t{word.upper()}\n" for word in words)
    translator, engine = open_translator(terms_file, terms)
    (found,) = translator.search([" ".join(words)])
    assert [use.use for use in found.terms] == ["used", "used", "missed", "missed"]
    assert len(engine.batches[1][0].required) == 2


def test_a_model_that_knows_annotations_reads_them(terms_file):
    translator, engine = open_annotating(terms_file, "zebra\tZebra\ncats\tKatze\n")
    found = translator.search(["the zebra", "dog"])
    decode = CharacterTokenizer().decode_target
    assert [decode(source.tokens) for (source,) in ([each] for each in engine.batches[0])] == [
        "the<term0> zebra<term1> Zebra<term2>",
        "dog",
    ]
    # What it lacks nevertheless is reported, and left.
    assert len(engine.batches) == 1
    assert [[use.use for use in each.terms] for each in found] == [["missed"], []]


class _AlignedTokenizer(_AnnotatedTokenizer):
    """Knows where its tokens stand: each is a character."""

    def locate(self, _: str, text: str, __: Sequence[int] = ()) -> list[tuple[int, int]]:
        return [(index, index + 1) for index in range(len(text))]

    def locate_decoded(self, tokens: Sequence[int], _: str) -> list[tuple[int, int]]:
        end = len(tokens) - 1
        return [*((index, index + 1) for index in range(end)), (end, end)]


class _AligningEngine(WordEngine):
    """All of its tokens attend to the first of the source; notes what it aligns by itself."""

    aligns = True

    def __init__(self) -> None:
        super().__init__()
        self.aligned: list[Sequence[int]] = []

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        found = super().search(sources, settings)
        return [
            [replace(each, alignment_weights=_attend(source.tokens, each.token_ids))]
            for source, (each,) in zip(sources, found, strict=True)
        ]

    def align(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        self.aligned += source_batch
        return list(map(_attend, source_batch, target_batch))


def _attend(source: Sequence[int], target: Sequence[int]) -> NDArray[np.float32]:
    weights = np.zeros((len(target), len(source)), np.float32)
    weights[:, 0] = 1.0
    return weights


# Where the term is put in, the translation has two words.
@pytest.mark.parametrize(("way", "links"), [("annotation", "0-0"), ("both", "0-0 0-1")])
def test_words_are_aligned_to_the_line_without_its_annotations(terms_file, way, links):
    terms_file.write_text("zebra\tZebra\n", encoding="utf-8")
    engine, tokenizer = _AligningEngine(), _AlignedTokenizer()
    settings = Inference(glossary=GlossarySection(path=terms_file, way=way), alignments=True)
    translator = Translator.of(engine, tokenizer, settings, target_language="de")
    lines = ["dog the zebra", "the dog"]
    found = translator.search(lines)
    assert [
        each.candidates[0].alignment.as_pharaoh(line, each.text)
        for line, each in zip(lines, found, strict=True)
    ] == [links, "0-0 0-1"]
    # What the search has attended to is right for the other line.
    assert engine.aligned == tokenizer.encode_source(["dog the zebra"])


def test_constraints_may_be_asked_for_instead(terms_file):
    translator, engine = open_annotating(terms_file, "zebra\tZebra\n", way="constraints")
    (found,) = translator.search(["the zebra"])
    assert found.text == "das Zebra"
    assert len(engine.batches) == 2


def test_lines_that_lack_an_annotated_term_are_searched_again(terms_file):
    translator, engine = open_annotating(terms_file, "zebra\tZebra\ncats\tKatze\n", way="both")
    found = translator.search(["the zebra", "cats", "dog"])
    first, again = engine.batches
    assert [source.required for source in first] == [(), (), ()]
    # Those that still lack their terms, with the annotation that they had.
    assert [source.tokens for source in again] == [source.tokens for source in first[:2]]
    assert all(len(source.required) == 1 for source in again)
    assert [[use.use for use in each.terms] for each in found] == [["used"], ["used"], []]


@pytest.mark.parametrize(
    ("way", "searched"), [("auto", [1]), ("both", [1, 1]), ("constraints", [1, 1])]
)
def test_settings_say_how_a_requests_terms_get_in(way, searched):
    engine = WordEngine()
    settings = Inference(glossary=GlossarySection(way=way))
    translator = Translator.of(engine, _AnnotatedTokenizer(), settings)
    (found,) = translator.search([Request("the zebra", glossary=(Term("zebra", "Zebra"),))])
    assert [len(batch) for batch in engine.batches] == searched
    assert [use.use for use in found.terms] == ["missed" if way == "auto" else "used"]
    (plain,) = translator.search(["the zebra"])
    assert plain.terms is None


@pytest.mark.parametrize("way", ["annotation", "both"])
def test_annotation_needs_a_model_that_knows_it(terms_file, way):
    terms_file.write_text("zebra\tZebra\n", encoding="utf-8")
    settings = Inference(glossary=GlossarySection(path=terms_file, way=way))
    with pytest.raises(MtkitError, match=r"trained without data\.augment\.terms"):
        Translator.of(WordEngine(), CharacterTokenizer(), settings)


def test_no_glossary_no_word_of_terms():
    translator = Translator.of(WordEngine(), CharacterTokenizer(), Inference())
    (found,) = translator.search(["cats"])
    assert found.terms is None
    assert "terms" not in found.as_json("cats")
    assert not translator.summary


def test_samples_have_no_glossary(terms_file):
    with pytest.raises(ValueError, match="glossary needs a beam"):
        Inference.model_validate(
            {"sampling": {}, "glossary": {"path": terms_file}},
        )


def test_each_request_has_its_own_glossary(terms_file):
    translator, engine = open_translator(terms_file, "zebra\tZebra\n")
    own = (Term("zebra", "Streifenpferd"), Term("dog", "Hund", is_forbidden=True))
    found = translator.search(
        [
            "the zebra",
            Request("the zebra", glossary=own),
            Request("the dog", glossary=own),
            Request("the zebra", glossary=(Term("horse", "Ross"),)),
            "the dog",
        ]
    )
    assert [each.text for each in found] == [
        "das Zebra",
        "das Streifenpferd",
        "das",
        # The translator's own terms don't count beside those of a request.
        "das",
        "das Hund",
    ]
    assert [[(use.target, use.use) for use in each.terms] for each in found] == [
        [("Zebra", "used")],
        [("Streifenpferd", "used")],
        [("Hund", "avoided")],
        [],
        [],
    ]
    assert [len(batch) for batch in engine.batches] == [5, 3]
    # What is summarised is the translator's own.
    assert translator.summary == "terms: 1 used, 0 inflected, 0 missed"


def test_a_glossary_of_a_request_needs_none_of_the_translator():
    translator = Translator.of(WordEngine(), CharacterTokenizer(), Inference())
    own = (Term("zebra", "Zebra"),)
    plain, with_terms = translator.search(["zebra dog", Request("zebra dog", glossary=own)])
    assert (plain.text, plain.terms) == ("Hund", None)
    assert (with_terms.text, with_terms.terms[0].use) == ("Hund Zebra", "used")


def test_a_request_s_glossary_that_cannot_be_kept_is_told_by_line():
    own = (Term("zebra", "Zebra"),)
    engine = WordEngine()
    translator = Translator.of(engine, CharacterTokenizer(), Inference())
    drawn = Request("a zebra", glossary=own, settings=Inference(sampling=Sampling()))
    with pytest.raises(MtkitError, match=r"input line 2: glossary: .*sampling"):
        translator.search(["dog", drawn])
    continuing = Translator.of(engine, CharacterTokenizer(), Inference(), continues=True)
    with pytest.raises(MtkitError, match="only translators take one"):
        continuing.search([Request("a zebra", glossary=own)])
    annotated = Translator.of(engine, _AnnotatedTokenizer(), Inference())
    (found,) = annotated.search([Request("a zebra", glossary=own)])
    assert found.terms[0].use == "missed"
    read = CharacterTokenizer().decode_target(engine.batches[-1][0].tokens)
    assert read == "a<term0> zebra<term1> Zebra<term2>"


def test_what_the_vocabulary_cannot_write_is_missed():
    class Tokenizer(CharacterTokenizer):
        def encode_target(self, lines):
            return [
                [UNK if token == ord("ö") + 4 else token for token in tokens]
                for tokens in super().encode_target(lines)
            ]

    engine = WordEngine()
    translator = Translator.of(engine, Tokenizer(), Inference())
    own = (Term("zebra", "Zöbra"), Term("dog", "Dogge"))
    (found,) = translator.search([Request("zebra dog", glossary=own)])
    assert found.text == "Hund Dogge"
    assert [use.use for use in found.terms] == ["missed", "used"]


def test_lines_with_other_glossaries_beside_them_stay_as_they_are(
    make_recipe, make_model, tokenizer
):
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    translator = Translator.of(engine, tokenizer, Inference(beam_size=2, max_extra_tokens=5))
    first, second = (Term("fox", "dog"),), (Term("box", "jugs"), Term("fox", "zebra"))
    callers = [
        [Request("the quick fox", glossary=first), Request("pack my box", glossary=first)],
        [Request("the quick fox", glossary=second), Request("pack my box", glossary=second)],
        [Request("the quick fox"), Request("pack my box")],
    ]
    together = translator.search([request for caller in callers for request in caller])
    alone = [found for caller in callers for found in translator.search(caller)]
    assert [each.text for each in together] == [each.text for each in alone]
    assert [each.terms for each in together] == [each.terms for each in alone]
    assert [[use.target for use in each.terms or ()] for each in together] == [
        ["dog"],
        [],
        ["zebra"],
        ["jugs"],
        [],
        [],
    ]
