"""Our requests against the types of the providers' own clients."""

from __future__ import annotations

import json
from functools import partial

import pytest

from looktwice.pipelines.models.wire import write_request
from tests.extras.wires.client_types import CHECKS, find_package
from tests.extras.wires.conversations import Asked, conversations, make_model
from tests.tables import check_all

every = pytest.mark.parametrize("name", CHECKS)


def check(name: str, asked: Asked) -> None:
    messages, options, settings = asked
    body = make_model(name, **settings).make_body(messages, 0, options)
    CHECKS[name](json.loads(write_request(body)))


@every
def test_requests_fit_the_types_of_the_provider_s_client(name: str) -> None:
    find_package(name)
    cases = conversations(name)
    assert len(cases) == 10
    check_all((title, partial(check, name, asked)) for title, asked in cases.items())


@every
def test_the_types_notice_an_unknown_field(name: str) -> None:
    find_package(name)
    messages, options, settings = conversations(name)["tools"]
    body = json.loads(write_request(make_model(name, **settings).make_body(messages, 0, options)))
    with pytest.raises((AssertionError, KeyError, ValueError)):
        CHECKS[name](body | {"pictures": "tool"})
