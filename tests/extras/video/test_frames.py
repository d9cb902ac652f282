"""Frames of videos in questions: which are shown, their pixels, times and marks."""

import base64
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval.tasks import Columns, Folder, TaskError, Tsv
from looktwice.extras.video import Video
from looktwice.extras.video.video_file import VideoFile
from looktwice.pipelines import Picture, Sample, State
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.transforms import crop, resize
from tests.films import (
    VARIABLE,
    av,
    constant,
    decode_film,
    find_square,
    make_film,
    place,
    turn_film,
)
from tests.tables import table

SIX = constant(6.0)
QUICK = {"bf": "0", "cpu-used": "8", "deadline": "realtime"}
FILMS: dict[str, Callable[[Path], Path]] = {
    "six.mp4": lambda path: make_film(path, SIX),
    "variable.mkv": lambda path: make_film(path, VARIABLE),
    "variable.mp4": lambda path: make_film(path, VARIABLE),
    "late.ts": lambda path: make_film(path, constant(2), offset=5.0),
    "late.mkv": lambda path: make_film(path, constant(2), offset=2.0),
    "reordered.avi": lambda path: make_film(path, constant(2), "mpeg4"),
    "open.ts": lambda path: make_film(path, SIX, options={"x264-params": "open-gop=1:keyint=15"}),
    "web.webm": lambda path: make_film(path, VARIABLE, "libvpx-vp9", options=QUICK),
}


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all films."""
    folder = tmp_path_factory.mktemp("films")
    for name, make in FILMS.items():
        make(folder / name)
    turn_film(make_film(folder / "turned.mp4", constant(1)))
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "text.mp4").write_text("#EXTM3U\nsix.mp4\n")
    (folder / "cut.mp4").write_bytes((folder / "six.mp4").read_bytes()[:3000])
    return folder


def ask(folder: Path, shown: Video, **line: Any) -> Sample:
    """Return the sample of one line of a `Folder`."""
    line = {"id": "a", "question": "Where is it?", "video": "six.mp4", **line}
    (folder / "samples.jsonl").write_text(json.dumps(line))
    (item,) = Folder(folder, video=shown)
    return item.sample


def fault(sample: Sample) -> str:
    """Return the message with which a sample fails."""
    with pytest.raises(PictureError) as raised:
        State.start(sample)
    return str(raised.value)


@table
def test_times_of_frames(
    setting: dict[str, Any], file: str, seconds: list[float], films: Path
) -> None:
    sample = ask(films, Video(**setting), video=file)
    assert sample.meta["seconds"] == pytest.approx(seconds, abs=1e-3)
    assert [picture.seconds for picture in sample.images] == sample.meta["seconds"]


@pytest.mark.parametrize("file", FILMS)
def test_frames_are_those_of_pyav_bit_for_bit(file: str, films: Path) -> None:
    known = decode_film(films / file)
    times = [time for time, _ in known]
    number = min(7, len(known))
    sample = ask(films, Video(frames=number), video=file)
    for picture, time in zip(sample.images, np.linspace(0, times[-1], number), strict=True):
        shown = sum(start <= time + 0.0006 for start in times) - 1
        assert np.array_equal(picture.pixels, known[shown][1])
        assert sample.meta["frame_numbers"][sample.images.index(picture)] == shown


def test_a_frame_is_decoded_alone_as_in_the_whole_film(films: Path) -> None:
    known = decode_film(films / "six.mp4")
    for number in (0, 14, 15, 16, 100, 179):
        sample = ask(films, Video(times=(number / 30,)))
        assert np.array_equal(sample.images[0].pixels, known[number][1]), number


def test_a_turned_film_is_shown_upright(films: Path) -> None:
    sample = ask(films, Video(frames=2), video="turned.mp4")
    assert sample.images[0].size == (64, 96)
    stored = decode_film(films / "turned.mp4")[0][1]
    assert np.array_equal(sample.images[0].pixels, np.rot90(stored, -1))


def test_repeated_frames_and_copies_are_decoded_again(films: Path) -> None:
    sample = ask(films, Video(times=(3.1, 3.2, 5.5)), video="variable.mkv")
    first, second, third = sample.images
    assert np.array_equal(first.pixels, second.pixels) and sample.meta["frame_numbers"] == [
        9,
        9,
        10,
    ]
    other = copy(sample.images[2])
    assert np.array_equal(other.pixels, third.pixels) and other.pixels is not third.pixels


def test_frames_are_sent_without_loss_and_named(films: Path) -> None:
    frame = ask(films, Video(frames=2)).images[1]
    assert frame.payload.media_type == "image/png" and frame.payload.note == "a frame of a video"
    assert frame.make_thumbnail(24).size == (24, 16)
    assert [view.seconds for view in State.start(ask(films, Video(frames=2))).views] == [
        [0.0],
        [pytest.approx(5.967)],
    ]


def test_marks_stay_on_their_frame_through_crop_and_resize(films: Path) -> None:
    """The centre of the square, measured on the pixels, is where the view places its mark."""
    marks = []
    for label, seconds in (("A", 1.0), ("B", 4.0)):
        x, y = place(round(seconds * 30), len(SIX))
        marks.append({"label": label, "x": x, "y": y, "seconds": seconds})
    sample = ask(films, Video(frames=3, at_marks=True), marks=marks)
    assert [mark.image for mark in sample.marks] == [1, 3]
    assert sample.meta["seconds"] == pytest.approx([0, 1, 2.983, 4, 5.967], abs=1e-3)
    state = State.start(sample)
    for mark in sample.marks:
        view = state.views[mark.image]
        changed = resize(crop(view, 5, 10, 89, 60), 252, 150)
        assert changed.seconds == view.seconds
        for shown in (view, changed):
            (placed,) = shown.to_view(mark)
            assert placed.center == pytest.approx(find_square(shown.pixels), abs=0.6)
        others = [v for v in state.views if v is not view]
        assert not any(other.to_view(mark) for other in others)


def test_a_mark_names_its_frame_by_number(films: Path) -> None:
    sample = ask(films, Video(frames=3), marks=[{"label": "A", "x": 1, "y": 2, "image": 2}])
    assert sample.marks[0].image == 2


def test_several_videos_in_a_question(films: Path) -> None:
    marks = [{"label": "A", "x": 1, "y": 1, "image": 1, "seconds": 6.0}]
    video = Video(frames=2, at_marks=True)
    sample = ask(films, video, video=["six.mp4", "variable.mkv"], marks=marks)
    assert sample.meta["frame_numbers"] == [0, 179, 0, 11] and sample.marks[0].image == 3


@table
def test_one_sentence_for_each_fault(
    setting: dict[str, Any], line: dict[str, Any], words: str, films: Path
) -> None:
    assert words in fault(ask(films, Video(**setting), **line))


@table
def test_impossible_settings(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        Video(**setting)


def test_lines_that_fit_no_video_are_listed(films: Path) -> None:
    for video, line, words in (
        (None, {"video": "six.mp4"}, "needs a setting"),
        (Video(frames=2), {"image": "a.png"}, "must name `video`"),
        (Video(frames=2), {"video": "a.mp4", "image": "a.png"}, "instead of an image"),
        (
            Video(frames=2),
            {"video": "six.mp4", "marks": [{"x": 1, "y": 1, "seconds": "two"}]},
            "'two'",
        ),
    ):
        (films / "samples.jsonl").write_text(json.dumps({"id": 1, "question": "q", **line}))
        with pytest.raises(TaskError, match=words):
            len(Folder(films, video=video))


def test_a_line_without_a_video_has_no_frames(films: Path) -> None:
    (films / "samples.jsonl").write_text(json.dumps({"id": 1, "question": "q"}))
    (item,) = Folder(films, video=Video(frames=2))
    assert item.sample.images == ()


def test_tables_hold_paths_or_bytes(films: Path, tmp_path: Path) -> None:
    head = "index\tvideo\tquestion\tA\tB\tanswer\n"
    (tmp_path / "t.tsv").write_text(f"{head}1\tsix.mp4\tWhere?\tleft\tright\tB\n")
    tasks = [
        Tsv(tmp_path / "t.tsv", images=films, video=Video(frames=4)),
        Columns(tmp_path / "t.tsv", images=films, video=Video(frames=4)),
        Columns(
            tmp_path / "t.tsv",
            images=films,
            columns={"images": "video"},
            video=Video(frames=4, column="video"),
        ),
    ]
    for task in tasks:
        (item,) = task
        assert item.sample.meta["frame_numbers"] == [0, 59, 119, 179] and item.answer == "B"
    import pyarrow as pa
    import pyarrow.parquet as pq

    cell = {"bytes": (films / "six.mp4").read_bytes(), "path": "six.mp4"}
    pq.write_table(
        pa.table({"id": ["1"], "question": ["q"], "clip": [cell]}), tmp_path / "t.parquet"
    )
    (item,) = Columns(tmp_path / "t.parquet", video=Video(frames=4))
    assert np.array_equal(item.sample.images[3].pixels, decode_film(films / "six.mp4")[179][1])
    with pytest.raises(TaskError, match="no column of videos"):
        len(_without(tmp_path))


def test_tables_hold_base64_or_paths_in_a_zip(films: Path, tmp_path: Path) -> None:
    data = (films / "variable.mp4").read_bytes()
    with zipfile.ZipFile(tmp_path / "clips.zip", "w") as archive:
        archive.writestr("deep/a.mp4", data)
    head = "index\tvideo\tquestion\tA\tB\tanswer\n"
    for cell in ("deep/a.mp4", base64.b64encode(data).decode()):
        (tmp_path / "t.tsv").write_text(f"{head}1\t{cell}\tWhere?\tleft\tright\tB\n")
        (item,) = Tsv(tmp_path / "t.tsv", images=tmp_path / "clips.zip", video=Video(frames=3))
        assert item.sample.meta["frame_numbers"] == [0, 9, 11]


def _without(folder: Path) -> Columns:
    (folder / "w.tsv").write_text("id\tquestion\n1\tq\n")
    return Columns(folder / "w.tsv", video=Video(frames=1))


def test_facts_of_frames_do_not_replace_the_users_own(films: Path) -> None:
    assert "rename" in fault(ask(films, Video(frames=1), meta={"seconds": 6}))


def test_each_shot_is_found_at_its_own_time(films: Path) -> None:
    """Times that a container rounds to its clock belong to the frame that they round to."""
    video = VideoFile(Picture.open(films / "late.mkv"))
    assert [video.find_frame(number / 30) for number in range(60)] == [*range(60)]
    assert video.end == pytest.approx(2, abs=0.002)


def test_a_damaged_frame_is_not_shown(tmp_path: Path) -> None:
    """FFmpeg fills damaged areas with something alike, which a model would be asked about."""
    path = make_film(tmp_path / "six.mp4", SIX)
    with av.open(str(path)) as container:
        packets = [p for p in container.demux(video=0) if p.size and p.is_keyframe]
    data, packet = bytearray(path.read_bytes()), packets[6]
    data[packet.pos + 10 : packet.pos + packet.size] = b"\xff" * (packet.size - 10)
    path.write_bytes(data)
    time = float(packet.pts * packet.time_base)
    assert "cannot be decoded" in fault(ask(tmp_path, Video(times=(time,))))
    assert ask(tmp_path, Video(times=(5.0,))).images[0].size == (96, 64)


class CountedContainer:
    """A container that counts the frames that are decoded."""

    def __init__(self, container: Any) -> None:
        self.container, self.count = container, 0

    def seek(self, *given: Any, **named: Any) -> None:
        self.container.seek(*given, **named)

    def decode(self, stream: Any) -> Iterator[Any]:
        for frame in self.container.decode(stream):
            self.count += 1
            yield frame


def test_late_frames_are_reached_without_decoding_all_before(films: Path) -> None:
    video = VideoFile(Picture.open(films / "six.mp4"))
    wanted = [video.frames[number].timestamp for number in (2, 170)]
    keys = [entry.timestamp for entry in video.frames if entry.is_key]
    with video._open() as (container, stream):
        counted = CountedContainer(container)
        found = dict(video._decode_from(counted, stream, wanted, keys))
    assert [*found] == wanted and counted.count < 3 + 15


def test_without_pyav_the_command_that_installs_it_is_named(
    films: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(TaskError, match=r"videos need PyAV; install it with: pip install .*video"):
        ask(films, Video(frames=1))
