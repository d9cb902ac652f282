"""Each published set is read from files in its own format, and its configuration runs."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.eval.tasks.base import TaskError
from looktwice.extras import sets
from looktwice.extras.sets.embodied import insert_image_tags
from looktwice.extras.sets.point_answers import read_mask
from looktwice.extras.sets.tfrecord import parse_example
from looktwice.extras.sets.vis_factor import fill_question
from looktwice.pipelines.marks import Point
from looktwice.pipelines.sample import Item, describe_item_fault
from tests import set_layouts as made
from tests.paths import CONFIGS
from tests.tables import read_yaml, table

RUNS: dict[str, dict[str, Any]] = read_yaml(Path(__file__).with_suffix(".yaml"))["runs"]


def items_of(task: Any) -> dict[str, Item]:
    """Return the items of a task by id; each must be fit to ask, and its images readable."""
    items = list[Item](task)
    assert len(items) == len(task) and not task.facts.left_out
    for item in items:
        assert not describe_item_fault(item)
        assert all(image.size == made.SIZE for image in item.sample.images)
    return {item.sample.id: item for item in items}


@pytest.mark.parametrize("lay", ["baby_vision", "baby_vision_hub"])
def test_baby_vision_is_read_from_both_releases(lay: str, tmp_path: Path) -> None:
    items = items_of(sets.BabyVision(path=getattr(made, lay)(tmp_path)))
    assert {name: item.answer for name, item in items.items()} == {
        "10": "A", "11": "B", "12": "(4,7)", "13": "3",
    }  # fmt: skip
    assert items["11"].sample.choices == ("a", "b", "c") and not items["12"].sample.choices
    assert items["12"].sample.meta["subtype"] == "Maze"


def test_rows_of_baby_vision_without_a_key_are_left_out(tmp_path: Path) -> None:
    path = made.baby_vision(tmp_path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    full = [{**row, "taskId": row["taskId"] + 10 * n} for n in range(8) for row in rows]
    full[0]["choiceAns"], full[2]["blankAns"] = 3, "null"
    made.write_lines(path, full)
    task = sets.BabyVision(path=path)
    assert len(task) == 30
    assert "from 0 to 2" in task.facts.left_out[1] and "blankAns" in task.facts.left_out[2]


@pytest.mark.parametrize("packed", [True, False])
def test_points_of_da2k_become_marks_with_random_letters(packed: bool, tmp_path: Path) -> None:
    path = made.da2k(tmp_path)
    if not packed:
        zipfile.ZipFile(path).extractall(tmp_path)
        path = tmp_path / "DA-2K"
    items = items_of(sets.Da2k(path=path))
    assert [item.sample.meta["scene"] for item in items.values()] == ["indoor"] * 3 + ["aerial"]
    closer = {"images/indoor/a.jpg#0": (10, 8), "images/indoor/a.jpg#1": (5, 20)}
    closer |= {"images/indoor/b.jpg#0": (3, 30), "images/aerial/c.jpg#0": (63, 47)}
    for name, item in items.items():
        points = {mark.label: mark for mark in item.sample.marks if isinstance(mark, Point)}
        assert points.keys() == {"A", "B"}
        assert points[str(item.answer)].center == closer[name]
    dealt = {item.answer for seed in range(4) for item in sets.Da2k(path, seed)}
    assert dealt == {"A", "B"}


def test_pictures_of_erqa_are_in_their_places(tmp_path: Path) -> None:
    items = items_of(sets.Erqa(path=made.erqa(tmp_path)))
    first, second, third = (items[f"ERQA_{number}"] for number in (1, 2, 3))
    assert [item.answer for item in (first, second, third)] == ["A", "B", "A"]
    assert first.sample.choices == ("Up.", "Down.")
    assert first.sample.question.startswith("<image 1>Where")
    assert second.sample.question.startswith("Before: <image 1>After: <image 2>Where")
    assert third.sample.question.startswith("<image 1><image 2>Where")
    assert second.sample.meta["question_type"] == "Other"
    assert second.sample.bare_question.startswith("Before: \nAfter: \nWhere")


@table
def test_places_of_images(text: str, places: list[int], count: int, placed: str) -> None:
    assert insert_image_tags(text, places, count) == placed


def test_a_truncated_record_is_named(tmp_path: Path) -> None:
    path = made.erqa(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TaskError, match="extends beyond the end of the file"):
        len(sets.Erqa(path=path))


def test_numbers_of_examples_are_read_packed_or_not() -> None:
    for packed in (True, False):
        example = made.make_example({"n": [0, 300, -1], "t": [b"a", b""]}, packed)
        assert parse_example(example) == {"n": [0, 300, -1], "t": [b"a", b""]}
    with pytest.raises(ValueError, match="extends beyond"):
        parse_example(b"\x0a\x7f\x00")


def test_ref_spatial_is_read_from_both_forms(tmp_path: Path) -> None:
    hub = sets.RefSpatial(made.ref_spatial(tmp_path / "hub"), "placement")
    raw = sets.RefSpatial(made.ref_spatial_raw(tmp_path / "raw"))
    for items in (items_of(hub), items_of(raw)):
        assert [*items] == ["0", "1"]
        for item in items.values():
            mask = read_mask(item.truth["places"][0]["mask"])
            assert mask.sum() == 22 * 30 and mask[8:30, 10:40].all()
    assert items_of(hub)["1"].sample.meta["step"] == "2"


@pytest.mark.parametrize("packed", [True, False])
def test_point_bench_is_paired_by_name(packed: bool, tmp_path: Path) -> None:
    root = made.point_bench(tmp_path)
    if not packed:
        for kind in ("images", "masks"):
            zipfile.ZipFile(root / f"selected_{kind}.zip").extractall(root / kind)
            (root / f"selected_{kind}.zip").unlink()
    items = items_of(sets.PointBench(path=root))
    assert [*items] == ["0/b\u00e9.jpg", "1/c.jpg", "2/d.jpg"]
    shown = [np.asarray(item.sample.images[0].pixels)[0, 0, 0] for item in items.values()]
    assert np.allclose(shown, [0, 40, 80], atol=8)
    assert [item.truth.get("count") for item in items.values()] == [None, 2, None]
    assert [len(item.sample.marks) for item in items.values()] == [0, 0, 1]
    assert items["2/d.jpg"].sample.marks[0].center == (32, 12)


@pytest.mark.parametrize("name", ["be\u0301.jpg", "bXY.jpg"])
def test_names_of_zips_are_found_in_other_spellings(name: str, tmp_path: Path) -> None:
    root = made.point_bench(tmp_path)
    path = root / "selected_images.zip"
    with zipfile.ZipFile(path) as packed:
        files = {entry: packed.read(entry) for entry in packed.namelist()}
    made.write_zip(path, {key.replace("b\u00e9.jpg", name): data for key, data in files.items()})
    # as archivers wrote it that did not mark UTF-8
    path.write_bytes(path.read_bytes().replace(b"bXY.jpg", "b\u00e9.jpg".encode()))
    assert len(items_of(sets.PointBench(path=root))) == 3


HUBS = {"da2k": sets.Da2k, "omni_spatial": sets.OmniSpatial, "point_bench": sets.PointBench}
HUBS |= {"ref_spatial": sets.RefSpatial, "spatial_dise": sets.SpatialDise}


@pytest.mark.parametrize("lay", HUBS)
def test_files_of_the_hub_are_read(
    lay: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    getattr(made, lay)(tmp_path)
    asked = list[str]()

    def download(name: str, allow_patterns: list[str], **more: object) -> str:
        asked.extend([name, *allow_patterns])
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", download)
    task = HUBS[lay](hub="owner/set")
    assert items_of(task) and task.facts.revision == f"owner/set@{tmp_path.name}"
    assert asked[0] == "owner/set" and "*" not in asked


def test_parts_of_vis_factor_are_filled_in(tmp_path: Path) -> None:
    path = made.vis_factor(tmp_path)
    items = items_of(sets.VisFactor(path=path))
    shown = items["0"].sample
    assert shown.question == "<image 1> and <image 2>\nleft? Output: Respond in JSON."
    assert len(shown.images) == 2 and len(items["2"].sample.images) == 1
    assert "Reason step by step" in items_of(sets.VisFactor(path, steps=True))["0"].sample.question
    assert fill_question({"question": "<ADDITIONAL_4>", "additional": "a"}) == "<ADDITIONAL_4>"


@pytest.mark.parametrize("packed", [True, False])
def test_ids_of_omni_spatial_repeat_between_tasks(packed: bool, tmp_path: Path) -> None:
    path = made.omni_spatial(tmp_path)
    if not packed:
        zipfile.ZipFile(path).extractall(tmp_path)
        path = tmp_path / "OmniSpatial-test"
    items = items_of(sets.OmniSpatial(path=path))
    assert {name: item.answer for name, item in items.items()} == {
        "Dynamic_Reasoning/0_0": "A", "Dynamic_Reasoning/0_1": "B", "Complex_Logic/0_0": "C",
    }  # fmt: skip


def test_pictures_of_spatial_dise_are_read_from_tars(tmp_path: Path) -> None:
    root = made.spatial_dise(tmp_path)
    merged = items_of(sets.SpatialDise(path=root))
    apart = items_of(sets.SpatialDise(path=root, images="separate"))
    assert [item.answer for item in merged.values()] == ["A", "B"]
    assert [len(item.sample.choices) for item in merged.values()] == [4, 3]
    assert [len(item.sample.images) for item in merged.values()] == [1, 1]
    assert [len(item.sample.images) for item in apart.values()] == [3, 2]
    assert merged["benchmark_1"].sample.question == "Which, if any, fits?"
    (root / "image" / "shard-1.tar").unlink()
    missing = [*sets.SpatialDise(path=root)][1].sample.images[0]
    with pytest.raises(ValueError, match="m/1"):
        _ = missing.size


def unusable(root: Path) -> Iterator[tuple[Any, str]]:
    """Yield tasks whose files are missing or wrong, and what the error must name."""
    made.write(root / "list" / "annotations.json", "[]")
    made.write(root / "broken" / "data.json", "{")
    made.write(root / "alone" / "data.json", "[]")
    yield sets.Da2k(root / "none"), "no folder"
    yield sets.Da2k(root / "list"), "must be an object"
    yield sets.OmniSpatial(root / "alone"), "no rows"
    yield sets.OmniSpatial(root / "broken"), "not JSON"
    yield sets.PointBench(root / "list"), "data.json"
    yield sets.RefSpatial(root / "list"), "question.json"
    yield sets.VisFactor(root / "list"), ".tsv"
    yield sets.Erqa(root / "list"), "erqa.tfrecord"
    yield sets.SpatialDise(root / "list"), "DISE-benchmark.csv"


def test_unusable_files_are_named(tmp_path: Path) -> None:
    for task, words in unusable(tmp_path):
        with pytest.raises(TaskError, match=words):
            len(task)


@pytest.mark.parametrize("said,percent", [("True", 100), ("It is False.", 0), ("Perhaps", 25)])
def test_a_judge_that_compares_with_keys_decides(said: str, percent: float, tmp_path: Path) -> None:
    task = f"{{use: eval.tasks.BabyVision, path: {made.baby_vision(tmp_path / 'set')}}}"
    made.write(
        tmp_path / "study.yaml",
        f"task: {task}\n"
        "model: {use: pipelines.models.Scripted, answer: 'It is \\boxed{A}'}\n"
        "stages: {ask: {use: prompting.turns.Ask}}\n"
        "read: {use: eval.readers.Boxed}\n"
        "contestants: {plain: {}}\n",
    )
    out = ["--out", str(tmp_path / "runs"), "--allow", str(tmp_path)]
    judge = f"models.judge={{use: pipelines.models.Scripted, answer: {said!r}}}"
    for words in (
        ["run", str(tmp_path / "study.yaml"), *out],
        ["judge", str(tmp_path / "runs" / "study"), "--pass", "key", "--model", "judge", judge],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    rows = score_table(tmp_path / "runs" / "study").where(contestant="plain", slice="").rows
    values = {row.metric: row.value for row in rows if row.value is not None}
    assert 100 * values["accuracy"] == percent
    assert values.keys() == {"accuracy", "accuracy_answered", "coverage"}


@pytest.mark.slow
@pytest.mark.parametrize("config", RUNS)
def test_a_configuration_runs_from_start_to_end(config: str, tmp_path: Path) -> None:
    wanted = RUNS[config]
    path = getattr(made, config)(tmp_path / "set")
    said = json.dumps(wanted["said"])
    words = ["run", str(CONFIGS / f"{config}.yaml"), f"data={path}", *wanted.get("words", ())]
    words += [f"models.chat={{use: pipelines.models.Scripted, answer: {said}}}"]
    words += ["--out", str(tmp_path / "runs"), "--allow", str(tmp_path)]
    result = CliRunner().invoke(app, words, env={"OPENAI_API_KEY": "none"})
    assert result.exit_code == 0, result.output
    folder = RunFolder(tmp_path / "runs" / config)
    assert not any(record.error for record in folder.records().values())
    cells = {}
    for row in score_table(folder.path).rows:
        name = f"{row.contestant} | {row.task} | {row.metric}"
        if not row.slice and row.value is not None:
            cells[name] = 100 * row.value
    assert {name: cells.get(name) for name in wanted["cells"]} == pytest.approx(
        wanted["cells"], abs=0.0051
    )
