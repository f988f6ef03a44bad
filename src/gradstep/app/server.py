"""The server of the page: static files and a small JSON interface, for this machine only.

Every number is computed in a worker process; the event loop only passes messages. What a request may cost is bounded:
the size of its body, the number of places, the time that it may take to arrive, to be answered and to be read, the
requests that may wait, the simulations that may run. A request whose sender has gone is dropped, and the process that
worked for it is replaced unless it finishes within a moment.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import json
import math
import socket
import tempfile
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gradstep.app.connections import KEEP_ALIVE, LimitedProtocol
from gradstep.app.workers import Busy, Ended, Gone, TooLong, Workers
from gradstep.checks import integer, worker_count
from gradstep.children import available_cores
from gradstep.errors import GradstepError, InvalidInput, NotConverged
from gradstep.plain import plain

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_LARGEST_BODY = 32 * 1024
#: Processes for what follows a slider, at most.
_MOST_THEORY = 4
_SIMULATIONS = 2
#: Lists of a curve.
_CURVE = ("x", "test_error", "train_error", "noiseless_train_error", "without_step")
#: Optima and spectra kept.
_KEPT = 100
#: Seconds that an answer may take: one part of a curve, one optimum or spectrum, one simulated network.
_CURVE_LIMIT, _STUDY_LIMIT, _NETWORK_LIMIT = 15.0, 90.0, 300.0

_SECURITY = {
    b"content-security-policy": b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
}


class _Reply(Response):
    """JSON in ASCII: whatever a request held can be sent back, lone surrogates too."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return _text(content).encode("ascii")


def _text(content: Any) -> str:
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":"))
    except ValueError:  # numbers out of range, which JSON has no words for
        return json.dumps(plain(content), allow_nan=False, separators=(",", ":"))


class _Refused(GradstepError):  # noqa: N818 - reads as what it says
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, **details: Any) -> None:
        self.status, self.body = status, {"error": {"message": message, **details}}
        super().__init__(message)


def _explained(error: Exception) -> _Refused:
    """Return the reply to what a computation raised."""
    match error:
        case _Refused():
            return error
        case InvalidInput():
            value = error.value if error.value is None else str(error.value)[:200]
            message = f"{error.field}: {error.reason or error.allowed}"[:1000]
            allowed, reason = error.allowed[:1000], error.reason[:1000]
            given = {"field": error.field, "value": value, "allowed": allowed, "reason": reason}
            return _Refused(422, message, **given, guess=error.guess)
        case NotConverged():
            return _Refused(422, str(error), field=None, value=None, allowed=error.advice, reason="", guess="")
        case Busy():
            return _Refused(429, "Too many requests at once: wait for one to end.")
        case TooLong():
            advice = "use less extreme settings, or ask again when the machine has less to do"
            return _Refused(503, f"This takes longer than it may: {advice}.", slow=True)
        case Ended():
            return _Refused(503, "The server has ended.", ended=True)
        case Gone():
            return _Refused(503, "The process that worked on this has ended: try again.")
    return _Refused(500, "An error in gradstep; the terminal says more.")


def _error_reply(error: Exception) -> Response:
    refused = _explained(error)
    return _Reply(refused.body, refused.status)


class _Limits:
    """Refuses bodies that are too large and requests from other pages; adds the headers that keep the page closed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, received = Headers(scope=scope), 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > _LARGEST_BODY:
                raise _Refused(413, f"A request has at most {_LARGEST_BODY} bytes.")
            return message

        begun = False

        async def secured(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun, message["headers"] = True, [*message["headers"], *_SECURITY.items()]
            await send(message)

        try:
            origin = headers.get("origin")
            # A page elsewhere can send here what needs no permission; nothing here is for it.
            if origin is not None and origin != f"http://{headers.get('host')}":
                raise _Refused(403, "This server answers its own page only.")
            await self._app(scope, counted, secured)
        except asyncio.CancelledError:  # the server ends
            if not begun:
                await _error_reply(Ended())(scope, receive, secured)
        except _Refused as refused:
            await _Reply(refused.body, refused.status)(scope, receive, secured)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _Refused(400, f'{text[:50]} is too large a number; infinity is the text "inf".')
    return number


async def _body(request: Request, fields: Sequence[str]) -> Mapping[str, Any]:
    """Read a JSON object of some fields."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _Refused(415, "Send application/json.")
    try:
        document = json.loads(await request.body(), parse_constant=_no_constant, parse_float=_number)
    except (ValueError, RecursionError):
        raise _Refused(400, "The body is not JSON.") from None
    if not isinstance(document, dict):
        raise _Refused(400, "The body is not a JSON object.")
    for name in document:
        if name not in fields:
            raise InvalidInput(name[:200], document[name], f"one of the fields {', '.join(fields)}")
    return document


async def _unless_gone(request: Request, work: Awaitable[Any]) -> Any:
    """Wait for work, and drop it when the sender of the request has gone."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()


async def _together(*parts: Awaitable[Any]) -> list[Any]:
    """Wait for all parts of an answer; if one fails, what has not begun never does."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


Answer = Callable[[Mapping[str, Any]], Awaitable[Any]]


def _endpoint(answer: Answer, fields: Sequence[str]) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        try:
            return _Reply(await _unless_gone(request, answer(await _body(request, fields))))
        except ClientDisconnect:
            return Response(status_code=499)  # its sender has gone
        except Exception as error:
            return _error_reply(error)

    return respond


class _Service:
    """The answers of the page's addresses: pools of worker processes, and the results that are kept."""

    def __init__(self, workers: int | None) -> None:
        cores = available_cores()
        self._theory = Workers(workers or min(cores, _MOST_THEORY), limit=_CURVE_LIMIT)
        # Work that takes seconds yields to curves.
        self._studies = Workers(1, niceness=10, waiting=8, limit=_STUDY_LIMIT)
        self._networks = Workers(_SIMULATIONS, niceness=10, waiting=0, limit=_NETWORK_LIMIT, family=True)
        self._network_processes = max(1, cores - 1)
        self._folder = tempfile.TemporaryDirectory(prefix="gradstep-app-")
        self._facts: dict[str, Any] = {}
        self._studied: dict[str, Any] = {}
        self.pools = self._theory, self._studies, self._networks

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Start the processes of theory, and end all processes."""
        self._theory.start()
        self._studies.start()
        try:
            yield
        finally:
            for pool in app.state.pools:
                pool.close()
            self._folder.cleanup()

    def routes(self) -> list[BaseRoute]:
        """Return the addresses with what answers them."""
        posts: Mapping[str, tuple[Answer, Sequence[str]]] = {
            "curves": (self._curves, ("problem", "axis", "without_step")),
            "learned": (partial(self._theory.ask, "answers:learned"), ("problem",)),
            "code": (
                partial(self._theory.ask, "answers:code"),
                ("problems", "axis", "active", "noise", "seeds", "places", "d"),
            ),
            "spectrum": (partial(self._study, "spectrum"), ("problem", "of")),
            "best": (partial(self._study, "best"), ("problem", "over")),
        }
        return [
            Route("/", _index),
            Route("/api/start", partial(self._told, "start")),
            Route("/api/simulate", self._simulate, methods=["POST"]),
            *(Route(f"/api/{name}", _endpoint(*asked), methods=["POST"]) for name, asked in posts.items()),
            Route("/openapi.json", partial(self._told, "openapi")),
            Route("/plotly.js", _plotly),
            Mount("/static", StaticFiles(directory=str(_STATIC))),
        ]

    async def _curves(self, request: Mapping[str, Any]) -> Any:
        """Return curves, with the place of the setting on them. Every process computes a part."""
        parts = len(self._theory)
        asked = [self._theory.ask("answers:curve_part", request, part, parts) for part in range(parts)]
        now, *found = await _together(self._theory.ask("answers:here", request), *asked)
        curve = {name: _interleaved([part[name] for part in found]) for name in _CURVE}
        failure = next((part["failure"] for part in found if part["failure"]), None)
        if failure and all(value is None for value in curve["test_error"]):
            raise failure
        return {"curve": curve, "here": now, "failure": _explained(failure).body["error"] if failure else None}

    async def _study(self, name: str, request: Mapping[str, Any]) -> Any:
        """Return a result that takes seconds. It is kept for a page that is opened again."""
        key = f"{name} {request!r}"
        if key not in self._studied:
            self._studied[key] = await self._studies.ask(f"answers:{name}", request)
            if len(self._studied) > _KEPT:
                del self._studied[next(iter(self._studied))]
        return self._studied[key]

    async def _simulate(self, request: Request) -> Response:
        """Stream the measurements of networks, line by line."""
        messages: AsyncIterator[Any] | None = None
        try:
            document = await _body(request, ("problem", "axis", "seeds", "d"))
            messages = self._networks.follow(
                "simulation:simulation", document, self._folder.name, self._network_processes
            )
            # The first message is the answer to whether it can be done at all.
            first = await _unless_gone(request, anext(messages))
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            return _error_reply(error)
        return StreamingResponse(_lines(first, messages), media_type="application/x-ndjson")

    async def _told(self, name: str, request: Request) -> Response:
        """Return facts that do not change. The theory is asked for them once."""
        try:
            if name not in self._facts:
                self._facts[name] = await self._theory.ask(f"facts:{name}")
        except GradstepError as error:
            return _error_reply(error)
        return _Reply(self._facts[name])


def create_app(*, workers: int | None = None, hosts: Sequence[str] = LOOPBACK) -> Starlette:
    """Build the application.

    The workers are processes for the curves (default: one per core, at most four), and `hosts` are names under which it
    may be addressed.
    """
    service = _Service(workers)
    app = Starlette(
        routes=service.routes(),
        middleware=[
            Middleware(_Limits),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
        ],
        lifespan=service.lifespan,
    )
    app.state.pools = service.pools
    return app


def _interleaved(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Return one list that takes values of its parts in turn, beginning with the first part."""
    whole: list[Any] = [None] * sum(map(len, parts))
    for k, part in enumerate(parts):
        whole[k :: len(parts)] = part
    return whole


async def _index(request: Request) -> Response:
    return FileResponse(str(_STATIC / "index.html"))


async def _lines(first: Any, messages: AsyncIterator[Any]) -> AsyncIterator[str]:
    """Yield messages as lines of JSON; what goes wrong on the way is the last one."""
    try:
        yield _text(first) + "\n"
        async for message in messages:
            yield _text(message) + "\n"
    except (InvalidInput, NotConverged, Gone, TooLong, RuntimeError) as error:
        yield _text({"kind": "error", "message": _explained(error).body["error"]["message"]}) + "\n"
    finally:
        await messages.aclose()  # type: ignore[attr-defined]


_STATIC = Path(str(files("gradstep.app"))) / "static"


async def _plotly(request: Request) -> Response:
    """Return the plotly.js that comes with the plotly package."""
    found = find_spec("plotly")
    assert found is not None
    assert found.origin is not None
    return FileResponse(
        str(Path(found.origin).parent / "package_data" / "plotly.min.js"),
        media_type="text/javascript",
        headers={"cache-control": "public, max-age=31536000, immutable"},
    )


class _Announcing(uvicorn.Server):
    """A server that announces when the page can be reached, and ends running work before it shuts down."""

    def __init__(self, app: Starlette, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            http=LimitedProtocol,
            ws="none",
            log_level="warning",
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self._app, self._ready = app, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # What is asked for is then refused, instead of being cut off.
        for pool in self._app.state.pools:
            pool.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in good order, which takes a second at most, however often it is asked for."""
        super().handle_exit(sig, frame)
        self.force_exit = False


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    workers: int | None = None,
    browser: bool = True,
    announce: Callable[[str], None] = print,
) -> None:
    """Run the server until it is interrupted.

    It listens on the address of the `host`; the page may be asked for under this name and the loopback's. The port 0 is
    any that is free, the workers are those of `create_app`, and `browser` opens the page. Once the page can be reached,
    `announce` is called with its address. Raises `InvalidInput` on a bad number of workers, and if the address cannot
    be listened on or stands for all addresses: the page is answered under its own only.
    """
    port = integer("port", port, 0, 65535)
    workers = None if workers is None else worker_count(workers)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # A socket may hold back the second part of an answer until the browser has acknowledged the first, for 40 ms.
    # asyncio turns this off, but only for sockets that were made with TCP as their named protocol.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        allowed = f"an address of this machine that is free ({error.strerror}); --port 0 takes any port"
        field = "port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "host"
        raise InvalidInput(field, f"{host}:{port}", allowed) from None
    # Judged by what it is bound to: there are many ways to write it.
    bound = ipaddress.ip_address(listening.getsockname()[0].partition("%")[0])
    if bound.is_unspecified:
        listening.close()
        allowed = "one address of this machine, under which others ask for the page (hostname -I lists them)"
        raise InvalidInput("host", host, allowed)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}/"

    def ready() -> None:
        announce(address)
        if browser:
            webbrowser.open(address)

    app = create_app(workers=workers, hosts=tuple(dict.fromkeys((*LOOPBACK, name))))
    _Announcing(app, ready).run(sockets=[listening])
