"""Real connections of clients that do not send, or do not read: the server ends them and answers the others."""

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from gradstep.app import connections
from gradstep.app.server import _Announcing

#: Seconds after which a connection that should be ended is not.
PATIENCE = 60.0


class Scene:
    """A server in a thread of its own, which answers `/slow` once it is told to and `/long` without an end."""

    def __init__(self):
        self.go, self.left, self.up = threading.Event(), threading.Event(), threading.Event()
        routes = [Route("/slow", self.slow), Route("/long", self.long), Route("/post", self.post, methods=["POST"])]
        app = Starlette(routes=routes)
        app.state.pools = ()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.server = _Announcing(app, self.up.set)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]})
        self.thread.start()
        assert self.up.wait(PATIENCE)

    async def slow(self, request):
        await asyncio.to_thread(self.go.wait, PATIENCE)
        return PlainTextResponse("done")

    async def post(self, request):
        return PlainTextResponse(str(len(await request.body())))

    async def long(self, request):
        async def pieces():
            try:
                while True:
                    yield b"x" * 2**16
                    await asyncio.sleep(0)
            finally:
                self.left.set()

        return StreamingResponse(pieces())

    def send(self, data):
        client = socket.create_connection(self.listening.getsockname(), timeout=PATIENCE)
        client.sendall(data)
        return client

    def close(self):
        self.go.set()
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        self.listening.close()


@pytest.fixture
def scene(monkeypatch):
    """Start the server with short limits."""
    monkeypatch.setattr(connections, "_REQUEST_LIMIT", 0.5)
    monkeypatch.setattr(connections, "_READING_LIMIT", 0.5)
    scene = Scene()
    yield scene
    scene.close()


def ended(client):
    """Wait until the server has ended a connection, and return what came before."""
    received = b""
    try:
        while piece := client.recv(2**16):
            received += piece
    except ConnectionResetError:
        pass
    return received


HEAD = b"POST /post HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n"


def test_a_connection_without_a_whole_request_is_ended(scene):
    with ExitStack() as clients:
        half = [clients.enter_context(scene.send(data)) for data in (b"", HEAD, HEAD + b"\r\n" + b"x" * 99)]
        # An answer before the end of what is sent does not let the client send for ever.
        early = clients.enter_context(scene.send(HEAD.replace(b"/post", b"/nowhere") + b"\r\nx"))
        assert [ended(client) for client in half] == [b""] * 3
        assert ended(early).startswith(b"HTTP/1.1 404")


def test_a_client_that_sends_byte_after_byte_is_ended(scene):
    def trickle(client):
        begun = time.monotonic()
        while time.monotonic() < begun + PATIENCE:
            client.sendall(b"x")
            time.sleep(0.1)

    def until_ended(begin):
        with scene.send(begin) as client, pytest.raises((ConnectionResetError, BrokenPipeError)):
            trickle(client)

    # In the line of a request, in its head and in its body.
    begins = (b"", b"POST /post HTTP/1.1\r\nx: ", HEAD + b"\r\n")
    with ThreadPoolExecutor(len(begins)) as threads:
        list(threads.map(until_ended, begins))


def test_a_client_forgets_a_connection_before_the_server_ends_it(scene):
    # Otherwise a request may be under way when the server ends the connection, and meet a reset.
    assert scene.server.config.timeout_keep_alive > httpx.Limits().keepalive_expiry


def test_the_time_of_the_server_does_not_count(scene, monkeypatch):
    monkeypatch.setattr(connections, "_REQUEST_LIMIT", 1.0)
    with scene.send(b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n") as asking, scene.send(b"") as idle:
        # The other has come later, and is ended before.
        assert ended(idle) == b""
        scene.go.set()
        assert ended(asking).endswith(b"done")


def test_a_client_that_does_not_read_is_ended(scene):
    with scene.send(b"GET /long HTTP/1.1\r\nhost: a\r\n\r\n"):
        assert scene.left.wait(PATIENCE)


def test_limits_end_with_what_they_are_for():
    class Transport(asyncio.Transport):
        aborted = False

        def write(self, data):
            pass

        def is_closing(self):
            return False

        def close(self):
            pass

        def abort(self):
            self.aborted = True

    async def run():
        config = uvicorn.Config(Starlette(routes=[Route("/", lambda request: PlainTextResponse("done"))]))
        config.load()
        protocol, transport = connections.LimitedProtocol(config, ServerState(), {}), Transport()

        def running():
            return sorted(name for name, timer in protocol._timers.items() if not timer.cancelled())

        protocol.connection_made(transport)
        assert running() == ["request"]
        for _ in range(2):
            first = protocol._timers["request"]
            protocol.data_received(b"GET / HTTP/1.1\r\n")
            assert protocol._timers["request"] is first
            protocol.data_received(b"host: a\r\n\r\n")
            assert running() == []
            await asyncio.gather(*protocol.tasks)
            assert running() == ["request"]
            assert protocol._timers["request"] is not first
        protocol.pause_writing()
        assert running() == ["reading", "request"]
        protocol.resume_writing()
        assert running() == ["request"]
        protocol.connection_lost(None)
        assert running() == []
        assert not transport.aborted

    with ThreadPoolExecutor(1) as thread:  # the browser's tests leave a loop running in this one
        thread.submit(lambda: asyncio.run(run())).result()
