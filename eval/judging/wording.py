"""The words of a judge's question from a user's own file, such as a prompt that a paper prints."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from looktwice.eval.judging.passes import JudgeCase, JudgePass, JudgeVerdict, choice_lines
from looktwice.eval.records.judgements import EVERY_PASS, UNREADABLE_PASS
from looktwice.eval.records.records import RunError
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.model import Message

FIELD = re.compile(r"\{([a-z]+)\}")
FIELDS = ("question", "reply", "choices", "clues", "truth", "steps", "key")


@dataclass(frozen=True)
class Wording:
    """A text with {question}, {reply}, {choices}, {clues}, {truth}, {steps} and {key}, of which
    {reply} must be there; other braces stand for themselves.

    The reply is put in as it is, so the text should fence it.
    """

    name: str
    text: str

    @classmethod
    def read(cls, path: Path) -> Wording:
        """The text of a file, called as the file is. Raises RunError."""
        try:
            text = read_file(path).decode()
        except (OSError, ValueError) as exc:
            raise RunError(f"--prompt {path}: {exc}") from exc
        named = FIELD.findall(text)
        if unknown := [name for name in named if name not in FIELDS]:
            raise RunError(f"--prompt {path}: {{{unknown[0]}}} is none of {', '.join(FIELDS)}")
        if "reply" not in named:
            raise RunError(f"--prompt {path}: {{reply}} must stand where the reply is to be put")
        return cls(path.stem, text)

    def word(self, judging: JudgePass) -> JudgePass:
        """The pass, asked in these words, with the pictures that it shows."""

        def ask(case: JudgeCase) -> Message:
            sample = case.sample
            values = {"question": sample.question, "reply": case.reply, "key": case.key}
            values |= {"choices": "\n".join(choice_lines(sample)), **case.solution}
            text = FIELD.sub(lambda field: values.get(field[1], ""), self.text)
            return Message("user", (*judging.ask(case).views, text))

        def parse(text: str, case: JudgeCase) -> JudgeVerdict:
            words = text.strip(" \t\r\n`*\"'.()")
            if words == "Z" and case.sample.choices and "Z" not in case.sample.letters:
                return JudgeVerdict(none=True)
            # many prompts ask for nothing but the answer
            return judging.parse(f"Answer: {words}" if words.isalnum() else text, case)

        is_answer = judging.name in (EVERY_PASS, UNREADABLE_PASS)
        return replace(judging, ask=ask, parse=parse if is_answer else judging.parse)
