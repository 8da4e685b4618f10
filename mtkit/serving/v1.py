"""mtkit's own routes: all data of `mtkit translate --json`, and the server's state."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mtkit.recipe.inference import Inference
from mtkit.recipe.paragraphs import Paragraphs
from mtkit.serving.access import Caller, check_lengths
from mtkit.serving.bodies import LineBody, LinesBody, ScoreBody
from mtkit.serving.catalogue import ModelPath, PathStep
from mtkit.serving.context import ServerContext
from mtkit.serving.detection import Detected
from mtkit.serving.fair_queue import RenderedLine
from mtkit.serving.model_service import ModelService
from mtkit.serving.rendering import JsonChunks, to_chunks
from mtkit.serving.request_errors import RequestError, busy
from mtkit.serving.translate_texts import decoding_settings, drop_estimates, render_all


def list_v1_routes(context: ServerContext) -> list[Route]:
    """Returns mtkit's own routes."""
    return [
        Route("/v1/translate", partial(_translate, context), methods=["POST"]),
        Route("/v1/score", partial(_score, context), methods=["POST"]),
        Route("/v1/models", partial(_list_models, context), methods=["GET"]),
        Route("/ready", partial(_is_ready, context), methods=["GET"]),
        Route("/metrics", partial(_render_metrics, context), methods=["GET"]),
    ]


async def _list_models(context: ServerContext, request: HttpRequest) -> Response:
    context.access.admit(request, None, cost=0)
    services = context.catalogue.services.values()
    return JSONResponse({"models": [_describe(context, each) for each in services]})


async def _is_ready(context: ServerContext, _: HttpRequest) -> Response:
    if not context.catalogue.is_ready:
        raise busy("models are being loaded", 5)
    return JSONResponse({"status": "ready"})


async def _render_metrics(context: ServerContext, request: HttpRequest) -> Response:
    context.access.admit(request, None, cost=0)
    for service in context.catalogue.services.values():
        context.metrics.waiting.labels(service.model.name).set(service.num_waiting)
    return Response(context.metrics.render(), media_type=CONTENT_TYPE_LATEST)


async def _translate(context: ServerContext, request: HttpRequest) -> Response:
    context.access.require_key(request)
    body: LinesBody = await context.read_body(request, LinesBody)
    lines = [LineBody(text=line) if isinstance(line, str) else line for line in body.lines]
    texts = [line.text + line.prefix for line in lines]
    caller = context.access.admit(request, None, cost=len(lines))
    check_lengths(texts, caller, context.settings)
    context.note(request, texts)
    # Other tasks run between steps that take milliseconds for a thousand lines.
    await asyncio.sleep(0)
    content = await context.answer_in_time(request, _answer(context, body, lines, caller))
    return JsonChunks(content)


async def _answer(
    context: ServerContext, body: LinesBody, lines: list[LineBody], caller: Caller
) -> list[bytes]:
    source, model_path, detected = await _find_path(
        context, body, [line.text for line in lines], caller
    )
    detected_field = {} if detected is None else {"detected": asdict(detected)}
    if not model_path.steps:
        if detected is None:
            raise RequestError(400, "source and target are the same language")
        # They are already in the target language.
        texts = [line.text for line in lines]
        echoed = await context.translation.translate_lines(texts, model_path)
        services = context.catalogue.services
        name = body.model or (next(iter(services)) if len(services) == 1 else "")
        head = {"model": name, "source": source, "target": source, **detected_field}
        return await _join(head, await render_all(texts, echoed))
    first, last = model_path.steps[0], model_path.steps[-1]
    if body.glossary and last is not first:
        raise RequestError(
            400,
            f"glossary: these languages go through {model_path.pivot}; "
            "request each step separately",
        )
    texts = [line.text for line in lines]
    if last is not first:
        asks = [first.make_request(text, number) for number, text in enumerate(texts, 1)]
        if body.settings.paragraphs is not None:
            own = decoding_settings(first.service)
            split = _with_paragraphs(own, body.settings.paragraphs)
            asks = [replace(ask, settings=split) for ask in asks]
        texts = [found.text for found in await context.translation.ask(first, asks)]
    asks = [
        last.make_request(text, number, line.prefix)
        for number, (text, line) in enumerate(zip(texts, lines, strict=True), 1)
    ]
    service = last.service
    settings = _choose_settings(context, service, body)
    if settings is not None:
        asks = [replace(ask, settings=settings) for ask in asks]
    if body.glossary:
        terms = tuple(term.as_term() for term in body.glossary)
        asks = [replace(ask, glossary=terms) for ask in asks]
    if last is first or decoding_settings(service).quality is None:
        found = await context.translation.render(last, asks)
    else:
        translations = await context.translation.ask(last, asks)
        found = await render_all(texts, drop_estimates(translations))
    head = {
        "model": service.model.name,
        "source": first.source,
        "target": last.target,
        **({} if model_path.pivot is None else {"pivot": model_path.pivot}),
        **detected_field,
    }
    return await _join(head, found)


async def _find_path(
    context: ServerContext, body: LinesBody, texts: list[str], caller: Caller
) -> tuple[str, ModelPath, Detected | None]:
    """Returns the texts' language, their path, and any detected language."""
    catalogue = context.catalogue
    services = list(catalogue.services.values())
    name, sources, source = None, [], body.source or "auto"
    target = catalogue.resolve(body.target) if body.target else ""
    if body.model is not None or len(services) == 1:
        service = _find_model(context, body.model)
        languages = service.model.languages
        name, sources = service.model.name, list(languages.source)
        target = target or languages.default_target
        if body.source is None and len(sources) == 1:
            [source] = sources
    if not target:
        raise RequestError(400, "Invalid request: missing target parameter")
    source, detected = await context.translation.choose_source(
        texts, source, target, caller.name, sources
    )
    if source == target:
        return source, ModelPath(()), detected
    return source, catalogue.find_path(source, target, name), detected


def _find_model(context: ServerContext, name: str | None) -> ModelService:
    services = context.catalogue.services
    found = next(iter(services.values())) if name is None else services.get(name)
    if found is None:
        raise RequestError(400, f"no model named {(name or '')[:80]}")
    return found


def _choose_settings(
    context: ServerContext, service: ModelService, body: LinesBody
) -> Inference | None:
    numbers = body.settings.model_dump(include={"beam_size", "n_best"}, exclude_none=True)
    asked: dict[str, int] = numbers
    paragraphs = body.settings.paragraphs
    if not asked and paragraphs is None:
        return None
    if max(asked.values(), default=0) > context.settings.max_beam_size:
        raise RequestError(
            400, f"settings: beam_size and n_best must be <= {context.settings.max_beam_size}"
        )
    settings = decoding_settings(service).model_copy(update=asked)
    if settings.n_best > settings.beam_size:
        raise RequestError(400, "settings: n_best is greater than beam_size")
    return settings if paragraphs is None else _with_paragraphs(settings, paragraphs)


def _with_paragraphs(settings: Inference, wanted: bool | Paragraphs) -> Inference:
    """Returns settings that split lines into sentences, or don't."""
    match wanted:
        case Paragraphs():
            paragraphs: Paragraphs | None = wanted
        case True:
            paragraphs = settings.paragraphs or Paragraphs()
        case _:
            paragraphs = None
    return settings.model_copy(update={"paragraphs": paragraphs})


async def _score(context: ServerContext, request: HttpRequest) -> Response:
    context.access.require_key(request)
    body: ScoreBody = await context.read_body(request, ScoreBody)
    texts = [source + target for source, target in body.pairs]
    caller = context.access.admit(request, None, cost=len(body.pairs))
    check_lengths(texts, caller, context.settings)
    context.note(request, texts)
    service = _find_scorer(context, body)
    if service.model.llm is not None:
        raise RequestError(
            400, f"{service.model.name} is a large language model, which can't score translations"
        )
    step = _choose_languages(context, service, body)
    asks = [
        step.make_request(source, number, target)
        for number, (source, target) in enumerate(body.pairs, 1)
    ]
    rendering = context.translation.render(step, asks, scores=True)
    found = await context.answer_in_time(request, rendering)
    return JsonChunks(await _join({"model": service.model.name}, found))


def _find_scorer(context: ServerContext, body: ScoreBody) -> ModelService:
    catalogue = context.catalogue
    if body.model is not None or len(catalogue.services) == 1:
        return _find_model(context, body.model)
    if body.source is None or body.target is None:
        name = "target" if body.target is None and body.source is not None else "source"
        raise RequestError(400, f"Invalid request: missing {name} parameter")
    source, target = catalogue.resolve(body.source), catalogue.resolve(body.target)
    steps = catalogue.find_path(source, target).steps
    if len(steps) != 1:
        raise RequestError(400, f"no model translates {source} into {target} directly")
    return steps[0].service


def _choose_languages(context: ServerContext, service: ModelService, body: ScoreBody) -> PathStep:
    """Returns a model with the languages of pairs."""
    languages = service.model.languages
    found = []
    for name, given, known in (
        ("source", body.source, languages.source),
        ("target", body.target, languages.target),
    ):
        if given is None and len(known) > 1:
            raise RequestError(400, f"Invalid request: missing {name} parameter")
        code = context.catalogue.resolve(given) if given is not None else next(iter(known))
        if code not in known:
            raise RequestError(400, f"{service.model.name} does not support {code} as its {name}")
        found.append(code)
    return PathStep(service, *found)


async def _join(head: Mapping[str, object], found: Sequence[RenderedLine]) -> list[bytes]:
    return await to_chunks({**head, "translations": [each.content for each in found]})


def _describe(context: ServerContext, service: ModelService) -> dict[str, object]:
    model = service.model
    settings = decoding_settings(service).model_dump(mode="json", include={"beam_size"})
    return {
        "name": model.name,
        "source": model.languages.pair[0],
        "target": model.languages.pair[1],
        "languages": {
            "source": list(model.languages.source),
            "target": list(model.languages.target),
        },
        "is_loaded": service.is_ready,
        "waiting_lines": service.num_waiting,
        "settings": settings if model.llm is None else {},
    }
