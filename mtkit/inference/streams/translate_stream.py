r"""A stream of lines to a stream of translations: the work of `mtkit translate`.

One `\r` before a line's end is dropped. A window is whatever lines are available, so that slow
input is answered as it arrives.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import BinaryIO

from mtkit.inference.request import Request
from mtkit.inference.streams.byte_lines import WarningPrinter, answer_windows, write_lines
from mtkit.inference.streams.input_format import (
    PLAIN_TEXT,
    InputFormat,
    as_json_line,
    read_requests,
)
from mtkit.inference.translation import BLANK, Translation
from mtkit.inference.translator import Translator


def translate_stream(
    translator: Translator,
    source: BinaryIO,
    target: BinaryIO,
    *,
    input_format: InputFormat = PLAIN_TEXT,
    as_json: bool = False,
    printer: WarningPrinter | None = None,
    first_line: int = 1,
) -> int:
    """Writes a line of UTF-8 into `target` for each in `source`; returns how many.

    A target in `source` is a prefix of its translation. `target` is flushed whenever all available
    lines are done. With `as_json` each line is an object with scores, n-best list and more.
    `printer` belongs to several streams, of which this one begins with `first_line`.

    Raises:
        LineError: A line can't be read or translated; those before it are in `target`.
    """
    answer = partial(translator.search, warns=False)
    input_format = _reserve(input_format, translator, as_json=as_json)
    render = _as_json if as_json else _as_text
    with printer or WarningPrinter() as warnings:
        windows = read_requests(source, input_format, warnings, first_line)
        return _write(target, answer_windows(windows, answer, warnings, first_line), render)


def score_stream(
    translator: Translator,
    source: BinaryIO,
    target: BinaryIO,
    *,
    input_format: InputFormat,
    as_json: bool = False,
    printer: WarningPrinter | None = None,
    first_line: int = 1,
) -> int:
    """Writes the score of each line's target into `target`; returns the number of lines.

    A line that is blank on both sides stays blank. Other arguments are as above.

    Raises:
        LineError: A line can't be read or scored, or has no target; those before it are in
            `target`.
    """
    input_format = replace(_reserve(input_format, translator, as_json=as_json), needs_target=True)
    render = _as_json if as_json else _as_score
    with printer or WarningPrinter() as warnings:
        windows = read_requests(source, input_format, warnings, first_line)
        return _write(
            target, answer_windows(windows, translator.score, warnings, first_line), render
        )


def _reserve(input_format: InputFormat, translator: Translator, *, as_json: bool) -> InputFormat:
    """Returns a format that reserves the keys of the output's objects."""
    settings = translator.settings
    asked = {
        "alignment": settings.alignments,
        "language_model_log_probability": settings.fusion,
        "utility": settings.rerank,
        "model_scores": settings.rerank,
        "terms": settings.glossary,
        "flags": settings.flags,
        "quality": settings.quality,
        "released": settings.quality,
        "protection": settings.protect,
        "sentences": settings.paragraphs,
    }
    keys = {*BLANK.as_json(""), *(key for key, value in asked.items() if value)}
    return replace(input_format, reserved_keys=keys) if as_json else input_format


def _write(
    target: BinaryIO,
    answered: Iterable[tuple[Sequence[Request], list[Translation]]],
    render: Callable[[Request, Translation], str],
) -> int:
    """Writes each line's answer into `target`, window by window; returns how many."""
    num_lines = 0
    for window, found in answered:
        rendered = "".join(
            render(line, translation) + "\n"
            for line, translation in zip(window, found, strict=True)
        )
        write_lines(target, rendered.encode(), num_before=num_lines)
        num_lines += len(found)
    return num_lines


def _as_text(line: Request, translation: Translation) -> str:
    # The text of a JSON object may have line breaks between sentences.
    return translation.text.replace("\n", " ").replace("\r", " ")


def _as_json(line: Request, translation: Translation) -> str:
    return as_json_line(line, translation.as_json(line.text))


def _as_score(line: Request, translation: Translation) -> str:
    is_blank = not (line.text.strip() or line.prefix.strip())
    return "" if is_blank else repr(translation.candidates[0].score)
