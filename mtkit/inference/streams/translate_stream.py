r"""A stream of lines to a stream of translations: the work of `mtkit translate`.

One `\r` before a line's end is dropped. What comes slowly is answered as it comes: a window of
lines is whatever is there.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import BinaryIO

from mtkit.inference.request import Request
from mtkit.inference.streams.byte_lines import Answer, WarningPrinter, answer_windows, write_lines
from mtkit.inference.streams.input_format import (
    PLAIN_TEXT,
    InputFormat,
    read_requests,
    replace_surrogates,
)
from mtkit.inference.translate import Translator
from mtkit.inference.translation import BLANK, Translation


def translate_stream(
    translator: Translator,
    source: BinaryIO,
    target: BinaryIO,
    *,
    input_format: InputFormat = PLAIN_TEXT,
    as_json: bool = False,
) -> int:
    """Writes a line of UTF-8 into `target` for each in `source`; returns how many.

    Args:
        translator: What translates.
        source: Lines; a target in them is what their translation begins with.
        target: Where translations go; flushed whenever all lines that were there are done.
        input_format: How lines are read.
        as_json: Whether each is an object with scores, n-best list and more.

    Raises:
        LineError: A line can't be read or translated; those before it are in `target`.
        MtkitError: The engine can't do what the settings say; `target` takes no more.
    """

    def answer(window: Sequence[Request], first_line: int) -> list[Translation]:
        return translator.search(window, first_line=first_line, warns=False)

    return _pass_through(
        source, target, input_format, answer, _as_text, as_json=as_json, keys=_list_keys(translator)
    )


def score_stream(
    translator: Translator,
    source: BinaryIO,
    target: BinaryIO,
    *,
    input_format: InputFormat,
    as_json: bool = False,
) -> int:
    """Writes the score of each line's target into `target`; returns how many lines there were.

    A line that is blank on both sides stays blank. Arguments as above; lines without a target are
    refused.

    Raises:
        LineError: A line can't be read or scored, or has no target; those before it are in
            `target`.
        MtkitError: `target` takes no more.
    """

    def answer(window: Sequence[Request], first_line: int) -> list[Translation]:
        return translator.score(window, first_line=first_line)

    with_target = replace(input_format, needs_target=True)
    return _pass_through(
        source, target, with_target, answer, _as_score, as_json=as_json, keys=_list_keys(translator)
    )


def _list_keys(translator: Translator) -> set[str]:
    """Returns the keys of an answer's object, which a line's own can't have."""
    settings = translator.settings
    asked = {
        "alignment": settings.alignments,
        "terms": settings.glossary,
        "flags": settings.flags,
        "protection": settings.protect,
        "sentences": settings.paragraphs,
    }
    return {*BLANK.as_json(""), *(key for key, value in asked.items() if value)}


def _pass_through(
    source: BinaryIO,
    target: BinaryIO,
    input_format: InputFormat,
    answer: Answer[Request],
    render: Callable[[Request, Translation], str],
    *,
    as_json: bool,
    keys: Collection[str],
) -> int:
    """Writes each line's answer into `target`, window by window; returns how many."""
    if as_json:
        render = _as_json
        input_format = replace(input_format, reserved_keys=keys)
    num_lines = 0
    with WarningPrinter() as printer:
        windows = read_requests(source, input_format, printer)
        for window, found in answer_windows(windows, answer, printer):
            rendered = "".join(
                render(line, translation) + "\n"
                for line, translation in zip(window, found, strict=True)
            )
            write_lines(target, rendered.encode(), num_before=num_lines)
            num_lines += len(found)
    return num_lines


def _as_text(line: Request, translation: Translation) -> str:
    # Between sentences of a JSON object's text there may be line breaks.
    return translation.text.replace("\n", " ").replace("\r", " ")


def _as_json(line: Request, translation: Translation) -> str:
    content = {**(line.extra or {}), **translation.as_json(line.text)}
    return replace_surrogates(json.dumps(content, ensure_ascii=False, allow_nan=False))


def _as_score(line: Request, translation: Translation) -> str:
    is_blank = not (line.text.strip() or line.prefix.strip())
    return "" if is_blank else repr(translation.candidates[0].score)
