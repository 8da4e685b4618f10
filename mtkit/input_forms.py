"""The forms of input to translate: lines on stdin, and documents."""

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
InputForm = Literal[LineForm, DocumentForm]

LINE_FORMS: tuple[LineForm, ...] = get_args(LineForm)
DOCUMENT_FORMS: tuple[DocumentForm, ...] = get_args(DocumentForm)
