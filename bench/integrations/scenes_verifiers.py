"""The questions as a taskset of verifiers; runs in its environment."""

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

FOLDER = Path(os.environ["QUESTIONS"])


class ScenesData(vf.TaskData):
    """A question with the letter of the correct choice."""

    answer: str


class ScenesTask(vf.Task[ScenesData]):
    """A question, and the reward of a reply."""

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        """Return 1 if the reply begins with the correct letter."""
        letter = re.search(r"\b([A-D])\b", trace.last_reply)
        return float(bool(letter) and letter[1] == self.data.answer)


class ScenesTaskset(vf.Taskset[ScenesTask, vf.TasksetConfig]):
    """All questions."""

    def load(self) -> Iterator[ScenesTask]:
        """Yield one task per line."""
        for line in (FOLDER / "samples.jsonl").read_text(encoding="utf-8").splitlines():
            row: dict[str, Any] = json.loads(line)
            data = base64.b64encode((FOLDER / row["image"]).read_bytes()).decode()
            picture = {"url": f"data:image/png;base64,{data}"}
            choices = [f"{a}. {text}" for a, text in zip("ABCD", row["choices"], strict=True)]
            words = "\n".join([row["question"], *choices, "Answer with one letter."])
            content = [{"type": "image_url", "image_url": picture}, {"type": "text", "text": words}]
            prompt = [{"role": "user", "content": content}]
            yield ScenesTask(ScenesData(prompt=prompt, answer=row["answer"]), self.config.task)


__all__ = ["ScenesTaskset"]
