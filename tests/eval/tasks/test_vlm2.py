"""VLM2-Bench: the official readings and formulas, its files and their faults, and its metrics in
the table."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval.display.table import Table, score_table
from looktwice.eval.records.judgements import Judgement, append, words_of
from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring import Row, Score, Verdict
from looktwice.eval.tasks import (
    CountScorer,
    GroupScorer,
    PairScorer,
    TaskError,
    VideoScorer,
    Vlm2Bench,
)
from looktwice.eval.tasks.vlm2.metrics import chance_numeric, numeric_score
from looktwice.eval.tasks.vlm2.task import SUBTASKS
from looktwice.eval.tasks.vlm2.video import VideoFrames, choose_frames
from looktwice.pipelines.config import spec
from looktwice.pipelines.picture import PictureError
from tests.made_run import MadeRun

VERBATIM = {"use": "eval.readers.WholeReply"}
SEQUENCES = {"OC": {2: (40, [1, 2]), 3: (40, [1, 2, 3]), 4: (40, [1, 2, 3, 4])}}
GROUPING = (
    "Rule. Which images show the same bag? Choices: A) 1 and 3; B) None; C) 2 and 3; D) 1 and 2"
)


@pytest.mark.parametrize(
    ("images", "truth", "found", "percent"),
    [
        (2, 1, 2, 0),
        (2, 2, 1, 0),
        (3, 2, 1, 0),
        (3, 1, 2, 0),
        (4, 1, 2, 10.404),
        (4, 1, 3, 3.974),
        (4, 1, 4, 0),
        (4, 2, 1, 6.697),
        (4, 2, 3, 6.697),
        (4, 2, 4, 0),
        (4, 3, 2, 6.697),
        (4, 3, 4, 6.697),
        (4, 3, 1, 0),
        (4, 4, 3, 10.404),
        (4, 4, 2, 3.974),
        (4, 4, 1, 0),
        (4, 3, 3, 100),
        (1, 1, 1, 100),
    ],
)
def test_what_a_wrong_count_is_worth(images: int, truth: int, found: int, percent: float) -> None:
    assert 100 * numeric_score(found, truth, images) == pytest.approx(percent, abs=5e-4)


def test_chance_levels_are_the_papers() -> None:
    """Sequences as the paper builds them: AA, AB, AAA, AAB, ABC, AAAA, AAAB, AABC, ABCD, 40 each;
    PC 30, 25, 65."""
    oc = [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3), (1, 4), (2, 4), (3, 4), (4, 4)]
    level = 100 * sum(chance_numeric(truth, images) for truth, images in oc) / len(oc)
    assert level == pytest.approx(34.876, abs=1e-3)
    four = 100 * sum(chance_numeric(truth, 4) for truth in (1, 2, 3, 4)) / 4
    assert four == pytest.approx(28.471, abs=1e-3)
    pc = (30 * 50 + 25 * 100 * chance_numeric(1, 3) + 65 * four) / 120
    assert (round(level, 2), round(pc, 2)) == (34.88, 34.87)
    assert round((25 + 25 + 50 + level + 25 + 50 + pc + 25) / 8, 2) == 33.72


# ---- metrics in the table


def made_task(
    made: MadeRun, name: str, scorer: Any, keys: Sequence[str], meta: Sequence[Mapping[str, Any]]
) -> str:
    made.task(name, list(keys), choices=0, meta=list(meta))
    return made.point("plain", name, facts={"scorer": spec(scorer)}, read=VERBATIM, baseline=True)


def value(found: Table, metric: str, **fields: Any) -> Row:
    (row,) = found.where(metric=metric, slice="", contestant="plain", **fields).rows
    return row


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    return MadeRun(tmp_path / "run")


def test_gc_pairs_with_a_shared_id_and_one_that_is_incomplete(made: MadeRun) -> None:
    pairs = ["a", "a", "b", "b", "c", "c", "c", "c", "d"]
    point = made_task(
        made, "gc", PairScorer("GC-Mat"), "TFTFTFTFT", [{"pair": name} for name in pairs]
    )
    made.answers(point, ["T", "F", "T", "T", "T", "T", "F", "F", "T"])
    found = score_table(made.write().path)
    official = value(found, "pair_accuracy")
    assert (official.value, official.n, official.n_groups, official.unit) == (0.5, 4, 4, "pair")
    assert value(found, "positive_accuracy").value == 1.0
    assert value(found, "negative_accuracy").value == 0.5
    assert value(found, "pair_accuracy_vlmevalkit").value == 0.25
    (chance,) = found.where(metric="pair_accuracy", contestant="chance (level)").rows
    assert chance.value == 0.25


def test_cpr_counts_complete_pairs_and_vlmevalkit_all(made: MadeRun) -> None:
    point = made_task(
        made, "cpr", PairScorer("OC-Cpr"), "TFTFT", [{"pair": name} for name in "aabbc"]
    )
    made.answers(point, ["T", "F", "F", "F", "T"])
    found = score_table(made.write().path)
    assert (value(found, "pair_accuracy").value, value(found, "pair_accuracy").n) == (0.5, 2)
    assert value(found, "pair_accuracy_vlmevalkit").value == pytest.approx(1 / 3)


def test_pairs_are_tested_as_pairs_and_failures_fall_out(made: MadeRun) -> None:
    meta = [{"pair": name} for name in "aabbcc"]
    plain = made_task(made, "cpr", PairScorer("OC-Cpr"), "TFTFTF", meta)
    other = made.point("other", "cpr", facts={"scorer": spec(PairScorer("OC-Cpr"))}, read=VERBATIM)
    made.answers(plain, ["T", "T", "T", "T", "T", "F"])
    made.answers(other, ["T", "F", "T", "F", "T"])
    made.record(other, "s5", error="boom")
    (row,) = score_table(made.write().path).where(metric="pair_accuracy", contestant="other").rows
    assert row.value == pytest.approx(2 / 3)
    assert (row.delta, row.p, row.excluded) == (1.0, 0.5, 1)


def test_a_pair_must_be_right_in_one_draw(made: MadeRun) -> None:
    made.task("cpr", ["T", "F"], choices=0, meta=[{"pair": "a"}, {"pair": "a"}])
    point = made.point(
        "plain", "cpr", facts={"scorer": spec(PairScorer("OC-Cpr"))}, read=VERBATIM, draws=2
    )
    made.answers(point, ["T", "T"], draw=0)
    made.answers(point, ["F", "F"], draw=1)
    found = score_table(made.write().path)
    assert (value(found, "pair_accuracy").value, value(found, "positive_accuracy").value) == (
        0.0,
        0.5,
    )


def test_both_denominators_of_the_numeric_score(made: MadeRun) -> None:
    meta = [{"image_len": 2}, {"image_len": 4}, {"image_len": 4}, {"image_len": 4}]
    point = made_task(made, "cnt", CountScorer("OC-Cnt"), ["2", "1", "3", "4"], meta)
    made.answers(point, ["2", "2", "five or so"])
    made.answers(point, [None, None, None, "5"])
    found = score_table(made.write().path)
    official, toolkit = value(found, "numeric_official"), value(found, "numeric_vlmevalkit")
    assert official.value == pytest.approx((1 + 0.10404) / 2, abs=1e-5)
    assert toolkit.value == pytest.approx((1 + 0.10404 + 0 + 0.10404) / 4, abs=1e-5)
    assert (official.n, toolkit.n) == (2, 4)
    accuracy = value(found, "accuracy", task="cnt")
    assert (accuracy.value, accuracy.right, accuracy.wrong, accuracy.unreadable) == (0.25, 1, 2, 1)
    (chance,) = found.where(metric="numeric_official", contestant="chance (level)").rows
    expected = [
        chance_numeric(2, 2),
        chance_numeric(1, 4),
        chance_numeric(3, 4),
        chance_numeric(4, 4),
    ]
    assert chance.value == pytest.approx(sum(expected) / 4)


def test_raised_digits_are_no_count() -> None:
    row = SampleRow("t", "", "2", {"id": "s"})
    for scorer in (CountScorer("OC-Cnt"), VideoScorer()):
        assert scorer.compare("\u00b2", row) == Score(Verdict.UNREADABLE)


def test_videos_are_graded_and_an_unjudged_description_is_no_answer(made: MadeRun) -> None:
    meta = [{"type": "AB"}] * 4 + [{"type": "ABA"}] * 5
    point = made_task(made, "vid", VideoScorer(), ["1"] * 4 + ["2"] * 5, meta)
    for number in range(9):
        made.reply(point, f"s{number}", f"Two people walk by, says description {number}.")
    run = made.write()
    grades = dict(enumerate(["1", "0", "1", "1", "2", "1", "0", "2"]))
    words = {record.sample: words_of(record) for record in made.records}
    append(
        run.path,
        *(
            Judgement("vid", point, f"s{n}", 0, "j", "i", words[f"s{n}"], answer=g)
            for n, g in grades.items()
        ),
    )
    found = score_table(run.path)
    assert (value(found, "vid_ab").value, value(found, "vid_aba").value) == (0.75, 0.625)
    assert (value(found, "vid").value, value(found, "vid").n) == (0.6875, 8)
    accuracy = value(found, "accuracy", task="vid")
    assert (accuracy.right, accuracy.wrong, accuracy.unreadable) == (5, 3, 1)


@pytest.mark.parametrize("words", ["1", "2", "Score: 1", "Score: 2"])
def test_numbers_of_a_model_s_own_are_no_score_of_its_video(made: MadeRun, words: str) -> None:
    """The scripted answer "1" was right for every AB video."""
    point = made_task(made, "vid", VideoScorer(), ["1", "2"], [{"type": "AB"}, {"type": "ABA"}])
    made.reply(point, "s0", words)
    made.record(point, "s1", answer=words)
    found = score_table(made.write().path)
    accuracy = value(found, "accuracy", task="vid")
    assert (accuracy.value, accuracy.right, accuracy.wrong, accuracy.unreadable) == (None, 0, 0, 2)
    assert not found.where(metric="vid_ab").rows
    assert {
        scored.reason for run in found.scores for point in run.points for scored in point.all
    } == {"unjudged"}
    printed = " ".join(repr(found).split())
    assert "vid: 2 replies without a score until a judge gives one" in printed
    assert "not judged" in printed


def test_the_overall_scores_need_every_subtask(made: MadeRun) -> None:
    pairs = [{"pair": "a"}, {"pair": "a"}]
    for name, answers in (("GC-Mat", "TF"), ("GC-Trk", "TT"), ("OC-Cpr", "TF"), ("PC-Cpr", "TF")):
        made.answers(made_task(made, name, PairScorer(name), "TF", pairs), list(answers))
    for name in ("OC-Cnt", "PC-Cnt"):
        made.answers(
            made_task(made, name, CountScorer(name), ["1", "2"], [{"image_len": 2}] * 2), ["1", "1"]
        )
    for name in ("OC-Grp", "PC-Grp"):
        made.answers(made_task(made, name, GroupScorer(name), ["A", "D"], [{}, {}]), ["A", "D"])
    found = score_table(made.write().path)
    overall = value(found, "overall_8")
    assert overall.value == pytest.approx((1 + 0 + 1 + 1 + 0.5 + 0.5 + 1 + 1) / 8)
    assert (overall.task, overall.n_tasks) == ("VLM2-Bench", 8)
    assert not found.where(metric="overall_9").rows
    (chance,) = found.where(metric="overall_8", contestant="chance (level)").rows
    assert chance.value == pytest.approx((0.25 * 2 + 0.5 * 2 + 0.5 * 2 + 0.25 * 2) / 8)


# ---- files


def jpeg(value: int = 90) -> bytes:
    return bytes(cv2.imencode(".jpg", np.full((8, 10, 3), value, np.uint8))[1])


def lay(root: Path, file: str, rows: Sequence[Any], media: str, names: Sequence[str]) -> Path:
    """Write one subtask in the official layout."""
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows),
        encoding="utf-8",
    )
    for name in names:
        (root / media / name).parent.mkdir(parents=True, exist_ok=True)
        (root / media / name).write_bytes(jpeg())
    return root


def gc(q_id: str, key: str, **more: Any) -> dict[str, Any]:
    return {
        "q_id": q_id,
        "task": "mat",
        "question": f"Is it right? {key}",
        "gt_answer": key,
        "edited_prompt": "secret",
        "images": ["1.jpg", "2.jpg"],
        **more,
    }


GC_FILE, GC_MEDIA = "jsonl/gc/vanilla/gc_mat.jsonl", "data/gc/processed"
OC_MEDIA = "data/oc/original_obj"


def test_gc_items(tmp_path: Path) -> None:
    lay(
        tmp_path,
        GC_FILE,
        [gc("7", "T"), gc("7", "F"), gc("8", "T"), gc("8", "F")],
        GC_MEDIA,
        ["1.jpg", "2.jpg"],
    )
    task = Vlm2Bench("GC-Mat", tmp_path)
    items = list(task)
    assert [(i.sample.id, i.answer, i.sample.meta["pair"]) for i in items] == [
        ("7_p", "T", "7"),
        ("7_n", "F", "7"),
        ("8_p", "T", "8"),
        ("8_n", "F", "8"),
    ]
    sample = items[0].sample
    assert sample.meta["prompt"] == "\nIs it right? T"
    assert [image.size for image in sample.images] == [(10, 8), (10, 8)]
    assert "secret" not in str(sample.to_dict())
    assert spec(task.facts.scorer) == {"use": "eval.tasks.PairScorer", "name": "GC-Mat"}
    assert (task.facts.split, task.facts.note, task.facts.left_out) == ("all", "2 pair ids", ())
    assert len(task.facts.revision) == len("sha256 ") + 64


def test_shared_and_single_pair_ids_are_told(tmp_path: Path) -> None:
    rows = [gc("7", "T"), gc("7", "F"), gc("7", "T"), gc("9", "T")]
    lay(tmp_path, GC_FILE, rows, GC_MEDIA, ["1.jpg", "2.jpg"])
    task = Vlm2Bench("GC-Mat", tmp_path)
    assert [item.sample.id for item in task] == ["7_p", "7_n", "7_p2", "9_p"]
    assert (
        task.facts.note
        == "2 pair ids; 1 shared by more than two questions, such as 7; 1 with one question only,"
        " such as 9"
    )


@pytest.mark.parametrize("name", ["OC-Cnt", "OC-Grp", "OC-Cpr"])
def test_oc_items(tmp_path: Path, name: str) -> None:
    more: dict[str, dict[str, Any]] = {
        "OC-Cnt": {"gt_answer": 2, "image_seq_len": 3, "question": "How many?"},
        "OC-Grp": {"gt_answer": "D) 1 and 2", "question": GROUPING},
        "OC-Cpr": {"gt_answer": "T", "question": "The same?"},
    }
    row = {
        "q_id": "17_p",
        "type": "bag",
        "images": ["bag/1.jpg", "data/oc/original_obj/bag/2.jpg"],
        **more[name],
    }
    lay(
        tmp_path,
        f"jsonl/oc/vanilla/{name.lower().replace('-', '_')}.jsonl",
        [row],
        OC_MEDIA,
        ["bag/1.jpg", "bag/2.jpg"],
    )
    (item,) = Vlm2Bench(name, tmp_path)
    assert [image.size for image in item.sample.images] == [(10, 8), (10, 8)]
    assert item.sample.meta["type"] == "bag"
    if name == "OC-Cnt":
        assert (item.answer, item.sample.meta["image_len"], item.sample.choices) == ("2", 3, ())
    elif name == "OC-Grp":
        assert (item.answer, item.sample.choices) == (
            "D",
            ("1 and 3", "None", "2 and 3", "1 and 2"),
        )
        assert item.sample.question == "Rule. Which images show the same bag?"
        assert item.sample.meta["prompt"] == f"\n{GROUPING}"
    else:
        assert (item.answer, item.sample.meta["pair"]) == ("T", "17")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{broken", "line 12: no JSON object"),
        ({"q_id": "1"}, "line 12: lacks question, gt_answer, images; it has q_id"),
        (gc("1_p", "yes"), 'gt_answer is "T" or "F", found \'yes\''),
        (gc("1", "T"), "q_id is <id>_p or <id>_n, found '1'"),
        (gc("1_n", "T"), "its side says F, its key T"),
        (gc("0_p", "T"), "the id '0_p' is already that of line 1"),
        (gc("1_p", "T", images=[]), "1_p has no images"),
    ],
)
def test_one_bad_line_is_left_out_and_counted(tmp_path: Path, row: Any, words: str) -> None:
    good = [gc(f"{n // 2}_{'pn'[n % 2]}", "TF"[n % 2]) for n in range(11)]
    lay(tmp_path, "jsonl/oc/vanilla/oc_cpr.jsonl", [*good, row], OC_MEDIA, ["1.jpg", "2.jpg"])
    task = Vlm2Bench("OC-Cpr", tmp_path)
    assert len(list(task)) == len(task) == 11
    count, reason = task.facts.left_out
    assert count == "1 lines of jsonl/oc/vanilla/oc_cpr.jsonl left out"
    assert words in reason


def test_a_file_of_other_rows_stops(tmp_path: Path) -> None:
    lay(tmp_path, "jsonl/oc/vanilla/oc_cpr.jsonl", [{"id": 1}, {"id": 2}], OC_MEDIA, [])
    with pytest.raises(TaskError, match="2 of 2 lines cannot be used\n  line 1: lacks q_id"):
        len(Vlm2Bench("OC-Cpr", tmp_path))


def test_a_missing_image_fails_its_own_sample(tmp_path: Path) -> None:
    lay(
        tmp_path,
        GC_FILE,
        [gc("7", "T"), gc("7", "F", images=["no.jpg"])],
        GC_MEDIA,
        ["1.jpg", "2.jpg"],
    )
    first, second = Vlm2Bench("GC-Mat", tmp_path)
    assert first.sample.images[0].size == (10, 8)
    with pytest.raises(PictureError, match=r"no\.jpg cannot be read"):
        second.sample.images[0].size  # noqa: B018


def test_a_path_may_not_leave_the_folder(tmp_path: Path) -> None:
    lay(
        tmp_path / "set",
        GC_FILE,
        [gc("7", "T", images=["../../../../../secret.jpg"])],
        GC_MEDIA,
        [],
    )
    (tmp_path / "secret.jpg").write_bytes(jpeg())
    (item,) = Vlm2Bench("GC-Mat", tmp_path / "set")
    with pytest.raises(PictureError, match="leads out of the folder"):
        item.sample.images[0].size  # noqa: B018


def zipped(root: Path, extra: str = "", prefix: str = "") -> Path:
    out = root / "set.zip"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr(
            f"{prefix}{GC_FILE}", "\n".join(json.dumps(row) for row in (gc("7", "T"), gc("7", "F")))
        )
        for name in ("1.jpg", "2.jpg"):
            held.writestr(f"{prefix}{GC_MEDIA}/{name}", jpeg())
        if extra:
            held.writestr(extra, b"x")
    return out


@pytest.mark.parametrize("prefix", ["", "vlm2-bench_dataset/"])
def test_the_zip_is_read_in_place(tmp_path: Path, prefix: str) -> None:
    zipped(tmp_path, prefix=prefix)
    for path in (tmp_path / "set.zip", tmp_path):
        assert [i.sample.images[1].size for i in Vlm2Bench("GC-Mat", path)] == [(10, 8)] * 2
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["set.zip"]


@pytest.mark.parametrize(
    "name", ["../evil.jpg", "/etc/evil", "a/../../evil", "..\\evil.jpg", "C:/evil"]
)
def test_a_zip_that_climbs_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TaskError, match="1 entries lead out of the folder"):
        len(Vlm2Bench("GC-Mat", zipped(tmp_path, name)))


def test_a_truncated_zip_says_so(tmp_path: Path) -> None:
    out = zipped(tmp_path)
    out.write_bytes(out.read_bytes()[:-40])
    with pytest.raises(TaskError, match="is no zip that can be read"):
        len(Vlm2Bench("GC-Mat", out))


def test_a_damaged_zip_entry_fails_its_sample(tmp_path: Path) -> None:
    out = zipped(tmp_path)
    with zipfile.ZipFile(out) as held:
        place = held.getinfo(f"{GC_MEDIA}/1.jpg").header_offset + 30 + len(f"{GC_MEDIA}/1.jpg")
    data = bytearray(out.read_bytes())
    data[place + 8 : place + 20] = bytes(12)
    out.write_bytes(bytes(data))
    first, _ = Vlm2Bench("GC-Mat", out)
    with pytest.raises(PictureError, match=r"1\.jpg is damaged"):
        first.sample.images[0].size  # noqa: B018
    assert first.sample.images[1].size == (10, 8)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "GC-Mtt"}, "did you mean 'GC-Mat'"),
        ({"name": "PC-VID", "fps": 1.0}, "set one of them"),
        ({"name": "PC-VID", "frames": 0}, "above 0"),
        ({"name": "GC-Mat", "hub": "a/b"}, "and not both"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        len(Vlm2Bench(**{"path": tmp_path, **settings}))


def test_vlmevalkit_s_table(tmp_path: Path) -> None:
    import base64
    import csv

    code = base64.b64encode(jpeg()).decode()
    rows = [
        ["index", "question", "answer", "category", "image"],
        ["gc-mat_7_p", "right?\nreally", "T", "gc-mat", repr([code, code])],
        ["gc-mat_7_n", "right?", "F", "gc-mat", repr([code, code])],
        ["oc-cnt_1", "How many different bags are there?", "2", "oc-cnt", repr([code] * 3)],
    ]
    with (tmp_path / "img.tsv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t").writerows(rows)
    items = list(Vlm2Bench("GC-Mat", tmp_path / "img.tsv"))
    assert [(i.sample.meta["pair"], i.answer, len(i.sample.images)) for i in items] == [
        ("gc-mat_7", "T", 2),
        ("gc-mat_7", "F", 2),
    ]
    assert items[1].sample.images[1].payload.data == jpeg()
    (count,) = Vlm2Bench("OC-Cnt", tmp_path / "img.tsv")
    assert (count.answer, count.sample.meta["image_len"], count.sample.meta["type"]) == (
        "2",
        3,
        "bag",
    )
    with pytest.raises(TaskError, match="has no category pc-cnt; it has gc-mat, oc-cnt"):
        len(Vlm2Bench("PC-Cnt", tmp_path / "img.tsv"))


OBJECT_QUESTIONS = [
    (
        "OC-Cpr",
        "Judge this: 'The bags in these images are the same bag.' Respond with 'T' or 'F'.",
        "bag",
    ),
    (
        "OC-Cpr",
        "Judge this: 'The toys in these images are not the same toy.' Respond with 'T' or 'F'.",
        "toy",
    ),
    (
        "OC-Cnt",
        "The Question is: How many different water bottles are there in the input images?",
        "water bottle",
    ),
    (
        "OC-Cnt",
        "The Question is: How many different glasss are there in the input images?",
        "glass",
    ),
    (
        "OC-Grp",
        "Which images show the same Pet in the input images? Choices: A) 1 and 2; B) None",
        "pet",
    ),
    ("OC-Grp", "Which images show the same shoe? Choices: A) 1 and 2; B) None", "shoe"),
    ("OC-Cnt", "How many?", None),
    ("PC-Grp", "Which images show the same person? Choices: A) 1 and 2; B) None", None),
]


@pytest.mark.parametrize(("name", "question", "kind"), OBJECT_QUESTIONS)
def test_the_type_of_object_is_read_from_the_question_where_there_is_no_field(
    tmp_path: Path, name: str, question: str, kind: str | None
) -> None:
    key = {"Cpr": "T", "Cnt": "1", "Grp": "A"}[name[3:]]
    side = "_p" if key == "T" else ""
    line = {"question": question, "gt_answer": key, "images": ["1.png"]}
    rows = [line | {"q_id": f"1{side}"}, line | {"q_id": f"2{side}", "type": "given"}]
    lay(tmp_path, SUBTASKS[name][0][0], rows, OC_MEDIA, [])
    asked, given = Vlm2Bench(name, tmp_path)
    assert (asked.sample.meta.get("type"), given.sample.meta.get("type")) == (kind, "given")


# ---- videos


def film(path: Path, frames: int = 20, rate: float = 10.0) -> Path:
    """A film whose frame i is grey, 10 * i."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), rate, (32, 24))
    assert writer.isOpened()
    for number in range(frames):
        writer.write(np.full((24, 32, 3), 10 * number, np.uint8))
    writer.release()
    return path


@pytest.mark.parametrize(
    ("count", "rate", "frames", "fps", "numbers"),
    [
        (20, 10.0, 3, None, [0, 10, 19]),
        (2, 10.0, 8, None, [0, 1]),
        (20, 10.0, 1, None, [0]),
        (20, 10.0, None, 1.0, [0, 10]),
        (20, 10.0, None, 4.0, [0, 2, 5, 7, 10, 12, 15, 17]),
        (3, 10.0, None, 50.0, [0, 1, 2]),
        (0, 0.0, 8, None, []),
    ],
)
def test_which_frames_are_shown(
    count: int, rate: float, frames: int | None, fps: float | None, numbers: list[int]
) -> None:
    assert choose_frames(count, rate, frames, fps) == numbers


def test_frames_of_a_film(tmp_path: Path) -> None:
    video = VideoFrames(film(tmp_path / "a.avi"), "a.avi", 3)
    assert video.times == [0.0, 1.0, 1.9]
    assert [round(float(picture.pixels.mean())) for picture in video.pictures] == pytest.approx(
        [0, 100, 190], abs=3
    )


def vid(root: Path, *names: str) -> Vlm2Bench:
    rows = [{"vid": name, "question": "Describe it."} for name in names]
    lay(root, "jsonl/pc/vallina/pc_v_open-ended.jsonl", rows, "data/pc/video/UNI", [])
    return Vlm2Bench("PC-VID", root, frames=4)


def test_videos_as_items(tmp_path: Path) -> None:
    film(tmp_path / "data/pc/video/UNI/AB_1.avi")
    film(tmp_path / "data/pc/video/UNI/ABA_1.avi")
    first, second = vid(tmp_path, "AB_1", "ABA_1")
    assert [(i.sample.meta["type"], i.answer) for i in (first, second)] == [
        ("AB", "1"),
        ("ABA", "2"),
    ]
    assert (len(first.sample.images), first.sample.meta["seconds"]) == (4, [0.0, 0.6, 1.3, 1.9])
    assert first.sample.images[3].size == (32, 24)
    assert first.sample.sha == next(iter(Vlm2Bench("PC-VID", tmp_path, frames=4))).sample.sha


@pytest.mark.parametrize("data", [None, b"no video at all", b""])
def test_a_video_that_does_not_decode_fails_its_own_sample(
    tmp_path: Path, data: bytes | None
) -> None:
    film(tmp_path / "data/pc/video/UNI/AB_1.avi")
    if data is not None:
        (tmp_path / "data/pc/video/UNI/AB_2.mp4").write_bytes(data)
    good, bad = vid(tmp_path, "AB_1", "AB_2")
    assert len(good.sample.images) == 4
    with pytest.raises(PictureError, match=r"AB_2\.mp4"):
        bad.sample.images[0].size  # noqa: B018


def test_a_video_in_a_zip(tmp_path: Path) -> None:
    film(tmp_path / "a.avi")
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as held:
        held.writestr(
            "jsonl/pc/vallina/pc_v_open-ended.jsonl",
            json.dumps({"vid": "ABA_1", "question": "Describe."}),
        )
        held.write(tmp_path / "a.avi", "data/pc/video/UNI/ABA_1.avi")
    (item,) = Vlm2Bench("PC-VID", tmp_path / "set.zip", frames=None, fps=1)
    assert [image.size for image in item.sample.images] == [(32, 24)] * 2
