"""The application: all routes and middleware."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from importlib.resources import files

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.pages import open_templates
from mtkit.serving import libretranslate, v1
from mtkit.serving.access import Access
from mtkit.serving.catalogue import Catalogue
from mtkit.serving.context import ServerContext
from mtkit.serving.fallback import Fallback
from mtkit.serving.guard import RequestGuard, error_response
from mtkit.serving.keys import KeyRing
from mtkit.serving.metrics import Metrics
from mtkit.serving.model_service import ServedModel
from mtkit.serving.openapi import describe_api
from mtkit.serving.request_errors import RequestError
from mtkit.serving.settings import Serving
from mtkit.serving.stored_files import FileStore
from mtkit.serving.text_pools import TextProcesses
from mtkit.serving.translate_texts import TextTranslation
from mtkit.version import __version__

_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_ACCEPTED = "mtkit.accepted"
_CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that disconnected; only logged."""


def list_pages(context: ServerContext) -> list[Route]:
    """Returns the routes of the pages."""
    templates = open_templates("mtkit.serving")
    folder = files("mtkit.serving") / "static"
    static = {file.name: file.read_bytes() for file in folder.iterdir()}

    async def page(_: Request) -> Response:
        return HTMLResponse(templates.get_template("page.html").render(version=__version__))

    @lru_cache(maxsize=1)
    def render(_: tuple[str, ...]) -> tuple[str, bytes]:
        """Returns the page and the document of a server with these languages."""
        document = describe_api(context)
        page = templates.get_template("api.html").render(document=document, version=__version__)
        return page, bytes(JSONResponse(document).body)

    def render_api() -> tuple[str, bytes]:
        return render(tuple(context.catalogue.list_languages()))

    async def docs(_: Request) -> Response:
        return HTMLResponse(render_api()[0])

    async def spec(_: Request) -> Response:
        return Response(render_api()[1], media_type="application/json")

    async def serve_static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            return JSONResponse({"error": "Not Found"}, 404)
        kind = _KINDS[name[name.rindex(".") :]]
        return Response(static[name], media_type=kind, headers={"Cache-Control": "no-cache"})

    return [
        Route("/", page, methods=["GET"]),
        Route("/docs", docs, methods=["GET"]),
        Route("/spec", spec, methods=["GET"]),
        Route("/openapi.json", spec, methods=["GET"]),
        Route("/static/{name}", serve_static, methods=["GET"]),
    ]


class KnownHosts:
    """Rejects other host names, as a defence against DNS rebinding.

    `hosts` are as in `TrustedHostMiddleware`.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._check = TrustedHostMiddleware(_accept, allowed_hosts=hosts, www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or rejects it."""
        checked = dict(scope)
        await self._check(checked, receive, _drop)
        if _ACCEPTED in checked:
            await self._app(scope, receive, send)
            return
        host = Headers(scope=scope).get("host", "")[:80]
        refused = RequestError(
            400, f"Invalid host header: {host} is not among serve.hosts, the names of this server"
        )
        await error_response(refused)(scope, receive, send)


async def _accept(scope: Scope, _: Receive, __: Send) -> None:
    scope[_ACCEPTED] = True


async def _drop(_: Message) -> None:
    """Drops Starlette's plain-text response."""


def make_context(
    models: Sequence[ServedModel], settings: Serving, keys: KeyRing | None = None
) -> ServerContext:
    """Returns the parts of a server, without loading models; without `keys`, anyone may call it."""
    metrics = Metrics()
    catalogue = Catalogue(models, settings, metrics)
    processes = TextProcesses(settings)
    name = settings.fallback
    fallback = None if name is None else Fallback(catalogue, name, settings.fallback_seconds)
    return ServerContext(
        settings,
        catalogue,
        TextTranslation(
            catalogue,
            processes,
            max_sentences=settings.max_sentences,
            max_unpacked_bytes=settings.max_unpacked_bytes,
            fallback=fallback,
        ),
        processes,
        Access(settings, keys),
        FileStore(settings.file_minutes, settings.max_stored_bytes),
        metrics,
    )


def make_app(context: ServerContext) -> Starlette:
    """Returns the application, which ends the models' processes when it stops."""
    settings = context.settings

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await context.catalogue.close()
            await context.processes.close()
            context.files.close()

    middleware = [
        Middleware(RequestGuard, settings=settings, metrics=context.metrics, access=context.access)
    ]
    if settings.hosts:
        middleware.append(Middleware(KnownHosts, hosts=settings.hosts))
    if settings.cors_origins:
        middleware.append(
            Middleware(
                _Cors,
                allow_origins=list(settings.cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
            )
        )
    return Starlette(
        routes=[
            *libretranslate.list_libretranslate_routes(context),
            *v1.list_v1_routes(context),
            *list_pages(context),
        ],
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={
            RequestError: _on_request_error,
            HTTPException: _on_http_error,
            ClientDisconnect: _on_disconnect,
        },
    )


class _Cors(CORSMiddleware):
    """Lets pages of other origins call; if any origin may, then only LibreTranslate's routes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        is_own = scope["type"] == "http" and scope["path"].startswith(("/v1/", "/metrics"))
        if is_own and self.allow_all_origins:
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


async def _on_request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=_CLIENT_CLOSED_REQUEST)
