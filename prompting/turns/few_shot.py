"""Few-shot examples before the question."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from looktwice.pipelines.model import Message, Model
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State, WithoutModel
from looktwice.prompting.question_lines import fill_in_sha, parse_sample, read_lines
from looktwice.prompting.turns.ask import Ask

NO_MODEL = NoModel("examples are prepared without the model; name only stages that never call it")


@dataclass(frozen=True, eq=False)
class Example:
    """A question with its images, and the `reply` that is shown for it."""

    sample: Sample
    reply: str

    @property
    def question_key(self) -> tuple[str, list[str]]:
        """The text of the question and the hashes of its images, by which the same question is
        recognised."""
        return self.sample.question, [image.sha for image in self.sample.images]


@dataclass(frozen=True)
class FewShot(WithoutModel):
    """Puts few-shot examples from a JSONL file before the question: a user turn with images and a
    reply for each.

    `path` is the file. A line has `question` and `reply` (sent verbatim; `answer` works too), and
    may have `image` or `images` (paths relative to the file), `choices`, `marks` (as in records)
    and `prompt`. Each example passes through `stages`, best given by reference, so that it is
    marked and worded like the question: `stages: ["${stages.mark}", "${stages.choose}"]`; `ask`
    sets where its images go. The first `n` are shown, or with `order: shuffled` n random ones,
    different for each sample. An example with the sample's own question and images is left out.
    `sha` is the hash of the file and its images: it is filled in when the stage is built and is
    part of the arm's identity, so a run is refused if its files have changed since. Raises
    ValueError.
    """

    path: Path
    n: int | None = None
    order: Literal["file", "shuffled"] = "file"
    stages: tuple[Stage, ...] = ()
    ask: Ask = field(default_factory=Ask)
    sha: str = ""

    def __post_init__(self) -> None:
        check_ranges(self, "n >= 0")
        fill_in_sha(self, [[example.sample.sha, example.reply] for example in self.examples])

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """Every example of the file. Raises a ValueError that names the line."""
        return read_lines(self.path, _parse_example)

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the examples as its first turns. Raises ValueError if the
        conversation has begun already."""
        if any(message.role != "system" for message in state.messages):
            raise ValueError(
                f"sample {state.sample.id}: examples come before the first turn; move this stage up"
            )
        own = state.sample.question, [image.sha for image in state.sample.images]
        examples = [example for example in self.examples if example.question_key != own]
        if self.order == "shuffled":
            examples = [examples[k] for k in state.rng("examples").permutation(len(examples))]
        turns = list(state.messages)
        for example in examples[: self.n]:
            shown = State.start(example.sample, state.seed, state.draw)
            for stage in self.stages:
                shown = stage(shown, NO_MODEL)
            turns.append(Message("user", self.ask.make_parts(shown)))
            turns.append(Message("assistant", (example.reply,)))
        return state.replace(messages=tuple(turns))


def _parse_example(row: Any, path: Path, number: int) -> Example:
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        raise ValueError("expected an object with question, reply and images")
    reply = row.get("reply", row.get("answer"))
    if reply is None or not str(reply).strip():
        raise ValueError("it has no reply; write the reply that the model should give")
    return Example(parse_sample(row, path, f"example {number}"), str(reply))
