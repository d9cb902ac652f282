"""Turns the response of a chat endpoint into a reply, or into an error with advice on which setting
to change. API keys are masked here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from yarl import URL

from looktwice.pipelines.counted import shorten_text
from looktwice.pipelines.json_input import map_texts, read_json
from looktwice.pipelines.model import CALLS_AS_TEXT_ADVICE, ModelError, Reply, Usage
from looktwice.pipelines.models.http_client import HttpResponse
from looktwice.pipelines.models.keys import (
    explain_key_setup,
    find_key,
    list_key_variables,
    list_known_keys,
    mask_keys,
)
from looktwice.pipelines.models.refusals.bodies import find_status
from looktwice.pipelines.models.refusals.filters import is_filter_error, normalize_verdict
from looktwice.pipelines.models.refusals.waits import read_retry_after
from looktwice.pipelines.models.wire import find_billed_usage, find_error, parse_reply

QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached"}


STATUS_ADVICE = {
    401: "check the key in {key}",
    402: "check the account's credit",
    403: "check the key in {key} and its permissions",
    404: "check `url` (it usually ends in /v1) and the model's name",
    413: "the request is too large; show smaller or fewer pictures",
}


ATTACHED_REGEX = "(reasoning_(content|details)|thinking_blocks|thought_?signature|extra_content)"


SETTING_ADVICE = (
    (
        rf"(missing|lacks?)\b.*{ATTACHED_REGEX}|{ATTACHED_REGEX}.*(missing|must be passed)",
        "an earlier reply lacks fields that must be sent back; run again with another `--cache`",
    ),
    (
        rf"messages?[\w.\[\]]*\.(reasoning\b|{ATTACHED_REGEX})|(property|field|name|parameter)\W+{ATTACHED_REGEX}",
        "make the stage drop what was attached to its replies: `history: {attached: drop}`",
    ),
    (r"max_tokens.*max_completion_tokens", "set `token_field: max_completion_tokens`"),
    (r"max_completion_tokens", "set `token_field: max_tokens`"),
    (
        r"context.?(length|window)|max_tokens|max_model_len",
        "set `max_tokens` lower, or show fewer or smaller pictures",
    ),
    (
        r"only.*default \(1\)|temperature",
        "leave `temperature` out, or set it to a value that the message allows",
    ),
    (r"top_logprobs|logprobs", "leave `logprobs` out, or ask for fewer"),
    (
        r"reasoning_effort|reasoning.effort",
        "leave `effort` out, or set it to a value that the message allows",
    ),
    (r"\btop_p\b", "leave `top_p` out"),
    (r"\bseed\b", "leave `seed` out"),
    (r"\bstop\b(?! sign)", "leave `stop` out, or give fewer stop sequences"),
    (r"guided_|structured_outputs", "set `choices_as` to what this server takes"),
    (
        r"json_schema|response_format",
        "leave the stage's schema out, or use a model that supports schemas",
    ),
    (
        r"tool[_ ]choice|\btools?\b",
        f"serve the model with tool calls enabled, or {CALLS_AS_TEXT_ADVICE}",
    ),
    (
        r"image_url|multimodal|vision|image input|images? (are|is) not",
        "use a model that accepts images",
    ),
    (r"\bsystem\b.*(role|message|prompt)", "leave `system` out"),
    (
        r"model.*(not exist|not found|not a valid|invalid)",
        "set `model` to a name that this server lists",
    ),
)
"""Patterns in servers' error messages, and the advice about our setting that causes them; the first
match counts."""


def read_response(response: HttpResponse, endpoint: str, seconds: float) -> Reply:
    """Read the reply in a response; a filtered request is a reply, too. Raises ModelError for
    anything else, including an empty reply without billed tokens, which is an unreported failure of
    the server."""
    keys = list_known_keys()
    data, error, no_json = _parse_body(response, keys)
    engine = response.headers.get("server", "")
    if error and is_filter_error(_collect_errors(data, error), find_status(response.status, error)):
        served_by = {"engine": engine} if engine else {}
        usage = find_billed_usage(data) or Usage()
        return Reply("", finish="filter", usage=usage, seconds=seconds, served_by=served_by)
    given, data = data, normalize_verdict(data)
    if error and response.status == 200 and data is not given and given.get("choices"):
        error = find_error(data)  # a verdict removes the error next to it
    if error or not 200 <= response.status < 300:
        fault = make_refusal(response, endpoint, error or {}, data)
        fault.usage = find_billed_usage(data)
        raise fault
    if data is None:
        # without a status, it counts as a failure of the endpoint, not of the sample
        raise ModelError(
            f"{endpoint} did not answer with JSON ({no_json or 'null'}); check that `url` is right:"
            f" {_quote_start(response.body)}",
            retryable=True,
        )
    reply = parse_reply(data, seconds, engine)
    if reply.is_blank:
        raise ModelError(
            f"{endpoint} returned an empty reply and billed no token for it",
            status=200,
            retryable=True,
            usage=reply.usage,
        )
    if not keys:
        return reply
    # tokens, and parts of a text, may spell a key that none of them holds alone
    spelt = "".join(next(iter(token), "") for token in reply.logprobs)
    return replace(
        reply,
        text=mask_keys(reply.text, keys),
        reasoning=mask_keys(reply.reasoning, keys),
        refusal=mask_keys(reply.refusal, keys),
        logprobs=reply.logprobs if mask_keys(spelt, keys) == spelt else (),
    )


def read_value(response: HttpResponse, endpoint: str) -> Any:
    """Read the JSON value of a response that is not a chat completion. Raises ModelError for a
    refusal and for anything that is not JSON."""
    data, error, fault = _parse_body(response, list_known_keys())
    if error or not 200 <= response.status < 300:
        raise make_refusal(response, endpoint, error or {}, data)
    if fault:
        raise ModelError(
            f"{endpoint} did not answer with JSON ({fault}): {_quote_start(response.body)}"
        )
    return data


def make_refusal(
    response: HttpResponse, endpoint: str, error: Mapping[str, Any], data: Any = None
) -> ModelError:
    """Make the ModelError for an error response: 408, 429 and 5xx are retryable, unless the
    account's quota is used up."""
    code, status = error.get("code"), find_status(response.status, error)
    if 300 <= status < 400:
        target = response.headers.get("location", "nowhere")
        fault = f"{endpoint} redirects to {target}, which is not followed; set `url` yourself"
        return ModelError(fault, status=status)
    message = shorten_text(str(error.get("message") or "")) or _quote_start(response.body)
    fault = f"{endpoint} answered {status}: {message}"
    is_used_up = bool(QUOTA_CODES & {str(code), str(error.get("type"))})
    if (status in (200, 408, 429) or status >= 500) and not is_used_up:
        wait = read_retry_after(response.headers, _collect_errors(data, error or message), status)
        return ModelError(fault, status=status, retryable=True, retry_after=wait)
    setting = next(
        (advice for words, advice in SETTING_ADVICE if re.search(words, message, re.I)), ""
    )
    if is_used_up:
        advice = "the account's quota is used up"
    elif status in (401, 403) and not find_key(endpoint):
        advice = f"no key was sent: {explain_key_setup(endpoint)}"
    elif setting.startswith(("set `", "leave `")):
        advice = f"{setting} (in its node of the study: `model:`, or `models.NAME:`)"
    elif setting:
        advice = setting
    else:
        variable = next(iter(list_key_variables(URL(endpoint))), "OPENAI_API_KEY")
        others = "check the settings that the message names, or leave them out"
        advice = STATUS_ADVICE.get(status, others).format(key=variable)
    return ModelError(f"{fault}; {advice}", status=status)


def _parse_body(
    response: HttpResponse, keys: Sequence[str]
) -> tuple[Any, Mapping[str, Any] | None, str]:
    """Return the value of a body with keys masked, the error in it, and why it is not JSON. All
    server output passes through here."""
    try:
        value = read_json(response.body)
    except ValueError as exc:
        is_text = response.status >= 300 and not response.body.lstrip().startswith(b"<")
        return None, {"message": _quote_start(response.body)} if is_text else None, str(exc)
    value = map_texts(value, partial(mask_keys, keys=keys)) if keys else value
    error = find_error(value)
    if error is None and response.status >= 300 and isinstance(value, dict | str):
        # some send the code and the message, or only a text, without an object around them
        error = {"message": value} if isinstance(value, str) else value
    return value, error, ""


def _collect_errors(data: Any, error: Any) -> list[Any]:
    """Return an error and the rest of its body, without the model's own text."""
    body = data if isinstance(data, dict) else {}
    rest = {key: value for key, value in body.items() if key != "choices"}
    return [error, rest]


def _quote_start(body: bytes) -> str:
    """Return the beginning of an unexpected body, with keys masked."""
    return shorten_text(mask_keys(body.decode(json.detect_encoding(body), "replace")[:10_000]))
