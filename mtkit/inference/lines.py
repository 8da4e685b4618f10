r"""Lines out of a stream and into one: what `mtkit translate` does with stdin and stdout.

One `\r` before a line's end is dropped. What comes slowly is answered as it comes: a window of
lines is whatever is there.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from mtkit.inference.byte_lines import read_byte_lines
from mtkit.inference.notices import LineError, Notices
from mtkit.inference.output import write_lines
from mtkit.inference.translate import Translator
from mtkit.inference.translation import BLANK, Request, Translation
from mtkit.inference.windows import Answer, answer_windows

Form = Literal["text", "tsv", "jsonl"]
_BYTE_ORDER_MARK = "\ufeff"
_OUTPUT_KEYS = BLANK.as_json().keys()


@dataclass(frozen=True)
class Reading:
    """How lines are read.

    Attributes:
        form: `text`: a source. `tsv`: a source, a tab, and a target, which may be missing. `jsonl`:
            an object with `source` and perhaps `target`; what else it holds is passed on where
            output is JSON too.
        replaces_errors: Bytes that are no UTF-8 become U+FFFD, with a warning, in place of an
            error.
    """

    form: Form = "text"
    replaces_errors: bool = False


@dataclass(frozen=True)
class InputLine:
    """A line that was read.

    Attributes:
        source: What is to be translated.
        target: The beginning of its translation, or all of it; None where there is none.
        others: What else a JSON object held.
    """

    source: str
    target: str | None
    others: dict[str, Any]


def translate_stream(
    translator: Translator,
    source: BinaryIO,
    target: BinaryIO,
    *,
    reading: Reading = Reading(),
    as_json: bool = False,
) -> int:
    """Leaves a line of UTF-8 in `target` for each in `source`; returns how many.

    Args:
        translator: What translates.
        source: Lines; a target in them is what their translation begins with.
        target: Where translations go; flushed whenever all lines that were there are done.
        reading: How lines are read.
        as_json: Whether each is an object with scores, n-best list and more.

    Raises:
        LineError: A line can't be read or translated; those before it are in `target`.
        MtkitError: The engine can't do what the settings say; `target` takes no more.
    """
    with Notices() as notices:

        def answer(window: Sequence[InputLine], /, *, first_line: int) -> list[Translation]:
            if as_json:
                _check_keys(window, first_line)
            requests = [Request(line.source, line.target or "") for line in window]
            return translator.search(requests, first_line=first_line, notices=notices)

        windows = read_windows(source, reading, notices)
        return _pass_through(windows, target, answer, _as_json if as_json else _as_text)


def score_stream(
    translator: Translator,
    source: BinaryIO,
    target: BinaryIO,
    *,
    reading: Reading,
    as_json: bool = False,
) -> int:
    """Leaves the score of each line's target in `target`; returns how many lines there were.

    A line that is blank on both sides stays blank. Arguments as above; lines without a target are
    refused.

    Raises:
        LineError: A line can't be read or scored, or has no target; those before it are in
            `target`.
        MtkitError: `target` takes no more.
    """
    with Notices() as notices:

        def answer(window: Sequence[InputLine], /, *, first_line: int) -> list[Translation]:
            if as_json:
                _check_keys(window, first_line)
            _check_targets(window, first_line)
            pairs = [(line.source, line.target or "") for line in window]
            return translator.score(pairs, first_line=first_line)

        windows = read_windows(source, reading, notices)
        return _pass_through(windows, target, answer, _as_json if as_json else _as_score)


def _pass_through(
    windows: Iterator[list[InputLine]],
    target: BinaryIO,
    answer: Answer[InputLine],
    render: Callable[[InputLine, Translation], str],
) -> int:
    """Leaves each line's answer in `target`, window by window; returns how many."""
    num_lines = 0
    for window, found in answer_windows(windows, answer):
        rendered = "".join(
            render(line, translation) + "\n"
            for line, translation in zip(window, found, strict=True)
        )
        write_lines(target, rendered.encode(), num_before=num_lines)
        num_lines += len(found)
    return num_lines


def read_windows(source: BinaryIO, reading: Reading, notices: Notices) -> Iterator[list[InputLine]]:
    """Yields the lines that are there, some at a time, and never waits while it holds some.

    Raises:
        LineError: A line isn't UTF-8, or isn't of the form; it has no end. The lines before it have
            been yielded.
    """
    num_lines = 0
    for byte_lines in read_byte_lines(source):
        window: list[InputLine] = []
        try:
            for number, byte_line in enumerate(byte_lines, num_lines + 1):
                line = _decode(byte_line, number, reading, notices)
                window.append(_parse(line, number, reading.form))
        except LineError:
            # What comes before the fault is answered first.
            if window:
                yield window
            raise
        num_lines += len(window)
        yield window


def _decode(line: bytes, number: int, reading: Reading, notices: Notices) -> str:
    line = line.removesuffix(b"\r")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"byte {error.start + 1} (0x{line[error.start]:02x}) is no UTF-8"
        if not reading.replaces_errors:
            raise LineError(
                number,
                fault,
                "convert the input, for example: iconv -f latin1 -t utf-8; or --errors replace",
            ) from error
        notices.tell("bytes that are no UTF-8: replaced", f"input line {number}: {fault}: replaced")
        text = line.decode("utf-8", errors="replace")
    return text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text


def _parse(line: str, number: int, form: Form) -> InputLine:
    match form:
        case "text":
            return InputLine(line, None, {})
        case "tsv":
            return _parse_tsv(line, number)
        case "jsonl":
            return _parse_json(line, number)


def _parse_tsv(line: str, number: int) -> InputLine:
    source, *targets = line.split("\t")
    if len(targets) > 1:
        raise LineError(
            number,
            f"{len(targets)} tabs, where one separates source and target",
            "take out the other columns, for example: cut -f1,2",
        )
    return InputLine(source, targets[0] if targets else None, {})


def _parse_json(line: str, number: int) -> InputLine:
    if not line.strip():
        return InputLine("", None, {})
    try:
        content = json.loads(line, parse_constant=_refuse_number, parse_float=_parse_float)
    except (ValueError, RecursionError) as error:
        raise LineError(number, f"no JSON: {error}", 'expected {"source": "..."}') from error
    if not isinstance(content, dict) or not isinstance(content.get("source"), str):
        raise LineError(
            number, 'no object with a "source" that is a string', 'expected {"source": "..."}'
        )
    target = content.get("target")
    if target is not None and not isinstance(target, str):
        raise LineError(number, '"target" is no string', "put it in quotes")
    others = {key: value for key, value in content.items() if key not in ("source", "target")}
    return InputLine(
        _without_surrogates(content["source"]),
        None if target is None else _without_surrogates(target),
        others,
    )


def _parse_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is a number that JSON can't pass on")


def _check_keys(window: Sequence[InputLine], first_line: int) -> None:
    """Checks that no line has a key of its own that the output has too."""
    for number, line in enumerate(window, first_line):
        for key in line.others:
            if key in _OUTPUT_KEYS:
                raise LineError(
                    number,
                    f'its key "{key}" is one of those that --json adds: one of them would be lost',
                    f"name it otherwise, for example: jq -c '.my_{key} = .{key} | del(.{key})'",
                )


def _check_targets(window: Sequence[InputLine], first_line: int) -> None:
    for number, line in enumerate(window, first_line):
        if line.target is None and line.source.strip():
            raise LineError(
                number,
                "a source, but no translation to score",
                "a tab between source and translation, or --input jsonl with objects that have "
                '"source" and "target"',
            )


def _as_text(line: InputLine, translation: Translation) -> str:
    return translation.text


def _as_json(line: InputLine, translation: Translation) -> str:
    content = {**line.others, **translation.as_json()}
    return _without_surrogates(json.dumps(content, ensure_ascii=False, allow_nan=False))


def _as_score(line: InputLine, translation: Translation) -> str:
    is_blank = not (line.source.strip() or (line.target or "").strip())
    return "" if is_blank else repr(translation.candidates[0].score)


def _without_surrogates(text: str) -> str:
    r"""Returns text without halves of characters, which JSON can write as `\ud800`."""
    return text.encode("utf-8", errors="replace").decode("utf-8")
