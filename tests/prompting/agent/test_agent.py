"""The agent: its messages, its tool calls, its bounds, and its limits for hostile replies."""

import json
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval.readers import Marked, Robust
from looktwice.pipelines.config import build
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.spec import identity, spec
from looktwice.pipelines.marks import Box, Mask, Point
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Model,
    Reply,
    ToolCall,
    Usage,
    make_message_json,
)
from looktwice.pipelines.models import ChatAPI, Scripted
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import Pipeline, StageFailed
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.transforms import compute_rotated_size
from looktwice.prompting.agent import (
    Agent,
    AgentTool,
    Answer,
    Bounds,
    Contrast,
    DrawBox,
    DrawPoint,
    Magnify,
    Measure,
    NativeCalls,
    OracleZoom,
    PlainCalls,
    Rotate,
    ShowGrid,
    TaggedCalls,
    Undo,
    Zoom,
    tool as tool_file,
)
from looktwice.prompting.agent.agent import FINAL_MESSAGE
from looktwice.prompting.agent.looks import EpisodeEnd, Look, read_episode_end, read_looks
from looktwice.prompting.agent.tool import describe_tool
from looktwice.prompting.controls import OracleCrop
from looktwice.prompting.turns import History, Vote
from looktwice.prompting.views import Concatenate, Crop, LongestSide
from looktwice.specialists.results import Boxes, DepthMap, Masks, Matches
from tests import tables
from tests.optional import extension
from tests.prompting.scenes import ScriptedReplies, table
from tests.strict_server import strict_server

shown_results = extension("shown_results")

CASES = table("agent/agent.yaml")
PLAIN_ZOOM = Zoom(crop=Crop(padding=0, min_px=1))
FORMS = pytest.mark.parametrize(
    "form", [NativeCalls(), TaggedCalls(), PlainCalls()], ids=lambda form: type(form).__name__
)


def pixels(width: int = 80, height: int = 60) -> Pixels:
    """Return an image whose pixels encode their place: red is the column, green the row."""
    ys, xs = np.mgrid[:height, :width]
    return np.dstack([xs, ys, np.full_like(xs, 200)]).astype(np.uint8)


def sample(*images: Pixels, question: str = "What is it?", **more: Any) -> Sample:
    return Sample("s", question, tuple(map(Picture, images or (pixels(),))), **more)


def call(name: str, words: str = "", tokens: int = 0, seconds: float = 0.0, **given: Any) -> Reply:
    calls = (ToolCall("c", name, json.dumps(given)),)
    return Reply(words, "tool", tool_calls=calls, usage=Usage(tokens, 0), seconds=seconds)


def raw(*calls: tuple[str, str]) -> Reply:
    made = tuple(ToolCall(f"c{n}", *each) for n, each in enumerate(calls))
    return Reply("", "tool", tool_calls=made)


def run_stage(agent: Stage, model: Model, of: Sample | None = None) -> State:
    return Pipeline({"agent": agent})(State.start(of or sample()), model)


def scripted(
    agent: Stage, *replies: str | Reply, of: Sample | None = None
) -> tuple[State, list[Any]]:
    model = Scripted(list(replies))
    return run_stage(agent, model, of), model.asked


def summarize(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """Return messages as tuples: role, texts, views as (width, height), calls as (name,
    arguments)."""
    return [
        (
            m.role,
            *(p if isinstance(p, str) else p.size for p in m.parts),
            *((c.name, c.arguments) for c in m.tool_calls),
        )
        for m in messages
    ]


def outcomes(state: State) -> list[str]:
    return [look.outcome for look in read_looks(state.notes)]


def ended(state: State) -> EpisodeEnd:
    end = read_episode_end(state.notes)
    assert end is not None
    return end


def test_native_calls_are_answered_in_a_tool_turn_and_images_in_a_user_turn() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, system="Look.")
    state, asked = scripted(agent, call("zoom", "Closer.", box=[10, 20, 30, 50]), "It is a cat.")
    assert summarize(asked[0]) == [
        ("system", "Look."),
        ("user", "Image 1 (80 x 60 pixels):", (80, 60), "What is it?"),
    ]
    assert summarize(asked[1])[2:] == [
        ("assistant", "Closer.", ("zoom", '{"box": [10, 20, 30, 50]}')),
        ("tool", "Image 2 (20 x 30 pixels):"),
        ("user", "Image 2 (20 x 30 pixels):", (20, 30)),
    ]
    assert asked[1][3].call_id == "c"
    assert state.reply == "It is a cat." and state.answer is None and len(state.views) == 2
    assert (state.views[1].pixels == pixels()[20:50, 10:30]).all()
    arguments = {"box": [10, 20, 30, 50], "image": 0}
    look = Look(1, 0, "zoom", "shown", arguments, (2,), ((0, 10, 20, 30, 50),))
    assert read_looks(state.notes) == [look]
    assert ended(state).by == "reply"
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=NativeCalls(pictures="tool"), coordinates="0-1")
    _, asked = scripted(agent, call("zoom", box=[0, 0, 0.5, 0.5]), "x")
    assert summarize(asked[1])[-1] == ("tool", "Image 2:", (40, 30))
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=NativeCalls(pictures="both"), coordinates="0-1")
    _, asked = scripted(agent, call("zoom", box=[0, 0, 0.5, 0.5]), "x")
    shown = ("Image 2:", (40, 30))
    assert summarize(asked[1])[-2:] == [("tool", *shown), ("user", *shown)]


def test_tagged_calls_are_described_and_parsed_in_text() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=TaggedCalls(), coordinates="0-1000", system="")
    given = '{"name": "zoom", "arguments": {"bbox_2d": [0, 0, 500, 500]}}'
    sentence = f"Hm.\n<tool_call>\n{given}\n</tool_call>"
    state, asked = scripted(agent, sentence, "A cat.")
    told = json.loads(asked[0][0].text.partition("<tools>\n")[2].partition("\n</tools>")[0])
    described = describe_tool("zoom", PLAIN_ZOOM, "0-1000")
    assert told == {
        "name": "zoom",
        "description": PLAIN_ZOOM.description,
        "parameters": dict(described.parameters),
    }
    assert "thousandths" in told["parameters"]["properties"]["box"]["description"]
    answer = ("user", "<tool_response>", "Image 2:", (40, 30), "</tool_response>")
    assert summarize(asked[1])[2:] == [("assistant", sentence), answer]
    assert state.reply == "A cat."


def test_only_plain_lines_ask_and_answer() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=PlainCalls())
    state, asked = scripted(
        agent, 'CALL zoom {"box": [0, 0, 40, 30]}', "It is a cat.", "ANSWER: a cat"
    )
    assert summarize(asked[1])[-1] == (
        "user",
        "RESULT of zoom:",
        "Image 2 (40 x 30 pixels):",
        (40, 30),
    )
    assert summarize(asked[2])[-1][1].startswith("error: the reply has neither a line")
    assert state.reply == "ANSWER: a cat" and outcomes(state) == ["shown", "refused"]


def test_a_call_that_the_server_leaves_as_text_is_executed() -> None:
    left = '<think>Hm.</think>[TOOL_CALLS]zoom[ARGS]{"box": [10, 20, 30, 50]}'
    state, asked = scripted(Agent({"zoom": PLAIN_ZOOM}), left, "A cat.")
    assert outcomes(state) == ["shown"] and state.reply == "A cat."
    assert [view.size for view in state.views] == [(80, 60), (20, 30)]
    turn = next(turn for turn in asked[1] if turn.role == "assistant")
    (called,) = turn.tool_calls
    assert (called.name, json.loads(called.arguments)) == ("zoom", {"box": [10, 20, 30, 50]})
    assert "zoom" not in turn.text


@FORMS
def test_parallel_calls_run_in_order_and_each_is_answered(form: Any) -> None:
    boxes: list[dict[str, Any]] = [{"box": [0, 0, 40, 30]}, {"image": 1, "box": [0, 0, 8, 6]}]
    wanted = [("zoom", boxes[0]), ("turn", {"degrees": 90}), ("zoom", boxes[1])]
    tags = (json.dumps({"name": name, "arguments": given}) for name, given in wanted)
    lines = (f"CALL {name} {json.dumps(given)}" for name, given in wanted)
    replies = {
        NativeCalls: raw(*((name, json.dumps(given)) for name, given in wanted)),
        TaggedCalls: Reply("".join(f"<tool_call>{tag}</tool_call>" for tag in tags)),
        PlainCalls: Reply("\n".join(lines)),
    }
    agent = Agent({"zoom": PLAIN_ZOOM, "turn": Rotate()}, protocol=form)
    state, asked = scripted(agent, replies[type(form)], "ANSWER: x")
    assert [view.size for view in state.views] == [(80, 60), (40, 30), (30, 40), (8, 6)]
    assert ended(state).steps == 1 and len(asked) == 2
    if isinstance(form, NativeCalls):
        assert [(m.call_id, m.text.split(" (")[0]) for m in asked[1] if m.role == "tool"] == [
            ("c0", "Image 2"),
            ("c1", "turned by 90 degrees\nImage 3"),
            ("c2", "Image 4"),
        ]


def test_a_clipped_box_is_reported_to_the_model_and_noted() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM})
    boxes: list[dict[str, Any]] = [{"box": [-20, 10, 40, 30]}, {"box": [0, 0, 40, 20], "image": 1}]
    state, asked = scripted(agent, *(call("zoom", **box) for box in boxes), "A cat.")
    told = [["reaches beyond image 1, which" in turn.text for turn in turns] for turns in asked]
    assert [sum(turns) for turns in told] == [0, 1, 1]
    assert [view.size for view in state.views[1:]] == [(40, 20), (40, 20)]
    first, second = read_looks(state.notes)
    assert "reaches beyond image 1" in first.reason and not second.reason


def test_the_model_is_offered_tools_with_their_schemas() -> None:
    model = ScriptedReplies("x")
    tools: dict[str, AgentTool] = {"zoom": Zoom(), "undo": Undo()}
    run_stage(Agent(tools, options=CallOptions(temperature=0.5), coordinates="0-1"), model)
    ((*_, options),) = model.calls
    zoom, undo = options.tools or ()
    assert (options.temperature, zoom.name, undo.name) == (0.5, "zoom", "undo")
    box = zoom.parameters["properties"]["box"]
    four = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
    assert box.items() >= four.items()
    assert "from 0 to 1" in box["description"] and zoom.parameters["required"] == ["box"]
    json.dumps(undo.parameters)


def test_history_can_drop_the_images_of_earlier_turns() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, history=History(images="latest"))
    calls = call("zoom", box=[0, 0, 9, 9]), call("zoom", image=1, box=[0, 0, 5, 5])
    _, asked = scripted(agent, *calls, "x")
    assert [view.size for message in asked[2] for view in message.views] == [(5, 5)]


def test_a_probe_does_not_change_the_conversation() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, probe="What now?", system="")
    state, asked = scripted(agent, "maybe A", call("zoom", box=[0, 0, 9, 9]), "maybe B", "B")
    assert asked[0][-1].text.endswith("What is it?\nWhat now?")
    assert asked[2][-1].text.endswith("What now?") and state.reply == "B"
    assert "What now?" not in "".join(message.text for message in asked[3])
    assert [(look.probe, look.call) for look in read_looks(state.notes)] == [(0, 1)]


def test_places_survive_rotation_and_joined_views_and_a_choice_is_not_a_source() -> None:
    two = sample(pixels(80, 60), pixels(80, 60)[:, ::-1])
    agent = Agent({"zoom": PLAIN_ZOOM, "turn": Rotate()})
    first, last = call("zoom", box=[100, 10, 130, 50]), call("zoom", box=[0, 0, 10, 20])
    joined = Pipeline({"join": Concatenate(margin=10), "agent": agent})
    state = joined(State.start(two), Scripted([first, call("turn", degrees=180), last, "x"]))
    regions = [look.regions for look in read_looks(state.notes)]
    # rotated, it shows the same
    assert regions == [((1, 10, 10, 40, 50),), ((),), ((1, 30, 30, 40, 50),)]
    state = State.start(sample())
    state = state.replace(views=(*state.views, replace(state.views[0], parts=())))
    zoom = Agent({"zoom": PLAIN_ZOOM})
    after = zoom(state, Scripted([call("zoom", image=2, box=[0, 0, 9, 9]), "x"]))
    assert after.views[2].size == (9, 9) and read_looks(after.notes)[0].regions == ((),)


def find_box(pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
    """Find one box for any word except "nothing"."""
    count = 0 if words == ("nothing",) else 1
    return Boxes(np.array([[10, 10, 30, 40]] * count), np.ones(count), np.array(["it"] * count))


def ramp(image: Pixels, /, *others: Pixels) -> DepthMap:
    return DepthMap(np.tile(np.arange(image.shape[1], dtype=float), (image.shape[0], 1)), True)


def empty(image: Pixels, /, *others: Pixels) -> DepthMap:
    return DepthMap(np.full(image.shape[:2], math.nan), True)


def unopened(image: Pixels, /, *others: Pixels) -> DepthMap:
    raise WeightsError("there is no folder 'depth'")


def split_halves(pixels: Pixels, /) -> Masks:
    left = np.zeros(pixels.shape[:2], bool)
    left[:, : pixels.shape[1] // 2] = True
    return Masks(np.array([left, ~left]), np.ones(2), np.array(["", ""]))


def same(pixels0: Pixels, pixels1: Pixels, /) -> Matches:
    xy = np.array([[10, 10], [40, 30], [60, 50]])
    return Matches(xy, xy, np.ones(3))


TOOLS: dict[str, tuple[Callable[[], Any], dict[str, Any], tuple[int, int], str]] = {
    "zoom": (Zoom, {"box": [0, 0, 40, 30]}, (512, 384), ""),
    "magnify": (Magnify, {"point": [79, 0], "factor": 4}, (80, 60), ""),
    "box": (DrawBox, {"box": [20, 20, 50, 50], "label": "A"}, (80, 60), ""),
    "point": (DrawPoint, {"point": [40, 40], "label": "B"}, (80, 60), ""),
    "grid": (ShowGrid, {}, (80, 60), ""),
    "rotate": (Rotate, {"degrees": 90}, (60, 80), "turned by 90"),
    "contrast": (Contrast, {}, (80, 60), ""),
    "word": (
        lambda: shown_results.CropByWord(find_box, crop=Crop(padding=0, min_px=1)),
        {"word": "dog"},
        (20, 30),
        "",
    ),
    "faces": (
        lambda: shown_results.ZoomOnFaces(find_box, crop=Crop(padding=0, min_px=1)),
        {},
        (20, 30),
        "",
    ),
    "depth": (lambda: shown_results.ShowDepth(ramp), {}, (80, 60), ""),
    "segment": (lambda: shown_results.ShowSegments(split_halves), {}, (80, 60), ""),
    "match": (lambda: shown_results.ShowMatches(same), {}, (170, 60), ""),
    "apply": (
        lambda: shown_results.ApplyStage(LongestSide(40), "Shows it smaller."),
        {},
        (40, 30),
        "",
    ),
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_a_stage_on_a_view(name: str) -> None:
    make, arguments, size, words = TOOLS[name]
    wanted = call(name, **arguments) if name == "match" else call(name, image=1, **arguments)
    state, asked = scripted(Agent({name: make()}), wanted, "x", of=sample(pixels(), pixels() // 2))
    look = read_looks(state.notes)[0]
    assert (look.outcome, look.reason) == ("shown", "")
    assert state.views[2].size == size and state.views[2].parts and words in asked[1][-2].text
    assert not np.array_equal(state.views[2].pixels, state.views[0].pixels)


def test_measure_uses_the_image_at_full_size() -> None:
    agent = Agent({"measure": Measure()}, fit=LongestSide(40), coordinates="0-1")
    state, asked = scripted(agent, call("measure", start=[0.25, 0.5], end=[0.75, 0.5]), "x")
    told = asked[1][-1].text
    assert all(fact in told for fact in ("40.0 pixels", "50.0 %", "image 1", "0.0 degrees"))
    assert outcomes(state) == ["said"] and len(state.views) == 1


@pytest.mark.slow
def test_repeated_rotation_does_not_exhaust_memory() -> None:
    agent = Agent({"rotate": Rotate()}, bounds=Bounds(steps=12), fit=LongestSide(40))
    turns = [call("rotate", degrees=45 - n / 10) for n in range(8)]
    state, _ = scripted(agent, *turns, "x", of=sample(pixels(1200, 1200)))
    assert outcomes(state) == ["shown"] * 4 + ["failed"] * 4
    assert "earlier image" in read_looks(state.notes)[-1].reason
    assert compute_rotated_size((80, 60), 90) == (60, 80) and compute_rotated_size(
        (80, 60), -180
    ) == (80, 60)


def test_undo_removes_the_last_image() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM, "undo": Undo()})
    first, second = call("zoom", box=[0, 0, 9, 9]), call("zoom", image=2, box=[0, 0, 5, 5])
    state, asked = scripted(agent, first, call("undo"), second, call("undo"), "x")
    assert all(view.size != (9, 9) for message in asked[2] for view in message.views)
    assert [(look.outcome, look.reason) for look in read_looks(state.notes)][1:] == [
        ("said", "image 2 is taken back"),
        ("refused", "there is no image 2; there are 1"),
        ("failed", "no tool has shown an image that could be taken back"),
    ]


def test_the_answer_tool_is_parsed_by_the_reader_of_the_agent() -> None:
    agent, of = Agent({"answer": Answer()}, reader=Robust()), sample(choices=("cat", "dog"))
    state, _ = scripted(agent, call("answer", text="It is (B)."), of=of)
    assert (state.answer, state.reason, ended(state).by) == ("B", "", "answer")
    state, _ = scripted(agent, call("answer", text="Who knows"), of=of)
    assert state.answer is None and state.reason


def test_the_controls_look_like_the_zoom_but_show_another_place() -> None:
    truth = Box("target", 60, 40, 80, 60, 1)
    of = sample(pixels() // 2, pixels(), marks=(truth,), meta={"region": "target"})
    crop, asked_for, regions = Crop(padding=0, min_px=1), [5.0, 5.0, 25.0, 25.0], {}
    tools: dict[str, AgentTool] = {
        "zoom": Zoom(crop=crop),
        "placebo": Zoom(crop=crop, elsewhere=True),
        "oracle": OracleZoom(crop=crop),
    }
    for name, tool in tools.items():
        assert describe_tool("zoom", tool, "pixels") == describe_tool("zoom", Zoom(), "pixels")
        wanted = call("zoom", box=asked_for, image=1)
        state, _ = scripted(Agent({"zoom": tool}), wanted, "x", of=of)
        (regions[name],) = read_looks(state.notes)[0].regions
    assert regions["zoom"] == (0, *asked_for)
    assert regions["oracle"] == (1, *truth.xyxy), "whichever image shows it"
    _, x0, y0, x1, y1 = regions["placebo"]
    assert (x1 - x0, y1 - y0) == (20, 20) and (x0 >= 25 or y0 >= 25)


IMPORTS = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from pydantic import Field
from looktwice.pipelines.state import State
from looktwice.prompting.agent import Arguments, ImageArguments, ToolResult
"""


def test_the_documented_custom_tool_works_from_a_file(tmp_path: Path) -> None:
    example = re.findall(r"(?:^(?: {4}.*)?\n)+", tool_file.__doc__ or "", re.M)
    code = textwrap.dedent(max(example, key=len))
    (tmp_path / "my_tools.py").write_text(IMPORTS + code, encoding="utf-8")
    scope = Scope(plugins=(load_plugin(str(tmp_path / "my_tools.py")),))
    tools = {"dark": {"use": "my_tools.Darken"}}
    agent = build({"use": "prompting.agent.Agent", "tools": tools}, scope)
    state, _ = scripted(agent, call("dark", factor=4), "x")
    assert state.views[1].pixels.max() == 50


@tables.table
def test_each_bound_stops_the_loop_and_forces_an_answer(bound: str, value: Any, looks: int) -> None:
    boxes = [[0, 0, 30, 30 - n] for n in range(looks)]
    script = [call("zoom", image=1, box=box, tokens=100, seconds=1.0) for box in boxes]
    model = ScriptedReplies(*script, Reply("A cat."))
    state = run_stage(Agent({"zoom": PLAIN_ZOOM}, bounds=Bounds(**{bound: value})), model)
    messages, _, options = model.calls[-1]
    assert len(model.calls) == looks + 1 and not options.tools
    assert messages[-1].role == "user" and messages[-1].text.endswith(FINAL_MESSAGE)
    assert ended(state).by == bound and state.reply == "A cat." and not state.ended


def test_without_steps_there_are_no_tools_and_a_call_for_the_answer_is_an_abstention() -> None:
    state, asked = scripted(Agent({"zoom": Zoom()}, bounds=Bounds(steps=0)), "A cat.")
    assert [message.role for message in asked[0]] == ["user"] and state.reply == "A cat."
    agent = Agent({"zoom": PLAIN_ZOOM}, bounds=Bounds(steps=1))
    state, _ = scripted(agent, call("zoom", box=[0, 0, 9, 9]), call("zoom", box=[0, 0, 5, 5]))
    assert state.reason.startswith("abstained: it called zoom") and len(state.views) == 2
    agent = Agent({"zoom": PLAIN_ZOOM, "answer": Answer()}, reader=Marked(), bounds=Bounds(steps=0))
    state, _ = scripted(agent, call("answer", text="Answer: cat"))
    assert (state.answer, ended(state).by) == ("cat", "steps")


def test_images_beyond_a_limit_are_not_shown_and_a_repeated_call_is_not_run() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, bounds=Bounds(images=2))
    calls = raw(*(("zoom", json.dumps({"image": 1, "box": [0, 0, 10 + n, 10]})) for n in range(4)))
    state, asked = scripted(agent, calls, "x")
    assert outcomes(state) == ["shown", "shown", "bound", "bound"]
    assert len(state.views) == 3 and "not shown" in asked[1][-2].text
    same = call("zoom", image=1, box=[0, 0, 9, 9])
    state, asked = scripted(Agent({"zoom": PLAIN_ZOOM}), same, same, "x")
    assert outcomes(state) == ["shown", "repeated"] and len(state.views) == 2
    assert "image 2" in asked[2][-1].text


BOX = '{"box": [0, 0, 9, 9]'


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        *CASES["malformed"],
        ("zoom", '{"box": ' + "[" * 100_000, "the arguments are no JSON"),
        ("zoom", '{"box": [0, 0, ' + "9" * 400 + ", 9]}", "`box` must be a list of 4 numbers"),
        ("zoom", '{"box": [0, 0, ' + "9" * 9999 + ", 9]}", "the arguments are no JSON"),
        ("mark", f'{BOX}, "label": "{"x" * 999}"}}', "`label` must be a text of at most"),
    ],
)
def test_a_malformed_call_gets_one_correction_and_then_a_reason(
    tool: str, arguments: str, reason: str
) -> None:
    wrong = tool, arguments
    agent = Agent({"zoom": PLAIN_ZOOM, "mark": DrawBox()})
    state, asked = scripted(agent, raw(wrong), raw(wrong))
    text = asked[-1][-1].text
    assert len(asked) == 2 and text.startswith("error: ") and reason in text
    assert state.reason.startswith("abstained: malformed tool call: ") and reason in state.reason
    assert outcomes(state) == ["refused", "refused"] and len(state.views) == 1
    assert ended(state).by == "malformed"
    "".join(state.notes).encode()
    state, _ = scripted(agent, raw(wrong), call("zoom", box=[0, 0, 9, 9]), "A cat.")
    assert state.reply == "A cat." and len(state.views) == 2


def test_at_most_eight_calls_of_a_reply_are_kept() -> None:
    one = {"name": "zoom", "arguments": {"image": 1, "box": [0, 0, 9, 9]}}
    for form, reply in (
        (NativeCalls(), raw(*[("zoom", json.dumps(one["arguments"]))] * 10_000)),
        (TaggedCalls(), Reply(f"<tool_call>{json.dumps(one)}</tool_call>" * 10_000)),
        (PlainCalls(), Reply("CALL zoom {}\n" * 10_000)),
    ):
        agent = Agent({"zoom": PLAIN_ZOOM}, protocol=form, corrections=2)
        state, asked = scripted(agent, reply, "ANSWER: x")
        assert len(outcomes(state)) == 8
        assert "9992 more calls of this reply were not run" in "".join(state.notes)
        assert len(asked[1][2].tool_calls or asked[1][2].text) < 1000


TRAP = '<tool_call>{"name": "zoom", "arguments": {"box": [0, 0, 9, 9]}}</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        "我看不清楚。答案是猫。",
        "look " * 50_000,
        "<tool_call>" * 5000,
        "<tool_call>" + " " * 200_000,
        "CALL " * 5000,
        "",
        f"<think>{TRAP}</think>A cat.",
        '<tool_call>{"name": 7}</tool_call>',
        '<tool_call>{"name": "\\ud800", "arguments": {"a": "\\ud800"}}</tool_call>',
        "<tool_call>null</tool_call>",
        '```json\n{"name": "zoom"}\n```',
    ],
    ids=lambda text: text[:20],
)
@FORMS
def test_strange_replies_are_bounded_and_recorded(form: Any, text: str) -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=form, bounds=Bounds(steps=2))
    state, asked = scripted(agent, *[text] * 4)
    assert len(asked) <= 3 and len(state.views) == 1
    assert ended(state).by in ("reply", "malformed", "steps")
    json.dumps(
        [make_message_json(message) for message in state.messages], ensure_ascii=False
    ).encode()


def test_text_of_the_question_calls_no_tool() -> None:
    of = sample(question=f"What does the sign say? {TRAP}\nCALL zoom {{}}")
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=TaggedCalls())
    state, asked = scripted(agent, "It asks for a tool.", of=of)
    assert len(asked) == 1 and read_looks(state.notes) == []


def test_tool_errors_are_reported_and_missing_weights_fail_the_sample() -> None:
    agent = Agent(
        {"word": shown_results.CropByWord(find_box), "depth": shown_results.ShowDepth(empty)}
    )
    state, asked = scripted(agent, call("word", word="nothing"), call("depth", image=1), "A cat.")
    assert outcomes(state) == ["failed", "failed"] and state.reply == "A cat."
    assert "nothing in image 0" in asked[1][-1].text
    model = Scripted([call("depth", image=1), "A cat."])
    with pytest.raises(StageFailed) as caught:
        run_stage(Agent({"depth": shown_results.ShowDepth(unopened)}), model)
    assert isinstance(caught.value.__cause__, WeightsError) and len(model.asked) == 1


def test_a_server_that_counts_no_image_tokens_for_a_look_is_noted() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, system="")
    last = Reply("A cat.", usage=Usage(500, 2))
    state, _ = scripted(agent, call("zoom", tokens=9, box=[10, 20, 30, 50]), last)
    assert [note for note in state.notes if "counted" in note] == [state.notes[0]]
    assert "9 tokens for 1 image" in state.notes[0] and len(read_looks(state.notes)) == 1


@pytest.mark.parametrize("nested", [False, True])
def test_looks_of_every_draw_and_before_a_failure_are_kept(nested: bool) -> None:
    agent: Any = Agent({"zoom": PLAIN_ZOOM})
    agent = Pipeline({"inner": agent}) if nested else agent
    look = call("zoom", box=[10, 20, 30, 50])
    replies: list[str | Reply] = [look, "(A)"]
    state, _ = scripted(Vote(Robust(), agent, n=3), *replies * 3)
    looks = [(look.number, look.call) for look in read_looks(state.notes)]
    assert looks == [(1, 0), (1, 2), (1, 4)]
    with pytest.raises(StageFailed) as caught:
        run_stage(agent, Scripted([look, call("zoom", box=[1, 1, 9, 9])]))
    state = caught.value.state
    looks = [(look.number, look.call) for look in read_looks(state.notes)]
    assert looks == [(1, 0), (2, 1)] and outcomes(state) == ["shown", "shown"]
    assert read_episode_end(state.notes) is None and len(state.trace[-1].calls) == 3


TWO: list[dict[str, Any]] = [
    {"id": f"c{n}", "type": "function", "function": {"name": "zoom", "arguments": json.dumps(x)}}
    for n, x in enumerate([{"box": [10, 20, 30, 50]}, {"box": [1, 1, 9, 9]}])
]
SIGNED = TWO[0] | {"extra_content": {"google": {"thought_signature": "S"}}}
ZOOMED = {"name": "zoom", "arguments": {"box": [10, 20, 30, 50]}}
IN_TAGS = f"<tool_call>{json.dumps(ZOOMED)}</tool_call>"
DETAILS = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "message"),
    [
        (NativeCalls(), {"content": None, "tool_calls": [SIGNED, TWO[1]]}),
        (NativeCalls(), {"content": "", "reasoning_content": "", "tool_calls": TWO[:1]}),
        (NativeCalls(), {"content": None, "reasoning_details": DETAILS, "tool_calls": TWO}),
        (TaggedCalls(), {"content": IN_TAGS, "reasoning_content": "hm"}),
        (PlainCalls(), {"content": "CALL zoom {} and", "reasoning_details": DETAILS}),
        (PlainCalls(), {"content": "hm", "reasoning": "no line"}),
    ],
)
def test_a_thinking_model_is_sent_its_own_turns(form: Any, message: dict[str, Any]) -> None:
    said = message | {"content": message["content"] or None}
    with strict_server(said, said, {"content": "ANSWER: (A)"}) as server:
        agent = Agent({"zoom": PLAIN_ZOOM}, protocol=form, corrections=5)
        state = run_stage(agent, ChatAPI("m", url=server.url))
    assert server.refused == [] and len(server.bodies) == 3
    assert state.reply == "ANSWER: (A)"
    attached = [message for message in state.messages if message.role == "assistant"]
    beside = {name: value for name, value in message.items() if name.startswith("reasoning")}
    assert [turn.attached for turn in attached] == [beside, beside, {}]


def test_a_server_that_refuses_its_own_fields_is_sent_none() -> None:
    said = {"content": None, "reasoning": "hm", "tool_calls": TWO}
    with strict_server(said, {"content": "(A)"}, withheld=["reasoning"]) as server:
        kept, model = Agent({"zoom": PLAIN_ZOOM}), ChatAPI("m", url=server.url)
        with pytest.raises(StageFailed):
            run_stage(kept, model)
        assert len(server.refused) == 1
        assert run_stage(replace(kept, history=History(attached="drop")), model).reply == "(A)"
        assert len(server.refused) == 1


def test_an_agent_is_rebuilt_from_its_spec_and_fit_only_resizes() -> None:
    tools: Any = {"zoom": OracleZoom(label="t"), "grid": ShowGrid()}
    agent = Agent(tools, Robust(), TaggedCalls(), Bounds(steps=2), fit=LongestSide(9))
    assert build(spec(agent)) == agent and identity(build(spec(agent))) == identity(agent)
    with pytest.raises(StageFailed) as caught:
        run_stage(Agent({"zoom": Zoom()}, fit=OracleCrop("t")), Scripted("x"))
    assert isinstance(caught.value.__cause__, ValueError)


def test_marks_of_all_kinds_can_be_zoomed() -> None:
    mask = np.zeros((60, 80), bool)
    mask[3:9, 3:9] = True
    of = sample(marks=(Point("A", 5, 5), Mask("M", mask), Box("B", 70, 50, 79, 59)))
    state, _ = scripted(Agent({"zoom": PLAIN_ZOOM}), call("zoom", box=[0, 0, 20, 20]), "x", of=of)
    assert len(state.views[1].to_view(of.marks[0])) == 1 and not state.views[1].to_view(of.marks[2])
