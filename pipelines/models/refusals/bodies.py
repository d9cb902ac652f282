"""Searches the body of an error, since each provider reports its details in different fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from looktwice.pipelines.json_input import read_json

MAX_SEARCH_DEPTH = 8  # levels of an error that are searched; a gateway wraps its provider's error
MAX_SEARCHED_VALUES = 10_000
MAX_TEXT_LENGTH = 4_000  # characters of a text that are searched


class KeyedValue(NamedTuple):
    """A value in a body and the key above it, in lower case and without separators."""

    key: str
    value: Any


def iterate_values(value: Any) -> Iterator[KeyedValue]:
    """Yield at most `MAX_SEARCHED_VALUES` values of a body with their keys, including those inside
    strings that hold JSON."""
    return islice(_iterate_values(value, "", 0), MAX_SEARCHED_VALUES)


def _iterate_values(value: Any, key: str, depth: int) -> Iterator[KeyedValue]:
    yield KeyedValue(
        simplify_key(key), value[:MAX_TEXT_LENGTH] if isinstance(value, str) else value
    )
    if depth == MAX_SEARCH_DEPTH:
        return
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = read_json(value.encode())
        except ValueError:
            return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _iterate_values(inner, str(name), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_values(inner, key, depth + 1)


def simplify_key(name: Any) -> str:
    """Return a name in lower case without separators: `blockReason` becomes `blockreason`."""
    return "".join(filter(str.isalnum, str(name))).lower()


def find_status(status: int, error: Mapping[str, Any]) -> int:
    """Return the HTTP status of an error; some gateways answer with status 200 and give the real
    one as a number or name in the error."""
    if status != 200:
        return status
    for name in ("code", "status", "http_code", "status_code"):
        code = str(error.get(name))
        if len(code) == 3 and code.isdecimal():
            return int(code)
    names = (str(error.get(name)).lower() for name in ("code", "type", "status"))
    return next((STATUS_BY_CODE[name] for name in names if name in STATUS_BY_CODE), status)


STATUS_BY_CODE = {
    "invalid_request_error": 400,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "model_not_found": 404,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "overloaded_error": 503,
    "service_unavailable": 503,
}
"""The HTTP statuses of error codes and types."""
