"""Keys: which host gets which, from the environment alone, and that none is written down or
shown."""

from __future__ import annotations

import html
import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from yarl import URL

from looktwice.pipelines.json_input import mend_text
from looktwice.pipelines.model import ModelError

KEYS: Mapping[str, str] = {
    "api.openai.com": "OPENAI_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
    "api.anthropic.com": "ANTHROPIC_API_KEY",
}
"""Host -> the environment variable that holds its key;
LOOKTWICE_KEYS="host=VARIABLE,host:port=VARIABLE" adds more."""

VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
PROXIES = ("https_proxy", "HTTPS_PROXY")
VISIBLE = re.compile(r"[!-~]+")
SHORTEST = 8  # characters: a shorter key is part of too many other words to be masked
ESCAPES = "\\%&"  # every escape begins with one of them
ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-f]{1,5})\}|u([0-9a-f]{4})|U000([0-9a-f]{5})|x([0-9a-f]{2})|([0-7]{3})|([^\w\s]))",
    re.I,
)
INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
ROUNDS = 4  # of escapes within escapes; what is read of a reply is never decoded more than twice


class MissingKeyError(ModelError):
    """No environment variable holds the key of the model's host."""


def key_for(url: str) -> str | None:
    """The key that belongs to a URL's host, or None for a host that is not known to need one.

    Raises ModelError for a URL that cannot be used, a known host without a key, and a key over
    plain http to anything but this machine or what OPENAI_BASE_URL names.
    """
    at = _parsed(url)
    named = _named(at)
    variables = key_variables(at) + (["OPENAI_API_KEY"] if named else [])
    keys = [
        (name, os.environ[name].strip()) for name in variables if os.environ.get(name, "").strip()
    ]
    if not keys:
        if key_variables(at):
            raise MissingKeyError(
                f"{at.host} needs a key: set the environment variable {key_variables(at)[0]}"
            )
        return None
    if at.scheme != "https" and not (named or _loopback(at)):
        raise ModelError(f"a key would travel readably to {at.origin()}; use https in `url`")
    variable, key = keys[0]
    if not VISIBLE.fullmatch(key):
        raise ModelError(
            f"the key in {variable} holds a line break, a space or another character that no key"
            " has; set it again"
        )
    return key


def how_to_send_a_key(url: str) -> str:
    """What to type so that a host that is not in the table gets a key; OPENAI_API_KEY alone goes to
    OpenAI."""
    at = _parsed(url)
    place = f"{at.host}:{at.port}" if at.explicit_port else at.host
    return (
        "keys go only to the host that they belong to; name the variable that holds this one, as"
        f" in LOOKTWICE_KEYS={place}=MY_KEY, or set OPENAI_BASE_URL={url} and OPENAI_API_KEY"
    )


def _parsed(url: str) -> URL:
    try:
        at = URL(url)
        usable = (
            at.scheme in ("http", "https")
            and bool(at.host)
            and not at.query_string
            and not at.fragment
        )
    except ValueError:
        usable = False
    if not usable:
        raise ModelError(
            f"{url!r} is no endpoint; set `url` to something like http://127.0.0.1:8000/v1"
        )
    if at.user is not None or at.password is not None:
        raise ModelError(
            "`url` must not hold a user or key; name its variable in LOOKTWICE_KEYS:"
            f" {at.host}=VARIABLE"
        )
    return at


def key_variables(at: URL) -> list[str]:
    """The variables that hold a host's key: those of the user's own table, then of ours.

    Raises ModelError where the table holds what cannot be the name of a variable; it is not
    repeated.
    """
    entries = [
        entry.strip().partition("=")
        for entry in os.environ.get("LOOKTWICE_KEYS", "").split(",")
        if entry.strip()
    ]
    for number, (_, _, name) in enumerate(entries, 1):
        if not VARIABLE.fullmatch(name.strip()):
            raise ModelError(
                f"LOOKTWICE_KEYS: entry {number} is no HOST=VARIABLE, such as {at.host}=MY_KEY; put"
                " the key itself into that environment variable"
            )
    own = [
        name.strip()
        for host, _, name in entries
        if host.strip().lower() in (at.host, f"{at.host}:{at.port}")
    ]
    return own + [KEYS[host] for host in (at.host or "",) if host in KEYS]


def known_keys() -> list[str]:
    """Every secret that this process may send, the longest first: what the variables named here and
    in LOOKTWICE_KEYS hold, what stands there instead, and the user and password of a proxy."""
    named = [
        entry.partition("=")[2].strip() for entry in os.environ.get("LOOKTWICE_KEYS", "").split(",")
    ]
    held = [
        os.environ.get(name, "").strip() for name in (*KEYS.values(), *filter(_is_variable, named))
    ]
    held += [os.environ.get(name, "").rpartition("@")[0].rpartition("/")[2] for name in PROXIES]
    held += [name for name in named if not _is_variable(name)]
    return list(_with_decoded(tuple(filter(None, held))))


@lru_cache(maxsize=8)
def _with_decoded(held: tuple[str, ...]) -> tuple[str, ...]:
    """The keys and what they are once decoded, the longest first."""
    every = {key for key in (*held, *map(_decoded, held)) if len(key) >= SHORTEST}
    return tuple(sorted(every, key=len, reverse=True))


def _is_variable(name: str) -> bool:
    return bool(VARIABLE.fullmatch(name)) or name in os.environ


def mask_keys(text: str, keys: Sequence[str] | None = None) -> str:
    """A text with *** for every key: some servers and proxies send back what they were sent.

    A key that is written with the escapes of JSON, XML or URLs, in wide letters or with invisible
    ones between, would be there again once somebody decodes or reads the text: then the whole text
    is given back decoded. Other ciphers, which nothing here undoes, stay. Who has many texts gives
    the `known_keys` along.
    """
    if len(text) < SHORTEST or not (keys := known_keys() if keys is None else keys):
        return text
    shown = decoded = text
    for _ in range(ROUNDS):
        for key in keys:
            if key in decoded:
                shown = decoded = mend_text(decoded.replace(key, "***"))
        if decoded.isascii() and not any(sign in decoded for sign in ESCAPES):
            break
        decoded = _decoded(decoded)
    return shown


def _decoded(text: str) -> str:
    """The text with one layer of escapes undone."""

    def character(found: re.Match[str]) -> str:
        *hexadecimal, octal, itself = found.groups()
        return itself or chr(int(octal, 8) if octal else int(next(filter(None, hexadecimal)), 16))

    plain = html.unescape(unquote(ESCAPE.sub(character, text)))
    return plain if plain.isascii() else INVISIBLE.sub("", unicodedata.normalize("NFKC", plain))


def refuse_keys(**settings: Any) -> None:
    """Raises ValueError where a setting holds a key, with its place: settings are written into
    every run."""
    for name, value in settings.items():
        words = json.dumps(value, ensure_ascii=False, default=str)
        if mask_keys(words) != words:
            place = mask_keys(".".join((name, *_place_of_key(value))))
            raise ValueError(
                f"{place} holds a key, and settings are written into every run; leave it out, it is"
                " sent by itself"
            )


def _place_of_key(value: Any) -> list[str]:
    """The names and numbers that lead to the first text that holds a key; none where it is in a
    name."""
    inner = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    )
    for name, held in inner:
        words = json.dumps(held, ensure_ascii=False, default=str)
        if mask_keys(words) != words:
            return [str(name), *_place_of_key(held)]
    return []


def _named(at: URL) -> bool:
    """Whether OPENAI_BASE_URL names the same scheme, host and port."""
    base = os.environ.get("OPENAI_BASE_URL")
    return bool(base) and _parsed(str(base)).origin() == at.origin()


def _loopback(at: URL) -> bool:
    return at.host in ("localhost", "::1") or bool(
        re.fullmatch(r"127(\.\d{1,3}){3}", at.host or "")
    )
