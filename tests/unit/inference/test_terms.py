"""Terms in lines; the engine stands in for one that writes a word more for each that it must."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.inference.engines.ctranslate2_engine import check_settings
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.translate import Translator
from mtkit.inference.translation import Hypothesis, Request
from mtkit.recipe.inference import Glossary, Inference
from mtkit.text.term_annotation import TERM_SYMBOLS
from mtkit.text.token_ids import EOS
from mtkit.text.vocabulary import Vocabulary

from .fakes import CharacterTokenizer

_WORDS = {"cats": "Katzen", "dog": "Hund", "the": "das", "car": "PKW"}


class WordEngine:
    """Translates word by word; what it doesn't know it leaves out."""

    max_tokens: int | None = None
    batches_at_once = 1

    def __init__(self) -> None:
        self.batches: list[list[EncodedSource]] = []

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        self.batches.append(list(sources))
        return [[self._translate(source)] for source in sources]

    def _translate(self, source: EncodedSource) -> Hypothesis:
        decode = CharacterTokenizer().decode_target
        words = [_WORDS.get(word.strip("."), "") for word in decode(source.tokens).split()]
        banned = [decode(phrase) for phrase in source.forbidden]
        required = [decode(phrase) for phrase in source.required]
        words = [word for word in words if word and word not in (*banned, *required)] + required
        tokens = (*CharacterTokenizer().encode_target([" ".join(words)])[0],)
        assert tokens[-1] == EOS
        return Hypothesis(tokens, -1.0, -1.0, is_finished=True)

    def score(self, source_batch, target_batch):
        raise AssertionError("nothing is scored")


def open_translator(path: Path, terms: str, **settings: object) -> tuple[Translator, WordEngine]:
    path.write_text(terms, encoding="utf-8")
    engine = WordEngine()
    chosen = Inference(glossary=Glossary(path=path), **settings)
    return Translator.of(engine, CharacterTokenizer(), chosen, target_language="de"), engine


class _AnnotatedTokenizer(CharacterTokenizer):
    """Of a model that was trained on annotated sources."""

    source_vocabulary = Vocabulary(TERM_SYMBOLS)


def open_annotating(path: Path, terms: str, **settings: object) -> tuple[Translator, WordEngine]:
    path.write_text(terms, encoding="utf-8")
    engine = WordEngine()
    chosen = Inference(glossary=Glossary(path=path, **settings))
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
    assert translator.terms_summary == "terms: 1 used, 2 inflected, 0 missed"
    assert found[2].as_json()["terms"][0] == {
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
    assert translator.terms_summary == (
        "terms: 1 used, 0 inflected, 0 missed; forbidden terms: 2 avoided, 0 used, 0 inflected"
    )
    assert [len(batch) for batch in engine.batches] == [2, 1]


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

    def locate(self, _: str, text: str) -> list[tuple[int, int]]:
        return [(index, index + 1) for index in range(len(text))]

    def locate_decoded(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
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


def test_words_are_aligned_to_the_line_without_its_annotations(terms_file):
    terms_file.write_text("zebra\tZebra\n", encoding="utf-8")
    engine, tokenizer = _AligningEngine(), _AlignedTokenizer()
    settings = Inference(glossary=Glossary(path=terms_file), alignments=True)
    translator = Translator.of(engine, tokenizer, settings, target_language="de")
    found = translator.search(["dog the zebra", "the dog"])
    assert [each.candidates[0].alignment.pharaoh for each in found] == ["0-0", "0-0 0-1"]
    # What the search has attended to is right for the other line.
    assert engine.aligned == tokenizer.encode_source(["dog the zebra"])


def test_constraints_may_be_asked_for_instead(terms_file):
    translator, engine = open_annotating(terms_file, "zebra\tZebra\n", way="constraints")
    (found,) = translator.search(["the zebra"])
    assert found.text == "das Zebra"
    assert len(engine.batches) == 2


def test_annotation_needs_a_model_that_knows_it(terms_file):
    terms_file.write_text("zebra\tZebra\n", encoding="utf-8")
    settings = Inference(glossary=Glossary(path=terms_file, way="annotation"))
    with pytest.raises(MtkitError, match=r"trained without data\.augment\.terms"):
        Translator.of(WordEngine(), CharacterTokenizer(), settings)


def test_no_glossary_no_word_of_terms():
    translator = Translator.of(WordEngine(), CharacterTokenizer(), Inference())
    (found,) = translator.search(["cats"])
    assert found.terms is None
    assert "terms" not in found.as_json()
    assert not translator.terms_summary


def test_ctranslate2_is_refused_by_name(terms_file):
    with pytest.raises(MtkitError, match=r"inference\.glossary: CTranslate2 can't search"):
        check_settings(Inference(glossary=Glossary(path=terms_file, way="constraints")))


def test_samples_have_no_glossary(terms_file):
    with pytest.raises(ValueError, match="glossary needs a beam"):
        Inference.model_validate(
            {"sampling": {}, "glossary": {"path": terms_file}},
        )
