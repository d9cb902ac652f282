"""Several turns: every kind sends exactly the expected messages and stays within limits."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.eval.readers import Robust, WholeReply
from looktwice.pipelines.marks import Box
from looktwice.pipelines.model import CallOptions, Message, Messages, ModelError, Reply, Usage
from looktwice.pipelines.models import ChatAPI, Scripted
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.models.wrappers import wrap_model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel, Pipeline, RecordingModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.controls import OracleCrop, PermuteChoices
from looktwice.prompting.turns import (
    Ask,
    CaptionThenAnswer,
    History,
    RedrawThenAnswer,
    Reperceive,
    Verify,
    Vote,
    ZoomOnClaim,
)
from looktwice.prompting.views import Crop
from looktwice.prompting.wording import JsonAnswer, MultipleChoice, System
from tests.chat_server import ChatServer, chat_server
from tests.counted_work import count_calls
from tests.prompting.scenes import ScriptedReplies, table

CASES = table("turns/turns.yaml")

READ = Robust()
Turns = list[tuple[str, list[str]]]


def picture(level: int = 0, width: int = 80, height: int = 60) -> Picture:
    ramp = np.add.outer(np.arange(height), np.arange(width))[:, :, None] % 200
    return Picture((ramp + np.full(3, level)).astype(np.uint8))


def start(images: int = 1, question: str = "Is it?", draw: int = 0, **meta: Any) -> State:
    sample = Sample(
        "s1", question, tuple(picture(10 * n) for n in range(images)), ("Yes", "No"), meta=meta
    )
    return State.start(sample, draw=draw)


def transcript(messages: Messages, state: State) -> Turns:
    """Return roles and parts; the images of the sample as I1, I2 ..., any other as its size."""
    known = {image.sha: f"I{n}" for n, image in enumerate(state.sample.images, 1)}

    def named(part: str | View) -> str:
        if isinstance(part, str):
            return part
        return known.get(part.picture.sha, "{}x{}".format(*part.size))

    return [(message.role, [named(part) for part in message.parts]) for message in messages]


SVG = '<svg width="80" height="60"><rect width="40" height="30" fill="red"/></svg>'
LOOKS: dict[str, Any] = {"look": "L {prompt}", "doubt": "D", "conclude": "C {prompt}"}
BLIND: dict[str, Any] = {"caption": "Tell.", "frame": "{descriptions}|{prompt}"}
CODED: dict[str, Any] = {"redraw": "Draw.", "frame": "{code}|{prompt}", "compare": False}
CLAIM = "(A)\nLOOK: image 1, [0, 0, 500, 500]"
SMALL = ZoomOnClaim(crop=Crop(padding=0, min_px=0))

ASKED, LOOKED, OMITTED = ["I1", "Is it?"], ["I1", "L Is it?"], "[an image was shown here]"
LATEST = Ask(images="after", history=History("latest"))
# number of images, stage, replies, and of each call its turns: user, assistant, user ...
GOLDEN: dict[str, tuple[int, Stage, list[str], list[list[list[str]]]]] = {
    "one pass": (1, Ask(), ["a"], [[ASKED]]),
    "look, doubt, conclude, image attached again": (
        1,
        Reperceive(turns=3, **LOOKS),
        ["a", "b", "c"],
        [
            [LOOKED],
            [LOOKED, ["a"], ["I1", "D"]],
            [LOOKED, ["a"], ["I1", "D"], ["b"], ["I1", "C Is it?"]],
        ],
    ),
    "image attached once": (
        1,
        Reperceive(turns=2, attach="none", **LOOKS),
        ["a", "b"],
        [[LOOKED], [LOOKED, ["a"], ["C Is it?"]]],
    ),
    "only the last look is kept": (
        2,
        Reperceive(turns=2, ask=LATEST, **LOOKS),
        ["a", "b"],
        [
            [["L Is it?", "I1", "I2"]],
            [["L Is it?", OMITTED, OMITTED], ["a"], ["C Is it?", "I1", "I2"]],
        ],
    ),
    "a single turn is the question": (1, Reperceive(turns=1, **LOOKS), ["a"], [[ASKED]]),
    "a caption for each image, then blind": (
        2,
        CaptionThenAnswer(**BLIND),
        ["one", "two", "b"],
        [[["I1", "Tell."]], [["I2", "Tell."]], [["Image 1: one\n\nImage 2: two|Is it?"]]],
    ),
    "one caption for all": (
        2,
        CaptionThenAnswer(each=False, **BLIND),
        ["both", "b"],
        [[["I1", "I2", "Tell."]], [["The images: both|Is it?"]]],
    ),
    "drawn, then blind": (
        1,
        RedrawThenAnswer(**CODED),
        [f"Here:\n```svg\n{SVG}\n```", "b"],
        [[["I1", "Draw."]], [[f"{SVG}|Is it?"]]],
    ),
    "ask, zoom on the claim, ask again": (
        1,
        Verify(where="W {prompt}", check="K {prompt}", zoom=SMALL),
        [CLAIM, "(B)"],
        [[["I1", "W Is it?"]], [["I1", "W Is it?"], [CLAIM], ["40x30", "K Is it?"]]],
    ),
    "nothing claimed: asked again without another image": (
        1,
        Verify(where="{prompt}", check="K {prompt}", zoom=SMALL),
        ["(A)", "(B)"],
        [[ASKED], [ASKED, ["(A)"], ["K Is it?"]]],
    ),
    "a vote of three": (1, Vote(READ, n=3), ["(A)"], [[ASKED]] * 3),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_every_kind_of_turn_sends_exactly_these_messages(name: str) -> None:
    images, stage, replies, sent = GOLDEN[name]
    state, model = start(images), ScriptedReplies(*replies)
    after = stage(state, model)
    roles = "user", "assistant"
    expected = [[(roles[n % 2], parts) for n, parts in enumerate(turns)] for turns in sent]
    assert [transcript(messages, state) for messages, _, _ in model.calls] == expected
    assert after.prompt == "Is it?" and after.draw == 0
    assert after.messages[-1].role == "assistant"
    assert after.shown_views == tuple(view for message in after.messages for view in message.views)
    model = ScriptedReplies(SVG)
    stage(System("S")(start(), NoModel()), model)
    assert transcript(model.calls[-1][0], start())[0] == ("system", ["S"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    with chat_server(tmp_path_factory.mktemp("chat") / "log.jsonl") as running:
        yield running


SETTLED = "ended after 3 draws: no other answer could win"


def make_vote(*replies: str, **settings: Any) -> State:
    return Vote(READ, **{"n": len(replies), **settings})(start(), Scripted(list(replies)))


@pytest.mark.parametrize(
    ("replies", "settings", "answer", "confidence", "note"),
    [
        (["(A)", "(B)", "(A)"], {}, "A", 2 / 3, "vote: A 2, B 1"),
        (["(B)", "(A)", "(A)", "(B)"], {}, "B", 0.5, "vote: B 2, A 2"),
        (["(B)", "(A)", "I cannot tell.", "(A)"], {}, "A", 0.5, "vote: A 2, B 1, no answer 1"),
        (["(A)"] * 3 + ["x", "y"], {"stop_early": True}, "A", 1.0, f"vote: A 3; {SETTLED}"),
        (["(A)", "(B)", "(A)"], {"stop_early": True}, "A", 2 / 3, "vote: A 2, B 1"),
    ],
)
def test_the_majority_is_the_answer(
    replies: list[str], settings: Any, answer: str, confidence: float, note: str
) -> None:
    state = make_vote(*replies, **settings)
    assert (state.answer, state.reason, state.notes) == (answer, "", (note,))
    assert state.confidence == pytest.approx(confidence)
    # the conversation is that of a winning draw
    assert READ(state.replace(answer=None), NoModel()).answer == answer


def test_ties_unreadable_replies_and_open_answers() -> None:
    state = make_vote("(A)", "(B)", tie="abstain")
    assert state.answer is None and state.reason.startswith("abstained: ")
    vote = Vote(READ, n=2, tie="random")

    def drawn() -> list[str | None]:
        samples = [Sample(f"s{n}", "Is it?", choices=("Yes", "No")) for n in range(40)]
        return [
            vote(State.start(sample), ScriptedReplies("(A)", "(B)")).answer for sample in samples
        ]

    assert 8 < drawn().count("A") < 32 and drawn() == drawn()
    sorry = "I'm sorry, but I can't help with that."
    state = make_vote(sorry, "", sorry)
    assert state.answer is None and not state.ended and state.reason.startswith("refused: ")
    open_question = State.start(Sample("s", "Which letters?"))
    state = Vote(WholeReply(), n=3)(open_question, Scripted(["ab  c", "AB C", "x"]))
    assert state.answer == "ab  c" and state.confidence == pytest.approx(2 / 3)
    with pytest.raises(ModelError):
        Vote(READ, n=3)(start(), Scripted(["(A)", "(A)"]))


def test_draws_of_runs_and_votes_differ_and_a_vote_shares_calls_with_single_draws(
    server: ChatServer, tmp_path: Path
) -> None:
    model = wrap_model(ChatAPI("vote", server.url, temperature=1.0), Store(tmp_path))
    vote, before = Vote(READ, n=5), int(server.stats["requests"])

    def asked() -> int:
        return int(server.stats["requests"]) - before

    first = vote(start(), model)
    assert asked() == 5
    assert vote(start(), model).answer == first.answer and asked() == 5  # all from the cache
    for draw in range(5):
        Ask()(start(draw=draw), model)
    assert asked() == 5  # the five single draws are these calls
    vote(start(draw=1), model)
    assert asked() == 10
    nested = ScriptedReplies("(A)")
    for draw in range(3):
        Vote(READ, Vote(READ, n=2), n=3)(start(draw=draw), nested)
    assert nested.draws == list(range(18))


def test_a_vote_over_turns_counts_tokens_of_other_models_too() -> None:
    used = Usage(tokens_in=90, tokens_out=10)
    eyes, text = (
        ScriptedReplies(Reply("a cat", usage=used)),
        ScriptedReplies(Reply("(A)", usage=used)),
    )
    vote = Vote(READ, CaptionThenAnswer(captioner=eyes, **BLIND), n=9, tokens=500)
    pipeline = Pipeline({"vote": vote})
    state = pipeline(start(), text)
    assert (len(eyes.calls), len(text.calls)) == (3, 3)
    assert state.notes == ("vote: A 3; ended after 3 draws: 600 tokens were used",)
    (step,) = state.trace
    assert [call.model for call in step.calls] == ["heard", "heard"] * 3 or len(step.calls) == 6


def test_votes_use_the_original_letters_of_the_task() -> None:
    """The choices are permuted; a model that always says (A) has no majority."""
    inner = Pipeline({"permute": PermuteChoices(by=3), "choose": MultipleChoice(), "ask": Ask()})
    sample = Sample("s", "Which?", (picture(),), ("red", "green", "blue"))

    def right(messages: Messages) -> str:
        line = next(line for line in messages[-1].text.splitlines() if "green" in line)
        return line[:3]

    state = Vote(READ, inner, n=6)(State.start(sample), Scripted(right))
    assert (state.confidence, state.notes) == (1.0, ("vote: B 6",))
    assert state.letters[str(state.answer)] == "B"
    biased = Vote(READ, inner, n=12)(State.start(sample), Scripted("(A)"))
    assert biased.confidence is not None and biased.confidence < 1
    assert [step.slot for step in state.trace] == ["permute", "choose", "ask"] * 6


def test_two_models_each_do_their_part_and_the_text_only_turn_has_no_image() -> None:
    eyes, text, main = ScriptedReplies("a cat"), ScriptedReplies("(B)"), ScriptedReplies("never")
    stage = CaptionThenAnswer(captioner=eyes, answerer=text, **BLIND)
    state = Pipeline({"ask": stage})(start(2, draw=4), main)
    assert (len(eyes.calls), len(text.calls), len(main.calls)) == (2, 1, 0)
    assert eyes.draws + text.draws == [4, 4, 4]
    assert [call.model for call in state.trace[0].calls] == ["heard"] * 3
    assert state.shown_views == () and len(state.views) == 2
    assert eyes.calls[0][2].max_tokens == 1024
    model = ScriptedReplies("{prompt} {descriptions}", "(B)")
    ask = Ask(images="inline", options=CallOptions(temperature=1.0))
    CaptionThenAnswer(ask=ask, **BLIND)(start(), model)
    messages, _, options = model.calls[-1]
    assert not any(message.views for message in messages) and options.temperature == 1.0
    assert messages[0].text == "Image 1: {prompt} {descriptions}|Is it?"


@pytest.mark.parametrize("reply", ["", "  \n", "<think>I see a cat", "<think>a cat</think>"])
def test_an_empty_description_counts_as_missing(reply: str) -> None:
    model = ScriptedReplies("one", reply, "(B)")
    state = CaptionThenAnswer(**BLIND)(start(2), model)
    assert state.reason.startswith("abstained: ") and len(model.calls) == 2
    with pytest.raises(ValueError, match=r"sample s1: .*image 2"):
        CaptionThenAnswer(missing="fail", **BLIND)(start(2), ScriptedReplies("one", reply))
    model = ScriptedReplies("one", reply, "(B)")
    state = CaptionThenAnswer(missing="keep", **BLIND)(start(2), model)
    assert model.calls[-1][0][0].text == "Image 1: one\n\nImage 2: (no description)|Is it?"
    (note,) = state.notes
    assert "image 2" in note


def test_endless_descriptions_are_truncated_and_an_image_is_required() -> None:
    model = ScriptedReplies(Reply("word " * 100_000, finish="length"), "(B)")
    state = CaptionThenAnswer(longest=100, **BLIND)(start(), model)
    assert len(model.calls[-1][0][0].text) < 150
    bound, cut = state.notes
    assert "token limit" in bound and "499999" in cut and "100" in cut
    for stage in (CaptionThenAnswer(**BLIND), RedrawThenAnswer(**CODED)):
        with pytest.raises(ValueError, match="sample s1 has no image"):
            stage(start(0), ScriptedReplies())


@pytest.mark.parametrize(("replies", "note"), CASES["flips"])
def test_flips_are_recorded(replies: list[str], note: str) -> None:
    state = Reperceive(turns=3, read=READ)(start(), Scripted(list(replies)))
    assert state.notes == (note,)
    assert state.answer is None and state.reply == replies[-1]


def test_thoughts_of_earlier_turns_are_not_sent_again_but_stored() -> None:
    model = ScriptedReplies(Reply("<think>hm</think>(A)", reasoning="apart"), "(B)")
    state = Reperceive(turns=2, **LOOKS)(start(), model)
    assert transcript(model.calls[1][0], state)[1] == ("assistant", ["(A)"])
    assert state.messages[1].text == "<think>hm</think>(A)"
    assert not any("apart" in message.text for message in model.calls[1][0])


def test_effort_is_requested_and_reasoning_is_stored_separately(server: ChatServer) -> None:
    before = len(server.bodies)
    door = RecordingModel(ChatAPI("thinker", server.url), "s1")
    for history in (History(), History(attached="drop")):
        ask = Ask(options=CallOptions(effort="high"), history=history)
        Reperceive(turns=2, look="#reasoning {prompt}", conclude="C", ask=ask)(start(), door)
    first, second, _, dropped = server.bodies[before:]
    assert "Let me look." not in json.dumps(dropped)
    assert first["reasoning_effort"] == second["reasoning_effort"] == "high"
    turn = next(turn for turn in second["messages"] if turn["role"] == "assistant")
    assert turn.pop("reasoning_content") == "Let me look.", "it goes back under its own name"
    assert "Let me look." not in json.dumps(second)
    reply = door.calls[0].reply
    assert reply and (reply.reasoning, reply.usage.reasoning_tokens) == ("Let me look.", 5)
    assert "Let me look." not in reply.text


@pytest.mark.parametrize(("reply", "sizes"), CASES["claims"])
def test_claimed_places_are_cropped(reply: str, sizes: list[list[int]]) -> None:
    state = start(2).replace(messages=(Message("assistant", (reply,)),))
    after, whole = SMALL(state, NoModel()), {view.picture.sha for view in state.views}
    assert [list(v.size) for v in after.views if v.picture.sha not in whole] == sizes
    for view in after.views:
        assert view.to_source(0, 0) is not None


@pytest.mark.parametrize(("reply", "note"), CASES["empty_claims"])
def test_claims_that_cannot_be_shown_are_noted(reply: str, note: str) -> None:
    state = start().replace(messages=(Message("assistant", (reply,)),))
    after = SMALL(state, NoModel())
    assert after.views == state.views
    assert any(note in said for said in after.notes)
    assert ZoomOnClaim(missing="abstain")(state, NoModel()).ended


def test_the_number_of_claims_is_limited() -> None:
    corners = [(n % 30 * 30, n // 30 * 2) for n in range(10_000)]
    boxes = " ".join(f"[{x}, {y}, {x + 50}, {y + 50}]" for x, y in corners)
    after = SMALL(start().replace(messages=(Message("assistant", (boxes,)),)), NoModel())
    assert len(after.views) == 6
    first, more = after.notes
    assert "6 of 50" in first and "first 50" in more


@pytest.mark.parametrize(
    "reply",
    ["\n" * 100_000, "---\n" * 40_000, "LOOK: " + "[1, 2, 300, 400] " * 20_000, "<think>" * 40_000],
)
def test_endless_repetition_takes_no_more_work_than_a_long_reply(reply: str) -> None:
    def work(reply: str) -> int:
        state = start().replace(messages=(Message("assistant", (reply,)),))
        return count_calls(lambda: SMALL(state, NoModel()))

    assert work(reply) < 11 * work(reply[: len(reply) // 10]) + 500


def test_zoomed_crops_stay_in_the_views_and_every_round_starts_from_the_original() -> None:
    model = ScriptedReplies(CLAIM, "(B) [500, 0, 1000, 500]", "(A)")
    state = Verify(zoom=SMALL, rounds=2, read=READ)(start(), model)
    assert [view.size for view in state.views] == [(80, 60), (40, 30), (40, 30)]
    assert state.notes == ("answers: A, B, A; 2 changes",)
    assert [len(message.views) for message in state.messages] == [1, 0, 1, 0, 1, 0]
    assert state.views[2].to_source(0, 0) == (0, 40.0, 0.0)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_oracle_and_placebo_zooms_are_control_arms(elsewhere: bool) -> None:
    zoom = OracleCrop(crop=Crop(padding=0, min_px=0), elsewhere=elsewhere)
    region = Box("", 10, 10, 30, 30).to_dict()
    model = ScriptedReplies("no box at all", "(A)")
    Verify(zoom=zoom)(start(region=region), model)
    (shown,) = model.calls[1][0][-1].views
    assert shown.size == (20, 20)
    Verify(zoom=ZoomOnClaim(frame="pixels"))(start(), model)  # in the unit in which it is read
    assert "in pixels of the image." in model.calls[2][0][0].text


def test_a_server_that_counts_no_image_is_noted() -> None:
    few, enough = Reply("(A)", usage=Usage(tokens_in=9)), Reply("(A)", usage=Usage(tokens_in=60))
    (note,) = Ask()(start(2), ScriptedReplies(few)).notes
    assert "9 tokens for 2 images and 2 words" in note
    assert (
        Ask()(start(2), ScriptedReplies(enough)).notes
        == Ask()(start(2), ScriptedReplies("(A)")).notes
        == ()
    )
    assert Ask(images="none")(start(2), ScriptedReplies(few)).notes == ()
    for stage in (CaptionThenAnswer(), RedrawThenAnswer(missing="keep")):
        state = Pipeline({"blind": stage})(start(1), ScriptedReplies(few))
        assert any("9 tokens" in note for note in state.notes)


def test_the_schema_is_sent_with_every_turn() -> None:
    model = ScriptedReplies('{"answer": "A"}')
    form = JsonAnswer(reasoning=False)
    state = Reperceive(turns=3, ask=Ask(output=form), read=READ)(start(), model)
    assert [options.schema for *_, options in model.calls] == [form.make_schema(state.sample)] * 3
    assert state.notes == ("answers: A, A, A; 0 changes",)


BAD: Sequence[str | Reply] = (
    "",
    "答案是右边的那个。",
    "الجواب هو الأول",
    "the the " * 20_000,
    "\x00\ud83d"[:1],
    "<think>" * 1000,
    '<svg onload="x()"><script>x()</script></svg>',
    "{{ 7 * 7 }} ${read} {prompt} {descriptions}",
    "(A) " * 5000,
    Reply("", finish="filter"),
    Reply("", refusal="No."),
    Reply("It is", finish="length"),
)
KINDS: dict[str, Callable[[], Stage]] = {
    "vote": lambda: Vote(READ, n=2),
    "caption": lambda: CaptionThenAnswer(missing="keep"),
    "redraw": lambda: RedrawThenAnswer(missing="keep"),
    "reperceive": lambda: Reperceive(read=READ),
    "verify": lambda: Verify(read=READ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reply", BAD, ids=range(len(BAD)))
def test_any_reply_of_a_model_is_recorded_within_limits(kind: str, reply: str | Reply) -> None:
    model = ScriptedReplies(reply)
    state = KINDS[kind]()(start(2), model)
    assert 2 <= len(model.calls) <= 4
    longest = max(len(message.text) for messages, _, _ in model.calls for message in messages)
    assert longest < 210_000
    assert isinstance(state, State) and all(len(note) < 400 for note in state.notes)
