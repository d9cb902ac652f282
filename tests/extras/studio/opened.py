"""An open page of a studio in Chromium, and user actions on it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looktwice.extras.studio.backend import StudioBackend
from looktwice.extras.studio.server import StudioServer, open_draft
from tests.browser import Browser
from tests.served_page import serve

IDLE = "document.getElementById('studio').dataset.busy === ''"
SHAS = "[...document.querySelectorAll('#views figure')].map((figure) => figure.dataset.sha)"
FAULTS = "[...document.querySelectorAll('.fault')].map((p) => p.textContent).filter(Boolean)"
TYPE = """((id, value) => {
  const field = document.getElementById(id);
  field.value = value;
  for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, { bubbles: true }));
})"""


@dataclass
class OpenStudio:
    """An open page of a studio, and its backend."""

    browser: Browser
    address: str
    backend: StudioBackend

    def settle(self, *faults: str) -> list[str]:
        """Wait for pending requests and return the hashes of the shown views. The faults must begin
        like these."""
        self.browser.wait(IDLE)
        shown = self.faults
        assert len(shown) == len(faults), shown
        assert all(map(str.startswith, shown, faults)), shown
        shas: list[str] = self.browser.run(SHAS)
        return shas

    def set(self, place: str, value: object, *faults: str) -> list[str]:
        """Type into a field, and wait."""
        self.browser.run(f"{TYPE}({json.dumps(place)}, {json.dumps(value)})")
        return self.settle(*faults)

    def add(self, use: str) -> list[str]:
        """Add a stage."""
        self.browser.run(f"{TYPE}('new', {json.dumps(use)})")
        self.browser.click("#add")
        return self.settle()

    def pointer(self, kind: str, x: float, y: float) -> None:
        """Send a pointer event at a pixel of the first picture."""
        left, top, scale = self.browser.run(
            "(r => [r.x, r.y, r.width / page.canvases[0].image.width])"
            "(page.canvases[0].svg.getBoundingClientRect())"
        )
        at = {"x": left + (x + 0.5) * scale, "y": top + (y + 0.5) * scale}
        self.browser.send(
            "Input.dispatchMouseEvent", type=kind, **at, button="left", buttons=1, clickCount=1
        )

    def drag(self, *places: tuple[float, float]) -> list[str]:
        """Press, move and release; a single place is a click."""
        self.browser.run("page.canvases[0].svg.scrollIntoView({block: 'center'})")
        self.pointer("mousePressed", *places[0])
        for place in places[1:]:
            self.pointer("mouseMoved", *place)
        self.pointer("mouseReleased", *places[-1])
        return self.settle()

    def click(self, selector: str, *faults: str) -> list[str]:
        """Click what a selector matches, and wait."""
        self.browser.click(selector)
        return self.settle(*faults)

    @property
    def yaml(self) -> str:
        """The text of the study."""
        return str(self.browser.run("page.$('yaml').value"))

    def drop(self, *files: Path) -> list[str]:
        """Choose picture files."""
        document = self.browser.send("DOM.getDocument")["root"]["nodeId"]
        node = self.browser.send("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
        self.browser.send("DOM.setFileInputFiles", files=[*map(str, files)], nodeId=node)
        self.browser.wait(f"page.draft.images.length >= {len(files)}")
        return self.settle()

    def take_back(self, shift: bool = False) -> list[str]:
        """Press Ctrl-Z anywhere; with Shift, redo."""
        key = {"key": "Z" if shift else "z", "modifiers": 10 if shift else 2}
        for kind in ("keyDown", "keyUp"):
            self.browser.send("Input.dispatchKeyEvent", type=kind, **key)
        return self.settle()

    def texts(self, selector: str) -> list[str]:
        """Return the visible texts of all elements that match a selector."""
        script = f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText)"
        return list(self.browser.run(script))

    @property
    def draft(self) -> dict[str, Any]:
        """The draft on the page."""
        draft: dict[str, Any] = json.loads(self.browser.run("JSON.stringify(page.draft)"))
        return draft

    @property
    def slots(self) -> list[str]:
        """The names of the stages in order."""
        return [stage["slot"] for stage in self.draft["stages"]]

    @property
    def faults(self) -> list[str]:
        """The faults shown on the page."""
        return list(self.browser.run(FAULTS))


@contextmanager
def opened_studio(
    browser: Browser, folder: Path, what: Sequence[Path] = ()
) -> Iterator[OpenStudio]:
    """Open a studio that starts with a picture, a sample or a study."""
    folder.mkdir()
    backend = StudioBackend(folder)
    draft = open_draft(backend, what)
    with serve(StudioServer(backend, lambda _: draft, token="known").make_application()) as address:
        browser.open(address)
        yield OpenStudio(browser, address, backend)
