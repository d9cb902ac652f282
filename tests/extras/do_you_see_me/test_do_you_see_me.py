"""Do You See Me: the official files and keys, their faults, exact match."""

import ast
import csv
import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from looktwice.eval.display.table import score_table
from looktwice.eval.report import write_report
from looktwice.eval.statistics.paired import kruskal
from looktwice.eval.tasks import TaskError
from looktwice.extras.do_you_see_me import DoYouSeeMe, JointQuestions, SweepScorer
from looktwice.extras.do_you_see_me.subtasks import SUBTASKS, standardize_answer
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import PictureError
from tests.dysm_keys import color_rows, shape_rows, spatial_answer
from tests.made_run import MadeRun
from tests.tables import table

VERBATIM = {"use": "eval.readers.WholeReply"}
# ---- the official files


@table
def test_official_counts_majorities_and_facts(
    shared_data: Path, kind: Any, name: str, count: int, most: str | None, percent: float
) -> None:
    task = DoYouSeeMe(name, shared_data / "dysm", kind, blind=True)
    items, facts = list(task), task.facts
    assert len({item.sample.id for item in items}) == len(items) == len(task) == count
    (key, times), *_ = Counter(item.answer for item in items).most_common(1)
    assert round(100 * times / count, 2) == percent
    assert most is None or key == most
    for item in items:
        assert set(SUBTASKS[kind][name].controls) <= item.sample.meta.keys()
    assert (facts.split, facts.label_version[:11]) == (f"all ({kind})", "as in the f")
    assert facts.left_out == () and isinstance(facts.scorer, SweepScorer)
    assert facts.errata or name == "letter_disambiguation"
    assert most != "No" or "every correct answer is No" in facts.errata[0]


@table
def test_real_rows(shared_data: Path, identifier: str, answer: str, levels: list[Any]) -> None:
    kind: Any = identifier[:2]
    name = next(name for name in SUBTASKS[kind] if identifier[3:].startswith(name))
    task = DoYouSeeMe(name, shared_data / "dysm", kind, blind=True)
    item = next(item for item in task if item.sample.id == identifier)
    meta, controls = item.sample.meta, SUBTASKS[kind][name].controls
    assert (item.answer, [meta[control] for control in controls]) == (answer, levels)
    assert meta["prompt"] == item.sample.question != ""
    if name == "visual_spatial":
        assert meta["coordinates"] == ("from 0" if kind == "3D" else "from 1")
    assert name != "visual_closure" or meta["shape"] == "capsule"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_dump(
    shared_data: Path, folder: str, column: str
) -> tuple[list[Any], list[dict[str, str]]]:
    """Return the records of the authors' generator for each image, and the official rows."""
    place = shared_data / "dysm/2D_DoYouSeeMe" / folder
    dump = [(row, ast.literal_eval(row[column])) for row in rows_of(place / "dataset_dump.csv")]
    return dump, rows_of(place / "dataset_info.csv")


@table
def test_a_file_is_reproduced(
    shared_data: Path, folder: str, column: str, count: int, question: str
) -> None:
    """The questions are made from the generator's records; only the beginning of a question about a
    shape is compared."""
    dump, official = read_dump(shared_data, folder, column)
    make_rows: Any = shape_rows if column == "shape_dictionary" else color_rows
    ours = make_rows([(row["filename"], made) for row, made in dump])
    assert len(ours) == len(official) == count
    for (filename, *named, answer), row in zip(ours, official, strict=True):
        assert (filename, str(answer)) == (row["filename"], row["answer"])
        words = question.format(*named)
        assert row["question"].startswith(words)
        assert column == "shape_dictionary" or row["question"] == words


def test_spatial_answers_are_recomputed(shared_data: Path) -> None:
    dump, official = read_dump(shared_data, "visual_spatial", "spatial_dict")
    grids = {row["name"]: grid for row, grid in dump}
    assert len(official) == 806
    for row in official:
        assert spatial_answer(row["question"], grids[row["filename"]]) == int(row["answer"])


@table
def test_real_images(
    shared_data: Path, kind: Any, name: str, stem: str, size: tuple[int, int]
) -> None:
    task = DoYouSeeMe(name, shared_data / "dysm", kind, missing="leave_out")
    images = {item.sample.meta["image"]: item.sample.images for item in task}
    assert images[stem][0].size == tuple(size)
    count, first, *_ = task.facts.left_out
    whole = DoYouSeeMe(name, shared_data / "dysm", kind, blind=True)
    assert int(count.split()[0]) + len(task) == len(whole)
    assert "there is no image" in first


# ---- small files and their faults


def png(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(cv2.imencode(".png", np.zeros((6, 9, 3), np.uint8))[1]))


def write_layout(root: Path, lines: Sequence[str], folder: str = "", images: int = 3) -> Path:
    path = root / (folder or "2D_DoYouSeeMe/visual_figure_ground")
    path.mkdir(parents=True, exist_ok=True)
    (path / "dataset_info.csv").write_text("\n".join(lines), encoding="utf-8")
    for number in range(images):
        png(path / f"{number}.png")
    return root


GROUND = [
    "filename,answer,background_density,sweep",
    *(f'{n}.svg,{1 + n % 4},0.1,"(2, 0.1)"' for n in range(12)),
]


@pytest.mark.parametrize("place", [".", "2D_DoYouSeeMe", "2D_DoYouSeeMe/visual_figure_ground"])
def test_the_whole_tree_half_of_it_and_a_single_folder(tmp_path: Path, place: str) -> None:
    write_layout(tmp_path, GROUND)
    items = list(DoYouSeeMe("figure_ground", tmp_path / place))
    assert len(items) == 12
    assert items[0].sample.images[0].size == (9, 6)
    with pytest.raises(PictureError, match=r"5\.png cannot be read"):
        items[5].sample.images[0].size  # noqa: B018


def test_the_readme_s_folder_name_and_a_zip(tmp_path: Path) -> None:
    lines = ["filename,question,answer,sweep", '0.svg,How many?,3,"(3, 3, 10)"']
    write_layout(tmp_path / "a", lines, "2D_DoYouSeeMe/shape_disambiguation")
    assert len(DoYouSeeMe("shape_discrimination", tmp_path / "a")) == 1
    write_layout(tmp_path / "b", GROUND)
    with zipfile.ZipFile(tmp_path / "2D.zip", "w") as out:
        for file in sorted((tmp_path / "b").rglob("*.*")):
            out.write(file, file.relative_to(tmp_path / "b"))
    task = DoYouSeeMe("figure_ground", tmp_path / "2D.zip", missing="leave_out")
    assert [item.sample.images[0].size for item in task] == [(9, 6)] * 3
    table = "2D_DoYouSeeMe/visual_figure_ground/dataset_info.csv"
    assert task.facts.left_out[0] == f"9 lines of {table} left out"


@table
def test_one_bad_line_is_skipped_and_counted(tmp_path: Path, line: str, words: str) -> None:
    task = DoYouSeeMe("figure_ground", write_layout(tmp_path, [*GROUND, line]))
    assert len(list(task)) == 12
    assert task.facts.left_out[0].startswith("1 lines of")
    assert words in task.facts.left_out[1]


@pytest.mark.parametrize(
    ("lines", "settings", "words"),
    [
        (["file,answer", "0.svg,1"], {}, "lacks the columns filename, sweep; it has file, answer"),
        ([""], {}, "dataset_info.csv is empty"),
        (GROUND[:1], {}, "has no lines, or the settings select none"),
        ([GROUND[0], '0.svg,x,0.1,"(2, 0.1)"'], {}, "1 of 1 lines cannot be used"),
        (GROUND, {"name": "figure"}, "did you mean 'figure_ground'"),
        (GROUND, {"kind": "3D"}, "'figure_ground'. There are shape_discrimination"),
        (GROUND, {"name": "visual_closure"}, "has no visual_closure/dataset_info.csv"),
    ],
)
def test_unusable_folders_are_refused(
    tmp_path: Path, lines: list[str], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskError, match=words):
        len(
            DoYouSeeMe(
                **{"name": "figure_ground", "path": write_layout(tmp_path, lines), **settings}
            )
        )


def test_a_folder_without_images_has_nothing_to_ask(tmp_path: Path) -> None:
    write_layout(tmp_path, GROUND, images=0)
    with pytest.raises(TaskError, match="none of the 12 images"):
        len(DoYouSeeMe("figure_ground", tmp_path, missing="leave_out"))
    assert all(not item.sample.images for item in DoYouSeeMe("figure_ground", tmp_path, blind=True))


def test_coordinates_of_3d_scenes_can_be_explained(tmp_path: Path) -> None:
    lines = ["filename,question,answer,sweep", 'grid_0.png,"In grid 0, how many?",1,"[1, 1]"']
    write_layout(tmp_path, lines, "3D_DoYouSeeMe/3D_visual_spatial")
    (plain,) = DoYouSeeMe("visual_spatial", tmp_path, "3D")
    (said,) = DoYouSeeMe("visual_spatial", tmp_path, "3D", coordinates="said")
    assert said.sample.question == f"{plain.sample.question} Rows and columns are counted from 0."
    assert "mirrored" in DoYouSeeMe("visual_spatial", tmp_path, "3D").facts.errata[0]


# ---- scores


@table
def test_standard_forms(answer: str, form: Any, found: str | None) -> None:
    assert standardize_answer(answer, form) == found


@given(st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=9), min_size=2, max_size=4))
def test_kruskal_matches_scipy(groups: list[list[int]]) -> None:
    effect, p = kruskal(groups)
    assert 0.0 <= effect <= 1.0
    if len({value for group in groups for value in group}) > 1:
        found = stats.kruskal(*groups)
        n = sum(len(group) for group in groups)
        assert p == pytest.approx(found.pvalue)
        assert effect == pytest.approx(min(1.0, found.statistic / (n - 1)))
    else:
        assert (effect, p) == (0.0, 1.0)


def facts_of(name: str, kind: Any = "2D") -> dict[str, Any]:
    return {"scorer": spec(SweepScorer(name, kind, "integer", ("num_shapes",)))}


def test_accuracy_along_a_control_and_its_test(made: MadeRun, tmp_path: Path) -> None:
    made.task("t", "2" * 12, choices=0, meta=[{"num_shapes": n} for n in [3] * 6 + [7] * 6])
    left_out = ["3 lines of x left out", "line 4: why"]
    facts = facts_of("shape_discrimination") | {"left_out": left_out, "revision": "sha256 abc"}
    point = made.point("plain", "t", facts=facts, read=VERBATIM)
    made.answers(point, [*"222223", *"33333", "many"])
    table = score_table(made.write().path)
    along = {row.slice: (row.value, row.n) for row in table.where(metric="accuracy_along").rows}
    assert along == {"num_shapes=3": (pytest.approx(5 / 6), 6), "num_shapes=7": (0.0, 6)}
    (test,) = table.where(metric="kruskal_num_shapes").rows
    expected = stats.kruskal([1, 1, 1, 1, 1, 0], [0] * 6)
    assert (test.n, test.n_groups) == (12, 2)
    assert [test.p, test.value] == pytest.approx([expected.pvalue, expected.statistic / 11])
    (accuracy,) = table.where(metric="accuracy", task="t", contestant="plain").rows
    assert (accuracy.right, accuracy.wrong, accuracy.unreadable) == (5, 6, 1)
    page = write_report([made.path], tmp_path / "out")
    report = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "## The benchmark's own metrics" in report and "kruskal_num_shapes" in report
    assert "- left out: 3 lines of x left out; line 4: why" in report
    assert "- revision: sha256 abc" in report
    assert "accuracy_along" in page.read_text(encoding="utf-8")


def test_four_subtasks_alone_have_no_mean(made: MadeRun) -> None:
    for name in list(SUBTASKS["3D"])[:4]:
        made.task(name, "2222", choices=0)
        made.answers(made.point("plain", name, facts=facts_of(name, "3D"), read=VERBATIM), "2222")
    assert not score_table(made.write().path).where(metric="mean_3d", contestant="plain").rows


# ---- the joint form


def joint(root: Path, rows: Sequence[dict[str, Any]]) -> Path:
    png(root / "a.png")
    (root / "joint.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return root / "joint.jsonl"


def pair(identifier: str) -> dict[str, Any]:
    seen = {"perception_question": "How many circles?", "perception_answer": 3}
    thought = {"reasoning_question": "What comes next?", "reasoning_answer": "B"}
    choices = {"reasoning_choices": ["circle", "square"]}
    return {"id": identifier, "image": "a.png", **seen, **thought, **choices}


def test_two_questions_of_one_image(tmp_path: Path) -> None:
    task = JointQuestions(joint(tmp_path, [pair("1"), pair("2")]))
    seen, thought, *_ = (items := [*task])
    assert len(task) == len(items) == 4
    assert (seen.sample.id, seen.answer, seen.sample.choices) == ("1/perception", "3", ())
    assert (thought.sample.id, thought.answer) == ("1/reasoning", "B")
    assert thought.sample.choices == ("circle", "square")
    assert seen.sample.images[0].size == (9, 6)
    assert seen.sample.meta == {"image": "1", "role": "perception", "row": 0}
    with pytest.raises(TaskError, match="'pic'"):
        len(JointQuestions(tmp_path / "joint.jsonl", {"image": "pic"}))
