"""Why an answer is UNREADABLE, and the sentences for replies without words."""

from __future__ import annotations

from looktwice.eval.records.records import Record
from looktwice.eval.scoring.verdict import ABSTAINED, UNJUDGED, ReadResult, Verdict

REASONS = ("unread", "refused", "empty", "cut_off", "filtered", ABSTAINED, UNJUDGED)
"""Why an answer is UNREADABLE."""
CUT_IN_REASONING = (
    "all words are in the reply's field `reasoning`, and it was cut off there; set `max_tokens`"
    " higher or `effort` lower"
)
ONLY_REASONING = (
    "all words are in the reply's field `reasoning` and its text is empty; start the server without"
    " its reasoning parser, or with the one of this model, or switch thinking off, as with"
    " `extra: {chat_template_kwargs: {enable_thinking: false}}` of the model"
)
ONLY_CALLS = "the reply calls a tool and says nothing; let prompting.agent.Agent ask"


def unreadable(reason: str, detail: str = "") -> ReadResult:
    """The result for an answer that cannot be read, for one of REASONS."""
    return ReadResult(Verdict.UNREADABLE, reason=reason, detail=detail)


def explain_missing_reply(record: Record) -> ReadResult | None:
    """The reason why there is no reply to read; None if there is one."""
    reply = record.last_reply
    if record.reason or reply is None:
        detail = record.reason or "no stage asked or answered"
        return unreadable(reason_of(record.reason), detail)
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
        detail = ONLY_CALLS
    return unreadable("cut_off" if cut else "empty", detail)


def reason_of(sentence: str) -> str:
    """The member of REASONS with which a stage's sentence begins, otherwise "unread"."""
    kind = sentence.partition(":")[0].strip()
    return kind if kind in REASONS else "unread"
