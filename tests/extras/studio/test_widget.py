"""The studio as a widget: its module in Chromium with a kernel in this process, and in a notebook
executed by nbconvert, if anywidget is installed."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from looktwice.eval.tasks import MarkedScenes
from looktwice.extras.studio.backend import StudioBackend
from looktwice.extras.studio.draft import Draft
from looktwice.extras.studio.server import FIRST_SLOTS, WidgetChannel, make_widget_script
from tests.browser import CHROMIUM, open_browser
from tests.extras.studio.opened import IDLE, SHAS
from tests.served_page import serve

PAGE = """<!doctype html><meta charset="utf-8"><div id="host"></div><script type="module">
import widget from "./module.js";
const heard = {}, state = { marks: [], stages: [], yaml: "" };
const decoded = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
window.model = {
  state, get: (name) => state[name], save_changes() {}, off() {},
  set(name, value) { state[name] = value; },
  on(kind, hear) { heard[kind] = hear; },
  change(name, value) { state[name] = value; heard[`change:${name}`](); },
  async send(content, _, buffers) {
    const sent = buffers.map((b) => btoa(String.fromCharCode(...new Uint8Array(b))));
    const response = await fetch("talk", { method: "POST", body: JSON.stringify([content, sent]) });
    const [reply, given] = await response.json();
    heard["msg:custom"](reply, given.map(decoded));
  },
};
widget.render({ model: window.model, el: document.getElementById("host") });
document.documentElement.dataset.ready = "1";
</script>"""
CELLS = (
    "from looktwice.extras.studio import studio_widget\n"
    "from looktwice.prompting import Ask, Circles\n"
    "studio = studio_widget(FILE, {'mark': Circles(radius=28), 'ask': Ask()})\nstudio",
    "sent = []\nstudio.send = lambda reply, buffers: sent.append(reply)\n"
    "studio._handle_custom_msg({'number': 0, 'what': 'start'}, [])\n"
    "draft = sent[0]['answer']['draft'] | {'marks': [{'label': 'A', 'x': 142, 'y': 105}]}\n"
    "asked = {'number': 1, 'what': 'render', 'body': {'draft': draft, 'after': None}}\n"
    "studio._handle_custom_msg(asked, [])\n"
    "print(sent[1]['answer']['views'][0]['sha'], studio.stages[0]['node']['radius'])",
)


class Kernel:
    """Records what a widget sends."""

    def send(self, reply: dict[str, Any], buffers: list[bytes]) -> None:
        self.reply, self.files = reply, [b64encode(data).decode() for data in buffers]


def make_desk(folder: Path) -> tuple[StudioBackend, Draft]:
    backend = StudioBackend(folder)
    picture = next(iter(MarkedScenes(kind="shape"))).sample.images[0]
    return backend, Draft(images=(backend.save_bytes(picture.payload.data),), stages=FIRST_SLOTS)


def test_every_message_of_the_page_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, draft = make_desk(tmp_path)
    talk, kernel = WidgetChannel(backend, backend.make_start_data(draft)), Kernel()
    torn = {"label": "A", "lasso": 5}
    talk(kernel, {"number": 1, "what": "render", "body": {"draft": {"marks": [torn]}}}, [])
    assert kernel.reply["faults"] == ["marks[0].lasso is 5, not a list"]
    monkeypatch.setattr(backend, "ask", lambda draft: 1 / 0)
    talk(kernel, {"number": 2, "what": "ask", "body": {"draft": draft.to_dict()}}, [])
    assert kernel.reply["number"] == 2 and "ZeroDivisionError" in kernel.reply["faults"][0]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_module_shows_the_messages_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "backend").mkdir()
    backend, draft = make_desk(tmp_path / "backend")
    talk, kernel = WidgetChannel(backend, backend.make_start_data(draft)), Kernel()

    async def hear(request: web.Request) -> web.Response:
        content, buffers = await request.json()
        talk(kernel, content, [b64decode(text) for text in buffers])
        return web.json_response([kernel.reply, kernel.files])

    async def page(request: web.Request) -> web.Response:
        text = PAGE if request.path.endswith("/") else make_widget_script()
        kind = "text/html" if request.path.endswith("/") else "text/javascript"
        return web.Response(text=text, content_type=kind)

    app = web.Application()
    app.router.add_get("/known/", page)
    app.router.add_get("/known/module.js", page)
    app.router.add_post("/known/talk", hear)
    with serve(app) as address, open_browser(tmp_path / "profile") as browser:
        browser.open(address)
        browser.wait("document.getElementById('studio')?.dataset.busy === ''")
        (plain,) = browser.run(SHAS)
        mark = {"label": "A", "x": 142, "y": 105, "image": 0}
        browser.run(f"model.change('marks', [{json.dumps(mark)}])")
        browser.wait(IDLE)
        (marked,) = browser.run(SHAS)
        assert marked != plain
        assert browser.run("model.state.yaml").startswith("task:")
        assert browser.run("document.querySelector('#views img').naturalWidth") > 0
        browser.click("[aria-label='remove mark 1']")
        browser.wait(IDLE)
        assert browser.run("model.state.marks") == []
        assert browser.run(SHAS) == [plain]
        browser.click("#ask")
        browser.wait(IDLE)
        assert browser.text("#rows li")
        torn = json.dumps([{"label": "A", "lasso": 5}])
        browser.run(f"(() => {{ try {{ model.change('marks', {torn}); }} catch {{ }} }})()")
        browser.wait(IDLE)
        assert browser.text("#faults") == "marks[0].lasso is 5, not a list"
        browser.run("model.change('marks', [])")
        browser.wait(IDLE)
        assert browser.text("#faults") == "" and browser.run(SHAS) == [plain]
    shown = backend.render(Draft(**{**vars(draft), "marks": (mark,)}))
    assert [view["sha"] for view in shown["views"]] == [marked]


def test_an_executed_notebook_holds_the_widget(tmp_path: Path) -> None:
    pytest.importorskip("anywidget")
    nbformat, nbconvert = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert")
    picture = next(iter(MarkedScenes(kind="shape"))).sample.images[0]
    (file := tmp_path / "scene.png").write_bytes(picture.payload.data)
    book = nbformat.v4.new_notebook()
    cells = [f"FILE = {str(file)!r}\n{CELLS[0]}", CELLS[1]]
    book.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbconvert.preprocessors.ExecutePreprocessor(timeout=60).preprocess(book)
    first, second = book.cells
    assert "application/vnd.jupyter.widget-view+json" in first.outputs[-1].data
    sha, radius = second.outputs[0].text.split()
    assert len(sha) == 64 and radius in ("28", "28.0")
