"""Makes docs/mattered.md: turns that are scored, what a tool contributes, what needs no images, and
where one looks.

python docs/mattered.py [PAGE.md]
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from rich.console import Console

from looktwice.eval import MarkedScenes, evaluate
from looktwice.eval.analysis.analyses import analysis
from looktwice.eval.analysis.looking.contribution import certificate_page, certificates
from looktwice.eval.display.table import score_table
from looktwice.eval.records import RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.extras.drawings import ColoredShapeCounter
from looktwice.extras.scenes import GeneratedDoYouSeeMe
from looktwice.extras.studies.blindness import audit_page, audits, blind_items_csv, needs_no_image
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.model import Messages, Reply, Usage
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.prompting import MultipleChoice
from looktwice.prompting.turns import Ask, Reperceive
from looktwice.prompting.wording import Verbatim
from looktwice.specialists.features import AttentionShare, QuestionAttention, VisionAttention
from looktwice.specialists.rules import NoEvidence

HERE = Path(__file__).resolve().parent
CONFIGS = HERE.parent / "configs"
CHEATER = ("models.eyes={use: eval.tasks.NeverLooks, careless: true}", "task.leak=0.3")
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
# Did the picture matter?

A mark, a zoom or a second look that raises accuracy need not have been seen; this page shows what tells the difference.

![An agent with its tool, beside the same agent with black images, a random place or words in place of what the tool shows](openings/mattered.webp)

That is: measurements of stages, turns that are scored, the certificate of an agent's tool, the audit of a
benchmark, and attention. Every table here is of a scripted model, or a planted network, of which the truth is known;
`python docs/mattered.py` makes the page anew.

## Measurements

`state = state.measured("crop_share", 0.12)` in any stage gives a copy of the state with one more measurement, a number
or a category (a list has one for each turn); the state itself never changes, so a stage returns the copy.
Scoring makes of it a row `measured.crop_share` of report.csv with interval and paired test, a table that compares
right with other samples, curves of accuracy against it, and slices: `looktwice score RUN --by crop_share`. Zooms
measure `crop_share`, votes `vote_share` and `votes`, agents `looks`, `RedrawThenAnswer` `ssim`, `AttentionShare`
`attention_share`, `QuestionAttention` `question_attention`, re-perception with a reader `answer_changes`; `confidence`
is there where a stage gives one. Runs made before have none, and still open.

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
    looktwice analyse runs/tool_contribution certify

Eight arms of one agent with the same seed, sizes and budgets: `without` the tool, `full`, `black` images of the same
size, `format` (calls without results), `result` (what the looks brought, at once, without a tool turn), a `random`
place, the `oracle`'s place, and `words` in place of the images. They are settings of any agent: `results: {use:
prompting.agent.BlackImages}`, `afresh: true`. Arms of other names are told by `role.black=placebo`.

**A model that reads letters only where they are large enough:**

"""
NEVER = """
**A model that never decodes an image**, and takes in hints that its questions hold once it has called a tool
(`models.eyes='{use: eval.tasks.NeverLooks, careless: true}' task.leak=0.3`). Tool use pays, and no pixel does:

"""
AUDIT = """
## What is answered without the images

    looktwice run blindness
    looktwice analyse runs/blindness audit

Arms without the image, with a blank or another one, with shuffled patches, with a description, with the choices or
the question alone. `audit` writes audit.md, needs_no_image.csv and clean.yaml, the samples that are left: `include:
[STUDY.yaml, clean.yaml]` asks them alone, and `looktwice score RUN --only clean.yaml` (also `report`) shows any table
of them. `--any` lists what was right once, as Mirage's cleaned set does, luck included. Else an item is listed where a
model answers it in four of five draws or more, and more often than its tastes give, with 1 % false finds (Benjamini
and Hochberg 1995).

The tastes are told from the wrong choices of its other questions: a model that always says its favourite colour says
it there too. How often a choice is given in the draws of one question is beta-binomial, with a mean for each word,
letter, or kind of question, whichever grouping makes the wrong choices the most likely, and with a firmness that
differs from question to question, since a model may keep to a guess. Mean and firmness are weighed over a grid, not
plugged in, so few answers make a high bar. Open questions offer the keys of the others. Where a model keeps to its
wrong choices, no number of draws tells a guess from knowledge; the audit then says so, and lists nothing.

Ten draws are enough for 200 questions of four choices, 16 for 60, and 20 for 200 of two choices, unless the model
has strong tastes. A model that keeps firm to one question in fifty, and guesses anew at all others, has no Dirichlet
taste, and the promise is not kept for it: its few firm guesses are hardly ever seen among the wrong choices, so one
find in twenty may be false, and one or two runs of ten without leaks listed something.

<details><summary>44 simulated models, in figures</summary>

`python -m bench.bench_audit` simulates models with Dirichlet tastes that never look (the smaller the number, the firmer
the taste). How many runs without leaks list anything, which share of the listed items is false where a tenth of the
questions leak (right in 9 of 10 draws), and which share of the leaks is found, in percent, at 6, 10 and 20 draws; of
30 models each, below the line of letters 0.3 with 60 questions of 10:

| model | questions | choices | 6 draws: runs, false, found | 10 draws | 20 draws |
| --- | ---: | ---: | ---: | ---: | ---: |
| guesses anew | 60 | 4 | 0.0, 0.0, 5.1 | 0.0, 0.0, 62.1 | 0.0, 0.0, 85.8 |
| guesses anew | 200 | 4 | 0.0, 0.0, 4.1 | 0.0, 0.1, 85.6 | 0.0, 0.0, 90.8 |
| guesses anew | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.5, 79.9 |
| guesses anew, no word twice | 60 | 4 | 0.0, 0.0, 5.2 | 0.0, 0.0, 56.9 | 0.0, 0.0, 85.8 |
| guesses anew, no word twice | 200 | 4 | 0.0, 0.0, 6.1 | 0.0, 0.1, 85.0 | 0.0, 0.0, 94.0 |
| guesses anew, no word twice | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.5, 79.8 |
| words 0.1 | 60 | 4 | 0.0, 0.0, 25.7 | 0.0, 0.0, 21.7 | 0.0, 0.0, 28.8 |
| words 0.1 | 200 | 4 | 0.0, 0.0, 28.7 | 0.0, 0.0, 22.8 | 0.0, 0.0, 33.8 |
| words 0.1 | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 1.4 | 0.0, 0.0, 6.4 |
| words 0.5 | 60 | 4 | 0.0, 0.0, 25.1 | 0.0, 0.0, 33.5 | 0.0, 0.0, 62.5 |
| words 0.5 | 200 | 4 | 0.0, 0.0, 16.3 | 0.0, 0.0, 33.2 | 0.0, 0.0, 63.4 |
| words 0.5 | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.9 | 0.0, 0.0, 42.7 |
| words 2 | 60 | 4 | 0.0, 0.0, 13.7 | 0.0, 0.0, 59.0 | 0.0, 0.0, 88.0 |
| words 2 | 200 | 4 | 0.0, 0.0, 17.7 | 0.0, 0.0, 71.7 | 0.0, 0.0, 91.7 |
| words 2 | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 1.0 | 0.0, 0.0, 48.4 |
| words 0.3, 3 kinds | 60 | 4 | 0.0, 0.0, 10.3 | 0.0, 0.0, 19.7 | 0.0, 0.3, 40.7 |
| words 0.3, 3 kinds | 200 | 4 | 0.0, 0.0, 17.0 | 0.0, 0.0, 23.8 | 0.0, 0.0, 31.6 |
| words 0.3, 3 kinds | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 5.4 |
| letters 0.3 | 60 | 4 | 0.0, 0.0, 3.9 | 0.0, 0.0, 69.3 | 0.0, 0.0, 98.4 |
| letters 0.3 | 200 | 4 | 0.0, 0.0, 14.1 | 0.0, 0.2, 84.9 | 0.0, 0.0, 98.5 |
| letters 0.3, never permuted | 60 | 4 | 0.0, 0.0, 44.3 | 0.0, 0.0, 44.9 | 0.0, 0.0, 80.8 |
| letters 0.3, never permuted | 200 | 4 | 0.0, 0.0, 39.7 | 0.0, 0.0, 64.9 | 0.0, 0.0, 76.2 |
| letters 0.3, never permuted | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 27.6 |
| words and letters 0.5 | 60 | 4 | 0.0, 0.0, 10.8 | 0.0, 0.0, 64.8 | 0.0, 0.0, 71.5 |
| words and letters 0.5 | 200 | 4 | 0.0, 0.0, 21.7 | 0.0, 0.0, 47.5 | 0.0, 0.0, 81.8 |
| words and letters 0.5 | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 2.5 | 0.0, 0.0, 47.0 |
| each question 0.3 | 60 | 4 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 |
| each question 0.3 | 200 | 4 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 |
| each question 0.3 | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 |
| each question 2 | 60 | 4 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 5.0 |
| each question 2 | 200 | 4 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 |
| each question 2 | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 |
| each question 8, no word twice | 60 | 4 | 0.0, 0.0, 0.0 | 0.0, 0.0, 21.7 | 0.0, 0.0, 80.0 |
| each question 8, no word twice | 200 | 4 | 0.0, 0.0, 0.0 | 0.0, 0.0, 39.2 | 0.0, 0.0, 97.4 |
| each question 8, no word twice | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 |
| firm at 1 of 50 | 60 | 4 | 0.0, 0.0, 0.0 | 0.0, 5.7, 36.0 | 20.0, 0.0, 30.0 |
| firm at 1 of 50 | 200 | 4 | 0.0, 0.0, 0.0 | 0.0, 0.5, 7.5 | 10.0, 0.0, 0.0 |
| firm at 1 of 50 | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 |
| firm at 1 of 10, words 0.5 | 60 | 4 | 0.0, 0.0, 2.5 | 0.0, 0.0, 9.6 | 0.0, 0.0, 7.5 |
| firm at 1 of 10, words 0.5 | 200 | 4 | 0.0, 0.0, 1.2 | 0.0, 0.0, 4.1 | 0.0, 0.0, 0.0 |
| firm at 1 of 10, words 0.5 | 200 | 2 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 | 0.0, 0.0, 0.0 |

</details>

Of 120 questions, {planted} give their answer away in their words. The audit lists {listed}: precision
{precision:.2f}, recall {recall:.2f}.

"""
LOOKS = """
## Where it looks

    looktwice run dysm_attention models.eyes.model=FOLDER_OR_ID

`AttentionShare` over `VisionAttention` measures the share of a vision encoder's attention that lies on the marks, heads
and layers averaged; `QuestionAttention` that of what the question's words give to the picture, in the language model.
Do You See Me (appendix N) found 9.79 % on the shapes to be counted for Phi-4-multimodal's encoder, which `VisionAttention`
reads too; the report sets that number beside the run's. Of which pictures it is the mean, and whether they went in whole
or in Phi-4's tiles, the appendix does not say; here they go in whole, stretched to its square. Beside each share stands
`marked_area`, what looking evenly would give. With `apart: true` each layer is measured by itself, of one `layer` each
head, and the report draws the shares from the first to the last. The marks are the shapes that the question asks for (`marks: asked` of
made pictures, the stage `MarkAskedShapes` of others) or marks of some kinds, `labels: [star]`.

In a planted network every patch and every word gives a place with ink e^3 times the attention of one without, whatever
is asked. The answers are those of a script that counts in the picture at a fifth of its size, and of 108 pictures 83
hold what is asked for. So the shares are larger than the area, though nothing asks for these shapes more than for
others; and where right samples have the larger share, they have the larger area too: size, and not looking, made the
difference.

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
    changed, stopping = (analysis(name).tables(table)[0].table for name in ("turns", "stopping"))
    return changed.markdown + "\n" + STOP + stopping.markdown + "\n"


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
    audited = audits(scores)
    listed = {
        row["sample"]
        for row in csv.DictReader(blind_items_csv(needs_no_image(audited)).splitlines())
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
    page = audit_page(scores, audited).partition("## Arms")[2].partition("## Items")[0]
    return section + page.strip().replace("\n## ", "\n### ") + "\n"


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
    from tests.planted_network import seeks_ink

    network = str(seeks_ink(out / "network"))
    stages = {
        "say": Verbatim(),
        "ask": Ask(),
        "encoder": AttentionShare(VisionAttention(network)),
        "words": QuestionAttention(network),
    }
    task = GeneratedDoYouSeeMe("joint_shape_color", n=108, marks="asked")
    evaluate(task, {"small": Pipeline(stages)}, Scripted(count_small), out=out / "looks")
    (measured,) = analysis("measured").tables(score_table(out / "looks"))
    return LOOKS + measured.table.markdown + "\n"


def write(page: Path) -> None:
    """Writes the page."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        parts = [
            HEAD + turns(out),
            CONTRIBUTION + certificate(run("tool_contribution", out / "sees", "task.n=60")),
        ]
        parts += [
            NEVER + certificate(run("tool_contribution", out / "never", "task.n=60", *CHEATER))
        ]
        parts += [audit(run("blindness", out / "planted", *PLANTED)), looks(out)]
    page.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("python docs/mattered.py [PAGE.md]")
    write(Path(sys.argv[1]) if len(sys.argv) == 2 else HERE / "mattered.md")
