"""The one asyncio loop in the background, on which every HTTP request of this process runs."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import urllib.request
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import aiohttp
from yarl import URL

from looktwice.pipelines.model import ModelError, Stopped

Result = TypeVar("Result")

CONNECT_SECONDS = 30.0


class Answer(NamedTuple):
    """What came over the wire: status, headers with names in lower case, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Line:
    """The open session of one endpoint and how many requests are on it."""

    session: aiohttp.ClientSession
    busy: int = 0


@dataclass(eq=False)
class HttpLoop:
    """A loop in a daemon thread with one session per endpoint; worker threads call its blocking methods."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    lines: dict[str, Line] = field(default_factory=dict)
    waiting: set[concurrent.futures.Future[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pid = os.getpid()
        self.thread = threading.Thread(target=self.loop.run_forever, name="looktwice-http", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait in this thread for work on the loop. Raises what it raises, or Stopped where it was cancelled.

        A Ctrl-C ends the wait at once and cancels the work.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        self.waiting.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Stopped("stopped while a request was on its way") from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self.waiting.discard(future)

    def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Answer:
        """One POST, without redirects and cookies; `timeout` in seconds. Raises ModelError where nothing came."""
        return self.run(self._post(url, body, headers, timeout))

    def cancel(self) -> None:
        """Give up every request that is on its way; those who wait for one get Stopped."""
        for future in tuple(self.waiting):
            future.cancel()

    def release(self, url: str) -> None:
        """Close the session of this URL's endpoint unless somebody is using it; a later request opens another."""
        if self.loop.is_running():
            self.run(self._release(origin(url)))

    def close(self) -> None:
        """Close every session and end the thread."""
        if self.pid != os.getpid() or not self.loop.is_running():
            return
        self.cancel()
        self.run(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Answer:
        line = self._line(origin(url))
        limit = aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, CONNECT_SECONDS))
        line.busy += 1
        try:
            async with line.session.post(
                url, data=body, headers=headers, timeout=limit, allow_redirects=False, proxy=proxy(url)
            ) as answer:
                data = await answer.read()
                return Answer(answer.status, {name.lower(): text for name, text in answer.headers.items()}, data)
        except (aiohttp.ClientError, OSError) as exc:
            raise broken(url, timeout, exc) from exc
        finally:
            line.busy -= 1

    def _line(self, name: str) -> Line:
        if name not in self.lines:
            connector = aiohttp.TCPConnector(limit=0)
            self.lines[name] = Line(aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()))
        return self.lines[name]

    async def _release(self, name: str) -> None:
        line = self.lines.get(name)
        if line is not None and not line.busy:
            await self.lines.pop(name).session.close()

    async def _close(self) -> None:
        for name in tuple(self.lines):
            await self.lines.pop(name).session.close()


def origin(url: str) -> str:
    """Scheme, host and port of a URL."""
    return str(URL(url).origin())


def proxy(url: str) -> str | None:
    """The proxy that the environment names for an https URL; plain http stays direct, it may carry a key."""
    at = URL(url)
    if at.scheme != "https" or at.host is None or urllib.request.proxy_bypass(at.host):
        return None
    return urllib.request.getproxies().get("https")


def broken(url: str, timeout: float, exc: Exception) -> ModelError:
    """The error of a request that brought no whole answer; certificates and bad URLs will not mend themselves."""
    place = origin(url)
    if isinstance(exc, TimeoutError):
        return ModelError(f"{place} did not answer within {timeout:g} s; raise `timeout` if it is slow", retryable=True)
    if isinstance(exc, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return ModelError(f"{place} has a certificate that cannot be trusted ({exc}); set SSL_CERT_FILE to its issuer")
    if isinstance(exc, aiohttp.InvalidURL):
        return ModelError(f"{url!r} is no URL ({exc}); set `url` to something like http://127.0.0.1:8000/v1")
    if isinstance(exc, aiohttp.ClientConnectorError):
        return ModelError(f"{place} cannot be reached ({exc}); is the server running?", retryable=True)
    return ModelError(f"{place} broke off ({type(exc).__name__}: {exc})", retryable=True)


_lock = threading.Lock()
_current: HttpLoop | None = None


def background() -> HttpLoop:
    """The loop of this process, started when first needed; a forked child gets its own."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid() or _current.loop.is_closed():
            _current = HttpLoop()
            atexit.register(_current.close)
        return _current
