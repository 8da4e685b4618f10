import io
import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import MtkitError
from mtkit.inference.line_pipeline import is_copied
from mtkit.inference.streams.byte_lines import WarningPrinter
from mtkit.inference.streams.input_format import InputFormat, read_requests
from mtkit.inference.streams.translate_stream import score_stream, translate_stream

from ..fakes import bracket

TEXT = InputFormat()
LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["", " ", "\t", "\r", "a\rb", "a\u2028b", "\u2029", "a\x85b", "\x0c", "\x1e", "\0"]
        ),
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30),
    ),
    max_size=40,
)


def translate(text: bytes, input_format: InputFormat = TEXT, **settings: object) -> str:
    target = io.BytesIO()
    translate_stream(bracket(**settings)[0], io.BytesIO(text), target, input_format=input_format)
    return target.getvalue().decode()


def read(text: bytes, input_format: InputFormat = TEXT) -> list[str]:
    windows = read_requests(io.BytesIO(text), input_format, WarningPrinter())
    return [line.text for window in windows for line in window]


@given(LINES, st.booleans())
def test_a_stream_has_as_many_lines_out_as_in(lines, last_is_ended):
    text = "\n".join(lines) + ("\n" if last_is_ended and lines else "")
    # "a\n" is one line, "" is none, and "\n" is one.
    given_lines = text.split("\n")[:-1] if text.endswith("\n") or not text else text.split("\n")
    target = io.BytesIO()
    translator, _ = bracket()
    count = translate_stream(translator, io.BytesIO(text.encode()), target)
    assert count == len(given_lines)
    found = target.getvalue().decode().split("\n")
    assert found.pop() == ""
    assert len(found) == count
    for line, translation in zip(given_lines, found, strict=True):
        if not line.strip():
            assert translation == ""
        elif "\0" not in line and not line.endswith("\r") and line[0] != "\ufeff":
            expected = line if is_copied(line) else f"[{line}]"
            assert translation == expected.replace("\r", " ")


@given(st.binary(max_size=300))
def test_whatever_the_bytes_are_lines_are_counted_as_wc_does(data):
    found = translate(data, InputFormat(replaces_errors=True))
    assert found.count("\n") == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def test_only_a_line_feed_ends_a_line():
    text = "a\r\nb\u2028c\x85d\x0ce\rf\r\r\n\nlast"
    assert read(text.encode()) == ["a", "b\u2028c\x85d\x0ce\rf\r", "", "last"]


def test_a_byte_order_mark_is_no_text():
    assert read("\ufeffone\n\ufefftwo\n".encode()) == ["one", "\ufefftwo"]


def test_a_byte_that_is_no_utf8_is_named_and_what_comes_before_is_answered():
    target = io.BytesIO()
    with pytest.raises(MtkitError) as caught:
        translate_stream(bracket()[0], io.BytesIO(b"a\n\nGr\xfc\xdfe\nb\n"), target)
    assert caught.value.message == "input line 3: byte 3 (0xfc) is invalid UTF-8"
    assert caught.value.hint == (
        "convert the input, for example: iconv -f latin1 -t utf-8; or --errors replace"
    )
    assert target.getvalue() == b"[a]\n\n"


def test_or_is_replaced_with_a_warning(capsys):
    assert translate(b"a\nGr\xfc\xdfe\n", InputFormat(replaces_errors=True)) == "[a]\n[Gr��e]\n"
    assert capsys.readouterr().err == (
        "warning: input line 2: byte 3 (0xfc) is invalid UTF-8: replaced\n"
    )


def test_of_many_lines_with_replaced_bytes_the_first_are_named_and_the_others_counted(capsys):
    translate(b"\xff\n" * 5 + b"a\n" + b"\xfe\n" * 3, InputFormat(replaces_errors=True))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 6
    assert said[4] == "warning: input line 5: byte 1 (0xff) is invalid UTF-8: replaced"
    assert said[5] == "warning: 3 more lines: invalid UTF-8: replaced"


def test_what_was_warned_of_is_summed_up_before_a_fault_too(capsys):
    # 14 characters and </s>, in parts of at most 8.
    with pytest.raises(MtkitError, match="input line 8: byte 1"):
        translate(b"A b c. D e f.\n" * 7 + b"\xff", max_source_tokens=8)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 6
    assert said[4].startswith("warning: input line 5: 14 tokens")
    assert said[5] == "warning: 2 more lines: too long for the model"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"c\t" + b"x" * 8, "input line 3: the target prefix has 9 tokens, but "),
        (b"c\td\te", "input line 3: 2 tabs"),
    ],
)
def test_lines_before_one_at_fault_are_answered_once(line, message, capsys):
    translator, engine = bracket(max_source_tokens=8)
    engine.max_tokens = 8
    target = io.BytesIO()
    text = b"a\tx\nA b c. D e f.\n" + line + b"\nd\n"
    with pytest.raises(MtkitError) as caught:
        translate_stream(translator, io.BytesIO(text), target, input_format=InputFormat("tsv"))
    assert caught.value.message.startswith(message)
    assert target.getvalue() == b"x[a]\n[A b c.] [D e f.]\n"
    # Warned of once, though the window was begun twice.
    assert capsys.readouterr().err.count("input line 2: 14 tokens") == 1


def test_what_is_there_is_answered_at_once():
    """A pipe that stays open after three lines gets three answers."""
    ours, theirs = os.pipe()
    answers, answered = os.pipe()
    with os.fdopen(ours, "rb") as source, os.fdopen(answered, "wb") as target:
        worker = threading.Thread(
            target=translate_stream, args=(bracket()[0], source, target), daemon=True
        )
        worker.start()
        with os.fdopen(answers, "rb") as reader:
            for text in (b"a\n", b"b\nc\nunfini"):
                os.write(theirs, text)
                for line in text.decode().split("\n")[:-1]:
                    assert reader.readline() == f"[{line}]\n".encode()
            os.write(theirs, b"shed")
            os.close(theirs)
            assert reader.readline() == b"[unfinished]\n"
            worker.join(timeout=30)
            assert not worker.is_alive()


def test_a_file_is_answered_window_by_window():
    class FlushCounter(io.BytesIO):
        def __init__(self) -> None:
            super().__init__()
            self.lines_at_flush: list[int] = []

        def flush(self) -> None:
            self.lines_at_flush.append(self.getvalue().count(b"\n"))

    target = FlushCounter()
    translate_stream(bracket()[0], io.BytesIO(b"a\n" * 2_500), target)
    assert target.lines_at_flush == [1_024, 2_048, 2_500]


def test_tab_separated_targets_are_what_translations_begin_with():
    assert translate(b"a\tx\nb\nc\t\n\n", InputFormat("tsv")) == "x[a]\n[b]\n[c]\n\n"
    with pytest.raises(MtkitError, match="input line 2: 2 tabs"):
        translate(b"a\nb\tc\td\n", InputFormat("tsv"))


def test_json_lines_in_and_out():
    text = b'{"source": "a", "target": "x", "id": [7]}\n\n{"source": "b\\ud800"}\n'
    target = io.BytesIO()
    translator, _ = bracket(n_best=2)
    translate_stream(
        translator, io.BytesIO(text), target, input_format=InputFormat("jsonl"), as_json=True
    )
    first, blank, last = map(json.loads, target.getvalue().decode().splitlines())
    assert first["id"] == [7]
    assert first["text"] == first["n_best"][0]["text"] == "x[a]"
    assert (first["score"], first["log_probability"]) == (-1.0, -1.0)
    assert [token["piece"] for token in first["tokens"]] == ["x", "[", "a", "]", "</s>"]
    assert sum(token["log_probability"] for token in first["tokens"]) == pytest.approx(-1.0)
    assert (first["was_split"], first["reached_limit"]) == (False, False)
    assert first["n_best"][1]["text"] == "x{a}"
    assert first["n_best"][1]["reached_limit"] is True
    assert (blank["text"], blank["tokens"], blank["score"]) == ("", [], 0.0)
    assert last["text"] == "[b?]"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense", "input line 1: invalid JSON: "),
        (b"[" * 100_000, "input line 1: invalid JSON: "),
        (b'{"text": "a"}', 'input line 1: not a JSON object with a string "source"'),
        (b'{"source": 7}', 'input line 1: not a JSON object with a string "source"'),
        (b"7", 'input line 1: not a JSON object with a string "source"'),
        (b'{"source": "a", "target": 7}', 'input line 1: "target" is not a string'),
        (b'{"source": "a", "x": NaN}', "input line 1: invalid JSON: NaN is not a finite number"),
        (
            b'{"source": "a", "x": -Infinity}',
            "input line 1: invalid JSON: -Infinity is not a finite number",
        ),
        (
            b'{"source": "a", "x": [1e999]}',
            "input line 1: invalid JSON: 1e999 is not a finite number",
        ),
    ],
)
def test_json_that_is_something_else_is_refused(line, message):
    with pytest.raises(MtkitError) as caught:
        translate(line, InputFormat("jsonl"))
    assert caught.value.message.startswith(message)


def test_a_key_that_the_output_has_too_is_refused_where_one_would_be_lost():
    lines = b'{"source": "a", "id": 1.5}\n{"source": "b", "score": 7}\n'
    target = io.BytesIO()
    with pytest.raises(MtkitError) as caught:
        translate_stream(
            bracket()[0], io.BytesIO(lines), target, input_format=InputFormat("jsonl"), as_json=True
        )
    assert caught.value.message == (
        'input line 2: the key "score" is reserved: --json adds it to the output'
    )
    assert caught.value.hint == ("rename it, for example: jq -c '.my_score = .score | del(.score)'")
    [answered] = map(json.loads, target.getvalue().splitlines())
    assert (answered["text"], answered["id"]) == ("[a]", 1.5)
    # Where the output is text nothing is lost.
    assert translate(lines, InputFormat("jsonl")) == "[a]\n[b]\n"


def test_scores_of_given_translations():
    target = io.BytesIO()
    # The power penalty with alpha 0: plain sums. Sources and targets count their </s>.
    translator, _ = bracket(length_penalty={"kind": "power", "alpha": 0.0})
    text = b"abc\tde\n\n\t\nabc\t\n"
    count = score_stream(translator, io.BytesIO(text), target, input_format=InputFormat("tsv"))
    scores = target.getvalue().decode().split("\n")
    assert count == 4
    assert scores[1:3] == ["", ""]
    assert float(scores[0]) == pytest.approx(3 * -0.04)
    assert float(scores[3]) == pytest.approx(-0.04)


def test_a_line_without_a_translation_to_score_is_named():
    translator, _ = bracket(length_penalty={"kind": "power", "alpha": 0.0})
    target = io.BytesIO()
    with pytest.raises(MtkitError, match="input line 2: a source without a translation"):
        score_stream(translator, io.BytesIO(b"a\tb\nc\n"), target, input_format=InputFormat("tsv"))
    # Two tokens a side, each token a hundredth of the source's length.
    assert target.getvalue() == b"-0.04\n"
