"""A judge with a custom prompt."""

import gzip
import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.display.table import score_table
from looktwice.eval.records import Record, RunError
from looktwice.eval.records.judgements import read_judgements
from looktwice.eval.replies import CHOICES, get_subtask_of_idx, load_answer_key
from looktwice.eval.runs.run import Run
from looktwice.eval.scoring import Score, Verdict
from looktwice.eval.scoring.verdict import ScoredRecord
from looktwice.extras.judging.command import RunJudge
from looktwice.extras.judging.passes import PASSES, JudgeCase, Wording
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import Messages
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.sample import Sample
from tests.made_run import MadeRun
from tests.optional import extension, needs_extras
from tests.tables import table

people = extension("annotation.ratings")

QUIET = Console(quiet=True)


@dataclass(frozen=True)
class NamedScript(Scripted):
    """A scripted judge whose name is part of its identity."""

    name: str = ""

    @property
    def identity(self) -> str:
        return self.name


def run_judge(run: Path, answer: Any, name: str, *passes: str, **more: Any) -> list[str]:
    lines = list[str]()
    model = NamedScript(answer, name=name)
    judge = RunJudge(run, name, model, passes, console=QUIET, workers=1, **more)
    assert judge(lines.append) == 0
    return lines


def values(run: Path, judge: str = "") -> dict[str, Any]:
    rows = score_table(run, judge=judge).rows
    return {row.metric: round(row.value, 4) for row in rows if row.point and row.value is not None}


# ---- a prompt from a file


def case(text: str, **solution: str) -> JudgeCase:
    sample = Sample("s", "Where?", choices=("left", "right"))
    unread = ScoredRecord("s", 0, None, Score(Verdict.UNREADABLE), "unread")
    return JudgeCase(sample, "A", text, unread, solution)


def test_a_prompt_is_sent_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text('{question}\n{choices}\nSay {"a": 1}: {reply}, {clues}, {key}', "utf-8")
    judging = Wording.read(file).build_pass(PASSES["every"])
    text = judging.ask(case("{question}", clues="a mirror")).text
    assert text == 'Where?\n(A) left\n(B) right\nSay {"a": 1}: {question}, a mirror, A'


@table
def test_invalid_prompts_are_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(text, "utf-8")
    with pytest.raises(RunError, match=said):
        Wording.read(file)


@table
def test_a_judge_with_a_custom_prompt_may_reply_with_the_answer_alone(
    said: str, verdict: Any
) -> None:
    judging = Wording("mine", "{reply}").build_pass(PASSES["every"])
    given = judging.parse(said, case("words"))
    assert (given.answer or given.none or given.reason) == verdict


# ---- every reply


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Six replies, of which a rule reads five; two of them mean the opposite of what they seem."""
    made = MadeRun(tmp_path / "runs" / "made")
    made.task("pick", ["A", "B", "A", "B", "A", "B"])
    point = made.point("one", "pick")
    for number, text in enumerate(("A", "(B)", "Hmm, the former", "(A)", "Answer: B", "A")):
        made.reply(point, f"s{number}", text)
    return made.write().path


def make_knowing_judge(labels: dict[str, str]) -> Any:
    """Return a judge that knows the label of every reply, which follows "Reply:"."""
    return lambda messages: labels[messages[-1].text.partition("Reply: ")[2]]


TRUTH = {"A": "A", "(B)": "B", "Hmm, the former": "A", "(A)": "Z", "Answer: B": "A"}
MINE = Wording("mine", "Reply: {reply}")


def test_a_pass_over_every_reply_replaces_the_reader(run: Path) -> None:
    assert values(run)["accuracy"] == round(2 / 6, 4)
    first, *_, last = run_judge(
        run, make_knowing_judge(TRUTH), "solomon+mine", "every", wording=MINE
    )
    assert "every: 6 of 6 replies judged, 1 of which" in first
    assert "and the reader: 3 of 5 the same (60.0 %), kappa 0.286" in last and "annotate" in last
    (row,) = score_table(run).where(metric="accuracy", task="pick", contestant="one").rows
    assert (row.right, row.wrong, row.unreadable) == (4, 1, 1)
    assert row.reader == "judge solomon+mine"
    assert values(run, judge="none")["accuracy"] == round(2 / 6, 4)
    with pytest.raises(RunError, match="'solomon"):
        changed = Wording("mine", "Reply: {reply} ")
        run_judge(run, make_knowing_judge(TRUTH), "solomon+mine", "every", wording=changed)
    with pytest.raises(RunError, match="--prompt"):
        run_judge(run, "A", "other", wording=MINE)


def test_each_pass_uses_the_judge_with_the_most_verdicts(run: Path) -> None:
    run_judge(run, "Answer: A", "reads little", "unreadable")
    run_judge(run, "nothing at all", "reads nothing", "every")
    lines = run_judge(run, make_knowing_judge(TRUTH), "reads all", "every", wording=MINE)
    (line,) = [line for line in lines if line.startswith("judge reads all is used for every")]
    assert "6 of 6 replies (reads nothing 0 of 6)" in line
    counting = read_judgements(run).counting_judges
    assert counting == {"unreadable": "reads little", "every": "reads all"}


def test_the_command_accepts_a_prompt(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("{reply}")
    model = "models.other={use: pipelines.models.Scripted, answer: B}"
    words = ("judge", run, model, "--model", "other", "--pass", "every", "--prompt")
    result = CliRunner().invoke(app, [*map(str, words), str(tmp_path / "mine.txt")])
    assert result.exit_code == 0 and "judge other+mine, every: 6 of 6" in result.output


# ---- a sheet that people filled in


@needs_extras
def test_a_lying_judge_is_detected_against_people_and_honest_judges(
    run: Path, tmp_path: Path
) -> None:
    lies = {text: "B" if label == "A" else "A" for text, label in TRUTH.items()}
    lies["(B)"] = "well"
    for name, labels in (("honest", TRUTH), ("liar", lies)):
        run_judge(run, make_knowing_judge(labels), name, "every", wording=MINE)
    out, anna = tmp_path / "sheet", tmp_path / "sheet" / "anna.csv"
    words = ("annotate", run, "--ask", "replies", "--verdict", "any", "--out", out)
    assert CliRunner().invoke(app, [*map(str, words)]).exit_code == 0
    header, *_ = (out / "sheet.csv").read_text("utf-8").splitlines()
    assert header.startswith("item,task,sample,contestant,question,choices,reply,human_answer")
    items = json.loads((out / "key.json").read_text("utf-8"))["items"]
    answers = [f"{item['item']},{TRUTH[item['reply']].replace('Z', 'none')}" for item in items]
    anna.write_text("\n".join(["item,human_answer", *answers]), "utf-8")
    ratings = people.add_judges(people.read_ratings([anna]), run)
    kappas = {line.partition(":")[0]: line for line in people.describe_agreement(ratings)}
    assert "kappa 1.00" in kappas["anna and honest"]
    assert "0.0 % agreement on 5 items" in kappas["anna and liar"]
    assert "50.0 % agreement on 6 items" in kappas["anna and reader"]
    output = CliRunner().invoke(app, ["annotate", str(anna), "--judged", str(run)]).output
    assert "anna and liar: 0.0 % agreement" in output and "answers of people" not in output


# ---- steps


STEPS = ("a girl stands", "her legs look thin", "a dark seam", "the trousers are painted", "no")


def write_chains(root: Path, spoken: dict[str, list[int]], **columns: Any) -> Path:
    """Write a BLINK-Twice run whose replies name the steps with these numbers."""
    image = bytes(cv2.imencode(".png", np.zeros((4, 6, 3), np.uint8))[1])
    (root / "1.png").write_bytes(image)
    solution = {"clues": "a dark seam", "truth": "painted", "steps": STEPS, **columns}
    rows, replies = list[str](), list[str]()
    for name, numbers in spoken.items():
        row = {"id": name, "question": f"Is it {name}?", "image": "1.png", "answer": "B) No"}
        rows.append(json.dumps(row | solution))
        words = [f"{'not ' if n < 0 else ''}{STEPS[abs(n) - 1]}" for n in numbers]
        reply = {"idx": name, "reply": ". ".join(words) + ". Final Answer: B"}
        replies.append(json.dumps(reply))
    (root / "twice.jsonl").write_text("\n".join(rows), "utf-8")
    (root / "said.jsonl").write_text("\n".join(replies), "utf-8")
    (root / "study.yaml").write_text(
        "task: {use: eval.tasks.BlinkTwice, path: twice.jsonl}\n"
        "model: {use: pipelines.models.Replay, path: said.jsonl}\n"
        "stages: {ask: {use: prompting.turns.Ask, attach: none}}\n"
    )
    return Run(load_plan(root / "study.yaml"), root / "runs" / "twice")().folder


def check_steps(messages: Messages) -> str:
    """A judge that finds each sentence among the numbered steps."""
    lines = messages[-1].text.splitlines()
    steps = {words: n for line in lines for n, _, words in [line.partition(". ")] if n.isdigit()}
    said = lines[lines.index("<reply>") + 1].split(". ")[:-1]
    seen = [steps[words] for words in said if words in steps]
    wrong = [steps[words[4:]] for words in said if words.startswith("not ")]
    return f"Seen: {', '.join(seen) or 'NONE'}\n**Wrong:** {', '.join(wrong) or 'NONE'}"


def test_chains_of_thought_are_scored_per_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spoken = {"whole": [1, 2, 3, 4, 5], "errs": [1, 2, -3, 5, -4], "back": [3, 2, 1], "short": [5]}
    run = write_chains(tmp_path, spoken)
    assert "seam" not in (run / "samples.jsonl").read_text("utf-8")
    lines = run_judge(run, check_steps, "solomon", "steps")
    assert lines[0].startswith("judge solomon, steps: 4 of 4 replies judged")
    marks = {line.sample: dict(line.scores) for line in read_judgements(run).lines}
    for name, numbers in spoken.items():
        seen = [marks[name][f"step_{number}"] == 1 for number in range(1, 6)]
        assert seen == [number in numbers for number in range(1, 6)], name
    assert [marks[name]["steps_before_error"] for name in spoken] == [1, 0.4, 1, 1]
    assert [marks[name].get("steps_order") for name in spoken] == [1, 1, 0, None]
    means = values(run)
    assert (means["steps_seen"], means["step_3"], means["step_5"]) == (0.6, 0.5, 0.75)
    assert means["steps_before_error"] == 0.85 and "cot_score" not in means
    run_judge(run, "Clues: 1\nTruth: 0.5", "solomon2", "cot")
    assert values(run)["cot_score"] == 0.75  # the judge of steps leaves it unchanged
    run_judge(run, "Seen: 1, 2, 3, 4, 5\nWrong: NONE", "yea-sayer", "steps")
    lines = run_judge(run, check_steps, "daniel", "steps")
    pairs = {line.split(":")[0]: line for line in lines if line.startswith("agreement on steps")}
    assert "4 of 4 the same" in pairs["agreement on steps, solomon and daniel"]
    assert "1 of 4 the same" in pairs["agreement on steps, solomon and yea-sayer"]


@table
def test_replies_about_steps(said: str, verdict: Any) -> None:
    given = PASSES["steps"].parse(said, case("words", steps="one\ntwo\nthree"))
    assert given.reason == verdict if isinstance(verdict, str) else given.scores == verdict


@pytest.mark.parametrize(
    ("columns", "steps"),
    [({}, 5), ({"steps": None, "first": "a girl stands", "second": "no"}, 2), ({"steps": None}, 2)],
)
def test_steps_come_from_a_list_or_columns_or_clues_and_truth(
    tmp_path: Path, columns: dict[str, Any], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = write_chains(tmp_path, {"one": [1]}, **columns)
    named = {"steps": "first,second"} if "first" in columns else {}
    run_judge(run, "Seen: 1\nWrong: NONE", "solomon", "steps", columns=named)
    (line,) = read_judgements(run).lines
    assert line.scores["steps_seen"] == round(1 / steps, 9)


# ---- recorded replies of eight models


def read_recorded(
    folder: Path, source: Path, step: int
) -> tuple[Path, dict[tuple[str, str], str], int]:
    """Return every `step`-th recorded BLINK reply, the official labels, and the number right."""
    made, labels = MadeRun(folder / "runs" / "recorded"), dict[tuple[str, str], str]()
    right = 0
    key = load_answer_key(source / "val_answers.json")
    asked = made.blobs.put(write_canonical({"role": "user", "parts": ["Which one?"]}).encode())
    for file in sorted(source.glob("*.jsonl.gz")):
        rows = list(map(json.loads, gzip.decompress(file.read_bytes()).splitlines()))
        rows.sort(key=lambda row: get_subtask_of_idx(row["idx"]))
        for subtask, group in groupby(rows, lambda row: get_subtask_of_idx(row["idx"])):
            kept = list(group)[::step]
            if f"id-{subtask}" not in {row.task for row in made.samples}:
                keys = [key.get(row["idx"], "").strip("()") or None for row in kept]
                made.task(subtask, keys, len(CHOICES[subtask]))
                for row, sample in zip(kept, made.samples[-len(kept) :], strict=True):
                    sample.sample["question"] = row["idx"]  # type: ignore[index]
            point = made.point(file.name.partition(".jsonl")[0], subtask)
            for number, row in enumerate(kept):
                labels[row["idx"], row["reply"]] = row["official_label"]
                right += row["official_label"][1] == key.get(row["idx"], "??")[1]
                call = {"messages": [asked], "draw": 0, "reply": {"text": row["reply"]}}
                sha = f"sha-{subtask}-{number}"
                made.records.append(Record(point, f"s{number}", sha, calls=(call,)))
    return made.write().path, labels, right


@pytest.mark.slow
@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_judge_gives_the_official_verdicts(shared_data: Path, tmp_path: Path, step: int) -> None:
    """One judge gives the recorded label, another the next letter."""
    run, labels, official = read_recorded(tmp_path, shared_data / "blink_replies", step)
    wording = Wording("fig8", "{question}\n{reply}")
    total = len((run / "records.jsonl").read_text("utf-8").splitlines())
    assert total == 30_456 if step == 1 else total > 30_456 / step

    def label(messages: Messages) -> str:
        idx, _, reply = messages[-1].text.partition("\n")
        return labels[idx, reply][1]

    def next_letter(messages: Messages) -> str:
        return "BCDAA"["ABCD".find(label(messages))]

    run_judge(run, next_letter, "liar", "every", wording=wording)
    lines = run_judge(run, label, "solomon+fig8", "every", wording=wording)
    verdicts = [line for line in read_judgements(run).lines if line.judge == "solomon+fig8"]
    beyond = [line for line in verdicts if not line.has_verdict]
    assert len(verdicts) == total and {line.said for line in beyond} <= {"C", "D", "E", "F"}
    for line in verdicts:
        assert line.verdict == {"Z": "none"}.get(line.said, line.said) or not line.has_verdict
    kappas = {}
    for sentence in lines:
        if sentence.startswith("agreement on every, "):
            pair, _, rest = sentence.removeprefix("agreement on every, ").partition(":")
            kappas[pair] = float(rest.partition("kappa ")[2].partition(";")[0])
    assert kappas["solomon+fig8 and the reader"] > 0.95
    assert max(kappas["liar and solomon+fig8"], kappas["liar and the reader"]) < 0.05
    rows = score_table(run, judge="solomon+fig8").where(metric="accuracy", slice="").rows
    right = sum(row.right or 0 for row in rows if row.point)
    assert 0 <= right - official <= len(beyond)  # the reader reads what the judge cannot
