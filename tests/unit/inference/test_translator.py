import asyncio
import dataclasses
import itertools
import json
import math
import shutil
from contextlib import aclosing

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import MtkitError
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.line_pipeline import is_copied
from mtkit.inference.request import Request
from mtkit.inference.translator import Translator
from mtkit.recipe.inference import Inference, Sampling
from mtkit.text import tokenizer as tokenizer_module
from mtkit.text.token_ids import EOS

from .fakes import BracketEngine, CharacterTokenizer, bracket

_WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=30))


def _expected(line: str) -> str:
    if is_copied(line):
        return line
    return f"[{line}]" if line.strip() else ""


@given(_WORDS, st.integers(1, 50), st.integers(1, 12))
def test_each_line_gets_its_own_translation_in_order(lines, batch_tokens, window_lines):
    translator, _ = bracket(batch_tokens=batch_tokens)
    found = list(translator.stream(lines, window_lines=window_lines))
    assert found == [_expected(line) for line in lines]


def test_a_text_a_list_or_anything_that_is_iterated():
    translator, _ = bracket()
    assert translator.translate("a") == "[a]"
    assert translator.translate(["a", "", "b"]) == ["[a]", "", "[b]"]
    assert translator.translate(()) == []
    endless = translator.translate(f"{number}" for number in itertools.count())
    assert [next(endless) for _ in range(2_000)][-1] == "[1999]"


def test_other_tasks_go_on_meanwhile():
    translator, engine = bracket()

    async def lines():
        for text in "abc":
            yield text

    async def run() -> tuple[list[str], list[str]]:
        streamed = [found async for found in translator.stream_async(lines(), window_lines=2)]
        return await translator.translate_async(["x", ""]), streamed

    assert asyncio.run(run()) == (["[x]", ""], ["[a]", "[b]", "[c]"])
    assert [len(batch) for batch in engine.batches] == [2, 1, 1]


def test_lines_that_come_slowly_are_answered_as_they_come():
    translator, engine = bracket()

    async def run() -> list[str]:
        answered = asyncio.Event()

        async def lines():
            yield "a"
            await answered.wait()
            for text in "bcd":
                yield text

        found = []
        async for text in translator.stream_async(lines(), window_lines=2):
            found.append(text)
            answered.set()
        return found

    assert asyncio.run(run()) == ["[a]", "[b]", "[c]", "[d]"]
    assert [len(batch) for batch in engine.batches] == [1, 2, 1]


def test_an_endless_stream_is_read_a_window_ahead_and_left_without_a_trace():
    translator, _ = bracket()
    read: list[int] = []
    closed: list[bool] = []

    async def lines():
        try:
            for number in itertools.count():
                read.append(number)
                yield str(number)
                await asyncio.sleep(0)
        finally:
            closed.append(True)

    async def leave() -> None:
        source = lines()
        async with aclosing(translator.stream_async(source, window_lines=10)) as stream:
            assert await anext(stream) == "[0]"
            await asyncio.sleep(0.1)
            # The ten at most that are answered and the ten that wait.
            assert len(read) <= 20
        assert len(asyncio.all_tasks()) == 1
        await source.aclose()

    async def cancel() -> None:
        async def wait() -> None:
            async for _ in translator.stream_async(nothing()):
                raise AssertionError

        async def nothing():
            try:
                await asyncio.Event().wait()
                yield ""
            finally:
                closed.append(True)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(leave())
    asyncio.run(cancel())
    assert closed == [True, True]


def test_lines_before_a_fault_are_answered_whatever_the_stream():
    translator, _ = bracket(max_source_tokens=8)
    # A tag of five tokens, where a part has eight at most.
    lines = ["a", "<tag>" + "b" * 9, "c"]

    async def as_they_come():
        for line in lines:
            yield line

    async def run(found: list[str]) -> None:
        async for text in translator.stream_async(as_they_come()):
            found.append(text)

    for collect in (
        lambda found: found.extend(translator.stream(iter(lines))),
        lambda found: asyncio.run(run(found)),
    ):
        found: list[str] = []
        with pytest.raises(MtkitError) as caught:
            collect(found)
        assert caught.value.message.startswith(
            "input line 2: 5 tags before the text leave too little room"
        )
        assert found == ["[a]"]


def test_what_a_source_raises_is_raised_behind_the_answers():
    translator, _ = bracket()

    async def lines():
        yield "a"
        raise ZeroDivisionError

    async def run(found: list[str]) -> None:
        async for text in translator.stream_async(lines()):
            found.append(text)

    found: list[str] = []
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run(found))
    assert found == ["[a]"]


def test_an_iterator_s_window_is_the_caller_s_choice():
    translator, engine = bracket()
    assert list(translator.translate(iter("abc"), window_lines=1)) == ["[a]", "[b]", "[c]"]
    assert [len(batch) for batch in engine.batches] == [1, 1, 1]


def test_what_leaves_no_token_never_reaches_the_model():
    translator, engine = bracket()
    lines = ["", " \t", "\u3000", "\u2028", "\n", "<tag>", "<tag> "]
    assert translator.translate(lines[:6]) == [""] * 6
    # NUL, which other tokenizers have as an unknown piece, is copied.
    assert translator.translate(["\0\0", "<tag>\0"]) == ["\0\0", "\0"]
    assert engine.batches == []
    # A space is a token to this tokenizer.
    assert translator.translate(lines[6:]) == ["[<tag> ]"]


def test_newlines_that_a_model_makes_become_spaces():
    translator, _ = bracket()
    assert translator.translate(["a\nb\r\nc"]) == ["[a b  c]"]


def test_the_newline_of_a_line_read_from_a_file_is_dropped():
    translator, _ = bracket()
    assert translator.translate(["a\n", "b\r\n"]) == ["[a]", "[b]"]


def test_reads_no_more_than_a_window_ahead():
    translator, _ = bracket()
    read = []

    def lines():
        for number in range(100):
            read.append(number)
            yield str(number)

    translations = translator.stream(lines(), window_lines=10)
    assert read == []
    assert next(translations) == "[0]"
    assert len(read) == 10
    assert [next(translations) for _ in range(10)][-1] == "[10]"
    assert len(read) == 20


def test_a_line_too_long_for_the_model_is_translated_in_parts(capsys):
    translator, engine = bracket(max_source_tokens=16)
    line = "One is here. Two, which is longer, is there. Three."
    found = translator.search(["short", line], first_line=7)
    assert found[0].text == "[short]"
    assert not found[0].was_split
    assert found[1].text == "[One is here.] [Two, which] [is longer,] [is there.] [Three.]"
    assert found[1].was_split
    assert found[1].candidates[0].score == -5.0
    assert all(len(source.tokens) <= 16 for batch in engine.batches for source in batch)
    said = capsys.readouterr().err
    assert said == (
        "warning: input line 8: 52 tokens, more than 16 (inference.max_source_tokens): "
        "translated in 5 parts\n"
    )


def test_each_part_has_the_line_s_tag_and_the_first_its_prefix():
    translator, _ = bracket(max_source_tokens=16)
    (found,) = translator.search([Request("<tag>One here. Two there.", "x")])
    assert found.text == "x[<tag>One here.] [<tag>Two there.]"


def test_the_prefix_goes_to_the_first_part_that_is_left(capsys):
    translator, _ = bracket(max_source_tokens=8)
    # Cut at the space nearest to its middle, which leaves nothing but what the tokenizer drops
    # before it.
    (found,) = translator.search([Request("\0" * 9 + " A b c de", "x")])
    assert found.text == "x[A b] [c de]"
    assert "translated in 2 parts" in capsys.readouterr().err


def test_the_n_best_of_a_line_in_parts_are_those_of_its_parts():
    translator, _ = bracket(max_source_tokens=8, n_best=2)
    (found,) = translator.search(["A b c. D e f."])
    assert [candidate.text for candidate in found.candidates] == [
        "[A b c.] [D e f.]",
        "{A b c.} {D e f.}",
    ]
    assert found.candidates[1].reached_limit
    assert found.candidates[1].score == -4.0


def test_what_the_model_can_take_bounds_a_part_too():
    engine = BracketEngine()
    engine.max_tokens = 8
    translator = Translator.of(engine, CharacterTokenizer(), Inference())
    assert translator.translate("A b c. D e f.") == "[A b c.] [D e f.]"


def test_of_many_long_lines_the_first_are_named_and_the_others_counted(capsys):
    translator, _ = bracket(max_source_tokens=8)
    translator.translate(["A b c. D e f."] * 12)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 6
    assert said[4].startswith("warning: input line 5: 14 tokens")
    assert said[5] == "warning: 7 more lines: too long for the model"


def test_each_call_warns_anew(capsys):
    translator, _ = bracket(max_source_tokens=8)
    for _ in range(7):
        translator.translate("A b c. D e f.")
    assert len(capsys.readouterr().err.splitlines()) == 7


def test_an_abandoned_stream_sums_up_its_warnings(capsys):
    translator, _ = bracket(max_source_tokens=8)
    stream = translator.stream(itertools.repeat("A b c. D e f."), window_lines=8)
    next(stream)
    stream.close()
    assert capsys.readouterr().err.splitlines()[5:] == [
        "warning: 3 more lines: too long for the model"
    ]


def test_a_given_translation_keeps_its_text_and_gets_a_score():
    translator, _ = bracket(length_penalty={"kind": "power", "alpha": 1.0})
    blank, scored = translator.score([("", " "), ("abc", "x  y")])
    assert blank.text == ""
    assert scored.text == "x  y"
    assert scored.candidates[0].log_probability == pytest.approx(5 * -0.04)
    assert scored.candidates[0].score == pytest.approx(-0.04)
    assert [token.log_probability for token in scored.candidates[0].tokens] == pytest.approx(
        [-0.04] * 5
    )


def test_a_translation_too_long_to_be_scored_is_named():
    translator, engine = bracket()
    engine.max_tokens = 5
    with pytest.raises(MtkitError) as caught:
        translator.score([("abcd", "a"), ("a", "abcde")])
    assert caught.value.message == ("input line 2: 6 tokens, but at most 5 can be scored")


def test_what_cannot_be_cut_is_bounded_where_the_model_takes_any_length():
    translator, _ = bracket()
    longest = "a" * 4_095
    assert len(translator.score([("a", longest)])[0].candidates[0].tokens) == 4_096
    with pytest.raises(MtkitError, match="input line 1: 4,097 tokens"):
        translator.score([("a", longest + "a")])
    with pytest.raises(MtkitError) as caught:
        translator.search(["a", Request("b", longest + "a")], first_line=3)
    assert caught.value.message == (
        "input line 4: the target prefix has 4,097 tokens, but the model takes at most 4,096"
    )


def test_a_model_folder_translates(folder):
    lines = ["the quick brown fox", "", "pack my box"]
    translator = Translator(folder)
    found = translator.translate(lines)
    assert len(found) == 3
    assert found[1] == ""
    # One sentence at a time finds the same.
    assert [translator.translate(line) for line in lines] == found


def test_settings_override_those_of_the_folder(folder):
    short = Inference(beam_size=1, max_extra_tokens=0)
    text = Translator(folder, settings=short).translate("a")
    longer = Translator(folder).translate("a")
    assert len(text) < len(longer)


def test_a_model_with_itself_translates_as_alone(folder):
    lines = ["the quick brown fox", "pack my box"]
    alone, together = (Translator(which).search(lines) for which in (folder, [folder, folder]))
    for one, other in zip(alone, together, strict=True):
        assert other.text == one.text
        assert other.candidates[0].score == pytest.approx(one.candidates[0].score, abs=1e-5)


def test_no_model_at_all_is_no_ensemble():
    with pytest.raises(MtkitError, match="no model folder given"):
        Translator([])


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("config.json", "source_language", "fr", "a different source language"),
        ("config.json", "target_language", "fr", "a different target language"),
        ("tokenizer.json", "tags", ["e"], "different source tags"),
        ("tokenizer.json", "punctuation", ["en", "de"], "different punctuation rules"),
    ],
)
def test_models_of_an_ensemble_read_and_write_the_same(
    folder, tmp_path, monkeypatch, file, key, value, message
):
    # sacremoses, an extra, isn't wanted here.
    monkeypatch.setattr(tokenizer_module, "punctuation_normalizer", lambda _: list)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    content = json.loads((other / file).read_text())
    (other / file).write_text(json.dumps({**content, key: value}))
    with pytest.raises(MtkitError) as caught:
        Translator([folder, other])
    assert caught.value.message == f"{other} has {message} than {folder}: they can't be ensembled"


@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 4}, {"sampling": Sampling()}])
def test_a_diverged_model_is_told_from_a_bad_one(make_recipe, make_model, tokenizer, search):
    model = make_model(make_recipe())
    with torch.no_grad():
        model.output_embedding.weight.fill_(torch.nan)
    settings = Inference(max_extra_tokens=3, **search)
    translator = Translator.of(TorchEngine(model, "cpu"), tokenizer, settings)
    with pytest.raises(MtkitError) as caught:
        translator.translate(["", "a"])
    assert caught.value.message == "input line 2: the model's probabilities are NaN"


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_score_that_is_not_finite_never_leaves_the_translator(score, rank, monkeypatch):
    translator, engine = bracket(n_best=2, beam_size=2)
    search = engine.search

    def spoil(sources, settings):
        found = search(sources, settings)
        for source, hypotheses in zip(sources, found, strict=True):
            if len(source.tokens) == 3:
                hypotheses[rank] = dataclasses.replace(hypotheses[rank], score=score)
        return found

    monkeypatch.setattr(engine, "search", spoil)
    with pytest.raises(MtkitError, match="input line 2: "):
        translator.search(["a", "bc", "def"])


@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 4}, {"sampling": Sampling()}])
def test_rules_that_leave_no_output_are_told(make_recipe, make_model, tokenizer, search):
    # No piece may come twice, and there are fewer than the output must have.
    vocab_size = tokenizer.target_vocab_size
    settings = Inference(
        no_repeat_ngram=1, min_length=vocab_size, max_extra_tokens=vocab_size, **search
    )
    translator = Translator.of(TorchEngine(make_model(make_recipe()), "cpu"), tokenizer, settings)
    with pytest.raises(MtkitError) as caught:
        translator.translate(["a"])
    assert caught.value.message.startswith("input line 1: ")
    assert f"inference.min_length = {vocab_size} and inference.no_repeat" in caught.value.message


def test_an_output_cut_by_its_limit_is_told(make_recipe, make_model, tokenizer, capsys):
    model = make_model(make_recipe())
    with torch.no_grad():
        # An output never ends where </s> is the least likely token by far.
        model.output_embedding.weight[EOS] = 0.0
        model.decoder.layers[-1].feed_forward_norm.weight.zero_()
        model.decoder.layers[-1].feed_forward_norm.bias.copy_(model.output_embedding.weight[6] * 50)
    settings = Inference(beam_size=1, max_extra_tokens=0)
    translator = Translator.of(TorchEngine(model, "cpu"), tokenizer, settings)
    (found,) = translator.search(["a"], first_line=3)
    assert found.reached_limit
    assert capsys.readouterr().err.startswith("warning: input line 3: the output was cut")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.search("man"), "got a str, expected a list"),
        (lambda model: model.translate([None]), "a line is of type NoneType, expected str"),
        (lambda model: model.translate(b"man"), "a line is of type int, expected str"),
        (lambda model: model.score(["man"]), "expected pairs"),
        (lambda model: model.score([("a", "b", "c")]), "expected pairs"),
        (lambda model: model.score([("a", 1)]), "expected pairs"),
    ],
)
def test_other_types_than_lines_are_refused(call, message) -> None:
    model = Translator.of(BracketEngine(), CharacterTokenizer(), Inference())
    with pytest.raises(TypeError, match=message):
        call(model)


@pytest.mark.parametrize("size", [0, -1, 1.5, "a"])
def test_a_window_has_a_line_or_more(size) -> None:
    model = Translator.of(BracketEngine(), CharacterTokenizer(), Inference())
    with pytest.raises(MtkitError, match=r"window_lines = .*expected a whole number from 1"):
        model.translate(["a", "b"], window_lines=size)
