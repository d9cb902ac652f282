"""A log as a table with fixed columns: a row per sample and draw, in the same form for every
program."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.counted import shorten_text
from looktwice.pipelines.model import Messages

if TYPE_CHECKING:
    import pandas

MISSING_VALUE = float("nan")
Cells = Mapping[str, Any]
"""A row of a log, or a JSON object in the log: values by name."""
Fields = dict[str, Any]
"""A row that is still being filled."""
NamedColumns = Mapping[str, str]
"""The column names that the user gave, each by the name in COLUMNS or ALIASES that it stands
for."""
COLUMNS: Cells = {
    "task": "",
    "sample": "",
    "draw": 0,
    "question": "",
    "pictures": "",  # sha256 of the bytes of each source picture, joined by "+"
    "choices": (),
    "key": "",
    "answer": "",
    "value": MISSING_VALUE,
    "verdict": "",
    "group": "",
    "reply": "",
    "tokens": MISSING_VALUE,
    "cost": MISSING_VALUE,
    "seconds": MISSING_VALUE,  # of the sample, all its calls and stages
    "label": "",  # what the benchmark's own code read in a recorded reply
    "split": "",
    "scorer": "",  # the scorer, metric or column whose value counts
    "scores": {},  # a Grade by the name of each scorer that the harness recorded
}
"""The columns of a log with their default values, which are used where a program records nothing.

`value` lies in 0..1 and is NaN where the sample failed or has no key; an unreadable reply has the
value 0. `verdict` is one of `eval.scoring.Verdict`, empty for a graded value, or UNSCORED.
"""
NAMEABLE_COLUMNS = ("task", "sample", "question", "choices", "key", "answer", "group", "reply")
"""The columns that a user may name in logs that are not tables."""
MIN_DOUBTED_ANSWERS = 5
"""The smallest number of answers at which a log without any right answer causes a warning."""
LMMS_EVAL_HARNESS, OWN_HARNESS = "lmms-eval", "looktwice"
"""The names of two harnesses: lmms-eval, and looktwice itself."""
UNSCORED = "unscored"
"""The verdict of a reply that has not been scored yet."""
SCORE_WORDS: Mapping[str, float] = {
    **dict.fromkeys(("c", "true", "yes", "right", "correct"), 1.0),
    **dict.fromkeys(("i", "n", "false", "no", "wrong", "incorrect", "unreadable"), 0.0),
    "p": 0.5,
}
"""The values of scores that are written as words: inspect_ai's letters for Correct, Incorrect,
Partial and No answer, and plain words."""


class Grade(NamedTuple):
    """The grade that one scorer of a harness gave to a reply."""

    value: float
    verdict: str = ""
    answer: str = ""

    @classmethod
    def from_value(cls, value: float, answer: str | None) -> Grade:
        """Return the grade for a value.

        A value of 0 with an empty answer is unreadable: the scorer found no answer. If the answer
        is None, the scorer records no answers.
        """
        unread = answer is not None and not answer.strip() and value == 0
        return cls(value, "unreadable" if unread else "", answer or "")


@dataclass(frozen=True)
class Log:
    """The log of one contestant; its `rows` are a data frame with COLUMNS.

    `detail` (task or variant), `source` (file name) and `path` distinguish it from other logs of
    the same name. `read_whole` returns the rows with questions, pictures and replies if `rows` were
    read without them to save time. `get_transcript` returns the messages of a task, sample and
    draw, if the log holds them. `people` is the accuracy of people by task, in 0..1, from
    `published:` of a run; `settings` are the settings of each task, if the log records them.
    `reader_name` names the reader if looktwice scored the replies. `doubt` warns about a fault that
    prevents scoring. `harness` is the program that wrote the log; a scorer's name means the same
    scorer in all logs of one harness.
    """

    name: str
    rows: pandas.DataFrame
    source: str = ""
    detail: str = ""
    read_whole: Callable[[], pandas.DataFrame] | None = field(default=None, repr=False)
    get_transcript: Callable[[str, str, int], Messages] | None = field(default=None, repr=False)
    people: Mapping[str, float] = field(default_factory=dict, repr=False)
    settings: Mapping[str, Cells] = field(default_factory=dict, repr=False)
    path: str = ""
    reader_name: str = ""
    doubt: str = ""
    harness: str = ""

    def __repr__(self) -> str:
        return f"Log({self.name!r}, {len(self.rows)} rows)"

    @cached_property
    def units(self) -> pandas.DataFrame:
        """A row per task and sample; value, tokens and cost are means over the draws that did not
        fail."""
        first = self.rows.drop_duplicates(["task", "sample"]).reset_index(drop=True)
        if len(first) == len(self.rows):
            return first
        means = self.rows.groupby(["task", "sample"], sort=False)[
            ["value", "tokens", "cost"]
        ].mean()
        return first.assign(**{name: means[name].to_numpy() for name in means})

    @cached_property
    def clusters(self) -> pandas.Series:
        """The cluster of each row of `units`: the sample's group within its task, or else its
        pictures (across tasks), or else the sample itself."""
        units = self.units
        group = units["task"] + ": group " + units["group"]
        alone = units["task"] + ": " + units["sample"]
        return group.where(
            units["group"] != "", units["pictures"].where(units["pictures"] != "", alone)
        )

    @cached_property
    def whole(self) -> Log:
        """The log with the questions, pictures and replies of its rows, which are read now if they
        were not yet."""
        if self.read_whole is None:
            return self
        return replace(self, rows=self.read_whole(), read_whole=None)

    @cached_property
    def scorers(self) -> Mapping[str, tuple[str, ...]]:
        """The scorers that graded all samples of a task, by task; the first one counts."""
        by_task = dict[str, tuple[str, ...]]()
        for row in self.units[["task", "scorer", "scores"]].to_dict("records"):
            if grades := row["scores"]:
                first = sorted(grades, key=lambda name: name != row["scorer"])
                known = by_task.get(row["task"], first)
                by_task[row["task"]] = tuple(name for name in known if name in grades)
        return by_task

    def rescore_by(self, scorers: Mapping[str, str]) -> Log:
        """Return the log with the grades of `scorers`, given by task, where the log holds them."""
        wanted = self.rows["task"].map(dict(scorers))
        if ((wanted == self.rows["scorer"]) | wanted.isna()).all():
            return self

        def choose(frame: pandas.DataFrame) -> pandas.DataFrame:
            rows = list[Fields]()
            for row in frame.to_dict("records"):
                name = scorers.get(row["task"], "")
                grade = row["scores"].get(name)
                rows.append(row | grade._asdict() | {"scorer": name} if grade else row)
            return make_rows(rows)

        whole = self.read_whole
        lazy = None if whole is None else lambda: choose(whole())
        return replace(self, rows=choose(self.rows), read_whole=lazy)

    def get_messages(self, row: Cells) -> Messages:
        """Return the conversation of a row; empty if the log holds none."""
        if self.get_transcript is None:
            return ()
        return self.get_transcript(row["task"], row["sample"], row["draw"])


def make_rows(rows: Sequence[Cells]) -> pandas.DataFrame:
    """Build a data frame with COLUMNS from mappings that hold some of these columns. Raises
    TaskError for a value outside 0..1."""
    import pandas

    frame = pandas.DataFrame(rows, columns=list(COLUMNS))
    for name, missing in COLUMNS.items():
        if name not in (rows[0] if rows else ()):
            frame[name] = [missing] * len(frame)
    beyond = frame[(frame["value"] < 0) | (frame["value"] > 1)]
    if len(beyond):
        row = beyond.iloc[0]
        raise TaskError(
            f"{row['sample']}: its value is {row['value']:g}, but values lie in 0..1; divide by"
            " the maximum, or name another column with --column value=NAME"
        )
    unsaid, value = frame["verdict"] == "", frame["value"]
    for verdict, holds in (("right", value == 1), ("wrong", value == 0), ("failed", value.isna())):
        frame.loc[unsaid & holds, "verdict"] = verdict
    return frame


def get_at_path(node: Any, *path: str) -> Any:
    """Return the value at a path of names within a JSON value, or "" if there is none."""
    for name in path:
        node = (node or {}).get(name)
    return node or ""


def get_named_fields(line: Cells, named: NamedColumns, *, must_exist: bool = True) -> Fields:
    """Return the fields of an object that the user named for the columns of a log.

    A dot in a name leads into an inner object. `value` names a scorer or metric and is skipped
    here. A missing field raises TaskError if it `must_exist`, and is left out otherwise.
    """
    cells = Fields()
    for column, field_name in named.items():
        if column not in NAMEABLE_COLUMNS:
            continue
        node: Any = line
        for part in field_name.split("."):
            node = node.get(part) if isinstance(node, Mapping) else None
        if node is None and not must_exist:
            continue
        if node is None:
            raise TaskError(
                f"--column {column}={field_name}: there is no such field; the fields are"
                f" {', '.join(map(str, line))}"
            )
        cells[column] = tuple(map(str, node)) if column == "choices" else str(node)
    return cells


def parse_value(cell: object) -> float:
    """Convert a recorded score (a number, a boolean or one of SCORE_WORDS) to a number; return NaN
    for anything else."""
    text = str(cell).strip().casefold()
    if text in SCORE_WORDS:
        return SCORE_WORDS[text]
    try:
        return float(text)
    except ValueError:
        return MISSING_VALUE


def join_hashes(hashes: Iterable[str]) -> str:
    """Join the hashes of a sample's pictures; return "" if one is unknown."""
    shas = list(hashes)
    return "+".join(shas) if all(shas) else ""


def hash_base64(text: str) -> str:
    """Return the SHA-256 of a base64-encoded picture; "" if the text is not base64."""
    try:
        return hashlib.sha256(b64decode(text, validate=True)).hexdigest()
    except ValueError:
        return ""


def find_doubts(log: Log) -> Iterator[str]:
    """Yield warnings about a log: if it has a `doubt`, if most replies are unreadable, if replies
    are empty, or if none of many answers is right."""
    if log.doubt:
        yield f"warning: {log.name}: {log.doubt}"
    unreadable = log.rows[log.rows["verdict"] == "unreadable"]
    if len(log.rows) >= MIN_DOUBTED_ANSWERS and 2 * len(unreadable) > len(log.rows):
        yield (
            f"warning: {len(unreadable)} of {len(log.rows)} replies of {log.name} are unreadable;"
            f" the first is {shorten_text(unreadable['reply'].iloc[0], 60)!r}, and its choices are"
            f" {list(unreadable['choices'].iloc[0])}"
        )
    empty = unreadable[unreadable["reply"].str.strip() == ""]
    if log.harness == LMMS_EVAL_HARNESS and len(empty):
        yield (
            f"warning: {len(empty)} of {len(log.rows)} replies of {log.name} are empty and count as"
            " 0; lmms-eval also writes an empty reply for a failed request, so check its log for"
            f" {empty['sample'].iloc[0]!r}"
        )
    scored = log.units[log.units["value"].notna() & (log.units["key"] != "")]
    if len(scored) >= MIN_DOUBTED_ANSWERS and not scored["value"].any():
        first, whole = scored.iloc[0], ""
        if not first["choices"]:
            whole = " (without choices, a reply must consist of the key alone)"
        yield (
            f"warning: none of {len(scored)} answers of {log.name} is right; the first has the"
            f" key {first['key']!r} and the answer"
            f" {shorten_text(first['answer'], 40)!r}{whole}. Check"
            " --column key=COLUMN, or try another --reader"
        )


def normalize_answer(key: object) -> str:
    """Normalize a key or an answer for comparison: "(A)", "A." and "A" become one letter, and
    other text is lowercased."""
    text = " ".join(str(key).split())
    bare = text.strip("().: ")
    return bare.upper() if len(bare) == 1 and bare.isalpha() else text.casefold()


def bracket_letter(answer: str) -> str:
    """Format an answer as in BLINK: a letter in brackets, any other text unchanged."""
    return f"({answer})" if len(answer) == 1 else answer


def find_unique_names(logs: Sequence[Any]) -> list[str]:
    """Return the names of logs, made unique by the detail, source, path or number that
    distinguishes them."""
    names = [str(log.name) for log in logs]
    for kind in ("detail", "source", "path", "number"):
        details = [str(getattr(log, kind, number)) for number, log in enumerate(logs, 1)]
        unlike = defaultdict[str, set[str]](set)
        for name, detail in zip(names, details, strict=True):
            unlike[name].add(detail)
        names = [
            f"{name} ({detail})" if detail and len(unlike[name]) > 1 else name
            for name, detail in zip(names, details, strict=True)
        ]
    return names


def make_names_unique(logs: Sequence[Log]) -> list[Log]:
    """Make the names of logs unique, as `find_unique_names` does."""
    names = find_unique_names(logs)
    return [replace(log, name=name) for log, name in zip(logs, names, strict=True)]
