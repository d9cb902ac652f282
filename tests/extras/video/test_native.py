"""Videos as they are sent: the bodies of requests, their pixels and times, and what a run keeps."""

import base64
import io
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from looktwice.eval.records import RunFolder
from looktwice.eval.tasks import Folder
from looktwice.extras.engines import LocalVLM
from looktwice.extras.engines.chat_template import build_chat
from looktwice.extras.executors.messages import pickle_message
from looktwice.extras.video import SendVideo, Video
from looktwice.extras.video.inputs import make_inputs
from looktwice.extras.video.still import make_still
from looktwice.extras.wires.gemini import make_content_request
from looktwice.extras.wires.messages import make_message_request
from looktwice.pipelines import Message, Picture, Sample, State
from looktwice.pipelines.model import ModelError
from looktwice.pipelines.models import ChatAPI
from looktwice.pipelines.models.wire import write_request
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.transforms import crop, resize
from tests.chat_server import ChatServer, chat_server
from tests.films import constant, decode_film, find_square, make_film, place
from tests.first_day.studies import get_output, looktwice, records
from tests.tiny import tiny

STUDY = """
tasks: {{clips: {{use: eval.tasks.Folder, path: ., video: {{use: eval.tasks.Video, frames: 4}}}}}}
model: {{use: pipelines.models.ChatAPI, model: tiny, temperature: 0, url: "{url}"}}
stages:
  mark: {{use: prompting.markers.Rectangles, color: lime, label: null}}
  film: {{use: prompting.views.SendVideo, form: frames}}
  choose: {{use: prompting.wording.MultipleChoice}}
  ask: {{use: prompting.turns.Ask}}
each:
- {{stages.film.form: mp4}}
- {{stages.film.form: jpeg}}
- {{stages.film.form: file, stages.mark: null}}
- {{stages.ask.tags: "{{seconds}} s:"}}
"""
LAST = 179 / 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one question about a film of six seconds."""
    folder = tmp_path_factory.mktemp("clips")
    make_film(folder / "six.mp4", constant(6.0))
    x, y = place(119, 180)
    box = {"label": "A", "x0": x - 8, "y0": y - 8, "x1": x + 9, "y1": y + 9, "seconds": 119 / 30}
    line = {"id": "a", "question": "Where?", "video": "six.mp4", "marks": [box]}
    line |= {"choices": ["left", "right"], "answer": "B"}
    (folder / "samples.jsonl").write_text(json.dumps(line))
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ChatServer]:
    """A stand-in server that was asked by every arm of the study."""
    with chat_server(folder / "bodies") as server:
        (folder / "study.yaml").write_text(STUDY.format(url=server.url))
        get_output("run", folder / "study.yaml", "--out", folder)
        yield server


def start(folder: Path) -> State:
    (item,) = Folder(folder, video=Video(frames=4))
    return State.start(item.sample)


def send(state: State, **settings: Any) -> State:
    return SendVideo(**settings)(state, NoModel())


def sent(server: ChatServer) -> dict[str, list[dict[str, Any]]]:
    """Return the parts of each body, by the media type or the number of its pictures."""
    bodies = dict[str, list[dict[str, Any]]]()
    for body in server.bodies:
        parts = body["messages"][-1]["content"]
        urls = [part[part["type"]]["url"] for part in parts if part["type"] != "text"]
        kind = urls[0].partition(";")[0].removeprefix("data:") if len(urls) == 1 else "images"
        tagged = any(part.get("text", "").endswith(" s:") for part in parts)
        bodies[f"{kind} tagged" if tagged else kind] = parts
    return bodies


def read_url(part: dict[str, Any]) -> bytes:
    return base64.b64decode(part[part["type"]]["url"].partition(",")[2])


def read_clip(data: bytes, path: Path) -> list[tuple[float, Any]]:
    path.write_bytes(data)
    return decode_film(path)


def test_the_same_frames_are_sent_as_images_and_as_a_video(
    server: ChatServer, folder: Path, tmp_path: Path
) -> None:
    bodies = sent(server)
    first = [body["messages"][-1]["content"][0] for body in server.bodies]
    kinds = sorted(part["type"] for part in first)
    assert kinds == ["image_url", "text", "video_url", "video_url", "video_url"]
    images = [part for part in bodies["images"] if part["type"] == "image_url"]
    shown = [np.asarray(Image.open(io.BytesIO(read_url(part)))) for part in images]
    known = [pixels for _, pixels in decode_film(folder / "six.mp4")]
    equal = [np.array_equal(a, known[b]) for a, b in zip(shown, (0, 59, 119, 179), strict=True)]
    assert equal == [True, True, False, True], "the mark is drawn on its frame alone"
    videos = [read_url(part) for part in first if part["type"] == "video_url"]
    (file,) = [data for data in videos if data == (folder / "six.mp4").read_bytes()]
    (clip,) = [data for data in videos if data[4:8] == b"ftyp" and data != file]
    frames = read_clip(clip, tmp_path / "clip.mp4")
    assert [time for time, _ in frames] == pytest.approx(
        [0, LAST / 3, 2 * LAST / 3, LAST], abs=1e-3
    )
    for (_, pixels), image in zip(frames, shown, strict=True):
        assert np.abs(pixels.astype(int) - image).mean() < 4
        x, y = map(round, find_square(image))
        assert np.abs(pixels[y, x].astype(int) - image[y, x]).max() < 8, "colours are kept"
        assert find_square(pixels) == pytest.approx(find_square(image), abs=0.5)


def test_frames_are_sent_as_a_list_of_jpeg_images(server: ChatServer, folder: Path) -> None:
    (part, _) = sent(server)["video/jpeg"]
    pieces = part["video_url"]["url"].partition(",")[2].split(",")
    images = [Image.open(io.BytesIO(base64.b64decode(piece))) for piece in pieces]
    known = decode_film(folder / "six.mp4")
    assert [image.size for image in images] == [(96, 64)] * 4
    assert np.abs(np.asarray(images[1]).astype(int) - known[59][1]).mean() < 4


def test_tags_name_the_times(server: ChatServer, folder: Path) -> None:
    texts = [part["text"] for part in sent(server)["images tagged"] if part["type"] == "text"]
    assert texts[:4] == ["0 s:", "1.989 s:", "3.978 s:", "5.967 s:"]


def test_a_run_keeps_the_times_and_shows_them(server: ChatServer, folder: Path) -> None:
    kept = [record.sent for record in records(folder)]
    assert sorted(len(nodes) for nodes in kept) == [1, 1, 1, 4, 4]
    for nodes in kept:
        times = sorted(time for node in nodes for time in node["seconds"])
        assert times == pytest.approx([0, 1.989, 3.978, 5.967])
    html = (folder / "study" / "report.html").read_text()
    for words in ("source 4 at 5.967 s", '"at 1.989 s"', "at 0 to 5.967 s (4 frames)"):
        assert words in html
    clips = [node["sha"] for nodes in kept for node in nodes if node["type"].startswith("video/")]
    assert all(f'"{sha}":"data:image/jpeg' in html for sha in clips), "videos have stills"
    printed = looktwice("view", folder / "study", "--sample", "a").output
    assert "view 2 at 1.989 s: 96x64 px" in printed
    assert "view 1 at 0 to 5.967 s (4 frames)" in printed


def test_marks_stay_in_place_in_a_video_of_cropped_views(folder: Path, tmp_path: Path) -> None:
    """Odd sides are extended by a copy of the last row or column, so no coordinate changes."""
    state = start(folder)
    changed = tuple(resize(crop(view, 4, 6, 96, 61), 231, 139) for view in state.views)
    (view,) = send(state.replace(views=changed), crf=8).views
    assert view.size == (231, 139) and view.seconds == pytest.approx([0, 1.989, 3.978, 5.967])
    frames = read_clip(view.picture.payload.data, tmp_path / "clip.mp4")
    assert frames[0][1].shape == (140, 232, 3)
    for (_, pixels), shown in zip(frames, changed, strict=True):
        assert find_square(pixels) == pytest.approx(find_square(shown.pixels), abs=0.6)
    (placed,) = changed[2].to_view(state.sample.marks[0])
    assert find_square(frames[2][1]) == pytest.approx(placed.center, abs=1.0)


def test_the_same_views_give_the_same_bytes(folder: Path) -> None:
    first, second = (send(start(folder)).views[0].picture for _ in range(2))
    assert first.sha == second.sha == first.payload.sha
    assert send(start(folder), crf=40).views[0].picture.sha != first.sha


def test_views_that_make_no_video_are_refused_or_kept(folder: Path) -> None:
    state = start(folder)
    first, *rest = state.views
    cropped = state.replace(views=(crop(first, 0, 0, 50, 50), *rest))
    with pytest.raises(ValueError, match="must have one size, found 50 x 50, 96 x 64"):
        send(cropped)
    with pytest.raises(ValueError, match="the file does not show that"):
        send(cropped.replace(views=cropped.views[:1]), form="file")
    still = state.replace(views=(first.transform(first.picture, first.parts[0].affine),))
    assert len(send(still).views) == 1
    picture = Picture.encoded(first.picture.payload.data)
    plain = State.start(Sample("b", "q", (picture,)))
    assert send(plain).views == plain.views
    assert send(state, form="frames").views == state.views


def test_a_still_shows_frames_of_a_video_and_leaves_other_bytes(folder: Path) -> None:
    sheet = Image.open(io.BytesIO(make_still((folder / "six.mp4").read_bytes())))
    assert sheet.size == (3 * 98 - 2, 3 * 66 - 2)
    for data in (b"", b"\x89PNG....", (folder / "six.mp4").read_bytes()[:2000]):
        assert make_still(data) == data


class Processor:
    """A processor with a video processor, which keeps what it was given."""

    video_processor, chat_template = object(), "{messages}"

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def apply_chat_template(self, turns: list[Any], **more: Any) -> str:
        return " ".join(part["type"] for part in turns[0]["content"])

    def __call__(self, **given: Any) -> Any:
        self.given = given
        return SimpleNamespace(to=lambda device, dtype: "inputs")


def test_local_networks_are_given_frames_and_times(folder: Path) -> None:
    model, processor = LocalVLM("none", max_pixels=600), Processor()
    chat = model.make_chat([Message("user", (send(start(folder)).views[0], "Where?"))])
    network: Any = SimpleNamespace(processor=processor, model=SimpleNamespace(device=0, dtype=0))
    assert model.make_inputs(network, [chat]) == "inputs"
    given = processor.given
    assert given["text"] == ["video text"] and given["images"] is None
    assert given["videos"][0].shape == (4, 20, 30, 3) and given["do_sample_frames"] is False
    (facts,) = given["video_metadata"]
    times = [place / facts["fps"] for place in facts["frames_indices"]]
    assert times == pytest.approx([0, 1.989, 3.978, 5.967], abs=1e-6)


@pytest.mark.slow
def test_a_network_without_a_video_processor_says_so(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = LocalVLM(str(tiny("llava", tmp_path / "llava")), max_tokens=2)
    with pytest.raises(ModelError, match="takes no videos here"):
        model([Message("user", (send(start(folder)).views[0], "Where?"))])


def test_worker_processes_are_given_the_times_of_frames(folder: Path) -> None:
    (item,) = Folder(folder, video=Video(frames=4))
    there = pickle.loads(pickle_message(item.sample))
    assert [image.seconds for image in there.images] == item.sample.meta["seconds"]
    assert there.images[1].payload.note == item.sample.images[1].payload.note
    assert there.sha == item.sample.sha


def test_batches_of_other_providers_take_or_refuse_a_video(folder: Path) -> None:
    view = send(start(folder)).views[0]
    chat = ChatAPI("tiny", "http://127.0.0.1:1/v1", max_tokens=5)
    body = json.loads(write_request(chat.make_body([Message("user", (view, "Where?"))])))
    video, _ = make_content_request(body)["contents"][0]["parts"]
    assert video["inlineData"]["mimeType"] == "video/mp4"
    assert base64.b64decode(video["inlineData"]["data"]) == view.picture.payload.data
    with pytest.raises(ModelError, match="Anthropic takes no videos"):
        make_message_request(body)


@pytest.mark.slow
def test_transformers_reads_the_same_times(folder: Path) -> None:
    module = pytest.importorskip("transformers.video_utils")
    chat = build_chat([Message("user", (send(start(folder)).views[0],))])
    given = make_inputs(Processor(), chat.videos)
    (known,) = module.make_batched_metadata(given["videos"], given["video_metadata"])
    assert known.timestamps == pytest.approx([0, 1.989, 3.978, 5.967], abs=1e-6)
    assert known.sampled_fps == pytest.approx(3 / 5.967)


def test_a_run_shows_its_frames_without_the_videos(server: ChatServer, folder: Path) -> None:
    (row,) = RunFolder(folder / "study").samples.values()
    stored = row.without_pixels(RunFolder(folder / "study").blobs)
    (item,) = Folder(folder, video=Video(frames=4))
    for number in (0, 1, 3):  # the other one was sent with its mark alone
        assert np.array_equal(stored.images[number].pixels, item.sample.images[number].pixels)
