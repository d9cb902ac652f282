"""The native protocols: what a stand-in server refuses, what is sent back, how replies are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from looktwice.pipelines import CallOptions, Message
from looktwice.pipelines.model import ModelError, Usage, make_request_key
from looktwice.pipelines.models.wire import write_request
from tests.extras.wires.conversations import (
    MODELS,
    URL,
    conversations,
    make_model,
    make_view,
    read,
    read_turn,
)
from tests.extras.wires.native_server import CHECKS, Refused
from tests.extras.wires.provider_turns import replies
from tests.tables import check_all, table

Json = dict[str, Any]
PATHS = dict(zip(MODELS, CHECKS, strict=True))
every = pytest.mark.parametrize("name", MODELS)


def make_body(name: str, title: str) -> Json:
    """Return the request of a conversation as the server reads it."""
    messages, options, settings = conversations(name)[title]
    body = make_model(name, **settings).make_body(messages, 0, options)
    return dict(json.loads(write_request(body)))


def check_server(name: str, body: Json) -> int:
    return CHECKS[PATHS[name]](body, replies(name))


def in_turns(name: str, change: Callable[[list[Json]], Any]) -> Json:
    """Return the request of six turns, with its items, turns or contents changed."""
    body = make_body(name, "six turns")
    field = {"ResponsesAPI": "input", "MessagesAPI": "messages", "GeminiAPI": "contents"}[name]
    change(body[field])
    return body


def test_the_server_accepts_six_turns_and_refuses_what_the_real_one_refuses() -> None:
    changes: dict[str, list[Callable[[list[Json]], Any]]] = {
        "ResponsesAPI": [
            lambda items: items.pop(1),  # the first thought
            lambda items: items[1].update(encrypted_content="gAAA"),
            lambda items: items.pop(4),  # the first result
            lambda items: items.insert(1, items.pop(4)),  # before its call
            lambda items: items.insert(4, {"role": "assistant", "content": items[0]["content"]}),
        ],
        "MessagesAPI": [
            lambda turns: turns[1]["content"].pop(0),
            lambda turns: turns[1]["content"][0].update(signature="Eq"),
            lambda turns: turns[2]["content"].insert(0, {"type": "text", "text": "x"}),
            lambda turns: turns[8]["content"].reverse(),
            lambda turns: turns[1]["content"].append(turns[0]["content"][0]),
        ],
        "GeminiAPI": [
            lambda turns: turns[1]["parts"][-1].pop("thoughtSignature"),
            lambda turns: turns[1]["parts"][-1].update(thoughtSignature="Cs"),
            lambda turns: turns[8]["parts"].pop(),
            lambda turns: turns[1]["parts"].append(turns[0]["parts"][0]),
        ],
    }
    for name, wrong in changes.items():
        assert check_server(name, make_body(name, "six turns")) == 6
        for change in wrong:
            with pytest.raises(Refused):
                check_server(name, in_turns(name, change))


@every
def test_a_turn_of_calls_that_were_not_all_run_ends_with_the_last_one(name: str) -> None:
    turn = read_turn(name, 3)
    kept = replace(turn, tool_calls=turn.tool_calls[:1])
    result = Message("tool", ("x", make_view(1)), call_id=kept.tool_calls[0].id)
    body = make_model(name).make_body([Message("user", ("q",)), kept, result], 0, CallOptions())
    said = json.dumps(json.loads(write_request(body)))
    parallel = replies(name)[3]
    assert said.count("0.5, 0.5, 1, 1") + said.count("[0.5, 0.5, 1.0, 1.0]") == 1
    assert "[0, 0, 0.5, 0.5]" in json.dumps(parallel) and "[0, 0, 0.5, 0.5]" not in said


def test_a_thought_before_a_call_that_was_not_run_is_left_out() -> None:
    def block(kind: str, number: int) -> Json:
        return {"type": kind, "id": f"c{number}", "name": "zoom", "input": {}}

    blocks = [block(kind, n) for n in (1, 2) for kind in ("thinking", "tool_use")]
    reply = read("MessagesAPI", json.dumps({"content": blocks}).encode())
    kept = replace(reply.as_message(), tool_calls=reply.tool_calls[:1])
    renamed = replace(kept, tool_calls=(replace(kept.tool_calls[0], id="call_0"),))
    for turn, sent in (
        (reply.as_message(), blocks),
        (kept, blocks[:2]),
        (renamed, [blocks[0], blocks[1] | {"id": "call_0"}]),
    ):
        body = make_model("MessagesAPI").make_body([Message("user", ("q",)), turn])
        assert body["messages"][1]["content"] == sent


@every
def test_a_text_that_was_changed_replaces_the_text_and_keeps_the_thoughts(name: str) -> None:
    turn = replace(read_turn(name, 0), parts=("Changed.",))
    result = Message("tool", ("x",), call_id=turn.tool_calls[0].id)
    body = make_model(name).make_body([Message("user", ("q",)), turn, result], 0, CallOptions())
    said = json.dumps(body)
    assert "Changed." in said and "I look closer." not in said
    assert ("gAAA+/0==" in said) or ("Eq+/0==" in said) or ("Cs+/0A==" in said)


@every
def test_pictures_go_where_the_setting_says(name: str) -> None:
    messages, options, _ = conversations(name)["parallel results"]
    data = {
        where: write_request(make_model(name, pictures=where).make_body(messages, 0, options))
        for where in ("tool", "user", "both")
    }
    base64 = [view.picture.payload.text for view in messages[-1].views]
    assert [body.count(base64[0]) for body in data.values()] == [1, 1, 2]
    last = {where: json.loads(body)[FIELD[name]][-1] for where, body in data.items()}
    is_after = {where: last[where] != last["tool"] for where in last}
    assert is_after == {"tool": False, "user": True, "both": True}
    identities = {make_model(name, pictures=where).identity for where in data}
    assert len(identities) == 3 and make_model(name).identity in identities


FIELD = {"ResponsesAPI": "input", "MessagesAPI": "messages", "GeminiAPI": "contents"}


@table
def test_replies_are_read(
    name: str, body: Json, text: str, finish: str, refusal: str, usage: list[int]
) -> None:
    reply = read(name, json.dumps(body).encode())
    assert (reply.text, reply.finish, reply.refusal) == (text, finish, refusal)
    assert reply.usage == Usage(*usage)


@table
def test_replies_in_another_form_are_errors(
    name: str, status: int, body: Any, retryable: bool, said: str
) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        read(name, json.dumps(body).encode(), status)
    assert caught.value.retryable is retryable


def test_candidates_of_tokens_are_read() -> None:
    likely = {"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "B", "logprob": -2.5}]}
    part = {"type": "output_text", "text": "A", "annotations": [], "logprobs": [likely]}
    reply = read(
        "ResponsesAPI", json.dumps({"output": [{"type": "message", "content": [part]}]}).encode()
    )
    assert reply.logprobs == ({"A": -0.1, "B": -2.5},)
    others = [{"token": "A", "logProbability": -0.1}, {"token": "B", "logProbability": -2.5}]
    result = {"chosenCandidates": others[:1], "topCandidates": [{"candidates": others}]}
    candidate = {
        "content": {"parts": [{"text": "A"}]},
        "finishReason": "STOP",
        "logprobsResult": result,
    }
    reply = read("GeminiAPI", json.dumps({"candidates": [candidate]}).encode())
    assert reply.logprobs == ({"A": -0.1, "B": -2.5},)


@table
def test_settings_become_fields(
    name: str, settings: Json, options: Json, field: str, value: Any
) -> None:
    given: Json = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    body = make_model(name, **settings).make_body(
        [Message("user", ("q",))], 2, CallOptions(**given)
    )
    for step in field.split("."):
        body = body[step]
    assert body == value


@table
def test_settings_that_a_protocol_lacks_are_refused(name: str, settings: Json, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_model(name, **settings)


def test_options_that_a_protocol_lacks_are_refused() -> None:
    lacking = {"ResponsesAPI": "seed stop top_k choices", "MessagesAPI": "seed logprobs choices"}
    values: Json = {"stop": ("x",), "choices": ("A",)}
    cases = [(name, option) for name, text in lacking.items() for option in text.split()]

    def check(name: str, option: str) -> None:
        options = CallOptions(**{option: values.get(option, 3)})
        with pytest.raises(ModelError, match=option):
            make_model(name).make_body([Message("user", ("q",))], 0, options)

    check_all((case, partial(check, *case)) for case in cases)


@every
def test_the_key_goes_to_its_host_in_the_provider_s_header(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, "a-known-key")
    model = MODELS[name]("m", max_tokens=9)
    hosts = {"ResponsesAPI": "api.openai.com", "MessagesAPI": "api.anthropic.com"}
    assert hosts.get(name, "generativelanguage.googleapis.com") in str(model.url)
    assert (
        "a-known-key" in " ".join(model.make_auth_headers("a-known-key").values())
        and not model.missing()
    )
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert bool(model.missing()) is (name == "MessagesAPI")


def test_models_at_one_address_have_their_own_cached_replies() -> None:
    asked = [Message("user", ("q",))]
    keys = {make_request_key(make_model(name).identity, asked, 0, CallOptions()) for name in MODELS}
    assert len(keys) == 3 and URL


def test_schemas_of_tools_are_not_strict_unless_a_stage_asks() -> None:
    (tool,) = make_body("ResponsesAPI", "tools")["tools"]
    assert (tool["name"], tool["strict"]) == ("zoom", False)


def test_server_tools_and_extra_fields_join_those_of_the_agent() -> None:
    messages, options, _ = conversations("MessagesAPI")["tools"]
    search = {"type": "web_search_20250305", "name": "web_search"}
    extra = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}
    model = make_model("MessagesAPI", server_tools=(search,), extra=extra, effort="low")
    body = model.make_body(messages, 0, options)
    assert [tool["name"] for tool in body["tools"]] == ["zoom", "web_search"]
    assert body["output_config"] == {"effort": "max"} and body["thinking"] == extra["thinking"]
