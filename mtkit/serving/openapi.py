"""The OpenAPI document, made from the models that check requests."""

from collections.abc import Mapping
from typing import Any, NotRequired

from pydantic import RootModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from typing_extensions import TypedDict

from mtkit.checks.flag import Flag
from mtkit.inference.translation import TranslationSchema
from mtkit.serving.bodies import DetectBody, LinesBody, ScoreBody, TranslateBody
from mtkit.serving.context import ServerContext
from mtkit.serving.detection import Detected
from mtkit.version import __version__

_BODIES: tuple[Any, ...] = (TranslateBody, DetectBody, LinesBody, ScoreBody)
Schema = Mapping[str, object]
"""A part of the document, in JSON's types."""
_TEXT: Schema = {"type": "string"}
_FORMS = ("application/json", "application/x-www-form-urlencoded")
_ERRORS = {
    400: "Invalid request",
    403: "Invalid API key, or disabled",
    404: "Not found",
    408: "The body did not arrive in time",
    413: "Request too large",
    429: "Too many requests; see Retry-After",
    500: "Translation error",
    503: "Too busy, or not loaded yet; see Retry-After",
    504: "No translation in time",
}


class Error(TypedDict):
    """An error response; `line` is the number of the invalid line, from 1."""

    error: str
    line: NotRequired[int]


class StatusSchema(TypedDict):
    """The server's state."""

    status: str


class SkippedTextSchema(TypedDict):
    """A text of a document that stays as it was."""

    text: str
    reason: str
    detail: NotRequired[str]
    part: NotRequired[str]
    line: NotRequired[int]
    name: NotRequired[str]


class DocumentReportSchema(TypedDict):
    """Counts of a document's translated and skipped texts."""

    summary: str
    translated: int
    num_skipped: int
    skipped: list[SkippedTextSchema]
    warnings: NotRequired[list[str]]


class Translated(TypedDict):
    """Response of /translate; lists where `q` is a list."""

    translatedText: str | list[str]
    detectedLanguage: NotRequired[Detected | list[Detected]]
    alternatives: NotRequired[list[str] | list[list[str]]]
    pivot: NotRequired[str]
    scores: NotRequired[list[float | None] | list[list[float | None]]]
    flags: NotRequired[list[list[Flag]] | list[list[list[Flag]]]]
    quality: NotRequired[list[float | None] | list[list[float | None]]]
    released: NotRequired[list[bool | None] | list[list[bool | None]]]
    models: NotRequired[list[str | None] | list[list[str | None]]]
    report: NotRequired[DocumentReportSchema | list[DocumentReportSchema]]


class Language(TypedDict):
    """A language."""

    code: str
    name: str


class LanguageTargets(Language):
    """A language, and those that it is translated into."""

    targets: list[str]


class LanguagesSchema(RootModel[list[LanguageTargets]]):
    """Response of /languages."""


class Detections(RootModel[list[Detected]]):
    """Response of /detect, the most probable language first."""


class TranslatedFile(TypedDict):
    """Response of /translate_file."""

    translatedFileUrl: str
    report: DocumentReportSchema


class LanguagePair(TypedDict):
    """The languages that the page begins with."""

    source: Language
    target: Language


class FrontendSettings(TypedDict):
    """Limits, and enabled features."""

    charLimit: int
    frontendTimeout: int
    apiKeys: bool
    keyRequired: bool
    suggestions: bool
    filesTranslation: bool
    supportedFilesFormat: list[str]
    language: LanguagePair


class Translations(TypedDict):
    """Response of /v1/translate and /v1/score."""

    model: str
    translations: list[TranslationSchema]
    source: NotRequired[str]
    target: NotRequired[str]
    pivot: NotRequired[str]
    detected: NotRequired[Detected]


class ModelLanguagesSchema(TypedDict):
    """The languages that a model reads and writes."""

    source: list[str]
    target: list[str]


class ModelSchema(TypedDict):
    """A model."""

    name: str
    source: str
    target: str
    languages: ModelLanguagesSchema
    is_loaded: bool
    waiting_lines: int
    settings: dict[str, object]


class Models(TypedDict):
    """Response of /v1/models."""

    models: list[ModelSchema]


RESPONSES: tuple[Any, ...] = (
    *(
        Error,
        StatusSchema,
        Translated,
        Detections,
        LanguagesSchema,
        TranslatedFile,
        FrontendSettings,
    ),
    *(Translations, Models),
)


def describe_api(context: ServerContext) -> Schema:
    """Returns the OpenAPI document of a server, with its languages."""
    adapters: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
        *((each, "validation", TypeAdapter(each)) for each in _BODIES),
        *((each, "serialization", TypeAdapter(each)) for each in RESPONSES),
    ]
    _, definitions = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mtkit",
            "version": __version__,
            "description": "Machine translation. /translate and similar routes are "
            "LibreTranslate's API; /v1/ is mtkit's own. Languages: "
            + ", ".join(context.catalogue.list_languages()),
        },
        "paths": _describe_paths(),
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        **({"security": [{"key": []}]} if context.access.needs_key else {}),
    }


def _describe_paths() -> Schema:
    file = {"type": "string", "format": "binary"}
    fields = {"file": file, **dict.fromkeys(("source", "target", "api_key"), _TEXT)}
    upload = {"type": "object", "properties": fields, "required": ["file", "source", "target"]}
    name = {"name": "filename", "in": "path", "required": True, "schema": _TEXT}
    stored = _response("The file", _TEXT, "application/octet-stream")
    metrics = _response("Metrics", _TEXT, "text/plain")
    return {
        "/translate": _post("Translate text", _refer("TranslateBody"), "Translated", _FORMS),
        "/detect": _post("Detect the language of text", _refer("DetectBody"), "Detections", _FORMS),
        "/translate_file": _post(
            "Translate a file", upload, "TranslatedFile", ("multipart/form-data",)
        ),
        "/download_file/{filename}": _get(
            "Download a translated file", stored, 404, parameters=[name]
        ),
        "/suggest": {
            "post": {"summary": "Suggest a translation; disabled", "responses": _respond(None, 403)}
        },
        "/languages": _get("Languages, and what each is translated into", "LanguagesSchema"),
        "/frontend/settings": _get("Limits and enabled features", "FrontendSettings"),
        "/health": _get("Whether the server runs", "StatusSchema"),
        "/ready": _get("Whether all models are loaded", "StatusSchema", 503),
        "/v1/translate": _post("Translate lines, with scores", _refer("LinesBody"), "Translations"),
        "/v1/score": _post("Score given translations", _refer("ScoreBody"), "Translations"),
        "/v1/models": _get("Models", "Models", 400, 403, 429),
        "/metrics": _get("Metrics for Prometheus", metrics, 400, 403, 429),
    }


def _get(summary: str, answer: str | Schema, *errors: int, **more: object) -> Schema:
    return {"get": {"summary": summary, **more, "responses": _respond(answer, *errors)}}


def _post(summary: str, body: Schema, answer: str, forms: tuple[str, ...] = _FORMS[:1]) -> Schema:
    needed = {"required": True, "content": {form: {"schema": body} for form in forms}}
    answers = _respond(answer, *(code for code in _ERRORS if code != 404))
    return {"post": {"summary": summary, "requestBody": needed, "responses": answers}}


def _respond(answer: str | Schema | None, *errors: int) -> Schema:
    """Returns an operation's responses: its result, by schema name or in full, and its errors."""
    if isinstance(answer, str):
        answer = _response("Done", _refer(answer))
    found = {"200": answer} if answer else {}
    return {**found, **{str(code): _response(_ERRORS[code], _refer("Error")) for code in errors}}


def _response(description: str, schema: Schema, kind: str = "application/json") -> Schema:
    return {"description": description, "content": {kind: {"schema": schema}}}


def _refer(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
