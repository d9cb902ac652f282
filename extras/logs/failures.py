"""Texts that other harnesses write instead of a reply, when a request failed or a filter of the
provider withheld the reply.

The texts are taken from the code of VLMEvalKit (e8e78f05), lmms-eval (75571cfe), OpenCompass
(a5acc4bb) and FastChat's judge. Those harnesses score such a text as a wrong answer.
"""

from __future__ import annotations

import re
from dataclasses import replace

from looktwice.extras.logs.log import MISSING_VALUE, Fields, Log, make_rows

__all__ = ["classify_replacement", "mark_failures"]

FAILED_PATTERNS = (
    # VLMEvalKit: "... via API.", "... BlueLM API. ", ": <class 'RuntimeError'> ..."
    r"Fail(?:ed)? to obtain answer(?: (?:via )?(?:\w+ )?API)?\s*(?:[.:]|$)",
    r"Error: (?:Bad Response Statuse Code\.|Failed to parse the response\.)",  # its Qwen
    r"\[LMMS_EVAL_(?:REQUEST_FAILED|BUDGET_EXCEEDED)\b[^\]]*\]",
    r"\[(?:GENERATION_FAILED|ERROR)\]",  # lmms-eval's image and video models
    r"error:too long$",  # OpenCompass
    r"\$ERROR\$$",  # FastChat
)
"""Patterns for the start of a text that replaces the reply to a failed request."""
FILTERED_PATTERNS = (r"\[SAFETY_BLOCKED\b[^\]]*\]?", r"error:unsafe$")
"""Patterns for the start of a text that replaces a filtered reply: the model was called, but its
answer was withheld."""
_REPLACED_PATTERN = re.compile(
    f"(?P<failed>{'|'.join(FAILED_PATTERNS)})|(?P<filtered>{'|'.join(FILTERED_PATTERNS)})", re.I
)


def classify_replacement(reply: str) -> str:
    """Return "failed" or "filtered" for a text that replaces a missing reply, else ""."""
    found = _REPLACED_PATTERN.match(reply.strip())
    return str(found.lastgroup) if found else ""


def mark_failures(log: Log) -> Log:
    """Mark samples as failed or unreadable if the harness wrote the text of a failure instead of
    their reply, whatever score it gave them."""
    kinds = log.rows["reply"].map(classify_replacement)
    if not (kinds != "").any():
        return log
    without, rows = {"answer": "", "scorer": "", "scores": {}}, list[Fields]()
    for row, kind in zip(log.rows.to_dict("records"), kinds, strict=True):
        if kind == "failed":
            row |= without | {"value": MISSING_VALUE, "verdict": "failed"}
        elif kind and row["verdict"] != "hidden":
            row |= without | {"value": 0.0, "verdict": "unreadable"}
        rows.append(row)
    return replace(log, rows=make_rows(rows))
