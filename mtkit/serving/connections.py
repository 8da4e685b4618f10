"""Connections that are bounded in time and size, whatever a stranger sends or doesn't read."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mtkit.serving.settings import Serving

_MAX_HEAD_BYTES = 32 << 10
_MAX_HEADERS = 200
_MAX_PIPELINED = 16


class _RefusedError(Exception):
    """Answered with 400 by uvicorn, which closes the connection then."""


def bounded_protocol(settings: Serving) -> type[HttpToolsProtocol]:
    """Returns uvicorn's protocol with a server's limits.

    Args:
        settings: The limits.
    """

    class Bounded(HttpToolsProtocol):
        """Ends connections that send no request, an endless one, or don't read their answer."""

        _deadline: asyncio.TimerHandle | None = None
        _stalled: asyncio.TimerHandle | None = None
        _is_in_head = False
        _num_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) >= settings.max_connections:
                transport.abort()
                return
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            was_asking = self._is_in_head or not self._is_busy()
            super().data_received(data)
            self._num_bytes = self._num_bytes + len(data) if was_asking else 0
            # What is left of a body that was answered early counts, too.
            limit = _MAX_HEAD_BYTES if self._is_in_head else settings.max_body_bytes
            is_asking = was_asking and (self._is_in_head or not self._is_busy())
            if is_asking and self._num_bytes > limit:
                self.transport.abort()
            self._watch()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._is_in_head, self._num_bytes = True, 0

        def on_header(self, name: bytes, value: bytes) -> None:
            # Trailers come after the head; nobody reads them.
            if self._is_in_head:
                if len(self.headers) >= _MAX_HEADERS:
                    raise _RefusedError
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._is_in_head = False
            num_hosts = sum(name == b"host" for name, _ in self.headers)
            if len(self.pipeline) >= _MAX_PIPELINED or num_hosts > 1:
                raise _RefusedError
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(settings.body_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
            self._stalled = None
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._deadline, self._stalled):
                if timer is not None:
                    timer.cancel()
            if self.transport is not None:
                super().connection_lost(exc)

        def _is_busy(self) -> bool:
            """Whether a request is being answered."""
            return self.cycle is not None and not self.cycle.response_complete

        def _watch(self) -> None:
            """Sees to it that time runs whenever no request is being answered."""
            if self._is_busy():
                if self._deadline is not None:
                    self._deadline.cancel()
                self._deadline = None
            elif self._deadline is None:
                self._deadline = self.loop.call_later(settings.header_seconds, self._end)

        def _end(self) -> None:
            if self.transport.get_write_buffer_size():
                # The rest of an answer is still on its way.
                if self._stalled is None:
                    self._stalled = self.loop.call_later(
                        settings.body_seconds, self.transport.abort
                    )
                return
            self.transport.abort()

    return Bounded
