"""What looks were worth, replays, trajectories, and the whole loop with a model of which is known
what it can see."""

import importlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from looktwice.eval.analysis.agent_looks import LookSummary, summarize_looks
from looktwice.eval.recorded.replay import describe_replay, replay
from looktwice.eval.recorded.show import ShownRun, show_sample
from looktwice.eval.records import RunError, RunFolder
from looktwice.eval.runs import RunOptions, Study
from looktwice.eval.scoring.metrics import LOOKING, read_turns
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import RunScores
from looktwice.eval.tasks.photographs import photograph, stereo_pair
from looktwice.pipelines.config import build, load_plan
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.model import Reply, ToolCall
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import Pipeline
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.agent.looks import EpisodeEnd, Look, read_end, read_looks
from tests import made_run
from tests.made_run import MadeRun, analysed
from tests.optional import extension, needs_extras, require_extras
from tests.paths import CONFIGS, DOCS

saved = extension("sent.trajectories")

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


def test_a_look_is_a_line_of_the_record_and_back() -> None:
    look = Look(1, 0, "zoom", "shown", {"box": [1.5, 2]}, (2,), ((0, 1.5, 2, 3, 4), ()), probe=0)
    end = EpisodeEnd("steps", 2, 1, 0.25, 300, 1.5)
    notes = ["a sentence", look.note, "look here", "look {broken", 'look {"number": 3, "x": 1}']
    notes.append(end.note)
    assert read_looks(notes) == [look] and read_end(notes) == end
    assert read_end(["ended well"]) is None
    assert json.loads(look.note.removeprefix("look "))["tool"] == "zoom"


# Numbers by hand


def made(path: Path) -> RunScores:
    """A baseline and an agent on three samples with the key A: two looks each, as the comments
    say."""
    run = MadeRun(path)
    box = {"label": "t", "x0": 0, "y0": 0, "x1": 10, "y1": 10, "image": 0}
    task = run.task(
        "t", ["A", "A", "A"], marks=[box], meta=[{"region": "t"}, {}, {"region": [10, 0, 20, 10]}]
    )
    base = run.point("plain", "t", baseline=True)
    agent = run.point("agent", "t")
    for number in range(3):
        reply(run, base, f"s{number}", ["(B)"])
    # flips to right, looks at the mark
    reply(run, agent, "s0", ["(B)", "(A)", "(A)"], region=(0, 0, 10, 10))
    # flips to wrong, shows twice the mark
    reply(run, agent, "s1", ["(A)", "hm", "(B)"], region=(0, 0, 20, 10))
    # found by a look; the hint is a box
    reply(run, agent, "s2", ["hm", "(A)"], region=(0, 0, 20, 10))
    assert task
    return score_run(run.write())


def reply(
    run: MadeRun, point: str, sample: str, texts: list[str], region: tuple[float, ...] = ()
) -> None:
    """A record whose replies are these, a look behind all but the last, ten tokens each."""
    run.reply(point, sample, "")
    one = run.records.pop().calls[0]
    calls = tuple(
        {**one, "reply": {"text": text, "usage": {"tokens_in": 8, "tokens_out": 2}}}
        for text in texts
    )
    regions: tuple[tuple[float, ...], ...] = ((0, *region),)
    looks = [
        Look(n + 1, n, "zoom", "shown", {}, (n + 2,), regions if n == 0 else ((),)).note
        for n in range(len(texts) - 1)
    ]
    notes = (*looks, EpisodeEnd("reply", len(looks)).note) if region else ()
    run.record(point, sample, calls=calls, notes=notes)


def test_what_looks_were_worth_is_counted_from_the_records(tmp_path: Path) -> None:
    (summary,) = summarize_looks(made(tmp_path))
    assert (summary.contestant, summary.n, summary.looks) == ("agent", 3, 5 / 3)
    assert (summary.tools, summary.outcomes) == ({"zoom": 5}, {"shown": 5})
    assert summary.ended_by == {"reply": 3}
    assert (summary.to_right, summary.to_wrong, summary.answered_right) == (1, 1, 1)
    assert [summary.first_accuracy, summary.final_accuracy] == pytest.approx([1 / 3, 2 / 3])
    assert summary.iou == pytest.approx((1 + 0.5 + 0.5) / 3) and summary.covered == 1
    # 80 tokens on three samples against 30, for 2/3 more right: (80 - 30) / 3 tokens for 66.7
    # points
    assert summary.tokens_per_gain == pytest.approx((50 / 3) / (200 / 3))
    assert [(each.turns, each.n, each.accuracy) for each in summary.by_turns] == [
        (1, 1, 1.0),
        (2, 2, 0.5),
    ]


def test_without_a_baseline_the_price_is_that_of_the_looks(tmp_path: Path) -> None:
    scored = made(tmp_path)
    alone = replace(scored, points=tuple(p for p in scored.points if p.contestant == "agent"))
    (summary,) = summarize_looks(alone)
    assert summary.tokens_per_gain == pytest.approx((50 / 3) / (100 / 3))


def test_a_probe_tells_the_answer_before_a_look(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.task("t", ["A"])
    point = run.point("agent", "t")
    reply(run, point, "s0", ["(B)", "hm", "(A)"], region=(0, 0, 5, 5))
    record = run.records[0]
    run.records[0] = replace(
        record, notes=(Look(1, 1, "zoom", "said", probe=0).note, EpisodeEnd("reply", 1).note)
    )
    (summary,) = summarize_looks(score_run(run.write()))
    assert (summary.to_right, summary.answered_right, summary.iou) == (1, 0, None)


def test_tables_say_what_is_there(tmp_path: Path) -> None:
    run = made(tmp_path)
    assert "| agent | zoom 5 | reply 3 | 3 | 1.67 |" in analysed("looks", run).markdown
    assert "| agent | 2 | 2 | 50.0 |" in analysed("look_turns", run).markdown


# The whole loop, an integration test: the configuration, the runner, the agent, its tools, the
# records and the report


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    require_extras()  # the questions and the model of the configuration
    out = tmp_path_factory.mktemp("runs")
    outcome = Study(
        load_plan(CONFIG, SMALL), out, RunOptions(workers=2), console=Console(quiet=True)
    )()
    assert outcome.failed == 0
    yield outcome.folder


def points(run: Path) -> dict[tuple[str, int], LookSummary]:
    return {
        (found.contestant.split(" ")[0], int(found.contestant[-2])): found
        for found in summarize_looks(score_run(RunFolder(run)))
    }


@pytest.mark.dear
def test_looking_again_helps_the_near_sighted_and_a_placebo_does_not(run: Path) -> None:
    """An integration test: it says that the loop works, and nothing about language models."""
    found = points(run)
    scored = score_run(RunFolder(run))
    glance = next(p for p in scored.points if p.contestant == "glance")
    first = sum(s.score.value for s in glance.all) / len(glance.all)
    after = {key: each.final_accuracy for key, each in found.items()}
    assert after["zoom", 0] == first < after["zoom", 1] < after["zoom", 3]
    assert all(after["placebo", allowed] == first for allowed in (0, 1, 3))
    assert all(after["zoom", allowed] <= after["oracle", allowed] for allowed in (0, 1, 3))
    assert after["oracle", 1] >= after["zoom", 3] > 0.8
    zoom, placebo, oracle = (found[name, 3] for name in ("zoom", "placebo", "oracle"))
    assert zoom.tokens_per_gain and oracle.tokens_per_gain
    assert zoom.tokens_per_gain > oracle.tokens_per_gain and placebo.tokens_per_gain is None
    assert placebo.covered == pytest.approx(0, abs=0.1) and zoom.covered == 1
    assert zoom.answered_right > 0 and (zoom.to_wrong, zoom.to_right) == (0, 0)


KEPT = """
import numpy as np
from dataclasses import dataclass
from typing import ClassVar
from looktwice.pipelines.runtime.stores import current_store
from looktwice.specialists.results import DepthMap

@dataclass(frozen=True)
class Kept:
    asks: ClassVar[bool] = False

    def __call__(self, state, model):
        store = current_store()
        if store is not None:
            store.put("ab" * 32, DepthMap(np.ones((2, 2)), True))
        return state.replace(answer="no" if store is None else "yes")
"""


def test_a_replay_takes_what_specialists_found_in_the_run(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(KEPT, encoding="utf-8")
    config = tmp_path / "kept.yaml"
    config.write_text(
        "task: {use: eval.tasks.MarkedScenes, kind: shape, n: 1}\n"
        "stages: {answer: {use: kept.Kept}}\n"
        "model: {use: pipelines.models.Scripted}\nread: {use: eval.readers.Marked}\n"
    )
    plugin = load_plugin(str(tmp_path / "kept.py"))
    for cache in (None, tmp_path / "elsewhere"):
        out = tmp_path / ("beside" if cache is None else "apart")
        plan, quiet = load_plan(config, plugins=(plugin,)), Console(quiet=True)
        Study(plan, out, RunOptions(), cache=cache, console=quiet)()
        assert replay(out / "kept", (plugin,), cache).same == 1
        assert f"  answer: {answer_of(out / 'kept')}" in lines_of(out / "kept", plugin, cache)
    assert replay(out / "kept", (plugin,)).same == 0
    assert f"  answer: {answer_of(out / 'kept')}" not in lines_of(out / "kept", plugin)


def answer_of(run: Path) -> str | None:
    (record,) = RunFolder(run).records().values()
    return record.answer


def lines_of(run: Path, plugin: str, cache: Path | None = None) -> list[str]:
    (key,) = RunFolder(run).records()
    return list(show_sample(ShownRun(run, (plugin,), cache), key[1]))


@pytest.mark.dear
def test_the_run_is_replayed_without_a_model_bit_for_bit(run: Path) -> None:
    replayed = replay(run)
    assert (replayed.same, replayed.different, dict(replayed.left_out)) == (
        12 * 10,
        [],
        {},
    ) and replayed.done
    *_, last = describe_replay(replayed)
    assert last == "replayed without a model: 120 records the same bit for bit"


def test_a_call_of_a_tool_is_no_wrong_answer_in_the_table_of_turns(run: Path) -> None:
    scored = score_run(RunFolder(run))
    arms = read_turns(scored)
    assert arms
    for arm in arms:
        looking = [turns for turns in arm.records if turns.at(0).reason == LOOKING]
        answered, first = len(arm.records) - len(looking), arm.values.mean(0)
        assert looking and (first.n if first else 0) == answered
    for line in made_run.lines_of(analysed("turns", scored)):
        if line["turn"] == "1":
            assert not line["accuracy\n%"].startswith("0.0"), "who looks has not answered wrongly"


def test_trajectories_hold_the_conversation_and_its_images(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "right.jsonl"
    (said,) = saved.write_trajectories(out, saved.trajectories(run, ("right",), whole=True))
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert said.startswith(f"{len(lines)} conversations") and {
        line["verdict"] for line in lines
    } == {"right"}
    looked = next(line for line in lines if line["looks"] == 2)
    roles = [turn["role"] for turn in looked["messages"]]
    assert roles == ["system", *("user", "assistant", "tool") * 2, "user", "assistant"]
    parts = [
        part for turn in looked["messages"] for part in turn["content"] if part["type"] == "image"
    ]
    assert len(parts) == len(looked["images"]) == 3
    assert max(Picture.open(out.parent / looked["images"][0]).size) == 400
    asked = looked["messages"][2]["tool_calls"][0]["function"]
    assert asked["name"] == "zoom" and len(json.loads(asked["arguments"])["box"]) == 4
    assert json.loads(looked["tools"])[0]["function"]["name"] == "zoom"
    assert looked["messages"][-1]["content"][0]["text"].endswith(f"ANSWER: {looked['key']}")
    with pytest.raises(RunError, match="no such verdict"):
        next(saved.write_trajectories(out, saved.trajectories(run, ("good",))))
    with pytest.raises(RunError, match="no such conversation"):
        next(saved.write_trajectories(out, saved.trajectories(run, ("failed",))))


def test_a_replay_finds_what_is_not_as_recorded(run: Path, tmp_path: Path) -> None:
    """A changed reply, a changed note and a failed record, each in a copy of one sample's
    records."""
    there = RunFolder(run)
    several = [record for record in there.records().values() if len(record.calls) == 3]
    # records stand as they ended, a replay goes as the task does
    wanted = sorted(several, key=lambda record: record.sample)[:2]
    changed = replace(wanted[0], notes=(*wanted[0].notes, "somebody was here"))
    call = dict(wanted[1].calls[0])
    call["reply"] = {**call["reply"], "text": "Something else."}
    asked = replace(wanted[1], calls=(call, *wanted[1].calls[1:]))
    failed = replace(wanted[0], draw=1, error="ValueError: no")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("points.yaml", "samples.jsonl"):
        (copy / name).write_bytes((run / name).read_bytes())
    shutil.copytree(run / "blobs", copy / "blobs")
    (copy / "records.jsonl").write_text(
        "".join(r.to_line() for r in (changed, asked, failed)), encoding="utf-8"
    )
    replayed = replay(copy)
    lines = list(describe_replay(replayed))
    assert not replayed.done
    assert "notes differ" in lines[0] and "0 answers to this request" in lines[1]
    assert lines[2] == "not replayed: 1 record (failed when it was made)"
    assert lines[3].startswith("in no cache")
    assert lines[4:] == ["replayed without a model: 0 records the same, 2 different"]


def test_trajectories_of_a_run_without_agents_are_plain_conversations(run: Path) -> None:
    plain = [line for line in saved.trajectories(run) if line["contestant"] == "glance"]
    assert len(plain) == 12 and all(line["looks"] == 0 and line["tools"] == "[]" for line in plain)


def test_a_trajectory_of_a_vote_is_a_draw_that_says_what_won_and_a_second_model_may_answer(
    tmp_path: Path,
) -> None:
    run = MadeRun(tmp_path)
    run.task("t", ["A", "A"])
    point = run.point("vote", "t")
    reply(run, point, "s0", ["(B)", "(A)", "(A)", "(C)"])
    calls = tuple(
        {**call, "draw": n // 2 if n < 3 else 2} for n, call in enumerate(run.records.pop().calls)
    )
    # draw 0 says (B) and then (A), draw 1 (A), draw 2 (C)
    run.record(point, "s0", calls=calls, answer="A")
    run.record(point, "s1", calls=tuple({**call, "model": "reads"} for call in calls[:2]))
    said = {line["sample"]: line for line in saved.trajectories(run.write().path)}
    assert [said[name]["messages"][-1]["content"][0]["text"] for name in ("s0", "s1")] == [
        "(A)",
        "(A)",
    ]


@needs_extras
def test_the_page_on_agents_holds_the_trace_that_its_script_makes(tmp_path: Path) -> None:
    docs = DOCS
    agents = importlib.import_module(load_plugin(str(docs / "agents.py")))
    folder = tmp_path / "agents"
    folder.mkdir()
    page = (docs / "agents.md").read_text(encoding="utf-8")
    assert agents.trace(folder) in page and agents.tools() in page and agents.forms() in page
    assert {path.name for path in folder.iterdir()} == {
        path.name for path in (docs / "agents").iterdir()
    }


@pytest.mark.dear
def test_the_tools_of_the_page_work_with_the_specialists_that_it_names() -> None:
    agents = importlib.import_module(load_plugin(str(DOCS / "agents.py")))
    agent = build(yaml.safe_load(agents.EVERY))
    pair = {"match": {"first": 1, "second": 2}, "depth": {"image": 1}, "segment": {"image": 1}}
    pair["grid"] = {"image": 2}
    for images, wanted in ((stereo_pair()[:2], pair), ((photograph("astronaut"),), {"faces": {}})):
        calls = tuple(
            ToolCall(name, name, json.dumps(arguments)) for name, arguments in wanted.items()
        )
        script = Scripted(
            [Reply("", "tool", tool_calls=calls), Reply("", "tool", tool_calls=(end(),))]
        )
        state = Pipeline({"agent": agent})(
            State.start(Sample("s", "Who?", tuple(map(Picture, images)))), script
        )
        outcomes = {look.tool: look.outcome for look in read_looks(state.notes)}
        assert outcomes == dict.fromkeys(wanted, "shown") | {"answer": "answered"}
        assert state.answer == "An astronaut"


def end() -> ToolCall:
    return ToolCall("end", "answer", json.dumps({"text": "An astronaut"}))
