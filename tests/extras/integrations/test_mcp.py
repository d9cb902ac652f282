"""Our image tools over the Model Context Protocol: their results for clients, also with a new
server for each call, and the errors that hostile clients get."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import aiohttp
import numpy as np
import pytest
from PIL import Image

from looktwice.extras.integrations.images import Images
from looktwice.extras.integrations.looking import LookTools, find_agent, make_controls
from looktwice.pipelines import ConfigError, Picture
from looktwice.pipelines.encodings.image_files import decode
from looktwice.prompting.views import LongestSide
from tests.optional import LazyModule, optional
from tests.tables import table

if TYPE_CHECKING:
    from mcp_types import CallToolResult

mcp, streams = optional("mcp"), LazyModule("mcp.client.stdio")
served = LazyModule("looktwice.extras.integrations.mcp")


Call = tuple[str, dict[str, Any]]
SIZE = (240, 160)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a photograph-like picture whose places all look different."""
    pixels = np.random.default_rng(0).integers(0, 255, (*SIZE[::-1], 3), np.uint8)
    pixels[40:80, 60:120] = (200, 30, 30)
    place = tmp_path.resolve() / "photos"
    place.mkdir()
    Image.fromarray(pixels).save(place / "photo.png")
    return place


def tools_of(folder: Path, study: str = "look", **controls: Sequence[str]) -> LookTools:
    agent = find_agent(study)
    images = Images(folder / "looks", (folder,), folder)
    return LookTools(agent, images, make_controls(agent, **controls))


def call(looks: LookTools, *calls: Call) -> list[CallToolResult]:
    """Return what one client gets for some calls, in this process."""

    async def ask() -> list[CallToolResult]:
        async with mcp.Client(served.make_server(looks)) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(ask())


def words(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


def pixels_of(result: CallToolResult) -> list[Any]:
    return [
        decode(base64.b64decode(part.data), "the image")
        for part in result.content
        if part.type == "image"
    ]


def file_of(result: CallToolResult) -> str:
    return words(result).rpartition("File: ")[2]


def test_a_client_opens_zooms_and_measures_images_by_number(folder: Path) -> None:
    looks = tools_of(folder)
    opened, zoomed, measured = call(
        looks,
        ("open", {"image": "photo.png"}),
        ("zoom", {"image": 1, "box": [60, 40, 120, 80]}),
        ("measure", {"image": 2, "start": [0, 0], "end": [30, 40]}),
    )
    assert not any(result.is_error for result in (opened, zoomed, measured))
    assert words(opened).startswith("Image 1 (240 x 160 pixels) shows photo.png")
    assert "shows photo.png from x 60 to 120 and y 40 to 80 of its 240 x 160" in words(zoomed)
    (seen,) = pixels_of(zoomed)
    assert (seen == (200, 30, 30)).all() and len(seen) > 40
    assert (decode(Path(file_of(zoomed)).read_bytes(), "the file") == seen).all()
    assert "50.0 pixels" in words(measured) and "image 2" in words(measured)


def test_a_client_that_restarts_the_server_continues_from_the_files(folder: Path) -> None:
    (first,) = call(tools_of(folder), ("zoom", {"image": "photo.png", "box": [60, 40, 180, 120]}))
    (second,) = call(tools_of(folder), ("zoom", {"image": file_of(first), "box": [0, 0, 256, 171]}))
    assert "shows photo.png from x 60 to 120 and y 40 to 80 of its 240 x 160" in words(second)
    sent = Picture.open(folder / "photo.png").payload.data_url
    points = {"start": [0, 0], "end": [0, 12]}
    (third,) = call(tools_of(folder), ("measure", {"image": sent, **points}))
    assert "12.0 pixels" in words(third)


@pytest.mark.slow
def test_a_program_started_per_call_zooms_and_measures(folder: Path) -> None:

    async def ask(name: str, arguments: dict[str, Any]) -> CallToolResult:
        program = "from looktwice.eval.cli import main; main()"
        typings = str(Path(__file__).parents[3] / "typings")
        server = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-c", program, "mcp", "--allow", str(folder)],
            env=os.environ | {"PYTHONPATH": typings},
            cwd=folder,
        )
        async with mcp.Client(streams.stdio_client(server)) as client:
            result: CallToolResult = await client.call_tool(name, arguments)
            return result

    zoomed = asyncio.run(ask("zoom", {"image": "photo.png", "box": [60, 40, 120, 80]}))
    assert (pixels_of(zoomed)[0] == (200, 30, 30)).all()
    points = {"start": [0, 0], "end": [30, 40]}
    measured = asyncio.run(ask("measure", {"image": file_of(zoomed), **points}))
    assert words(measured).startswith("50.0 pixels")


def test_a_call_resizes_its_own_images_with_any_number_open(folder: Path) -> None:
    looks, counted = tools_of(folder), MagicMock(side_effect=LongestSide(64))
    looks = replace(looks, agent=replace(looks.agent, fit=counted))
    photo = (folder / "photo.png").read_bytes()
    for number in range(20):
        (folder / f"{number}.png").write_bytes(photo)
        looks.images.assign_number(folder / f"{number}.png")
    looks.look("open", {"image": 20})
    assert counted.call_count == 2


def test_every_tool_is_offered_with_its_schema_and_missing_packages_are_named(folder: Path) -> None:
    looks = tools_of(folder)
    looks.unavailable_tools["read_text"] = "rapidocr is not installed"

    async def ask() -> tuple[Any, str]:
        async with mcp.Client(served.make_server(looks)) as client:
            return (await client.list_tools()).tools, client.instructions or ""

    tools, instructions = asyncio.run(ask())
    schemas = {tool.name: tool.input_schema for tool in tools}
    assert {"open", "zoom", "segments", "matches", "measure", "compare"} <= set(schemas)
    assert ("nearer" in schemas) == (find_spec("transformers") is not None)
    assert "read_text" not in schemas and "rapidocr is not installed" in instructions
    image = schemas["zoom"]["properties"]["image"]
    assert {kind["type"] for kind in image["anyOf"]} == {"integer", "string"}
    assert schemas["matches"]["properties"]["second"] == image


def test_two_pictures_are_matched_by_path_and_number(folder: Path) -> None:
    shifted = np.roll(Picture.open(folder / "photo.png").pixels, 7, axis=1)
    Image.fromarray(shifted).save(folder / "other.png")
    looks = tools_of(folder)
    _, matched = call(
        looks, ("open", {"image": "photo.png"}), ("matches", {"first": "1", "second": "other.png"})
    )
    assert not matched.is_error and pixels_of(matched)[0].shape[1] >= 2 * SIZE[0]


@pytest.mark.slow
@table
def test_invalid_arguments_are_named(folder: Path, arguments: dict[str, Any], said: str) -> None:
    secret = folder.parent / "secret.png"
    Image.new("RGB", (9, 9)).save(secret)
    (folder / "link.png").symlink_to(secret)
    (folder / "photo.txt").write_text("no image")
    os.mkfifo(folder / "pipe.png")
    asked = {"image": "photo.png", "box": [10, 10, 50, 50], **arguments}
    if isinstance(image := asked["image"], str):
        asked["image"] = image.replace("LONG", "x" * 9000).replace("LARGE", "A" * (65 << 20))
    (result,) = call(tools_of(folder), ("zoom", asked))
    assert result.is_error and said in words(result) and len(words(result)) < 400
    assert not [*folder.glob("looks/*zoom*")]


def test_a_path_from_another_folder_is_found(folder: Path) -> None:
    """A client names photo.png while /photos is allowed and its server runs in a parent folder."""
    looks = tools_of(folder)
    looks.images.folder = folder.parent
    for name, message in (("photo.png", "did you mean {}?"), ("nosuch.png", "no {}; ")):
        (result,) = call(looks, ("open", {"image": name}))
        assert f"outside of {folder}" in words(result)
        assert message.format(folder / name) in words(result)


def test_a_note_of_an_image_opens_no_file_outside_the_folder(folder: Path) -> None:
    secret = folder.parent / "secret.png"
    Image.new("RGB", (240, 160), "blue").save(secret)
    looks = tools_of(folder)
    (zoomed,) = call(looks, ("zoom", {"image": "photo.png", "box": [60, 40, 120, 80]}))
    note = Path(file_of(zoomed)).with_suffix(".json")
    note.write_text(note.read_text().replace(str(folder / "photo.png"), str(secret)))
    (segments,) = call(tools_of(folder), ("segments", {"image": file_of(zoomed)}))
    assert segments.is_error and "lies outside of" in words(segments)


def test_controls_give_the_same_text_and_show_the_control_image(folder: Path) -> None:
    asked = ("zoom", {"image": "photo.png", "box": [60, 40, 120, 80]})
    (true,) = call(tools_of(folder), asked)
    (black,) = call(tools_of(folder, black=["zoom"]), asked)
    (placebo,) = call(tools_of(folder, placebo=["zoom"]), asked)
    for control in (black, placebo):
        assert words(control).partition("File")[0] == words(true).partition("File")[0]
        assert pixels_of(control)[0].shape == pixels_of(true)[0].shape
    assert not pixels_of(black)[0].any()
    assert (pixels_of(placebo)[0] != pixels_of(true)[0]).any()
    with pytest.raises(ConfigError, match="--random grid: only a Zoom can crop another place"):
        tools_of(folder, random=["grid"])
    with pytest.raises(ConfigError, match="no such tool"):
        tools_of(folder, black=["zooom"])


def test_no_other_tool_reveals_the_picture_behind_a_control(folder: Path) -> None:
    (black,) = call(
        tools_of(folder, black=["zoom"]),
        ("zoom", {"image": "photo.png", "box": [60, 40, 180, 120]}),
    )
    looks = tools_of(folder)
    again, text = call(
        looks,
        ("zoom", {"image": file_of(black), "box": [0, 0, 256, 171]}),
        ("contrast", {"image": file_of(black)}),
    )
    assert not pixels_of(again)[0].any() and pixels_of(text)[0].max() < 40
    assert "shows photo.png from x 60 to 120 and y 40 to 80" in words(again)
    (folder / "black.png").write_bytes(Path(file_of(black)).read_bytes())
    of_look, of_nothing = call(
        looks, ("segments", {"image": file_of(black)}), ("segments", {"image": "black.png"})
    )
    assert (pixels_of(of_look)[0] == pixels_of(of_nothing)[0]).all()


def test_a_study_sets_sizes_and_contestants(folder: Path) -> None:
    """`fit` shows every image at 480 pixels; the zoom crops from the full file."""
    with pytest.raises(ConfigError, match="the agents of full, black, format, result"):
        find_agent("tool_contribution")
    with pytest.raises(ConfigError, match="no contestant has an agent"):
        find_agent("quickstart")
    agent = find_agent("tool_contribution", "full")
    looks = LookTools(agent, Images(folder / "looks", (folder,), folder))
    opened, zoomed = call(
        looks, ("open", {"image": "photo.png"}), ("zoom", {"image": 1, "box": [120, 80, 240, 160]})
    )
    assert words(opened).startswith("Image 1 (480 x 320 pixels)")
    assert "from x 60 to 120 and y 40 to 80" in words(zoomed)
    assert "the file has 60 x 40" in words(zoomed) and pixels_of(zoomed)[0].shape[1] == 480
    dark = find_agent("tool_contribution", "black")
    images = Images(folder / "looks", (folder,), folder)
    (black,) = call(
        LookTools(dark, images, make_controls(dark)),
        ("zoom", {"image": "photo.png", "box": [120, 80, 240, 160]}),
    )
    assert not pixels_of(black)[0].any()


def test_depth_text_and_colour_are_described_in_words(folder: Path) -> None:
    """By the height cue the lower point is nearer; the red box is compared with the noise."""
    cue = "{use: specialists.maps.DepthCue, kind: vertical_position}"
    tool = f"{{use: prompting.agent.TellNearer, depth: {cue}}}"
    agent = find_agent("look", "", [f"stages.agent.tools.nearer={tool}"])
    looks = LookTools(agent, Images(folder / "looks", (folder,), folder))
    nearer, compared = call(
        looks,
        ("nearer", {"image": "photo.png", "start": [10, 10], "end": [10, 150]}),
        ("compare", {"image": 1, "first": [60, 40, 120, 80], "second": [60, 40, 120, 80]}),
    )
    first, second = words(nearer).splitlines()[1:]
    assert first.startswith("end") and "rank 1 of 2" in first and second.startswith("start")
    assert "the first is #c81e1e" in words(compared) and "differ by 0.0" in words(compared)
    assert len(pixels_of(compared)) == 1


def has_ipv6() -> bool:
    """Return whether this machine has the address ::1; containers may not."""
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no ::1"))],
)
def test_hosts_and_tokens_are_checked_over_http(host: str, folder: Path) -> None:
    looks, url = tools_of(folder), asyncio.Queue[str]()

    async def serving(token: str) -> tuple[str, asyncio.Task[None]]:
        server = served.make_server(looks)
        task = asyncio.create_task(served.serve_http(server, host, 0, token, url.put_nowait))
        return await asyncio.wait_for(url.get(), 30), task

    async def status(address: str, **headers: str) -> int:
        headers |= {"Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(address, json=body, headers=headers) as response,
        ):
            return response.status

    async def ask() -> list[int]:
        (free, open_task), (closed, guarded_task) = await serving(""), await serving("secret")
        async with mcp.Client(free) as client:
            result = await client.call_tool("open", {"image": "photo.png"})
            assert len(pixels_of(result)) == 1
        seen = [
            await status(free, Host="evil.example"),
            await status(free, Origin="http://evil.example"),
            await status(closed),
            await status(closed, Authorization="Bearer other"),
            await status(closed, Authorization="Bearer secret", Host="box.example"),
        ]
        for task in (open_task, guarded_task):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return seen

    *refused, let_in = asyncio.run(ask())
    assert all(400 <= code < 500 for code in refused) and refused[2:] == [401, 401]
    assert let_in not in (401, 403, 421)
