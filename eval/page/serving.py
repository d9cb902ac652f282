"""Serves the page of runs on loopback, with the words and pictures of every sample when somebody
looks at it."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aiohttp import web

from looktwice.eval.page.data import PageAnswer
from looktwice.eval.page.of_runs import RunPage
from looktwice.eval.page.render import encode_words
from looktwice.eval.records.records import RunError
from looktwice.pipelines.picture import Picture, PictureError

LOOPBACK = ("127.0.0.1", "localhost")
IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp")
"""What a browser may be given as a picture: nothing that can hold a script."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
StagePage = Callable[[Path, str, str], str]
"""(run folder, task id, sample id) -> a page with the views after every stage."""


@dataclass
class PageServer:
    """Answers the requests of a page under an address that holds a token; without it nothing is
    told."""

    page: RunPage
    html: str
    stages: StagePage
    token: str

    def words(self, number: int) -> dict[str, object]:
        """All that was said and shown on a sample. Raises IndexError for a number that no sample
        has."""
        pictures = tuple(picture for picture, _ in self.page.own_pictures(number))
        answers: dict[int, list[PageAnswer]] = {}
        for who in range(len(self.page.contestants)):
            if draws := self.page.answers.get((who, number)):
                answers[who] = list(draws)
        for who, _, place, answer in self.page.words_of([number]):
            answers[who][place] = answer
        return encode_words(answers, pictures)

    def search(self, text: str) -> list[int]:
        """The samples with a reply, an answer or a reason that holds the text, in any case."""
        return [number for number, words in self._said.items() if text.lower() in words]

    def picture(self, name: str) -> tuple[bytes, str]:
        """The bytes and type of a picture that was sent, or of a sample's own. Raises
        PictureError."""
        payload = self._find_picture(name).payload
        if payload.media_type not in IMAGES:
            raise PictureError(f"{name[:12]} is no picture for a browser")
        return payload.data, payload.media_type

    def _find_picture(self, name: str) -> Picture:
        for number in self._samples_of.get(name, ()):
            for picture, own in self.page.own_pictures(number):
                if picture.name == name:
                    return own
        return self.page.stored(name)

    @cached_property
    def _samples_of(self) -> dict[str, list[int]]:
        samples: dict[str, list[int]] = defaultdict(list)
        for number, row in enumerate(self.page.rows):
            for sha in row.sample["images"]:
                samples[sha].append(number)
        return samples

    @cached_property
    def _said(self) -> dict[int, str]:
        """By sample: its answers, reasons and replies in lower case."""
        found: dict[int, list[str]] = defaultdict(list)
        for (_, number), draws in self.page.answers.items():
            found[number] += [text for draw in draws for text in (draw.answer, draw.reason) if text]
        for number, reply in self.page.replies():
            found[number].append(reply)
        return {number: "\n".join(texts).lower() for number, texts in found.items()}


@dataclass(frozen=True)
class PageRoutes:
    """What each address of a page answers; files are read beside the loop that serves them."""

    server: PageServer

    async def index(self, request: web.Request) -> web.Response:
        return web.Response(text=self.server.html, content_type="text/html")

    async def sample(self, request: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(self.server.words, self._number(request)))

    async def search(self, request: web.Request) -> web.Response:
        return web.json_response(
            await asyncio.to_thread(self.server.search, request.query.get("q", ""))
        )

    async def picture(self, request: web.Request) -> web.Response:
        try:
            data, kind = await asyncio.to_thread(self.server.picture, request.match_info["name"])
        except PictureError as exc:
            raise web.HTTPNotFound(text=str(exc)) from exc
        return web.Response(body=data, content_type=kind)

    async def stages(self, request: web.Request) -> web.Response:
        number = self._number(request)
        run, row = self.server.page.run_of[number], self.server.page.rows[number]
        folder = self.server.page.runs[run].folder.path
        try:
            text = await asyncio.to_thread(self.server.stages, folder, row.task, row.id)
        except RunError as exc:
            raise web.HTTPNotFound(text=str(exc)) from exc
        return web.Response(text=text, content_type="text/html")

    def _number(self, request: web.Request) -> int:
        text = request.query.get("n", "")
        if not (
            text.isascii()
            and text.isdecimal()
            and len(text) < 12
            and int(text) < len(self.server.page.samples)
        ):
            raise web.HTTPNotFound(text="no sample has this number")
        return int(text)

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every request must name this machine as its host and hold the token."""
        given = request.match_info.get("token", "").encode()
        if (
            not secrets.compare_digest(given, self.server.token.encode())
            or request.url.host not in LOOPBACK
        ):
            raise web.HTTPNotFound(
                text="there is nothing here; take the whole address that `looktwice view` told"
            )
        answer = await handler(request)
        answer.headers.update(HEADERS)
        return answer


def make_app(server: PageServer) -> web.Application:
    """The page and what it fetches."""
    routes = PageRoutes(server)
    app = web.Application(middlewares=[routes.guard])
    app.router.add_get("/{token}/", routes.index)
    app.router.add_get("/{token}/sample", routes.sample)
    app.router.add_get("/{token}/search", routes.search)
    app.router.add_get("/{token}/picture/{name}", routes.picture)
    app.router.add_get("/{token}/stages", routes.stages)
    return app


def serve_page(
    page: RunPage, html: str, stages: StagePage, port: int, say: Callable[[str], None]
) -> None:
    """Serve the page on 127.0.0.1 until interrupted, and say its address. Raises RunError for a
    port that is taken."""
    server = PageServer(page, html, stages, secrets.token_urlsafe(16))
    try:
        asyncio.run(_serve(server, port, say))
    except OSError as exc:
        raise RunError(
            f"view: port {port} cannot be used ({exc.strerror}); give another --port"
        ) from exc


async def _serve(server: PageServer, port: int, say: Callable[[str], None]) -> None:
    runner = web.AppRunner(make_app(server), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        say(
            f"open http://127.0.0.1:{runner.addresses[0][1]}/{server.token}/ in a browser; Ctrl-C"
            " ends it"
        )
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
