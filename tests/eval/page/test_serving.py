"""A served page answers only this machine and only clients with the token."""

import asyncio
import io
import socket
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from PIL import Image

from looktwice.eval.display.table import score_table
from looktwice.eval.page.run_page import RunPage
from looktwice.eval.page.serving import PageServer
from looktwice.eval.recorded.show import render_sample_page
from looktwice.eval.records import RunError
from looktwice.eval.report import Report, render_report_page
from tests.made_run import MadeRun

TOKEN = "not-guessed"


@pytest.fixture
def server(tmp_path: Path) -> PageServer:
    made = MadeRun(tmp_path / "run")
    made.task("t", ["A", "B"])
    data = io.BytesIO()
    Image.new("RGB", (4, 3)).save(data, "PNG")
    picture = made.blobs.put(data.getvalue())
    hostile = made.blobs.put(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    point = made.point("plain", "t", spec={"task": None, "stages": {}})
    made.reply(point, "s0", "It is (A), the Giraffe")
    made.record(point, "s1", answer="B", pictures=(picture, hostile))
    table = score_table(made.write().path)
    page = RunPage(table.scores)
    return PageServer(
        page,
        "".join(render_report_page(Report(table), page, served=True)),
        render_sample_page,
        token=TOKEN,
    )


def ask(server: PageServer, *paths: str, host: str = "") -> list[tuple[int, str, bytes]]:
    """Return status, type and body of each request."""

    async def talk() -> list[tuple[int, str, bytes]]:
        runner = web.AppRunner(server.make_application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        found, url = [], f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession(headers={"Host": host} if host else {}) as session:
            for path in paths:
                async with session.get(f"{url}{path}") as answer:
                    found.append((answer.status, answer.content_type, await answer.read()))
        await runner.cleanup()
        return found

    return asyncio.run(talk())


def test_requests_without_the_token_or_for_another_host_are_refused(server: PageServer) -> None:
    paths = ("/", "/guess/", "/guess/sample?n=0", f"/{TOKEN}x/", f"/{TOKEN}/../run.yaml")
    assert {status for status, _, _ in ask(server, *paths)} == {404}
    assert ask(server, f"/{TOKEN}/", host="evil.test")[0][0] == 404
    ((status, kind, page),) = ask(server, f"/{TOKEN}/")
    assert (status, kind) == (200, "text/html")
    assert b"Giraffe" not in page and b"connect-src &#39;self&#39;" in page


def test_texts_are_read_on_request(server: PageServer) -> None:
    paths = "sample?n=0", "search?q=giraffe", "search?q=zebra", "sample?n=2", "stages?n=0"
    first, search, other, wrong, stages = ask(server, *(f"/{TOKEN}/{path}" for path in paths))
    assert b"the Giraffe" in first[2]
    assert (search[2], other[2], wrong[0]) == (b"[0]", b"[]", 404)
    assert b'name="viewport"' in stages[2] and stages[2].count(b"<details open>") == 1
    assert b"<title>s0</title>" in stages[2] and b"default-src 'none'; img-src data:" in stages[2]


def test_only_pictures_are_served_as_pictures(server: PageServer) -> None:
    shas = [path.name for path in sorted((server.page.runs[0].folder.path / "blobs").glob("*/*"))]
    paths = [f"/{TOKEN}/picture/{name}" for name in (*shas, "..%2f..%2frun.yaml")]
    found = sorted((status, kind) for status, kind, _ in ask(server, *paths))
    assert found == [(200, "image/png"), *[(404, "text/plain")] * 3]


def test_a_port_in_use_is_reported(server: PageServer) -> None:
    from looktwice.eval.page.serving import serve_page

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=rf"port {port} cannot be used .*--port"):
            serve_page(server, port, lambda _: None, "view")
