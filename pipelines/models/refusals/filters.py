"""Recognises the verdict of a content filter, in the form that each provider gives it.

Sources: the error and finish reasons of OpenAI, Azure OpenAI, Anthropic, Gemini and Vertex AI,
Bedrock, Databricks, Cohere, xAI, OpenRouter, LiteLLM, Cloudflare AI Gateway, DashScope, Zhipu,
Moonshot, DeepSeek, MiniMax, StepFun and Volcengine, as documented or reported in 2024 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from looktwice.pipelines.models.refusals.bodies import plain_key, status_of, walk
from looktwice.pipelines.models.wire import FINISH

Json = dict[str, Any]

OTHER_STATUS = {401, 402, 404, 407, 408, 429}
"""Statuses that never are a filter's: they are about the key, the account, the name or the pace."""

NAMES = re.compile(
    r"contentfilter|contentfiltered|contentpolicy|contentpolicyviolation(error)?|contentblocked"
    r"|responsibleaipolicyviolation|datainspectionfailed|moderation(blocked|failed|error)?"
    r"|contentmoderation|inputmoderation|outputmoderation|promptblocked|responseblocked"
    r"|censorshipblocked|prohibitedcontent|safetyblocked|safetyerror|contentsafety(violation)?"
    r"|contentrejected"
    r"|(input|output)?(text|image|video|audio)?sensitivecontentdetected|unsafecontent"
    r"|(input|output)?guardrail(intervened|triggered|violation|blocked)"
)
"""Codes and types of errors, in lower case without separators; each part of a dotted one counts."""

NAMED_BY = {"code", "type", "errortype", "errorcode", "reason", "status", "finishreason"}
SAID_BY = {"message", "error", "detail", "details", "msg", "errormsg", "statusmsg", "raw", "title"}

SENTENCES = re.compile(
    r"\bflagged\b"
    r"|violat\w+[^.]*\b(usage|content|safety|acceptable.use|community|moderation|guardrails?"
    r"|responsible)\b[^.]*(polic|guideline|standard|rule|practice)"
    r"|(filtered|blocked|rejected|refused|stopped|trigger\w*)[^.]*"
    r"\b(content[ -](management|filter\w*|moderation|safety)|safety[ -](system|filter|polic)\w*)\b"
    r"|\bresponsible ai practices"
    r"|\b(content|prompt|output|outputted)\b(?!-)[^.]*\b(is|was|been|were)"
    r" (blocked|censored|filtered)\b"
    r"|\b(prompt|response) blocked\b|blocked\b.{0,200}\bprohibited_content\b"
    r"|\binappropriate content|\bunsafe or sensitive content|\bsensitive (content|words?)\b"
    r"|\bcontent exists risk\b|\bconsidered high risk\b|\bnew_sensitive\b"
    r"|\bguardrails? (intervened|triggered|blocked)"
    r"|\bcontent_?policy_?violation|\bdata_?inspection_?failed\b|\bresponsibleaipolicyviolation\b"
    r"""|['"](code|type)['"]: ?['"](content_filter|content_policy_violation)['"]"""
    r"|(敏感|不安全|违规|不合规)[^。]{0,6}(内容|信息|词)|内容(安全)?审核[^。]{0,4}[不未]通过",
    re.I,
)
"""What providers say of a request or a reply that a filter stopped."""

SUBJECTS = re.compile(
    r"\b(?P<owner>accounts?|organi[sz]ations?|keys?|projects?|workspaces?|teams?|tenants?"
    r"|users?|customers?|subscriptions?|billing|payments?|cards?|ip|addresse?s?|devices?|regions?"
    r"|countr(y|ies)|clients?|applications?|login)\b"
    r"|\b(content|prompts?|inputs?|outputs?|requests?|responses?|messages?|images?|texts?)\b",
    re.I,
)
"""Who or what is flagged or violates a policy: an owner is refused, and not the content."""

OF_ACCOUNT = re.compile(
    r"\b(has|have|is|was|were) (been )?(\w+ly )?"
    r"(suspended|deactivated|disabled|banned|terminated)\b|\bsuspicious\b|\bfraud",
    re.I,
)


def is_filter(error: Any, status: int) -> bool:
    """Whether the body of a refusal says that a content filter stopped the request."""
    status = status_of(status, error if isinstance(error, Mapping) else {})
    if status in OTHER_STATUS:
        return False
    for key, value in walk(error):
        if isinstance(value, str):
            parts = map(plain_key, value.split("."))
            is_named = key in NAMED_BY and any(map(NAMES.fullmatch, parts))
            is_found = is_named or (key in SAID_BY and _says_filtered(value))
        elif key == "metadata" and isinstance(value, Mapping):
            is_found = _gives_reasons(value)
        else:
            is_found = key == "filtered" and value is True
        if is_found:
            return True
    return False


def _gives_reasons(metadata: Mapping[str, Any]) -> bool:
    """Whether the metadata of OpenRouter's error lists what its moderation found in the request."""
    reasons = metadata.get("reasons")
    if not isinstance(reasons, list) or not reasons:
        return False
    return not any(found["owner"] for found in SUBJECTS.finditer(" ".join(map(str, reasons))))


def _says_filtered(text: str) -> bool:
    said = SENTENCES.search(text)
    if said is None or OF_ACCOUNT.search(text):
        return False
    subjects = [*SUBJECTS.finditer(text, 0, said.start())]
    return not (subjects and subjects[-1]["owner"])


def with_verdict(data: Any) -> Any:
    """A completion with its reason to end as chat completions name it, and a filter's verdict in
    the reason and message that they have for it; anything else as it is."""
    if not isinstance(data, dict):
        return data
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    if not isinstance(choice, dict):
        return data
    given = choice.get("message")
    message: Json = given if isinstance(given, dict) else {}
    reason = plain_reason(choice.get("finish_reason"))
    is_filtered = FINISH.get(reason) == "filter"
    if not (is_filtered or message.get("content") or message.get("tool_calls")):
        is_filtered = any(_verdicts(data, choice))
    if is_filtered:
        reason = reason if FINISH.get(reason) == "filter" else "content_filter"
        kept = {name: value for name, value in choice.items() if name != "error"}
        choice = kept | {"message": message, "finish_reason": reason}
    elif choice and reason in FINISH:
        choice = choice | {"finish_reason": reason}
    else:
        return data
    return data | {"choices": [choice]}


def _verdicts(data: Json, choice: Json) -> Iterator[bool]:
    """Whether each place says so where a filter may leave its verdict on a reply without words."""
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
        yield FINISH.get(plain_reason(given)) == "filter"
    yield is_prompt_blocked(data) or is_prompt_blocked(choice)
    yield bool(choice.get("error")) and is_filter(choice["error"], 200)
    for key, value in walk(data):
        yield key in ("filtered", "inputsensitive", "outputsensitive") and value is True
    yield not data.get("choices") and is_filter(data, 200)


def is_prompt_blocked(data: Mapping[str, Any]) -> bool:
    """Whether an answer in the form of generateContent says why it blocked the prompt."""
    for name in ("promptFeedback", "prompt_feedback"):
        feedback = data.get(name)
        if isinstance(feedback, Mapping):
            reason = feedback.get("blockReason") or feedback.get("block_reason")
            if reason and "unspecified" not in str(reason).lower():
                return True
    return False


def plain_reason(reason: Any) -> str:
    """A reason to end without the wrapping of its enumeration: `FinishReason.SAFETY`,
    `FINISH_REASON_SAFETY` and `Safety` are all `safety`."""
    words = re.findall(r"[A-Za-z_][\w-]*", str(reason or ""))
    if not words:
        return str(reason or "")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", words[-1]).lower().replace("-", "_")
    return snake.removeprefix("finish_reason_")
