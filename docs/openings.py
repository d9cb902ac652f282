"""Makes the pictures that open pages of docs/, in Chromium: `python -m docs.openings [FOLDER]`.

Each is a part of a page, or of a terminal, of a study that runs here, with Pocket or a scripted
model; its description holds the words that it shows.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap

from typer.testing import CliRunner

from docs.report_pages import make_report, photograph
from looktwice.eval.cli import app
from looktwice.eval.display.table import score_table
from looktwice.eval.page import render_page
from looktwice.eval.page.data import PageContestant, PageData, PageLines, PageTask
from looktwice.eval.records import RunFolder
from looktwice.eval.report import write_report
from looktwice.eval.runs import Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics.intervals import bootstrap_mean
from looktwice.eval.tasks import MarkedScenes
from looktwice.extras.inside.arms import PLACE_ORDER, probe_run
from looktwice.pipelines import Pipeline, State
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.models import Pocket
from looktwice.prompting import Ask, Circles, MultipleChoice
from tests.browser import Browser, open_browser
from tests.paths import DOCS, ROOT

STUDY = """
tasks:
  shape: {use: eval.tasks.MarkedScenes, kind: shape, n: %s, controls: {size: %s, things: 6}}
model: {use: pipelines.models.Pocket}
stages:
  mark: {use: prompting.markers.Circles, radius: 28, color: red}
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
contestants: {ringed: {}}
"""
ALONG = "thresholds: {along: size, target: 0.75, scale: log}\n"
SERVED = """ChatAPI, model: some-vlm, url: "http://127.0.0.1:8000/v1",
  max_tokens: 300, prices: {in: 2.50, out: 10.00}}"""
PRICED = STUDY.replace("Pocket}", SERVED)
TERMINAL = """<!doctype html><meta charset="utf-8"><body data-ready="1" style="margin: 0">
<pre style="background: #1c2025; color: #e7e9ec; font: 15px/1.4 monospace; padding: 1rem;
margin: 0; width: max-content">%s</pre><script>document.documentElement.dataset.ready = "1"</script>
"""
PARTS_OF = {"probes": "#lines .chart", "looking": "#lines .chart", "python": "body > div"}
NOTEBOOK = """<!doctype html><meta charset="utf-8"><body style="margin: 0">
<div style="padding: 1rem; width: 46rem">%s</div>
<script>document.documentElement.dataset.ready = "1"</script>"""


STRANGER = STUDY.replace(
    "MarkedScenes, kind: shape, n: %s, controls: {size: %s, things: 6}", "Folder, path: /etc"
)
KINDS = "mark_missed,wrong_object,reasoning"
READY = """document.documentElement.dataset.ready === '1'
|| Boolean(document.querySelector('#items section img')?.complete)"""


def typed(folder: Path, *commands: str) -> str:
    """What a terminal shows when these are typed, as a page."""
    lines = list[str]()
    for command in commands:
        words = [word.replace("FOLDER", str(folder)) for word in command.split()]
        result = CliRunner().invoke(app, words)
        written = (result.stdout or result.stderr).replace(f"{folder}/", "")
        written = written.replace(str(folder), "/home/you/studies")
        lines.append(f"$ looktwice {command.replace('FOLDER/', '')}")
        for line in (*written.splitlines(), ""):
            lines += wrap(line, 88, subsequent_indent="  ", drop_whitespace=False) or [""]
    return TERMINAL % escape("\n".join(lines).strip())


def layers(folder: Path) -> str:
    """What a probe reads in each layer of Pocket, beside what Pocket says, as the page draws it."""
    run = make_study(folder, "probes", STUDY % (600, 24))
    (arm,) = probe_run(score_run(RunFolder(run))).arms
    layers = sorted(arm.layers, key=lambda probe: PLACE_ORDER.index(probe.layer.place))
    shown = {"read by a probe": [probe.right for probe in layers]}
    shown["the model's answer"] = [arm.model_right] * len(layers)
    lines = {}
    for name, answers in shown.items():
        lines[name] = []
        for number, right in enumerate(answers, 1):
            share = bootstrap_mean(right, arm.clusters)
            lines[name].append((float(number), share.value, share.low, share.high))
    title = "layer (1 to 6: vision tower, 7: projector, 8 to 12: decoder)"
    drawn = PageLines(title, "What shape is marked?", lines, 0.25)
    made = [PageContestant("pocket")], [PageTask("shape")], (), {}
    return render_page(PageData("where it is lost", *made, lines=[drawn]))


def tokens_of_looks(folder: Path) -> str:
    """Accuracy against tokens of an answer, of each way to choose where to look, as the page draws
    it."""
    plan = load_plan(ROOT / "configs" / "tree_search.yaml")
    run, lines = Study(plan, folder)(), {}
    for row in score_table([run.folder], plan=plan).rows:
        if row.point and row.metric == "accuracy" and not row.slice:
            tokens = round((row.tokens_in + row.tokens_out) / row.n)
            lines[row.contestant] = [(tokens, row.value, row.low, row.high)]
    drawn = PageLines("tokens of an answer", "What is read in the picture?", lines)
    made = [PageContestant("near-sighted")], [PageTask("letters and shapes")], (), {}
    return render_page(PageData("where to look", *made, lines=[drawn]))


def make_study(folder: Path, name: str, text: str) -> Path:
    """Run a study, and give the folder of its run."""
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    run = Study(load_plan(folder / f"{name}.yaml"), folder / "runs")()
    write_report([run.folder], run.folder)
    return run.folder


def openings(folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Name, page, and which part of it is shown."""
    demo = make_report(folder / "runs")
    yield "statistics", demo, "#found .chart"
    sized = make_study(folder, "sizes", STUDY % (260, [8, 10, 12, 14, 16, 20, 28, 40]) + ALONG)
    yield "thresholds", sized / "report.html", "#lines > .chart:last-child"
    run = Study(load_plan(ROOT / "configs" / "tool_contribution.yaml", ["task.n=40"]), folder)()
    yield "mattered", write_report([run.folder], run.folder), "#found .chart"
    logs = folder / "logs"
    compared = "compare FOLDER/logs/unmarked_shape.eval FOLDER/logs/zoomed_shape.eval"
    for command in (
        f"export {demo.parent} --to inspect --out {logs}",
        f"{compared} --out FOLDER/compared",
    ):
        typed(folder, command)
    yield "compare", folder / "compared" / "compare.html", "#rivals .chart"
    typed(folder, f"annotate {demo.parent} --out FOLDER/sheet --taxonomy {KINDS} -n 1")
    yield "annotate", folder / "sheet" / "sheet.html", "body"
    for name, page in pages(folder).items():
        file = folder / f"{name}.html"
        file.write_text(page, encoding="utf-8")
        yield name, file, PARTS_OF.get(name, "pre")


def pages(folder: Path) -> dict[str, str]:
    """Pages that are made here, by name."""
    (folder / "study.yaml").write_text(STUDY % (60, 28), encoding="utf-8")
    (folder / "stranger.yaml").write_text(STRANGER, encoding="utf-8")
    (folder / "paid.yaml").write_text(PRICED % (60, 28), encoding="utf-8")
    sample = next(iter(MarkedScenes("shape", n=1))).sample
    marked = Pipeline({"mark": Circles(radius=28), "choose": MultipleChoice(), "ask": Ask()})
    shard = "run FOLDER/study.yaml --out FOLDER/shards/{0} --shard {0}/2"
    return {
        "money": typed(folder, "check FOLDER/paid.yaml"),
        "trust": typed(folder, "check FOLDER/stranger.yaml"),
        "scale": typed(
            folder,
            *(shard.format(number) for number in (1, 2)),
            "merge FOLDER/shards/1/study FOLDER/shards/2/study --out FOLDER/whole",
        ),
        "python": NOTEBOOK % marked(State.start(sample), Pocket())._repr_html_(),
        "probes": layers(folder),
        "looking": tokens_of_looks(folder),
    }


def take_openings(browser: Browser, folder: Path, out: Path) -> None:
    """Write each opening picture as NAME.webp into `out`."""
    size = {"width": 1100, "height": 1100, "deviceScaleFactor": 1, "mobile": False}
    browser.send("Emulation.setDeviceMetricsOverride", **size)
    out.mkdir(exist_ok=True)
    for name, page, selector in openings(folder):
        browser.open(f"{page.resolve().as_uri()}#theme=light", READY)
        photograph(browser, out / f"{name}.webp", selector, selector)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("python -m docs.openings [FOLDER]")
    target = Path(sys.argv[1]) if len(sys.argv) == 2 else DOCS / "openings"
    with tempfile.TemporaryDirectory() as made, open_browser(Path(made, "profile")) as chromium:
        take_openings(chromium, Path(made), target)
