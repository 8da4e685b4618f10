"""Schemas of the server's answers, for its OpenAPI document."""

from typing import Any, NotRequired

from pydantic import RootModel
from typing_extensions import TypedDict

from mtkit.checks.flag import Flag
from mtkit.inference.translation import TranslationSchema
from mtkit.serving.detection import Detected


class Error(TypedDict):
    """Why there is no other answer; `line` is the one at fault, the first being 1."""

    error: str
    line: NotRequired[int]


class Status(TypedDict):
    """The server's state."""

    status: str


class SkippedText(TypedDict):
    """A text of a document that stays as it was."""

    text: str
    reason: str
    detail: NotRequired[str]
    part: NotRequired[str]
    line: NotRequired[int]


class Report(TypedDict):
    """What became of a document's texts."""

    summary: str
    translated: int
    num_skipped: int
    skipped: list[SkippedText]


class Translated(TypedDict):
    """Answer of /translate; lists where `q` is a list."""

    translatedText: str | list[str]
    detectedLanguage: NotRequired[Detected | list[Detected]]
    alternatives: NotRequired[list[str] | list[list[str]]]
    pivot: NotRequired[str]
    scores: NotRequired[list[float | None] | list[list[float | None]]]
    flags: NotRequired[list[list[Flag]] | list[list[list[Flag]]]]
    report: NotRequired[Report | list[Report]]


class Language(TypedDict):
    """A language."""

    code: str
    name: str


class LanguageTargets(Language):
    """A language, and those that it is translated into."""

    targets: list[str]


class Languages(RootModel[list[LanguageTargets]]):
    """Answer of /languages."""


class Detections(RootModel[list[Detected]]):
    """Answer of /detect, the likeliest language first."""


class TranslatedFile(TypedDict):
    """Answer of /translate_file."""

    translatedFileUrl: str
    report: Report


class LanguagePair(TypedDict):
    """The languages that the page begins with."""

    source: Language
    target: Language


class FrontendSettings(TypedDict):
    """Limits, and what is on."""

    charLimit: int
    frontendTimeout: int
    apiKeys: bool
    keyRequired: bool
    suggestions: bool
    filesTranslation: bool
    supportedFilesFormat: list[str]
    language: LanguagePair


class Translations(TypedDict):
    """Answer of /v1/translate and /v1/score."""

    model: str
    translations: list[TranslationSchema]
    source: NotRequired[str]
    target: NotRequired[str]
    pivot: NotRequired[str]
    detected: NotRequired[Detected]


class ModelLanguages(TypedDict):
    """The languages that a model reads and writes."""

    source: list[str]
    target: list[str]


class Model(TypedDict):
    """A model."""

    name: str
    source: str
    target: str
    languages: ModelLanguages
    is_loaded: bool
    waiting_lines: int
    settings: dict[str, Any]


class Models(TypedDict):
    """Answer of /v1/models."""

    models: list[Model]


ANSWERS: tuple[Any, ...] = (
    *(Error, Status, Translated, Detections, Languages, TranslatedFile, FrontendSettings),
    *(Translations, Models),
)
