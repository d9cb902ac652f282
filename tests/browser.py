"""Drives headless Chromium over its DevTools protocol."""

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--window-size=1400,1000",
)


def axe_script() -> str:
    """Return the script of axe-core, which checks accessibility. Skips the test without it."""
    package = importlib.util.find_spec("axe_playwright_python")
    if package is None or package.origin is None:
        pytest.skip("axe is not installed: pip install --no-deps axe-playwright-python")
    return Path(package.origin).with_name("axe.min.js").read_text(encoding="utf-8")


def axe_run(part: str, rules: Sequence[str]) -> str:
    """Return an expression that gives axe's violations and passed rules in a part of a page."""
    faults = (
        "violations.flatMap(({ id, nodes }) => nodes.map((node) =>"
        " `${id}: ${node.target.join(' ')}: ${node.failureSummary}`))"
    )
    return (
        f"axe.run({part}, {{ runOnly: {json.dumps(rules)} }}).then(({{ violations, passes }}) =>"
        f" ({{ faults: {faults}, passed: passes.map(({{ id }}) => id) }}))"
    )


class Browser:
    """One tab of a browser. `requests`, and the console errors in `complaints`, are collected from
    the opening of the page on."""

    def __init__(self, port: int) -> None:
        self._runner, self._number = asyncio.Runner(), 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._runner.run(self._connect(port))
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    async def _connect(self, port: int) -> None:
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{port}/json") as found:
            pages = [each for each in await found.json() if each["type"] == "page"]
        self._socket = await self._session.ws_connect(
            pages[0]["webSocketDebuggerUrl"], max_msg_size=0
        )

    def close(self) -> None:
        self._runner.run(self._session.close())
        self._runner.close()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result. Events that arrive meanwhile are recorded."""
        return self._runner.run(asyncio.wait_for(self._send(method, params), 60))

    async def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:2000])
        elif event == "Runtime.consoleAPICalled" and params["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(params["args"])[:2000])
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def open(
        self, address: str | Path, ready: str = "document.documentElement.dataset.ready === '1'"
    ) -> float:
        """Open a page, wait until it is ready, and return the seconds this took."""
        url = address.resolve().as_uri() if isinstance(address, Path) else address
        self.send("Page.navigate", url="about:blank")
        self.requests.clear()
        self.complaints.clear()
        started = time.monotonic()
        self.send("Page.navigate", url=url)
        self.wait(ready)
        return time.monotonic() - started

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page and return its value. A promise is awaited."""
        found = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 30) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while True:
            with suppress(AssertionError):
                if self.run(condition):
                    return
            assert time.monotonic() < end, (
                f"{condition} was not true in {seconds} s: {self.complaints}"
            )
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press a key, as a user would."""
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector: str) -> None:
        """Click the centre of the first element that matches a selector."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{place}.scrollIntoView({{block: 'center'}})")
        x, y = self.run(
            f"(r => [r.x + r.width / 2, r.y + r.height / 2])({place}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def text(self, selector: str) -> str:
        """Return the visible text of the first element that matches a selector."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))


@contextmanager
def open_browser(profile: Path) -> Iterator[Browser]:
    """Run a separate browser for the duration of the block; `profile` is an empty folder."""
    assert CHROMIUM
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile)},
    )
    try:
        port, end = profile / "DevToolsActivePort", time.monotonic() + 300
        while not (port.exists() and port.read_text().strip()):
            assert time.monotonic() < end and process.poll() is None, "the browser did not start"
            time.sleep(0.05)
        browser = Browser(int(port.read_text().split()[0]))
        yield browser
        browser.close()
    finally:
        process.terminate()
        process.wait(20)
