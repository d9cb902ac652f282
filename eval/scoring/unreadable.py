"""The reasons for which an answer is UNREADABLE, and explanations of replies without text."""

from __future__ import annotations

from looktwice.eval.records.records import Record
from looktwice.eval.scoring.verdict import ABSTAINED, UNJUDGED, ReadResult, Verdict

REASONS = ("unread", "refused", "empty", "cut_off", "filtered", ABSTAINED, UNJUDGED)
"""The reasons for which an answer is UNREADABLE."""
CUT_IN_REASONING = (
    "the reply was cut off within its field `reasoning`, before any text; raise `max_tokens` or"
    " lower `effort`"
)
ONLY_REASONING = (
    "the whole reply is in its field `reasoning` and its text is empty; start the server without a"
    " reasoning parser, or with the right one for this model, or switch thinking off, for example"
    " with `extra: {chat_template_kwargs: {enable_thinking: false}}` of the model"
)
ONLY_TOOL_CALLS = "the reply calls a tool and has no text; use prompting.agent.Agent for tool calls"


def unreadable(reason: str, detail: str = "") -> ReadResult:
    """Return the result for an answer that cannot be read, with one of REASONS."""
    return ReadResult(Verdict.UNREADABLE, reason=reason, detail=detail)


def explain_missing_reply(record: Record) -> ReadResult | None:
    """Return the result that explains why there is no reply to read, or None if there is one."""
    reply = record.last_reply
    if record.reason or reply is None:
        detail = record.reason or "no stage called a model or answered"
        return unreadable(get_reason(record.reason), detail)
    if reply.get("finish") == "filter":
        return unreadable("filtered", reply["text"])
    if reply.get("refusal"):
        return unreadable("refused", reply["refusal"])
    if reply["text"].strip():
        return None
    cut = reply.get("finish") == "length"
    detail = ""
    if str(reply.get("reasoning") or "").strip():
        detail = CUT_IN_REASONING if cut else ONLY_REASONING
    elif reply.get("tool_calls"):
        detail = ONLY_TOOL_CALLS
    return unreadable("cut_off" if cut else "empty", detail)


def get_reason(sentence: str) -> str:
    """Return the member of REASONS with which a stage's sentence begins, or else "unread"."""
    kind = sentence.partition(":")[0].strip()
    return kind if kind in REASONS else "unread"
