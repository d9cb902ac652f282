"""Every reader on the replies of `replies.tsv`, the names of readers, and replies of endless
repetition.

A row of the table has the reader, the question, the expected answer and the reply. The question is
a subtask of BLINK, choices separated by `|`, nothing for four points, or `-` for an open question;
the answer `-` means no answer. A reader's setting follows its name.
"""

import gzip
import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from looktwice.eval.readers import Marked, Robust, Strict, WholeReply
from looktwice.eval.readers.reader import (
    Reader,
    Reading,
    build_reader,
    get_reader_name,
    map_readers,
)
from looktwice.eval.readers.robust import read_choice
from looktwice.eval.replies import CHOICES
from looktwice.pipelines.config import ConfigError, build
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.model import Message
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.optional import HAS_EXTRAS, extension, needs_extras
from tests.tables import check_all, table

toolkits = extension("toolkits")

TABLE = (Path(__file__).parent / "replies.tsv").read_text(encoding="utf-8").splitlines()[1:]


def state_of(reply: str, choices: tuple[str, ...] = ()) -> State:
    messages = (Message("user", ("Which one?",)), Message("assistant", (reply,)))
    return State(Sample("s", "?", choices=choices), messages=messages)


def read(name: str, asked: str, reply: str) -> Reading:
    subtask = asked.replace(" ", "_")
    choices = CHOICES.get(subtask or "Visual_Correspondence", tuple(asked.split("|")))
    reader, _, kind = name.partition(" ")
    if reader == "vlm2":
        return toolkits.Vlm2(kind).read(state_of(reply))  # type: ignore[no-any-return]
    if asked == "-":
        stage = Robust(kind) if kind else build_reader(reader)  # type: ignore[arg-type]
        return stage.read(state_of(reply))  # type: ignore[attr-defined, no-any-return]
    if reader == "vlmevalkit" and kind:
        return toolkits.Vlmevalkit(kind).read(state_of(reply, choices))  # type: ignore[no-any-return]
    if reader == "robust":
        counted = "Counting" if choices[0].isdigit() else ""
        return read_choice(reply, choices, asked if subtask in CHOICES else counted)
    return build_reader(reader).read(state_of(reply, choices))  # type: ignore[attr-defined, no-any-return]


def test_a_reply_is_read_as_its_table_row_expects() -> None:
    """Includes pitfalls of other readers: a wrong reading stays an answer that no key equals."""
    check_all((line, partial(check_line, line)) for line in TABLE)


def check_line(line: str) -> None:
    name, asked, answer, escaped = line.split("\t")
    reply = escaped.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t")
    reading = read(name, asked, reply.replace("\0", "\\"))
    assert (reading.answer or "-") == answer
    assert bool(reading.reason) == (answer == "-")


def test_only_the_last_turn_is_read_and_no_message_is_skipped() -> None:
    empty = State(Sample("s", "q", choices=("", "")))
    assert toolkits.BlinkOfficial().read(empty) == Reading(None, "unread")
    turns = (("assistant", "(A)"), ("user", "Sure?"), ("assistant", "(B)"))
    messages = tuple(Message(role, (text,)) for role, text in turns)  # type: ignore[arg-type]
    assert Robust().read(empty.replace(messages=messages)).answer == "B"


def test_readers_have_names() -> None:
    names = {"marked", "robust", "strict", "whole_reply"}
    added = {"blink_official", "boxed", "lmms_eval", "places_in_reply", "vlm2", "vlmevalkit"}
    assert {*map_readers()} == names | (added if HAS_EXTRAS else set())
    assert build({"use": "eval.readers.Robust", "kind": "integer"}) == Robust("integer")
    assert build_reader("whole_reply") == WholeReply() == build({"use": "eval.readers.WholeReply"})
    assert get_reader_name(WholeReply()) == "whole_reply"
    with pytest.raises(
        ConfigError, match=r"no reader 'robsut'; did you mean 'robust'\? There are .*marked, "
    ):
        build_reader("robsut")
    # regression: it said "node.use"
    with pytest.raises(ConfigError, match=r"reader\.use: 'mine\.Last' is refused"):
        build_reader("mine.Last")


@needs_extras
def test_readers_of_extensions_have_names_too() -> None:
    official = build({"use": "eval.readers.BlinkOfficial"})
    assert build_reader("blink_official") == toolkits.BlinkOfficial() == official
    assert get_reader_name(toolkits.BlinkOfficial()) == "blink_official"
    assert get_reader_name(toolkits.Vlm2("count")) == "vlm2"
    assert spec(toolkits.Vlm2("count")) == {"use": "eval.readers.Vlm2", "form": "count"}


def test_the_official_rule_agrees_with_every_recorded_label(shared_data: Path) -> None:
    """Only where the authors used no language model."""
    decided = 0
    for file in sorted((shared_data / "blink_replies").glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                subtask = row["idx"].partition("_")[2].rpartition("_")[0]
                found = toolkits.BlinkOfficial.apply_rule(row["reply"], len(CHOICES[subtask]))
                decided += found is not None
                assert found is None or f"({found})" == row["official_label"], row["idx"]
    assert decided > 19_000


@pytest.mark.slow
@table
def test_every_recorded_reply_is_read_as_by_the_pinned_commit_of_vlmevalkit(
    shared_data: Path, form: Literal["2026-06", "2025-08", "2024-02"], decided: int, digest: str
) -> None:
    """Digests of the answers given by the code of a67ace50, c3371551 and 98e3733f."""
    reader, answers = toolkits.Vlmevalkit(form), list[str]()
    for file in sorted((shared_data / "blink_replies").glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                subtask = row["idx"].partition("_")[2].rpartition("_")[0]
                reading = reader.read(state_of(row["reply"], CHOICES[subtask]))
                answers.append(reading.answer or "-")
    assert len(answers) == 30_456 and len(answers) - answers.count("-") == decided
    assert hashlib.sha256("".join(answers).encode()).hexdigest().startswith(digest)


CAT = "the cat is closer than the dog and there are two "


@pytest.mark.parametrize("reader", [Robust(), Strict(), Marked()])
@pytest.mark.parametrize("piece", ["\n", "---\n", "<think>", "\t \n", CAT])
def test_endless_repetition_is_not_an_answer(reader: Reader, piece: str) -> None:
    reading = reader.read(state_of(piece * (240_000 // max(6, len(piece))), ("cat", "dog")))
    assert reading.answer is None
