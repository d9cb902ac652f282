"""A model of this process served over the chat-completions protocol: requests in, completions out,
refusals said."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from looktwice.pipelines.model import CallOptions, Messages, Model, Reply, Usage
from looktwice.pipelines.models import Scripted, serving
from looktwice.pipelines.models.serving import answer
from looktwice.pipelines.png import to_png

Json = dict[str, Any]


class Watched:
    """A model that keeps what it was asked, and says its draw."""

    identity = "watched"

    def __init__(self) -> None:
        self.asked: list[tuple[Messages, int, CallOptions]] = []

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        self.asked.append((messages, draw, options))
        likely = ({"one": -0.1, "two": -2.5},) if options.logprobs else ()
        return Reply(
            f"draw {draw}", usage=Usage(11, 2), logprobs=likely, served_by={"version": "v"}
        )


QUESTION = {"role": "user", "content": "Well?"}


def read_request(body: Json) -> Any:
    return serving.read_request(json.dumps({"messages": [QUESTION]} | body).encode())


def ask(model: Model, **body: Any) -> tuple[int, Json]:
    return answer(model, "tiny", json.dumps({"messages": [QUESTION]} | body).encode())


def user(*parts: Json) -> Json:
    return {"messages": [{"role": "user", "content": parts}]}


def image(url: str) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


def test_texts_and_pictures_arrive_in_their_order_with_their_own_bytes() -> None:
    data = to_png(np.full((3, 5, 3), (200, 10, 10), np.uint8))
    words = [{"type": "text", "text": text} for text in ("Look:", "Red?")]
    body = user(words[0], image(f"data:image/png;base64,{b64encode(data).decode()}"), words[1])
    body["messages"].insert(0, {"role": "developer", "content": "S"})
    messages, _, _ = read_request(body)
    assert [message.role for message in messages] == ["system", "user"]
    first, view, last = messages[1].parts
    assert (first, last) == ("Look:", "Red?")
    assert view.picture.payload.data == data and np.array_equal(view.pixels[0, 0], (200, 10, 10))


def test_options_are_those_of_the_protocol() -> None:
    body = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 3, "stop": "x", "seed": 4, "n": 3}
    _, options, count = read_request(body | {"logprobs": True, "top_logprobs": 2})
    assert (count, options) == (3, CallOptions(0.5, 0.9, 3, ("x",), 4, logprobs=2))
    for field in ({"guided_choice": ["a", "b"]}, {"structured_outputs": {"choice": ["a", "b"]}}):
        assert read_request(field)[1].choices == ("a", "b")


def test_n_replies_are_n_draws() -> None:
    model = Watched()
    status, body = ask(model, n=2)
    assert status == 200
    assert [choice["message"]["content"] for choice in body["choices"]] == ["draw 0", "draw 1"]
    assert [draw for _, draw, _ in model.asked] == [0, 1]
    assert body["usage"] == {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}


def test_log_probabilities_name_the_chosen_token_first() -> None:
    _, body = ask(Watched(), logprobs=True, top_logprobs=2)
    token = body["choices"][0]["logprobs"]["content"][0]
    assert (token["token"], token["logprob"]) == ("one", -0.1)
    assert [each["token"] for each in token["top_logprobs"]] == ["one", "two"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        *(({"messages": []}, "messages is of type list"), ({"stream": True}, "stream")),
        *(({"n": 0}, ""), ({"n": 1000}, "n is 1000")),
        ({"messages": [{"role": "robot", "content": "?"}]}, "role is 'robot'"),
        (user({"type": "audio"}), "type is 'audio'"),
        (user(image("http://h/x.png")), "nothing is fetched"),
        (user(image("data:image/png;base64,%%%")), "cannot be read"),
        ({"tools": [{"type": "function"}]}, "tools: not known here"),
        ({"guided_json": {"type": "object"}}, "guided_json: not known here"),
        ({"response_format": {"type": "json_object"}}, "response_format.type is"),
        ({"structured_outputs": {"json": {}}}, "structured_outputs.json is"),
        *(({"temperature": -1}, "temperature is -1"), ({"top_p": 0}, "top_p is 0")),
        ({"temperature": "hot"}, "temperature is 'hot', not a number"),
        *(({"max_tokens": -1}, "max_tokens is -1"), ({"stop": ["", "x"]}, "stop")),
        ({"logprobs": True, "top_logprobs": -400}, "top_logprobs is -400"),
        ({"guided_choice": [1]}, "guided_choice[0] is 1, not a text"),
        ({"guided_choice": "AB"}, "guided_choice is 'AB', not a list"),
        ({"seed": 0.5}, "seed is 0.5, not a whole number"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_a_sentence(body: Json, words: str) -> None:
    model = Watched()
    status, said = ask(model, **body)
    if not words:
        assert status == 200  # none said, so one reply
        return
    assert status == 400
    assert words in said["error"]["message"]
    assert model.asked == []


def test_who_names_no_seed_gets_another_reply_each_time() -> None:
    seeds = {read_request({"temperature": 1})[1].seed for _ in range(3)}
    assert len(seeds) == 3 and None not in seeds
    assert read_request({"temperature": 1, "seed": 5})[1].seed == 5
    assert read_request({})[1].seed is None


def test_a_fault_of_the_model_or_of_the_body_is_told_and_ends_nothing() -> None:
    def broken(messages: Messages) -> str:
        raise AttributeError("no such thing")

    status, said = ask(Scripted(broken))
    assert status == 400 and said["error"]["message"] == "no such thing"
    assert {answer(Watched(), "tiny", body)[0] for body in (b"{", b"[1]")} == {400}
