"""The OpenAPI document, made from the models that check requests."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mtkit.serving.bodies import DetectBody, LinesBody, ScoreBody, TranslateBody
from mtkit.serving.office import Office
from mtkit.version import __version__

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_FORMS = ("application/json", "application/x-www-form-urlencoded")
_ERRORS = {
    400: "Invalid request",
    403: "Invalid API key, or switched off",
    404: "Not found",
    408: "The body did not arrive in time",
    413: "Request too large",
    429: "Too many requests; see Retry-After",
    500: "Translation error",
    503: "Too busy, or not loaded yet; see Retry-After",
    504: "No translation in time",
}


def describe_api(office: Office) -> dict[str, Any]:
    """Returns the OpenAPI document of a server, with the languages that it has.

    Args:
        office: The server's parts.
    """
    _, definitions = models_json_schema(
        [(body, "validation") for body in (TranslateBody, DetectBody, LinesBody, ScoreBody)],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = {**definitions["$defs"], **_ANSWERS}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mtkit",
            "version": __version__,
            "description": "Machine translation. /translate and its neighbours are "
            "LibreTranslate's API; /v1/ is mtkit's own. Languages: "
            + ", ".join(office.catalogue.list_languages()),
        },
        "paths": _describe_paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        **({"security": [{"key": []}]} if office.access.needs_key else {}),
    }


def _describe_paths() -> dict[str, Any]:
    return {
        "/translate": _post("Translate text", TranslateBody, "Translated", forms=_FORMS),
        "/detect": _post("Detect the language of text", DetectBody, "Detections", forms=_FORMS),
        "/translate_file": {"post": _describe_upload()},
        "/download_file/{filename}": {
            "get": {
                "summary": "Download a translated file",
                "parameters": [
                    {"name": "filename", "in": "path", "required": True, "schema": _TEXT}
                ],
                "responses": {
                    "200": {
                        "description": "The file",
                        "content": {"application/octet-stream": {"schema": _TEXT}},
                    },
                    **_errors(404),
                },
            }
        },
        "/suggest": {"post": {"summary": "Suggest a translation (off)", "responses": _errors(403)}},
        "/languages": _get("Languages, and what each is translated into", "Languages"),
        "/frontend/settings": _get("Limits, and what is on", "FrontendSettings"),
        "/health": _get("Whether the server runs", "Status"),
        "/ready": _get("Whether all models are loaded", "Status", 503),
        "/v1/translate": _post("Translate lines, with scores", LinesBody, "Translations"),
        "/v1/score": _post("Score given translations", ScoreBody, "Translations"),
        "/v1/models": _get("Models", "Models", 400, 403, 429),
        "/metrics": {
            "get": {
                "summary": "Metrics for Prometheus",
                "responses": {
                    "200": {"description": "Metrics", "content": {"text/plain": {"schema": _TEXT}}},
                    **_errors(400, 403, 429),
                },
            }
        },
    }


def _get(summary: str, schema: str, *errors: int) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {**_ok(schema), **_errors(*errors)}}}


def _post(
    summary: str,
    body: type[BaseModel],
    schema: str,
    *,
    forms: tuple[str, ...] = ("application/json",),
) -> dict[str, Any]:
    of_body = {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": dict.fromkeys(forms, of_body)},
            "responses": {**_ok(schema), **_errors(*(code for code in _ERRORS if code != 404))},
        }
    }


def _describe_upload() -> dict[str, Any]:
    fields = {
        "file": {"type": "string", "format": "binary"},
        "source": _TEXT,
        "target": _TEXT,
        "api_key": _TEXT,
    }
    schema = {"type": "object", "properties": fields, "required": ["file", "source", "target"]}
    return {
        "summary": "Translate a file",
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}},
        "responses": {
            **_ok("TranslatedFile"),
            **_errors(*(code for code in _ERRORS if code != 404)),
        },
    }


def _ok(schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"200": {"description": "Done", "content": content}}


def _errors(*codes: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {str(code): {"description": _ERRORS[code], "content": content} for code in codes}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_DETECTION = _object({"language": _TEXT, "confidence": {**_NUMBER, "minimum": 0, "maximum": 100}})
_LANGUAGE = _object({"code": _TEXT, "name": _TEXT})
_HYPOTHESIS = {
    "text": _TEXT,
    "score": _NUMBER,
    "log_probability": _NUMBER,
    "tokens": _list(_object({"piece": _TEXT, "log_probability": _NUMBER})),
    "reached_limit": {"type": "boolean"},
}
_REPORT = _object(
    {
        "summary": _TEXT,
        "translated": {"type": "integer"},
        "num_skipped": {"type": "integer"},
        "skipped": _list(
            _object(
                {"text": _TEXT, "reason": _TEXT},
                {"detail": _TEXT, "part": _TEXT, "line": {"type": "integer"}},
            )
        ),
    }
)
"""What became of a document's texts."""
_FLAG = _object({"name": _TEXT, "found": _NUMBER, "threshold": _NUMBER, "text": _TEXT})
_TERM = _object(
    {
        "span": _list({"type": "integer"}),
        "source": _TEXT,
        "target": _TEXT,
        "use": {"enum": ["used", "inflected", "missed", "avoided"]},
        "found": {"anyOf": [_TEXT, {"type": "null"}]},
        "forbidden": {"type": "boolean"},
    }
)
_TRANSLATION = _object(
    {
        **_HYPOTHESIS,
        "was_split": {"type": "boolean"},
        "n_best": _list(_object(_HYPOTHESIS)),
        "warnings": _list(_object({"kind": _TEXT, "text": _TEXT})),
    },
    {"flags": _list(_FLAG), "terms": _list(_TERM)},
)
_ANSWERS = {
    "Error": _object({"error": _TEXT}, {"line": {"type": "integer"}}),
    "Status": _object({"status": _TEXT}),
    "Translated": _object(
        {"translatedText": {"anyOf": [_TEXT, _list(_TEXT)]}},
        {
            "detectedLanguage": {"anyOf": [_DETECTION, _list(_DETECTION)]},
            "alternatives": {"anyOf": [_list(_TEXT), _list(_list(_TEXT))]},
            "pivot": _TEXT,
            "scores": _list({}),
            "flags": _list({}),
            "report": {"anyOf": [_REPORT, _list(_REPORT)]},
        },
    ),
    "Detections": _list(_DETECTION),
    "Languages": _list(_object({"code": _TEXT, "name": _TEXT, "targets": _list(_TEXT)})),
    "TranslatedFile": _object({"translatedFileUrl": _TEXT, "report": _REPORT}),
    "FrontendSettings": _object(
        {
            "charLimit": {"type": "integer"},
            "frontendTimeout": {"type": "integer"},
            "apiKeys": {"type": "boolean"},
            "keyRequired": {"type": "boolean"},
            "suggestions": {"type": "boolean"},
            "filesTranslation": {"type": "boolean"},
            "supportedFilesFormat": _list(_TEXT),
            "language": _object({"source": _LANGUAGE, "target": _LANGUAGE}),
        }
    ),
    "Translations": _object(
        {"model": _TEXT, "translations": _list(_TRANSLATION)},
        {"source": _TEXT, "target": _TEXT, "pivot": _TEXT, "detected": _DETECTION},
    ),
    "Models": _object(
        {
            "models": _list(
                _object(
                    {
                        "name": _TEXT,
                        "source": _TEXT,
                        "target": _TEXT,
                        "languages": _object({"source": _list(_TEXT), "target": _list(_TEXT)}),
                        "is_loaded": {"type": "boolean"},
                        "waiting_lines": {"type": "integer"},
                        "settings": {"type": "object"},
                    }
                )
            )
        }
    ),
}
