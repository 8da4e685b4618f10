"""Parses lines of bytes as requests."""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from mtkit.inference.request import LineError, LineWarning, Request
from mtkit.inference.streams.byte_lines import WarningPrinter, read_byte_lines
from mtkit.input_forms import LineForm

_BYTE_ORDER_MARK = "\ufeff"
_Parsed = tuple[str, str | None, dict[str, object] | None]
"""A source, its target if there is one, and the other keys of a JSON object."""


@dataclass(frozen=True)
class InputFormat:
    """How lines are read.

    Attributes:
        form: `text`: a source. `tsv`: a source, a tab, and an optional target. `jsonl`: an object
            with `source`, and optionally `target`, `source_language` and `target_language`; the
            languages and all other keys are passed on to JSON output.
        replaces_errors: Invalid UTF-8 becomes U+FFFD, with a warning, instead of an error.
        needs_target: A line with a source must have a target.
        reserved_keys: Keys of the output, which no input object may have.
    """

    form: LineForm = "text"
    replaces_errors: bool = False
    needs_target: bool = False
    reserved_keys: Collection[str] = ()


PLAIN_TEXT = InputFormat()


def read_requests(
    source: BinaryIO, input_format: InputFormat, printer: WarningPrinter, first_line: int = 1
) -> Iterator[list[Request]]:
    """Yields the available lines, some at a time; never waits while it holds some.

    Raises:
        LineError: A line is invalid UTF-8, malformed or too long. The lines before it have been
            yielded.
    """
    for byte_lines in read_byte_lines(source, first_line):
        window: list[Request] = []
        try:
            for line, byte_line in enumerate(byte_lines, first_line):
                text = _decode(byte_line, line, input_format, printer)
                window.append(_parse(text, line, input_format))
        except LineError:
            # The lines before the error are answered first.
            if window:
                yield window
            raise
        first_line += len(window)
        yield window


def _decode(byte_line: bytes, line: int, input_format: InputFormat, printer: WarningPrinter) -> str:
    byte_line = byte_line.removesuffix(b"\r")
    try:
        text = byte_line.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"byte {error.start + 1} (0x{byte_line[error.start]:02x}) is invalid UTF-8"
        if not input_format.replaces_errors:
            raise LineError(
                line,
                fault,
                "convert the input, for example: iconv -f latin1 -t utf-8; or --errors replace",
            ) from error
        kind = "invalid UTF-8: replaced"
        printer.print([LineWarning(kind, f"{fault}: replaced", line)])
        text = byte_line.decode("utf-8", errors="replace")
    return text.removeprefix(_BYTE_ORDER_MARK) if line == 1 else text


def _parse(text: str, line: int, input_format: InputFormat) -> Request:
    match input_format.form:
        case "text":
            source, target, extra = text, None, None
        case "tsv":
            source, target, extra = _parse_tsv(text, line)
        case "jsonl":
            source, target, extra = _parse_json(text, line)
    for key in extra or ():
        if key in input_format.reserved_keys:
            raise LineError(
                line,
                f'the key "{key}" is reserved: --json adds it to the output',
                f"rename it, for example: jq -c '.my_{key} = .{key} | del(.{key})'",
            )
    if input_format.needs_target and target is None and source.strip():
        raise LineError(
            line,
            "a source without a translation",
            "put a tab between source and translation, or use --input jsonl with objects that "
            'have "source" and "target"',
        )
    return Request(
        source,
        target or "",
        source_language=_read_language(extra, "source_language", line),
        target_language=_read_language(extra, "target_language", line),
        extra=extra,
    )


def _read_language(extra: dict[str, object] | None, key: str, line: int) -> str:
    """Returns the language in a JSON object; empty if it has none."""
    found = (extra or {}).get(key)
    if found is not None and not isinstance(found, str):
        raise LineError(line, f'"{key}" is not a string', "put it in quotes")
    return found or ""


def _parse_tsv(text: str, line: int) -> _Parsed:
    source, *targets = text.split("\t")
    if len(targets) > 1:
        raise LineError(
            line,
            f"{len(targets)} tabs; expected one, between source and target",
            "remove the other columns, for example: cut -f1,2",
        )
    return source, targets[0] if targets else None, None


def _parse_json(text: str, line: int) -> _Parsed:
    if not text.strip():
        return "", None, None
    try:
        content = json.loads(text, parse_constant=_refuse_number, parse_float=_parse_float)
    except (ValueError, RecursionError) as error:
        raise LineError(line, f"invalid JSON: {error}", 'expected {"source": "..."}') from error
    if not isinstance(content, dict) or not isinstance(content.get("source"), str):
        raise LineError(
            line, 'not a JSON object with a string "source"', 'expected {"source": "..."}'
        )
    target = content.get("target")
    if target is not None and not isinstance(target, str):
        raise LineError(line, '"target" is not a string', "put it in quotes")
    extra = {key: value for key, value in content.items() if key not in ("source", "target")}
    return (
        replace_surrogates(content["source"]),
        None if target is None else replace_surrogates(target),
        extra,
    )


def _parse_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")


def as_json_line(line: Request, answer: Mapping[str, Any]) -> str:
    """Returns a line's other keys and its answer as JSON."""
    content = {**(line.extra or {}), **answer}
    return replace_surrogates(json.dumps(content, ensure_ascii=False, allow_nan=False))


def replace_surrogates(text: str) -> str:
    r"""Returns text without surrogates, which JSON can write as `\ud800`."""
    return text.encode("utf-8", errors="replace").decode("utf-8")
