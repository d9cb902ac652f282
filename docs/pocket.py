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
from looktwice.eval.display.text_tables import signed
from looktwice.eval.tasks import MarkedScenes
from looktwice.pipelines import Pipeline, Pocket, Sample, State
from looktwice.pipelines.models.pocket.network import FILE, shipped_weights
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
STYLES = ("blue", "magenta, held out", "crosshairs, held out", "radius 7, held out", "unmarked")
BLIND = ("no image", "blank image", "another image")
NOISE = """\
The shipped weights are what the first command made, 16,500 steps with seed 0, of scenes as version 2 of the task drew
them: there the asked thing was often the smallest or the largest, and wrong choices were seldom in the picture. They
were not trained anew since, so all figures below are of other scenes than they learnt from; the command draws scenes of
version 3 now, and would make other weights. Two subtasks show it. Things that are equally large were seldom large: of
two large ones it nearly always says that one is larger, so that it is now right on {larger} % of the easy level of
larger, which was 100.0 %. And names that are not in the image now have a color and a shape that are, if of two things:
over all levels of present it is right on {present} %, which was 85.3 %. A run that is stopped and goes on gives the
same weights bit for bit (a test holds small runs to that); other machines and other versions of torch add up in another
order. How far two whole runs lay apart, on the scenes of version 2: an earlier one, with 18,000 steps, with things that
seldom overlapped and with another order of lessons, was right on 89.2 % of the easy level of count, where this one was
on 81.7 %; on the easy levels of the other eight the two were at most 1.7 points apart, and over all their levels at
most 3.6."""
HEAD = """\
# Pocket

Pocket is the model in the box: a vision-language network of {numbers:,} weights, {size:.1f} MB, that looktwice trained
from scratch on its own made scenes. It runs in numpy: no key, no hub, no GPU, no torch. It is there so that a study can
be tried, taught and tested at once, on a model whose accuracy hangs on marks, zooms, grids and wordings for reasons
that nobody wrote down. It is no measure of any other model.

    model: {{use: pipelines.models.Pocket}}

**What it is.** A convolutional encoder makes 16 x 16 places of each view, which is brought to 128 pixels at its longer
side, up to four views; five transformer layers, 96 wide, read the last 72 words, two of them look at the places, and it
answers in up to seven words of the {words} that it knows. Every view, word and answer goes through the network; no rule
stands beside it. A question takes some ten milliseconds of one core. It has no tools, no schemas and no images of its
own to make, so it cannot be the model of `Agent`. `Vote` and `Reperceive` work as with any model; after
`CaptionThenAnswer` it answers at chance, because it cannot describe an image.

**What it learnt from.** 60,000 scenes of `eval.tasks.MarkedScenes`, drawn with other numbers than the task draws, with
six freshly worded questions each time that one came up. Grounds are plain or cut from photographs that the task does
not use. Marks were circles of radius 12 to 44 pixels, boxes and some dots, in red, lime, blue, yellow, white and black;
a third of the marked scenes were zoomed, a quarter of all sent as JPEG. Held out on purpose, so that fragility can be
measured: magenta and cyan, crosshairs, arrows, spotlights and contours, and smaller and larger rings. Beside the
replies it learnt what is at each place, which choice is right, and where the words of a question should look.

    python -m bench.pocket.train FOLDER     # an hour and a half on two cores; goes on where it was stopped
    python -m bench.pocket.export FOLDER    # the weights

{NOISE}

**What it must not be used for.** Anything but made scenes of `eval.tasks.MarkedScenes` and what resembles them: it has
never seen a photographed thing, a person, a text or a question in other words than its own few hundred. It answers all
the same.

All figures below: `looktwice run configs/pocket.yaml`, which `python docs/pocket.py` makes this page of. Intervals are
95 %, p exact and paired, those along a control Kruskal-Wallis. `guesser` is the level of the best guesser who sees all
that is in the image, but not what is marked or asked for. Weights {sha}.

![Three questions, each marked in five ways, and what Pocket says](pocket/marks.webp)
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
    yield "| subtask | control | accuracy by level | p |\n|---|---|---|---|"
    for kind in KINDS:
        for control in figures.controls(_who(kind), kind):
            levels = figures.slices(_who(kind), kind, control)
            cells = ", ".join(
                f"{row['slice'].partition('=')[2]}: {100 * float(row['value']):.1f}"
                for row in levels
            )
            p = float(figures.row(_who(kind), kind, f"kruskal_{control}")["p"])
            yield f"| {kind} | {control} | {cells} | {'< 0.0001' if p < 1e-4 else f'{p:.4f}'} |"


def _zooms(figures: Figures) -> Iterator[str]:
    yield (
        "| 16 and 24 pixels | whole image | zoomed on the mark beside it | zoomed elsewhere"
        " |\n|---|---|---|---|"
    )
    for kind in ("shape", "color", "symbol"):
        task = f"small {kind}"
        cells = (change(figures.row(name, task)) for name in ("zoomed", "zoomed elsewhere"))
        yield f"| {kind} | {percent(figures.row('pocket', task))} | {' | '.join(cells)} |"


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
    yield (
        f"| easy level | pocket | {' | '.join(BLIND)} | chance"
        f" |\n|---|---|{'---|' * len(BLIND)}---|"
    )
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
        yield (
            f"| {kind} | {percent(figures.row(_who(kind), f'easy {kind}'))} | {' | '.join(cells)} |"
            f" {level} |"
        )


def page(figures: Figures) -> str:
    """The card."""
    noise = NOISE.format(
        larger=_level(figures.row("pocket", "easy larger")),
        present=_level(figures.row("pocket", "present")),
    )
    weights = shipped_weights()
    file = HERE.parent / "pipelines/models/pocket" / FILE
    head = HEAD.format(
        numbers=weights.count,
        size=file.stat().st_size / 1e6,
        words=weights["embed"].shape[0],
        NOISE=noise,
        sha=weights.sha[:12],
    )
    marked = {kind: kind for kind in ("shape", "color", "symbol")}
    parts = [
        ("What it can do", _subtasks(figures)),
        ("What makes it harder", _along(figures)),
        ("What a zoom is worth", _zooms(figures)),
        ("What another mark costs", _compared(figures, STYLES, marked)),
        ("Whether it looks", _blind(figures)),
    ]
    return head + "".join(f"\n## {title}\n\n" + "\n".join(rows) + "\n" for title, rows in parts)


DEMO = {
    "marked": "a red ring of 28 pixels",
    "zoomed": "the same, and a zoom on it",
    "zoomed elsewhere": "the same, and a zoom on another place",
    "unmarked": "no mark",
}
BLOCK = re.compile(r"(<!-- demo: .*?-->\n).*?(<!-- /demo -->)", re.DOTALL)


def demo(folder: Path) -> str:
    """What README says of a run of `configs/quickstart.yaml`: four rows of what was found on
    shapes, and two sentences."""
    task = Results.open(folder).finding.tasks[0]
    rows = {row.label: row for row in task.rows}
    n = vars(rows["marked"].accuracy)["n"]
    head = f"what shape is marked? {n} questions"
    lines = [f"| {head} | right, % [95 % interval] | difference, points |", "|---|---|---|"]
    for label, words in DEMO.items():
        row = rows[label]
        change = "" if row.is_baseline else f"{signed(row.change)}{'*' * row.sure}"
        lines.append(f"| {words} | {percent(vars(row.accuracy))} | {change} |")
    shares = {label: f"{100 * vars(row.accuracy)['value']:.0f} %" for label, row in rows.items()}
    elsewhere = rows["zoomed elsewhere"]
    verb = "changes" if elsewhere.sure else "does not change"
    lines += [
        "",
        f"Without a mark the model is right on {shares['unmarked']} of the questions, with a red"
        f" ring on {shares['marked']}, and with a zoom on the ring on {shares['zoomed']}.",
        f"A zoom on another place {verb} its accuracy significantly; `*` is a significant difference"
        " after Holm's correction.",
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
