"""API keys: read only from the environment, sent only to their host, never recorded or shown."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from yarl import URL

from looktwice.pipelines.json_input import iterate_leaves
from looktwice.pipelines.model import ModelError

KEY_VARIABLES: Mapping[str, str] = {
    "api.openai.com": "OPENAI_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
    "api.anthropic.com": "ANTHROPIC_API_KEY",
}
"""Host -> the environment variable that holds its key;
LOOKTWICE_KEYS="host=VARIABLE,host:port=VARIABLE" adds more."""

VARIABLE_PATTERN = re.compile(r"[A-Z_][A-Z0-9_]*")
PROXY_VARIABLES = ("https_proxy", "HTTPS_PROXY")
LOOPBACK_PATTERN = re.compile(r"127(\.\d{1,3}){3}")
VISIBLE_ASCII_PATTERN = re.compile(r"[!-~]+")
MIN_MASKED_LENGTH = 8  # characters; masking a shorter key would mask parts of ordinary words


class MissingKeyError(ModelError):
    """Raised if no environment variable holds the key of the model's host."""


def find_key(url: str) -> str | None:
    """Return the key for a URL's host, or None for a host that is not known to need one.

    Raises ModelError for an unusable URL, for a known host without a key, and for sending a key
    over plain http to anything except this machine or the host in OPENAI_BASE_URL.
    """
    at, base = _parse_url(url), os.environ.get("OPENAI_BASE_URL")
    is_named = bool(base) and _parse_url(str(base)).origin() == at.origin()
    is_here = at.host in ("localhost", "::1") or LOOPBACK_PATTERN.fullmatch(at.host or "")
    variables = list_key_variables(at)
    for variable in [*variables, *(["OPENAI_API_KEY"] if is_named else [])]:
        key = os.environ.get(variable, "").strip()
        if not key:
            continue
        if at.scheme != "https" and not (is_named or is_here):
            raise ModelError(
                f"a key would be sent unencrypted to {at.origin()}; use https in `url`"
            )
        if not VISIBLE_ASCII_PATTERN.fullmatch(key):
            raise ModelError(
                f"the key in {variable} contains a line break, a space or another character that"
                " keys never contain; set it again"
            )
        return key
    if variables:
        raise MissingKeyError(f"{at.host} needs a key: set the environment variable {variables[0]}")
    return None


def explain_key_setup(url: str) -> str:
    """Explain how to set a key for a host that is not in the table, as OPENAI_API_KEY is sent only
    to OpenAI."""
    at = _parse_url(url)
    place = f"{at.host}:{at.port}" if at.explicit_port else at.host
    return (
        "keys are sent only to the host that they belong to; set"
        f" LOOKTWICE_KEYS={place}=MY_KEY, where MY_KEY is the name of the environment variable that"
        f" holds the key, or set OPENAI_BASE_URL={url} and OPENAI_API_KEY"
    )


def _parse_url(url: str) -> URL:
    try:
        at = URL(url)
    except ValueError:
        at = URL()
    if at.scheme not in ("http", "https") or not at.host or at.query_string or at.fragment:
        raise ModelError(
            f"{url!r} is not an endpoint; set `url` to something like http://127.0.0.1:8000/v1"
        )
    if at.user is not None or at.password is not None:
        raise ModelError(
            "`url` must not hold a user or key; put the key in an environment variable, and name"
            f" it in LOOKTWICE_KEYS: {at.host}=VARIABLE"
        )
    return at


def _read_key_table() -> list[tuple[str, str]]:
    """Return the pairs of host and variable in LOOKTWICE_KEYS."""
    entries = os.environ.get("LOOKTWICE_KEYS", "").split(",")
    pairs = (entry.partition("=") for entry in entries if entry.strip())
    return [(host.strip().lower(), name.strip()) for host, _, name in pairs]


def list_key_variables(endpoint: URL) -> list[str]:
    """Return the variables that hold a host's key; variables in LOOKTWICE_KEYS come first.

    Raises ModelError if an entry is not a variable name, without repeating it: it may be a key.
    """
    variables = []
    for number, (host, name) in enumerate([*_read_key_table(), *KEY_VARIABLES.items()], 1):
        if not VARIABLE_PATTERN.fullmatch(name):
            raise ModelError(
                f"LOOKTWICE_KEYS: entry {number} is not HOST=VARIABLE, such as"
                f" {endpoint.host}=MY_KEY; put the key itself into that environment variable"
            )
        if host in (endpoint.host, f"{endpoint.host}:{endpoint.port}"):
            variables.append(name)
    return variables


def list_known_keys() -> Sequence[str]:
    """Return every secret that this process may send, longest first: the values of the variables in
    the table and in LOOKTWICE_KEYS, keys put there by mistake, and the user and password of a
    proxy.

    Each is listed as it is, and as JSON, Python, URLs and XML escape it.
    """
    get = os.environ.get
    secrets = [get(name, "").rpartition("@")[0].rpartition("/")[2] for name in PROXY_VARIABLES]
    secrets += [get(name, "").strip() for name in KEY_VARIABLES.values()]
    for _, name in _read_key_table():
        is_variable = VARIABLE_PATTERN.fullmatch(name) or name in os.environ
        secrets.append(os.environ.get(name, "").strip() if is_variable else name)
    return _list_spellings(tuple(key for key in secrets if len(key) >= MIN_MASKED_LENGTH))


@lru_cache(maxsize=8)
def _list_spellings(keys: tuple[str, ...]) -> tuple[str, ...]:
    spelt: set[str] = set()
    for key in keys:
        spelt |= {key, unquote(key), html.escape(key), json.dumps(key)[1:-1], repr(key)[1:-1]}
        spelt |= {quote(key, safe, errors="replace") for safe in ("", "/")}
    return tuple(sorted(spelt, key=len, reverse=True))


def mask_keys(text: str, keys: Sequence[str] | None = None) -> str:
    """Replace every key in a string by ***, since some servers and proxies echo what they were
    sent.

    For many strings, pass the result of `list_known_keys`.
    """
    for key in list_known_keys() if keys is None and text else keys or ():
        text = text.replace(key, "***")
    return text


def reject_keys(**settings: Any) -> None:
    """Raise ValueError if a setting contains a key, because settings are written into every run."""
    for place, leaf in iterate_leaves(settings):
        setting = f"{place}: {leaf}"
        if mask_keys(setting) != setting:
            shown, masked, _ = mask_keys(place).partition("***")
            shown = shown.rpartition(".")[0] if masked else shown  # the key is in a name
            raise ValueError(
                f"{shown} holds a key, and settings are written into every run; leave it"
                " out; keys are sent automatically"
            )
