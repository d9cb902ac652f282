"""The data of a page: its numbers are those of the tables, its words stay words, and it holds what
fits."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from looktwice.eval.analysis.finding import find
from looktwice.eval.display.table import Table, score_table
from looktwice.eval.page import of_runs, render_page
from looktwice.eval.page.conversations import sample_images
from looktwice.eval.page.data import PageAnswer, PageContestant, PageData, PageSample, PageTask
from looktwice.eval.page.pairs import ALL, PageNumbers
from looktwice.eval.page.render import escape_json, page_file, page_pieces
from looktwice.eval.statistics.paired import FLIP, compare_paired
from looktwice.eval.tasks import Folder
from looktwice.pipelines.encodings.image_files import to_png
from looktwice.pipelines.model import canonical
from looktwice.pipelines.picture import Picture, PictureError
from tests import tables
from tests.made_run import MadeRun

WRONG, RIGHT = PageAnswer("wrong", 0.0, "B"), PageAnswer("right", 1.0, "A")


def logs(answers: dict[str, str], tasks: int = 1, groups: int = 0) -> PageData:
    """Data as of anybody's logs: "1" is right, "0" wrong, "f" failed, " " not asked; samples go to
    tasks in turn."""
    failed, hidden = PageAnswer("failed", 0.0, reason="Traceback"), PageAnswer("hidden", 0.0)
    kinds = {"1": RIGHT, "0": WRONG, "f": failed, "h": hidden}
    count = max(map(len, answers.values()))
    samples = [
        PageSample(i % tasks, f"s{i}", group=str(i % groups) if groups else "")
        for i in range(count)
    ]
    given = {
        (who, i): (kinds[c],)
        for who, said in enumerate(answers.values())
        for i, c in enumerate(said)
        if c != " "
    }
    contestants = [PageContestant(name) for name in answers]
    return PageData("logs", contestants, [PageTask(f"t{i}") for i in range(tasks)], samples, given)


def page_of(table: Table, images: of_runs.Images | None = None) -> PageData:
    return of_runs.RunPage(table.scores, images).data(table.rows)


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert match
    return dict(json.loads(match[1]))


def test_the_numbers_of_a_page_are_those_of_the_tables(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    for task, answers in {"a": ("AABB", "ABBB", "ABAA"), "b": ("AB", "AB", "BB")}.items():
        made.task(task, ["A", "B", "A", "B"][: len(answers[0])])
        for number, (name, letters) in enumerate(
            zip(("one", "two", "three"), answers, strict=True)
        ):
            made.answers(made.point(name, task, baseline=number == 0), list(letters))
    table = score_table(made.write().path)
    numbers = PageNumbers(page_of(table))
    who = [contestant.label for contestant in numbers.data.contestants]
    tasks = [*(task.label for task in numbers.data.tasks), "micro"]
    for arm in numbers.arms:
        about = {"contestant": who[arm.contestant], "task": tasks[arm.task]}
        (row,) = table.where(metric="accuracy", **about)
        found = arm.accuracy
        assert found and found.n == row.n
        assert [found.value, found.low, found.high] == pytest.approx([row.value, row.low, row.high])
    for pair in (pair for pair in numbers.pairs if pair.rival == numbers.baseline):
        task = ["a", "b", "micro"][pair.task]
        (row,) = table.where(contestant=who[pair.contestant], metric="accuracy", task=task)
        paired = pair.paired
        assert paired.better + paired.worse == row.discordant
        numbers_of_row = [row.delta, row.delta_low, row.delta_high, row.p, row.p_holm]
        of_page = [paired.value, paired.low, paired.high, paired.p, pair.p_holm]
        assert of_page == pytest.approx(numbers_of_row)
    assert len(numbers.pairs) == 9  # any two of three, on two tasks and on both


def test_pairs_leave_out_what_failed_or_was_asked_of_one_alone() -> None:
    numbers = PageNumbers(logs({"base": "1100f1", "other": "0111f "}, tasks=2))
    pairs = {
        pair.task: (pair.paired.n, pair.paired.better, pair.paired.worse, pair.out)
        for pair in numbers.pairs
    }
    assert pairs == {0: (2, 1, 1, 0), 1: (2, 1, 0, 1), ALL: (4, 2, 1, 1)}
    assert [a.accuracy and a.accuracy.n for a in numbers.arms if a.contestant == 1] == [3, 2, 5]


def test_samples_of_one_group_are_compared_as_clusters() -> None:
    data = logs({"base": "110011001100", "other": "111100111111"}, groups=4)
    pair, _ = PageNumbers(data).pairs
    values = [[data.answers[who, i][0].value for i in range(12)] for who in (1, 0)]
    assert pair.paired == compare_paired(values[0], values[1], [str(i % 4) for i in range(12)])
    assert pair.paired.test == FLIP


@tables.table
def test_the_summary_is_made_of_the_numbers(answers: dict[str, str], said: str) -> None:
    assert said in " ".join(PageNumbers(logs(answers)).summary)


def test_json_in_a_page_is_text_and_nothing_else() -> None:
    value = {"a": "</script><script>&\u2028\ud800<!--"}
    text = escape_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&") and text.isascii()


def test_a_browser_without_light_dark_has_the_light_page() -> None:
    style = re.search(r"<style>(.*?)</style>", render_page(logs({"a": "1"})), re.S)
    assert style
    themed = re.findall(r"(--[\w-]+): light-dark\(([^,]+),", style[1])
    _, _, plain = style[1].partition("@supports not (color: light-dark(#000, #fff))")
    assert len(themed) > 20
    assert re.findall(r"(--[\w-]+): (#\w+)", plain.partition("}")[0]) == themed


@pytest.mark.parametrize("count", [0, 1, 1000, 1001])
def test_the_data_of_a_page_is_written_in_pieces(count: int) -> None:
    """Of 100,000 samples the data and its JSON took 90 MB at once."""
    data = logs({"a": "1" * count})
    pieces = [*page_pieces(data)]
    found = data_of("".join(pieces))
    assert [row["id"] for row in found["samples"]] == [f"s{number}" for number in range(count)]
    assert [row[1:4:2] for row in found["draws"]] == [[number, 1] for number in range(count)]
    assert max(piece.count('"id":"s') for piece in pieces) <= 1000 and found["texts"] == (
        ["", "A"] if count else []
    )


def test_a_page_of_anybodys_logs(tmp_path: Path) -> None:
    data = data_of(render_page(logs({"a": "10f1", "b": "1 11"})))
    assert data["contestants"] == ["a", "b"] and data["is_whole"] and not data["served"]
    assert len(data["draws"]) == 7 and len(data["samples"]) == 4


def test_a_file_holds_the_samples_on_which_contestants_differ_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeRun(tmp_path / "run")
    made.task("t", ["A"] * 6)
    for name, wrong in (("one", "s4"), ("two", "none")):
        point = made.point(name, "t")
        for number in range(6):
            is_wrong = f"s{number}" == wrong
            made.reply(point, f"s{number}", "Answer: B" if is_wrong else "Answer: A" + "." * 900)
    table = score_table(made.write().path)
    whole = page_of(table)
    assert whole.detailed is None and whole.answers[0, 4][0].turns[-1].parts == ("Answer: B",)
    monkeypatch.setattr(of_runs, "MOST_ANSWERS", 4)
    assert page_of(table).detailed == frozenset({4, 0})
    monkeypatch.setattr(of_runs, "MOST_CHARACTERS", 1300)
    cut = page_of(table)
    assert cut.detailed == frozenset({4})
    assert cut.answers[0, 0][0].verdict == "right" and not cut.answers[0, 0][0].turns


def test_a_reply_that_calls_tools_is_told_once(tmp_path: Path) -> None:
    """The next call sends it back, with the calls and without the reasoning."""
    made = MadeRun(tmp_path)
    made.task("t", ["A"])
    calls = [{"id": "1", "name": "crop", "arguments": "{}"}]
    question = {"role": "user", "parts": ["Which one?"]}
    turns = [{"role": "assistant", "parts": [], "tool_calls": calls}]
    turns += [{"role": "tool", "parts": ["Image 2"]}]
    sent = [made.blobs.put(canonical(turn).encode()) for turn in (question, *turns)]
    replies = {"text": "", "reasoning": "Too small.", "tool_calls": calls}, {"text": "Answer: A"}
    messages = (sent[:1], sent)
    pairs = zip(messages, replies, strict=True)
    asked = tuple({"messages": shas, "draw": 0, "reply": reply} for shas, reply in pairs)
    made.record(made.point("agent", "t"), "s0", calls=asked)
    told = page_of(score_table(made.write().path)).answers[0, 0][0].turns
    assert [turn.role for turn in told] == ["user", "reply", "tool", "reply"]


def test_what_a_full_file_does_not_show_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeRun(tmp_path / "run")
    made.task("t", ["A"] * 4)
    pictures = [Picture(np.full((8, 8, 3), shade, np.uint8)) for shade in (10, 20, 10, 30)]
    for row, picture in zip(made.samples, pictures, strict=True):
        row.sample["images"].append(picture.sha)
        row.sample["marks"].append({"label": "A", "x": 3.0, "y": 3.0, "image": 0})
    made.answers(made.point("plain", "t"), ["A"] * 4)
    table, read = score_table(made.write().path), list[str]()

    def images(task: str, sample: str) -> tuple[Picture, ...]:
        read.append(sample)
        return (pictures[int(sample[1:])],)

    monkeypatch.setattr(
        of_runs, "MOST_PICTURE_CHARACTERS", 4 * 120 + 1
    )  # one has room beside words
    monkeypatch.setattr(of_runs, "AHEAD", 1)
    data = page_of(table, images)
    assert (read, list(data.thumbnails)) == (["s0", "s2"], [pictures[0].sha])
    shown = [picture for sample in data.samples for picture in sample.pictures]
    assert [picture.name for picture in shown] == [picture.sha for picture in pictures]
    assert {picture.caption for picture in shown} == {"source 1"}
    assert [len(picture.marks) for picture in shown] == [1, 0, 1, 0]


def test_a_task_is_not_asked_for_what_the_run_kept(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    made.task("t", ["A"] * 3)
    kept, other = (
        Picture.encoded(to_png(np.full((8, 8, 3), shade, np.uint8))) for shade in (10, 20)
    )
    made.blobs.put(kept.payload.data)
    for row, sha in zip(made.samples, (kept.sha, other.sha, "unreadable: it is gone"), strict=True):
        row.sample["images"].append(sha)
    made.answers(made.point("plain", "t"), ["A"] * 3)
    table, asked = score_table(made.write().path), list[str]()

    def images(task: str, sample: str) -> tuple[Picture, ...]:
        asked.append(sample)
        return (other,)

    data = page_of(table, images)
    assert (asked, list(data.thumbnails)) == (["s1", "s2"], [kept.sha, other.sha])


def test_the_bytes_of_own_images_are_not_held(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    row = {"id": "a", "question": "Which?", "image": "a.png", "answer": "B"}
    (tmp_path / "samples.jsonl").write_text(json.dumps(row))
    images = sample_images({"id-t": Folder(tmp_path)})
    before = images("id-t", "a")[0]
    assert before.size == (8, 8)
    (tmp_path / "a.png").unlink()
    assert before.size == (8, 8)
    with pytest.raises(PictureError):
        _ = images("id-t", "a")[0].size


def test_runs_beside_one_another_share_their_samples(tmp_path: Path) -> None:
    paths = []
    for name, letters in (("first", ["A", "B"]), ("second", ["A", "A"])):
        made = MadeRun(tmp_path / name)
        made.task("t", ["A", "A"])
        made.answers(made.point("plain", "t"), letters)
        paths.append(made.write().path)
    table = score_table(paths)
    data = page_of(table)
    assert [who.label for who in data.contestants] == ["plain (first)", "plain (second)"]
    assert len(data.samples) == 2 and len(data.answers) == 4
    pair, _ = PageNumbers(data).pairs
    assert (pair.paired.n, pair.paired.better, pair.paired.worse) == (2, 1, 0)


def test_each_run_is_compared_with_its_own_baseline(tmp_path: Path) -> None:
    paths = []
    for name in ("first", "second"):
        made = MadeRun(tmp_path / name)
        made.task("t", ["A"] * 8)
        made.answers(made.point("plain", "t", baseline=True), ["A"] * 8)
        made.answers(made.point("other", "t"), ["B"] * 8)
        paths.append(made.write().path)
    numbers = PageNumbers(page_of(score_table(paths)))
    assert numbers.baselines == [0, 0, 2, 2]
    holm_of = {(pair.contestant, pair.rival, pair.task): pair.p_holm for pair in numbers.pairs}
    own = 2 / 2**8  # of one comparison on each of the two runs, as in their tables
    assert {holm_of[1, 0, 0], holm_of[3, 2, 0]} == {own}
    assert not any(pair.is_significant for pair in numbers.pairs if pair.paired.p > 0.05)


def test_any_rival_that_can_be_chosen_is_corrected_over_all_pairs() -> None:
    """Two contestants differ by p = 0.03 in a page of six, which wore a star; of one pair alone it
    is significant, and so is what differs on every sample."""
    base = "1" * 20 + "0" * 20
    better, worse = "1" * 23 + "0" * 17, "1" * 17 + "0" * 23
    two = PageNumbers(logs({"better": better, "worse": worse})).pairs
    assert [pair.is_significant for pair in two] == [True, True]
    answers = {"base": base, "better": better, "worse": worse, "third": base, "fourth": base}
    numbers = PageNumbers(logs(answers | {"all": "1" * 40}))
    pairs = {(p.contestant, p.rival): p for p in numbers.pairs if p.task == 0}
    assert pairs[2, 1].paired.p == pytest.approx(2 / 2**6)
    assert len(pairs) == 15 == numbers.comparisons
    assert (pairs[2, 1].p_holm or 0.0) > 0.2 and not pairs[2, 1].is_significant
    significant = {place for place, pair in pairs.items() if pair.is_significant}
    assert significant == {(5, 0), (5, 1), (5, 2), (5, 3), (5, 4)}
    data = data_of(render_page(numbers.data))
    assert data["comparisons"] == 15
    assert all(pair["p_holm"] is not None for pair in data["pairs"])


@pytest.mark.parametrize(("flips", "count"), [(5, 0), (6, 1)])
def test_a_rival_of_another_run_is_not_significant_without_a_correction(
    flips: int, count: int
) -> None:
    """Contestants of one's own data, each the baseline of its own run: p = 0.06 had no correction,
    which was taken for p = 0."""
    data = logs({"old": "0" * 20, "new": "1" * flips + "0" * (20 - flips)})
    runs = [replace(who, run=who.label, baseline=True) for who in data.contestants]
    numbers = PageNumbers(replace(data, contestants=[*runs, PageContestant("third", run="third")]))
    assert numbers.baselines == [0, 1, 0]
    assert f"{count} of 1 contestant" in " ".join(numbers.summary)


def test_families_share_the_level(tmp_path: Path) -> None:
    """Six of 40 samples are lost, p = 0.031: on one task it is significant, on two that both were
    asked on, and in two runs side by side, it is not; terminal and matrix agree."""
    said = []
    for tasks, runs in ((1, 1), (2, 1), (1, 2)):
        paths = []
        for run in range(runs):
            made = MadeRun(tmp_path / f"{tasks} {runs} {run}")
            for task in range(tasks):
                made.task(f"t{task}", ["A"] * 40)
                for name, lost in (("plain", 0), ("other", 0 if task else 6)):
                    point = made.point(name, f"t{task}", baseline=name == "plain")
                    made.answers(point, ["B"] * lost + ["A"] * (40 - lost))
            paths.append(made.write().path)
        table = score_table(paths)
        found = {row.sure for task in find(table).tasks for row in task.rows if row.difference}
        shown = PageNumbers(page_of(table))
        own = [p for p in shown.pairs if p.rival == shown.baselines[p.contestant]]
        assert {pair.is_significant for pair in own} == found
        said.append(found)
    assert said == [{True}, {False}, {False}]


COLORED = re.compile(r"([^{}]*)\{[^{}]*var\(--wrong\)[^{}]*\}")


def test_the_colour_of_wrong_answers_means_nothing_else() -> None:
    """Blue is better and orange worse; significant gains were drawn in the rust of wrong ones."""
    rules = [rule.strip().rpartition("}")[2] for rule in COLORED.findall(page_file("page.css"))]
    assert {rule.strip() for rule in rules} == {".rim-wrong", ".wrong"}
    scripts = "".join(page_file(f"page_{name}.js") for name in ("charts", "pictures", "samples"))
    assert "--wrong" not in scripts
