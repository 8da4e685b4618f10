"""LibreTranslate's API: routes, answers and errors as in its OpenAPI document."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from mtkit.documents.translate_file import EXTENSIONS
from mtkit.inference.translation import Translation
from mtkit.serving.access import Caller, check_lengths
from mtkit.serving.bodies import DetectBody, TranslateBody, UploadForm
from mtkit.serving.context import ServerContext
from mtkit.serving.detection import SAMPLE_CHARACTERS
from mtkit.serving.rendering import JsonChunks, to_chunks
from mtkit.serving.request_errors import RequestError
from mtkit.text.letters import name_language

_MAX_SKIPPED = 100
"""Skipped texts of a document that an answer lists."""


def list_libretranslate_routes(context: ServerContext) -> list[Route]:
    """Returns the routes of LibreTranslate's API."""

    async def suggest(_: Request) -> Response:
        raise RequestError(403, "Suggestions are disabled on this server.")

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return [
        Route("/translate", partial(_translate, context), methods=["POST"]),
        Route("/detect", partial(_detect, context), methods=["POST"]),
        Route("/languages", partial(_list_languages, context), methods=["GET"]),
        Route("/translate_file", partial(_translate_file, context), methods=["POST"]),
        Route("/download_file/{filename}", partial(_download, context), methods=["GET"]),
        Route("/suggest", suggest, methods=["POST"]),
        Route("/frontend/settings", partial(_describe_settings, context), methods=["GET"]),
        Route("/health", health, methods=["GET"]),
    ]


async def _list_languages(context: ServerContext, _: Request) -> Response:
    catalogue = context.catalogue
    return JSONResponse(
        [
            {"code": code, "name": name_language(code), "targets": catalogue.list_targets(code)}
            for code in catalogue.list_languages()
        ]
    )


async def _download(context: ServerContext, request: Request) -> Response:
    stored = context.files.find(request.path_params["filename"])
    if stored is None:
        raise RequestError(404, "no such file, or it has expired")
    return FileResponse(
        stored.path,
        filename=stored.name,
        media_type="application/octet-stream",
        content_disposition_type="attachment",
    )


async def _translate(context: ServerContext, request: Request) -> Response:
    body: TranslateBody = await context.read_body(request, TranslateBody)
    is_list = isinstance(body.q, list)
    texts = body.q if isinstance(body.q, list) else [body.q]
    caller = context.access.admit(request, body.api_key, cost=len(texts))
    check_lengths(texts, caller, context.settings)
    if body.alternatives > context.settings.max_alternatives:
        raise RequestError(
            400,
            "Invalid request: alternatives parameter must be <= "
            f"{context.settings.max_alternatives}",
        )
    context.note(request, texts)
    content = await context.answer_in_time(request, _answer(context, body, texts, caller))
    if not is_list:
        content = {
            key: value[0] if isinstance(value, list) else value for key, value in content.items()
        }
    return JsonChunks(await to_chunks(content))


async def _answer(
    context: ServerContext, body: TranslateBody, texts: list[str], caller: Caller
) -> dict[str, object]:
    translation = context.translation
    content: dict[str, object]
    alternatives: list[list[str]] = [[] for _ in texts]
    if body.format == "html":
        pages = [text.encode(errors="replace") for text in texts]
        documents, found = await translation.translate_documents(
            pages, "html", body.source, body.target, caller=caller.name
        )
        content = {"translatedText": [each.content.decode() for each in documents]}
        if any(each.report.skipped or each.report.warnings for each in documents):
            content["report"] = [each.report.to_json(_MAX_SKIPPED) for each in documents]
    else:
        translated, found = await translation.translate_texts(
            texts,
            body.source,
            body.target,
            caller=caller.name,
            num_alternatives=body.alternatives,
        )
        content = {"translatedText": translated.texts}
        if body.scores:
            content |= _describe_lines(translated.lines)
        alternatives = [each[: body.alternatives] for each in translated.alternatives]
    if found.detected is not None:
        content["detectedLanguage"] = [asdict(found.detected)] * len(texts)
    if body.alternatives:
        content["alternatives"] = alternatives
    if found.model_path.pivot is not None:
        content["pivot"] = found.model_path.pivot
    return content


def _describe_lines(lines: list[list[Translation]]) -> dict[str, object]:
    """Returns what a model says of its translations, per text and line; None for a blank line."""

    def read_all(read: Callable[[Translation], object]) -> list[list[object]]:
        return [[read(line) for line in of_text] for of_text in lines]

    content: dict[str, object] = {
        "scores": read_all(lambda line: line.candidates[0].mean_log_probability)
    }
    if any(line.flags is not None for line in chain(*lines)):
        content["flags"] = read_all(lambda line: [asdict(flag) for flag in line.flags or ()])
    for key, name in (("quality", "quality"), ("released", "released"), ("models", "model")):
        found = read_all(attrgetter(name))
        if any(value is not None for value in chain(*found)):
            content[key] = found
    return content


async def _detect(context: ServerContext, request: Request) -> Response:
    body: DetectBody = await context.read_body(request, DetectBody)
    texts = body.q if isinstance(body.q, list) else [body.q]
    caller = context.access.admit(request, body.api_key)
    check_lengths(texts, caller, context.settings)
    sample = "\n".join(text[:SAMPLE_CHARACTERS] for text in texts[:SAMPLE_CHARACTERS])
    found = await context.answer_in_time(request, context.translation.detect(sample, caller.name))
    return JSONResponse([asdict(each) for each in found])


async def _translate_file(context: ServerContext, request: Request) -> Response:
    settings = context.settings
    if not settings.max_file_bytes:
        raise RequestError(403, "Files translation are disabled on this server.")
    form: UploadForm = await context.read_body(request, None)
    caller = context.access.admit(request, form.fields.get("api_key"))
    for name in ("file", "source", "target"):
        is_given = form.content or form.name if name == "file" else form.fields.get(name)
        if not is_given:
            raise RequestError(400, f"Invalid request: missing {name} parameter")
    if not form.name:
        raise RequestError(400, "Invalid request: empty file")
    name = PurePosixPath(form.name.replace("\\", "/")).name
    ending = PurePosixPath(name).suffix
    if ending.lower() not in EXTENSIONS:
        raise RequestError(400, "Invalid request: file format not supported")
    target = context.catalogue.resolve(form.fields["target"])
    request.state.characters = len(form.content)
    [translated], _ = await context.answer_in_time(
        request,
        context.translation.translate_documents(
            [form.content],
            ending,
            form.fields["source"],
            target,
            caller=caller.name,
            max_characters=caller.max_characters,
        ),
    )
    stem = name.removesuffix(ending)
    address = await context.files.add(translated.content, f"{stem}_{target}{ending}")
    base = str(request.base_url)
    return JSONResponse(
        {
            "translatedFileUrl": f"{base}download_file/{quote(address)}",
            "report": translated.report.to_json(_MAX_SKIPPED),
        }
    )


async def _describe_settings(context: ServerContext, _: Request) -> Response:
    settings = context.settings
    target = _choose_target(context)
    endings = sorted(EXTENSIONS) if settings.max_file_bytes else []
    return JSONResponse(
        {
            "charLimit": settings.max_characters,
            "frontendTimeout": 500,
            "apiKeys": context.access.needs_key,
            "keyRequired": context.access.needs_key,
            "suggestions": False,
            "filesTranslation": bool(endings),
            "supportedFilesFormat": endings,
            "language": {
                "source": {"code": "auto", "name": "Auto Detect"},
                "target": {"code": target, "name": name_language(target)},
            },
        }
    )


def _choose_target(context: ServerContext) -> str:
    """Returns the target language that the page shows first."""
    catalogue = context.catalogue
    codes = catalogue.list_languages()
    known = [service.model.languages for service in catalogue.services.values()]
    default = next((each.default_target for each in known if each.default_target), "")
    return default or ("en" if "en" in codes else codes[-1])
