"""Serves the studio's page on loopback: pictures come in as bytes, all else as JSON, and are worked
on beside the loop."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from aiohttp import web
from pydantic import Field

from looktwice.eval.display.printable import printable, template
from looktwice.eval.page.of_runs import RunPage
from looktwice.eval.page.serving import MOST_BYTES, Guest, Handler, LocalPage, in_thread
from looktwice.eval.records.records import RunError
from looktwice.eval.studio.desk import Desk
from looktwice.eval.studio.draft import Draft
from looktwice.eval.studio.forms import Catalog
from looktwice.eval.studio.opening import of_page
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.json_input import CLOSED, read_as

HEADER = "X-Looktwice"
"""What our page sends and a form of another page cannot."""
SCRIPTS = ("studio_forms.js", "studio_marks.js", "studio.js", "studio_page.js")


@dataclass(frozen=True)
class Asked:
    """What the page sends: a draft, and what is wanted of it."""

    __pydantic_config__ = CLOSED
    draft: Draft
    after: Annotated[int, Field(ge=0)] | None = None
    text: str = ""


@dataclass
class StudioServer(LocalPage):
    """Answers the requests of a studio's page. `begin` gives the draft that it begins with, by what
    its address asks for."""

    desk: Desk
    begin: Callable[[Mapping[str, str]], Draft]

    def show_page(self, request: web.Request) -> web.Response:
        """The page, whose policy names its scripts by sha256 and allows no connection but to this
        server."""
        scripts = [read_file(name) for name in SCRIPTS]
        hashes = " ".join(
            f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
            for script in scripts
        )
        policy = (
            f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src 'self'"
            " data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
        )
        html = template("studio.html.j2")
        text = html.render(scripts=scripts, policy=policy, style=read_file("studio.css"))
        return web.Response(text=text, content_type="text/html")

    def show_start(self, request: web.Request) -> web.Response:
        """The forms, whom one may ask, and the draft to begin with."""
        try:
            draft = self.begin(request.query)
        except (LookupError, ValueError) as exc:
            raise web.HTTPNotFound(text=f"it cannot begin: {exc}") from exc
        images = [self.desk.image(name) for name in draft.images]
        start = {"draft": draft.to_dict(), "images": images, "models": [*self.desk.models]}
        return web.json_response(self._catalog | start)

    @cached_property
    def _catalog(self) -> dict[str, Any]:
        return Catalog(self.desk.plugins).to_dict()

    def show_picture(self, request: web.Request) -> web.Response:
        """A picture that the page was told of, as it is sent."""
        payload = self.desk.shown.get(request.match_info["sha"])
        if payload is None:
            raise web.HTTPNotFound(text="this picture is no longer here; render it again")
        return web.Response(body=payload.data, content_type=payload.media_type)

    async def upload(self, request: web.Request) -> web.Response:
        """Keep a picture."""
        data = await request.read()
        return await self._answer(lambda: self.desk.take(data))

    async def render(self, request: web.Request) -> web.Response:
        """What would be sent."""
        asked = await self._read(request)
        return await self._answer(lambda: self.desk.render(asked.draft, asked.after))

    async def ask(self, request: web.Request) -> web.Response:
        """What the model answers."""
        asked = await self._read(request)
        return await self._answer(lambda: self.desk.ask(asked.draft))

    async def read(self, request: web.Request) -> web.Response:
        """The draft that a study's text describes."""
        asked = await self._read(request)
        desk = self.desk

        def work() -> dict[str, Any]:
            pasted = asked.draft.reading(asked.text, desk.folder / "pasted.yaml", desk.models)
            return {"draft": pasted.to_dict()}

        return await self._answer(work)

    async def pack(self, request: web.Request) -> web.Response:
        """The study with its question and pictures."""
        asked = await self._read(request)
        return await self._answer(lambda: self.desk.pack(asked.draft))

    async def _read(self, request: web.Request) -> Asked:
        try:
            asked: Asked = read_as(Asked, await request.read())
        except ValueError as exc:
            raise refusal(str(exc)) from exc
        return asked

    async def _answer(self, work: Callable[[], Any]) -> web.Response:
        """What comes of some work, as JSON or as it is; what is wrong is told with status 422."""
        try:
            answer = await asyncio.to_thread(work)
        except (ConfigError, RunError, TaskError, ValueError, OSError) as exc:
            faults = exc.faults if isinstance(exc, ConfigError) else (str(exc),)
            folder = f"{self.desk.folder}/"
            raise refusal(*(printable(fault).replace(folder, "") for fault in faults)) from exc
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/zip")
        return web.json_response(answer)

    def add_routes(self, app: web.Application, below: str = "") -> None:
        """Let an application, which guards them, answer the studio's addresses too."""
        pages = {"": self.show_page, "start": self.show_start, "picture/{sha}": self.show_picture}
        for path, answer in pages.items():
            app.router.add_get(f"/{{token}}/{below}{path}", in_thread(answer))
        for work in (self.upload, self.render, self.ask, self.read, self.pack):
            app.router.add_post(f"/{{token}}/{below}{work.__name__}", work)
        app.middlewares.append(require_own_header)


@web.middleware
async def require_own_header(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What changes anything must come from our page."""
    if request.method == "POST" and request.headers.get(HEADER) != "studio":
        raise web.HTTPForbidden(text=f"only the studio's own page may send this ({HEADER})")
    return await handler(request)


def refusal(*faults: str) -> web.HTTPUnprocessableEntity:
    """What is wrong with what was sent, in sentences that begin with a place."""
    text = json.dumps({"faults": faults})
    return web.HTTPUnprocessableEntity(text=text, content_type="application/json")


def read_file(name: str) -> str:
    """One of the page's own files."""
    return files("looktwice.eval").joinpath("templates", name).read_text(encoding="utf-8")


def make_app(server: StudioServer) -> web.Application:
    """The page and what it asks for."""
    app = web.Application(middlewares=[server.guard], client_max_size=MOST_BYTES)
    server.add_routes(app)
    return app


def studio_of_page(folder: Path, page: RunPage, plugins: Sequence[str] = ()) -> Guest:
    """A studio that works in `folder` and begins with a sample of the page beside which it is
    served."""
    desk = Desk(folder, plugins=plugins)

    def join(app: web.Application, token: str) -> None:
        begin = partial(of_page, desk, page)
        StudioServer(token, desk, begin).add_routes(app, "studio/")

    return join
