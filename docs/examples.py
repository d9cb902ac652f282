"""Writes the studies of docs/examples as pages, with their photographs and figures:
`python docs/examples.py [RUNS]`.

The studies run into that folder, `runs` by default, or go on there; it takes some minutes. A text
that the results contradict is refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console

from looktwice.eval import Results
from looktwice.eval.analysis.finding import TaskFinding
from looktwice.eval.analysis.one_change import FindingRow
from looktwice.eval.display.text_tables import TextTable, format_signed
from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.runs.check import check
from looktwice.eval.scoring.score import score_run
from looktwice.extras.looking.contribution import find_certificates, make_contribution_table
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.config.plan import Plan

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "examples"
PLUGINS = {"specialists": (str(FOLDER / "color_eyes.py"),)}
QUOTED = "Tool use gains|the pixels|the right region|than words|Tool turns"
"""The sentences of the certificate that the page quotes."""
SENT = re.compile(
    r"a run sends at most ([\d,]+) requests?, [\d,]+ pictures?, about ([\d,]+) tokens"
)

MARKERS = """\
# Which marks does a model see on my photographs?

Before you ask a model about marked places, find out which marks and letters it recognizes on your
own photographs; for anyone who marks images.

![Two photographs, each marked in four ways, with the model's answers](markers.webp)

## Question

If an answer about a marked place is wrong, the model may not know the thing, or not have seen the mark.
To separate the two, ask a question that needs only the marks: two points are marked A and B; which one is higher up?
Their coordinates give the answer, so nobody has to label anything.

The photographs are the {photos} of scikit-image, each with {pairs} random pairs of points.
The model is [Pocket](../pocket.md), which needs no key and no GPU.
It was trained on drawn shapes, so its figures hold for no other model; the method does.

## Study

```yaml
{study}
```

In a clone of looktwice, after `pip install -e .`:

    looktwice run docs/examples/markers.yaml

## Finding

{table}

Differences are from `rings`; `*`: p < 0.05 after Holm's correction.

- **Marks with letters are used.** With rings and letters the model is right on {rings} % of {n} questions, without
  marks on {none} %; chance is {chance} % (A, B or equal).
- **Letters are read.** Without them ({no_letters} points) nobody could tell A from B.
- **Dots are worse than rings** ({dots} points). Another color, smaller rings and arrows make no
  significant difference.
- **Large letters** ({large} points) are not significant. Questions about one photograph
  depend on each other, so the intervals count {photos} photographs rather than {n} questions: to find
  out, add photographs rather than pairs.

The average hides much: rings work on {best} of {pairs} questions about `{easy}`, and on {worst} about `{hard}`
(`looktwice score runs/markers --by photo`).

## Cost

{requests} requests, and about {tokens} tokens at one per 28 x 28 pixels
(`looktwice check docs/examples/markers.yaml`, before the run).
Pocket takes under a minute.

## On your own photographs

    python docs/examples/mark_photographs.py PHOTOS   # writes questions into that folder
    looktwice run docs/examples/markers.yaml data=PHOTOS --out mine \\
        'model={{use: pipelines.models.ChatAPI, model: NAME, url: "http://127.0.0.1:8000/v1"}}'
    looktwice view mine/markers --open   # until Ctrl-C

Then use the best `mark` in [a study of your own questions](../guide.md).
"""

SPECIALISTS = """\
# What does a specialist add to a model?

Compare a model with specialists that find corresponding points and depth, and see when to use
which; for anyone who builds a pipeline of both.

![Two views of a cat, marked for the reader: the model and the matcher choose different points](specialists.webp)

## Question

Which point of a second view shows the point REF of the first, if the view is turned by 10 or 40 degrees?
Which of two points is nearer to the camera?
Specialists exist for both: SIFT matches keypoints, and semi-global matching computes disparity from two views.
Here they answer the model's questions, and the same scorer judges both.

The photographs and the stereo pair are scikit-image's.
The answers follow from how the views were made, and from measured disparity.
The model is a **stand-in** of 60 lines, [color_eyes.py](color_eyes.py), as language models need a key or a GPU.
It gets the points as coordinates and compares the pixels around them; its figures say nothing about language models.

## Study

```yaml
{study}
```

In a clone of looktwice, after `pip install -e .`:

    looktwice run docs/examples/specialists.yaml --plugin docs/examples/color_eyes.py

## Finding

{table}

- **At 10 degrees both are right equally often** ({small} %).
- **SIFT knows when it fails.** At 40 degrees, the model is right on {large} %. SIFT abstains on {abstains} %
  and is right on {answered} % of the rest. Abstentions count as wrong, so its {change} points more
  are not significant. Its answers, and the model's to the other questions, are right on {both} % together.
- **Depth: no significant difference** ({disparity} % against {depth} %). All these questions are about one
  scene. The intervals ignore which questions share photographs, so they are too narrow.

## Cost

{requests} requests, and about {tokens} tokens at one per 28 x 28 pixels (`looktwice check`); specialists send none.
It takes one to two minutes on a CPU.
Networks answer in the same way, such as `matcher: {{use: specialists.matching.XFeat}}`
([specialists](../specialists.md)).

## On your own photographs

    python docs/examples/turn_photographs.py PHOTOS PAIRS   # only turned, so easier
    looktwice run docs/examples/specialists.yaml --out mine \\
        tasks.turned-40='{{use: eval.tasks.Folder, path: PAIRS}}' \\
        tasks.turned-10=null tasks.depth=null \\
        'model={{use: pipelines.models.ChatAPI, model: NAME, url: "http://127.0.0.1:8000/v1"}}'

For two real views, write a `samples.jsonl` ([guide](../guide.md)), or let `looktwice make` do so from
homographies or depth maps.
"""

AGENT = """\
# Does an agent's zoom help, and by what?

Certify how much of what an agent gains with a tool comes from what the tool shows; for anyone who
gives a model tools to look again.

![A photograph with small letters, and the part that the agent zoomed in on](agent.webp)

## Question

Suppose that an agent with a zoom is more accurate than a single look.
Does it see more, or does it profit from more turns, tokens or words?
Eight arms with the same seed, sizes and budgets tell these apart: one returns black images, one a
random crop, one only words.

The images are scikit-image's photographs in grey, with small colored letters, and {n} questions
such as "Which letter is red?".
The agent sees {pixels} pixels; its zoom cuts from the original.
The model is **simulated**: `NearSighted` reads letters that are {min_height} pixels high or more, and zooms otherwise.
Its limits are known, so that the certificate can be checked against them.

## Study

```yaml
{study}
```

In a clone of looktwice, after `pip install -e .`:

    looktwice run docs/examples/agent.yaml
    looktwice analyse runs/agent certify

## Finding

The certificate says:

{verdict}

{table}

This is expected of a model that is only near-sighted: black images show it nothing, a random crop
sometimes shows the letter, words about the crop may name it, and calls without results gain nothing.
The intervals count photographs, four questions each.
If `black` gains as much as `full` in your own run, the agent does not look.

## Cost

{sent} requests, {per_sample} for each question and arm, and {tokens} tokens.
`looktwice check` lists the most each arm can send.
Simulation takes under a minute.

## On your own photographs

Put photographs and a file `samples.jsonl` into a folder.
Each line has a question, and the box that matters (in pixels), for the arm `oracle`:

```json
{line}
```

    looktwice run docs/examples/agent.yaml data=FOLDER --out mine \\
        stages.agent.fit.pixels=1024 contestants.without.stages.fit.pixels=1024 \\
        'models.eyes={{use: pipelines.models.ChatAPI, model: NAME, url: "http://127.0.0.1:8000/v1"}}'
    looktwice analyse mine/agent certify

Photographs must be larger than these 1024 pixels.
Other tools go under `tools:` ([agents](../agents.md)); [did the image matter?](../mattered.md) has
more controls.
"""


def run(name: str, out: Path) -> Plan:
    """Run a study into a folder, or go on there, and return its plan."""
    plan = load_plan(FOLDER / f"{name}.yaml", plugins=PLUGINS.get(name, ()))
    Study(plan, out, RunOptions(workers=2), console=Console(quiet=True))()
    return plan


def study_text(name: str) -> str:
    """Return a study without its opening comment."""
    lines = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(lines[first:])


def estimate(plan: Plan) -> dict[str, str]:
    """Return the requests and tokens that `looktwice check` estimates."""
    requests, tokens = SENT.search("\n".join(check(plan))).groups()  # type: ignore[union-attr]
    return {"requests": requests, "tokens": tokens}


def percent(value: float) -> str:
    """Format a share without decimals."""
    return f"{100 * value:.0f}"


def table_of(tasks: Sequence[TaskFinding], names: str) -> str:
    """Return the rows of tasks as Markdown, with the tasks if there are several."""
    rows = [[task.task, *_cells(row)] for task in tasks for row in task.rows]
    header = ["task", names, "right, % [95 % interval]", "difference, points"]
    first = int(len(tasks) == 1)
    return TextTable(header[first:], [row[first:] for row in rows], 2 - first).markdown.replace(
        "\\", ""
    )


def _cells(row: FindingRow) -> Iterator[str]:
    assert row.accuracy is not None
    value, low, high = row.accuracy.value, row.accuracy.low, row.accuracy.high
    yield row.label
    yield f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    yield "" if row.is_baseline else f"{format_signed(row.change)}{'*' * row.is_significant}"


def require(**claims: bool) -> None:
    """Raise ValueError with the names of the claims that the results contradict."""
    if false := [name for name, holds in claims.items() if not holds]:
        raise ValueError(f"the results contradict the text: {', '.join(false)}")


def rows_of(task: TaskFinding) -> dict[str, FindingRow]:
    """Return the rows of a task by contestant."""
    return {row.label: row for row in task.rows}


def write_markers(out: Path) -> str:
    """Run the study of markers, draw its figure, and return its page."""
    plan = run("markers", out)
    results = Results.open(out / "markers")
    task = results.finding.tasks[0]
    rows = rows_of(task)
    same = [rows[name] for name in ("lime rings", "small rings", "arrows")]
    require(
        letters_matter=rows["no letters"].is_significant and rows["no letters"].change < 0,
        dots_are_worse=rows["dots"].is_significant and rows["dots"].change < 0,
        others_are_equal=not any(row.is_significant for row in same),
        large_letters_are_unsure=not rows["large letters"].is_significant
        and rows["large letters"].change > 0,
    )
    records = results.to_pandas()
    rings = records[records.contestant == "rings"]
    right = rings.groupby(rings["sample"].str.rpartition("-")[0])["score"].sum().sort_values()
    accuracy = {name: percent(row.accuracy.value) for name, row in rows.items() if row.accuracy}
    FIGURES.draw_markers(plan, ["rings", "large letters", "dots", "no letters"]).save(
        FOLDER / "markers.webp", "WEBP", quality=75, method=6
    )
    return MARKERS.format(
        **estimate(plan),
        study=study_text("markers"),
        table=table_of([task], "marks"),
        photos=len(right),
        pairs=len(rings) // len(right),
        n=len(rings),
        chance=percent(task.chance or 0),
        rings=accuracy["rings"],
        none=accuracy["no marks"],
        no_letters=format_signed(rows["no letters"].change, 0),
        dots=format_signed(rows["dots"].change, 0),
        large=format_signed(rows["large letters"].change, 0),
        easy=right.index[-1],
        best=int(right.iloc[-1]),
        hard=right.index[0],
        worst=int(right.iloc[0]) or "none",
    )


def write_specialists(out: Path) -> str:
    """Run the study of specialists, draw its figure, and return its page."""
    plan = run("specialists", out)
    results = Results.open(out / "specialists", plugins=PLUGINS["specialists"])
    records, found = results.to_pandas(), results.finding
    turned = records[records.task == "turned-40"]
    given, score = (
        turned.pivot(index="sample", columns="contestant", values=name)
        for name in ("answer", "score")
    )
    both = score["matches"].where(given["matches"].notna(), score["model"]).mean()
    tasks = {task.task: task for task in found.tasks}
    named = [tasks[name] for name in ("turned-10", "turned-40", "depth")]
    small, large, depth = (rows_of(tasks[name]) for name in ("turned-10", "turned-40", "depth"))
    match, disparity = large["matches"], depth["disparity"].accuracy
    model = [rows["model"].accuracy for rows in (small, large, depth)]
    assert (
        match.accuracy
        and match.answered_accuracy
        and disparity
        and model[0]
        and model[1]
        and model[2]
    )
    require(
        small_turns_are_easy=abs(small["matches"].change) < 0.03,
        matches_are_unsure=not match.is_significant and match.change > 0,
        answered_are_right=match.answered_accuracy.value > 0.95,
        both_are_better=both > max(match.accuracy.value, model[1].value),
        model_falls=model[1].value < model[0].value - 0.2,
        depth_is_equal=not depth["disparity"].is_significant and disparity.value > 0.95,
    )
    FIGURES.draw_specialists(plan, "turned-40", "model", "matches").save(
        FOLDER / "specialists.webp", "WEBP", quality=75, method=6
    )
    return SPECIALISTS.format(
        **estimate(plan),
        study=study_text("specialists"),
        table=table_of(named, "answered by"),
        small=percent(model[0].value),
        large=percent(model[1].value),
        abstains=percent(match.abstained_share),
        answered=percent(match.answered_accuracy.value),
        both=percent(both),
        change=format_signed(match.change, 0).lstrip("+"),
        disparity=percent(disparity.value),
        depth=percent(model[2].value),
    )


def write_agent(out: Path) -> str:
    """Run the study of the agent, draw its figure, and return its page."""
    plan = run("agent", out)
    folder = RunFolder(out / "agent")
    scores = score_run(folder)
    (certificate,) = find_certificates(scores)
    listed = make_contribution_table(certificate, scores)
    header = ["arm", "what it gets", "right, % [95 % interval]", "tokens per question"]
    rows = [[row[0], row[1], _one_line(row[3]), row[-1]] for row in listed.rows]
    gains = {
        role: certificate.compute_difference("full", role) for role in ("black", "random", "words")
    }
    turns = certificate.compute_difference("full", "result")
    sure = {role: gap is not None and gap.low > 0 for role, gap in gains.items()}
    require(
        pixels_matter=sure["black"],
        the_region_matters=sure["random"],
        words_suffice=not sure["words"],
        turns_add_nothing=turns is not None and turns.low <= 0 <= turns.high,
    )
    records = [*folder.records().values()]
    usages = [reply.usage for record in records for reply in record.replies]
    FIGURES.draw_agent(plan, "full").save(FOLDER / "agent.webp", "WEBP", quality=75, method=6)
    stage = FIGURES.find_arm(plan, "full", "task").stages["agent"]
    lines = (FOLDER / "letters/samples.jsonl").read_text(encoding="utf-8").splitlines()
    return AGENT.format(
        study=study_text("agent"),
        verdict="\n".join(f"- {said}" for said in certificate.verdict if re.search(QUOTED, said)),
        table=TextTable(header, rows, 2).markdown.replace("\\", ""),
        n=len(certificate.values.units),
        pixels=stage.fit.pixels,
        min_height=f"{vars(plan.models[0])['min_height']:g}",
        sent=f"{len(usages):,}",
        per_sample=f"{len(usages) / len(records):.1f}",
        tokens=f"{sum(usage.tokens_in + usage.tokens_out for usage in usages):,}",
        line=lines[0],
    )


def _one_line(cell: str) -> str:
    """Return a cell of two lines as one, its interval in brackets."""
    value, _, interval = cell.partition("\n")
    return f"{value} [{interval.replace('–', ', ')}]" if interval else value


PAGES: Mapping[str, Callable[[Path], str]] = {
    "markers": write_markers,
    "specialists": write_specialists,
    "agent": write_agent,
}
FIGURES = import_module(load_plugin(str(HERE / "example_pictures.py")))


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("runs")
    FIGURES.write_photographs(FOLDER / "photographs")
    FIGURES.write_letters(FOLDER / "letters")
    for name, write in PAGES.items():
        (FOLDER / f"{name}.md").write_text(write(out), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    main()
