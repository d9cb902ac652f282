"""The data of a page: its numbers are those of the tables, and its texts are escaped."""

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
from looktwice.eval.page import render_page, run_page
from looktwice.eval.page.conversations import make_image_loader
from looktwice.eval.page.data import PageAnswer, PageContestant, PageData, PageSample, PageTask
from looktwice.eval.page.pairs import ALL_TASKS, PageNumbers
from looktwice.eval.page.render import escape_json, read_page_file, stream_page
from looktwice.eval.statistics.paired import SIGN_FLIP_TEST, compare_paired
from looktwice.eval.tasks import Folder
from looktwice.pipelines.encodings.image_files import to_png
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.picture import Picture, PictureError
from tests import tables
from tests.made_run import MadeRun, join_attributes

WRONG, RIGHT = PageAnswer("wrong", 0.0, "B"), PageAnswer("right", 1.0, "A")


def logs(answers: dict[str, str], tasks: int = 1, groups: int = 0) -> PageData:
    """Return logs: "1" right, "0" wrong, "f" failed, "h" hidden, " " not asked."""
    failed, hidden = PageAnswer("failed", 0.0, reason="Traceback"), PageAnswer("hidden", 0.0)
    kinds = {"1": RIGHT, "0": WRONG, "f": failed, "h": hidden}
    samples = [
        PageSample(i % tasks, f"s{i}", group=str(i % groups) if groups else "")
        for i in range(max(map(len, answers.values())))
    ]
    given = {
        (who, i): (kinds[c],)
        for who, said in enumerate(answers.values())
        for i, c in enumerate(said)
        if c != " "
    }
    contestants = [PageContestant(name) for name in answers]
    return PageData("logs", contestants, [PageTask(f"t{i}") for i in range(tasks)], samples, given)


def page_of(table: Table, images: run_page.ImageLoader | None = None) -> PageData:
    return run_page.RunPage(table.scores, images).make_data(table.rows)


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert match
    return dict(json.loads(match[1]))


def test_the_numbers_of_a_page_are_those_of_the_tables(made: MadeRun) -> None:
    made.arms("a", "ABAB", "one", one="AABB", two="ABBB", three="ABAA")
    table = score_table(made.arms("b", "AB", "one", one="AB", two="AB", three="BB"))
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
        about = {"contestant": who[pair.contestant], "task": ["a", "b", "micro"][pair.task]}
        (row,) = table.where(metric="accuracy", **about)
        paired = pair.paired
        assert paired.better + paired.worse == row.discordant
        of_page = (*join_attributes(paired, "value low high p"), pair.p_holm)
        assert of_page == pytest.approx(join_attributes(row, "delta delta_low delta_high p p_holm"))
    assert len(numbers.pairs) == 9  # any two of three, on two tasks and on both


def test_pairs_exclude_samples_that_failed_or_were_asked_of_one_side_only() -> None:
    numbers = PageNumbers(logs({"base": "1100f1", "other": "0111f "}, tasks=2))
    pairs = {p.task: (*join_attributes(p.paired, "n better worse"), p.out) for p in numbers.pairs}
    assert pairs == {0: (2, 1, 1, 0), 1: (2, 1, 0, 1), ALL_TASKS: (4, 2, 1, 1)}
    assert [a.accuracy and a.accuracy.n for a in numbers.arms if a.contestant == 1] == [3, 2, 5]


def test_samples_of_one_group_are_compared_as_clusters() -> None:
    data = logs({"base": "110011001100", "other": "111100111111"}, groups=4)
    pair, _ = PageNumbers(data).pairs
    values = [[data.answers[who, i][0].value for i in range(12)] for who in (1, 0)]
    assert pair.paired == compare_paired(values[0], values[1], [str(i % 4) for i in range(12)])
    assert pair.paired.test == SIGN_FLIP_TEST


@tables.table
def test_the_summary_quotes_the_numbers_of_the_tables(answers: dict[str, str], said: str) -> None:
    assert said in " ".join(PageNumbers(logs(answers)).summary)


def test_json_in_a_page_cannot_become_markup() -> None:
    value = {"a": "</script><script>&\u2028\ud800<!--"}
    text = escape_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&") and text.isascii()


def test_a_browser_without_light_dark_shows_the_light_theme() -> None:
    style = re.search(r"<style>(.*?)</style>", render_page(logs({"a": "1"})), re.S)
    assert style
    themed = re.findall(r"(--[\w-]+): light-dark\(([^,]+),", style[1])
    _, _, plain = style[1].partition("@supports not (color: light-dark(#000, #fff))")
    assert len(themed) > 20
    assert re.findall(r"(--[\w-]+): (#\w+)", plain.partition("}")[0]) == themed


@pytest.mark.parametrize("count", [0, 1, 1000, 1001])
def test_the_data_of_a_page_is_written_in_pieces(count: int) -> None:
    """Regression: with 100,000 samples the data and its JSON took 90 MB at once."""
    pieces = [*stream_page(logs({"a": "1" * count}))]
    found = data_of("".join(pieces))
    assert [row["id"] for row in found["samples"]] == [f"s{number}" for number in range(count)]
    assert found["draws"] == [[0, 0, *[1, 0] * (count - 1)] if count else []]
    assert [row[:2] for row in found["outcomes"]] == ([["r", 1]] if count else [])
    assert max(piece.count('"id":"s') for piece in pieces) <= 1000
    assert found["texts"] == (["", "A"] if count else [])
    assert found["contestants"] == ["a"] and found["is_whole"] and not found["served"]


def test_a_file_holds_first_the_samples_on_which_contestants_differ(
    made: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.task("t", "A" * 6)
    for name, wrong in (("one", 4), ("two", None)):
        point = made.point(name, "t")
        for number in range(6):
            said = "Answer: B" if number == wrong else "Answer: A" + "." * 900
            made.reply(point, f"s{number}", said)
    table = score_table(made.write().path)
    whole = page_of(table)
    assert whole.detailed is None and whole.answers[0, 4][0].turns[-1].parts == ("Answer: B",)
    for most in ("MAX_ANSWERS", "MAX_SHOWN_ANSWERS"):
        monkeypatch.setattr(run_page, most, 4)
    assert page_of(table).detailed == frozenset({4, 0})
    monkeypatch.setattr(run_page, "MAX_CHARACTERS", 1300)
    cut = page_of(table)
    assert cut.detailed == frozenset({4})
    assert cut.answers[0, 0][0].verdict == "right" and not cut.answers[0, 0][0].turns


def test_a_reply_with_tool_calls_is_shown_once(made: MadeRun) -> None:
    """The next call sends it back with its tool calls and without the reasoning."""
    made.task("t", "A")
    calls = [{"id": "1", "name": "crop", "arguments": "{}"}]
    turns: list[dict[str, Any]] = [{"role": "user", "parts": ["Which one?"]}]
    turns += [{"role": "assistant", "parts": [], "tool_calls": calls}]
    turns += [{"role": "tool", "parts": ["Image 2"]}]
    sent = [made.blobs.put(write_canonical(turn).encode()) for turn in turns]
    first = {"text": "", "reasoning": "Too small.", "tool_calls": calls}
    asked = {"messages": sent[:1], "draw": 0, "reply": first}
    then = {"messages": sent, "draw": 0, "reply": {"text": "Answer: A"}}
    made.record(made.point("agent", "t"), "s0", calls=(asked, then))
    told = page_of(score_table(made.write().path)).answers[0, 0][0].turns
    assert [turn.role for turn in told] == ["user", "reply", "tool", "reply"]


def test_a_full_file_stops_reading_images(made: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    made.task("t", "AAAA", marks=[{"label": "A", "x": 3.0, "y": 3.0, "image": 0}])
    pictures = [Picture(np.full((8, 8, 3), shade, np.uint8)) for shade in (10, 20, 10, 30)]
    for row, picture in zip(made.samples, pictures, strict=True):
        row.sample["images"].append(picture.sha)
    made.answers(made.point("plain", "t"), "AAAA")
    table, read = score_table(made.write().path), list[str]()

    def images(task: str, sample: str) -> tuple[Picture, ...]:
        read.append(sample)
        return (pictures[int(sample[1:])],)

    # there is room for one in addition to texts
    monkeypatch.setattr(run_page, "MAX_PICTURE_CHARACTERS", 4 * 120 + 1)
    monkeypatch.setattr(run_page, "PREFETCHED_SAMPLE_COUNT", 1)
    data = page_of(table, images)
    assert (read, list(data.thumbnails)) == (["s0", "s2"], [pictures[0].sha])
    shown = [picture for sample in data.samples for picture in sample.pictures]
    assert [picture.name for picture in shown] == [picture.sha for picture in pictures]
    assert {picture.caption for picture in shown} == {"source 1"}
    assert [len(picture.marks) for picture in shown] == [1, 0, 1, 0]


def test_a_task_is_not_read_for_what_the_run_stored(made: MadeRun) -> None:
    made.task("t", "AAA")
    greys = [np.full((8, 8, 3), shade, np.uint8) for shade in (10, 20)]
    kept, other = (Picture.encoded(to_png(grey)) for grey in greys)
    made.blobs.put(kept.payload.data)
    for row, sha in zip(made.samples, (kept.sha, other.sha, "unreadable: it is gone"), strict=True):
        row.sample["images"].append(sha)
    made.answers(made.point("plain", "t"), "AAA")
    table, asked = score_table(made.write().path), list[str]()

    def images(task: str, sample: str) -> tuple[Picture, ...]:
        asked.append(sample)
        return (other,)

    data = page_of(table, images)
    assert (asked, list(data.thumbnails)) == (["s1", "s2"], [kept.sha, other.sha])


def test_image_bytes_are_not_held_in_memory(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    row = {"id": "a", "question": "Which?", "image": "a.png", "answer": "B"}
    (tmp_path / "samples.jsonl").write_text(json.dumps(row))
    images = make_image_loader({"id-t": Folder(tmp_path)})
    before = images("id-t", "a")[0]
    assert before.size == (8, 8)
    (tmp_path / "a.png").unlink()
    assert before.size == (8, 8)
    with pytest.raises(PictureError):
        _ = images("id-t", "a")[0].size


def test_runs_side_by_side_share_their_samples(tmp_path: Path) -> None:
    said = {"first": "AB", "second": "AA"}
    paths = [MadeRun(tmp_path / name).arms("t", "AA", plain=said[name]) for name in said]
    data = page_of(score_table(paths))
    assert [who.label for who in data.contestants] == ["plain (first)", "plain (second)"]
    assert len(data.samples) == 2 and len(data.answers) == 4
    pair, _ = PageNumbers(data).pairs
    assert join_attributes(pair.paired, "n better worse") == (2, 1, 0)


def test_each_run_is_compared_with_its_own_baseline(tmp_path: Path) -> None:
    said = {"plain": "A" * 8, "other": "B" * 8}
    runs = [MadeRun(tmp_path / name) for name in ("first", "second")]
    table = score_table([run.arms("t", "A" * 8, "plain", **said) for run in runs])
    numbers = PageNumbers(page_of(table))
    assert numbers.baselines == [0, 0, 2, 2]
    holm_of = {(pair.contestant, pair.rival, pair.task): pair.p_holm for pair in numbers.pairs}
    own = 2 / 2**8  # of one comparison on each of the two runs, as in their tables
    assert {holm_of[1, 0, 0], holm_of[3, 2, 0]} == {own}
    assert not any(pair.is_significant for pair in numbers.pairs if pair.paired.p > 0.05)


def test_the_correction_covers_every_pair_that_can_be_chosen() -> None:
    """Regression: p = 0.03 between two of six contestants had a star."""
    base = "1" * 20 + "0" * 20
    better, worse = "1" * 23 + "0" * 17, "1" * 17 + "0" * 23
    two = PageNumbers(logs({"better": better, "worse": worse})).pairs
    assert [pair.is_significant for pair in two] == [True, True]
    answers = {"base": base, "better": better, "worse": worse, "third": base, "fourth": base}
    numbers = PageNumbers(logs(answers | {"all": "1" * 40}))
    pairs = {(p.contestant, p.rival): p for p in numbers.pairs if p.task == 0}
    assert pairs[2, 1].paired.p == pytest.approx(2 / 2**6)
    assert len(pairs) == 15 == numbers.comparison_count
    assert (pairs[2, 1].p_holm or 0.0) > 0.2 and not pairs[2, 1].is_significant
    significant = {place for place, pair in pairs.items() if pair.is_significant}
    assert significant == {(5, 0), (5, 1), (5, 2), (5, 3), (5, 4)}
    data = data_of(render_page(numbers.data))
    assert data["comparisons"] == 15
    assert all(pair["p_holm"] is not None for pair in data["pairs"])


@pytest.mark.parametrize(("flips", "count"), [(5, 0), (6, 1)])
def test_a_rival_of_another_run_needs_a_correction(flips: int, count: int) -> None:
    """Regression: p = 0.06 without a correction was treated as p = 0."""
    data = logs({"old": "0" * 20, "new": "1" * flips + "0" * (20 - flips)})
    runs = [replace(who, run=who.label, baseline=True) for who in data.contestants]
    numbers = PageNumbers(replace(data, contestants=[*runs, PageContestant("third", run="third")]))
    assert numbers.baselines == [0, 1, 0]
    assert f"{count} of 1 contestant" in " ".join(numbers.summary)


def test_families_of_comparisons_share_the_significance_level(tmp_path: Path) -> None:
    """Six of 40 lost is p = 0.031: significant on a single task of a single run only."""
    said, right = [], "A" * 40
    for tasks, runs in ((1, 1), (2, 1), (1, 2)):
        paths = []
        for run in range(runs):
            made = MadeRun(tmp_path / f"{tasks} {runs} {run}")
            path = made.arms("t0", right, "plain", plain=right, other="B" * 6 + "A" * 34)
            if tasks == 2:
                made.arms("t1", right, "plain", plain=right, other=right)
            paths.append(path)
        table = score_table(paths)
        found = {
            row.is_significant for task in find(table).tasks for row in task.rows if row.difference
        }
        shown = PageNumbers(page_of(table))
        own = [p for p in shown.pairs if p.rival == shown.baselines[p.contestant]]
        assert {pair.is_significant for pair in own} == found
        said.append(found)
    assert said == [{True}, {False}, {False}]


COLORED = re.compile(r"([^{}]*)\{[^{}]*var\(--wrong\)[^{}]*\}")


def test_the_colour_of_wrong_answers_has_no_other_meaning() -> None:
    """Blue is better and orange worse; regression: gains had the colour of wrong answers."""
    rules = [
        rule.strip().rpartition("}")[2] for rule in COLORED.findall(read_page_file("page.css"))
    ]
    assert {rule.strip() for rule in rules} == {".rim-wrong", ".wrong"}
    scripts = "".join(
        read_page_file(f"page_{name}.js") for name in ("charts", "pictures", "samples")
    )
    assert "--wrong" not in scripts
