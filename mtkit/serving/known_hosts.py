"""The names that a server is reached by: others are refused, in its own words."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mtkit.serving.faults import RequestError
from mtkit.serving.guard import error_response

_LETS_IN = "mtkit.lets_in"


class KnownHosts:
    """Refuses requests for other names: a page that points its own here can't read what is said.

    Args:
        app: What is inside.
        hosts: The names, as `TrustedHostMiddleware` takes them.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._check = TrustedHostMiddleware(_let_in, allowed_hosts=hosts, www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        checked = dict(scope)
        await self._check(checked, receive, _say_nothing)
        if _LETS_IN in checked:
            await self._app(scope, receive, send)
            return
        host = Headers(scope=scope).get("host", "")[:80]
        refused = RequestError(
            400, f"Invalid host header: {host} is not among serve.hosts, the names of this server"
        )
        await error_response(refused)(scope, receive, send)


async def _let_in(scope: Scope, _: Receive, __: Send) -> None:
    scope[_LETS_IN] = True


async def _say_nothing(_: Message) -> None:
    """Takes the place of an answer in plain text."""
