"""The questions as a task of inspect_ai; runs in its environment."""

import json
import os
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText
from inspect_ai.scorer import pattern
from inspect_ai.solver import multiple_choice

FOLDER = Path(os.environ["QUESTIONS"])


def to_sample(row: dict[str, Any]) -> Sample:
    """Convert a question to inspect's format."""
    picture = ContentImage(image=str(FOLDER / row["image"]))
    words = ContentText(text=row["question"])
    asked = ChatMessageUser(content=[picture, words])
    return Sample(input=[asked], choices=row["choices"], target=row["answer"], id=row["id"])


@task
def scenes() -> Task:
    """Return a task with inspect's own prompt for choices, which reads the letter of the reply."""
    lines = (FOLDER / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    samples = [to_sample(json.loads(line)) for line in lines]
    letter = pattern(r"\b([A-D])\b")
    return Task(dataset=MemoryDataset(samples), solver=multiple_choice(), scorer=letter)
