"""The application: all routes, with what stands around them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from mtkit.serving import libretranslate, page, v1
from mtkit.serving.access import Access
from mtkit.serving.catalogue import Catalogue
from mtkit.serving.faults import RequestError
from mtkit.serving.guard import Guard, error_response
from mtkit.serving.keys import KeyRing
from mtkit.serving.known_hosts import KnownHosts
from mtkit.serving.metrics import Metrics
from mtkit.serving.model_service import ServedModel
from mtkit.serving.office import Office
from mtkit.serving.settings import Serving
from mtkit.serving.stored_files import FileStore
from mtkit.serving.text_lanes import TextProcesses
from mtkit.serving.translate_texts import TextTranslation

_LEFT = 499
"""The status in the log of a request whose caller left: nobody reads it."""


def make_office(
    models: Sequence[ServedModel], settings: Serving, keys: KeyRing | None = None
) -> Office:
    """Returns the parts of a server; nothing is loaded yet.

    Args:
        models: What it serves.
        settings: Limits.
        keys: Who may ask; None for anybody.
    """
    metrics = Metrics()
    catalogue = Catalogue(models, settings, metrics)
    processes = TextProcesses(settings)
    return Office(
        settings,
        catalogue,
        TextTranslation(
            catalogue,
            processes,
            max_sentences=settings.max_sentences,
            max_unpacked_bytes=settings.max_unpacked_bytes,
        ),
        processes,
        Access(settings, keys),
        FileStore(settings.file_minutes, settings.max_stored_bytes),
        metrics,
    )


def make_app(office: Office) -> Starlette:
    """Returns the application, which ends the models' processes when it stops.

    Args:
        office: Its parts.
    """
    settings = office.settings

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await office.catalogue.close()
            await office.processes.close()
            office.files.close()

    middleware = [
        Middleware(Guard, settings=settings, metrics=office.metrics, access=office.access)
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
            *libretranslate.list_routes(office),
            *v1.list_routes(office),
            *page.list_routes(office),
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
    """Lets pages of other origins call; those of any origin only what LibreTranslate has."""

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
    return Response(status_code=_LEFT)
