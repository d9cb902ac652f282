"""`looktwice serve pocket` as other programs use it: OpenAI's client, ours, and the local model
agree."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from looktwice.eval.tasks import MarkedScenes
from looktwice.pipelines import CallOptions, ChatAPI, Message, Pipeline, State, View
from looktwice.pipelines.models import Pocket
from looktwice.prompting import Circles, MultipleChoice
from tests.extras.integrations.served import OPENER, post, refusal
from tests.first_day.studies import looktwice
from tests.optional import optional
from tests.paths import ROOT

openai = optional("openai")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    program = "from looktwice.eval.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "pocket", "--port", "0"]
    more = {"PYTHONPATH": str(ROOT / "typings"), "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    env = os.environ | more
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("pocket answers at http://127.0.0.1:"), line
            yield line.split()[3].rstrip(";")
        finally:
            process.kill()


def prompts() -> list[tuple[View, str]]:
    """Return marked images with the text of the question."""
    shown = Pipeline({"mark": Circles(radius=28), "choose": MultipleChoice()})
    items = [item for kind in ("shape", "larger") for item in MarkedScenes(kind, n=4)]
    states = [shown(State.start(item.sample)) for item in items]
    return [(state.views[0], state.prompt) for state in states]


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.slow
def test_the_client_of_openai_gets_the_same_answers(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["pocket"]
    for view, words in prompts():
        image = {"type": "image_url", "image_url": {"url": view.picture.payload.data_url}}
        content = [image, {"type": "text", "text": words}]
        turns = [{"role": "user", "content": content}]
        completion = client.chat.completions.create(
            model="pocket", messages=turns, n=2, logprobs=True, top_logprobs=3
        )
        here = Pocket()([Message("user", (view, words))], options=CallOptions(logprobs=3))
        assert [choice.message.content for choice in completion.choices] == [here.text, here.text]
        tops = [token.top_logprobs for token in completion.choices[0].logprobs.content]
        assert [{top.token: top.logprob for top in each} for each in tops] == list(here.logprobs)
        assert completion.usage.prompt_tokens == here.usage.tokens_in


def test_our_client_gets_the_same_answers_and_likelihoods(url: str) -> None:
    served, here = ChatAPI("pocket", url, choices_as="structured_outputs"), Pocket()
    for view, words in prompts()[::3]:
        asked = [Message("system", ("You see images.",)), Message("user", (view, words))]
        first, second = served(asked), here(asked)
        assert (first.text, first.finish, first.usage) == (second.text, second.finish, second.usage)
        options = CallOptions(choices=("A", "B"), logprobs=2)
        first, second = served(asked, options=options), here(asked, options=options)
        assert first.text == second.text
        assert list(first.logprobs[0].items()) == list(second.logprobs[0].items())


def test_an_unanswerable_question_is_an_error_of_its_request(client: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    for content, more, says in (
        ([image], {}, "nothing is fetched"),
        ("Which?", {"response_format": form}, "response_format"),
    ):
        turns = [{"role": "user", "content": content}]
        with pytest.raises(openai.BadRequestError, match=says):
            client.chat.completions.create(model="pocket", messages=turns, **more)


def test_a_page_in_a_browser_cannot_send_requests(url: str) -> None:
    body = {"messages": [{"role": "user", "content": "Which?"}]}
    for headers in ({"Content_Type": "text/plain"}, {"Host": "evil.example"}):
        assert post(url, body, **headers).status == 403


def test_requests_for_another_host_are_refused(url: str) -> None:
    assert refusal(f"{url}/models", Host="evil.example") == 403
    with OPENER.open(f"{url}/models", timeout=10) as answer:
        assert b"pocket" in answer.read()


def test_another_model_and_a_port_in_use_are_reported(url: str) -> None:
    taken = url.split(":")[2].split("/")[0]
    for words, says in (
        (["gpt"], "serve gpt: no such study"),
        (["pocket", "--port", taken], f"port {taken} cannot be used"),
    ):
        result = looktwice("serve", *words)
        assert result.exit_code == 2 and says in result.output
