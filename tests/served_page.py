"""Serves the page of a run on loopback during a test, as `looktwice view` does."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from looktwice.eval.display.table import score_table
from looktwice.eval.page.run_page import RunPage
from looktwice.eval.page.serving import PageServer
from looktwice.eval.recorded.show import render_sample_page
from looktwice.eval.report import Report, render_report_page
from looktwice.pipelines.extensions import find_extension


@contextmanager
def serve_run(run: Path, studio: Path | None = None) -> Iterator[str]:
    """Serve the page of a run and yield its address; its studio works in the folder `studio`."""
    table = score_table(run)
    page = RunPage(table.scores)
    html = "".join(render_report_page(Report(table), page, served=True))
    part = find_extension("parts", "studio")
    guest = part.open()(studio, page) if studio and part else None
    server = PageServer(page, html, render_sample_page, token="known")
    with serve(server.make_application(guest)) as address:
        yield address


@contextmanager
def serve(app: web.Application) -> Iterator[str]:
    """Serve an application with the token `known` in a thread and yield its address."""
    runner = web.AppRunner(app, access_log=None)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> int:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return int(runner.addresses[0][1])

    try:
        port = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
        yield f"http://127.0.0.1:{port}/known/"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
