"""The connection between the studio's page and its backend: a server on loopback, or a notebook
widget.

The server receives pictures as bytes and everything else as JSON, and handles requests in a thread
outside the event loop. The anywidget widget shows the same page and communicates through the
kernel, without a server. The first draft is made from a picture, from a sample of a run with a
contestant's stages, or from a study.
"""

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

from looktwice.eval.display.printable import load_template
from looktwice.eval.page.render import make_page_policy, read_page_file
from looktwice.eval.page.run_page import RunPage
from looktwice.eval.page.serving import LocalPage, ShowFunction
from looktwice.eval.recorded.show import ShownRun
from looktwice.eval.records.records import RunError, RunFolder
from looktwice.eval.tasks.base import check_items
from looktwice.extras.studio.backend import REQUEST_ERRORS, StudioBackend
from looktwice.extras.studio.draft import DEFAULT_MODELS, POCKET_NAME, Draft, Node, Slot
from looktwice.pipelines.config.build import Binder, build
from looktwice.pipelines.config.classes import ConfigError, extend_hint, suggest_names
from looktwice.pipelines.config.overrides import parse_override
from looktwice.pipelines.config.plan import load_plan
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.runtime.install import format_install
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage

__all__ = ["studio_widget"]

TEMPLATES_PACKAGE = "looktwice.extras.studio"
SCRIPT_FILES = ("studio_forms.js", "studio_marks.js", "studio.js")
FIRST_SLOTS = (
    Slot("mark", {"use": "prompting.markers.Circles"}),
    Slot("ask", {"use": "prompting.turns.Ask"}),
)
STUDY_SUFFIXES = (".yaml", ".yml", "")
STUDIO_HEADER = "X-Looktwice"
"""A header that the studio's page sends and a form on another page cannot."""


@dataclass
class StudioServer(LocalPage):
    """The server of a studio's page. `make_first_draft` returns the first draft for the query of
    the page's URL."""

    backend: StudioBackend
    make_first_draft: Callable[[Mapping[str, str]], Draft]

    @property
    def routes(self) -> Mapping[str, ShowFunction]:
        """The routes of the page, its start data, and pictures."""
        return {"": self.show_page, "start": self.show_start, "picture/{sha}": self.show_picture}

    def show_page(self, request: web.Request) -> web.Response:
        """Return the page, whose policy allows only its own scripts, by sha256, and connections to
        this server."""
        scripts = [
            read_page_file(name, TEMPLATES_PACKAGE) for name in (*SCRIPT_FILES, "studio_page.js")
        ]
        policy, style = (
            make_page_policy(scripts, served=True),
            read_page_file("studio.css", TEMPLATES_PACKAGE),
        )
        text = load_template("studio.html.j2", TEMPLATES_PACKAGE).render(
            scripts=scripts, policy=policy, style=style
        )
        return web.Response(text=text, content_type="text/html")

    def show_start(self, request: web.Request) -> web.Response:
        """Return the forms, the models that the page may call, and the first draft."""
        try:
            return web.json_response(
                self.backend.make_start_data(self.make_first_draft(request.query))
            )
        except (LookupError, ValueError) as exc:
            raise web.HTTPNotFound(text=f"the studio cannot open this: {exc}") from exc

    def show_picture(self, request: web.Request) -> web.Response:
        """Return a picture of the page, with the bytes that are sent to models."""
        shown = self.backend.picture_cache.entries.get(request.match_info["sha"])
        if shown is None:
            raise web.HTTPNotFound(text="this picture is no longer cached; render it again")
        payload, *_ = shown
        return web.Response(body=payload.data, content_type=payload.media_type)

    async def handle_request(self, request: web.Request) -> web.Response:
        """Answer a request of the page with JSON or a file, or with its errors under
        `refused`."""
        if request.headers.get(STUDIO_HEADER) != "studio":
            raise web.HTTPForbidden(
                text=f"only the studio's own page may send this request ({STUDIO_HEADER})"
            )
        data = await request.read()
        try:
            made = await asyncio.to_thread(self.backend.answer, request.match_info["what"], data)
        except REQUEST_ERRORS as exc:
            made = {"refused": self.backend.explain_fault(exc)}
        if isinstance(made, bytes):
            return web.Response(body=made, content_type="application/zip")
        return web.json_response(made)

    def add_routes(self, app: web.Application, below: str = "") -> None:
        """Add the routes for the page's requests to those of the base class."""
        super().add_routes(app, below)
        path = f"/{{token}}/{below}{{what:render|ask|read|pack|upload}}"
        app.router.add_post(path, self.handle_request)


def make_page_studio(folder: Path, page: RunPage, plugins: Sequence[str] = ()) -> StudioServer:
    """Build a studio for a report page: it works in `folder`, and begins with a sample of the
    page."""
    backend = StudioBackend(folder, plugins=plugins)
    return StudioServer(backend, partial(make_draft_from_page, backend, page))


def studio_widget(
    sample: Sample | Picture | str | Path,
    stages: Mapping[str, Stage] | None = None,
    models: Mapping[str, Node] = DEFAULT_MODELS,
) -> Any:
    """Return a notebook widget with the studio of a sample, a picture or a picture's file.

    `stages` are the initial stages, by slot; `models` are nodes of the models that may be called,
    by name. The widget's `marks`, `stages` and `yaml` hold the content of the page; setting `marks`
    or `stages` changes the page. Needs `pip install 'looktwice[notebook]'`. Raises
    ModuleNotFoundError, PictureError.
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            f"{exc.name} is not installed; type: {format_install('notebook')}", name=exc.name
        ) from exc
    if not isinstance(sample, Sample):
        image = sample if isinstance(sample, Picture) else Picture.open(sample)
        sample = Sample("studio", Draft().question, (image,))
    folder = tempfile.TemporaryDirectory(prefix="looktwice-studio-", ignore_cleanup_errors=True)
    backend, item = StudioBackend(Path(folder.name).resolve(), {**models}), Item(sample, None)
    draft = Draft.from_item(item, stages or {}, backend.save_picture, model=next(iter(models)))
    start = backend.make_start_data(draft if stages else replace(draft, stages=FIRST_SLOTS))
    traits = {
        "_esm": make_widget_script(),
        "_css": read_page_file("studio.css", TEMPLATES_PACKAGE),
        "folder": folder,
    }
    traits["yaml"] = traitlets.Unicode().tag(sync=True)
    for name in ("marks", "stages"):
        traits[name] = traitlets.List(start["draft"][name]).tag(sync=True)
    widget = type("Studio", (anywidget.AnyWidget,), traits)()
    widget.on_msg(WidgetChannel(backend, start))
    return widget


def make_widget_script() -> str:
    """Return the page as a JavaScript module whose default export has `render`, as anywidget
    expects."""
    scripts = [
        read_page_file(name, TEMPLATES_PACKAGE) for name in (*SCRIPT_FILES, "studio_widget.js")
    ]
    body = json.dumps(read_page_file("studio_body.html", TEMPLATES_PACKAGE))
    return "\n".join([f"const BODY = {body};", *scripts])


@dataclass(eq=False)
class WidgetChannel:
    """A handler of a widget's requests, which also sends pictures that the widget lacks."""

    backend: StudioBackend
    first_draft: Mapping[str, Any]
    sent_pictures: set[str] = field(default_factory=set)

    def __call__(self, widget: Any, asked: Mapping[str, Any], buffers: Sequence[Any]) -> None:
        """Send the response, or the errors, with the number of the request."""
        what, reply, file = asked["what"], {"number": asked["number"]}, b""
        data = bytes(buffers[0]) if buffers else json.dumps(asked.get("body")).encode()
        try:
            made = self.first_draft if what == "start" else self.backend.answer(what, data)
            reply["answer"], file = (None, made) if isinstance(made, bytes) else (made, b"")
        except Exception as exc:  # answer any error, or the page would wait forever
            is_told = isinstance(exc, REQUEST_ERRORS)
            reply["faults"] = (
                self.backend.explain_fault(exc) if is_told else [f"internal error: {exc!r}"]
            )
        kept = self.backend.picture_cache.entries
        new = [shown for sha, (shown, *_) in kept.items() if sha not in self.sent_pictures]
        self.sent_pictures |= {shown.sha for shown in new}
        reply["pictures"] = [[shown.sha, shown.media_type] for shown in new]
        widget.send(reply, [*(shown.data for shown in new), file])


# ---- the first draft: from a picture, a run's sample, or a study's first question


def open_draft(backend: StudioBackend, what: Sequence[Path], models: Sequence[str] = ()) -> Draft:
    """Make the first draft, save its pictures and allow its models. Raises ConfigError, RunError,
    TaskError, PictureError."""
    for text in models:
        _, node = parse_override(f"model={text}")
        if not isinstance(node, dict):
            example = "'{use: pipelines.models.Pocket}'"
            raise ConfigError([f"--model {text}: expected a node, such as {example}"])
        backend.allow_model(build(node, place="--model"))
    start = Draft(stages=FIRST_SLOTS)
    if not what:
        return start
    first, *more = what
    if more and not first.is_file():
        return make_draft_from_run(backend, first, *map(str, more[:2]))
    if first.is_dir():
        ids = [row.id for row in RunFolder(first).samples.values()]
        raise RunError(f"{first}: add one of its {len(ids)} samples, such as {ids[0]}")
    if not more and first.suffix in STUDY_SUFFIXES:
        return make_draft_from_study(backend, first)
    for picture in what:
        if not picture.is_file():
            raise RunError(f"{picture}: there is no such picture, run or study")
    images = tuple(backend.save_bytes(read_file(picture)) for picture in what)
    return replace(start, images=images)


def make_draft_from_study(backend: StudioBackend, study: Path) -> Draft:
    """Make a draft of a study's first question with the stages and model of its first contestant.

    The page may call all models of the study. Raises ConfigError, RunError, TaskError,
    PictureError.
    """
    plan = load_plan(study, (), backend.plugins)
    if not plan.points:
        raise RunError(f"{study}: no contestant is left; {'; '.join(plan.left_out.values())}")
    arm, names = plan.points[0], {id(model): backend.allow_model(model) for model in plan.models}
    item = next(check_items(arm.task), None)
    if item is None:
        raise RunError(f"{study}: its task {arm.task_name!r} has no questions")
    model = names.get(id(arm.model), POCKET_NAME)
    return Draft.from_item(
        item, arm.stages, backend.save_picture, model=model, draws=arm.draws, seed=arm.seed
    )


def make_draft_from_page(backend: StudioBackend, page: RunPage, asked: Mapping[str, str]) -> Draft:
    """Make a draft of a report page's sample and contestant, whose numbers are `n` and `who` in the
    query. Raises RunError, ConfigError, PictureError."""
    row = page.rows[int(asked["n"])]
    number, name = [*page.contestants][int(asked["who"])]
    run = page.runs[number]
    return make_draft_from_run(
        backend, run.folder.path, row.id, name.removesuffix(f" ({run.name})"), row.task
    )


def make_draft_from_run(
    backend: StudioBackend, run: Path, sample: str, contestant: str = "", task: str = ""
) -> Draft:
    """Make a draft of a run's sample with the stages of a contestant (default: the first).

    `task` is the task's id if several tasks have a sample of this name. Raises RunError,
    ConfigError, PictureError.
    """
    shown = ShownRun(run, backend.plugins)
    row, *_ = shown.rows(sample, task)
    points = shown.points(row)
    name = contestant or next(iter(points))
    if name not in points:
        near = extend_hint(suggest_names(name, points), f"use one of {', '.join(points)}")
        raise RunError(f"{run} has no contestant {name!r}{near}")
    point = points[name]
    item = Item(shown.sample(point, row), row.answer)
    asked: Node = {"seed": point.seed, "draws": point.draws}
    if node := point.spec.get("model"):
        asked["model"] = backend.allow_model(Binder.for_run(run).build(node, "model"))
    return Draft.from_item(item, shown.build_stages(point), backend.save_picture, **asked)
