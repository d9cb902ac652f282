"""The contents of a `.eval` file: the header, and the JSON of the samples, in which a text that
occurs several times is encoded only once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, repeat
from math import isfinite, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from looktwice.extras.logs.eval_files.zip_writer import PackedBytes, ZipWriter, pack
from looktwice.extras.logs.log import OWN_HARNESS, Cells, Fields
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import open_atomic
from looktwice.pipelines.json_input import read_json, write_json

if TYPE_CHECKING:
    from looktwice.pipelines.model import ToolCall
    from looktwice.pipelines.picture import Payload

VERDICT_LETTERS = {"right": "C", "wrong": "I", "unreadable": "N"}
PACKED_COMMA = pack(b",")
IMAGE_PLACEHOLDER = write_json({"type": "text", "text": "(Image)"})
"""The JSON that replaces an image in the list of summaries."""


class Attachment(NamedTuple):
    """A picture: its name in a log, and the JSON field with this name that holds its data URL."""

    name: str
    field: PackedBytes

    @classmethod
    def from_payload(cls, payload: Payload) -> Attachment:
        """Name a picture by its digest."""
        name = payload.sha[:32]
        return cls(name, pack(f'"{name}":"{payload.data_url}"'.encode()))


class Turn(NamedTuple):
    """A message: its full JSON for inspect_ai, its JSON for the list of summaries, and its
    pictures."""

    role: str
    text: str
    summary: str
    attachments: tuple[Attachment, ...] = ()


def make_turn(
    role: str, parts: Sequence[str | Attachment], calls: Iterable[ToolCall] = (), call_id: str = ""
) -> Turn:
    """Convert a message of texts and pictures to inspect_ai's form."""
    attachments = tuple(part for part in parts if not isinstance(part, str))
    more = "".join(_describe_calls(calls, call_id))
    if role in ("assistant", "system"):
        content = write_json("\n".join(part for part in parts if isinstance(part, str)))
        text = summary = f'{{"role":"{role}","content":{content}{more}}}'
        return Turn(role, text, summary, attachments)
    whole = list[str]()
    for part in parts:
        if isinstance(part, str):
            whole.append(f'{{"type":"text","text":{write_json(part)}}}')
        else:
            whole.append(f'{{"type":"image","image":"attachment://{part.name}"}}')
    begin, end = f'{{"role":{write_json(role)},"content":[', f"]{more}}}"
    text = summary = f"{begin}{','.join(whole)}{end}"
    if attachments:
        pairs = zip(whole, parts, strict=True)
        shown = [piece if isinstance(part, str) else IMAGE_PLACEHOLDER for piece, part in pairs]
        summary = f"{begin}{','.join(shown)}{end}"
    return Turn(role, text, summary, attachments)


def _describe_calls(calls: Iterable[ToolCall], call_id: str) -> Iterator[str]:
    made = list[Fields]()
    for call in calls:
        arguments: Any = call.arguments
        with suppress(ValueError):
            arguments = read_json(arguments)
        if not isinstance(arguments, dict):
            arguments = {"arguments": arguments}
        made.append({"id": call.id, "function": call.name, "arguments": arguments})
    if made:
        yield f',"tool_calls":{write_json(made)}'
    if call_id:
        yield f',"tool_call_id":{write_json(call_id)}'


class Sample(NamedTuple):
    """A sample of a log: the columns of a row, and the turns of its conversation, if any."""

    sample: str
    draw: int
    question: str
    pictures: str
    choices: Sequence[str]
    key: str
    answer: str
    value: float
    verdict: str
    group: str
    reply: str
    seconds: float
    tokens: float
    cost: float
    turns: Sequence[Turn] = ()


@dataclass(frozen=True)
class Evaluation:
    """One contestant on one task, whose samples are in a `.eval` file: `source` is the log,
    `settings` are the settings of the task, `ids` the ids of the samples, `sample_count` is the
    number of samples over all draws, and `values` are the values of the samples that have a key and
    did not fail."""

    model: str
    source: str
    task: str
    settings: Cells
    ids: Sequence[str]
    sample_count: int
    epochs: int
    values: Sequence[float]
    tokens: int


def write_evaluation(about: Evaluation, samples: Iterable[Sample], file: Path) -> str:
    """Write an evaluation as a `.eval` file; return its path and the number of samples.

    The contestant is written as the model. An unreadable reply becomes inspect_ai's "no answer"; a
    failed sample has an error and no score. Raises OSError.
    """
    header, encoder, summaries = _make_header(about), _Encoder(about), list[str]()
    with open_atomic(file) as target:
        archive = ZipWriter(target)
        start = {"version": 2, "eval": header["eval"], "plan": header["plan"]}
        archive.add("_journal/start.json", write_json(start).encode())
        for sample in samples:
            name = f"samples/{sample.sample.replace('/', '_')}_epoch_{sample.draw + 1}.json"
            head, pictures, tail = encoder.encode(sample)
            if pictures:
                archive.add_pieces(name, head.encode(), pictures, tail.encode())
            else:
                archive.add(name, (head + tail).encode())
            summaries.append(encoder.summary)
        archive.add("summaries.json", f"[{','.join(summaries)}]".encode())
        archive.add("header.json", write_json(header).encode())
        archive.close()
    return f"{file} ({format_count(about.sample_count, 'sample')})"


@dataclass
class _Encoder:
    """Encodes the samples of an evaluation; `summary` is the entry in the list of summaries for the
    sample that was encoded last."""

    evaluation: Evaluation
    summary: str = ""
    _model: str = field(init=False)
    _task: str = field(init=False)

    def __post_init__(self) -> None:
        self._model, self._task = (
            write_json(self.evaluation.model),
            write_json(self.evaluation.task),
        )

    def encode(self, sample: Sample) -> tuple[str, list[PackedBytes], str]:
        """Return the JSON of a sample in three pieces: before its pictures, the pictures with their
        names, and after them."""
        question, reply = write_json(sample.question), write_json(sample.reply)
        turns = sample.turns
        is_answered = bool(turns) and turns[-1].role == "assistant"
        asked = turns[:-1] if is_answered else turns
        before = f'{{"id":{write_json(sample.sample)},"epoch":{sample.draw + 1},"input":'
        choices = f"[{','.join(map(write_json, sample.choices))}]" if sample.choices else "null"
        target = f',"choices":{choices},"target":{write_json(sample.key)}'
        message = f'{{"role":"assistant","content":{reply},"source":"generate"}}'
        texts, shown = question, question
        if asked:
            texts = f"[{','.join([turn.text for turn in asked])}]"
            shown = f"[{','.join([turn.summary for turn in asked])}]"
        if not turns:
            messages = f'[{{"role":"user","content":{question}}},{message}]'
        elif is_answered:
            messages = f"{texts[:-1]},{turns[-1].text}]" if asked else f"[{turns[-1].text}]"
        else:
            messages = texts
        scores, metadata = self._describe_score(sample)
        error, total, used = self._describe_end(sample)
        head = (
            f'{before}{texts}{target},"messages":{messages},"output":{{"model":{self._model},'
            f'"choices":[{{"message":{message},"stop_reason":"stop"}}],"completion":{reply}}},'
            f'"scores":{scores},"metadata":{metadata},"attachments":{{'
        )
        fault = f',"error":{error}' if error else ""
        self.summary = (
            f'{before}{shown}{target},"metadata":{metadata},"scores":{scores}{used}{fault}{total}'
            f',"completed":true,"message_count":{len(turns) or 2}}}'
        )
        if error:
            fault = f',"error":{{"message":{error},"traceback":"","traceback_ansi":""}}'
        return head, _list_pictures(turns), f"}}{fault}{total}{used}}}"

    def _describe_score(self, sample: Sample) -> tuple[str, str]:
        """Return the scores and the metadata of a sample."""
        verdict = write_json(sample.verdict)
        scores, grade = "{}", VERDICT_LETTERS.get(sample.verdict, sample.value)
        if sample.verdict not in ("failed", "hidden") and grade == grade:  # NaN: not scored
            value, answer = write_json(grade), write_json(sample.answer)
            scores = (
                f'{{"{OWN_HARNESS}":{{"value":{value},"answer":{answer},"explanation":{verdict}}}}}'
            )
        return scores, (
            f'{{"task":{self._task},"group":{write_json(sample.group)},'
            f'"pictures":{write_json(sample.pictures)},"verdict":{verdict}}}'
        )

    def _describe_end(self, sample: Sample) -> tuple[str, str, str]:
        """Return the JSON of a failed sample's error, and of the fields for time and tokens; each
        is empty if there is nothing to write."""
        error = used = total = ""
        if sample.verdict == "failed":
            error = write_json(sample.reply or "the sample failed")
        if sample.seconds == sample.seconds:
            total = f',"total_time":{_write_number(sample.seconds)}'
        if sample.tokens == sample.tokens:
            cost = sample.cost
            priced = f',"total_cost":{_write_number(cost)}' if cost == cost else ""
            used = (
                f',"model_usage":{{{self._model}:{{"total_tokens":{int(sample.tokens)}{priced}}}}}'
            )
        return error, total, used


def _write_number(number: float) -> str:
    return repr(number) if isfinite(number) else "null"


def _list_pictures(turns: Sequence[Turn]) -> list[PackedBytes]:
    """Return the JSON fields of the pictures in a conversation, each picture once."""
    if not any([turn.attachments for turn in turns]):
        return []
    found = {own.name: own.field for turn in turns for own in turn.attachments}
    return list(chain.from_iterable(zip(repeat(PACKED_COMMA), found.values())))[1:]


def _make_header(about: Evaluation) -> Fields:
    values, n = about.values, max(1, len(about.values))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    mean = sum(values) / n
    error = sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1) / n)
    figures = (("accuracy", mean), ("stderr", error))
    metrics = {name: {"name": name, "value": value} for name, value in figures}
    identity = f"{about.source} {about.model} {about.task}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:22]
    dataset = {"name": about.task, "samples": len(about.ids), "sample_ids": list(about.ids)}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            **dict.fromkeys(("eval_id", "run_id", "task_id"), digest),
            "created": now,
            "task": about.task or "task",
            "task_args": dict(about.settings),
            "dataset": dataset,
            "model": about.model,
            "config": {"epochs": about.epochs},
            "metadata": {"log": about.source, "written_by": OWN_HARNESS},
        },
        "plan": {"name": "plan", "steps": []},
        "results": {
            "total_samples": about.sample_count,
            "completed_samples": len(values),
            "scores": [{"name": OWN_HARNESS, "scorer": OWN_HARNESS, "metrics": metrics}],
        },
        "stats": {
            "started_at": now,
            "completed_at": now,
            "model_usage": {about.model: {"total_tokens": about.tokens}},
        },
    }
