"""Writes the model card of Pocket, `docs/pocket.md`, and what README says of the demo:
`python docs/pocket.py [RUNS]`.

It runs `configs/pocket.yaml` and `configs/quickstart.yaml` into that folder, `runs` by default, or
goes on there.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from looktwice.eval import Results
from looktwice.eval.display.text_tables import format_signed
from looktwice.eval.tasks import MarkedScenes
from looktwice.pipelines import Pipeline, Sample, State
from looktwice.pipelines.models import Pocket
from looktwice.pipelines.models.pocket.network import WEIGHTS_FILE, load_bundled_weights
from looktwice.pipelines.state import Stage
from looktwice.prompting import Ask, Circles
from looktwice.prompting.controls import OracleCrop
from looktwice.prompting.markers import Crosshairs
from looktwice.prompting.views import Crop

HERE = Path(__file__).resolve().parent
KINDS = {
    "shape": "what shape is marked, of four",
    "color": "what color is marked, of four",
    "symbol": "what letter or digit is on the marked tile, of four",
    "larger": "which of two marked things is larger, or neither",
    "higher": "which of two marked things is higher up, or neither",
    "count": "how many things of a color, a shape or both",
    "cell": "in which of nine cells a named thing lies, of four",
    "present": "which of four named things is there",
    "where": "where a named thing lies, x and y in percent",
}
EASY = {"larger": "ratio 2", "higher": "drop 120 pixels", "count": "3 things"}
STYLES = ("magenta, held out", "crosshairs, held out", "radius 7, held out", "unmarked")
BLIND = ("no image", "blank image", "another image")
NOISE = """\
The shipped weights are from 16,500 steps with seed 0 on version 2 of the task, in which the marked
object was often the smallest or largest; all figures below are on version 3.
Of two equally large objects, Pocket often calls one larger."""
HEAD = """\
# Pocket

Try, teach and test studies without a key, a GPU or torch, on a small vision-language model that is
part of the package.

![Three questions, each marked in five ways, and Pocket's answers](pocket/marks.webp)

    model: {{use: pipelines.models.Pocket}}

Pocket has {numbers:,} weights ({size:.1f} MB), runs in numpy and takes some ten milliseconds of one
core per question.
It was trained from scratch on generated scenes, so its accuracy depends on marks, zooms, grids and
wordings in ways that nobody programmed.
Its results do not transfer to any other model.

**Do not use it** for anything but `eval.tasks.MarkedScenes` and similar scenes.
It has never seen a photographed object, a person, a text, or a word outside its few hundred, and it
answers anyway.

**Architecture.** A convolutional encoder turns each view into 16 x 16 cells (resized to 128 pixels,
at most four views).
Five transformer layers, 96 wide, read the last 72 words, and two of them attend to the places.
It answers in up to seven words of the {words} that it knows.
It supports no tools, schemas or image output, so it cannot be the model of `Agent`; after
`CaptionThenAnswer` it answers at chance.

**Training.** 60,000 scenes of `eval.tasks.MarkedScenes` with other seeds and backgrounds than the
task's, each in six wordings.
Marks were circles of radius 12 to 44 pixels, boxes and some dots, in red, lime, blue, yellow, white
and black; a third of the marked scenes were zoomed, and a quarter were JPEG.
Held out, to measure fragility: magenta and cyan, crosshairs, arrows, spotlights, contours, and
smaller and larger rings.

    python -m bench.pocket.train FOLDER     # 90 minutes on two cores; continues where it stopped
    python -m bench.pocket.export FOLDER    # the weights

{NOISE}

All figures are of `looktwice run configs/pocket.yaml` (`python docs/pocket.py`): 95 % intervals,
exact paired p, Kruskal-Wallis along a control.
`guesser` is the best guesser that sees the image, but not what is marked or asked.
Weights {sha}.
"""


@dataclass(frozen=True)
class Figures:
    """The rows of a report.csv."""

    rows: Sequence[Mapping[str, str]]

    def row(
        self, contestant: str, task: str, metric: str = "accuracy", part: str = ""
    ) -> Mapping[str, str]:
        """The one row. Raises ValueError where there is none."""
        for row in self.rows:
            key = row["contestant"], row["task"], row["metric"], row["slice"]
            if key == (contestant, task, metric, part):
                return row
        raise ValueError(f"the report has no {metric} of {contestant} on {task} {part}".rstrip())

    def slices(self, contestant: str, task: str, control: str) -> list[Mapping[str, str]]:
        """Accuracy at each level of a control, the easiest first as the task names them."""
        return [
            row
            for row in self.rows
            if (row["contestant"], row["task"], row["metric"])
            == (contestant, task, "accuracy_along")
            and row["slice"].startswith(f"{control}=")
        ]

    def controls(self, contestant: str, task: str) -> list[str]:
        """The control parameters of a task."""
        names = [
            row["metric"]
            for row in self.rows
            if (row["contestant"], row["task"]) == (contestant, task)
        ]
        return [name.removeprefix("kruskal_") for name in names if name.startswith("kruskal_")]


def percent(row: Mapping[str, Any]) -> str:
    """A share with its interval."""
    value, low, high = (100 * float(row[name]) for name in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def change(row: Mapping[str, str]) -> str:
    """A share, its difference to the baseline in points, and p."""
    p = float(row["p"])
    return (
        f"{percent(row)}, {100 * float(row['delta']):+.1f}, p"
        f" {'< 0.0001' if p < 1e-4 else f'= {p:.4f}'}"
    )


def _who(kind: str) -> str:
    """The contestant that is asked for this kind: some have no choices, and some have nothing
    marked."""
    return (
        "open"
        if kind in ("count", "where")
        else "unmarked"
        if kind in ("cell", "present")
        else "pocket"
    )


def _subtasks(figures: Figures) -> Iterator[str]:
    yield (
        "| subtask | asked | easy level | majority | guesser | all levels | guesser"
        " |\n|---|---|---|---|---|---|---|"
    )
    for kind, words in KINDS.items():
        easy = figures.row(_who(kind), f"easy {kind}")
        most = figures.row("majority (key)", f"easy {kind}")["value"]
        every = figures.row(_who(kind), kind)
        level = EASY.get(kind, "size 56, 3 things")
        guessed = [_level(figures.row("guesser (level)", task)) for task in (f"easy {kind}", kind)]
        cells = (
            f"{percent(easy)} ({level})",
            f"{100 * float(most):.1f}",
            guessed[0],
            percent(every),
            guessed[1],
        )
        yield f"| {kind} | {words} | {' | '.join(cells)} |"


def _level(row: Mapping[str, str]) -> str:
    return f"{100 * float(row['value']):.1f}"


def _along(figures: Figures) -> Iterator[str]:
    yield "Controls with p of 0.05 or more are left out.\n"
    yield "| subtask | control | accuracy by level | p |\n|---|---|---|---|"
    for kind in KINDS:
        for control in figures.controls(_who(kind), kind):
            levels = figures.slices(_who(kind), kind, control)
            cells = ", ".join(
                f"{row['slice'].partition('=')[2]}: {100 * float(row['value']):.1f}"
                for row in levels
            )
            p = float(figures.row(_who(kind), kind, f"kruskal_{control}")["p"])
            if p < 0.05:
                shown = "< 0.0001" if p < 1e-4 else f"{p:.4f}"
                yield f"| {kind} | {control} | {cells} | {shown} |"


def _compared(figures: Figures, names: Sequence[str], tasks: Mapping[str, str]) -> Iterator[str]:
    yield f"| | {' | '.join(tasks)} |\n|---{'|---' * len(tasks)}|"
    yield (
        "| pocket |"
        f" {' | '.join(percent(figures.row('pocket', task)) for task in tasks.values())} |"
    )
    for name in names:
        yield (
            f"| {name} | {' | '.join(change(figures.row(name, task)) for task in tasks.values())} |"
        )


def _blind(figures: Figures) -> Iterator[str]:
    yield (f"| easy level | {' | '.join(BLIND)} | chance |\n|---|{'---|' * len(BLIND)}---|")
    for kind in KINDS:
        names = (
            [f"{name}, open" for name in BLIND if name != "blank image"]
            if _who(kind) == "open"
            else list(BLIND)
        )
        cells = [percent(figures.row(name, f"easy {kind}")) for name in names]
        if _who(kind) == "open":
            cells.insert(1, "")
        level = (
            ""
            if _who(kind) == "open"
            else f"{100 / (3 if kind in ('larger', 'higher') else 4):.1f}"
        )
        yield f"| {kind} | {' | '.join(cells)} | {level} |"


def page(figures: Figures) -> str:
    """The card."""
    weights = load_bundled_weights()
    file = HERE.parent / "pipelines/models/pocket" / WEIGHTS_FILE
    head = HEAD.format(
        numbers=weights.parameter_count,
        size=file.stat().st_size / 1e6,
        words=weights["embed"].shape[0],
        NOISE=NOISE,
        sha=weights.sha[:12],
    )
    marked = {kind: kind for kind in ("shape", "color", "symbol")}
    parts = [
        ("Accuracy by subtask", _subtasks(figures)),
        ("Accuracy by difficulty", _along(figures)),
        ("Effect of other marks", _compared(figures, STYLES, marked)),
        ("Without the image", _blind(figures)),
    ]
    return head + "".join(f"\n## {title}\n\n" + "\n".join(rows) + "\n" for title, rows in parts)


DEMO = {
    "marked": "the image with a red ring",
    "zoomed": "with the ring, and an enlarged crop of the ringed region",
    "zoomed elsewhere": "with the ring, and an enlarged crop of another region",
    "unmarked": "the image without a mark",
}
BLOCK = re.compile(r"(<!-- demo: .*?-->\n).*?(<!-- /demo -->)", re.DOTALL)


def demo(folder: Path) -> str:
    """What README says of a run of `configs/quickstart.yaml`: four rows of what was found on
    shapes, and two sentences."""
    task = Results.open(folder).finding.tasks[0]
    rows = {row.label: row for row in task.rows}
    n = vars(rows["marked"].accuracy)["n"]
    chance = f"{100 * (task.chance or 0):.0f} %"
    lines = [
        f"One of the demo's tasks: which shape is marked? ({n} questions; chance is {chance})",
        "",
        "| what the model is sent | right answers: count, % [95 % interval] | difference from the first row, points |",
        "|---|---|---|",
    ]
    for label, words in DEMO.items():
        row = rows[label]
        change = "" if row.is_baseline else f"{format_signed(row.change)}{'*' * row.is_significant}"
        right = round(row.accuracy.value * n)
        lines.append(f"| {words} | {right} of {n}: {percent(vars(row.accuracy))} | {change} |")
    gain, elsewhere = format_signed(rows["zoomed"].change), rows["zoomed elsewhere"]
    verb = "changes the accuracy" if elsewhere.is_significant else "makes no significant difference"
    lines += [
        "",
        "Without the ring the model cannot know which shape is meant. An enlarged crop of the ringed"
        f" region adds {gain.lstrip('+')} points;",
        f"a crop of another region {verb}. A `*` marks p < 0.05 after Holm's correction.",
        "",
    ]
    return "\n".join(lines)


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


MARKS: Mapping[str, Sequence[Stage]] = {
    "red ring": (Circles(radius=28, color="red"),),
    "magenta ring": (Circles(radius=28, color="magenta"),),
    "small ring": (Circles(radius=9, color="red"),),
    "crosshairs": (Crosshairs(radius=28, color="red"),),
    "ring and zoom": (
        Circles(radius=28, color="red"),
        OracleCrop(label="A", crop=Crop(min_px=72, upscale=256, show="both")),
    ),
}
SHOWN = 190  # pixels of a view in the picture


def picture() -> Image.Image:
    """Three questions about a marked shape, each marked in five ways, with what Pocket says: right
    green, wrong red.

    They are the first ones on which the ways of marking disagree.
    """
    rows: list[list[Image.Image]] = []
    for item in MarkedScenes("shape", n=200, seed=3, controls={"size": 28, "things": 6}):
        right = item.sample.choices["ABCD".index(item.answer)]
        cells = [_cell(name, stages, item.sample, str(right)) for name, stages in MARKS.items()]
        if 2 <= sum(good for good, _ in cells) <= 3:
            rows.append([cell for _, cell in cells])
        if len(rows) == 3:
            break
    width, height = rows[0][0].size
    whole = Image.new("RGB", (len(MARKS) * (width + 6) - 6, len(rows) * (height + 6) - 6), "white")
    for down, row in enumerate(rows):
        for across, cell in enumerate(row):
            whole.paste(cell, (across * (width + 6), down * (height + 6)))
    return whole


def _cell(
    name: str, stages: Sequence[Stage], sample: Sample, right: str
) -> tuple[bool, Image.Image]:
    pipeline = Pipeline(
        {**{str(number): stage for number, stage in enumerate(stages)}, "ask": Ask()}
    )
    state = pipeline(State.start(sample), Pocket())
    reply = state.trace[-1].calls[-1].reply
    assert reply is not None
    cell = Image.new("RGB", (SHOWN, SHOWN + 34), "white")
    cell.paste(
        Image.fromarray(state.views[-1].pixels).resize((SHOWN, SHOWN), Image.Resampling.LANCZOS),
        (0, 34),
    )
    draw = ImageDraw.Draw(cell)
    draw.text((2, 0), name, "black", font_size=14)
    draw.text(
        (2, 16),
        f"{reply.text}" if reply.text == right else f"{reply.text}, not {right}",
        "green" if reply.text == right else "red",
        font_size=14,
    )
    return reply.text == right, cell


def main() -> None:
    runs = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("runs")
    command = [sys.executable, "-c", "from looktwice.eval.cli import main; main()", "run"]
    for name in ("quickstart", "pocket"):
        subprocess.run(
            [*command, str(HERE.parent / f"configs/{name}.yaml"), "--out", str(runs)], check=True
        )
    (HERE / "pocket.md").write_text(
        page(Figures(_read(runs / "pocket/report.csv"))), encoding="utf-8"
    )
    picture().save(HERE / "pocket" / "marks.webp", "WEBP", quality=80, method=6)
    readme = HERE.parent / "README.md"
    text = demo(runs / "quickstart")
    readme.write_text(
        BLOCK.sub(lambda block: block[1] + text + block[2], readme.read_text("utf-8")), "utf-8"
    )


if __name__ == "__main__":
    main()
