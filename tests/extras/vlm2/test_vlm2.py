"""VLM2-Bench: its formulas, its files and their faults, and its metrics in the table."""

import base64
import csv
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval.display.table import Table, score_table
from looktwice.eval.records.judgements import Judgement, append_judgements, hash_judged_text
from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring import Row, Score, Verdict
from looktwice.eval.tasks import TaskError
from looktwice.extras.vlm2 import CountScorer, PairScorer, VideoScorer, Vlm2Bench
from looktwice.extras.vlm2.metrics import compute_chance_score, score_count
from looktwice.extras.vlm2.task import SUBTASKS
from looktwice.extras.vlm2.video import VideoFrames, choose_frames
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import PictureError
from tests.made_run import MadeRun
from tests.official_layouts import film, write
from tests.tables import table

VERBATIM = {"use": "eval.readers.WholeReply"}


@table
def test_the_score_of_a_wrong_count(images: int, truth: int, count: int, percent: float) -> None:
    assert 100 * score_count(count, truth, images) == pytest.approx(percent, abs=5e-4)


# ---- metrics in the table


def add_point(
    made: MadeRun, name: str, scorer: Any, keys: str, meta: Sequence[Any], **more: Any
) -> str:
    made.task(name, list(keys), choices=0, meta=list(meta))
    facts = {"scorer": spec(scorer)}
    return made.point("plain", name, facts=facts, read=VERBATIM, **{"baseline": True, **more})


def pairs(names: str) -> list[dict[str, str]]:
    return [{"pair": name} for name in names]


def value(table: Table, metric: str, contestant: str = "plain", **fields: Any) -> Row:
    (row,) = table.where(metric=metric, slice="", contestant=contestant, **fields).rows
    return row


@table
def test_pairs(
    made: MadeRun, name: str, keys: str, ids: str, answers: str, figures: dict[str, float]
) -> None:
    made.answers(add_point(made, "pairs", PairScorer(name), keys, pairs(ids)), list(answers))
    table = score_table(made.write().path)
    assert {m: value(table, m).value for m in figures} == pytest.approx(figures)
    official = value(table, "pair_accuracy")
    assert (official.n, official.unit) == (4 if name == "GC-Mat" else 2, "pair")
    chance = value(table, "pair_accuracy", "chance (level)").value
    assert chance == (0.25 if name == "GC-Mat" else 0.5)


def test_the_sides_of_a_comparison_follow_its_ids(made: MadeRun) -> None:
    ids = ("1_p", "1_n", "2_p", "2_n", "3_p", "4_n")
    meta = [{"pair": name[0], "q_id": name} for name in ids]
    made.answers(add_point(made, "cpr", PairScorer("OC-Cpr"), "FTFFTT", meta), "FTTFTT")
    table = score_table(made.write().path)
    official, sides = value(table, "pair_accuracy"), ("positive_accuracy", "negative_accuracy")
    assert (official.value, official.n) == (0.5, 2)
    assert [value(table, side).value for side in sides] == [0.5, 1.0]


@pytest.mark.parametrize("keys", ["TF", "FT", "FF", "TT"])
def test_a_comparison_is_read_with_either_kind_of_key(tmp_path: Path, keys: str) -> None:
    rows = [gc(f"{n}_{side}", key) for n in range(9) for side, key in zip("pn", keys, strict=True)]
    write_layout(tmp_path, OC_FILE, rows, OC_MEDIA, "1.jpg", "2.jpg")
    task = Vlm2Bench("OC-Cpr", tmp_path)
    assert "".join(item.answer or "" for item in task) == keys * 9
    assert not task.facts.left_out and task.facts.note == "9 pair ids"


def test_pairs_are_tested_as_pairs_and_failures_are_excluded(made: MadeRun) -> None:
    plain = add_point(made, "cpr", PairScorer("OC-Cpr"), "TFTFTF", pairs("aabbcc"))
    other = made.point("other", "cpr", facts={"scorer": spec(PairScorer("OC-Cpr"))}, read=VERBATIM)
    made.answers(plain, list("TTTTTF"))
    made.answers(other, list("TFTFT"))
    made.record(other, "s5", error="boom")
    row = value(score_table(made.write().path), "pair_accuracy", "other")
    assert row.value == pytest.approx(2 / 3)
    assert (row.delta, row.p, row.excluded) == (1.0, 0.5, 1)


def test_both_questions_of_a_pair_must_be_correct_in_the_same_draw(made: MadeRun) -> None:
    point = add_point(made, "cpr", PairScorer("OC-Cpr"), "TF", pairs("aa"), draws=2, baseline=False)
    made.answers(point, ["T", "T"], draw=0)
    made.answers(point, ["F", "F"], draw=1)
    table = score_table(made.write().path)
    assert value(table, "pair_accuracy").value == 0.0
    assert value(table, "positive_accuracy").value == 0.5


def test_both_denominators_of_the_numeric_score(made: MadeRun) -> None:
    meta = [{"image_len": length} for length in (2, 4, 4, 4)]
    point = add_point(made, "cnt", CountScorer("OC-Cnt"), "2134", meta)
    made.answers(point, ["2", "2", "five or so"])
    made.answers(point, [None, None, None, "5"])
    table = score_table(made.write().path)
    official, toolkit = value(table, "numeric_official"), value(table, "numeric_vlmevalkit")
    assert official.value == pytest.approx((1 + 0.10404) / 2, abs=1e-5)
    assert toolkit.value == pytest.approx((1 + 0.10404 + 0 + 0.10404) / 4, abs=1e-5)
    assert (official.n, toolkit.n) == (2, 4)
    accuracy = value(table, "accuracy", task="cnt")
    assert (accuracy.value, accuracy.right, accuracy.wrong, accuracy.unreadable) == (0.25, 1, 2, 1)
    level = sum(compute_chance_score(t, n) for t, n in ((2, 2), (1, 4), (3, 4), (4, 4))) / 4
    chance = value(table, "numeric_official", "chance (level)").value
    assert chance == pytest.approx(level)


@pytest.mark.parametrize("scorer", [CountScorer("OC-Cnt"), VideoScorer()])
def test_superscript_digits_are_not_a_count(scorer: CountScorer | VideoScorer) -> None:
    row = SampleRow("t", "", "2", {"id": "s"})
    assert scorer.compare("\u00b2", row) == Score(Verdict.UNREADABLE)


def test_videos_are_graded_and_an_unjudged_description_is_not_an_answer(made: MadeRun) -> None:
    meta = [{"type": "AB"}] * 4 + [{"type": "ABA"}] * 5
    point = add_point(made, "vid", VideoScorer(), "111122222", meta)
    for number in range(9):
        made.reply(point, f"s{number}", f"Two people walk by, says description {number}.")
    run = made.write()
    words = {record.sample: hash_judged_text(record) for record in made.records}
    for n, grade in enumerate("10112102"):
        judged = Judgement("vid", point, f"s{n}", 0, "j", "i", words[f"s{n}"], answer=grade)
        append_judgements(run.path, judged)
    table = score_table(run.path)
    assert (value(table, "vid_ab").value, value(table, "vid_aba").value) == (0.75, 0.625)
    assert (value(table, "vid").value, value(table, "vid").n) == (0.6875, 8)
    accuracy = value(table, "accuracy", task="vid")
    assert (accuracy.right, accuracy.wrong, accuracy.unreadable) == (5, 3, 1)


@pytest.mark.parametrize("words", ["1", "2", "Score: 1", "Score: 2"])
def test_numbers_that_a_model_gives_itself_are_not_its_score(made: MadeRun, words: str) -> None:
    """Regression: the scripted answer "1" was right for every AB video."""
    point = add_point(made, "vid", VideoScorer(), "12", [{"type": "AB"}, {"type": "ABA"}])
    made.reply(point, "s0", words)
    made.record(point, "s1", answer=words)
    table = score_table(made.write().path)
    accuracy = value(table, "accuracy", task="vid")
    assert (accuracy.value, accuracy.right, accuracy.wrong, accuracy.unreadable) == (None, 0, 0, 2)
    assert not table.where(metric="vid_ab").rows
    scored = [
        scored for run in table.scores for point in run.points for scored in point.all_records
    ]
    assert {record.reason for record in scored} == {"unjudged"}
    printed = " ".join(repr(table).split())
    assert "vid: 2 replies still to be scored by a judge" in printed


# ---- files

GC_FILE, GC_MEDIA = "jsonl/gc/vanilla/gc_mat.jsonl", "data/gc/processed"
OC_FILE, OC_MEDIA = "jsonl/oc/vanilla/oc_cpr.jsonl", "data/oc/original_obj"
JPEG = bytes(cv2.imencode(".jpg", np.full((8, 10, 3), 90, np.uint8))[1])
VID_FILE, VID_MEDIA = "jsonl/pc/vallina/pc_v_open-ended.jsonl", "data/pc/video/UNI"


def write_layout(root: Path, file: str, rows: Sequence[Any], media: str, *names: str) -> None:
    """Write one subtask in the official layout."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    write(root / file, "\n".join(lines))
    for name in names:
        write(root / media / name, JPEG)


def gc(q_id: str, key: str, **more: Any) -> dict[str, Any]:
    words = {"task": "mat", "question": f"Is it right? {key}", "edited_prompt": "secret"}
    return {"q_id": q_id, **words, "gt_answer": key, "images": ["1.jpg", "2.jpg"], **more}


def test_gc_items(tmp_path: Path) -> None:
    rows = [gc("7", "T"), gc("7", "F"), gc("7", "T"), gc("9", "T")]
    write_layout(tmp_path, GC_FILE, rows, GC_MEDIA, "1.jpg", "2.jpg")
    task = Vlm2Bench("GC-Mat", tmp_path)
    items = list(task)
    assert [item.sample.id for item in items] == ["7_p", "7_n", "7_p2", "9_p"]
    assert [item.answer for item in items] == list("TFTT")
    assert [item.sample.meta["pair"] for item in items] == list("7779")
    assert items[0].sample.meta["prompt"] == "\nIs it right? T"
    assert [image.size for image in items[0].sample.images] == [(10, 8), (10, 8)]
    assert "secret" not in str(items[0].sample.to_dict())
    assert spec(task.facts.scorer) == {"use": "eval.tasks.PairScorer", "name": "GC-Mat"}
    assert (task.facts.split, task.facts.left_out) == ("all", ())
    notes = ("2 pair ids", "shared by more than two questions, such as 7", "only, such as 9")
    assert all(note in task.facts.note for note in notes)
    assert len(task.facts.revision) == len("sha256 ") + 64


@table
def test_oc_items(
    tmp_path: Path, name: str, more: dict[str, Any], answer: str, meta: dict[str, Any]
) -> None:
    images = ["bag/1.jpg", f"{OC_MEDIA}/bag/2.jpg"]
    row = {"q_id": "17_p", "type": "bag", "images": images, **more}
    write_layout(tmp_path, SUBTASKS[name][0][0], [row], OC_MEDIA, "bag/1.jpg", "bag/2.jpg")
    (item,) = Vlm2Bench(name, tmp_path)
    sample = item.sample
    assert [image.size for image in sample.images] == [(10, 8), (10, 8)]
    assert item.answer == answer and {"type": "bag", **meta}.items() <= sample.meta.items()
    assert sample.meta["prompt"] == f"\n{more['question']}"
    assert sample.question == more["question"].partition(" Choices")[0]
    listed = ("1 and 3", "None", "2 and 3", "1 and 2")
    assert sample.choices == (listed if name == "OC-Grp" else ())


@table
def test_one_bad_line_is_skipped_and_counted(tmp_path: Path, row: Any, words: str) -> None:
    good = [gc(f"{n // 2}_{'pn'[n % 2]}", "TF"[n % 2]) for n in range(11)]
    write_layout(tmp_path, OC_FILE, [*good, row], OC_MEDIA, "1.jpg", "2.jpg")
    task = Vlm2Bench("OC-Cpr", tmp_path)
    assert len(list(task)) == len(task) == 11
    count, reason = task.facts.left_out
    assert count == f"1 lines of {OC_FILE} left out"
    assert words in reason


def test_a_file_with_other_rows_is_refused(tmp_path: Path) -> None:
    write_layout(tmp_path, OC_FILE, [{"id": 1}, {"id": 2}], OC_MEDIA)
    with pytest.raises(TaskError, match="2 of 2 lines cannot be used\n  line 1: it lacks q_id"):
        len(Vlm2Bench("OC-Cpr", tmp_path))


@pytest.mark.parametrize(
    ("image", "words"),
    [("no.jpg", r"no\.jpg cannot be read"), ("../../../../../secret.jpg", "leads out of the")],
)
def test_a_missing_image_fails_its_own_sample(tmp_path: Path, image: str, words: str) -> None:
    write(tmp_path / "secret.jpg", JPEG)
    rows = [gc("7", "T"), gc("7", "F", images=[image])]
    write_layout(tmp_path / "set", GC_FILE, rows, GC_MEDIA, "1.jpg", "2.jpg")
    first, second = Vlm2Bench("GC-Mat", tmp_path / "set")
    assert first.sample.images[0].size == (10, 8)
    with pytest.raises(PictureError, match=words):
        second.sample.images[0].size  # noqa: B018


def zipped(root: Path, extra: str = "", prefix: str = "") -> Path:
    lines = "\n".join(json.dumps(row) for row in (gc("7", "T"), gc("7", "F")))
    with zipfile.ZipFile(root / "set.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(f"{prefix}{GC_FILE}", lines)
        for name in ("1.jpg", "2.jpg"):
            out.writestr(f"{prefix}{GC_MEDIA}/{name}", JPEG)
        if extra:
            out.writestr(extra, b"x")
    return root / "set.zip"


@pytest.mark.parametrize("prefix", ["", "vlm2-bench_dataset/"])
def test_the_zip_is_read_without_unpacking(tmp_path: Path, prefix: str) -> None:
    for path in (zipped(tmp_path, prefix=prefix), tmp_path):
        assert [i.sample.images[1].size for i in Vlm2Bench("GC-Mat", path)] == [(10, 8)] * 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["set.zip"]


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "//x", "a/../../evil", "..\\e", "C:/e"])
def test_a_zip_with_paths_outside_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TaskError, match="1 entries lead out of the folder"):
        len(Vlm2Bench("GC-Mat", zipped(tmp_path, name)))


def test_a_truncated_zip_is_refused_and_a_damaged_entry_fails_its_sample(tmp_path: Path) -> None:
    out = zipped(tmp_path)
    whole = out.read_bytes()
    out.write_bytes(whole[:-40])
    with pytest.raises(TaskError, match="is not a readable zip"):
        len(Vlm2Bench("GC-Mat", out))
    out.write_bytes(whole)
    with zipfile.ZipFile(out) as entries:
        start = entries.getinfo(f"{GC_MEDIA}/1.jpg").header_offset + 38 + len(f"{GC_MEDIA}/1.jpg")
    out.write_bytes(whole[:start] + bytes(12) + whole[start + 12 :])
    first, _ = Vlm2Bench("GC-Mat", out)
    with pytest.raises(PictureError, match=r"1\.jpg is damaged"):
        first.sample.images[0].size  # noqa: B018
    assert first.sample.images[1].size == (10, 8)


@table
def test_invalid_settings_are_refused(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        len(Vlm2Bench(**{"path": tmp_path, **settings}))


def test_vlmevalkit_s_table(tmp_path: Path) -> None:
    code = base64.b64encode(JPEG).decode()
    rows = [
        ["index", "question", "answer", "category", "image"],
        ["gc-mat_7_p", "right?\nreally", "T", "gc-mat", repr([code, code])],
        ["gc-mat_7_n", "right?", "F", "gc-mat", repr([code, code])],
        ["oc-cnt_1", "How many different bags are there?", "2", "oc-cnt", repr([code] * 3)],
    ]
    file = tmp_path / "img.tsv"
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, delimiter="\t").writerows(rows)
    items = list(Vlm2Bench("GC-Mat", file))
    assert [(i.sample.meta["pair"], i.answer) for i in items] == [("gc-mat_7", k) for k in "TF"]
    assert [picture.payload.data for picture in items[1].sample.images] == [JPEG, JPEG]
    (count,) = Vlm2Bench("OC-Cnt", file)
    assert {"image_len": 3, "type": "bag"}.items() <= count.sample.meta.items()
    assert count.answer == "2"
    with pytest.raises(TaskError, match="pc-cnt; it has gc-mat, oc-cnt"):
        len(Vlm2Bench("PC-Cnt", file))


@table
def test_the_object_type_is_read_from_the_question_if_the_field_is_missing(
    tmp_path: Path, name: str, question: str, kind: str | None
) -> None:
    key = {"Cpr": "T", "Cnt": "1", "Grp": "A"}[name[3:]]
    side = "_p" if key == "T" else ""
    line = {"question": question, "gt_answer": key, "images": ["1.png"]}
    rows = [line | {"q_id": f"1{side}"}, line | {"q_id": f"2{side}", "type": "given"}]
    write_layout(tmp_path, SUBTASKS[name][0][0], rows, OC_MEDIA)
    read, given = Vlm2Bench(name, tmp_path)
    assert (read.sample.meta.get("type"), given.sample.meta.get("type")) == (kind, "given")


# ---- videos


@table
def test_shown_frames(
    count: int, frames: int | None, fps: float | None, numbers: list[int]
) -> None:
    assert choose_frames(count, 10.0, frames, fps) == numbers


def test_frames_of_a_film(tmp_path: Path) -> None:
    video = VideoFrames(film(tmp_path / "a.avi", 20, 10), "a.avi", 3)
    assert video.times == [0.0, 1.0, 1.9]
    shades = [float(picture.pixels.mean()) for picture in video.pictures]
    assert shades == pytest.approx([0, 100, 190], abs=3)


def vid(root: Path, *names: str) -> Vlm2Bench:
    rows = [{"vid": name, "question": "Describe it."} for name in names]
    write_layout(root, VID_FILE, rows, VID_MEDIA)
    return Vlm2Bench("PC-VID", root, frames=4)


def test_videos_as_items(tmp_path: Path) -> None:
    for name in ("AB_1", "ABA_1"):
        film(tmp_path / f"{VID_MEDIA}/{name}.avi", 20, 10)
    items = list(vid(tmp_path, "AB_1", "ABA_1"))
    assert [(i.sample.meta["type"], i.answer) for i in items] == [("AB", "1"), ("ABA", "2")]
    sample = items[0].sample
    assert (len(sample.images), sample.meta["seconds"]) == (4, [0.0, 0.6, 1.3, 1.9])
    assert sample.images[3].size == (32, 24)
    assert sample.sha == next(iter(Vlm2Bench("PC-VID", tmp_path, frames=4))).sample.sha


@pytest.mark.parametrize("data", [None, b"no video at all", b""])
def test_a_damaged_video_fails_its_own_sample(tmp_path: Path, data: bytes | None) -> None:
    film(tmp_path / f"{VID_MEDIA}/AB_1.avi", 20, 10)
    if data is not None:
        write(tmp_path / VID_MEDIA / "AB_2.mp4", data)
    good, bad = vid(tmp_path, "AB_1", "AB_2")
    assert len(good.sample.images) == 4
    with pytest.raises(PictureError, match=r"AB_2\.mp4"):
        bad.sample.images[0].size  # noqa: B018


def test_a_video_in_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as out:
        out.writestr(VID_FILE, json.dumps({"vid": "ABA_1", "question": "Describe."}))
        out.write(film(tmp_path / "a.avi", 20, 10), f"{VID_MEDIA}/ABA_1.avi")
    (item,) = Vlm2Bench("PC-VID", tmp_path / "set.zip", frames=None, fps=1)
    assert [image.size for image in item.sample.images] == [(32, 24)] * 2
