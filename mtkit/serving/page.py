"""The page for people, and the API's description; neither needs another host."""

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from mtkit.pages import open_templates
from mtkit.serving.office import Office
from mtkit.serving.openapi import describe_api
from mtkit.version import __version__

_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def list_routes(office: Office) -> list[Route]:
    """Returns the routes of an office."""
    templates = open_templates("mtkit.serving")
    folder = files("mtkit.serving") / "static"
    static = {file.name: file.read_bytes() for file in folder.iterdir()}

    async def page(_: Request) -> Response:
        return HTMLResponse(templates.get_template("page.html").render(version=__version__))

    async def docs(_: Request) -> Response:
        document = describe_api(office)
        return HTMLResponse(
            templates.get_template("api.html").render(document=document, version=__version__)
        )

    async def spec(_: Request) -> Response:
        return JSONResponse(describe_api(office))

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
