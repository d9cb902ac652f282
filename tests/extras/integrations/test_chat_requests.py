"""Chat-completion requests become questions, replies become completions and chunks, and refusals
are explained."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from looktwice.extras.integrations.protocols.chat_requests import read_question as read_raw
from looktwice.extras.integrations.protocols.chat_responses import ChatResponse, join_chunks
from looktwice.extras.integrations.protocols.exchange import AnswerContent
from looktwice.extras.integrations.protocols.questions import Question
from looktwice.pipelines.encodings.image_files import to_png
from looktwice.pipelines.model import CallOptions, Reply, Tool, ToolCall, Usage
from tests.tables import table

Json = dict[str, Any]
QUESTION = {"role": "user", "content": "Well?"}


def read_question(body: Json) -> Question:
    return read_raw(json.dumps({"messages": [QUESTION]} | body).encode())


def user(*parts: Json) -> Json:
    return {"messages": [{"role": "user", "content": parts}]}


def image(url: str) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


PNG = to_png(np.full((3, 5, 3), (200, 10, 10), np.uint8))
URL = f"data:image/png;base64,{b64encode(PNG).decode()}"


def test_texts_and_pictures_keep_their_order_and_bytes() -> None:
    words = [{"type": "text", "text": text} for text in ("Look:", "Red?", "Or not?")]
    body = user(words[0], image(URL), *words[1:])
    body["messages"].insert(0, {"role": "developer", "content": "S"})
    question = read_question(body)
    assert [message.role for message in question.turns] == ["system", "user"]
    (first, *last), [view] = question.turns[1].text.split("\n"), question.turns[1].views
    assert (first, last) == ("Look:", ["Red?", "Or not?"]) and question.turns[1].parts[1] is view
    assert view.picture.payload.data == PNG and np.array_equal(view.pixels[0, 0], (200, 10, 10))
    sample = question.sample
    assert sample.question == "Look:<image 1>Red?\nOr not?" and sample.meta == {"placed": True}
    assert [picture.source for picture in sample.images] == [PNG]


def test_a_question_is_identified_by_its_images_and_text() -> None:
    asked = [user(image(URL), {"type": "text", "text": text}) for text in ("A?", "A?", "B?")]
    names = [read_question(body).sample.id for body in asked]
    assert names[0] == names[1] != names[2]
    with_system = {"messages": [{"role": "system", "content": "S"}, *asked[0]["messages"]]}
    assert read_question(with_system | {"temperature": 1}).sample.id == names[0]


def test_meta_data_of_a_client_is_stored_with_the_sample() -> None:
    known: Json = {"id": "q7", "choices": ["left", "right"], "answer": "B"}
    known |= {"meta": {"subtask": "depth"}, "marks": [{"label": "A", "x": 1, "y": 2}]}
    question = read_question(user(image(URL)) | {"looktwice": known})
    sample = question.sample
    assert question.answer == "B" and "B" not in str(sample.to_dict())
    assert (sample.id, sample.choices) == ("q7", ("left", "right"))
    assert [(mark.label, mark.center) for mark in sample.marks] == [("A", (1.0, 2.0))]
    assert sample.meta == {"subtask": "depth", "placed": True}


def test_options_are_those_of_the_protocol() -> None:
    body = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 3, "stop": "x", "seed": 4, "n": 3}
    question = read_question(body | {"logprobs": True, "top_logprobs": 2, "stream": True})
    assert (question.reply_count, question.stream) == (3, True)
    assert question.options == CallOptions(0.5, 0.9, 3, ("x",), 4, logprobs=2)
    for field in ({"guided_choice": ["a", "b"]}, {"structured_outputs": {"choice": ["a", "b"]}}):
        assert read_question(field).options.choices == ("a", "b")
    schema = {"type": "object"}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    tool = {"type": "function", "function": {"name": "zoom", "parameters": schema}}
    options = read_question({"response_format": form, "tools": [tool]}).options
    assert (options.schema, options.tools) == (schema, (Tool("zoom", "", schema),))
    assert read_question({"response_format": {"type": "json_object"}}).options.schema == {}
    assert read_question({"top_k": 5}).options == CallOptions(top_k=5)
    bare, plain = {"type": "function", "function": {"name": "zoom"}}, {"tools": [tool]}
    for choice, called in ((bare, "zoom"), ("required", "required"), ("none", "none")):
        asked = read_question(plain | {"tool_choice": choice}).options
        assert asked == CallOptions(tools=options.tools, tool_choice=called)
    # defaults of a server are not options
    usual = {"top_k": -1, "tool_choice": "auto", "response_format": {"type": "text"}}
    tools = CallOptions(tools=(Tool("zoom", ""),))
    assert read_question(usual | {"tools": [bare]}).options == tools
    assert read_question({"top_k": 0, "tool_choice": "none"}).options == CallOptions()


def test_tool_turns_become_turns_of_the_conversation() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "zoom", "arguments": "{}"}}
    turns = [
        QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    ]
    question = read_question({"messages": turns})
    assert question.sample.question == "Well?"
    assert question.turns[1].tool_calls == (ToolCall("c1", "zoom", "{}"),)
    assert (question.turns[2].call_id, question.turns[2].text) == ("c1", "seen")


REPLY = Reply("one", usage=Usage(11, 2), logprobs=({"one": -0.1, "two": -2.5},))


def test_a_stream_gives_the_same_text_in_chunks() -> None:
    called = Reply("", finish="tool", tool_calls=(ToolCall("c1", "zoom", "{}"),), usage=Usage(5, 1))
    looks, replies = ["at first sight", ""], [[REPLY], [called]]
    answered = ChatResponse(AnswerContent("tiny", [REPLY, called], looks, replies, "x", {}))
    *events, last = b"".join(answered.list_chunks(usage=True)).decode().strip().split("\n\n")
    chunks = [json.loads(text.removeprefix("data: ")) for text in events]
    assert last == "data: [DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0]["content"] == "one" and deltas[0]["reasoning_content"] == "at first sight"
    assert deltas[2]["tool_calls"][0]["index"] == 0
    ends = [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]]
    assert ends == [None, "stop", None, "tool_calls"]
    usage = chunks[-1]["usage"]
    assert chunks[-1]["choices"] == [] and usage == answered.usage
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (11, 14)
    whole = answered.make_completion()["choices"]
    assert [choice["message"]["content"] for choice in whole] == ["one", None]
    (token,) = whole[0]["logprobs"]["content"]
    assert (token["token"], token["logprob"]) == ("one", -0.1)
    assert [each["token"] for each in token["top_logprobs"]] == ["one", "two"]
    first, second = join_chunks(b"".join(answered.list_chunks()))["choices"]
    assert first["message"]["content"] == "one" and first["logprobs"]["content"] == [token]
    assert second["message"]["tool_calls"][0]["function"] == {"name": "zoom", "arguments": "{}"}
    assert [*answered.list_chunks()] == [
        *list(answered.list_chunks(usage=True))[:-2],
        b"data: [DONE]\n\n",
    ]


@table
def test_unanswerable_requests_are_refused(body: Json, words: str) -> None:
    whole = json.loads(json.dumps(body).replace("URL", URL))
    with pytest.raises(ValueError, match=re.escape(words)):
        read_question(whole)


def test_invalid_requests_are_refused() -> None:
    for body in (b"{", b"[1]", b"\xff", b""):
        with pytest.raises(ValueError, match=r"\S"):
            read_raw(body)
    assert read_question({"n": 0}).reply_count == 1  # no number given, so one reply
