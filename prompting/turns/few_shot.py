"""Few-shot examples: questions with images and their answers, as turns before the question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from looktwice.pipelines.disk import read_file
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.marks import mark_from_dict
from looktwice.pipelines.model import Message, Model
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State, WithoutModel
from looktwice.prompting.ranges import check_ranges
from looktwice.prompting.turns.ask import Ask

NO_MODEL = NoModel(
    "examples are worded and drawn on without asking; name stages that never call the model"
)


@dataclass(frozen=True, eq=False)
class Example:
    """A question with its images, and the `reply` that is shown for it."""

    sample: Sample
    reply: str


@dataclass(frozen=True)
class FewShot(WithoutModel):
    """Puts few-shot examples from a JSONL file before the question: a user turn with images and a
    reply for each.

    `path` is the file. A line has `question` and `reply` (sent word for word; `answer` works too),
    and may have `image` or `images` (paths relative to the file), `choices`, `marks` (as in
    records) and `prompt`. Each example goes through `stages`, best given by reference, so that it
    is drawn on and worded like the question: `stages: ["${stages.mark}", "${stages.choose}"]`;
    `ask` says where its images stand. The first `n` are shown, or with `order: shuffled` n random
    ones, others for each sample. An example with the sample's own question and images is left out.
    `sha` is the hash of the file and its images: filled in when the stage is built, it is part of
    the arm's identity, and a run whose files have changed since is refused. Raises ValueError.
    """

    path: Path
    n: int | None = None
    order: Literal["file", "shuffled"] = "file"
    stages: tuple[Stage, ...] = ()
    ask: Ask = field(default_factory=Ask)
    sha: str = ""

    def __post_init__(self) -> None:
        check_ranges(self, "n >= 0")
        content = [[example.sample.sha, example.reply] for example in self.examples]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        if self.sha and self.sha != digest:
            raise ValueError(
                f"{self.path} or its images have changed: sha is {digest}, and {self.sha} was"
                " expected"
            )
        object.__setattr__(self, "sha", digest)

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """Every example of the file. Raises ValueError that names the line."""
        path, examples = Path(self.path), []
        try:
            lines = read_file(path).decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            raise ValueError(
                f"{path} cannot be read ({exc}); expected one JSON object a line"
            ) from exc
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    examples.append(_parse_example(read_json(line), path, number))
                except (ValueError, TypeError, KeyError) as exc:
                    raise ValueError(f"{path} line {number}: {exc}") from exc
        if not examples:
            raise ValueError(f"{path} holds no example; write one JSON object a line")
        return tuple(examples)

    def __call__(self, state: State, model: Model) -> State:
        """The state with the examples as its first turns. Raises ValueError where a turn was taken
        already."""
        if any(message.role != "system" for message in state.messages):
            raise ValueError(
                f"sample {state.sample.id}: examples come before the first turn; move this stage up"
            )
        turns = [turn for example in self._chosen(state) for turn in self._turns(example, state)]
        return state.replace(messages=(*state.messages, *turns))

    def _chosen(self, state: State) -> Sequence[Example]:
        own = state.sample.question, [image.sha for image in state.sample.images]
        examples = [
            example
            for example in self.examples
            if (example.sample.question, [image.sha for image in example.sample.images]) != own
        ]
        if self.order == "shuffled":
            examples = [examples[k] for k in state.rng("examples").permutation(len(examples))]
        return examples[: self.n]

    def _turns(self, example: Example, state: State) -> tuple[Message, Message]:
        shown = State.start(example.sample, state.seed, state.draw)
        for stage in self.stages:
            shown = stage(shown, NO_MODEL)
        return Message("user", self.ask.parts(shown)), Message("assistant", (example.reply,))


def _parse_example(row: Any, path: Path, number: int) -> Example:
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        raise ValueError("expected an object with question, reply and images")
    reply = row.get("reply", row.get("answer"))
    if reply is None or not str(reply).strip():
        raise ValueError("it has no reply; say what the model should have answered")
    names = row.get("images") or ([row["image"]] if row.get("image") else [])
    meta = {"prompt": row["prompt"]} if isinstance(row.get("prompt"), str) else {}
    marks = tuple(mark_from_dict(mark) for mark in row.get("marks") or ())
    choices = tuple(str(choice) for choice in row.get("choices") or ())
    images = []
    for name in names:
        file = (path.parent / str(name)).resolve()
        if not file.is_relative_to(path.parent.resolve()):
            raise ValueError(f"the image {name!r} lies outside {path.parent}")
        images.append(Picture.open(file))
        try:
            images[-1].size  # noqa: B018  a missing image is told now, not once for every sample
        except PictureError as exc:
            raise ValueError(str(exc)) from exc
    sample = Sample(f"example {number}", row["question"], tuple(images), choices, marks, meta)
    return Example(sample, str(reply))
