"""The providers' own Python clients as a measure: whether a request fits their types, and what they
send for it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

Json = dict[str, Any]
PACKAGES = {"ResponsesAPI": "openai", "MessagesAPI": "anthropic", "GeminiAPI": "google.genai"}


def find_package(name: str) -> str:
    """Return the client of a model's class, or skip the test if it is not installed."""
    package = PACKAGES[name]
    try:
        is_there = find_spec(package) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        pytest.skip(f"needs {package}")
    return package


def to_plain(value: Any) -> Any:
    """Return plain values; pydantic checks the items of an Iterable only during iteration."""
    if isinstance(value, Mapping):
        return {name: to_plain(inner) for name, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return list(map(to_plain, value))
    return value


@cache
def make_adapter(place: str, name: str) -> Any:
    """Return the adapter of a type; the items of an Iterable need it while they are checked."""
    from pydantic import TypeAdapter

    return TypeAdapter(getattr(import_module(place), name))


def check_responses(body: Json) -> None:
    """Check a request against the types of OpenAI's client; unknown fields would be lost."""
    place = "openai.types.responses.response_create_params"
    adapter = make_adapter(place, "ResponseCreateParamsNonStreaming")
    assert to_plain(adapter.validate_python(body)) == body


def check_messages(body: Json) -> None:
    """Check a request against the types of Anthropic's client; unknown fields would be lost."""
    place = "anthropic.types.message_create_params"
    adapter = make_adapter(place, "MessageCreateParamsNonStreaming")
    assert to_plain(adapter.validate_python(body)) == body


def check_contents(body: Json) -> None:
    """Check a request against the types of Google's client, which refuse unknown fields."""
    types: Any = import_module("google.genai.types")
    parts: dict[str, Callable[[Any], Any]] = {
        "contents": lambda value: [types.Content.model_validate(turn) for turn in value],
        "systemInstruction": types.Content.model_validate,
        "tools": lambda value: [types.Tool.model_validate(tool) for tool in value],
        "toolConfig": types.ToolConfig.model_validate,
        "generationConfig": types.GenerationConfig.model_validate,
    }
    for field, value in body.items():
        made = parts[field](value)
        many = made if isinstance(made, list) else [made]
        given = value if isinstance(value, list) else [value]
        dumped = [one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in many]
        assert standard_base64(dumped) == standard_base64(given), field


CHECKS = {
    "ResponsesAPI": check_responses,
    "MessagesAPI": check_messages,
    "GeminiAPI": check_contents,
}


def standard_base64(node: Any, key: str = "") -> Any:
    """Return JSON values with the bytes of pictures and signatures instead of their base64, which
    Google's client writes with other characters, and keys in one spelling."""
    if isinstance(node, dict):
        return {camel(name): standard_base64(inner, camel(name)) for name, inner in node.items()}
    if isinstance(node, list):
        return [standard_base64(inner) for inner in node]
    if key in ("data", "thoughtSignature") and isinstance(node, str):
        return base64.urlsafe_b64decode(node.replace("+", "-").replace("/", "_"))
    return node


def camel(name: str) -> str:
    """Return a name in the spelling `inlineData`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
