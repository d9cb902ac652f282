"""A model of this process served over the chat-completions protocol: requests in, completions out,
refusals said."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from looktwice.pipelines.model import CallOptions, Messages, Reply, Usage
from looktwice.pipelines.models.serving import answer, read_request

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


def png(color: tuple[int, int, int]) -> tuple[bytes, str]:
    held = io.BytesIO()
    Image.new("RGB", (5, 3), color).save(held, "PNG")
    return held.getvalue(), "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def ask(model: Watched, **body: Any) -> tuple[int, Json]:
    return answer(
        model,
        "tiny",
        json.dumps({"messages": [{"role": "user", "content": "Well?"}]} | body).encode(),
    )


def test_texts_and_pictures_arrive_in_their_order_with_their_own_bytes() -> None:
    data, url = png((200, 10, 10))
    content = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "Red?"},
    ]
    messages, _, _ = read_request(
        {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": content}]}
    )
    assert [message.role for message in messages] == ["system", "user"]
    first, view, last = messages[1].parts
    assert (first, last) == ("Look:", "Red?")
    assert view.picture.payload.data == data  # type: ignore[union-attr]
    assert np.array_equal(view.pixels[0, 0], (200, 10, 10))  # type: ignore[union-attr]


def test_options_are_those_of_the_protocol() -> None:
    body = {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 3,
        "stop": "x",
        "seed": 4,
        "logprobs": True,
        "top_logprobs": 2,
    }
    _, options, count = read_request(
        {"messages": [{"role": "user", "content": "?"}], "n": 3, **body}
    )
    assert count == 3
    assert options == CallOptions(0.5, 0.9, 3, ("x",), 4, logprobs=2)
    for field in ({"guided_choice": ["a", "b"]}, {"structured_outputs": {"choice": ["a", "b"]}}):
        assert read_request({"messages": [{"role": "user", "content": "?"}], **field})[
            1
        ].choices == ("a", "b")


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
        ({"messages": []}, "list of `messages`"),
        ({"stream": True}, "stream"),
        ({"n": 0}, ""),
        ({"n": 1000}, "from 1 to 128"),
        ({"messages": [{"role": "robot", "content": "?"}]}, "role system, user or assistant"),
        (
            {"messages": [{"role": "user", "content": [{"type": "audio"}]}]},
            "a text or an image_url",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "http://h/x.png"}}],
                    }
                ]
            },
            "nothing is fetched",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}
                        ],
                    }
                ]
            },
            "cannot be read",
        ),
        ({"tools": [{"type": "function"}]}, "tools: not known here"),
        ({"guided_json": {"type": "object"}}, "guided_json: not known here"),
        ({"response_format": {"type": "json_object"}}, "`response_format` is text here"),
        ({"structured_outputs": {"json": {}}}, "only `choice` is known"),
        ({"temperature": -1}, "`temperature` is a number from 0"),
        ({"temperature": "hot"}, "found 'hot'"),
        ({"top_p": 0}, "`top_p` is a number from"),
        ({"max_tokens": -1}, "`max_tokens` is a whole number from 1"),
        ({"logprobs": True, "top_logprobs": -400}, "`top_logprobs` is a whole number from 0"),
        ({"stop": ["", "x"]}, "`stop` is a list of texts"),
        ({"guided_choice": [1]}, "`choices` is a list of texts"),
        ({"guided_choice": "AB"}, "`choices` is a list of texts"),
        ({"seed": 0.5}, "`seed` is a whole number"),
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
    body = {"messages": [{"role": "user", "content": "?"}]}
    seeds = {read_request({**body, "temperature": 1})[1].seed for _ in range(3)}
    assert len(seeds) == 3 and None not in seeds
    assert read_request({**body, "temperature": 1, "seed": 5})[1].seed == 5
    assert read_request(body)[1].seed is None


def test_log_probabilities_are_sent_where_they_are_asked_for() -> None:
    assert ask(Watched())[1]["choices"][0]["logprobs"] is None


class Broken(Watched):
    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        raise AttributeError("no such thing")


def test_a_fault_of_the_model_is_told_and_ends_nothing() -> None:
    status, said = ask(Broken())
    assert status == 400 and said["error"]["message"] == "no such thing"


def test_a_body_that_is_no_json_is_refused() -> None:
    assert answer(Watched(), "tiny", b"{")[0] == 400
    assert answer(Watched(), "tiny", b"[1]")[0] == 400
