"""Quality of translations; the engine's scores are arithmetic by hand (`BracketEngine.score`)."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu import sentence_chrf

from mtkit.errors import MtkitError
from mtkit.evaluation.quality import Estimator, Threshold
from mtkit.inference.line import TextModel
from mtkit.inference.line_pipeline import LinePipeline
from mtkit.inference.quality import LineQuality, QualityFile, list_measures, measure_pairs
from mtkit.inference.request import Request
from mtkit.inference.streams.translate_stream import translate_stream
from mtkit.inference.translation import read_translation
from mtkit.inference.translator import Translator
from mtkit.recipe.inference import Fusion, Inference, Paragraphs, Quality
from mtkit.text.languages import TranslatorLanguages

from .fakes import BracketEngine, CharacterTokenizer

QUALITY = Quality(path=Path("q.json"))


def make_file(**changes: Any) -> QualityFile:
    """Returns a file whose estimate is 1 / (1 + exp(-(10 x + 1))) of the mean log-probability x.

    From 0.6 on, 100 of 100 tested labels were right, which bounds the risk to 3 %.
    """
    estimator = Estimator(
        names=("log_probability",), means=(0.0,), scales=(1.0,), weights=(10.0,), intercept=1.0
    )
    threshold = Threshold(at=0.6, fit_released=70, fit_wrong=0, released=100, wrong=0)
    plain = {"model": "m", "estimator": estimator, "thresholds": (threshold,)}
    return QualityFile(**{**plain, **changes})


def open_pipeline(**settings: Any) -> LinePipeline:
    tokenizer: Any = CharacterTokenizer()
    languages = TranslatorLanguages.of(None, "en", "de")
    return LinePipeline(
        BracketEngine(),
        TextModel(tokenizer, languages, "de"),
        Inference(**{"batch_tokens": 64, **settings}),
    )


def estimating(quality: Quality = QUALITY, file: QualityFile | None = None, **settings: Any):
    pipeline = open_pipeline(quality=quality, **settings)
    pipeline.quality = LineQuality(file or make_file(), quality, list_measures(pipeline))
    return Translator(pipeline)


def squash(number: float) -> float:
    return round(1.0 / (1.0 + math.exp(-number)), 6)


def test_the_estimate_of_a_line_and_whether_it_is_released() -> None:
    # Each token costs a hundredth of the source's tokens, `</s>` among them: -0.04 and -0.09.
    short, long, blank = estimating().search(["abc", "abcdefgh", " "])
    assert (short.quality, short.released) == (squash(1 - 0.4), True)
    assert (long.quality, long.released) == (squash(1 - 0.9), False)
    assert (blank.quality, blank.released) == (1.0, True)


def test_the_same_number_in_any_batch_and_order_and_for_a_given_translation() -> None:
    lines = ["abc", "a longer line of text", "abcdefgh", "x"]
    translator = estimating()
    found = [each.quality for each in translator.search(lines)]
    assert [each.quality for each in translator.search(lines[::-1])][::-1] == found
    assert [translator.search([line])[0].quality for line in lines] == found
    given = estimating().score([(line, f"[{line}]") for line in lines])
    assert [each.quality for each in given] == found


def test_the_bound_decides_what_is_released() -> None:
    # 100 right ones are enough for 3 % with 95 % (0.97^100 = 0.048), and not for 2.9 % (0.053).
    for risk, released in ((0.03, True), (0.029, False)):
        quality = Quality(path=Path("q.json"), risk=risk)
        assert estimating(quality).search(["abc"])[0].released is released
    strict = Quality(path=Path("q.json"), risk=0.03, confidence=0.96)
    assert estimating(strict).search(["abc"])[0].released is False
    nothing = estimating(file=make_file(thresholds=()))
    assert nothing.search(["abc"])[0].released is False


def test_a_line_of_several_sentences_is_as_good_as_its_worst() -> None:
    translator = estimating(paragraphs=Paragraphs())
    (both,) = translator.search(["Abc. Abcdefgh."])
    first, second = (estimating().search([text])[0] for text in ("Abc.", "Abcdefgh."))
    assert second.quality < first.quality
    assert (both.quality, both.released) == (second.quality, False)


def test_a_pair_that_cannot_be_scored_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BracketEngine, "max_tokens", 12)
    translator = estimating(max_source_tokens=8)
    # Cut into parts, it is translated; as a whole it is too long.
    long, short = translator.search(["abcd efgh ijkl mnop", "abc"])
    assert (long.was_split, long.quality, long.released) == (True, 0.0, False)
    assert short.released


def test_features_of_pairs() -> None:
    measures = list_measures(open_pipeline(), samples=2)
    (names,) = (each.names for each in measures[:1])
    assert "coverage" not in names
    pairs = [Request("in 1987", prefix="1987"), Request("in 1987", prefix="in 1978!")]
    found = measure_pairs(measures, pairs)
    assert found["log_probability"] == pytest.approx([-0.08, -0.08])
    assert found["lowest_log_probability"] == pytest.approx([-0.08, -0.08])
    # With `</s>`: 5 and 9 tokens.
    assert found["length"] == [math.log(5), math.log(9)]
    assert found["length_ratio"] == pytest.approx([math.log(19 / 22), math.log(23 / 22)])
    assert found["flags"] == [0.0, 1.0]
    # The samples of this engine are the line in brackets and in braces.
    samples = ("[in 1987]", "{in 1987}")
    for pair, agreement in zip(pairs, found["agreement"], strict=True):
        scores = [sentence_chrf(pair.prefix, [sample]).score for sample in samples]
        assert agreement == pytest.approx(sum(scores) / 2)


def test_features_do_not_depend_on_how_translations_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Inference] = []
    search = BracketEngine.search

    def watch(engine: BracketEngine, sources: Any, settings: Inference) -> Any:
        seen.append(settings)
        return search(engine, sources, settings)

    monkeypatch.setattr(BracketEngine, "search", watch)
    lengths = {"min_length": 20, "max_extra_tokens": 3, "max_output_tokens": 7, "stop_margin": 1}
    fusion = Fusion(model=Path("lm"))
    for others in ({}, {"no_repeat_ngram": 2, "beam_size": 9, "fusion": fusion, **lengths}):
        pipeline = open_pipeline(precision="fp32", max_source_tokens=32, **others)
        measure_pairs(list_measures(pipeline, samples=2), [Request("a b", prefix="a c")])
    first, second = seen
    assert first == second
    # The engine's own settings stay.
    assert (first.batch_tokens, first.precision, first.max_source_tokens) == (64, "fp32", 32)


def test_json_and_what_a_server_sends() -> None:
    target = io.BytesIO()
    translate_stream(estimating(), io.BytesIO(b"abc\nabcdefgh\n"), target, as_json=True)
    first, second = map(json.loads, target.getvalue().splitlines())
    assert (first["quality"], first["released"]) == (squash(0.6), True)
    assert (second["quality"], second["released"]) == (squash(0.1), False)
    read = read_translation(second, 1)
    assert (read.quality, read.released) == (squash(0.1), False)
    plain = Translator(open_pipeline()).search(["abc"])[0]
    assert not {"quality", "released"} & plain.as_json("abc").keys()


def test_the_reverse_translators_score() -> None:
    measures = list_measures(open_pipeline(), reverse=open_pipeline())
    found = measure_pairs(measures, [Request("<tag>abc", prefix="abcdefgh")])
    # Nine tokens are its source.
    assert found["reverse_log_probability"] == pytest.approx([-0.09])
    estimator = make_file().estimator.model_copy(update={"names": ("reverse_log_probability",)})
    with pytest.raises(MtkitError, match="'reverse_log_probability', which isn't measured here"):
        estimating(file=make_file(estimator=estimator))


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    make_file().write(path)
    assert QualityFile.read(path) == make_file()
    fitted = {"model": "m", "reverse": "", "metric": ""}
    make_file().check_models(path, fitted)
    for changes, fault in (
        ({"model": "x"}, r"fitted for another model \(m, not x\)"),
        ({"reverse": "r"}, r"fitted for another reverse \(none, not r\)"),
        ({"metric": "k"}, r"fitted for another metric \(none, not k\)"),
    ):
        with pytest.raises(MtkitError, match=fault):
            make_file().check_models(path, fitted | changes)
    with pytest.raises(MtkitError, match=r"another reverse \(r, not none\)"):
        make_file(reverse="r").check_models(path, fitted)


class _Metric:
    """A learned metric: the length of the translation, and the source's."""

    name = model = signature = "lengths"
    needs_reference = False

    def score(self, rows):
        return np.array([len(target) + len(source) / 100 for source, target, _ in rows])


def test_a_learned_metric_is_a_feature() -> None:
    measures = list_measures(open_pipeline(), metric=_Metric())
    found = measure_pairs(measures, [Request("<tag>abc", prefix="abcdefgh")])
    # The tag isn't text.
    assert found["metric"] == [8.03]


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("estimator.weights", [math.nan], "estimator.weights"),
        ("estimator.weights", [1e300], "less than or equal"),
        ("estimator.scales", [0.0], "greater than or equal"),
        ("estimator.names", [], "differ in length"),
        ("estimator.names", ["x"] * 101, "at most 100"),
        ("thresholds", [{"at": 2.0}], "thresholds.0.at"),
        ("thresholds.0.wrong", 101, "more wrong labels than released"),
        ("thresholds.0.released", 10**9, "less than or equal to 10000000"),
        ("thresholds.0.released", -1, "greater than or equal"),
        ("samples", 1_001, "less than or equal"),
        ("format_version", 2, "format 2"),
        ("model", None, "model"),
        ("other", 1, "other"),
    ],
)
def test_a_damaged_or_hostile_file(tmp_path: Path, key: str, value: object, fault: str) -> None:
    path = tmp_path / "q.json"
    make_file().write(path)
    content = json.loads(path.read_text())
    inner = content
    *before, last = key.split(".")
    for step in before:
        inner = inner[int(step) if step.isdigit() else step]
    inner[last] = value
    path.write_text(json.dumps(content))
    with pytest.raises(MtkitError, match=fault):
        QualityFile.read(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000, '{"format_version": 1}'])
def test_no_file_of_this_kind(tmp_path: Path, content: str) -> None:
    path = tmp_path / "q.json"
    with pytest.raises(MtkitError, match="no such file"):
        QualityFile.read(path)
    path.write_text(content)
    with pytest.raises(MtkitError):
        QualityFile.read(path)
