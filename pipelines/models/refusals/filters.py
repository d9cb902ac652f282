"""Recognises a content filter's verdict, in the form in which each provider reports it.

Sources: the error and finish reasons of OpenAI, Azure OpenAI, Anthropic, Gemini and Vertex AI,
Bedrock, Databricks, Cohere, xAI, OpenRouter, LiteLLM, Cloudflare AI Gateway, DashScope, Zhipu,
Moonshot, DeepSeek, MiniMax, StepFun and Volcengine, as documented or reported in 2024 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from looktwice.pipelines.models.refusals.bodies import find_status, iterate_values, simplify_key
from looktwice.pipelines.models.wire import FINISH_BY_REASON, find_error

Json = dict[str, Any]

UNRELATED_STATUSES = {401, 402, 404, 407, 408, 429}
"""Statuses that no filter uses: they concern the key, the account, the model name or the rate."""

FILTER_NAMES_PATTERN = re.compile(
    r"contentfilter|contentfiltered|contentpolicy|(image)?contentpolicyviolation(error)?"
    r"|contentblocked|contentsafetyviolation|sensitivewordsdetected|ipinfringementsuspect"
    r"|responsibleaipolicyviolation|datainspectionfailed|moderation(blocked|failed|error)?"
    r"|contentmoderation|inputmoderation|outputmoderation|promptblocked|responseblocked"
    r"|censorshipblocked|prohibitedcontent|safetyblocked|safetyerror|contentsafety"
    r"|contentrejected"
    r"|(input|output)?(text|image|video|audio)?(sensitivecontentdetected|riskdetection)"
    r"|(text|image|video|audio)illegaldetected|unsafecontent|hooksfailed"
    r"|(input|output)?guardrail(intervened|triggered|violation|blocked)"
)
"""Error codes and types in lower case without separators; each part of a dotted one is matched."""

FILTER_NAME_FIELDS = {"code", "type", "errortype", "errorcode", "reason", "status", "finishreason"}
FILTER_MESSAGE_FIELDS = {
    "message",
    "error",
    "detail",
    "details",
    "msg",
    "errormsg",
    "statusmsg",
    "raw",
    "title",
}

FILTER_SENTENCES_PATTERN = re.compile(
    r"\bflagged\b"
    r"|violat\w+[^.]*\b(usage|content|safety|acceptable.use|community|moderation|guardrails?"
    r"|responsible)\b[^.]*(polic|guideline|standard|rule|practice)"
    r"|(filtered|blocked|rejected|refused|stopped|trigger\w*)[^.]*"
    r"\b(content[ -](management|filter\w*|moderation|safety)|safety[ -](system|filter|polic)\w*)\b"
    r"|\bresponsible ai practices"
    r"|\b(content|prompt|output|outputted)\b(?!-)[^.]*\b(is|was|been|were)"
    r" (blocked|censored|filtered)\b"
    r"|\b(prompt|response|content) (blocked|filtered)\b|blocked\b.{0,200}\bprohibited_content\b"
    r"|\bnot (allowed|permitted) by\b[^.]*\bsafety\b|\bnsfw content\b"
    r"|\binappropriate content\b(?![ -]?type)|\bunsafe or sensitive content"
    r"|\bsensitive (content|words?)\b"
    r"|\bcontains?\b[^.]{0,40}\b(harmful|illegal|inappropriate|nsfw|prohibited|sensitive|unsafe)"
    r" (content|information|material|words?)\b"
    r"|\bcontent exists risk\b|\bconsidered high risk\b|\bnew_sensitive\b"
    r"|\bguardrails? (checks?\b[^.]*\bfailed|intervened|triggered|blocked)"
    r"|\bcontent_?policy_?violation|\bdata_?inspection_?failed\b|\bresponsibleaipolicyviolation\b"
    r"""|['"](code|type)['"]: ?['"](content_filter|content_policy_violation)['"]"""
    r"|(敏感|不安全|违规|不合规)[^。]{0,6}(内容|信息|词)|内容(安全)?审核[^。]{0,4}[不未]通过",
    re.I,
)
"""Phrases that providers use for a request or reply stopped by a filter."""

FLAGGED_SUBJECT_PATTERN = re.compile(
    r"\b(?P<owner>accounts?|organi[sz]ations?|keys?|projects?|workspaces?|teams?|tenants?"
    r"|users?|customers?|subscriptions?|billing|payments?|cards?|ip|addresse?s?|devices?|regions?"
    r"|countr(y|ies)|clients?|applications?|login"
    r"|(models?|parameters?|arguments?|fields?|features?|endpoints?)"
    r"(?=( \S+){0,2} (is|was|are|were|has|have)\b))\b"
    r"|\b(content|prompts?|inputs?|outputs?|requests?|responses?|messages?|images?|texts?)\b",
    re.I,
)
"""The subject that is flagged or violates a policy: if it is an owner or a setting, the content was
not filtered."""

FILTER_FLAGS = {"filtered", "blocked", "inputsensitive", "outputsensitive"}
"""Fields that are set to true beside an empty reply that a filter stopped."""

FILTER_FAILURE_PATTERN = re.compile(
    r"\b(service|system|filter\w*|moderation|guardrails?|safety|check\w*)\b[^.]{0,40}\b(unavailable"
    r"|unreachable|timed? ?out|overloaded|could not be reached|(did|does) not respond)\b",
    re.I,
)
"""Phrases for a failure of the filter itself, which then gave no verdict."""

ACCOUNT_BLOCKED_PATTERN = re.compile(
    r"\b(has|have|is|was|were) (been )?(\w+ly )?"
    r"(suspended|deactivated|disabled|banned|terminated)\b|\bsuspicious\b|\bfraud",
    re.I,
)


def is_filter_error(error: Any, status: int) -> bool:
    """Return whether the body of an error says that a content filter stopped the request."""
    status = find_status(status, error if isinstance(error, Mapping) else {})
    if status in UNRELATED_STATUSES:
        return False
    values = [*iterate_values(error)]
    if any(
        key in FILTER_MESSAGE_FIELDS and FILTER_FAILURE_PATTERN.search(str(value))
        for key, value in values
    ):
        return False
    for key, value in values:
        if isinstance(value, str):
            parts = map(simplify_key, value.split("."))
            is_named = key in FILTER_NAME_FIELDS and any(map(FILTER_NAMES_PATTERN.fullmatch, parts))
            is_found = is_named or (key in FILTER_MESSAGE_FIELDS and _says_filtered(value))
        elif key == "metadata" and isinstance(value, Mapping):
            is_found = _gives_reasons(value)
        else:  # Zhipu lists the roles whose content it stopped
            is_listed = key == "contentfilter" and isinstance(value, list) and bool(value)
            is_found = is_listed or (key == "filtered" and value is True)
        if is_found:
            return True
    return False


def _gives_reasons(metadata: Mapping[str, Any]) -> bool:
    """Return whether OpenRouter's error metadata lists what moderation found in the request."""
    reasons = metadata.get("reasons")
    if not isinstance(reasons, list) or not reasons:
        return False
    return not any(
        found["owner"] for found in FLAGGED_SUBJECT_PATTERN.finditer(" ".join(map(str, reasons)))
    )


def _says_filtered(text: str) -> bool:
    match = FILTER_SENTENCES_PATTERN.search(text)
    if match is None or ACCOUNT_BLOCKED_PATTERN.search(text):
        return False
    subjects = [*FLAGGED_SUBJECT_PATTERN.finditer(text, 0, match.start())]
    return not (subjects and subjects[-1]["owner"])


def normalize_verdict(data: Any) -> Any:
    """Return a completion with a normalised finish reason, and with a filter's verdict in the
    standard fields for reason and message; anything else is returned unchanged."""
    if not isinstance(data, dict):
        return data
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    if not isinstance(choice, dict):
        return data
    given = choice.get("message")
    message: Json = given if isinstance(given, dict) else {}
    reason = simplify_reason(choice.get("finish_reason"))
    is_filtered = FINISH_BY_REASON.get(reason) == "filter"
    is_whole = (message.get("content") or message.get("tool_calls")) and not find_error(data)
    if not is_filtered and (FINISH_BY_REASON.get(reason) == "failed" or not is_whole):
        is_filtered = any(_iterate_verdicts(data, choice))
    if is_filtered:
        reason = reason if FINISH_BY_REASON.get(reason) == "filter" else "content_filter"
        data, choice, message = map(_strip_error, (data, choice, message))
        choice |= {"message": message, "finish_reason": reason}
    elif choice and reason in FINISH_BY_REASON:
        choice = choice | {"finish_reason": reason}
    else:
        return data
    return data | {"choices": [choice]}


def _strip_error(node: Json) -> Json:
    return {name: value for name, value in node.items() if name != "error"}


def _iterate_verdicts(data: Json, choice: Json) -> Iterator[bool]:
    """Yield, for each field that may hold a filter's verdict, whether it does."""
    candidates = data.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else {}
    details = data.get("incomplete_details")
    for place, name in (
        (choice, "native_finish_reason"),
        (choice, "finishReason"),
        (choice, "stop_reason"),
        (data, "stop_reason"),
        (data, "finish_reason"),
        (data, "finishReason"),
        (candidate, "finishReason"),
        (candidate, "finish_reason"),
        (details, "reason"),
    ):
        given = place.get(name) if isinstance(place, dict) else None
        yield FINISH_BY_REASON.get(simplify_reason(given)) == "filter"
    yield is_prompt_blocked(data) or is_prompt_blocked(choice)
    yield bool(choice.get("error")) and is_filter_error(choice["error"], 200)
    for key, value in iterate_values(data):
        yield key in FILTER_FLAGS and value is True
        yield key == "amazonbedrockguardrailaction" and value == "INTERVENED"
    yield not data.get("choices") and is_filter_error(data, 200)


def is_prompt_blocked(data: Mapping[str, Any]) -> bool:
    """Return whether a response of Gemini's generateContent gives a reason for blocking the
    prompt."""
    for name in ("promptFeedback", "prompt_feedback"):
        feedback = data.get(name)
        if isinstance(feedback, Mapping):
            reason = feedback.get("blockReason") or feedback.get("block_reason")
            if reason and "unspecified" not in str(reason).lower():
                return True
    return False


def simplify_reason(reason: Any) -> str:
    """Return a finish reason without the prefix of its enumeration: `FinishReason.SAFETY`,
    `FINISH_REASON_SAFETY` and `Safety` all become `safety`."""
    words = re.findall(r"[A-Za-z_][\w-]*", str(reason or ""))
    if not words:
        return str(reason or "")
    if words[0] == "content_filter":  # and why, as in `content_filter: OTHER`
        return "content_filter"
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", words[-1]).lower().replace("-", "_")
    return snake.removeprefix("finish_reason_")
