"""An open page of a studio in Chromium, and what somebody does there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looktwice.extras.studio.desk import Desk
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
    """An open page of a studio, and its desk."""

    browser: Browser
    address: str
    desk: Desk

    def settle(self, *faults: str) -> list[str]:
        """The shas of what is shown once nothing is on its way, where so begin the faults."""
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
        """A pointer at a pixel of the first picture."""
        left, top, scale = self.browser.run(
            "(r => [r.x, r.y, r.width / page.canvases[0].image.width])"
            "(page.canvases[0].svg.getBoundingClientRect())"
        )
        at = {"x": left + (x + 0.5) * scale, "y": top + (y + 0.5) * scale}
        self.browser.send(
            "Input.dispatchMouseEvent", type=kind, **at, button="left", buttons=1, clickCount=1
        )

    def drag(self, *places: tuple[float, float]) -> list[str]:
        """Press, move and let go; one place alone is a click."""
        self.browser.run("page.canvases[0].svg.scrollIntoView({block: 'center'})")
        self.pointer("mousePressed", *places[0])
        for place in places[1:]:
            self.pointer("mouseMoved", *place)
        self.pointer("mouseReleased", *places[-1])
        return self.settle()

    def click(self, selector: str, *faults: str) -> list[str]:
        """Press what a selector finds, and wait."""
        self.browser.click(selector)
        return self.settle(*faults)

    @property
    def yaml(self) -> str:
        """The text of the study."""
        return str(self.browser.run("page.$('yaml').value"))

    def drop(self, *files: Path) -> list[str]:
        """Choose files of pictures."""
        document = self.browser.send("DOM.getDocument")["root"]["nodeId"]
        node = self.browser.send("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
        self.browser.send("DOM.setFileInputFiles", files=[*map(str, files)], nodeId=node)
        self.browser.wait(f"page.draft.images.length >= {len(files)}")
        return self.settle()

    def take_back(self, shift: bool = False) -> list[str]:
        """Ctrl-Z, wherever the keys go; with Shift the step is done again."""
        key = {"key": "Z" if shift else "z", "modifiers": 10 if shift else 2}
        for kind in ("keyDown", "keyUp"):
            self.browser.send("Input.dispatchKeyEvent", type=kind, **key)
        return self.settle()

    def texts(self, selector: str) -> list[str]:
        """The texts that somebody sees at all elements that a selector finds."""
        script = f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText)"
        return list(self.browser.run(script))

    @property
    def draft(self) -> dict[str, Any]:
        """What stands on the page."""
        draft: dict[str, Any] = json.loads(self.browser.run("JSON.stringify(page.draft)"))
        return draft

    @property
    def slots(self) -> list[str]:
        """The names of the stages, in their order."""
        return [stage["slot"] for stage in self.draft["stages"]]

    @property
    def faults(self) -> list[str]:
        """What is said to be wrong."""
        return list(self.browser.run(FAULTS))


@contextmanager
def opened_studio(
    browser: Browser, folder: Path, what: Sequence[Path] = ()
) -> Iterator[OpenStudio]:
    """The page of a studio that begins with a picture, a sample or a study."""
    folder.mkdir()
    desk = Desk(folder)
    draft = open_draft(desk, what)
    with serve(StudioServer(desk, lambda _: draft, token="known").application()) as address:
        browser.open(address)
        yield OpenStudio(browser, address, desk)
