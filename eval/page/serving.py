"""Serves the page of runs on loopback; the texts and pictures of a sample are loaded when it is
opened."""

from __future__ import annotations

import asyncio
import re
import secrets
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from aiohttp import web

from looktwice.eval.page.data import PageAnswer
from looktwice.eval.page.hosting import get_host, make_runner
from looktwice.eval.page.render import encode_texts
from looktwice.eval.page.run_page import RunPage
from looktwice.eval.records.records import RunError
from looktwice.pipelines.picture import Picture, PictureError

LOOPBACK_HOSTS = ("127.0.0.1", "localhost")
IMAGE_MEDIA_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp")
"""The media types that are served as pictures; none of them can contain a script."""

RESPONSE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAX_REQUEST_BYTES = 32 << 20  # of a request's body
ShowFunction = Callable[[web.Request], web.Response]
StagePageFunction = Callable[[Path, str, str], str]
"""A function (run folder, task id, sample id) -> a page with the views after every stage."""


async def run_in_thread(show: ShowFunction, request: web.Request) -> web.Response:
    """Call `show` in a thread, so that it does not block the event loop."""
    return await asyncio.to_thread(show, request)


@dataclass
class LocalPage(ABC):
    """A page on this machine at an address with a secret token. Requests without the token, or from
    another site's page, are rejected. A subclass defines the response for each path."""

    token: str = field(default_factory=partial(secrets.token_urlsafe, 16), kw_only=True)

    @property
    @abstractmethod
    def routes(self) -> Mapping[str, ShowFunction]:
        """The functions that answer requests, by the path after the token; they run in threads."""

    def add_routes(self, app: web.Application, prefix: str = "") -> None:
        """Add the page's addresses, below `prefix`, to an application that checks access to
        them."""
        for path, show in self.routes.items():
            app.router.add_get(f"/{{token}}/{prefix}{path}", partial(run_in_thread, show))

    def make_application(self, guest: LocalPage | None = None) -> web.Application:
        """Return an application for the page and what it fetches, and optionally for a second page
        (`guest`) below `studio/`, behind the same access check."""
        app = web.Application(middlewares=[self.guard], client_max_size=MAX_REQUEST_BYTES)
        self.add_routes(app)
        if guest is not None:
            guest.add_routes(app, "studio/")
        return app

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject requests that name another host, lack the token, or come from another page."""
        given = request.match_info.get("token", "").encode()
        is_known = secrets.compare_digest(given, self.token.encode())
        origin = request.headers.get("Origin", own := f"http://{request.host}")
        if not is_known or get_host(request) not in LOOPBACK_HOSTS or origin != own:
            raise web.HTTPNotFound(
                text="no page at this address; use the complete address that `looktwice` printed"
            )
        try:
            answer = await handler(request)
        except (PictureError, RunError) as exc:
            raise web.HTTPNotFound(text=str(exc)) from exc
        answer.headers.update(RESPONSE_HEADERS)
        return answer


@dataclass
class PageServer(LocalPage):
    """The server of a page of runs."""

    page: RunPage
    html: str
    make_stage_page: StagePageFunction

    @property
    def routes(self) -> Mapping[str, ShowFunction]:
        """The functions that return the page and the data that it fetches."""
        return {
            "": self.show_page,
            "sample": self.show_sample,
            "search": self.search,
            "picture/{name}": self.show_picture,
            "stages": self.show_stages,
        }

    def show_page(self, request: web.Request) -> web.Response:
        """Return the page itself."""
        return web.Response(text=self.html, content_type="text/html")

    def show_sample(self, request: web.Request) -> web.Response:
        """Return the texts and pictures of a sample."""
        number = self._parse_number(request)
        pictures = [picture for picture, _ in self.page.get_own_pictures(number)]
        answers = dict[int, list[PageAnswer]]()
        for who in range(len(self.page.contestants)):
            if draws := self.page.answers.get((who, number)):
                answers[who] = list(draws)
        for who, _, place, answer in self.page.iterate_answers([number]):
            answers[who][place] = answer
        return web.json_response(encode_texts(answers, pictures))

    def search(self, request: web.Request) -> web.Response:
        """Return the samples with a reply, an answer or a reason that contains the text, ignoring
        case."""
        text = request.query.get("q", "").lower()
        return web.json_response(
            [n for n, words in self._searchable_texts.items() if text in words]
        )

    def show_picture(self, request: web.Request) -> web.Response:
        """Return a picture that was sent to a model, or a sample's own picture."""
        name = request.match_info["name"]
        payload = self._find_picture(name).payload
        if payload.media_type not in IMAGE_MEDIA_TYPES:
            raise PictureError(f"{name[:12]} is not a picture that a browser can show")
        return web.Response(body=payload.data, content_type=payload.media_type)

    def show_stages(self, request: web.Request) -> web.Response:
        """Return the page of a sample with the views after every stage."""
        number = self._parse_number(request)
        row, run = self.page.rows[number], self.page.runs[self.page.run_of[number]]
        text = self.make_stage_page(run.folder.path, row.task, row.id)
        return web.Response(text=text, content_type="text/html")

    def _parse_number(self, request: web.Request) -> int:
        text = request.query.get("n", "")
        if not re.fullmatch("[0-9]{1,11}", text) or int(text) >= len(self.page.samples):
            raise web.HTTPNotFound(text="no sample has this number")
        return int(text)

    def _find_picture(self, name: str) -> Picture:
        for number in self._samples_by_picture.get(name, ()):
            for picture, own in self.page.get_own_pictures(number):
                if picture.name == name:
                    return own
        return self.page.open_stored(name)

    @cached_property
    def _samples_by_picture(self) -> dict[str, list[int]]:
        samples = defaultdict[str, list[int]](list)
        for number, row in enumerate(self.page.rows):
            for sha in row.sample["images"]:
                samples[sha].append(number)
        return samples

    @cached_property
    def _searchable_texts(self) -> dict[int, str]:
        """The answers, reasons and replies of each sample, in lower case."""
        texts = defaultdict[int, list[str]](list)
        for (_, number), draws in self.page.answers.items():
            for draw in draws:
                texts[number] += filter(None, (draw.answer, draw.reason))
        for number, reply in self.page.iterate_replies():
            texts[number].append(reply)
        return {number: "\n".join(words).lower() for number, words in texts.items()}


def serve_page(
    page: LocalPage,
    port: int,
    announce: Callable[[str], None],
    command: str,
    guest: LocalPage | None = None,
) -> None:
    """Serve a page on 127.0.0.1 until interrupted, and announce its address with its token. Raises
    RunError if the port is taken."""

    async def run() -> None:
        runner = make_runner(page.make_application(guest))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            announce(f"http://127.0.0.1:{runner.addresses[0][1]}/{page.token}/")
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    try:
        asyncio.run(run())
    except OSError as exc:
        raise RunError(
            f"{command}: port {port} cannot be used ({exc.strerror}); give another --port"
        ) from exc
