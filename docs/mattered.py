"""Makes docs/mattered.md: turns that are scored, what a tool contributes, and what is answered without the images.

python docs/mattered.py [PAGE.md]
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from looktwice.eval import MarkedScenes, evaluate
from looktwice.eval.analysis.looking.blindness import audit_page, audits, blind_items_csv, needs_no_image
from looktwice.eval.analysis.looking.contribution import certificate_page, certificates
from looktwice.eval.analysis.looking.turns import stopping_table, turn_table
from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.turns import read_turns
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import Messages, Reply, Usage
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.pipeline import Pipeline
from looktwice.prompting import MultipleChoice
from looktwice.prompting.turns import Reperceive

HERE = Path(__file__).resolve().parent
CONFIGS = HERE.parent / "configs"
CHEATER = ("models.eyes={use: eval.tasks.NeverLooks, careless: true}", "task.leak=0.3")
PLANTED = (
    "task={use: eval.tasks.LettersAndShapes, n: 120, leak: 0.25}", "models.chat={use: eval.tasks.NeverLooks}",
    "stages.order=null", "stages.mark=null", 'stages.choose={use: prompting.wording.AnswerLine, mark: "ANSWER:"}',
    "read={use: eval.readers.Marked}", "contestants.other=null", "contestants.shuffled=null",
    "contestants.caption=null", "contestants.choices-only=null", "contestants.blank=null",
    "contestants.question-only=null",
)  # fmt: skip
HEAD = """\
# Did the picture matter?

A mark, a zoom or a second look that raises accuracy need not have been seen. This page shows what tells the
difference: measurements of stages, turns that are scored, the certificate of an agent's tool, and the audit of a
benchmark. Every table here is of a scripted model of which the truth is known; `python docs/mattered.py` makes the
page anew.

## Measurements

`state.measured("crop_share", 0.12)` in any stage records a number or a category (a list has one for each turn).
Scoring makes of it a row `measured.crop_share` of report.csv with interval and paired test, a table that compares
right with other samples, curves of accuracy against it, and slices: `looktwice score RUN --by crop_share`. Zooms
measure `crop_share`, votes `vote_share` and `votes`, agents `looks`, `RedrawThenAnswer` `ssim`, `AttentionShare`
`attention_share`, re-perception with a reader `answer_changes`; `confidence` is there where a stage gives one. Runs
made before have none, and still open.

## Turns

Of `Reperceive`, `Verify`, `Vote`, agents and, line by line, of a chain of thought, the report reads the answer after
every turn. A model that says A and then B, whatever it is shown, on eighteen questions of which six have the key A
and six B: six gained, six lost, which accuracy alone shows as nothing.

"""
STOP = """
The same turns say what rules that stop early would have given, beside fixed numbers of turns at the same mean cost.
Where a stage gives a confidence, the report also has the risk at every coverage, and what sending the least confident
samples on to another arm or a specialist brings, between random and oracle.

"""
CONTRIBUTION = """
## What a tool contributes

    looktwice run tool_contribution
    looktwice certify runs/tool_contribution

Eight arms of one agent with the same seed, sizes and budgets: `without` the tool, `full`, `black` images of the same
size, `format` (calls without results), `result` (what the looks brought, at once, without a tool turn), a `random`
place, the `oracle`'s place, and `words` in place of the images. They are settings of any agent: `results: {use:
prompting.agent.BlackImages}`, `afresh: true`. Arms of other names are told by `--role black=placebo`.

**A model that reads letters only where they are large enough:**

"""
NEVER = """
**A model that never decodes an image**, and takes in hints that its questions hold once it has called a tool
(`models.eyes='{use: eval.tasks.NeverLooks, careless: true}' task.leak=0.3`). Tool use pays, and no pixel does:

"""
AUDIT = """
## What is answered without the images

    looktwice run blindness
    looktwice audit runs/blindness

Arms without the image, with a blank or another one, with shuffled patches, with a description, with the choices or
the question alone. `audit` writes audit.md, needs_no_image.csv and clean.yaml, the samples that are left: `include:
[STUDY.yaml, clean.yaml]` asks them alone, and `looktwice score RUN --only clean.yaml` (also `report`) shows any table
of them. An item is listed where a model answers it more often than chance gives (1 % false finds); `--any` lists what
was right once, as Mirage's cleaned set does, luck included.

Of 120 questions, {planted} give their answer away in their words. The audit lists {listed}: precision
{precision:.2f}, recall {recall:.2f}.

"""


def flip(messages: Messages) -> Reply:
    """A in the first turn, B in the second."""
    turns = sum(message.role == "user" for message in messages)
    return Reply("(A)" if turns % 2 else "(B)", usage=Usage(200 * turns, 2))


def turns(out: Path) -> str:
    """The table of the flip model, and when to stop."""
    stages = {"choose": MultipleChoice(), "again": Reperceive(turns=2)}
    task = MarkedScenes("larger", n=18)
    table = evaluate(task, {"again": Pipeline(stages)}, Scripted(flip), out=out / "flip")
    arms = read_turns(table.scores[0])
    return turn_table(arms).markdown + "\n" + STOP + stopping_table(arms).markdown + "\n"


def run(name: str, out: Path, *overrides: str) -> RunScores:
    """The scores of a shipped configuration."""
    plan = replace(load_plan(CONFIGS / f"{name}.yaml", list(overrides)), name=out.name)
    outcome = Study(plan, out.parent, RunOptions(workers=2), console=Console(quiet=True))()
    return score_run(RunFolder(outcome.folder))


def certificate(scores: RunScores) -> str:
    """The page of a run, without its headings."""
    page = certificate_page(scores, certificates(scores))
    return "\n".join(line for line in page.splitlines() if not line.startswith("#")).strip() + "\n"


def audit(scores: RunScores) -> str:
    """What the audit finds of the planted items."""
    found = audits(scores)
    listed = {row["sample"] for row in csv.DictReader(blind_items_csv(needs_no_image(found)).splitlines())}
    lines = map(json.loads, (scores.folder.path / "samples.jsonl").read_text(encoding="utf-8").splitlines())
    planted = {line["sample"]["id"] for line in lines if line["truth"]["leaky"]}
    both = len(listed & planted)
    said = AUDIT.format(
        planted=len(planted), listed=len(listed), precision=both / len(listed), recall=both / len(planted)
    )
    page = audit_page(scores, found).partition("## Arms")[2].partition("## Items")[0]
    return said + page.strip() + "\n"


def write(page: Path) -> None:
    """Writes the page."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        parts = [HEAD + turns(out), CONTRIBUTION + certificate(run("tool_contribution", out / "sees", "task.n=60"))]
        parts += [NEVER + certificate(run("tool_contribution", out / "never", "task.n=60", *CHEATER))]
        parts += [audit(run("blindness", out / "planted", *PLANTED))]
    page.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("python docs/mattered.py [PAGE.md]")
    write(Path(sys.argv[1]) if len(sys.argv) == 2 else HERE / "mattered.md")
