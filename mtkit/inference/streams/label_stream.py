"""A stream of lines to a stream of labels: the work of `mtkit translate` with a classifier."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import BinaryIO

from mtkit.inference.classify import LabelledLine, LineClassifier
from mtkit.inference.request import LineError, Request
from mtkit.inference.streams.byte_lines import WarningPrinter, write_lines
from mtkit.inference.streams.input_format import InputFormat, as_json_line, read_requests

_KEYS = ("label", "probabilities")
_BLANK: dict[str, object] = {"label": None, "probabilities": {}}


def label_stream(
    classifier: LineClassifier,
    source: BinaryIO,
    target: BinaryIO,
    *,
    input_format: InputFormat,
    as_json: bool = False,
) -> int:
    """Writes a label into `target` for each line in `source`; returns how many.

    A blank line's label is blank; as JSON it is null. JSON also has the probabilities of all
    labels. `target` is flushed whenever all available lines are done.

    Raises:
        LineError: A line can't be read, or isn't a pair or single text as the model needs; labels
            of the lines before it are in `target`.
    """
    if as_json:
        input_format = replace(input_format, reserved_keys=_KEYS)
    num_lines = 0
    with WarningPrinter() as printer:
        for window in read_requests(source, input_format, printer):
            usable = list(takewhile(lambda line: _suits(classifier, line), window))
            found = _label(classifier, usable)
            render = _as_json if as_json else _as_text
            lines = (render(line, one) + "\n" for line, one in zip(usable, found, strict=True))
            write_lines(target, "".join(lines).encode(), num_before=num_lines)
            num_lines += len(usable)
            if len(usable) < len(window):
                raise _misfit(classifier, num_lines + 1)
    return num_lines


def _suits(classifier: LineClassifier, line: Request) -> bool:
    """Checks whether the classifier can label a line."""
    has_text, has_second = bool(line.text.strip()), bool(line.prefix.strip())
    return has_text == has_second if classifier.has_pairs else not has_second


def _misfit(classifier: LineClassifier, number: int) -> LineError:
    if classifier.has_pairs:
        return LineError(
            number,
            "one text, but this model labels pairs of texts",
            "put a tab between the two; with --input jsonl they are source and target",
        )
    return LineError(
        number,
        "two texts, but this model labels single ones",
        "give one, for example: cut -f1",
    )


def _label(classifier: LineClassifier, lines: Sequence[Request]) -> list[LabelledLine | None]:
    """Returns the label of each line; None for a blank one."""
    rows = [row for row, line in enumerate(lines) if line.text.strip() or line.prefix.strip()]
    seconds = [lines[row].prefix for row in rows] if classifier.has_pairs else None
    labelled = classifier.classify([lines[row].text for row in rows], seconds)
    found: list[LabelledLine | None] = [None] * len(lines)
    for row, one in zip(rows, labelled, strict=True):
        found[row] = one
    return found


def _as_text(line: Request, found: LabelledLine | None) -> str:
    del line
    return "" if found is None else found.label


def _as_json(line: Request, found: LabelledLine | None) -> str:
    return as_json_line(line, _BLANK if found is None else found.as_json())
