"""Makes docs/agents.md: how an agent is written, one sample's trace with its pictures, and what a
run of it shows.

python docs/agents.py [PAGE.md]
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from looktwice.extras.trained_agents import CodeCalls
from looktwice.pipelines.config import Plan, load_plan
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.extensions import list_own_classes
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting import agent
from looktwice.prompting.agent import NativeCalls, PlainCalls, TaggedCalls
from looktwice.prompting.agent.looks import read_looks

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "configs" / "agent_near_sighted.yaml"
SAMPLE = "count_0011"
HEAD = """\
# Agents: a model that looks again

Let a model call image tools, such as a zoom, before it answers, and measure what its looks
contribute; for anyone who builds or evaluates visual agents.

![What the oracle's zoom shows an agent: six small things, large enough to tell apart](agents/oracle.webp)

    looktwice run agent_near_sighted      # a zoom, its placebo and its oracle, on a simulated model

`prompting.agent.Agent` is a stage: it sends the views and the prompt, runs the tools that the model
calls, and ends with an answer or at a bound.
A tool applies a stage to an image that the model was shown; the result is a new image with the next
number.
The model must support tool calls, or follow a format in text, such as
`protocol: {use: prompting.agent.PlainCalls}`; Pocket does neither.
`python docs/agents.py` makes this page.
"""
TOOLS = """\
## Tools

`tools` maps names to tools; the model calls a tool by its name.
An override changes one tool, another `use` replaces it with a control, and `null` drops it.

| tool | what it does |
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
Any other agent can use the same tools by [`looktwice mcp`](howto/mcp.md).

Your own tool is a frozen dataclass in `--plugin FILE.py`, with a `description`, the `arguments` as a
pydantic model, and `__call__(state, arguments) -> ToolResult` (example: `prompting/agent/tool.py`).

`coordinates` is `pixels`, `0-1` or `0-1000` of the image as the model sees it.
`fit` resizes every image before it is sent; tools crop the original, so a zoom adds detail.
"""
FORMS = """\
## Formats of tool calls

`protocol` is one of four.
Arguments are parsed as JSON, validated by pydantic and never evaluated. Only the reply can call a
tool.
"""
TRAINED = """\
## Agents with a trained call format

A model that was trained to zoom knows one format. Four configurations have the formats of published
agents, to run or to `include`:

```yaml
include: agent_deepeyes.yaml
task: {use: eval.tasks.Folder, path: my_questions}
```

| configuration | call | places | images | result | stop |
| --- | --- | --- | --- | --- | --- |
| `agent_deepeyes` ([2505.14362](https://arxiv.org/abs/2505.14362)) | `<tool_call>` with `image_zoom_in_tool`, `bbox_2d`, `label` | pixels as seen | always the first | `<tool_response>` | end of reply |
| `agent_mini_o3` ([2509.07969](https://arxiv.org/abs/2509.07969)) | `<grounding>` with `bbox_2d`, `source` | 0-1 | `original_image`, `observation_1` | a line "Observation 1:" | `</grounding>` |
| `agent_thyme` ([2508.11630](https://arxiv.org/abs/2508.11630)) | `<code>` with Python | pixels as seen | the last | `<sandbox_output>` | `</code>` |
| `agent_qwen3_vl` | `<tool_call>` with `image_zoom_in_tool`, `bbox_2d`, `label`, `img_idx` | 0-1000 | from 0 | `<tool_response>` | end of reply |

The formats are tested with sample conversations, not with these models.
The system messages are ours; `system: {file: ...}` and `protocol: {how: "", then: {file: ...}}` take
the authors'.
Stop strings matter: users report a difference of two points on V* with DeepEyes
([#60](https://github.com/Visual-Agent/DeepEyes/issues/60)).

**No code is run.** Thyme's Python is parsed for the operations of `prompting.agent.Edit`: a crop and
then `rotate`, `mirror`, `flip`, `contrast`, `brightness`, `sharpness` and `color`.
Other operations are ignored; code without these, or with computed places, is refused with a reason.
The score is therefore a lower bound of the score with a sandbox.

## Python as a tool

`looktwice run agent_python --allow python-code` compares one look, a zoom, and
`prompting.agent.RunPython`: code that the model writes, with the images as `image_1`, `image_2`.
Variables stay for a sample; `show(picture)`, saved images and figures come back as images, errors
as a short traceback.
A picture made by Pillow's `crop`, `resize` or `transpose` keeps its place in the sample's images.
`looktwice replay` takes code, output and pictures from the record and runs nothing.

Code runs in a sandbox only: without network, your files or your environment, bounded in time,
memory and output.

| sandbox | where | Python |
| --- | --- | --- |
| `prompting.agent.Bubblewrap` (default) | Linux with `bwrap` | yours |
| `prompting.agent.Container` | Docker or Podman; `runtime: runsc` for gVisor | that of `image` |

Your own derives from `looktwice.extras.python_tool.PythonSandbox`.
"""
BOUNDS = """\
## Bounds

`bounds` limits `steps` (replies that call tools), `calls` (of one reply), `images` and `megapixels`
(of the looks), `tokens` and `seconds` (of the model's calls).
At a bound the model is told so and offered no tool; its next reply is its answer.

A malformed call (unknown tool, wrong arguments, a box outside the image, swapped corners, NaN) is
answered with an error message.
After `corrections` of them in a row the sample abstains, with the reason in its record.
If a tool fails, the model is told; if its weights are missing, the sample fails.
Repeated calls are not run again.
"""
TRACE = """\
## One sample, step by step

The model is `eval.tasks.NearSighted`, which decodes the sent bytes and reads letters only if they
are at least 20 pixels high.
The image has 1200 x 900 pixels; it is sent with a longest side of 480.

```yaml
{stages}
```
"""
AFTER = """\
Each look is a note in the record, such as

```
{note}
```

**Controls.** The same first call, answered by the placebo (`elsewhere: true`: a crop of the same
size elsewhere) and by the oracle (`prompting.agent.OracleZoom`: always the marked region).
The model is offered the same `zoom`.

{controls}
"""
RUN = """\
## What a run shows

`looktwice run agent_near_sighted` asks 60 such questions with up to three looks.
Accuracy rises with the number of looks, but not with the placebo; the oracle bounds it.
[An example](examples/agent.md) certifies what a zoom contributes.

If a model gives no answer before it looks, `probe: What would you answer now?` asks, at one more
call per look.
`looktwice replay RUN` repeats every record with the recorded replies, without a model, and compares
the results bit for bit.

## Conversations for fine-tuning

    looktwice export RUN --to trajectories --out FILE.jsonl       # or FILE.parquet

`--only right` filters by verdict, and `--whole` leaves out conversations with refused calls.
All lines have the same fields and types, with null for absent values:

| field | content |
| --- | --- |
| `messages` | turns: `role`, `content`, `tool_calls`, `tool_call_id` |
| `images` | images in the order of the turns: paths relative to the file; in Parquet `bytes` and `path` |
| `tools` | the tools that were offered, as JSON text; `[]` without tools |
| `id`, `task`, `contestant`, `sample` | source |
| `verdict`, `value`, `answer`, `key` | score |
| `looks`, `refused`, `ended`, `tokens` | tool calls, malformed ones, why the agent stopped, all tokens |

`content` is a list of parts with `type` (`text` or `image`) and `text`.
A call has `id`, `type` and `function` with `name` and `arguments`, the text that the model wrote.
A chat template that tests for a field needs the nulls dropped; one that uses `tojson` needs
`json.loads(arguments)`.
For images of a Parquet file in `datasets`: `cast_column("images", List(Image()))`.
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
    classes = {name: getattr(agent, name) for name in agent.__all__}
    for path, entry in list_own_classes().items():
        if path.startswith("prompting.agent."):
            classes[path.rpartition(".")[2]] = entry.open()
    lines = [
        f"| `prompting.agent.{name}` | {summary(cls)} |"
        for name, cls in sorted(classes.items())
        if getattr(cls, "__module__", "").endswith("tools") and hasattr(cls, "arguments")
    ]
    example = f"\nWith specialists, in a slot of `stages:`:\n\n```yaml\n{EVERY}```\n"
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
    fill = partial(textwrap.fill, width=100, break_on_hyphens=False)
    parts = [
        f"{fill(f'`prompting.agent.{form.__name__}`: {summary(form)}')}\n\n```\n{words}\n```\n"
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
    note = next(look.note for look in read_looks(state.notes))
    after = AFTER.format(note=note, controls=controls(arms, folder))
    return "\n".join([TRACE.format(stages=shown), *turns(state, folder), after])


def write(page: Path) -> None:
    """Writes the page, and its pictures into the folder beside it that has the page's name; old
    ones are removed."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.webp"):
        old.unlink()
    parts = [HEAD, trace(folder), RUN, tools(), forms(), TRAINED, BOUNDS]
    page.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("python docs/agents.py [PAGE.md]")
    write(Path(sys.argv[1]) if len(sys.argv) == 2 else HERE / "agents.md")
