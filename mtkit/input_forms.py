"""The forms of input to translate: lines on stdin or of a file, and documents."""

from typing import Literal, get_args

PairForm = Literal["tsv", "jsonl"]
"""Lines with a source and its translation."""
LineForm = Literal["text", PairForm]
DocumentForm = Literal[
    "html",
    "xml",
    "markdown",
    "srt",
    "vtt",
    "po",
    "xliff",
    "tmx",
    "json",
    "yaml",
    "docx",
    "pptx",
    "odt",
]
InputForm = Literal["lines", LineForm, DocumentForm]
"""`lines` are those of a file, of any size; on stdin they are `text`."""

FILE_FORMS = ("lines", *get_args(PairForm))
"""A file with a line out for each line in."""
STDIN_FORMS = ("text", *FILE_FORMS)
LINE_FORMS: tuple[LineForm, ...] = get_args(LineForm)
