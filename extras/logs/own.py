"""The logs of looktwice itself (run folders and recorded replies), and the scoring of any log's
replies by one of looktwice's readers."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import NamedTuple

from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import (
    Record,
    RecordLines,
    RunFolder,
    SampleRow,
    read_records_at,
)
from looktwice.eval.replies import CHOICES, HIDDEN_ANSWER, OfficialLabel, get_subtask_of_idx
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.run_rows import get_human_accuracies
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import PointScores, ScoredRecord
from looktwice.eval.tasks.answer_cells import HIDDEN_CELLS
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.log import (
    MISSING_VALUE,
    OWN_HARNESS,
    UNSCORED,
    Cells,
    Fields,
    Log,
    NamedColumns,
    get_named_fields,
    join_hashes,
    make_rows,
    normalize_answer,
)
from looktwice.extras.logs.tables import read_table
from looktwice.pipelines.config.classes import extend_hint, suggest_names
from looktwice.pipelines.model import Messages
from looktwice.pipelines.state import Stage

RecordKey = tuple[str, str, int]  # point, sample, draw
IDX_PATTERN = re.compile(r"[^_]+_.+_\d+")
LETTER_PATTERN = re.compile(r"\(?[A-Z]\)?")
SMALL_LETTER_PATTERN = re.compile(r"\(?[a-z]\)?")
CHOICE_PATTERN = re.compile(r"(?:^|(?<=\s))\(?([A-Z])[).:]\s+")


def read_run(
    path: Path,
    reader: Stage | None,
    plugins: Sequence[str],
    named: NamedColumns | None,
    *,
    must_exist: bool = True,
) -> list[Log]:
    """Read a log for each contestant of a run, with all its tasks; `named` may give fields of
    `meta` for columns.

    Raises RunError, and TaskError for an empty run, and for a named field that is not in `meta` if
    it `must_exist`.
    """
    folder = RunFolder(path)
    run, replies = score_run(folder, reader, plugins=plugins), read_last_replies(folder)
    people = get_human_accuracies(run)
    levels = {s.task: people[s.point.task] / 100 for s in run.points if s.point.task in people}

    def get_transcript(
        ids: Mapping[str, str], names: Mapping[str, str], task: str, sample: str, draw: int
    ) -> Messages:
        last = replies.get((ids[task], names[sample], draw))
        if last is None:
            return ()
        (record,) = read_records_at(path / "records.jsonl", [last.line_offset])
        return folder.messages(record)

    logs, by_contestant = list[Log](), defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        by_contestant[scores.contestant].append(scores)
    for contestant, points in by_contestant.items():
        rows, names = [], dict[str, str]()
        for scores in points:
            for name, draws in scores.recorded_draws.items():
                meta = scores.samples[name].meta
                cells = get_named_fields(meta, named or {}, must_exist=must_exist)
                rows += [make_run_row(scores, name, scored, replies) | cells for scored in draws]
                names[cells.get("sample", name)] = name
        ids = {scores.task: scores.point.records_id for scores in points}
        if rows:
            log = Log(contestant, make_rows(rows), run.name, people=levels, harness=OWN_HARNESS)
            settings = {scores.task: scores.point.spec.get("task") or {} for scores in points}
            conversation = partial(get_transcript, ids, names)
            logs.append(replace(log, settings=settings, get_transcript=conversation))
    if not logs:
        raise TaskError(f"{path} holds no records yet; `looktwice run` its configuration first")
    return logs


class LastReply(NamedTuple):
    """The last reply of a record, the record's duration in seconds, and the offset of the record's
    line in records.jsonl."""

    text: str = ""
    seconds: float = MISSING_VALUE
    line_offset: int = 0


def read_last_replies(folder: RunFolder) -> Mapping[RecordKey, LastReply]:
    """Read the last reply of each record of a run, by the record's key. Raises RunError."""
    replies, lines = dict[RecordKey, LastReply](), RecordLines(folder.path / "records.jsonl")
    for record in lines:
        seconds = record.timings.get("total")
        text = str((record.last_reply or {}).get("text") or "")
        seconds = MISSING_VALUE if seconds is None else seconds
        replies[record.key] = LastReply(text, seconds, lines.begin)
    return replies


def make_run_row(
    scores: PointScores, name: str, scored: ScoredRecord, replies: Mapping[RecordKey, LastReply]
) -> Fields:
    """Make the row of one record of a run, with the answer parsed from its reply."""
    tokens = scored.tokens_in + scored.tokens_out
    key = scores.point.records_id, name, scored.draw
    text, seconds, _ = replies.get(key, LastReply())
    return {
        **make_question_columns(scores.samples[name]),
        **make_score_columns(scored),
        "task": scores.task,
        "draw": scored.draw,
        "group": scored.score.group,
        "reply": text,
        "seconds": seconds,
        "tokens": float(tokens) if tokens else MISSING_VALUE,
        "cost": MISSING_VALUE if scored.cost is None else scored.cost,
    }


def make_question_columns(sample: SampleRow) -> Fields:
    """Make the columns that describe the question."""
    choices = (choice if isinstance(choice, str) else "" for choice in sample.sample["choices"])
    return {
        "sample": sample.id,
        "question": str(sample.sample["question"]),
        "pictures": join_hashes(map(str, sample.sample["images"])),
        "choices": tuple(choices),
        "key": sample.answer or "",
    }


def make_score_columns(scored: ScoredRecord) -> Fields:
    """Make the columns that describe the scored reply, with `reason` and `detail`, which are not
    columns of a log."""
    return {
        "answer": scored.answer or "",
        "value": MISSING_VALUE if scored.verdict in ("failed", "hidden") else scored.score.value,
        "verdict": str(scored.verdict),
        "reason": scored.reason,
        "detail": scored.detail,
    }


def read_replies(path: Path, named: NamedColumns) -> list[Log]:
    """Read the logs of a file of recorded replies: a table with a column `idx`, such as BLINK's.
    Raises TaskError."""
    logs = read_table(path, named)
    for number, log in enumerate(logs):
        rows = list(add_choices(path, log.rows.to_dict("records")))
        logs[number] = replace(log, rows=make_rows(rows))
    return logs


def add_choices(path: Path, rows: Sequence[Cells]) -> Iterator[Fields]:
    """Yield the rows of recorded replies; add BLINK's choices to rows that have none, and BLINK's
    idx if a toolkit only numbers the questions of a subtask.

    Raises TaskError for an idx that occurs twice in one draw, and for a reply that cannot be scored
    because it has no key, no value and no choices.
    """
    seen = set[tuple[str, float]]()
    for row in add_known_choices(rows):
        idx, task = row["sample"], row["task"].strip().replace(" ", "_")
        if task in CHOICES and not IDX_PATTERN.fullmatch(idx):
            idx = f"{row.get('split') or 'val'}_{task}_{idx.removesuffix('.0')}"
        place = idx, row.get("draw", 0)
        if place in seen:
            raise TaskError(
                f"{path}: the idx {idx!r} occurs twice; keep one reply per item, or number the"
                " draws in a column `draw`"
            )
        seen.add(place)
        subtask = get_subtask_of_idx(idx) if IDX_PATTERN.fullmatch(idx) else row["task"]
        key = row["key"].removeprefix(HIDDEN_ANSWER).strip("() ")
        choices = row["choices"] or CHOICES.get(subtask, ())
        if not (choices or key) and row["verdict"] == UNSCORED:
            raise TaskError(f"{path}: {_describe_unscorable(idx, subtask)}")
        yield {**row, "sample": idx, "task": subtask, "key": key, "choices": choices}


def _describe_unscorable(idx: str, subtask: str) -> str:
    if not IDX_PATTERN.fullmatch(idx):
        return (
            f"{idx!r} has no key and no choices; add `choices` to its line, name the columns of"
            " keys or choices with --column key=COLUMN, or give --key FILE. The latter alone is"
            f" enough only for an idx such as val_Art_Style_1: {idx!r} does not have the form"
            " SPLIT_SUBTASK_NUMBER"
        )
    there = extend_hint(suggest_names(subtask, CHOICES), f"these are {', '.join(sorted(CHOICES))}")
    return f"{idx!r} has no choices and no key, and {subtask!r} is not a subtask of BLINK{there}"


def add_known_choices(rows: Iterable[Cells]) -> Iterator[Fields]:
    """Yield the rows, adding choices to rows that have a letter as key but no choices.

    The choices are BLINK's own, or those listed in the question, or else as many empty choices as
    the keys of the task need. A key that is the text of a choice, or the choice's letter in lower
    case, is replaced by the letter.
    """
    copies, last = list(map(dict, rows)), dict[str, str]()
    for row in copies:
        key, texts = row["key"], [choice.casefold() for choice in row["choices"]]
        if SMALL_LETTER_PATTERN.fullmatch(key) and key not in texts:
            letters = ascii_uppercase[: len(_find_known_choices(row))]
            row["key"] = key.upper() if key.strip("()").upper() in letters else key
        if LETTER_PATTERN.fullmatch(row["key"]):
            last[row["task"]] = max(last.get(row["task"], "B"), row["key"].strip("()"))
    for row in copies:
        key, texts = row["key"], [choice.casefold() for choice in row["choices"]]
        # a key may be the text of a choice; Counting's choices are unknown, and keys may be hidden
        if key and key.casefold() in texts and not LETTER_PATTERN.fullmatch(key):
            row["key"] = ascii_uppercase[texts.index(key.casefold())]
        if not texts and LETTER_PATTERN.fullmatch(key):
            blank = ("",) * (ord(last[row["task"]]) - ord("A") + 1)
            row["choices"] = _find_known_choices(row) or blank
        yield row


def _find_known_choices(row: Cells) -> Sequence[str]:
    subtask, own = get_subtask_of_idx(row["sample"]), row["choices"]
    return own or CHOICES.get(subtask) or parse_listed_choices(row["question"])


def check_keys(rows: Sequence[Cells]) -> str:
    """Describe the fault if replies that are not scored yet have no key, or a key that is not a
    choice; empty if there is no fault. BLINK's items are skipped: their keys are in a file, or
    hidden."""
    keyless = [
        row
        for row in rows
        if row["key"].strip("() ").casefold() in HIDDEN_CELLS
        and row["verdict"] == UNSCORED
        and get_subtask_of_idx(row["sample"]) not in CHOICES
    ]
    if keyless:
        lacking = f"none of {len(rows)} rows has a key"
        if len(keyless) < len(rows):
            lacking = f"{len(keyless)} of {len(rows)} rows have no key"
        return (
            f"{lacking}, so they cannot be scored; the first is"
            f" {keyless[0]['sample']!r}. Name the column of keys with --column key=COLUMN"
        )
    keyed, strange = 0, list[Cells]()
    for row in add_known_choices(rows):
        if row["choices"] and row["key"] not in ("", HIDDEN_ANSWER) and row["verdict"] == UNSCORED:
            keyed += 1
            if normalize_answer(row["key"]) not in ascii_uppercase[: len(row["choices"])]:
                strange.append(row)
    if not strange:
        return ""
    many = f"none of {keyed} keys is a choice"
    if len(strange) < keyed:
        many = f"{len(strange)} of {keyed} keys are not choices"
    return (
        f"{many}, so no reply can be right; the first is {strange[0]['key']!r}, and its choices are"
        f" {list(strange[0]['choices'])}. Name a column of letters with --column key=COLUMN"
    )


def parse_listed_choices(question: str) -> tuple[str, ...]:
    """Parse the choices at the end of a question, each after a letter such as "(A)", "A." or "A:";
    empty unless there are at least two, in order."""
    _, *pieces = CHOICE_PATTERN.split(question)
    letters, texts = pieces[::2], [" ".join(text.split()) for text in pieces[1::2]]
    start = len(letters) - letters[::-1].index("A") - 1 if "A" in letters else len(letters)
    texts[-1:] = [pieces[-1].strip().partition("\n")[0].strip()] if pieces else []
    in_order = "".join(letters[start:]) == ascii_uppercase[: len(letters) - start]
    return tuple(texts[start:]) if in_order and len(letters) - start > 1 else ()


def rescore_with(log: Log, reader: Stage | None) -> Log:
    """Score a log's replies with the reader, against the log's own keys and choices; return the new
    log.

    Without a reader, only replies that were never scored are scored, by their recorded labels or
    else by `Robust`. Raises TaskError if the log holds no reply.
    """
    whole = log.whole
    frame = whole.rows
    if labelled := (frame["label"] != "").any():
        keyed = frame[frame["key"] != ""]
        frame = keyed if len(keyed) else frame
    column = "label" if labelled and reader is None else "reply"
    rows = frame.to_dict("records")
    if not frame[column].any():
        raise TaskError(f"{log.source}: {log.name} holds no reply that --reader could read")
    rows, doubt = list(add_known_choices(rows)), check_keys(rows)
    stage = reader or Robust() if column == "reply" else None
    name, read = type(stage).__name__, make_row_reader(stage)
    if stage is None:
        name = "the recorded official labels"
    unscored, reader_name = [row["verdict"] == UNSCORED for row in rows], name
    if reader is None and any(row["verdict"] not in (UNSCORED, "failed") for row in rows):
        reader_name = f"the log, and {sum(unscored)} of {len(rows)} rows by {name}"
    for number, row in enumerate(rows):
        again = unscored[number] or (reader is not None and row["verdict"] != "failed")
        if row["key"] and again:
            rows[number] = {**read(row), "scorer": name, "scores": {}}
    return replace(whole, reader_name=reader_name, doubt=doubt or whole.doubt, rows=make_rows(rows))


def make_row_reader(reader: Stage | None) -> Callable[[Cells], Fields]:
    """Return a function that scores a row: its reply as parsed by the reader or, without a reader,
    its recorded label."""
    # a log has no run folder, only rows: this folder is empty
    scorer = RecordScorer(RunFolder(Path(os.devnull)), reader or OfficialLabel())

    def read(row: Cells) -> Fields:
        subtask = get_subtask_of_idx(row["sample"])
        sample = {
            "id": row["sample"],
            # if the log has no question text, its key shows a yes-no question
            "question": row["question"] or "yes or no" * (row["key"].casefold() in ("yes", "no")),
            "images": [],
            "choices": list(row["choices"]),
            "marks": [],
            "meta": {"subtask": subtask if subtask in CHOICES else row["task"]},
        }
        key = normalize_answer(row["key"]) if row["choices"] else row["key"]
        call = {"messages": (), "reply": {"text": row["reply" if reader else "label"]}}
        record = Record("", row["sample"], "", calls=(call,))
        return {
            **row,
            **make_score_columns(scorer(record, SampleRow(row["task"], "", key or None, sample))),
        }

    return read
