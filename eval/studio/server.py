"""Serves the studio's page on loopback: pictures come in as bytes, all else as JSON, and are worked
on beside the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiohttp import web

from looktwice.eval.display.printable import template
from looktwice.eval.page.of_runs import RunPage
from looktwice.eval.page.render import page_file, page_policy
from looktwice.eval.page.serving import MOST_BYTES, Guest, Handler, LocalPage, in_thread
from looktwice.eval.studio.desk import FAULTS, Desk
from looktwice.eval.studio.draft import Draft
from looktwice.eval.studio.opening import of_page

SCRIPTS = ("studio_forms.js", "studio_marks.js", "studio.js")
HEADER = "X-Looktwice"
"""What our page sends and a form of another page cannot."""


@dataclass
class StudioServer(LocalPage):
    """Answers the requests of a studio's page. `begin` gives the draft that it begins with, by what
    its address asks for."""

    desk: Desk
    begin: Callable[[Mapping[str, str]], Draft]

    def show_page(self, request: web.Request) -> web.Response:
        """The page, whose policy names its scripts by sha256 and allows no connection but to this
        server."""
        scripts = [page_file(name) for name in (*SCRIPTS, "studio_page.js")]
        policy = page_policy(scripts, served=True)
        html = template("studio.html.j2")
        text = html.render(scripts=scripts, policy=policy, style=page_file("studio.css"))
        return web.Response(text=text, content_type="text/html")

    def show_start(self, request: web.Request) -> web.Response:
        """The forms, whom one may ask, and the draft to begin with."""
        try:
            return web.json_response(self.desk.start(self.begin(request.query)))
        except (LookupError, ValueError) as exc:
            raise web.HTTPNotFound(text=f"it cannot begin: {exc}") from exc

    def show_picture(self, request: web.Request) -> web.Response:
        """A picture that the page was told of, as it is sent."""
        payload = self.desk.shown.get(request.match_info["sha"])
        if payload is None:
            raise web.HTTPNotFound(text="this picture is no longer here; render it again")
        return web.Response(body=payload.data, content_type=payload.media_type)

    async def work(self, request: web.Request) -> web.Response:
        """What a page asks for, as JSON or as it is; what is wrong is told with status 422."""
        data = await request.read()
        try:
            made = await asyncio.to_thread(self.desk.answer, request.match_info["what"], data)
        except FAULTS as exc:
            text = json.dumps({"faults": self.desk.say_faults(exc)})
            raise web.HTTPUnprocessableEntity(text=text, content_type="application/json") from exc
        if isinstance(made, bytes):
            return web.Response(body=made, content_type="application/zip")
        return web.json_response(made)

    def add_routes(self, app: web.Application, below: str = "") -> None:
        """Let an application, which guards them, answer the studio's addresses too."""
        pages = {"": self.show_page, "start": self.show_start, "picture/{sha}": self.show_picture}
        for path, show in pages.items():
            app.router.add_get(f"/{{token}}/{below}{path}", in_thread(show))
        app.router.add_post(f"/{{token}}/{below}{{what:render|ask|read|pack|upload}}", self.work)
        app.middlewares.append(require_own_header)


@web.middleware
async def require_own_header(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What changes anything must come from our page."""
    if request.method == "POST" and request.headers.get(HEADER) != "studio":
        raise web.HTTPForbidden(text=f"only the studio's own page may send this ({HEADER})")
    return await handler(request)


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
