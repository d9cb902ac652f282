"""The effect of looks, replays, and trajectories."""

import importlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from looktwice.eval.recorded.replay import describe_replay, replay
from looktwice.eval.recorded.show import ShownRun, show_sample
from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.turns import LOOKING_REASON, read_turns
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.tasks.photographs import load_photograph, load_stereo_pair
from looktwice.extras.looking.agent_looks import summarize_looks
from looktwice.pipelines.config import build, load_plan
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.model import Reply, ToolCall
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.agent.looks import EpisodeEnd, Look, read_episode_end, read_looks
from tests import made_run
from tests.made_run import MadeRun, analyse
from tests.optional import extension, needs_extras, require_extras
from tests.paths import CONFIGS, DOCS

saved = extension("request_diff.trajectories")

CONFIG = CONFIGS / "agent_near_sighted.yaml"
SMALL = (
    "task.n=12",
    "task.width=800",
    "task.height=600",
    "task.largest=40",
    "task.smallest=8",
    "stages.agent.fit.pixels=400",
    "contestants.glance.stages.fit.pixels=400",
    "sweep.stages.agent.bounds.steps=[0,1,3]",
)


# Notes


def test_looks_survive_writing_and_reading_a_record() -> None:
    look = Look(1, 0, "zoom", "shown", {"box": [1.5, 2]}, (2,), ((0, 1.5, 2, 3, 4), ()), probe=0)
    end = EpisodeEnd("steps", 2, 1, 0.25, 300, 1.5)
    notes = ["a sentence", look.note, "look here", "look {broken", 'look {"number": 3, "x": 1}']
    notes.append(end.note)
    assert read_looks(notes) == [look] and read_episode_end(notes) == end
    assert read_episode_end(["ended well"]) is None
    assert json.loads(look.note.removeprefix("look "))["tool"] == "zoom"


# Numbers by hand


def write_run(path: Path) -> RunScores:
    """A baseline and an agent on three samples with the key A, two looks each."""
    run = MadeRun(path)
    box = {"label": "t", "x0": 0, "y0": 0, "x1": 10, "y1": 10, "image": 0}
    task = run.task(
        "t", ["A", "A", "A"], marks=[box], meta=[{"region": "t"}, {}, {"region": [10, 0, 20, 10]}]
    )
    base = run.point("plain", "t", baseline=True)
    agent = run.point("agent", "t")
    for number in range(3):
        add_reply(run, base, f"s{number}", ["(B)"])
    # flips to right, looks at the mark
    add_reply(run, agent, "s0", ["(B)", "(A)", "(A)"], region=(0, 0, 10, 10))
    # flips to wrong, shows twice the area of the mark
    add_reply(run, agent, "s1", ["(A)", "hm", "(B)"], region=(0, 0, 20, 10))
    # found by a look; the hint is a box
    add_reply(run, agent, "s2", ["hm", "(A)"], region=(0, 0, 20, 10))
    assert task
    return score_run(run.write())


def add_reply(
    run: MadeRun, point: str, sample: str, texts: list[str], region: tuple[float, ...] = ()
) -> None:
    """Add a record with these replies: a look after each but the last, ten tokens each."""
    run.reply(point, sample, "")
    one, usage = run.records.pop().calls[0], {"tokens_in": 8, "tokens_out": 2}
    calls = tuple({**one, "reply": {"text": text, "usage": usage}} for text in texts)
    notes = list[str]()
    for n in range(len(texts) - 1 if region else 0):
        seen = ((0, *region),) if n == 0 else ((),)
        notes.append(Look(n + 1, n, "zoom", "shown", {}, (n + 2,), seen).note)
    notes += [EpisodeEnd("reply", len(notes)).note] if region else []
    run.record(point, sample, calls=calls, notes=tuple(notes))


def test_the_effect_of_looks_is_counted_from_the_records(tmp_path: Path) -> None:
    scored = write_run(tmp_path)
    (summary,) = summarize_looks(scored)
    assert (summary.contestant, summary.n, summary.looks) == ("agent", 3, 5 / 3)
    assert (summary.tools, summary.outcomes) == ({"zoom": 5}, {"shown": 5})
    assert summary.ended_by == {"reply": 3}
    assert (summary.turned_right, summary.turned_wrong, summary.answered_right) == (1, 1, 1)
    assert [summary.first_accuracy, summary.final_accuracy] == pytest.approx([1 / 3, 2 / 3])
    assert summary.iou == pytest.approx((1 + 0.5 + 0.5) / 3) and summary.covered_share == 1
    # 80 tokens on three samples against 30, for 2/3 more right; without a baseline for 1/3 more
    assert summary.tokens_per_gain == pytest.approx((50 / 3) / (200 / 3))
    turns = [(each.turn_count, each.n, each.accuracy) for each in summary.by_turns]
    assert turns == [(1, 1, 1.0), (2, 2, 0.5)]
    alone = replace(scored, points=tuple(p for p in scored.points if p.contestant == "agent"))
    (summary,) = summarize_looks(alone)
    assert summary.tokens_per_gain == pytest.approx((50 / 3) / (100 / 3))


def test_a_probe_gives_the_answer_before_a_look(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.task("t", ["A"])
    add_reply(run, run.point("agent", "t"), "s0", ["(B)", "hm", "(A)"], region=(0, 0, 5, 5))
    notes = (Look(1, 1, "zoom", "said", probe=0).note, EpisodeEnd("reply", 1).note)
    run.records[0] = replace(run.records[0], notes=notes)
    (summary,) = summarize_looks(score_run(run.write()))
    assert (summary.turned_right, summary.answered_right, summary.iou) == (1, 0, None)


def test_each_table_has_the_rows_of_its_run(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert "| agent | zoom 5 | reply 3 | 3 | 1.67 |" in analyse("looks", run).markdown
    assert "| agent | 2 | 2 | 50.0 |" in analyse("look_turns", run).markdown


# The whole loop, an integration test: the configuration, the runner, the agent, its tools, the
# records and the report


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_extras()  # the questions and the model of the configuration are extensions
    plan, out = load_plan(CONFIG, SMALL), tmp_path_factory.mktemp("runs")
    outcome = Study(plan, out, RunOptions(workers=2), console=Console(quiet=True))()
    assert outcome.failed_count == 0
    return outcome.folder


@pytest.mark.slow
def test_looking_again_helps_the_near_sighted_model_and_a_placebo_does_not(run: Path) -> None:
    """Shows that the loop works, which says nothing about language models."""
    scored = score_run(RunFolder(run))
    found = {
        (each.contestant.split(" ")[0], int(each.contestant[-2])): each
        for each in summarize_looks(scored)
    }
    glance = next(p for p in scored.points if p.contestant == "glance")
    first = sum(s.score.value for s in glance.all_records) / len(glance.all_records)
    after = {key: each.final_accuracy for key, each in found.items()}
    assert after["zoom", 0] == first < after["zoom", 1] < after["zoom", 3]
    assert all(after["placebo", allowed] == first for allowed in (0, 1, 3))
    assert all(after["zoom", allowed] <= after["oracle", allowed] for allowed in (0, 1, 3))
    assert after["oracle", 1] >= after["zoom", 3] > 0.8
    zoom, placebo, oracle = (found[name, 3] for name in ("zoom", "placebo", "oracle"))
    assert (zoom.tokens_per_gain or 0) > (oracle.tokens_per_gain or 0) > 0
    assert placebo.tokens_per_gain is None
    assert placebo.covered_share == pytest.approx(0, abs=0.1) and zoom.covered_share == 1
    assert zoom.answered_right > 0 and (zoom.turned_wrong, zoom.turned_right) == (0, 0)


KEPT = """
import numpy as np
from dataclasses import dataclass
from typing import ClassVar
from looktwice.pipelines.runtime.stores import get_current_store
from looktwice.specialists.results import DepthMap

@dataclass(frozen=True)
class Kept:
    asks: ClassVar[bool] = False

    def __call__(self, state, model):
        store = get_current_store()
        if store is not None:
            store.put("ab" * 32, DepthMap(np.ones((2, 2)), True))
        return state.replace(answer="no" if store is None else "yes")
"""


def test_a_replay_reuses_the_results_of_specialists(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(KEPT, encoding="utf-8")
    (tmp_path / "kept.yaml").write_text(
        "task: {use: eval.tasks.MarkedScenes, kind: shape, n: 1}\n"
        "stages: {answer: {use: kept.Kept}}\n"
        "model: {use: pipelines.models.Scripted}\nread: {use: eval.readers.Marked}\n"
    )
    plugins = (load_plugin(str(tmp_path / "kept.py")),)
    plan, quiet = load_plan(tmp_path / "kept.yaml", plugins=plugins), Console(quiet=True)

    def shows(run: Path, cache: Path | None) -> bool:
        (((_, sample, _), record),) = RunFolder(run).records().items()
        lines = show_sample(ShownRun(run, plugins, cache), sample)
        return f"  answer: {record.answer}" in list(lines)

    for cache in (None, tmp_path / "elsewhere"):
        run = tmp_path / ("beside" if cache is None else "apart") / "kept"
        Study(plan, run.parent, RunOptions(), cache=cache, console=quiet)()
        assert replay(run, plugins, cache).same_count == 1 and shows(run, cache)
    assert replay(run, plugins).same_count == 0 and not shows(run, None)


@pytest.mark.slow
def test_the_run_is_replayed_without_a_model_bit_for_bit(run: Path) -> None:
    replayed = replay(run)
    assert (replayed.same_count, replayed.differences, dict(replayed.left_out)) == (12 * 10, [], {})
    assert replayed.all_reproduced and "120 records" in [*describe_replay(replayed)][-1]


@pytest.mark.slow
def test_a_tool_call_is_not_a_wrong_answer_in_the_table_of_turns(run: Path) -> None:
    scored = score_run(RunFolder(run))
    for arm in (arms := read_turns(scored)):
        looking = [turns for turns in arm.records if turns.at(0).reason == LOOKING_REASON]
        first = arm.values.mean(0)
        assert looking and (first.n if first else 0) == len(arm.records) - len(looking)
    lines = made_run.lines_of(analyse("turns", scored))
    first_turns = [line["accuracy\n%"] for line in lines if line["turn"] == "1"]
    assert arms and not [cell for cell in first_turns if cell.startswith("0.0")]


def test_trajectories_hold_the_conversation_and_its_images(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "right.jsonl"
    (said,) = saved.write_trajectories(out, saved.read_trajectories(run, ("right",), whole=True))
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert said.startswith(f"{len(lines)} conversations")
    assert {line["verdict"] for line in lines} == {"right"}
    looked = next(line for line in lines if line["looks"] == 2)
    turns = looked["messages"]
    roles = [turn["role"] for turn in turns]
    assert roles == ["system", *("user", "assistant", "tool") * 2, "user", "assistant"]
    parts = [part for turn in turns for part in turn["content"] if part["type"] == "image"]
    assert len(parts) == len(looked["images"]) == 3
    assert max(Picture.open(out.parent / looked["images"][0]).size) == 400
    asked = turns[2]["tool_calls"][0]["function"]
    assert asked["name"] == "zoom" and len(json.loads(asked["arguments"])["box"]) == 4
    assert json.loads(looked["tools"])[0]["function"]["name"] == "zoom"
    assert turns[-1]["content"][0]["text"].endswith(f"ANSWER: {looked['key']}")
    for verdict, said in (("good", "no such verdict"), ("failed", "no conversation")):
        with pytest.raises(RunError, match=said):
            next(saved.write_trajectories(out, saved.read_trajectories(run, (verdict,))))
    plain = [line for line in saved.read_trajectories(run) if line["contestant"] == "glance"]
    assert [(line["looks"], line["tools"]) for line in plain] == [(0, "[]")] * 12


def test_a_replay_reports_what_differs_from_the_record(run: Path, tmp_path: Path) -> None:
    """A changed reply, a changed note and a failed record."""
    several = [each for each in RunFolder(run).records().values() if len(each.calls) == 3]
    # records have the order in which they ended, a replay that of the task
    first, second, *_ = sorted(several, key=lambda record: record.sample)
    call = dict(second.calls[0])
    call["reply"] = {**call["reply"], "text": "Something else."}
    wrong = (
        replace(first, notes=(*first.notes, "somebody was here")),
        replace(second, calls=(call, *second.calls[1:])),
        replace(first, draw=1, error="ValueError: no"),
    )
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("records*", "*report*", "cache*"))
    (copy / "records.jsonl").write_text("".join(r.to_line() for r in wrong), encoding="utf-8")
    replayed = replay(copy)
    notes, answers, failed, cached, last = describe_replay(replayed)
    assert not replayed.all_reproduced
    assert "notes differ" in notes and "0 answers" in answers and "1 record" in failed
    assert "not in the cache" in cached and "0 records identical, 2 different" in last


def test_the_trajectory_of_a_vote_is_a_draw_with_the_winning_answer(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.task("t", ["A", "A"])
    point = run.point("vote", "t")
    add_reply(run, point, "s0", ["(B)", "(A)", "(A)", "(C)"])
    # draw 0 says (B) and then (A), draw 1 (A), draw 2 (C)
    calls = run.records.pop().calls
    drawn = tuple({**call, "draw": draw} for call, draw in zip(calls, (0, 0, 1, 2), strict=True))
    run.record(point, "s0", calls=drawn, answer="A")
    run.record(point, "s1", calls=tuple({**call, "model": "reads"} for call in drawn[:2]))
    lines = saved.read_trajectories(run.write().path)
    assert [line["messages"][-1]["content"][0]["text"] for line in lines] == ["(A)", "(A)"]


@needs_extras
def test_the_page_on_agents_holds_the_trace_that_its_script_makes(tmp_path: Path) -> None:
    agents = importlib.import_module(load_plugin(str(DOCS / "agents.py")))
    page = (DOCS / "agents.md").read_text(encoding="utf-8")
    (folder := tmp_path / "agents").mkdir()
    assert agents.trace(folder) in page and agents.tools() in page and agents.forms() in page
    assert {p.name for p in folder.iterdir()} == {p.name for p in (DOCS / "agents").iterdir()}


@pytest.mark.slow
def test_the_tools_of_the_page_work_with_the_specialists_that_it_names() -> None:
    agents = importlib.import_module(load_plugin(str(DOCS / "agents.py")))
    agent, one, said = build(yaml.safe_load(agents.EVERY)), {"image": 1}, {"text": "An astronaut"}
    pair = {"match": {"first": 1, "second": 2}, "depth": one, "segment": one, "grid": {"image": 2}}
    for images, wanted in (
        (load_stereo_pair()[:2], pair),
        ((load_photograph("astronaut"),), {"faces": {}}),
    ):
        calls = tuple(ToolCall(name, name, json.dumps(given)) for name, given in wanted.items())
        turns = calls, (ToolCall("end", "answer", json.dumps(said)),)
        script = Scripted([Reply("", "tool", tool_calls=turn) for turn in turns])
        sample = Sample("s", "Who?", tuple(map(Picture, images)))
        state = Pipeline({"agent": agent})(State.start(sample), script)
        outcomes = {look.tool: look.outcome for look in read_looks(state.notes)}
        assert outcomes == dict.fromkeys(wanted, "shown") | {"answer": "answered"}
        assert state.answer == "An astronaut"
