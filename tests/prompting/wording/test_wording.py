"""The text sent with the images, and the turn in which it is sent."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.pipelines.config import ConfigError, build
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.spec import identity, spec
from looktwice.pipelines.marks import Mark, Mask, Point, mark_from_dict
from looktwice.pipelines.model import CallOptions, Message, Reply, ToolCall
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.transforms import crop, join_side_by_side, resize
from looktwice.pipelines.view import View
from looktwice.prompting.markers import Circles
from looktwice.prompting.turns import Ask, FewShot, History
from looktwice.prompting.wording import (
    ChainOfThought,
    JsonAnswer,
    MarksAsText,
    MultipleChoice,
    System,
    Template,
    Verbatim,
)
from tests.prompting.scenes import ScriptedReplies, build_stage, table

CASES = table("wording/wording.yaml")


def picture(level: int = 0, width: int = 100, height: int = 50) -> Picture:
    return Picture(np.full((height, width, 3), level, np.uint8))


def start(
    choices: tuple[str | Picture, ...] = ("yes", "no"), marks: tuple[Mark, ...] = (), **meta: Any
) -> State:
    return State.start(Sample("s1", "Is it?", (picture(),), choices, marks, meta))


def write_prompt(stage: Any, *choices: str | Picture, **more: Any) -> str:
    return str(stage(start(choices or ("yes", "no"), **more), NoModel()).prompt)


ANSWER = "Answer with the letter of one choice:"


@pytest.mark.parametrize(("stage", "choices", "lines"), CASES["choices"])
def test_choices_are_lettered_lines(stage: dict[str, Any], choices: list[str], lines: str) -> None:
    assert write_prompt(build_stage(stage), *choices) == f"Is it?\n{lines}"


def test_choices_that_are_pictures_are_shown_and_named() -> None:
    first, second = picture(1), picture(2)
    state = MultipleChoice(instruction="")(start((first, "neither", second)), NoModel())
    assert state.prompt == "Is it?\n(A) image 2\n(B) neither\n(C) image 3"
    assert [view.picture for view in state.views[1:]] == [first, second]
    # no source image of the sample, so marks are not visible on it
    assert state.views[1].to_view(Point("A", 1, 1)) == ()


def test_an_open_question_among_others_requests_a_short_answer() -> None:
    answer = "Answer with a single word, number or phrase."
    asks = {answer: MultipleChoice(), "Brief!": MultipleChoice(open="Brief!")}
    asks[""] = MultipleChoice(open="")
    for text, choose in asks.items():
        assert choose(start(()), NoModel()).prompt == f"Is it?\n{text}".strip()


@pytest.mark.parametrize(("frame", "mark", "line"), CASES["marks"])
def test_marks_are_described_in_the_requested_frame(
    frame: Any, mark: dict[str, Any], line: str
) -> None:
    state = MarksAsText(frame)(start(marks=(mark_from_dict(mark),)), NoModel())
    first, second, third = state.prompt.split("\n")
    assert (first, third) == ("Is it?", line)
    assert ("pixels" if frame == "pixels" else "thousandths") in second


def test_marks_are_described_where_they_are_shown() -> None:
    state = start(marks=(Point("A", 25, 10), Point("B", 75, 40)))
    view = state.views[0]
    views = (
        resize(view, 200, 100),
        crop(view, 0, 0, 50, 50),
        join_side_by_side([view, view], margin=10),
    )
    lines = MarksAsText()(state.replace(views=views), NoModel()).prompt.split("\n")[2:]
    assert lines == [
        "A: x=50, y=20 in image 1",
        "A: x=25, y=10 in image 2",
        "A: x=25, y=10 in image 3",
        "A: x=135, y=10 in image 3",
        "B: x=150, y=80 in image 1",
        "B: x=75, y=40 in image 3",
        "B: x=185, y=40 in image 3",
    ]


def test_given_text_is_unchanged() -> None:
    text = "Look at it.\n\n(A) yes\n(B) no\n"
    assert write_prompt(Verbatim(), prompt=text) == text
    assert write_prompt(MarksAsText()) == "Is it?"
    block = np.zeros((50, 100), bool)
    block[10:20, 30:50] = True
    mask = write_prompt(MarksAsText(), marks=(Mask("M", block),))
    assert mask.endswith("\nM: x from 30 to 50, y from 10 to 20 in image 1")
    assert write_prompt(ChainOfThought("Reason first.")) == "Is it?\nReason first."
    assert "step by step" in write_prompt(ChainOfThought())
    both = MultipleChoice()(ChainOfThought("Think.")(start(), NoModel()), NoModel())
    assert both.prompt.startswith("Is it?\nThink.\n(A) yes")


@pytest.mark.parametrize("meta", [{}, {"prompt": ""}, {"prompt": 3, "level": 1}])
def test_a_sample_without_its_own_prompt_reports_its_fields(meta: dict[str, Any]) -> None:
    fields = ", ".join(sorted(meta)) or "none"
    with pytest.raises(ValueError, match=rf"s1 has no field `prompt` \(fields: {fields}\)"):
        Verbatim()(start(**meta), NoModel())


@pytest.mark.parametrize(("ask", "kinds"), CASES["images"])
def test_the_position_of_images(ask: dict[str, Any], kinds: list[str]) -> None:
    model = Scripted("(B)")
    state = build_stage(ask)(start(), model)
    assert [type(part).__name__ for part in model.asked[0][0].parts] == kinds
    assert state.reply == "(B)" and state.answer is None
    assert [m.role for m in state.messages] == ["user", "assistant"]


def test_later_turns_send_the_conversation_and_only_new_content() -> None:
    model = Scripted(["first", "second", "third"])
    state = Ask(system="Be brief.")(start(), model)
    views = (*state.views, crop(state.views[0], 0, 0, 10, 10))
    state = state.replace(views=views, prompt="And now?")
    state = Ask(system="Be brief.", attach="new")(state, model)
    assert [m.role for m in model.asked[1]] == ["system", "user", "assistant", "user"]
    assert model.asked[1][-1].views == state.views[1:]
    assert model.asked[1][2].text == "first"
    state = Ask()(state, model)
    assert len(model.asked[2][-1].views) == 2
    assert state.reply == "third"


def test_a_system_message_opens_a_conversation_once() -> None:
    model = Scripted("ok")
    earlier = (Message("user", ("hi",)), Message("assistant", ("hello",)))
    Ask(system="Be brief.")(start().replace(messages=earlier), model)
    assert [m.role for m in model.asked[0]] == ["system", "user", "assistant", "user"]
    twice = System("Second.")(System("First.")(start(), NoModel()), NoModel())
    state = Ask(system="not this one")(twice, model)
    assert [m.text for m in state.messages] == ["Second.", "Is it?", "ok"]
    assert [m.role for m in state.messages] == ["system", "user", "assistant"]


def test_one_call_with_the_draw_of_the_state_and_the_options_of_the_stage() -> None:
    call = ToolCall("1", "crop", "{}")
    model, options = ScriptedReplies(Reply("", tool_calls=(call,))), CallOptions(temperature=0.7)
    state = Ask(options=options)(replace(start(), draw=3), model)
    assert [call[1:] for call in model.calls] == [(3, options)]
    assert state.messages[-1].tool_calls == (call,)
    with pytest.raises(ValueError, match=r"sample s1 .*nothing to ask"):
        Ask(images="none")(start().replace(prompt=""), Scripted("ok"))


@pytest.mark.parametrize(("stage", "last"), CASES["forms"])
def test_answer_formats(stage: dict[str, Any], last: str) -> None:
    assert write_prompt(build_stage(stage)) == f"Is it?\n{last}"


def test_the_four_steps_without_mentioning_the_grid() -> None:
    _, first, *steps = write_prompt(ChainOfThought(form="steps")).splitlines()
    heads = [step.partition(":")[0] for step in steps]
    assert heads == ["1. Understand", "2. Perceive", "3. Connect", "4. Conclude"]
    assert "grid" not in " ".join([first, *steps])


def test_a_text_file_is_used_verbatim_and_becomes_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "think.txt"
    file.write_bytes("Erst {prompt} sehen,\r\n dann 答え. \n".encode())
    node = {"use": "prompting.wording.ChainOfThought", "text": {"file": "think.txt"}}
    stage = build(node, Scope(tmp_path))
    assert stage(start(), NoModel()).prompt == "Is it?\nErst {prompt} sehen,\n dann 答え. "
    file.write_text("something else")
    assert stage(start(), NoModel()).prompt.endswith("答え. ")
    again = build(spec(stage))
    assert again == stage and identity(again) == identity(stage)
    assert identity(build(node, Scope(tmp_path))) != identity(stage)


def test_unreadable_text_files(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "raw.txt").write_bytes(b"\xff\xfe\x00")
    for name, fact in {"../secret.txt": "outside", "none.txt": "exist", "raw.txt": "UTF-8"}.items():
        node = {"use": "prompting.wording.System", "text": {"file": name}}
        with pytest.raises(ConfigError, match=fact):
            build(node, Scope(tmp_path / "in"))


def test_the_schema_is_sent_with_the_call_and_lists_the_letters() -> None:
    model, form = ScriptedReplies(Reply('{"answer": "B"}')), JsonAnswer()
    Ask(output=form, options=CallOptions(effort="high"))(form(start(), NoModel()), model)
    ((*_, options),) = model.calls
    assert options.effort == "high"
    assert options.schema is not None and options.schema["additionalProperties"] is False
    assert options.schema["required"] == list(options.schema["properties"])
    answer = {"type": "string", "enum": ["A", "B"]}
    assert options.schema["properties"] == {"reasoning": {"type": "string"}, "answer": answer}
    assert "enum" not in form.make_schema(start(()).sample)["properties"]["answer"]


@pytest.mark.parametrize(("text", "prompt"), CASES["templates"])
def test_templates_write_the_prompt(text: str, prompt: str) -> None:
    state = start(marks=(Point("P", 1, 1),), subtask="Relative_Depth")
    assert Template(text)(state, NoModel()).prompt == prompt


def test_a_template_can_write_the_system_message() -> None:
    state = Template("You see {{ images }}.", into="system")(start(), NoModel())
    assert state.prompt == "Is it?"
    assert [(m.role, m.text) for m in state.messages] == [("system", "You see 1.")]


@pytest.mark.parametrize(
    "text",
    [
        *CASES["forbidden"],
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
        "x" * 200_001,
    ],
)
def test_a_forbidden_operation_in_a_template_fails_only_its_sample(text: str) -> None:
    refused = r"sample s1: the template cannot be filled in|is not a valid jinja2 template|at most"
    with pytest.raises(ValueError, match=refused):
        Template(text)(start(subtask="x"), NoModel())


def test_an_invalid_template_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text("{% if %}")
    with pytest.raises(ConfigError, match="not a valid jinja2 template: Expected an expression"):
        build({"use": "prompting.wording.Template", "text": {"file": "t.j2"}}, Scope(tmp_path))


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    rows = []
    for n in range(4):
        cv2.imwrite(str(tmp_path / f"{n}.png"), np.full((20, 20, 3), 40 * n, np.uint8))
        row = {"question": f"Q{n}?", "image": f"{n}.png", "reply": f"I see {n}. (A)"}
        marks = [{"label": "M", "x": 3, "y": 3}]
        rows.append(json.dumps({**row, "choices": ["x", "y"], "marks": marks}))
    (tmp_path / "shots.jsonl").write_text("\n".join(rows))
    return tmp_path / "shots.jsonl"


def test_examples_are_drawn_on_and_worded_like_the_question(examples: Path) -> None:
    choose, mark = MultipleChoice(instruction=""), Circles(radius=4)
    shots = FewShot(examples, n=2, stages=(mark, choose), ask=Ask(images="after"))
    model = Scripted("(B)")
    state = shots(System("Hello.")(start(), NoModel()), NoModel())
    Ask()(choose(state, NoModel()), model)
    (sent,) = model.asked
    assert [m.role for m in sent] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [m.text for m in sent[1:]] == [
        "Q0?\n(A) x\n(B) y",
        "I see 0. (A)",
        "Q1?\n(A) x\n(B) y",
        "I see 1. (A)",
        "Is it?\n(A) yes\n(B) no",
    ]
    assert [len(m.views) for m in sent] == [0, 1, 0, 1, 0, 1]
    assert isinstance(sent[1].parts[0], str)
    assert sent[1].views[0].pixels[3, 7].tolist() != [0, 0, 0]  # the ring


def test_an_example_equal_to_the_question_is_excluded_and_shuffles_are_reproducible(
    examples: Path,
) -> None:
    same = State.start(Sample("s", "Q0?", (Picture.open(examples.parent / "0.png"),), ("x", "y")))
    turns = FewShot(examples, n=3)(same, NoModel()).messages
    assert [m.text for m in turns if m.role == "user"] == ["Q1?", "Q2?", "Q3?"]
    shots = FewShot(examples, n=2, order="shuffled")
    asked = [replace(start().sample, id=f"s{n}") for n in range(12)]

    def orders() -> list[tuple[str, ...]]:
        states = (shots(State.start(sample), NoModel()) for sample in asked)
        return [tuple(message.text for message in state.messages) for state in states]

    assert len(set(orders())) > 3 and orders() == orders()
    with pytest.raises(ValueError, match="before the first turn"):
        FewShot(examples)(Ask()(start(), Scripted("ok")), NoModel())


def test_the_examples_are_part_of_the_identity_and_must_not_change(examples: Path) -> None:
    stage = FewShot(examples)
    kept = spec(stage)
    assert build(kept, Scope(examples.parent)).sha == stage.sha
    cv2.imwrite(str(examples.parent / "3.png"), np.zeros((9, 9, 3), np.uint8))
    assert identity(FewShot(examples)) != identity(stage)
    with pytest.raises(ConfigError, match="or its images have changed"):
        build(kept, Scope(examples.parent))


@pytest.mark.parametrize(("line", "words"), CASES["faulty_examples"])
def test_invalid_examples_are_faults_with_their_line(examples: Path, line: str, words: str) -> None:
    examples.write_text(f"{examples.read_text()}\n{line}\n")
    with pytest.raises(ValueError, match=words):
        FewShot(examples)


THREE = (
    Message("system", ("S",)),
    Message("user", (View(picture(1)), "q1")),
    Message("assistant", ("<think>hm</think> a1",)),
    Message("user", (View(picture(2)), "q2")),
    Message("assistant", ("a" * 30,)),
    Message("user", ("q3",)),
)


@pytest.mark.parametrize(
    ("history", "new", "images", "said"),
    [
        (History(), (), [0, 1, 0, 1, 0, 0], ["a1", "a" * 30]),
        (History("latest"), (), [0, 0, 0, 1, 0, 0], ["a1", "a" * 30]),
        (History("latest"), (View(picture(3)),), [0, 0, 0, 0, 0, 1], ["a1", "a" * 30]),
        (History("none"), (View(picture(3)),), [0, 0, 0, 0, 0, 1], ["a1", "a" * 30]),
        (History("none"), (), [0, 0, 0, 0, 0, 0], ["a1", "a" * 30]),
        (History(thoughts="keep"), (), [0, 1, 0, 1, 0, 0], ["<think>hm</think> a1", "a" * 30]),
        (History(longest=10), (), [0, 1, 0, 1, 0, 0], ["a1", "a" * 10 + " [...]"]),
    ],
)
def test_history(
    history: History, new: tuple[View, ...], images: list[int], said: list[str]
) -> None:
    messages = (*THREE[:-1], Message("user", (*new, "q3")))
    sent, notes = history(messages)
    assert [len(m.views) for m in sent] == images
    assert [m.text for m in sent if m.role == "assistant"] == said
    assert sent[-1] is messages[-1]
    cut = "only the first 10 of 30 characters of an earlier reply were sent"
    assert notes == ((cut,) if history.longest == 10 else ())
    if history.images == "none":
        assert sent[1].text == "[an image was shown here]\nq1"


@pytest.mark.parametrize(
    "text", ["'x' * 10**9", "10**9 * [1]", "'%999999999d' % 1", "'x'|center(10**9)"]
)
def test_no_template_operator_produces_a_text_that_prompts_forbid(text: str) -> None:
    with pytest.raises(ValueError, match="writes more than 200,000 characters"):
        Template(f"{{{{ {text} }}}}")(start(), NoModel())
    small = "{{ 'ab' * 2 }} {{ 2 * 3 }} {{ 7 % 2 }} {{ '%03d' % 5 }} {{ 'x'|center(3) }}|"
    assert Template(small)(start(), NoModel()).prompt == "abab 6 1 005  x |"


def test_several_tool_turns_are_merged_and_no_turn_is_empty() -> None:
    looks = tuple(Message("tool", ("here", View(picture(n))), call_id=str(n)) for n in (5, 6))
    sent, _ = History("latest")((*THREE[:3], *looks))
    assert [len(m.views) for m in sent] == [0, 0, 0, 1, 1]
    sent, _ = History()((THREE[1], Message("assistant", (" ",)), THREE[-1]))
    assert sent[1].text == "[no reply]"


@pytest.mark.parametrize(("reply", "left"), CASES["thoughts"])
def test_thoughts_are_removed(reply: str, left: str) -> None:
    assert strip_thoughts(reply) == left
