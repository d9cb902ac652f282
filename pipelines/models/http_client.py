"""The asyncio loop, in its own thread, that runs all HTTP requests of this process."""

from __future__ import annotations

import atexit
import os
import threading
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from yarl import URL

from looktwice.pipelines.json_input import repair_text
from looktwice.pipelines.model import STOP_EVENT, ModelError, Stopped
from looktwice.pipelines.picture import BASE64_PART_BYTES, Payload, join_pieces
from looktwice.pipelines.runtime.process import CANCELLERS

if TYPE_CHECKING:  # saves a tenth of a second in a run without a server
    import asyncio

    import aiohttp

Result = TypeVar("Result")
Body = bytes | Sequence[bytes | Payload]
"""A request body, whole or in pieces; its pictures are sent as base64."""

CONNECT_TIMEOUT_SECONDS = 10.0
MIN_CHUNKED_BYTES = 1 << 20  # bytes; a larger request is sent in pieces
# bytes of a decompressed body: 8,000 tokens with 20 alternatives; parsing takes 20 times the memory
MAX_RESPONSE_BYTES = 16 << 20


class HttpResponse(NamedTuple):
    """A complete response: status, headers with names in lower case, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(eq=False)
class HttpLoop:
    """An event loop in a daemon thread; worker threads call its blocking methods."""

    loop: asyncio.AbstractEventLoop = field(
        default_factory=lambda: import_module("asyncio").new_event_loop()
    )
    session: aiohttp.ClientSession | None = None
    pending_futures: set[Future[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pid = os.getpid()
        self.thread = threading.Thread(
            target=self.loop.run_forever, name="looktwice-http", daemon=True
        )
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for its result. Raises what it raises, or Stopped if
        it was cancelled.

        Ctrl-C ends the wait at once and cancels the coroutine.
        """
        import asyncio

        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        self.pending_futures.add(future)
        try:
            return future.result()
        except CancelledError:
            raise Stopped("stopped while a request was in flight") from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self.pending_futures.discard(future)

    def request(
        self,
        method: str,
        url: str,
        body: Body | None,
        headers: Mapping[str, str],
        timeout: float,
        max_bytes: int | None = None,
    ) -> HttpResponse:
        """Send one request, without redirects and cookies. `timeout` is in seconds; `max_bytes`
        limits the response in bytes (default: 16 MiB).

        Raises ModelError if no response arrived, Stopped if the request was not sent.
        """
        import aiohttp

        stopping, max_bytes = STOP_EVENT.get(), max_bytes or MAX_RESPONSE_BYTES
        pieces = [body] if isinstance(body, bytes) else body or ()
        data: bytes | AsyncIterator[bytes] | None = None
        if (size := sum(map(len, pieces))) >= MIN_CHUNKED_BYTES:  # at once, it would block the loop
            headers, data = {**headers, "Content-Length": str(size)}, _write(pieces)
        elif body is not None:
            data = join_pieces(pieces)
        limit = aiohttp.ClientTimeout(
            total=timeout, sock_connect=min(timeout, CONNECT_TIMEOUT_SECONDS)
        )

        async def exchange() -> HttpResponse:
            if stopping is not None and stopping.is_set():
                raise Stopped("stopped before a request was sent")
            if self.session is None:
                connector, cookies = aiohttp.TCPConnector(limit=0), aiohttp.DummyCookieJar()
                self.session = aiohttp.ClientSession(connector=connector, cookie_jar=cookies)
            try:
                async with self.session.request(
                    method,
                    url,
                    data=data,
                    headers=headers,
                    timeout=limit,
                    allow_redirects=False,
                    proxy=find_proxy(url),
                ) as response:
                    names = {name.lower(): repair_text(t) for name, t in response.headers.items()}
                    return HttpResponse(
                        response.status, names, await _read(response, url, max_bytes)
                    )
            except (aiohttp.ClientError, OSError) as exc:
                raise make_connection_error(url, timeout, exc) from exc

        return self.run(exchange())

    def cancel(self) -> None:
        """Cancel all requests in flight; their callers get Stopped."""
        for future in tuple(self.pending_futures):
            future.cancel()

    def close(self) -> None:
        """Close the connections and stop the thread."""
        if self.pid != os.getpid() or not self.loop.is_running():
            return
        self.cancel()
        if self.session is not None:
            self.run(self.session.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()


async def _write(pieces: Sequence[bytes | Payload]) -> AsyncIterator[bytes]:
    """Yield a request in parts."""
    for piece in pieces:
        if isinstance(piece, bytes):
            for at in range(0, len(piece), BASE64_PART_BYTES):
                yield piece[at : at + BASE64_PART_BYTES]
        else:
            for part in piece:
                yield part


async def _read(response: aiohttp.ClientResponse, url: str, max_bytes: int) -> bytes:
    """Read the whole body, decompressed. Raises ModelError as soon as it exceeds `max_bytes`
    bytes."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > max_bytes:
            raise ModelError(
                f"{get_url_origin(url)} answered with more than {max_bytes >> 20} MiB, too much for"
                " a reply; set `max_tokens`, and ask for fewer `logprobs`",
                status=response.status,
                retryable=response.status >= 500,
            )
    return bytes(body)


def get_url_origin(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    return str(URL(url).origin())


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment sets for an https URL; plain http, which may carry a
    key, is never proxied."""
    at = URL(url)
    if at.scheme != "https" or at.host is None or urllib.request.proxy_bypass(at.host):
        return None
    return urllib.request.getproxies().get("https")


def make_connection_error(url: str, timeout: float, exc: Exception) -> ModelError:
    """Make the error for a request without a complete response. It is retryable, except for
    certificate errors and invalid URLs."""
    import aiohttp

    place, within = get_url_origin(url), f"{min(timeout, CONNECT_TIMEOUT_SECONDS):g} s"
    is_retryable = is_unreached = True
    if isinstance(exc, aiohttp.ConnectionTimeoutError):
        text = f"{place} cannot be reached (no connection within {within}); is the server running?"
    elif isinstance(exc, TimeoutError):
        text = f"{place} did not answer within {timeout:g} s; raise `timeout` if the server is slow"
        is_unreached = False
    elif isinstance(exc, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        text = (
            f"{place} has a certificate that cannot be trusted ({exc}); set SSL_CERT_FILE to"
            " the certificate of its issuer"
        )
        is_retryable = False
    elif isinstance(exc, aiohttp.InvalidURL):
        text = f"{url!r} is not a URL ({exc}); set `url` to something like http://127.0.0.1:8000/v1"
        is_retryable = False
    elif isinstance(exc, aiohttp.ClientConnectorError):
        reason = str(exc).replace(" ssl:default", "")
        text = f"{place} cannot be reached ({reason}); is the server running?"
    else:
        text = f"{place} broke the connection ({type(exc).__name__}: {exc})"
        is_unreached = False
    return ModelError(text, retryable=is_retryable, unreached=is_unreached)


_lock = threading.Lock()
_current_loop: HttpLoop | None = None


def get_http_loop() -> HttpLoop:
    """Return the loop of this process, started on first use; a forked child gets its own."""
    global _current_loop
    with _lock:
        if (
            _current_loop is None
            or _current_loop.pid != os.getpid()
            or _current_loop.loop.is_closed()
        ):
            _current_loop = HttpLoop()
            atexit.register(_current_loop.close)
        return _current_loop


CANCELLERS.append(lambda: get_http_loop().cancel())
