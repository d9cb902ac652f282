"""The sent bytes are exactly those of the codec, and the record has their size."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import get_sampling
from skimage.data import astronaut

from looktwice.eval.records import Record
from looktwice.pipelines.marks import Box
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel, Pipeline, RecordingModel, run_stages
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.prompting.markers import Rectangles
from looktwice.prompting.turns import Ask
from looktwice.prompting.views import Encode
from looktwice.prompting.views.encode import Chroma
from looktwice.prompting.views.seen import find_drawings
from tests.prompting.scenes import record_state

PHOTO: Pixels = np.ascontiguousarray(astronaut()[60:220, 130:350])  # type: ignore[no-untyped-call]


def jpeg(quality: int = 80) -> bytes:
    file = io.BytesIO()
    Image.fromarray(PHOTO).save(file, "JPEG", quality=quality)
    return file.getvalue()


def start(picture: Picture | None = None) -> State:
    return State.start(Sample("s1", "What is this?", (picture or Picture(PHOTO),)))


def encode(stage: Encode, picture: Picture | None = None) -> State:
    return stage(start(picture), NoModel())


@pytest.mark.parametrize("quality", [1, 50, 95, 100])
@pytest.mark.parametrize(("chroma", "sampling"), [("4:4:4", 0), ("4:2:2", 1), ("4:2:0", 2)])
def test_jpeg_has_the_configured_quality_and_chroma(
    quality: int, chroma: str, sampling: int
) -> None:
    view = encode(Encode("jpeg", quality, chroma)).views[0]  # type: ignore[arg-type]
    payload = view.picture.payload
    with Image.open(io.BytesIO(payload.data)) as image:
        assert image.format == "JPEG"
        assert get_sampling(image) == sampling
        with Image.open(io.BytesIO(jpeg(quality))) as reference:
            assert image.quantization == reference.quantization  # type: ignore[attr-defined]
        assert (np.asarray(image) == view.pixels).all()
    assert (payload.media_type, payload.note) == ("image/jpeg", "")
    assert payload.sha == hashlib.sha256(payload.data).hexdigest()


def test_colours_are_not_swapped_and_thin_red_survives_full_chroma() -> None:
    pixels = np.full((64, 64, 3), 120, np.uint8)
    pixels[:, 31] = (255, 0, 0)
    chromas: tuple[Chroma, ...] = ("4:4:4", "4:2:0")
    line = {
        c: encode(Encode("jpeg", 90, c), Picture(pixels)).views[0].pixels[:, 31].mean(0)
        for c in chromas
    }
    assert line["4:4:4"][0] > 235
    assert line["4:4:4"][1] < 20
    assert line["4:2:0"][0] - line["4:2:0"][1] < 0.7 * (line["4:4:4"][0] - line["4:4:4"][1])


@pytest.mark.parametrize(
    "encode", [Encode("jpeg", 90, "4:2:0"), Encode("webp"), Encode("jpeg", 90, "4:4:4")]
)
@pytest.mark.parametrize("thickness", [1, 6])
def test_a_record_notes_a_mark_that_lost_its_colour(encode: Encode, thickness: int) -> None:
    marks = (Box("A", 12, 12, 44, 44),)  # on the grid of 2 x 2, where a thin line loses most
    sample = Sample("s1", "?", (Picture(np.full((64, 64, 3), 120, np.uint8)),), (), marks)
    mark = Rectangles(color="red", thickness=thickness, label=None)
    stages: dict[str, Stage | None] = {"mark": mark, "encode": encode}
    trial = run_stages(stages, sample, 0, 0, RecordingModel(NoModel(), "s1"))
    assert trial.error is None
    subsampled = encode.codec == "webp" or encode.chroma == "4:2:0"
    notes = [note for note in trial.state.notes if "of its colour when sent" in note]
    assert len(notes) == (subsampled and thickness == 1)
    assert all(note.startswith("the drawing of stage 'mark' keeps ") for note in notes)


def test_an_encoding_is_no_drawing() -> None:
    mark = Box("A", 40, 40, 120, 110)
    sample = Sample("s", "?", (Picture(PHOTO),), marks=(mark,))
    stages: dict[str, Stage] = {"mark": Rectangles(), "encode": Encode("jpeg", 50)}
    trial = run_stages(stages, sample, 0, 0, RecordingModel(Scripted(), "s"))
    assert [drawing.slot for drawing in find_drawings(trial.state, stages)] == ["mark"]


def test_webp_lossy_and_lossless() -> None:
    lossy, lossless = (encode(Encode("webp", lossless=flag)).views[0] for flag in (False, True))
    for view in (lossy, lossless):
        assert view.picture.payload.media_type == "image/webp"
        assert view.picture.payload.note == ""
    assert (lossless.pixels == PHOTO).all()
    assert 0 < np.abs(lossy.pixels.astype(int) - PHOTO).mean() < 6
    assert len(lossy.picture.payload.data) < len(lossless.picture.payload.data) / 3


def test_png_is_lossless_keep_changes_nothing_and_a_jpeg_is_encoded_again() -> None:
    source = Picture.encoded(jpeg())
    kept = start(source)
    assert Encode()(kept, NoModel()).views[0] is kept.views[0]
    png = Encode("png")(kept, NoModel()).views[0]
    assert png.picture.payload.media_type == "image/png"
    assert (png.pixels == source.pixels).all()
    made = start()
    # it would be sent as PNG anyway
    assert Encode("png")(made, NoModel()).views[0] is made.views[0]
    again = encode(Encode("jpeg", 80, "4:2:0"), source).views[0]
    assert again.picture.payload.data != source.payload.data
    assert again.parts == png.parts == kept.views[0].parts and again.size == source.size
    for codec in ("png", "jpeg", "webp"):
        one = encode(Encode(codec), Picture(np.full((1, 1, 3), 200, np.uint8))).views[0]
        assert one.size == (1, 1) and one.picture.payload.data


def test_limits_of_a_format_are_reported_with_the_sample() -> None:
    wide = Picture(np.zeros((1, 17_000, 3), np.uint8))
    with pytest.raises(ValueError, match=r"sample s1: webp .*16383 .*17000 x 1"):
        encode(Encode("webp"), wide)


def test_the_record_names_the_sent_bytes(tmp_path: Path) -> None:
    state = Pipeline({"encode": Encode("jpeg", 75), "ask": Ask()})(start(), Scripted(["a woman"]))
    record = record_state(state, tmp_path)
    (sent,) = record.sent
    data = Blobs(tmp_path / "blobs").get(sent["sha"])
    sha, size = hashlib.sha256(data).hexdigest(), {"width": 220, "height": 160}
    assert sent == {"sha": sha, "bytes": len(data), "type": "image/jpeg", **size}
    assert record.pictures == (sha,)
    assert Record.from_line(record.to_line()) == record
    raw = record_state(Pipeline({"ask": Ask()})(start(), Scripted(["x"])), tmp_path)
    assert raw.sent[0]["note"] == "made or changed by a stage"
