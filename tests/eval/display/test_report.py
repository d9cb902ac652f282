"""The report: three files with the same figures, a page with its data."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval.display.table import score_table
from looktwice.eval.page.data import PageLines
from looktwice.eval.page.sweeps import make_curves, make_grids
from looktwice.eval.report import write_report
from looktwice.pipelines.picture import Picture
from tests.made_run import MadeRun
from tests.tables import table

HOSTILE = '<script>alert("x")</script> | **bold** [a](http://b)'
SECURITY = "Content-Security-Policy"


class Page(HTMLParser):
    """Parses a page: its tags, its texts, and whether every tag is closed."""

    VOID = ("meta", "img", "br", "wbr", "input", "link")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open = list[str]()
        self.tags = list[tuple[str, dict[str, str | None]]]()
        self.text, self.scripts = "", list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open += [] if tag in self.VOID else [tag]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag in self.VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
        else:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        """The data that the scripts of the page read, and its pictures, which come last."""
        return dict(json.loads(self.scripts[0]), pictures=json.loads(self.scripts[-1]))


def study(made: MadeRun) -> Path:
    """Two contestants on a swept task and on one with hostile texts."""
    for name in ("swept-0", "swept-1"):
        made.task(name, "ABAB")
    made.task("words", "AB", marks=[{"label": "R", "x": 3.0, "y": 3.0, "image": 0}])
    facts = {"split": "val", "label_version": "2024", "note": "one scene"}
    facts_and_errata = {**facts, "errata": ["labels were mixed up"]}
    for contestant, base in (("plain", True), ("other", False)):
        for strength, answers in enumerate(("ABAB", "AABA" if base else "AABB")):
            about = {"task_id": f"id-swept-{strength}", "facts": facts_and_errata}
            changes = {"tasks.swept.strength": strength}
            point = made.point(contestant, "swept", baseline=base, changes=changes, **about)
            made.answers(point, answers)
        point = made.point(contestant, "words", baseline=base)
        made.reply(point, "s0", HOSTILE)
        made.record(point, "s1", error=f"ValueError: {HOSTILE}\nTraceback ...")
    made.point("never", "words")
    path = made.write().path
    (path / "run.yaml").write_text("left_out: {mllm: OPENAI_API_KEY is not set}\n")
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, str]:
    """The page and the Markdown of the study."""
    folder = tmp_path_factory.mktemp("report")
    page = write_report([study(MadeRun(folder / "study"))], folder / "out")
    assert page == folder / "out" / "report.html"
    assert (folder / "out" / "report.csv").read_text().startswith("run,point,contestant")
    return Page(page), (folder / "out" / "report.md").read_text(encoding="utf-8")


def curve_of(path: Path) -> PageLines:
    table = score_table(path)
    (curve,) = make_curves(table.scores, table.rows)
    return curve


def test_the_files_hold_the_same_facts(written: tuple[Page, str]) -> None:
    page, words = written
    assert page.open == []
    facts = ["labels were mixed up", "2024", "one scene", "mllm", "OPENAI_API_KEY is not set"]
    # macro of other: the mean of 0.75 (4 of 4 and 2 of 4 on the swept task) and 0
    facts += ["never", "macro", "37.50"]
    for text in (words, page.text):
        assert [fact for fact in facts if fact not in text] == []
    assert "planned, but no sample has been asked yet" in words


def test_the_page_is_self_contained_and_runs_only_its_own_scripts(
    written: tuple[Page, str],
) -> None:
    page, _ = written
    assert not {tag for tag, _ in page.tags} & {"iframe", "object", "img"}
    names = {name for _, attrs in page.tags for name in attrs}
    assert not names & {"src", "style"} and not any(name.startswith("on") for name in names)
    policies = [attrs["content"] for _, attrs in page.tags if SECURITY in attrs.values()]
    _, *scripts, _ = page.scripts  # the first and the last are data
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    (policy,) = map(str, policies)
    assert f"default-src 'none'; script-src {hashes};" in policy and "connect-src 'none'" in policy
    assert HOSTILE in page.data["texts"] and "alert(" not in "".join(scripts)


def test_markdown_keeps_its_tables_whole(written: tuple[Page, str]) -> None:
    _, words = written
    assert "<script>" not in words
    for block in words.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) <= 1


@table
def test_reasons_and_failures_are_reported(
    written: tuple[Page, str], title: str, said: str
) -> None:
    assert re.search(said, written[1].split(f"## {title}\n")[1].split("##")[0])


def test_pictures_come_from_the_task_or_from_the_requests(made: MadeRun, tmp_path: Path) -> None:
    made.task("t", ["A", "B", "A"])
    for row in made.samples:
        row.sample["marks"].append({"label": "R&D", "x": 3.0, "y": 3.0, "image": 0})
    picture = Picture(np.full((8, 16, 3), 200, np.uint8))
    sent = made.blobs.put(picture.payload.data, picture.payload.sha)
    point = made.point("plain", "t")
    made.record(point, "s0", answer="A", pictures=(sent,))
    made.record(point, "s1", answer="A", pictures=("ab" * 32,))
    made.record(point, "s2", answer="A")
    found = Page(write_report([made.write().path], tmp_path / "sent")).data
    assert [sample["pictures"] for sample in found["samples"]] == [[], [], []]

    def images(task: str, sample: str) -> tuple[Picture, ...]:
        return (picture,) if (task, sample) == ("id-t", "s2") else ()

    made.samples[2].sample["images"].append(picture.sha)
    found = Page(write_report([made.write().path], tmp_path / "own", images=images)).data
    assert found["pictures"][picture.sha].startswith("data:image/jpeg;base64,")
    marks = [["point", 0.2188, 0.4375, 0, 0, "R&D"]]
    shown = {"name": picture.sha, "caption": "source 1", "marks": marks}
    assert found["samples"][2]["pictures"] == [shown]


def test_a_swept_number_is_drawn(made: MadeRun) -> None:
    curve = curve_of(study(made))
    assert (curve.factor, curve.task, curve.chance) == ("strength", "swept", 0.5)
    values = {label: [point[:2] for point in line] for label, line in curve.lines.items()}
    assert values == {"plain": [(0, 1.0), (1, 0.25)], "other": [(0, 1.0), (1, 0.5)]}


def test_a_single_change_is_drawn_with_the_unchanged_configuration(made: MadeRun) -> None:
    """The unchanged point has no change under `each:`; its number is that of the object."""
    made.task("t", "AA")
    spec: dict[str, Any] = {"stages": {"mark": {"radius": 10}}}
    made.answers(made.point("plain", "t", spec=spec), "AA")
    made.answers(made.point("plain", "t", changes={"stages.mark.radius": 5}, spec=spec), "AB")
    made.answers(made.point("bare", "t", spec={"stages": {}}), "AB")
    lines = curve_of(made.write().path).lines.items()
    assert {label: [x for x, *_ in line] for label, line in lines} == {"plain": [5, 10]}


def test_two_swept_settings_make_a_heat_map_averaged_over_a_third(made: MadeRun) -> None:
    made.task("t", "AA")
    answers = {(10, "red"): "BB", (10, None): "AB", (5, "red"): "AA", (5, None): "AB"}
    for (radius, color), said in answers.items():
        for draws, each in ((1, said), (2, "AA")):
            changes = {"stages.mark.radius": radius, "stages.mark.color": color, "draws": draws}
            made.answers(made.point("plain", "t", changes=changes, baseline=True), each)
    table = score_table(made.write().path)
    maps = {(grid.x, grid.y): grid for grid in make_grids(table.scores, table.rows)}
    assert list(maps) == list(combinations(("draws", "mark.color", "mark.radius"), 2))
    shown = maps["mark.color", "mark.radius"]
    places = [("red", 10), ("none", 10), ("red", 5), ("none", 5)]  # in the order of the study
    wanted = [(*place, value, 4) for place, value in zip(places, (0.5, 0.75, 1, 0.75), strict=True)]
    assert (shown.cells, shown.baseline, shown.over) == (wanted, ("red", 10), ["draws"])


def test_two_runs_in_one_report(tmp_path: Path) -> None:
    said = {"first": "AB", "second": "AA"}
    paths = [MadeRun(tmp_path / name).arms("t", "AA", plain=said[name]) for name in said]
    shown = score_table(paths).where(metric="accuracy", task="t", contestant="plain")
    assert [(row.run, row.value) for row in shown] == [("first", 0.5), ("second", 1.0)]
    write_report(paths, tmp_path / "out")
    assert "plain (second)" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_the_terminal_shows_no_means_for_a_single_task(made: MadeRun) -> None:
    shown = repr(score_table(made.arms("t", "AA", plain="AB")))
    assert "macro and micro" in shown and "micro\n" not in shown.replace(" ", "")


def test_the_terminal_shows_labels_with_brackets_and_every_fact(made: MadeRun) -> None:
    shown = repr(score_table(study(made)))
    facts = "split: val", "labels: 2024", "reader: robust"
    words = ("swept [strength=1]", "macro", "micro", "r/w/u/f/m", *facts)
    assert [word for word in words if word not in shown] == []
    assert re.search(r"other +50\.0 \[15\.0–85\.0\] +4 +2/2/0/0/0 +\+25\.0", shown)
