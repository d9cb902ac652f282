"""The agent: what it sends, what it runs, what stops it, and that nothing a model writes can do
more than that."""

import json
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

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
    message_json,
)
from looktwice.pipelines.models import ChatAPI, Scripted
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import Pipeline, StageFailed
from looktwice.pipelines.runtime.networks import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.transforms import turned_size
from looktwice.prompting.agent import (
    Agent,
    AgentTool,
    Answer,
    ApplyStage,
    Arguments,
    Bounds,
    Contrast,
    CropByWord,
    DrawBox,
    DrawPoint,
    Magnify,
    Measure,
    NativeCalls,
    OracleZoom,
    PlainCalls,
    Rotate,
    ShowDepth,
    ShowGrid,
    ShowMatches,
    ShowSegments,
    TaggedCalls,
    ToolResult,
    Undo,
    Zoom,
    ZoomOnFaces,
    tool as tool_file,
)
from looktwice.prompting.agent.agent import FINAL
from looktwice.prompting.agent.looks import EpisodeEnd, Look, read_end, read_looks
from looktwice.prompting.agent.tool import describe_tool
from looktwice.prompting.controls import OracleCrop
from looktwice.prompting.turns import History, Vote
from looktwice.prompting.views import Concatenate, Crop, LongestSide
from looktwice.specialists.results import Boxes, DepthMap, Masks, Matches
from tests.chat_server import chat_server
from tests.prompting.scenes import Heard, table
from tests.strict_server import strict_server

CASES = table("agent/agent.yaml")
PLAIN_ZOOM = Zoom(crop=Crop(padding=0, min_px=1))
FORMS = pytest.mark.parametrize(
    "form", [NativeCalls(), TaggedCalls(), PlainCalls()], ids=lambda form: type(form).__name__
)


def pixels(width: int = 80, height: int = 60) -> Pixels:
    """Every pixel says where it is: red is its column, green its row."""
    ys, xs = np.mgrid[:height, :width]
    return np.dstack([xs, ys, np.full_like(xs, 200)]).astype(np.uint8)


def sample(*images: Pixels, **more: Any) -> Sample:
    return Sample(
        "s", more.pop("question", "What is it?"), tuple(map(Picture, images or (pixels(),))), **more
    )


def call(
    name: str,
    words: str = "",
    id: str = "c",
    tokens: int = 0,
    seconds: float = 0.0,
    **arguments: Any,
) -> Reply:
    calls = (ToolCall(id, name, json.dumps(arguments)),)
    return Reply(words, "tool", tool_calls=calls, usage=Usage(tokens, 0), seconds=seconds)


def raw(*calls: tuple[str, str]) -> Reply:
    return Reply(
        "", "tool", tool_calls=tuple(ToolCall(f"c{n}", *each) for n, each in enumerate(calls))
    )


def ran(agent: Stage, model: Model, of: Sample | None = None) -> State:
    return Pipeline({"agent": agent})(State.start(of or sample()), model)


def scripted(
    agent: Stage, *replies: str | Reply, of: Sample | None = None
) -> tuple[State, list[Any]]:
    model = Scripted(list(replies))
    return ran(agent, model, of), model.asked


def seen(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """Messages as tuples: the role, texts as they are, views as (width, height), calls as (name,
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
    end = read_end(state.notes)
    assert end is not None
    return end


# What is sent


def test_native_calls_are_answered_in_the_tools_turn_and_images_in_a_users() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, system="Look.")
    state, asked = scripted(agent, call("zoom", "Closer.", box=[10, 20, 30, 50]), "It is a cat.")
    assert seen(asked[0]) == [
        ("system", "Look."),
        ("user", "Image 1 (80 x 60 pixels):", (80, 60), "What is it?"),
    ]
    assert seen(asked[1])[2:] == [
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
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=NativeCalls(images_as="tool"), coordinates="0-1")
    _, asked = scripted(agent, call("zoom", box=[0, 0, 0.5, 0.5]), "x")
    assert seen(asked[1])[-1] == ("tool", "Image 2:", (40, 30))


def test_tagged_calls_are_told_and_read_in_words() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=TaggedCalls(), coordinates="0-1000", system="")
    sentence = (
        'Hm.\n<tool_call>\n{"name": "zoom", "arguments": {"bbox_2d": [0, 0, 500,'
        " 500]}}\n</tool_call>"
    )
    state, asked = scripted(agent, sentence, "A cat.")
    system = asked[0][0].text
    told = json.loads(system.partition("<tools>\n")[2].partition("\n</tools>")[0])
    assert told == {
        "name": "zoom",
        "description": PLAIN_ZOOM.description,
        "parameters": dict(describe_tool("zoom", PLAIN_ZOOM, "0-1000").parameters),
    }
    assert "thousandths" in told["parameters"]["properties"]["box"]["description"]
    assert seen(asked[1])[2:] == [
        ("assistant", sentence),
        ("user", "<tool_response>", "Image 2:", (40, 30), "</tool_response>"),
    ]
    assert state.reply == "A cat."


def test_plain_lines_ask_and_answer_and_nothing_else_does() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, protocol=PlainCalls())
    state, asked = scripted(
        agent, 'CALL zoom {"box": [0, 0, 40, 30]}', "It is a cat.", "ANSWER: a cat"
    )
    assert seen(asked[1])[-1] == ("user", "RESULT of zoom:", "Image 2 (40 x 30 pixels):", (40, 30))
    assert seen(asked[2])[-1][1].startswith("error: the reply has neither a line")
    assert state.reply == "ANSWER: a cat" and outcomes(state) == ["shown", "refused"]


@pytest.mark.parametrize(
    "left",
    [
        '<tool_call>{"name": "zoom", "arguments": {"box": [10, 20, 30, 50]}}</tool_call>',
        "<function=zoom>\n<parameter=box>\n[10, 20, 30, 50]\n</parameter>\n</function>",
        '[TOOL_CALLS]zoom[ARGS]{"box": [10, 20, 30, 50]}',
        '{"name": "zoom", "parameters": {"box": [10, 20, 30, 50]}}',
        "[zoom(box=[10, 20, 30, 50])]",
        "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary"
        ' to=functions.zoom <|constrain|>json<|message|>{"box": [10, 20, 30, 50]}<|call|>',
    ],
)
def test_a_call_that_the_server_leaves_as_text_is_run(left: str) -> None:
    state, asked = scripted(Agent({"zoom": PLAIN_ZOOM}), f"<think>Hm.</think>{left}", "A cat.")
    assert outcomes(state) == ["shown"] and state.reply == "A cat."
    assert [view.size for view in state.views] == [(80, 60), (20, 30)]
    turn = next(turn for turn in asked[1] if turn.role == "assistant")
    assert [(call.name, json.loads(call.arguments)) for call in turn.tool_calls] == [
        ("zoom", {"box": [10, 20, 30, 50]})
    ]
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


def test_a_box_that_is_cut_to_its_image_is_told_to_the_model_and_noted() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM})
    boxes: list[dict[str, Any]] = [{"box": [-20, 10, 40, 30]}, {"box": [0, 0, 40, 20], "image": 1}]
    state, asked = scripted(agent, *(call("zoom", **box) for box in boxes), "A cat.")
    told = [["reaches beyond image 1, which" in turn.text for turn in turns] for turns in asked]
    assert [sum(turns) for turns in told] == [0, 1, 1]
    assert [view.size for view in state.views[1:]] == [(40, 20), (40, 20)]
    first, second = read_looks(state.notes)
    assert "reaches beyond image 1" in first.reason and not second.reason


def test_the_model_is_offered_tools_with_their_schemas() -> None:
    model = Heard("x")
    tools: dict[str, AgentTool] = {"zoom": Zoom(), "undo": Undo()}
    ran(Agent(tools, options=CallOptions(temperature=0.5), coordinates="0-1"), model)
    ((*_, options),) = model.calls
    told = options.tools or ()
    assert options.temperature == 0.5 and [tool.name for tool in told] == ["zoom", "undo"]
    box = told[0].parameters["properties"]["box"]
    four = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
    assert box.items() >= four.items()
    assert "from 0 to 1" in box["description"] and told[0].parameters["required"] == ["box"]
    json.dumps(told[1].parameters)


def test_history_can_drop_the_images_of_earlier_turns() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, history=History(images="latest"))
    _, asked = scripted(
        agent, call("zoom", box=[0, 0, 9, 9]), call("zoom", image=1, box=[0, 0, 5, 5]), "x"
    )
    shown = [part for m in asked[2] for part in m.parts if not isinstance(part, str)]
    assert [view.size for view in shown] == [(5, 5)]


def test_a_probe_asks_beside_the_conversation() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, probe="What now?", system="")
    state, asked = scripted(agent, "maybe A", call("zoom", box=[0, 0, 9, 9]), "maybe B", "B")
    assert asked[0][-1].text.endswith("What is it?\nWhat now?")
    assert asked[2][-1].text.endswith("What now?") and state.reply == "B"
    assert "What now?" not in "".join(message.text for message in asked[3])
    assert [(look.probe, look.call) for look in read_looks(state.notes)] == [(0, 1)]


# Places


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["pixels", "0-1", "0-1000"]),
    st.tuples(st.floats(0, 0.8), st.floats(0, 0.8), st.floats(0.1, 0.5), st.floats(0.1, 0.5)),
    st.sampled_from([None, 40, 113]),
)
def test_a_box_reaches_the_source_through_what_was_shown(
    frame: Any, box: tuple[float, ...], longest: int | None
) -> None:
    """The zoom is cut from the source at its own size, wherever the box lies in the image that the
    model was sent."""
    x, y, w, h = box
    shares = [x, y, min(1, x + w), min(1, y + h)]
    fit = None if longest is None else LongestSide(longest, grow=True)
    shown = LongestSide(longest, grow=True).size(200, 150) if longest else (200, 150)
    times = {"pixels": shown * 2, "0-1": (1, 1, 1, 1), "0-1000": (1000,) * 4}[frame]
    agent = Agent({"zoom": PLAIN_ZOOM}, coordinates=frame, fit=fit)
    boxed = call("zoom", box=[share * time for share, time in zip(shares, times, strict=True)])
    state, _ = scripted(agent, boxed, "x", of=sample(pixels(200, 150)))
    region = read_looks(state.notes)[0].regions[0]
    wanted = [share * side for share, side in zip(shares, (200, 150, 200, 150), strict=True)]
    assert np.abs(np.subtract(region[1:], wanted)).max() <= 1.01


def test_places_ride_through_crops_turns_and_joined_views() -> None:
    two = sample(pixels(80, 60), pixels(80, 60)[:, ::-1])
    agent = Agent({"zoom": PLAIN_ZOOM, "turn": Rotate()})
    first, last = call("zoom", box=[100, 10, 130, 50]), call("zoom", box=[0, 0, 10, 20])
    joined = Pipeline({"join": Concatenate(margin=10), "agent": agent})
    state = joined(State.start(two), Scripted([first, call("turn", degrees=180), last, "x"]))
    regions = [look.regions for look in read_looks(state.notes)]
    assert regions[0] == ((1, 10, 10, 40, 50),)
    assert regions[1] == ((),)  # turned, it shows the same
    assert regions[2] == ((1, 30, 30, 40, 50),)


def test_a_choice_that_is_a_picture_can_be_zoomed_though_it_is_no_source() -> None:
    state = State.start(sample())
    extra = replace(state.views[0], parts=())
    agent = Pipeline({"agent": Agent({"zoom": PLAIN_ZOOM})})
    after = agent(
        state.replace(views=(*state.views, extra)),
        Scripted([call("zoom", image=2, box=[0, 0, 9, 9]), "x"]),
    )
    assert after.views[2].size == (9, 9) and read_looks(after.notes)[0].regions == ((),)


# Tools


def finds(pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
    """One box, whatever the word, except "nothing"."""
    count = 0 if words == ("nothing",) else 1
    return Boxes(np.array([[10, 10, 30, 40]] * count), np.ones(count), np.array(["it"] * count))


def ramp(image: Pixels, /, *others: Pixels) -> DepthMap:
    return DepthMap(np.tile(np.arange(image.shape[1], dtype=float), (image.shape[0], 1)), True)


def empty(image: Pixels, /, *others: Pixels) -> DepthMap:
    return DepthMap(np.full(image.shape[:2], math.nan), True)


def unopened(image: Pixels, /, *others: Pixels) -> DepthMap:
    raise WeightsError("there is no folder 'depth'")


def halves(pixels: Pixels, /) -> Masks:
    left = np.zeros(pixels.shape[:2], bool)
    left[:, : pixels.shape[1] // 2] = True
    return Masks(np.array([left, ~left]), np.ones(2), np.array(["", ""]))


def same(pixels0: Pixels, pixels1: Pixels, /) -> Matches:
    xy = np.array([[10, 10], [40, 30], [60, 50]])
    return Matches(xy, xy, np.ones(3))


TOOLS: dict[str, tuple[Any, dict[str, Any], tuple[int, int], str]] = {
    "zoom": (Zoom(), {"box": [0, 0, 40, 30]}, (512, 384), ""),
    "magnify": (Magnify(), {"point": [79, 0], "factor": 4}, (80, 60), ""),
    "box": (DrawBox(), {"box": [20, 20, 50, 50], "label": "A"}, (80, 60), ""),
    "point": (DrawPoint(), {"point": [40, 40], "label": "B"}, (80, 60), ""),
    "grid": (ShowGrid(), {}, (80, 60), ""),
    "rotate": (Rotate(), {"degrees": 90}, (60, 80), "turned by 90"),
    "contrast": (Contrast(), {}, (80, 60), ""),
    "word": (CropByWord(finds, crop=Crop(padding=0, min_px=1)), {"word": "dog"}, (20, 30), ""),
    "faces": (ZoomOnFaces(finds, crop=Crop(padding=0, min_px=1)), {}, (20, 30), ""),
    "depth": (ShowDepth(ramp), {}, (80, 60), ""),
    "segment": (ShowSegments(halves), {}, (80, 60), ""),
    "match": (ShowMatches(same), {}, (170, 60), ""),
    "apply": (ApplyStage(LongestSide(40), "Shows it smaller."), {}, (40, 30), ""),
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_a_stage_on_a_view(name: str) -> None:
    tool, arguments, size, words = TOOLS[name]
    wanted = call(name, **arguments) if name == "match" else call(name, image=1, **arguments)
    state, asked = scripted(Agent({name: tool}), wanted, "x", of=sample(pixels(), pixels() // 2))
    look = read_looks(state.notes)[0]
    assert (look.outcome, look.reason) == ("shown", "")
    assert state.views[2].size == size and state.views[2].parts and words in asked[1][-2].text
    assert not np.array_equal(state.views[2].pixels, state.views[0].pixels)


def test_measure_speaks_of_the_image_at_its_full_size() -> None:
    agent = Agent({"measure": Measure()}, fit=LongestSide(40), coordinates="0-1")
    state, asked = scripted(agent, call("measure", start=[0.25, 0.5], end=[0.75, 0.5]), "x")
    assert asked[1][-1].text.startswith(
        "40.0 pixels, 50.0 % of the width of image 1; direction 0.0 degrees"
    )
    assert read_looks(state.notes)[0].outcome == "said" and len(state.views) == 1


def test_turning_over_and_over_does_not_fill_the_memory() -> None:
    bounds, fit = Bounds(steps=12), LongestSide(40)
    turns = [call("rotate", degrees=45 - n / 10) for n in range(8)]
    state, _ = scripted(
        Agent({"rotate": Rotate()}, bounds=bounds, fit=fit),
        *turns,
        "x",
        of=sample(pixels(1200, 1200)),
    )
    looks = read_looks(state.notes)
    assert [look.outcome for look in looks] == ["shown"] * 4 + ["failed"] * 4
    assert looks[-1].reason.endswith("turn an earlier image, or a part of it")
    assert turned_size((80, 60), 90) == (60, 80) and turned_size((80, 60), -180) == (80, 60)


def test_undo_withdraws_the_last_image() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM, "undo": Undo()})
    first, second = call("zoom", box=[0, 0, 9, 9]), call("zoom", image=2, box=[0, 0, 5, 5])
    state, asked = scripted(agent, first, call("undo"), second, call("undo"), "x")
    assert all(view.size != (9, 9) for message in asked[2] for view in message.views)
    assert [(look.outcome, look.reason) for look in read_looks(state.notes)][1:] == [
        ("said", "image 2 is taken back"),
        ("refused", "there is no image 2; there are 1"),
        ("failed", "no tool has shown an image that could be taken back"),
    ]


def test_the_answer_tool_is_read_by_the_agents_reader() -> None:
    agent = Agent({"answer": Answer()}, reader=Robust())
    state, _ = scripted(agent, call("answer", text="It is (B)."), of=sample(choices=("cat", "dog")))
    assert (state.answer, state.reason, ended(state).by) == ("B", "", "answer")
    state, _ = scripted(agent, call("answer", text="Who knows"), of=sample(choices=("cat", "dog")))
    assert state.answer is None and state.reason


def test_the_controls_look_like_the_zoom_and_show_another_place() -> None:
    truth = Box("target", 60, 40, 80, 60)
    of = sample(pixels(), marks=(truth,), meta={"region": "target"})
    crop = Crop(padding=0, min_px=1)
    asked_for = [5.0, 5.0, 25.0, 25.0]
    regions, plain = {}, Zoom(crop=crop)
    placebo, oracle = Zoom(crop=crop, elsewhere=True), OracleZoom(crop=crop)
    tools: dict[str, AgentTool] = {"zoom": plain, "placebo": placebo, "oracle": oracle}
    for name, tool in tools.items():
        assert describe_tool("zoom", tool, "pixels") == describe_tool("zoom", Zoom(), "pixels")
        state, _ = scripted(Agent({"zoom": tool}), call("zoom", box=asked_for), "x", of=of)
        regions[name] = read_looks(state.notes)[0].regions[0][1:]
    assert regions["zoom"] == tuple(asked_for) and regions["oracle"] == truth.xyxy
    x0, y0, x1, y1 = regions["placebo"]
    assert (x1 - x0, y1 - y0) == (20, 20) and (x0 >= 25 or y0 >= 25)


def test_an_oracle_finds_the_region_in_whichever_image_shows_it() -> None:
    of = sample(pixels(), pixels() // 2, marks=(Box("t", 0, 0, 10, 10, 1),), meta={"region": "t"})
    state, _ = scripted(
        Agent({"zoom": OracleZoom(crop=Crop(padding=0, min_px=1))}),
        call("zoom", box=[9, 9, 20, 20], image=1),
        "x",
        of=of,
    )
    assert read_looks(state.notes)[0].regions == ((1, 0, 0, 10, 10),)


def test_the_tool_that_the_documentation_shows_works_from_a_file_of_ones_own(
    tmp_path: Path,
) -> None:
    example = re.findall(r"(?:^(?: {4}.*)?\n)+", tool_file.__doc__ or "", re.M)
    code = textwrap.dedent(max(example, key=len))
    imports = (
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "import numpy as np\nfrom pydantic import Field\n"
        "from looktwice.pipelines.state import State\n"
        "from looktwice.prompting.agent import Arguments, ImageArguments, ToolResult\n"
    )
    (tmp_path / "my_tools.py").write_text(imports + code, encoding="utf-8")
    plugin = load_plugin(str(tmp_path / "my_tools.py"))
    agent = build(
        {"use": "prompting.agent.Agent", "tools": {"dark": {"use": "my_tools.Darken"}}},
        Scope(plugins=(plugin,)),
    )
    state, _ = scripted(agent, call("dark", factor=4), "x")
    assert state.views[1].pixels.max() == 50


# Bounds


BOUNDS: dict[str, tuple[Bounds, int]] = {
    "steps": (Bounds(steps=3), 3),
    "images": (Bounds(images=2), 2),
    "megapixels": (Bounds(megapixels=0.0025), 3),
    "tokens": (Bounds(tokens=250), 3),
    "seconds": (Bounds(seconds=3.5), 4),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_each_bound_stops_the_loop_and_forces_an_answer(name: str) -> None:
    bounds, looks = BOUNDS[name]
    script = [
        call("zoom", image=1, box=[0, 0, 30, 30 - n], tokens=100, seconds=1.0) for n in range(looks)
    ]
    state, asked = scripted(Agent({"zoom": PLAIN_ZOOM}, bounds=bounds), *script, Reply("A cat."))
    last = asked[-1][-1]
    assert len(asked) == looks + 1 and last.role == "user" and last.text.endswith(FINAL)
    assert ended(state).by == name and state.reply == "A cat." and not state.ended


def test_without_steps_there_are_no_tools_and_a_call_for_the_answer_is_an_abstention() -> None:
    state, asked = scripted(Agent({"zoom": Zoom()}, bounds=Bounds(steps=0)), "A cat.")
    assert [message.role for message in asked[0]] == ["user"] and state.reply == "A cat."
    agent = Agent({"zoom": PLAIN_ZOOM}, bounds=Bounds(steps=1))
    state, _ = scripted(agent, call("zoom", box=[0, 0, 9, 9]), call("zoom", box=[0, 0, 5, 5]))
    assert (
        state.reason == "abstained: it called zoom where it had to answer (steps used up)"
        and len(state.views) == 2
    )
    agent = Agent({"zoom": PLAIN_ZOOM, "answer": Answer()}, reader=Marked(), bounds=Bounds(steps=0))
    state, _ = scripted(agent, call("answer", text="Answer: cat"))
    assert (state.answer, ended(state).by) == ("cat", "steps")


def test_images_that_a_bound_leaves_no_room_for_are_not_shown() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, bounds=Bounds(images=2))
    calls = raw(*(("zoom", json.dumps({"image": 1, "box": [0, 0, 10 + n, 10]})) for n in range(4)))
    state, asked = scripted(agent, calls, "x")
    assert outcomes(state) == ["shown", "shown", "bound", "bound"]
    assert len(state.views) == 3 and "not shown" in asked[1][-2].text


def test_the_same_call_is_not_run_twice() -> None:
    twice = [call("zoom", image=1, box=[0, 0, 9, 9])] * 2
    state, asked = scripted(Agent({"zoom": PLAIN_ZOOM}), *twice, "x")
    assert outcomes(state) == ["shown", "repeated"] and len(state.views) == 2
    assert "it brought image 2" in asked[2][-1].text


# Bad input


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


def test_ten_thousand_calls_in_one_reply_are_eight() -> None:
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


@pytest.mark.parametrize(
    "text",
    [
        "我看不清楚。答案是猫。",
        "look " * 50_000,
        "<tool_call>" * 5000,
        "<tool_call>" + " " * 200_000,
        "CALL " * 5000,
        "",
        (
            '<think><tool_call>{"name": "zoom", "arguments": {"box": [0, 0, 9,'
            " 9]}}</tool_call></think>A cat."
        ),
        '<tool_call>{"name": 7}</tool_call>',
        '<tool_call>{"name": "\\ud800", "arguments": {"a": "\\ud800"}}</tool_call>',
        "<tool_call>null</tool_call>",
        '```json\n{"name": "zoom"}\n```',
    ],
    ids=lambda text: text[:20],
)
@FORMS
def test_strange_replies_are_bounded_and_recorded(form: Any, text: str) -> None:
    state, asked = scripted(
        Agent({"zoom": PLAIN_ZOOM}, protocol=form, bounds=Bounds(steps=2)), *[text] * 4
    )
    assert len(asked) <= 3 and len(state.views) == 1
    assert ended(state).by in ("reply", "malformed", "steps")
    json.dumps([message_json(message) for message in state.messages], ensure_ascii=False).encode()


def test_words_of_the_question_and_of_tools_call_nothing() -> None:
    trap = '<tool_call>{"name": "zoom", "arguments": {"box": [0, 0, 9, 9]}}</tool_call>'
    of = sample(question=f"What does the sign say? {trap}\nCALL zoom {{}}")
    state, asked = scripted(
        Agent({"zoom": PLAIN_ZOOM}, protocol=TaggedCalls()), "It asks for a tool.", of=of
    )
    assert len(asked) == 1 and read_looks(state.notes) == []


def test_what_a_tool_cannot_do_is_told_and_no_correction() -> None:
    agent = Agent({"word": CropByWord(finds), "depth": ShowDepth(empty)})
    state, asked = scripted(agent, call("word", word="nothing"), call("depth", image=1), "A cat.")
    assert outcomes(state) == ["failed", "failed"] and state.reply == "A cat."
    assert "no box for nothing in image 0" in asked[1][-1].text


def test_a_tool_whose_weights_are_missing_fails_the_sample_and_is_not_told_to_the_model() -> None:
    model = Scripted([call("depth", image=1), "A cat."])
    with pytest.raises(StageFailed) as caught:
        ran(Agent({"depth": ShowDepth(unopened)}), model)
    assert isinstance(caught.value.__cause__, WeightsError) and len(model.asked) == 1


def test_a_server_that_counts_no_image_of_a_look_is_noted() -> None:
    agent = Agent({"zoom": PLAIN_ZOOM}, system="")
    last = Reply("A cat.", usage=Usage(500, 2))
    state, _ = scripted(agent, call("zoom", tokens=9, box=[10, 20, 30, 50]), last)
    assert (
        state.notes[0].startswith("the server counted 9 tokens for 1 image and ")
        and len(read_looks(state.notes)) == 1
    )
    assert sum("counted" in note for note in state.notes) == 1


@pytest.mark.parametrize("nested", [False, True])
def test_every_draw_of_a_vote_keeps_its_looks(nested: bool) -> None:
    agent: Any = Agent({"zoom": PLAIN_ZOOM})
    replies: list[str | Reply] = [call("zoom", box=[10, 20, 30, 50]), "(A)"]
    voted = Vote(Robust(), Pipeline({"inner": agent}) if nested else agent, n=3)
    state, _ = scripted(voted, *replies * 3)
    looks = [(look.number, look.call) for look in read_looks(state.notes)]
    assert looks == [(1, 0), (1, 2), (1, 4)]


@pytest.mark.parametrize("nested", [False, True])
def test_looks_before_a_failure_are_kept(nested: bool) -> None:
    agent: Any = Agent({"zoom": PLAIN_ZOOM})
    model = Scripted([call("zoom", box=[10, 20, 30, 50]), call("zoom", box=[1, 1, 9, 9])])
    with pytest.raises(StageFailed) as caught:
        ran(Pipeline({"inner": agent}) if nested else agent, model)
    notes = caught.value.state.notes
    looks = [(look.number, look.call, look.outcome) for look in read_looks(notes)]
    assert looks == [(1, 0, "shown"), (2, 1, "shown")]
    assert read_end(notes) is None and len(caught.value.state.trace[-1].calls) == 3


# A real server


@dataclass(frozen=True)
class Numbered:
    """What the test server asks for: zoom {"x": 1}."""

    picture: bool
    description: str = "Shows column x."
    arguments: ClassVar[type[Arguments]] = type("X", (Arguments,), {"__annotations__": {"x": int}})

    def __call__(self, state: State, arguments: Any) -> ToolResult:
        view = state.views[0]
        return ToolResult("column", (view.with_pixels(view.pixels // 2),) if self.picture else ())


def test_over_http_the_whole_conversation_is_on_the_wire(tmp_path: Path) -> None:
    of = sample(question="What is it? #tool")
    with chat_server(tmp_path / "log.jsonl") as server:
        agent = Agent({"zoom": Numbered(True)}, system="Look.")
        state = ran(agent, ChatAPI("m", url=server.url), of)
        first, second = server.bodies
    assert [tool["function"]["name"] for tool in first["tools"]] == ["zoom"]
    assert len(first["messages"]) == 2
    system, user, assistant, tool, image = second["messages"]
    assert (system["content"], user["content"][-1]["text"]) == ("Look.", "What is it? #tool")
    assert assistant["tool_calls"][0]["function"] == {"name": "zoom", "arguments": '{"x": 1}'}
    words = "column\nImage 2 (80 x 60 pixels):"
    assert tool == {"role": "tool", "tool_call_id": "call_7", "content": words}
    assert [part["type"] for part in image["content"]] == ["text", "image_url"]
    assert state.reply in ("(A)", "(B)", "(C)", "(D)") and ended(state).tokens == 214


def test_over_http_bounds_stop_a_model_that_never_stops(tmp_path: Path) -> None:
    """This server looks at no image and calls for the same forever."""
    of = sample(question="What is it? #tool")
    with chat_server(tmp_path / "log.jsonl") as server:
        model = ChatAPI("m", url=server.url)
        state = ran(Agent({"zoom": Numbered(False)}, bounds=Bounds(steps=3)), model, of)
        assert server.stats["requests"] == 4 and "tools" not in server.bodies[-1]
        wrong = ran(Agent({"zoom": PLAIN_ZOOM}), model, of)
        assert server.stats["requests"] == 6
    assert ended(state).by == "steps" and state.reply.startswith("(")
    assert wrong.reason.startswith("abstained: malformed tool call: `box` is missing")


TWO: list[dict[str, Any]] = [
    {"id": f"c{n}", "type": "function", "function": {"name": "zoom", "arguments": json.dumps(x)}}
    for n, x in enumerate([{"box": [10, 20, 30, 50]}, {"box": [1, 1, 9, 9]}])
]
SIGNED = TWO[0] | {"extra_content": {"google": {"thought_signature": "S"}}}
ZOOMED = {"name": "zoom", "arguments": {"box": [10, 20, 30, 50]}}
IN_TAGS = f"<tool_call>{json.dumps(ZOOMED)}</tool_call>"
DETAILS = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]


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
def test_a_thinking_model_gets_its_own_turns_back(form: Any, message: dict[str, Any]) -> None:
    said = message | {"content": message["content"] or None}
    with strict_server(said, said, {"content": "ANSWER: (A)"}) as server:
        agent = Agent({"zoom": PLAIN_ZOOM}, protocol=form, corrections=5)
        state = ran(agent, ChatAPI("m", url=server.url))
    assert server.refused == [] and len(server.bodies) == 3
    assert state.reply == "ANSWER: (A)"
    attached = [message for message in state.messages if message.role == "assistant"]
    beside = {name: value for name, value in message.items() if name.startswith("reasoning")}
    assert [turn.attached for turn in attached] == [beside, beside, {}]


def test_a_server_that_refuses_its_own_fields_is_sent_none() -> None:
    said = {"content": None, "reasoning": "hm", "tool_calls": TWO}
    with strict_server(said, {"content": "(A)"}, withheld=["reasoning"]) as server:
        kept = Agent({"zoom": PLAIN_ZOOM})
        with pytest.raises(StageFailed):
            ran(kept, ChatAPI("m", url=server.url))
        assert len(server.refused) == 1
        dropping = replace(kept, history=History(attached="drop"))
        assert ran(dropping, ChatAPI("m", url=server.url)).reply == "(A)"
        assert len(server.refused) == 1


# Settings


def test_an_agent_is_its_spec() -> None:
    tools: Any = {"zoom": OracleZoom(label="t"), "grid": ShowGrid()}
    agent = Agent(tools, Robust(), TaggedCalls(), Bounds(steps=2), fit=LongestSide(9))
    assert build(spec(agent)) == agent and identity(build(spec(agent))) == identity(agent)


def test_a_fit_that_does_more_than_size_is_refused() -> None:
    with pytest.raises(Exception, match="agent") as caught:
        ran(Agent({"zoom": Zoom()}, fit=OracleCrop("t")), Scripted("x"))
    assert caught.value.__cause__ is not None


# The near-sighted model


def test_marks_of_all_kinds_are_no_trouble_for_a_zoom() -> None:
    mask = np.zeros((60, 80), bool)
    mask[3:9, 3:9] = True
    of = sample(marks=(Point("A", 5, 5), Mask("M", mask), Box("B", 70, 50, 79, 59)))
    state, _ = scripted(Agent({"zoom": PLAIN_ZOOM}), call("zoom", box=[0, 0, 20, 20]), "x", of=of)
    assert len(state.views[1].to_view(of.marks[0])) == 1 and not state.views[1].to_view(of.marks[2])
