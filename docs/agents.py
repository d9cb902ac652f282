"""Makes docs/agents.md: how an agent is written, one sample's trace with its pictures, and what a
run of it shows.

python docs/agents.py [PAGE.md]
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from PIL import Image
from rich.console import Console

from looktwice.eval.analysis.analyses import analysis
from looktwice.eval.display.table import score_table
from looktwice.eval.runs import RunOptions, Study
from looktwice.pipelines.config import Plan, load_plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting import agent
from looktwice.prompting.agent import CodeCalls, NativeCalls, PlainCalls, TaggedCalls
from looktwice.prompting.agent.looks import read_looks

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "configs" / "agent_near_sighted.yaml"
SAMPLE = "count_0011"
HEAD = """\
# Agents: a model that looks again

An agent asks for tools, such as a zoom, and is shown what they bring, until it answers or meets a bound.

![What the oracle's zoom shows an agent: six small things, large enough to tell apart](agents/oracle.webp)

`prompting.agent.Agent` is a stage like any other: it shows the views, says the prompt, runs the tools that the model
asks for, and ends with an answer or at a bound. The tools are the stages of this framework, applied to one of the
images that the model was shown; what they bring is a new image with the next number. The model has to know tool calls,
or to follow a format in words, such as `protocol: {use: prompting.agent.PlainCalls}`; Pocket does neither.
`python docs/agents.py` makes this page and its pictures anew.
"""
TOOLS = """\
## Tools

Tools stand in a mapping, and the model calls them by the names that they have there, so an override reaches one tool,
another `use` puts a control in its place without the model's knowing, and `null` drops it.

| tool | what it shows or says |
| --- | --- |
"""
EVERY = """\
use: prompting.agent.Agent
reader: {use: eval.readers.Robust}
coordinates: 0-1000
tools:
  zoom: {use: prompting.agent.Zoom}
  magnify: {use: prompting.agent.Magnify}
  mark: {use: prompting.agent.DrawPoint}
  grid: {use: prompting.agent.ShowGrid, grid: {use: prompting.grids.RuledGrid, rows: 3, columns: 3}}
  measure: {use: prompting.agent.Measure}
  faces: {use: prompting.agent.ZoomOnFaces, detector: {use: specialists.detection.FaceCascade}}
  segment: {use: prompting.agent.ShowSegments, segmenter: {use: specialists.segmentation.Felzenszwalb}}
  match: {use: prompting.agent.ShowMatches, matcher: {use: specialists.matching.SIFT}}
  depth: {use: prompting.agent.ShowDepth, depth: {use: specialists.maps.SGBM}}
  undo: {use: prompting.agent.Undo}
  answer: {use: prompting.agent.Answer}
"""
OWN = """
The same tools serve any other agent: [`looktwice mcp`](howto/mcp.md).

A tool of your own is one small frozen dataclass in a file of your own, named by `--plugin FILE.py`: a `description`,
the `arguments` as a pydantic model, and `__call__(state, arguments) -> ToolResult`. `prompting/agent/tool.py` begins
with one.

Places are told in `coordinates`: `pixels`, `0-1` or `0-1000`, of the image as the model was shown it. `fit` sizes
every image before it is sent, and tools cut from the whole one, so that a zoom shows what the smaller image had lost.
"""
FORMS = """\
## How tools are asked for

`protocol` is one of four; arguments are read as JSON, checked by pydantic and never evaluated, and nothing but the
reply itself can call a tool: not the question, not the words of a tool, not what is written in an image.
"""
TRAINED = """\
## Agents that were trained elsewhere

A model that was trained to zoom knows one form of it: its own tags, names and coordinates; another may be worth points. For four
of them that form is a small configuration each, to run or to `include`:

```yaml
include: agent_deepeyes.yaml
task: {use: eval.tasks.Folder, path: my_questions}
```

| configuration | a call | places | images are called | result in | replies stop at |
| --- | --- | --- | --- | --- | --- |
| `agent_deepeyes` ([2505.14362](https://arxiv.org/abs/2505.14362)) | `<tool_call>` with `image_zoom_in_tool`, `bbox_2d`, `label` | pixels as seen | always the first | `<tool_response>` | their end |
| `agent_mini_o3` ([2509.07969](https://arxiv.org/abs/2509.07969)) | `<grounding>` with `bbox_2d`, `source` | 0-1 | `original_image`, `observation_1` | a line "Observation 1:" | `</grounding>` |
| `agent_thyme` ([2508.11630](https://arxiv.org/abs/2508.11630)) | `<code>` with Python | pixels as seen | the last | `<sandbox_output>` | `</code>` |
| `agent_qwen3_vl` | `<tool_call>` with `image_zoom_in_tool`, `bbox_2d`, `label`, `img_idx` | 0-1000 | from 0 | `<tool_response>` | their end |

What is reproduced: the form, as a golden conversation of each shows (`tests/prompting/agent/trained.yaml`); a simulated reader who asks in
these forms answers none to two of eight questions at 480 pixels, and all eight with the zooms of any of the four. What differs: the words of system and results are
ours, with the papers' structure (`system: {file: ...}`, `protocol: {how: "", then: {file: ...}}` take theirs); no result on these models is
claimed. A stop string is a setting that counts: users measure two points on V* by one with DeepEyes ([#60](https://github.com/Visual-Agent/DeepEyes/issues/60)).

**No code is run.** Thyme writes Python; here it is read for what `prompting.agent.Edit` can do, a crop and then `rotate`, `mirror`, `flip`,
`contrast`, `brightness`, `sharpness` and `color`, and everything else in it is passed over; code without one of them, or with places that it
computes, is refused with the reason. So a score is a lower bound of what it has with a sandbox; Thyme's own loop also goes on within one turn of the
assistant, which chat servers do not offer. `Edit` is a tool for every other agent as well.
"""
BOUNDS = """\
## What bounds it

`bounds` holds `steps` (replies that ask for tools), `calls` (of one reply), `images` and `megapixels` (that looks
bring), `tokens` and `seconds` (of the model's calls). At a bound the model is told so, offered no tool, and what it
then says is its answer. A malformed call (no such tool, arguments that do not fit, a box outside the image, swapped
corners, NaN) is answered with what is wrong with it; after `corrections` of them in a row the sample is abstained on,
with the reason in the record. What a tool cannot do is told to the model; one whose weights are missing fails the
sample. The same call is not run twice.
"""
TRACE = """\
## One sample, step by step

The model here is `eval.tasks.NearSighted`. It decodes the very bytes that it is sent and reads letters
only where they are 20 pixels high or more, and it says nothing about language models: it is there so that one knows
what looking again must be worth. The image has 1200 x 900 pixels, and 480 of them at its longest side are sent.

```yaml
{stages}
```
"""
AFTER = """\
Every look is a note in the record, from which the metrics are computed:

```
{notes}
```

**Controls.** The same first call, answered by the placebo (`elsewhere: true`: a crop of the same size elsewhere) and by
the oracle (`prompting.agent.OracleZoom`: the marked region, whatever was asked for). To the model both look like
`zoom`.

{controls}
"""
RUN = """\
## What a run of it shows

`looktwice run configs/agent_near_sighted.yaml` asks 60 such questions with up to three looks. It is an integration
test of the whole loop: accuracy must rise with the looks that are allowed, the placebo must not raise it, and the
oracle bounds it. Costs are in the model's own tokens, one for 28 x 28 pixels or four characters; the price is in
tokens per question for each point of accuracy gained over one glance without tools.

{table}

*First answer* is what the model said before it looked; *no answer to right*, *wrong to right* and *right to wrong*
count the looks over which the answer changed in this way. A model that says nothing before it looks can be asked with
`probe: What would you answer now?`, at one more call a look.

`looktwice replay RUN` goes through every record again with the recorded replies and no model, and compares what comes
out bit for bit. The replies themselves are compared with those of the run's cache, and questions and keys with those of
the task; where there is no cache, an edited reply cannot be told from a given one, and the command says so.

## Conversations for fine-tuning

`looktwice export RUN --to trajectories --out FILE` writes a line for each conversation, as JSONL, or as Parquet where the name ends
in `.parquet`. `--only right` keeps verdicts, `--whole` leaves out conversations with refused calls. All lines have the
same fields of the same types, so that Arrow, `datasets` and pandas read the file as it is; what is absent is null:

| field | what it holds |
| --- | --- |
| `messages` | turns: `role`, `content`, `tool_calls`, `tool_call_id` |
| `images` | the images of the turns, in their order: paths from the file's folder; in Parquet `bytes` and `path` |
| `tools` | the tools that were offered, as a text of JSON; `[]` where there were none |
| `id`, `task`, `contestant`, `sample` | where it comes from |
| `verdict`, `value`, `answer`, `key` | how it was scored |
| `looks`, `refused`, `ended`, `tokens` | tool calls, how many were malformed, why the agent stopped, all tokens |

`content` is a list of parts with `type` (`text` or `image`) and `text`. A call has `id`, `type` and `function` with
`name` and `arguments`: the text that the model wrote, as on OpenAI's wire, which in a malformed call is no JSON. A chat
template that asks whether a field is there wants the nulls dropped, and one that prints arguments with `tojson` wants
`json.loads(arguments)`. `datasets` shows Parquet's images after `cast_column("images", List(Image()))`.
"""


def points(found: Plan) -> dict[str, Arm]:
    """The point of each contestant that may look three times."""
    return {
        p.contestant: p for p in found.points if p.changes.get("stages.agent.bounds.steps") == 3
    }


def sample_of(point: Arm) -> Sample:
    """The sample of the trace."""
    return next(item.sample for item in point.task if item.sample.id == SAMPLE)


def traced(point: Arm) -> State:
    """The sample through the stages."""
    return Pipeline(point.stages)(State.start(sample_of(point)), point.model)


def turns(state: State, folder: Path) -> Iterator[str]:
    """The conversation as Markdown; every image is written into `folder` once."""
    for message in state.messages:
        text = "\n\n".join(_part(part, state, folder) for part in message.parts if part)
        calls = "".join(
            f"\n\n```json\n{call.name} {call.arguments}\n```" for call in message.tool_calls
        )
        yield f"**{message.role}**\n\n{text}{calls}\n"


def _part(part: str | View, state: State, folder: Path) -> str:
    if isinstance(part, str):
        return "\n".join(f"> {line}" for line in part.splitlines())
    number = next(n for n, view in enumerate(state.views, 1) if view is part)
    return picture(part, f"image-{number}", f"image {number}", folder)


def picture(view: View, name: str, title: str, folder: Path) -> str:
    """Write a view as it was sent; gives its Markdown."""
    Image.fromarray(view.pixels).save(folder / f"{name}.webp", "WEBP", lossless=True, method=6)
    return f"![{title}, {view.size[0]} x {view.size[1]} pixels]({folder.name}/{name}.webp)"


def controls(found: dict[str, Arm], folder: Path) -> str:
    """What placebo and oracle show at the first call."""
    lines = []
    for name in ("placebo", "oracle"):
        view = traced(found[name]).views[1]
        lines.append(f"{name}:\n\n{picture(view, name, name, folder)}")
    return "\n\n".join(lines)


def summary(cls: type) -> str:
    """The first paragraph of the docstring, in one line."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].split())


def tools() -> str:
    """A line for each tool, in its own words."""
    classes = {name: getattr(agent, name) for name in sorted(agent.__all__)}
    lines = [
        f"| `prompting.agent.{name}` | {summary(cls)} |"
        for name, cls in classes.items()
        if getattr(cls, "__module__", "").endswith(("tools", "words", "trained"))
        and hasattr(cls, "arguments")
    ]
    example = (
        f"\nWith specialists, as they stand under `stages:` in a slot:\n\n```yaml\n{EVERY}```\n"
    )
    return TOOLS + "\n".join(lines) + "\n" + example + OWN


def forms() -> str:
    """A call in each of the four forms."""
    call = 'zoom", "arguments": {"image": 1, "box": [114, 144, 330, 306]}}'
    shown = {
        NativeCalls: "(a function call of the server, with a JSON schema)",
        TaggedCalls: f'<tool_call>{{"name": "{call}</tool_call>',
        PlainCalls: 'CALL zoom {"image": 1, "box": [114, 144, 330, 306]}',
        CodeCalls: "<code>\npart = image.crop((114, 144, 330, 306)).rotate(90)\n</code>",
    }
    parts = [
        f"`prompting.agent.{form.__name__}`: {summary(form)}\n\n```\n{words}\n```\n"
        for form, words in shown.items()
    ]
    return FORMS + "\n" + "\n".join(parts)


def trace(folder: Path) -> str:
    """The worked trace."""
    arms = points(load_plan(CONFIG))
    state = traced(arms["zoom"])
    stages: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["stages"]
    shown = yaml.safe_dump(
        {"stages": stages}, sort_keys=False, default_flow_style=None, width=110
    ).strip()
    notes = "\n".join(look.note for look in read_looks(state.notes))
    after = AFTER.format(notes=notes, controls=controls(arms, folder))
    return "\n".join([TRACE.format(stages=shown), *turns(state, folder), after])


def table() -> str:
    """The run of the configuration, as the report shows its looks."""
    with tempfile.TemporaryDirectory() as out:
        asked = load_plan(CONFIG)
        kept = replace(
            asked,
            points=tuple(
                p for p in asked.points if p.changes.get("stages.agent.bounds.steps") != 0
            ),
        )
        outcome = Study(kept, Path(out), RunOptions(workers=2), console=Console(quiet=True))()
        return analysis("looks").tables(score_table(outcome.folder))[0].table.markdown


def write(page: Path) -> None:
    """Writes the page, and its pictures into the folder beside it that has the page's name; old
    ones are removed."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.webp"):
        old.unlink()
    parts = [HEAD, trace(folder), RUN.format(table=table()), tools(), forms(), TRAINED, BOUNDS]
    page.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("python docs/agents.py [PAGE.md]")
    write(Path(sys.argv[1]) if len(sys.argv) == 2 else HERE / "agents.md")
