"""HTTP connections whose clients cannot keep the server waiting.

uvicorn ends a connection on which nothing follows an answer. It waits for ever for the first request, for the rest of a
request that has begun, and for a client that does not read its answer: a connection, and what works for it, would be
held for as long as the client likes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds in which a client may send its next request on the same connection. Clients of the HTTP interface, httpx for
#: one, forget a connection after five seconds; a server that ends it at the same moment resets a request under way.
KEEP_ALIVE = 15

#: Seconds in which a whole request arrives, from the opening of the connection or from the answer before.
_REQUEST_LIMIT = 20.0
#: Seconds in which a client reads what is ready for it, some ten kilobytes.
_READING_LIMIT = 60.0


class LimitedProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, except that a client which takes too long to send or to read is left.

    Time that the server itself takes does not count.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Open the connection."""
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Take what a client has sent."""
        super().data_received(data)
        self._expect_request()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._expect_request()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._limit("reading", _READING_LIMIT)

    def resume_writing(self) -> None:
        """Write on: the client has read."""
        super().resume_writing()
        self._unlimit("reading")

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the connection."""
        for name in list(self._timers):
            self._unlimit(name)
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        """Let the time for a request run unless there is a whole one that waits for its answer."""
        whole = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        if whole:
            self._unlimit("request")
        elif "request" not in self._timers:
            self._limit("request", _REQUEST_LIMIT)

    def _limit(self, name: str, seconds: float) -> None:
        """End the connection after some time, whatever is still to be sent."""
        self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _unlimit(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()
