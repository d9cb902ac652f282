"""A judge that compares a reply with the correct answer, as for BabyVision and PerceptionBench."""

from __future__ import annotations

import re

from looktwice.eval.records.judgements import MATCH_CRITERION
from looktwice.extras.judging.passes import (
    FENCE_INSTRUCTION,
    JudgeCase,
    JudgePass,
    JudgeVerdict,
    format_choices,
)
from looktwice.pipelines.model import Message


def build_key_prompt(case: JudgeCase) -> Message:
    """Build the prompt from the question, its choices, the correct answer and the reply, without
    the images."""
    lines = [
        "A model was asked a question. Say whether its reply gives the correct answer.",
        (
            "Its answer is correct if it says the same as the correct answer, in any form: other"
            " words, brackets or spaces do not matter. It is not if it differs, lacks a part, or"
            " adds another answer. The correct answer is beyond doubt; do not answer yourself."
        ),
        f"The question was: {case.sample.question}",
    ]
    if case.sample.choices:
        lines += ["Choices:", *format_choices(case.sample)]
    reply = re.sub(r"</(?=\s*reply)", "</ ", case.reply, flags=re.I)
    lines += [f"Correct answer: {case.key}", FENCE_INSTRUCTION, f"<reply>\n{reply}\n</reply>"]
    return Message("user", ("\n".join([*lines, "End with one word: True or False."]),))


def parse_key_verdict(text: str, case: JudgeCase) -> JudgeVerdict:
    """Parse "true" or "false" in a judge's reply, after the last [judge] if there is one.

    If both occur, the verdict is true, as in the authors' code; if neither occurs, there is no
    verdict (the authors count it as false).
    """
    heads = text.lower().rpartition("[judge]")
    words = heads[2]
    for word, value in (("true", 1.0), ("false", 0.0)):
        if word in words:
            answer = case.key if value else None
            return JudgeVerdict(answer, {MATCH_CRITERION: value})
    return JudgeVerdict(reason="the judge's reply has neither True nor False")


KEY_PASS = JudgePass(
    "key", "", lambda case: bool(case.key), build_key_prompt, parse_key_verdict, only_if_named=True
)
"""The pass that `looktwice judge RUN --pass key` runs."""
