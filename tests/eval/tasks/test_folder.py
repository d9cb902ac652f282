"""A user's JSONL and images: what is read, what is refused, and all faults at once."""

import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval.scoring import AllRight
from looktwice.eval.scoring.verdict import build_scorer
from looktwice.eval.tasks import Folder, Subset, TaskError
from looktwice.eval.tasks.base import RowErrors, count_items
from looktwice.pipelines.marks import Box, Mask, Point
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Item, check_marks
from tests.tables import table

CHOICES: dict[str, Any] = {"choices": ["cat", "dog"], "answer": "B"}
ROW: dict[str, Any] = {"id": "a", "question": "Which?", "image": "a.png", **CHOICES}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the images a.png, 20 x 10, and sub/b.jpg, 8 x 6."""
    (tmp_path / "sub").mkdir()
    cv2.imwrite(str(tmp_path / "a.png"), np.full((10, 20, 3), 90, np.uint8))
    cv2.imwrite(str(tmp_path / "sub" / "b.jpg"), np.full((6, 8, 3), 200, np.uint8))
    return tmp_path


def write(folder: Path, *rows: Any, file: str = "samples.jsonl") -> Folder:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / file).write_text("\n".join(lines), encoding="utf-8")
    return Folder(folder, file)


def only(folder: Path, **changes: Any) -> Item:
    (item,) = write(folder, {**ROW, **changes})
    return item


def test_a_full_row(folder: Path) -> None:
    marks = [
        {"label": "A", "x": 3.5, "y": 2},
        {"label": "B", "x0": 0, "y0": 0, "x1": 8, "y1": 6, "image": 1},
        {"label": "M", "size": [10, 20], "counts": [5, 10, 185]},
    ]
    row = {**ROW, "marks": marks, "meta": {"pair": 7}, "images": ["a.png", "sub/b.jpg"]}
    del row["image"]
    (item,) = write(folder, "", row, "")
    assert (item.answer, item.sample.choices) == ("B", ("cat", "dog"))
    assert item.sample.meta == {"pair": 7}
    assert [image.size for image in item.sample.images] == [(20, 10), (8, 6)]
    point, box, mask = item.sample.marks
    assert (point, box) == (Point("A", 3.5, 2), Box("B", 0, 0, 8, 6, image=1))
    assert isinstance(mask, Mask) and mask.pixels.sum() == 10


@table
def test_the_correct_answer_is_a_letter_or_text(
    folder: Path, choices: Any, given: Any, key: str | None
) -> None:
    assert only(folder, choices=choices, answer=given).answer == key


def test_choices_can_be_pictures(folder: Path) -> None:
    choices = only(folder, choices=[{"image": "a.png"}, {"image": "sub/b.jpg"}]).sample.choices
    assert [c.size for c in choices if isinstance(c, Picture)] == [(20, 10), (8, 6)]


@table
def test_a_faulty_row_is_named(folder: Path, changes: dict[str, Any], said: str) -> None:
    (folder / "link.png").symlink_to(Path("/etc/hostname"))
    with pytest.raises(TaskError) as caught:
        only(folder, **changes)
    assert said in str(caught.value)
    assert f"{folder / 'samples.jsonl'}: 1 fault\n  line 1: " in str(caught.value)


@table
def test_a_line_must_be_an_object(folder: Path, line: str, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        len(write(folder, line))
    # regression: it said "`__len__` gives no number of samples"
    with pytest.raises(TaskError, match="^" + re.escape(str(folder))):
        count_items(Folder(folder))


def test_a_file_in_another_encoding(folder: Path) -> None:
    (folder / "samples.jsonl").write_bytes('{"id": "a", "question": "größer?"}'.encode("latin-1"))
    with pytest.raises(TaskError, match="line 1: not UTF-8"):
        len(Folder(folder))
    (folder / "samples.jsonl").write_bytes('\ufeff{"id": "a", "question": "größer?"}\r\n'.encode())
    assert next(iter(Folder(folder))).sample.question == "größer?"


def test_similar_faults_are_counted(folder: Path) -> None:
    rows = [{**ROW, "id": str(number), "answer": "Z"} for number in range(30)]
    with pytest.raises(TaskError) as caught:
        len(write(folder, ROW, ROW, *rows))
    first, twice, alike = str(caught.value).splitlines()
    assert "31 faults" in first
    assert twice.endswith("line 2: line 1 already has the id 'a'; ids must be unique")
    assert alike.startswith("  line 3: the answer 'Z'") and alike.endswith("(29 more like this)")


def test_up_to_twenty_faults_are_listed_at_once() -> None:
    faults, letters = RowErrors("a.jsonl", "lines"), "abcdefghijklmnopqrstuvwxyz"
    for letter in letters:
        faults.add(1, f"{letter} is missing")
    with pytest.raises(TaskError) as caught:
        faults.raise_any()
    lines = [f"  line 1: {letter} is missing" for letter in letters[:20]]
    wanted = ["a.jsonl: 26 faults", *lines, "  ... and 6 more"]
    assert str(caught.value).splitlines() == wanted


@table
def test_a_mark_outside_its_image_is_a_fault(
    folder: Path, mark: dict[str, Any], where: str
) -> None:
    text = json.dumps({**ROW, "id": "b", "marks": [mark]}).replace("Infinity", "1e999")
    (item,) = write(folder, text)
    if not where:
        check_marks(item.sample)
        return
    sentence = f"sample b: .*{re.escape(where)}.* outside its image 0 of 20 x 10 pixels"
    with pytest.raises(ValueError, match=sentence):
        check_marks(item.sample)


def test_marks_refer_to_the_upright_image(folder: Path) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (20, 10)).save(folder / "turned.jpg", exif=exif)
    inside = only(folder, image="turned.jpg", marks=[{"x": 5, "y": 15}]).sample
    assert inside.images[0].size == (10, 20)
    check_marks(inside)
    with pytest.raises(ValueError, match="10 x 20"):
        check_marks(only(folder, image="turned.jpg", marks=[{"x": 15, "y": 5}]).sample)


NOISE = np.random.default_rng(0).integers(0, 255, (90, 120, 3), np.uint8)
JPEG, PNG = (bytes(cv2.imencode(ending, NOISE)[1]) for ending in (".jpg", ".png"))
HEAD = b"IHDR" + struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
BOMB = PNG[:8] + struct.pack(">I", 13) + HEAD + struct.pack(">I", zlib.crc32(HEAD)) + PNG[33:]


@pytest.mark.parametrize("data", [None, b"", b"hello", JPEG[:999], PNG[:999], BOMB])
def test_one_bad_image_fails_only_its_own_sample(folder: Path, data: bytes | None) -> None:
    if data is not None:
        (folder / "bad.img").write_bytes(data)
    row = {**ROW, "marks": [{"label": "A", "x": 5, "y": 5}]}
    bad, good = write(folder, {**row, "image": "bad.img"}, {**row, "id": "b"})
    assert good.sample.images[0].pixels.shape == (10, 20, 3)
    with pytest.raises(PictureError, match=r"bad\.img"):
        _ = bad.sample.images[0].pixels


def test_a_folder_with_no_images_is_refused(folder: Path) -> None:
    with pytest.raises(TaskError, match=r"none of the 2 images exists; the first is .*x\.png"):
        list(write(folder, {**ROW, "image": "x.png"}, {**ROW, "id": "b", "image": "y.png"}))


def test_images_are_read_only_when_used(folder: Path) -> None:
    (item, _) = write(folder, ROW, {**ROW, "id": "b", "image": "sub/b.jpg"})
    assert "not decoded yet" in repr(item.sample.images[0])
    cv2.imwrite(str(folder / "a.png"), np.zeros((4, 4, 3), np.uint8))
    assert item.sample.images[0].size == (4, 4)


def test_images_with_marks_are_measured_only_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = write(folder, {**ROW, "marks": [{"label": "A", "x": 5, "y": 5}]})
    looked = iter((20, 10))
    monkeypatch.setattr(Picture, "size", property(lambda picture: (next(looked), next(looked))))
    assert [len(list(task)) for _ in range(3)] == [1, 1, 1]


def test_subset_and_facts(folder: Path) -> None:
    rows = [{**ROW, "id": str(number), "meta": {"room": number % 3}} for number in range(12)]
    write(folder, *rows)
    small = Folder(folder, subset=Subset(n=1, per="room"))
    assert len(small) == len(list(small)) == 3
    assert {item.sample.meta["room"] for item in small} == {0, 1, 2}
    assert Folder(folder, split="dev", note="mine").facts.label_version.startswith("sha256 ")
    assert Folder(folder, label_version="v2").facts.label_version == "v2"
    halls = [item.sample.meta["room"] for item in Folder(folder, subset=Subset(n=2, whole="room"))]
    assert len(halls) == 8 and len(set(halls)) == 2  # all four questions of each of two rooms
    for subset, sentence in (
        (Subset(n=1, whole="floor"), r"subset\.whole: item 0 has no field 'floor'"),
        (Subset(n=1, per="floor"), "has no field 'floor'; it has"),
        (Subset(n=0), "keeps none of "),
    ):
        with pytest.raises(TaskError, match=sentence):
            len(Folder(folder, subset=subset))


@table
def test_an_empty_question_file_is_refused(folder: Path, file: str, said: str) -> None:
    (folder / "empty.jsonl").write_text("\n\n")
    with pytest.raises(TaskError, match=said):
        len(Folder(folder, file))


def test_a_folder_can_name_its_scorer(folder: Path) -> None:
    write(folder, ROW)
    scored = Folder(folder, scorer=AllRight())
    assert scored.facts.scorer == AllRight()
    assert build_scorer({"scorer": scored.facts.scorer}) == AllRight()
    assert not Folder(folder).facts.scorer
