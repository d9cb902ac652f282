"""Carries what the studio's page asks for: as a server on loopback, where pictures come in as
bytes, all else as JSON, and are worked on beside the loop; or as a widget of anywidget in a
notebook, the same page, which talks through the kernel and no server."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from looktwice.eval.display.printable import template
from looktwice.eval.page.of_runs import RunPage
from looktwice.eval.page.render import page_file, page_policy
from looktwice.eval.page.serving import MOST_BYTES, Guest, LocalPage, in_thread
from looktwice.eval.studio.desk import FAULTS, Desk
from looktwice.eval.studio.draft import MODELS, Draft, Node
from looktwice.eval.studio.opening import FIRST, of_page
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage

__all__ = ["studio_widget"]

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
        policy, style = page_policy(scripts, served=True), page_file("studio.css")
        text = template("studio.html.j2").render(scripts=scripts, policy=policy, style=style)
        return web.Response(text=text, content_type="text/html")

    def show_start(self, request: web.Request) -> web.Response:
        """The forms, whom one may ask, and the draft to begin with."""
        try:
            return web.json_response(self.desk.start(self.begin(request.query)))
        except (LookupError, ValueError) as exc:
            raise web.HTTPNotFound(text=f"it cannot begin: {exc}") from exc

    def show_picture(self, request: web.Request) -> web.Response:
        """A picture that the page was told of, as it is sent."""
        shown = self.desk.shown.kept.get(request.match_info["sha"])
        if shown is None:
            raise web.HTTPNotFound(text="this picture is no longer here; render it again")
        payload, *_ = shown
        return web.Response(body=payload.data, content_type=payload.media_type)

    async def work(self, request: web.Request) -> web.Response:
        """What a page asks for, as JSON or as it is; what is wrong is told with status 422. It must
        be our page that asks."""
        if request.headers.get(HEADER) != "studio":
            raise web.HTTPForbidden(text=f"only the studio's own page may send this ({HEADER})")
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


def make_app(server: StudioServer) -> web.Application:
    """The page and what it asks for."""
    app = web.Application(middlewares=[server.guard], client_max_size=MOST_BYTES)
    server.add_routes(app)
    return app


def studio_of_page(folder: Path, page: RunPage, plugins: Sequence[str] = ()) -> Guest:
    """A studio that works in `folder` and begins with a sample of the page beside which it is
    served."""
    desk = Desk(folder, plugins=plugins)
    begin = partial(of_page, desk, page)
    return lambda app, token: StudioServer(token, desk, begin).add_routes(app, "studio/")


def studio_widget(
    sample: Sample | Picture | str | Path,
    stages: Mapping[str, Stage] | None = None,
    models: Mapping[str, Node] = MODELS,
) -> Any:
    """The studio of a sample, or of a picture or its file, as a widget of a notebook.

    `stages` are those that it begins with, by their slots; `models` are nodes of those that may be
    asked, by name. What stands on the page is in its `marks`, `stages` and `yaml`; marks and stages
    that are set there show on the page. It needs `pip install 'looktwice[notebook]'`. Raises
    ModuleNotFoundError, PictureError.
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            f"{exc.name} is not installed; type: pip install 'looktwice[notebook]'", name=exc.name
        ) from exc
    if not isinstance(sample, Sample):
        image = sample if isinstance(sample, Picture) else Picture.open(sample)
        sample = Sample("studio", Draft().question, (image,))
    folder = tempfile.TemporaryDirectory(prefix="looktwice-studio-", ignore_cleanup_errors=True)
    desk, item = Desk(Path(folder.name).resolve(), {**models}), Item(sample, None)
    draft = Draft.of(item, stages or {}, desk.keep, model=next(iter(models)))
    start = desk.start(draft if stages else replace(draft, stages=FIRST))
    traits = {"_esm": widget_script(), "_css": page_file("studio.css"), "folder": folder}
    traits["yaml"] = traitlets.Unicode().tag(sync=True)
    for name in ("marks", "stages"):
        traits[name] = traitlets.List(start["draft"][name]).tag(sync=True)
    widget = type("Studio", (anywidget.AnyWidget,), traits)()
    widget.on_msg(Talk(desk, start))
    return widget


def widget_script() -> str:
    """The page as a module of JavaScript whose default has `render`, as anywidget takes it."""
    scripts = map(page_file, (*SCRIPTS, "studio_widget.js"))
    return "\n".join([f"const BODY = {json.dumps(page_file('studio_body.html'))};", *scripts])


@dataclass(eq=False)
class Talk:
    """Answers what the page of a widget asks for, with the pictures that it has not been sent."""

    desk: Desk
    begun: Mapping[str, Any]
    sent: set[str] = field(default_factory=set)

    def __call__(self, widget: Any, asked: Mapping[str, Any], buffers: Sequence[Any]) -> None:
        """Send the answer under the number that was asked, or why there is none."""
        what, reply, file = asked["what"], {"number": asked["number"]}, b""
        data = bytes(buffers[0]) if buffers else json.dumps(asked.get("body")).encode()
        try:
            made = self.begun if what == "start" else self.desk.answer(what, data)
            reply["answer"], file = (None, made) if isinstance(made, bytes) else (made, b"")
        except Exception as exc:  # of any kind, else the page waits for ever
            is_told = isinstance(exc, FAULTS)
            reply["faults"] = self.desk.say_faults(exc) if is_told else [f"it failed: {exc!r}"]
        kept = self.desk.shown.kept
        new = [shown for sha, (shown, *_) in kept.items() if sha not in self.sent]
        self.sent |= {shown.sha for shown in new}
        reply["pictures"] = [[shown.sha, shown.media_type] for shown in new]
        widget.send(reply, [*(shown.data for shown in new), file])
