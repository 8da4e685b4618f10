r"""Lines out of a stream and into one: what `mtkit translate` does with stdin and stdout.

Only `\n` ends a line, and one `\r` before it is dropped; what follows the last `\n`, if anything,
is a line too. What comes slowly is answered as it comes: a window of lines is whatever is there.
"""

import json
import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import UnsupportedOperation
from typing import Any, BinaryIO, Literal

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.inference.translate import WINDOW_LINES, Translator
from mtkit.inference.translation import Request, Translation

Form = Literal["text", "tsv", "jsonl"]
_BYTE_ORDER_MARK = "\ufeff"
_READ_BYTES = 1 << 16
_WINDOW_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 1 << 26


@dataclass(frozen=True)
class Reading:
    """How lines are read.

    Attributes:
        form: `text`: a source. `tsv`: a source, a tab, and a target, which may be missing. `jsonl`:
            an object with `source` and perhaps `target`; what else it holds is passed on.
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
        MtkitError: A line can't be read, or the model is broken.
    """
    num_lines = 0
    for window in read_windows(source, reading):
        requests = [Request(line.source, line.target or "") for line in window]
        found = translator.search(requests, first_line=num_lines + 1)
        _write(target, window, found, as_json=as_json)
        num_lines += len(window)
    translator.end_stream()
    return num_lines


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
        MtkitError: A line can't be read or has no target, or the model is broken.
    """
    num_lines = 0
    for window in read_windows(source, reading):
        for place, line in enumerate(window):
            if line.target is None and line.source.strip():
                raise MtkitError(
                    f"input line {num_lines + place + 1}: a source, but no translation to score",
                    "a tab between source and translation, or --input jsonl with objects that have "
                    '"source" and "target"',
                )
        pairs = [(line.source, line.target or "") for line in window]
        found = translator.score(pairs, first_line=num_lines + 1)
        if as_json:
            _write(target, window, found, as_json=True)
        else:
            for (text, translation), scored in zip(pairs, found, strict=True):
                is_blank = not (text.strip() or translation.strip())
                target.write(b"\n" if is_blank else b"%r\n" % scored.candidates[0].score)
            target.flush()
        num_lines += len(window)
    return num_lines


def read_windows(source: BinaryIO, reading: Reading) -> Iterator[list[InputLine]]:
    """Yields the lines that are there, some at a time, and never waits while it holds some.

    Raises:
        MtkitError: A line isn't UTF-8, or isn't of the form; it has no end.
    """
    num_lines = 0
    for raw_window in _read_raw_windows(source):
        window: list[InputLine] = []
        try:
            for raw_line in raw_window:
                number = num_lines + len(window) + 1
                line = _decode(raw_line, number, reading)
                window.append(_parse(line, number, reading.form))
        except MtkitError:
            # What comes before the fault is answered first.
            if window:
                yield window
            raise
        num_lines += len(window)
        yield window


def _read_raw_windows(source: BinaryIO) -> Iterator[list[bytes]]:
    window: list[bytes] = []
    window_bytes = 0
    pieces: list[bytes] = []
    while chunk := _read_some(source):
        if b"\n" not in chunk:
            pieces.append(chunk)
            if sum(map(len, pieces)) > _LONGEST_LINE_BYTES:
                raise MtkitError(
                    f"a line of more than {_LONGEST_LINE_BYTES >> 20} MiB: the input has no ends "
                    "of lines",
                    "is it text, one sentence a line?",
                )
            continue
        *lines, rest = b"".join((*pieces, chunk)).split(b"\n")
        pieces = [rest] if rest else []
        for line in lines:
            window.append(line)
            window_bytes += len(line)
            if len(window) == WINDOW_LINES or window_bytes > _WINDOW_BYTES:
                yield window
                window, window_bytes = [], 0
        if window and not _has_more(source):
            yield window
            window, window_bytes = [], 0
    if pieces:
        window.append(b"".join(pieces))
    if window:
        yield window


def _read_some(source: BinaryIO) -> bytes:
    """Returns what is there, having waited for something; nothing at the end."""
    read = getattr(source, "read1", source.read)
    some: bytes = read(_READ_BYTES)
    return some


def _has_more(source: BinaryIO) -> bool:
    """Returns whether a read would return at once; a file's and a string's does."""
    try:
        descriptor = source.fileno()
    except (AttributeError, UnsupportedOperation):
        return True
    try:
        return bool(select.select([descriptor], [], [], 0.0)[0])
    except (OSError, ValueError):
        # Windows has it for sockets alone: answer at once rather than wait.
        return False


def _decode(line: bytes, number: int, reading: Reading) -> str:
    line = line.removesuffix(b"\r")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = (
            f"input line {number}: byte {error.start + 1} (0x{line[error.start]:02x}) is no UTF-8"
        )
        if not reading.replaces_errors:
            raise MtkitError(
                fault,
                "convert the input, for example: iconv -f latin1 -t utf-8; or --errors replace",
            ) from error
        warn(f"{fault}: replaced")
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
        raise MtkitError(
            f"input line {number}: {len(targets)} tabs, where one separates source and target",
            "take out the other columns, for example: cut -f1,2",
        )
    return InputLine(source, targets[0] if targets else None, {})


def _parse_json(line: str, number: int) -> InputLine:
    if not line.strip():
        return InputLine("", None, {})
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MtkitError(
            f"input line {number}: no JSON: {error}", 'expected {"source": "..."}'
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("source"), str):
        raise MtkitError(
            f'input line {number}: no object with a "source" that is a string',
            'expected {"source": "..."}',
        )
    target = content.get("target")
    if target is not None and not isinstance(target, str):
        raise MtkitError(f'input line {number}: "target" is no string', "put it in quotes")
    others = {key: value for key, value in content.items() if key not in ("source", "target")}
    return InputLine(
        _without_surrogates(content["source"]),
        None if target is None else _without_surrogates(target),
        others,
    )


def _without_surrogates(text: str) -> str:
    r"""Returns text without halves of characters, which JSON can write as `\ud800`."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _write(
    target: BinaryIO,
    window: Sequence[InputLine],
    found: Sequence[Translation],
    *,
    as_json: bool,
) -> None:
    for line, translation in zip(window, found, strict=True):
        if as_json:
            content = {**line.others, **translation.as_json()}
            target.write(
                _without_surrogates(json.dumps(content, ensure_ascii=False)).encode() + b"\n"
            )
        else:
            target.write(translation.text.encode() + b"\n")
    target.flush()
