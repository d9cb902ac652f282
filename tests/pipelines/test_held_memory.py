"""The memory held between drawing, sending and writing is bounded, and nothing is lost."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from looktwice.eval.records import writer as writer_module
from looktwice.eval.records.writer import RunWriter
from looktwice.eval.runs.options import RunOptions
from looktwice.eval.runs.run import Run
from looktwice.pipelines import picture as module
from looktwice.pipelines.config import Plan
from looktwice.pipelines.encodings.image_files import to_png
from looktwice.pipelines.model import CallOptions, Message, Messages, Reply
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.models.http_client import MIN_CHUNKED_BYTES, get_http_loop
from looktwice.pipelines.models.wire import make_request_pieces, write_request
from looktwice.pipelines.picture import BASE64_PART_BYTES, Picture, PixelMemory, Pixels
from looktwice.pipelines.view import View
from looktwice.prompting.turns import Ask
from tests.eval.runs.test_run import point


def noise(seed: int, height: int = 40, width: int = 50) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> PixelMemory:
    """Return a memory with room for two pictures of `noise`."""
    memory = PixelMemory(max_bytes=2 * noise(0).nbytes)
    monkeypatch.setattr(module, "PIXEL_MEMORY", memory)
    return memory


def test_the_oldest_pixels_are_dropped_and_decoded_again(memory: PixelMemory) -> None:
    pictures = [Picture.encoded(to_png(noise(seed))) for seed in range(4)]
    for _ in range(2):
        for seed, picture in enumerate(pictures):
            assert np.array_equal(picture.pixels, noise(seed)) and picture.size == (50, 40)
    assert [picture._pixels is not None for picture in pictures] == [False, False, True, True]
    assert memory.size == memory.max_bytes
    del picture, pictures
    assert (memory.size, len(memory.entries)) == (0, 0)


def test_drawn_pixels_are_dropped_once_they_are_encoded(memory: PixelMemory) -> None:
    kept, early, late = (Picture(noise(seed)) for seed in range(3))
    early.release()
    sha = [picture.payload.sha for picture in (kept, early, late)]
    late.release()
    assert [picture._pixels is None for picture in (kept, early, late)] == [False, True, True]
    for seed, picture in enumerate((kept, early, late)):
        assert picture.is_generated and picture.size == (50, 40)
        assert picture.make_thumbnail(10).size == (10, 8)
        assert np.array_equal(picture.pixels, noise(seed)) and picture.payload.sha == sha[seed]
        assert picture.sha == Picture(noise(seed)).sha


def test_encoded_drawings_are_dropped_before_pictures_to_draw_on(memory: PixelMemory) -> None:
    source, other = (Picture.encoded(to_png(noise(seed))) for seed in range(2))
    drawn = Picture(noise(2))
    source.pixels, drawn.payload, other.pixels  # noqa: B018  decodes and encodes
    assert [picture._pixels is None for picture in (source, drawn, other)] == [False, True, False]


def test_pictures_are_decoded_in_turns(memory: PixelMemory) -> None:
    memory.decode_slots = threading.Semaphore(1)
    with memory.decode_slots:
        thread = threading.Thread(target=lambda: picture.pixels)
        picture = Picture.encoded(to_png(noise(0)))
        thread.start()
        thread.join(0.1)
        assert picture._pixels is None
    thread.join()
    assert picture._pixels is not None


@contextmanager
def receiver() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the URL of a server, and the sha256 and stated length of each request that it got."""
    got = list[tuple[str, str]]()

    class Receive(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = self.headers["Content-Length"]
            got.append((hashlib.sha256(self.rfile.read(int(size))).hexdigest(), size))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receive)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_large_request_arrives_whole() -> None:
    pictures = [Picture(noise(0, side, side)).payload for side in (7, 8, 9, 600)]
    body = {"messages": [{"url": payload} for payload in pictures], "text": "how many?"}
    whole = write_request(body)
    assert json.loads(whole)["messages"][3]["url"] == pictures[3].data_url
    assert len(whole) > MIN_CHUNKED_BYTES > BASE64_PART_BYTES
    assert sum(map(len, make_request_pieces(body))) == len(whole)
    assert [b"".join(payload) for payload in pictures] == [payload.text for payload in pictures]
    small = write_request({"messages": body["messages"][:3]})
    with receiver() as (url, got):
        for sent in (whole, make_request_pieces(body), small):
            assert get_http_loop().request("POST", url, sent, {}, 10.0).status == 200
    expected = [(hashlib.sha256(each).hexdigest(), str(len(each))) for each in (whole, small)]
    assert got == [expected[0], *expected]


def test_a_scripted_model_keeps_only_the_last_messages() -> None:
    model = Scripted([str(number) for number in range(40)])
    asked = [(Message("user", (f"question {number}",)),) for number in range(40)]
    assert [model(messages).text for messages in asked] == [str(number) for number in range(40)]
    assert model.asked == asked[-16:]


@pytest.mark.parametrize(("width", "kept"), [(1 << 16, 16), (1 << 19, 4), (4 << 20, 1)])
def test_a_scripted_model_keeps_fewer_messages_with_large_pictures(width: int, kept: int) -> None:
    model, asked = Scripted("(A)"), []
    for seed in range(20):
        view = View.of(Picture(noise(seed, 1, width)))
        asked += [[Message("user", (view, "Which one?"))], [Message("user", (view, "Sure?"))]]
    for messages in asked:
        model(messages)
    assert model.asked == asked[-kept:]


def test_held_bytes_count_pixels_and_encoded_bytes_once() -> None:
    data, pixels = to_png(noise(0)), noise(0)
    picture = Picture.encoded(data)
    assert picture.held_bytes == 0 and picture.payload.data is data
    assert picture.held_bytes == len(data)
    assert np.array_equal(picture.pixels, pixels)
    assert picture.held_bytes == len(data) + pixels.nbytes


def test_many_bytes_are_written_before_the_next_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MAX_QUEUED_BYTES", 1000)
    writer = RunWriter(tmp_path)  # its thread has not started
    for number in range(15):
        writer._enqueue("records.jsonl", b"%099d\n" % number)
    assert len((tmp_path / "records.jsonl").read_bytes()) == 1100
    writer.flush()
    assert len((tmp_path / "records.jsonl").read_bytes()) == 1500


@dataclass(frozen=True)
class Remote:
    """A model over a network, which notes whether pixels are still held while it answers."""

    identity: str = "remote"
    held: list[bool] = field(default_factory=list, compare=False)
    remote: ClassVar[bool] = True

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        for view in (view for message in messages for view in message.views):
            view.picture.payload  # noqa: B018  encodes it
            self.held.append(view.picture._pixels is not None)
        return Reply("(A)")


@pytest.mark.parametrize(("arms", "held"), [(1, {False}), (2, {True, False})])
def test_pixels_are_dropped_before_the_last_arm_of_a_sample_asks(
    tmp_path: Path, arms: int, held: set[bool]
) -> None:
    model = Remote()
    made = [
        point(stages={"ask": Ask(system="x" * number)}, model=model, name=f"arm {number}")
        for number in range(arms)
    ]
    Run(Plan("test", tuple(made)), tmp_path, RunOptions(workers=1))()
    assert len(model.held) == 2 * arms and set(model.held) == held
