"""Makes docs/mattered.md: turns that are scored, what a tool contributes, what needs no images, and
where one looks.

python docs/mattered.py [PAGE.md]
"""

from __future__ import annotations

import csv
import json
import re
import sys
import tempfile
import textwrap
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from rich.console import Console

from looktwice.eval import MarkedScenes, evaluate
from looktwice.eval.analysis.analyses import get_analysis
from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.extras.drawings import ColoredShapeCounter
from looktwice.extras.features import AttentionShare, QuestionAttention, VisionAttention
from looktwice.extras.looking.contribution import find_certificates, format_certificates
from looktwice.extras.scenes import GeneratedDoYouSeeMe
from looktwice.extras.studies.blindness import (
    find_audits,
    find_imageless_items,
    format_blind_items,
    make_audit_page,
)
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import Messages, Reply, Usage
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.prompting import MultipleChoice
from looktwice.prompting.turns import Ask, Reperceive
from looktwice.prompting.wording import Verbatim
from looktwice.specialists.rules import NoEvidence

HERE = Path(__file__).resolve().parent
CONFIGS = HERE.parent / "configs"
CHEATER = ("models.eyes={use: eval.tasks.NeverLooks, careless: true}", "task.leak=0.3")
SUMMARY = r"Tool use gains|Tool turns add|.*need the pixels|An arm whose looks"
PLANTED = (
    "task={use: eval.tasks.LettersAndShapes, n: 120, leak: 0.25}",
    "models.chat={use: eval.tasks.NeverLooks}",
    "stages.order=null",
    "stages.mark=null",
    'stages.choose={use: prompting.wording.AnswerLine, mark: "ANSWER:"}',
    "read={use: eval.readers.Marked}",
    "contestants.other=null",
    "contestants.shuffled=null",
    "contestants.caption=null",
    "contestants.choices-only=null",
    "contestants.blank=null",
    "contestants.question-only=null",
)
HEAD = """\
# Did the image matter?

Find out whether a mark, a zoom, a second look or a tool helped because of its pixels, or
only because of its words; for anyone who reports that looking helped.

![An agent with its tool, beside the same agent with black images, a random place, or words instead of the tool's image](openings/mattered.webp)

    looktwice run tool_contribution
    looktwice analyse runs/tool_contribution certify

All tables are of scripted models or constructed networks whose behaviour is known
(`python docs/mattered.py`).

## Measurements

A stage records a measurement with `state = state.measured("crop_share", 0.12)`: a number or a
category, or a list with one value per turn.
Scoring adds a row `measured.crop_share` to report.csv, the table "Measurements and accuracy",
curves of accuracy against it, and slices: `looktwice score RUN --by crop_share`.

| measured | by |
|---|---|
| `crop_share` | zooms |
| `vote_share`, `votes` | votes |
| `looks` | agents |
| `ssim` | `RedrawThenAnswer` |
| `attention_share`, `question_attention` | `AttentionShare`, `QuestionAttention` |
| `answer_changes` | re-perception with a reader |
| `confidence` | stages that give one |

## Turns

For `Reperceive`, `Verify`, `Vote`, agents and the lines of a chain of thought, the report reads the
answer after every turn.
This model answers A and then B. It gains six and loses six, which accuracy alone does not show:

"""
STOP = """
The report also tests rules that stop early against fixed numbers of turns at the same mean cost.
If answers have a confidence, it also has "Risk and coverage" and "Routing by confidence", the gain
of sending the least confident samples to another arm or a specialist.
"""
CONTRIBUTION = """
## What a tool contributes

`tool_contribution` runs eight arms of one agent with the same seed, sizes and budgets, and
`certify` writes the certificate: [an example](examples/agent.md).
The arms are settings of any agent, such as `results: {use: prompting.agent.BlackImages}`.
`role.black=placebo` assigns an arm of another name.
"""
NEVER = """
**A model that never decodes an image** but takes hints from its questions once it has called a tool
(`models.eyes='{use: eval.tasks.NeverLooks, careless: true}' task.leak=0.3`). Using the tool helps,
but no pixel does:

"""
AUDIT = """
## What is answered without the images

    looktwice run blindness
    looktwice analyse runs/blindness audit

The arms have no image, a blank or another one, shuffled patches, a description, the choices alone
or the question alone.
`audit` writes audit.md, needs_no_image.csv and clean.yaml, the samples that remain.
`include: [STUDY.yaml, clean.yaml]` asks only these, and `looktwice score RUN --only clean.yaml`
scores only these.

An item is listed if a model answers it without the image in at least four of five draws, and more
often than the model's answer bias explains, at a false discovery rate of 1 % (Benjamini and
Hochberg 1995).
`--any` lists every item that was right once, as Mirage's cleaned set does, luck included.

The answer bias is a beta-binomial per word, letter or kind of question, whichever explains the
wrong choices best, integrated over mean and concentration.
For an open question, the correct answers of all open questions count as its choices.
If a model repeats its wrong choices, draws cannot separate guesses from knowledge; the audit states
that and lists nothing.

Use 10 draws for 200 questions of four choices, 16 for 60, and 20 for 200 questions of two choices.
`python -m bench.bench_audit` simulates 44 kinds of models that never look.
For all but one, nothing is listed without leaks, and with leaks at most 0.5 % of the listed items
are false.
The exception repeats its guess on one question in fifty: one listed item in twenty may be false,
and up to two of ten runs without leaks list something.

Of 120 questions, {planted} reveal their answer in their words. The audit lists {listed}: precision
{precision:.2f}, recall {recall:.2f}.

"""
LOOKS = """
## Where a model looks

    looktwice run dysm_attention models.eyes.model=FOLDER_OR_ID

`AttentionShare` over `VisionAttention` measures the share of a vision encoder's attention on the
marks, averaged over heads and layers.
`QuestionAttention` measures the attention of the question's words to the marks, in the language
model.
`marked_area` is the share of uniform attention.
`apart: true` measures each layer, or each head of one `layer`, and the report draws them.
Marks are the shapes that the question asks for (`marks: asked` of generated images, the stage
`MarkAskedShapes` of others) or of some kinds, `labels: [star]`.
Images are stretched to the encoder's square.

In this constructed network, patches and words attend to ink e^3 times as much as to blank, whatever
the question.
The share exceeds the area although nothing looks for the shapes, and right samples have larger
shapes: size caused the difference.

"""


def flip(messages: Messages) -> Reply:
    """A in the first turn, B in the second."""
    turns = sum(message.role == "user" for message in messages)
    return Reply("(A)" if turns % 2 else "(B)", usage=Usage(200 * turns, 2))


def fill(page: str) -> str:
    """Return the page with its prose broken at 100 characters; tables stay."""
    lines = page.splitlines()
    broken = [
        line if line.startswith("|") else textwrap.fill(line, 100, break_on_hyphens=False)
        for line in lines
    ]
    return "\n".join(broken) + "\n"


def turns(out: Path) -> str:
    """The table of the flip model."""
    stages = {"choose": MultipleChoice(), "again": Reperceive(turns=2)}
    task = MarkedScenes("larger", n=18)
    table = evaluate(task, {"again": Pipeline(stages)}, Scripted(flip), out=out / "flip")
    return get_analysis("turns").tables(table)[0].table.markdown + "\n" + STOP


def run(name: str, out: Path, *overrides: str) -> RunScores:
    """The scores of a shipped configuration."""
    plan = replace(load_plan(CONFIGS / f"{name}.yaml", list(overrides)), name=out.name)
    outcome = Study(plan, out.parent, RunOptions(workers=2), console=Console(quiet=True))()
    return score_run(RunFolder(outcome.folder))


def certificate(scores: RunScores, kept: str = "[^#]") -> str:
    """Return the page of a run with the lines that begin with `kept`, a regular expression."""
    page = format_certificates(scores, find_certificates(scores))
    lines = [line for line in page.splitlines() if not line or re.match(kept, line)]
    return fill(re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip()))


def audit(scores: RunScores) -> str:
    """What the audit finds of the planted items."""
    audited = find_audits(scores)
    listed = {
        row["sample"]
        for row in csv.DictReader(format_blind_items(find_imageless_items(audited)).splitlines())
    }
    lines = map(
        json.loads, (scores.folder.path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    )
    planted = {line["sample"]["id"] for line in lines if line["truth"]["leaky"]}
    both = len(listed & planted)
    section = AUDIT.format(
        planted=len(planted),
        listed=len(listed),
        precision=both / len(listed),
        recall=both / len(planted),
    )
    page = make_audit_page(scores, audited).partition("## Arms")[2].partition("\n## ")[0]
    return section + fill(page.strip())


def count_small(messages: Messages) -> Reply:
    """The number of shapes that are asked for, told from the picture at a fifth of its size."""
    pixels = cv2.resize(
        messages[-1].views[0].pixels, None, fx=0.2, fy=0.2, interpolation=cv2.INTER_AREA
    )
    sample = Sample("small", messages[-1].text, (Picture(np.asarray(pixels, np.uint8)),))
    try:
        return Reply(ColoredShapeCounter().decide(sample)[0])
    except NoEvidence:
        return Reply("0")


def looks(out: Path) -> str:
    """The shares of a planted network's attention, beside being right."""
    sys.path.append(str(HERE.parent))
    from tests.planted_network import write_ink_seeker

    network = str(write_ink_seeker(out / "network"))
    stages = {
        "say": Verbatim(),
        "ask": Ask(),
        "encoder": AttentionShare(VisionAttention(network)),
        "words": QuestionAttention(network),
    }
    task = GeneratedDoYouSeeMe("joint_shape_color", n=108, marks="asked")
    evaluate(task, {"small": Pipeline(stages)}, Scripted(count_small), out=out / "looks")
    (measured,) = get_analysis("measured").tables(score_table(out / "looks"))
    return LOOKS + measured.table.markdown + "\n"


def write(page: Path) -> None:
    """Writes the page."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        parts = [
            HEAD + turns(out),
            CONTRIBUTION,
            NEVER
            + certificate(run("tool_contribution", out / "never", "task.n=60", *CHEATER), SUMMARY),
        ]
        parts += [audit(run("blindness", out / "planted", *PLANTED)), looks(out)]
    page.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("python docs/mattered.py [PAGE.md]")
    write(Path(sys.argv[1]) if len(sys.argv) == 2 else HERE / "mattered.md")
