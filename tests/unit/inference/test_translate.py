import io
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.data.tokenizer import EOS
from mtkit.errors import MtkitError
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.model_folder import load_model_folder
from mtkit.inference.search.hypothesis import Hypothesis
from mtkit.inference.translate import (
    Translator,
    find_device,
    make_batches,
    read_lines,
    translate_stream,
)
from mtkit.recipe.inference import Inference

_LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["", " ", "\t", "\r", "a\rb", "a\u2028b", "\u2029", "a\x85b", "\x0c", "\x1e"]
        ),
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30),
    ),
    max_size=40,
)


class CharacterTokenizer:
    """Stands for a SubwordTokenizer: a token is a character's code point after the special ones."""

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*(ord(character) + 4 for character in line), EOS] for line in lines]

    def decode_target(self, tokens: Sequence[int]) -> str:
        return "".join(chr(token - 4) for token in tokens if token != EOS)


class BracketEngine:
    """Stands for an Engine: the translation of a text is that text in brackets."""

    max_source_tokens: int | None = None

    def __init__(self) -> None:
        self.batches: list[list[Sequence[int]]] = []

    def search(
        self, source_batch: Sequence[Sequence[int]], settings: Inference
    ) -> list[list[Hypothesis]]:
        self.batches.append(list(source_batch))
        return [
            [Hypothesis((ord("[") + 4, *source[:-1], ord("]") + 4, EOS), -1.0, -1.0, True)]
            for source in source_batch
        ]


def _bracket(batch_tokens: int = 64) -> tuple[Translator, BracketEngine]:
    engine = BracketEngine()
    return Translator(engine, CharacterTokenizer(), Inference(batch_tokens=batch_tokens)), engine


def _expected(line: str) -> str:
    return f"[{line.rstrip(chr(13))}]".replace("\r", " ") if line.strip() else ""


@given(_LINES, st.integers(1, 50), st.integers(1, 12))
def test_each_line_gets_its_own_translation_in_order(lines, batch_tokens, window_lines):
    translator, _ = _bracket(batch_tokens)
    found = list(translator.translate(lines, window_lines=window_lines))
    assert found == [_expected(line) for line in lines]


@given(_LINES, st.booleans())
def test_a_stream_has_as_many_lines_out_as_in(lines, last_is_ended):
    text = "\n".join(lines) + ("\n" if last_is_ended and lines else "")
    # "a\n" is one line, "" is none, and "\n" is one.
    expected = text.split("\n")[:-1] if text.endswith("\n") or not text else text.split("\n")
    target = io.BytesIO()
    translator, _ = _bracket()
    assert translate_stream(translator, io.BytesIO(text.encode()), target) == len(expected)
    assert target.getvalue().decode() == "".join(f"{_expected(line)}\n" for line in expected)


def test_blank_lines_never_reach_the_model():
    translator, engine = _bracket()
    assert list(translator.translate(["", " \t", "\u3000", "\u2028", "\n"])) == [""] * 5
    assert engine.batches == []


def test_newlines_that_a_model_makes_become_spaces():
    translator, _ = _bracket()
    assert list(translator.translate(["a\nb\r\nc"])) == ["[a b  c]"]


def test_the_newline_of_a_line_read_from_a_file_is_dropped():
    translator, _ = _bracket()
    assert list(translator.translate(["a\n", "b\r\n"])) == ["[a]", "[b]"]


def test_reads_no_more_than_a_window_ahead():
    translator, _ = _bracket()
    read = []

    def lines():
        for number in range(100):
            read.append(number)
            yield str(number)

    translations = translator.translate(lines(), window_lines=10)
    assert read == []
    assert next(translations) == "[0]"
    assert len(read) == 10
    assert [next(translations) for _ in range(10)][-1] == "[10]"
    assert len(read) == 20


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 200))
def test_batches_hold_every_sentence_once_and_no_more_than_they_may(lengths, batch_tokens):
    batches = make_batches(lengths, batch_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert len(batch) == 1 or padded <= batch_tokens


def test_sentences_of_like_length_share_a_batch():
    assert make_batches([10, 30, 11, 29], 60) == [[1, 3], [2, 0]]


def test_a_source_counts_for_eight_tokens_at_least():
    assert [len(batch) for batch in make_batches([1] * 10, 32)] == [4, 4, 2]


def test_a_line_too_long_for_the_model_is_named():
    translator, engine = _bracket()
    engine.max_source_tokens = 5
    translations = translator.translate(["abcd", "", "abcde"], window_lines=2)
    assert [next(translations), next(translations)] == ["[abcd]", ""]
    with pytest.raises(MtkitError) as caught:
        next(translations)
    assert caught.value.message == (
        "input line 3: 6 tokens, but the model reads at most 5 (model.max_positions)"
    )
    assert caught.value.hint == "split the line into sentences"


def test_only_a_line_feed_ends_a_line():
    stream = io.BytesIO("a\r\nb\u2028c\x85d\x0ce\rf\r\r\n\nlast".encode())
    assert list(read_lines(stream)) == ["a", "b\u2028c\x85d\x0ce\rf\r", "", "last"]


def test_a_byte_order_mark_is_no_text():
    stream = io.BytesIO("\ufeffone\n\ufefftwo\n".encode())
    assert list(read_lines(stream)) == ["one", "\ufefftwo"]


def test_a_byte_that_is_no_utf8_is_named():
    lines = read_lines(io.BytesIO(b"a\n\nGr\xfc\xdfe\n"))
    assert [next(lines), next(lines)] == ["a", ""]
    with pytest.raises(MtkitError) as caught:
        next(lines)
    assert caught.value.message == "input line 3: byte 3 (0xfc) is no UTF-8"
    assert caught.value.hint == "convert the input, for example: iconv -f latin1 -t utf-8"


class _Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


class _FlushCounter(io.BytesIO):
    def __init__(self) -> None:
        super().__init__()
        self.lines_at_flush: list[int] = []

    def flush(self) -> None:
        self.lines_at_flush.append(self.getvalue().count(b"\n"))


def test_a_terminal_is_answered_line_by_line():
    translator, engine = _bracket()
    target = _FlushCounter()
    translate_stream(translator, _Terminal(b"a\nb\nc\n"), target)
    assert target.lines_at_flush[:3] == [1, 2, 3]
    assert [len(batch) for batch in engine.batches] == [1, 1, 1]


def test_a_file_is_answered_window_by_window():
    translator, _ = _bracket()
    target = _FlushCounter()
    translate_stream(translator, io.BytesIO(b"a\n" * 2_500), target)
    assert target.lines_at_flush == [1_024, 2_048, 2_500]


def test_a_model_folder_translates(folder):
    lines = ["the quick brown fox", "", "pack my box"]
    found = list(Translator.load(folder).translate(lines))
    assert len(found) == 3
    assert found[1] == ""
    # A long search with one sentence at a time finds the same.
    alone = Translator.load(folder, settings=load_model_folder(folder).settings)
    assert [next(alone.translate([line])) for line in lines] == found


def test_settings_override_those_of_the_folder(folder):
    short = Inference(beam_size=1, max_extra_tokens=0)
    (text,) = Translator.load(folder, settings=short).translate(["a"])
    (longer,) = Translator.load(folder).translate(["a"])
    assert len(text) < len(longer)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_diverged_model_is_told_from_a_bad_one(make_recipe, make_model, tokenizer, beam_size):
    model = make_model(make_recipe())
    with torch.no_grad():
        model.output_embedding.weight.fill_(torch.nan)
    settings = Inference(beam_size=beam_size, max_extra_tokens=3)
    translations = Translator(TorchEngine(model, "cpu"), tokenizer, settings).translate(["", "a"])
    with pytest.raises(MtkitError) as caught:
        next(translations)
    assert caught.value.message == "input line 2: the model's probabilities are no numbers (NaN)"


def test_devices(monkeypatch):
    assert find_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert find_device("auto") == torch.device("cpu")
    with pytest.raises(MtkitError, match="no device 'cuda': 0 GPUs found"):
        find_device("cuda")
    for name in ("gpu", "meta", "mps", "cuda:250"):
        with pytest.raises(MtkitError, match=f"no device '{name}'"):
            find_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(MtkitError, match="no device 'cuda:1': 1 GPUs found"):
        find_device("cuda:1")


def test_a_very_long_line_is_warned_of_by_its_number(folder, capsys):
    short = Inference(beam_size=1, max_extra_tokens=0)
    translator = Translator.load(folder, settings=short)
    assert len(list(translator.translate(["a", "a b " * 600]))) == 2
    said = capsys.readouterr().err
    assert said.startswith("warning: input line 2 has 2,401 tokens")
    assert "split it into sentences" in said
