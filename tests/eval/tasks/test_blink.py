"""BLINK's parquet layout: what is read, what is refused, and the real files if available."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from looktwice.eval.tasks import Blink, Subset, TaskError
from looktwice.eval.tasks.table_files import IMAGE_ROWS_IN_MEMORY
from looktwice.pipelines.config import ConfigError, load_plan
from looktwice.pipelines.picture import PictureError
from tests.first_day.studies import get_output
from tests.tables import table

TEXT, IMAGE = pa.string(), pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FIELDS = {name: TEXT for name in ("idx", "question", "sub_task", "answer", "prompt", "explanation")}
IMAGES = {f"image_{number}": IMAGE for number in (1, 2, 3, 4)}
SCHEMA = pa.schema([*(FIELDS | IMAGES | {"choices": pa.list_(TEXT)}).items()])


def picture(value: int) -> dict[str, Any]:
    pixels = np.full((6, 8, 3), value, np.uint8)
    return {"bytes": bytes(cv2.imencode(".jpg", pixels)[1]), "path": "image.jpg"}


def row(number: int, **changes: Any) -> dict[str, Any]:
    fields = {
        "idx": f"val_Jigsaw_{number}",
        "question": "Which one?",
        "sub_task": "Jigsaw",
        "image_1": picture(number % 200),
        "image_2": picture(10),
        "choices": ["the second image", "the third image"],
        "answer": f"({'AB'[number % 2]})",
        "prompt": "Which one?\n(A) the second image\n(B) the third image\n",
        "explanation": "it is secret",
    }
    return fields | changes


def write(
    root: Path, rows: list[dict[str, Any]], file: str = "val-00000-of-00001.parquet", **options: Any
) -> Blink:
    folder = root / "Jigsaw"
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / file, **options)
    return Blink(root, "Jigsaw", file.split("-")[0])


def test_the_hub_gives_the_same_questions_as_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same questions, and the commit they come from."""
    write(tmp_path, [row(1)])
    asked = dict[str, Any]()

    def fetch(hub: str, **settings: Any) -> str:
        asked.update(settings, hub=hub)
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=fetch))
    fetched = Blink(name="Jigsaw", hub="BLINK-Benchmark/BLINK")
    assert [item.sample.id for item in fetched] == ["val_Jigsaw_1"]
    assert fetched.facts.revision.endswith(tmp_path.name)
    assert asked["allow_patterns"] == ["Jigsaw/val-*.parquet"]
    with pytest.raises(TaskError, match="'Jigsaw'"):
        Blink(name="Jigsa", hub="BLINK-Benchmark/BLINK")
    with pytest.raises(TaskError, match="`path`"):
        next(iter(Blink(name="Jigsaw")))


def test_a_row_becomes_an_item(tmp_path: Path) -> None:
    first, second = write(tmp_path, [row(1), row(2, answer="hidden")])
    assert (first.answer, second.answer) == ("B", None)
    sample = first.sample
    assert (sample.id, sample.question) == ("val_Jigsaw_1", "Which one?")
    assert sample.choices == ("the second image", "the third image")
    assert sample.meta == {"subtask": "Jigsaw", "prompt": row(1)["prompt"], "row": 0}
    assert [image.size for image in sample.images] == [(8, 6), (8, 6)]
    assert sample.images[0].payload.data == row(1)["image_1"]["bytes"]
    assert sample.images[0].name == "val_Jigsaw_1 image_1"
    assert "secret" not in str(sample.to_dict())


@pytest.mark.parametrize(
    "options", [{}, {"row_group_size": 7}, {"row_group_size": 2 * IMAGE_ROWS_IN_MEMORY}]
)
def test_images_are_paired_with_their_rows(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = [row(number) for number in range(3 * IMAGE_ROWS_IN_MEMORY + 5)]
    write(tmp_path, rows, **options)
    for subset in (Subset(), Subset(n=9, seed=3), Subset(n=4, per="answer")):
        task = Blink(tmp_path, "Jigsaw", subset=subset)
        items = list(task)
        assert len(items) == len(task)
        for item in items:
            number = int(item.sample.id.rsplit("_", 1)[1])
            assert item.sample.meta["row"] == number
            assert item.answer == "AB"[number % 2]
            assert item.sample.images[0].payload.data == rows[number]["image_1"]["bytes"]


def test_several_files_form_one_split(tmp_path: Path) -> None:
    write(tmp_path, [row(1), row(2)], "val-00000-of-00002.parquet")
    with pytest.raises(TaskError, match="1 of 00002 files of the split val"):
        len(Blink(tmp_path, "Jigsaw"))
    task = write(tmp_path, [row(3)], "val-00001-of-00002.parquet")
    assert [item.sample.id for item in task] == ["val_Jigsaw_1", "val_Jigsaw_2", "val_Jigsaw_3"]
    assert [item.sample.meta["row"] for item in task] == [0, 1, 2]
    write(tmp_path, [row(2)], "val-00001-of-00002.parquet")
    with pytest.raises(
        TaskError, match=r"Jigsaw: 1 fault\n  row 2: row 1 already has the id 'val_Jigsaw_2'"
    ):
        len(Blink(tmp_path, "Jigsaw"))


@table
def test_a_faulty_row_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskError) as caught:
        len(write(tmp_path, [row(1), row(2, **changes)]))
    assert "row 1: " in str(caught.value) and said in str(caught.value)
    assert "val-00000-of-00001.parquet: 1 fault" in str(caught.value)


@pytest.mark.parametrize(
    "image", [None, {"bytes": None, "path": "image.jpg"}, {"bytes": b"", "path": None}]
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_missing_image_fails_only_its_own_sample(tmp_path: Path, image: Any, place: int) -> None:
    changes = {f"image_{place + 1}": image, f"image_{place + 2}": picture(3)}
    bad, good = write(tmp_path, [row(1, **changes), row(2)])
    assert good.sample.images[0].size == (8, 6)
    assert [image.name[-7:] for image in bad.sample.images][-1] == f"image_{place + 2}"
    with pytest.raises(
        PictureError, match=f"Jigsaw_1 image_{place + 1}: the parquet file has no bytes"
    ):
        _ = bad.sample.images[place].pixels


NO_PICTURE = {"idx": ["a"], "query": ["b"], "image_1": pa.array([picture(1)], IMAGE)}
WRONG_TYPE: dict[str, list[Any]] = {name: ["x"] for name in SCHEMA.names} | {"idx": [1]}


def test_columns_and_their_types_are_checked(tmp_path: Path) -> None:
    (tmp_path / "Jigsaw").mkdir()
    for columns, fault in (
        (NO_PICTURE, "question, sub_task, .*it has idx, query, image_1"),
        (WRONG_TYPE, "row 0: expected a non-empty string in idx"),
    ):
        pq.write_table(pa.table(columns), tmp_path / "Jigsaw" / "val-00000-of-00001.parquet")
        with pytest.raises(TaskError, match=fault):
            len(Blink(tmp_path, "Jigsaw"))


@pytest.mark.parametrize("damage", [b"not parquet", b"", None])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: bytes | None) -> None:
    task = write(tmp_path, [row(number) for number in range(40)])
    file = tmp_path / "Jigsaw" / "val-00000-of-00001.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + bytes(396) + whole[400:] if damage is None else damage)
    with pytest.raises(TaskError, match="is not a complete parquet file"):
        list(task)


def test_empty_sets_and_unknown_splits_or_folders(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no row"):
        len(write(tmp_path, []))
    write(tmp_path, [row(1)])
    with pytest.raises(TaskError, match="keeps none of 1 question"):
        len(Blink(tmp_path, "Jigsaw", subset=Subset(n=0)))
    with pytest.raises(TaskError, match="splits in it are: val"):
        len(Blink(tmp_path, "Jigsaw", "train"))
    with pytest.raises(TaskError, match="no folder"):
        Blink(tmp_path / "blink", "Jigsaw")


@table
def test_an_unknown_task_is_refused(tmp_path: Path, name: str, fault: str) -> None:
    write(tmp_path, [row(1)])
    with pytest.raises(TaskError) as caught:
        len(Blink(tmp_path, name))
    assert fault in str(caught.value)


def test_a_study_skips_tasks_whose_files_are_missing(tmp_path: Path) -> None:
    write(tmp_path, [row(1)])
    task = f"{{use: eval.tasks.Blink, path: {tmp_path}, name: "
    tasks = f"tasks: {{a: {task}Jigsaw}}, b: {task}IQ_Test}}, c: {task}Counting}}}}\n"
    stages = "stages: {answer: {use: specialists.answers.Chance}}\n"
    (study := tmp_path / "study.yaml").write_text(tasks + stages)
    plan = load_plan(study)
    assert [arm.task_name for arm in plan.points] == ["a"]
    assert plan.left_out == dict.fromkeys(["tasks.b", "tasks.c"], "BLINK: 1 of 14 found: Jigsaw")
    assert "left out: 2 tasks (BLINK: 1 of 14 found: Jigsaw)" in get_output("check", study)
    with pytest.raises(ConfigError, match=r"^tasks\.b: .*IQ_Test is missing"):
        load_plan(study, ["tasks.a=null"])
    study.write_text(study.read_text() + "contestants: {all: {}, few: {only: [b, c]}}")
    assert {*load_plan(study).left_out} == {"tasks.b", "tasks.c", "few"}
    assert "left out: 2 tasks, few (BLINK: 1 of 14" in get_output("check", study)


def test_facts_name_the_revision_and_the_errata(tmp_path: Path) -> None:
    first = write(tmp_path, [row(1)]).facts
    second = write(tmp_path, [row(1, answer="(A)")]).facts
    assert (first.split, first.errata) == ("val", ())
    assert first.label_version.startswith("as in the file, sha256 ")
    assert first.label_version != second.label_version
    (tmp_path / "Jigsaw").rename(tmp_path / "Relative_Reflectance")
    assert "2025-09-03" in Blink(tmp_path, "Relative_Reflectance").facts.errata[0]


@pytest.mark.parametrize(
    ("name", "n", "images"),
    [("Jigsaw", 75, 3), ("Relative_Depth", 62, 1), ("Spatial_Relation", 72, 1)],
)
def test_the_real_files(shared_data: Path, name: str, n: int, images: int) -> None:
    items = list(Blink(shared_data / "blink", name))
    assert len(items) == n and {item.answer for item in items} == {"A", "B"}
    for item in items:
        assert len(item.sample.images) == images
        assert item.sample.id.startswith(f"val_{name}_")
        assert item.sample.meta["prompt"].count("\n(") == 2
    payload = items[0].sample.images[0].payload
    assert (payload.note, payload.media_type) == ("", "image/jpeg")
