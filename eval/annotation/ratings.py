"""Reads filled-in sheets: the shares of each category, how raters agree, and people as
contestants."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np

from looktwice.eval.annotation.sheet import ANSWERS, ERRORS, KEY_FILE, SheetItem, SheetKey
from looktwice.eval.display.printable import csv_text
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.logs.log import letter_or_text
from looktwice.eval.statistics.answers import cohens_kappa, fleiss_kappa
from looktwice.eval.statistics.intervals import Estimate, Stratum, mean_of_shares
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.counted import counted
from looktwice.pipelines.disk import read_file, write_file

MAJORITY = "majority"


@dataclass(frozen=True)
class Ratings:
    """What raters filled in: by rater and item the columns that are not empty, beside what the
    sheet left out."""

    key: SheetKey
    filled: Mapping[str, Mapping[str, Mapping[str, str]]]

    def column(self, rater: str, name: str) -> dict[str, str]:
        """What a rater filled into a column, by item; MAJORITY is what more than half of the raters
        of an item say."""
        if rater != MAJORITY:
            return {
                item: cells[name] for item, cells in self.filled[rater].items() if cells.get(name)
            }
        votes: dict[str, list[str]] = defaultdict(list)
        for one in self.filled:
            for item, value in self.column(one, name).items():
                votes[item].append(value)
        most = {item: Counter(said).most_common(1)[0] for item, said in votes.items()}
        return {
            item: value for item, (value, count) in most.items() if 2 * count > len(votes[item])
        }

    @property
    def raters(self) -> list[str]:
        """The raters, and MAJORITY where there are three or more."""
        return [*self.filled, *([MAJORITY] if len(self.filled) > 2 else [])]


def is_sheet(path: Path) -> bool:
    """Whether a file lies beside the key of a sheet, as a filled-in one does."""
    return path.suffix == ".csv" and (path.parent / KEY_FILE).exists()


def read_ratings(paths: Sequence[Path]) -> Ratings:
    """The filled-in sheets of several raters, whose names are those of the files. Raises
    TaskError."""
    folders = {path.parent for path in paths}
    if len(folders) > 1:
        raise TaskError(
            f"the sheets lie in {len(folders)} folders; put those of one sample beside its"
            f" {KEY_FILE}"
        )
    key = _read_key(folders.pop() / KEY_FILE)
    known, filled = {item.item for item in key.items}, {}
    column = "category" if key.ask == ERRORS else "human_answer"
    for path in paths:
        try:
            rows = list(csv.DictReader(StringIO(read_file(path).decode("utf-8-sig"), newline="")))
        except OSError as exc:
            raise TaskError(f"{path} cannot be read ({exc.strerror})") from exc
        except (ValueError, csv.Error) as exc:
            raise TaskError(
                f"{path} cannot be read as CSV ({exc}); save it as CSV in UTF-8"
            ) from exc
        if not rows or not {"item", column} <= rows[0].keys():
            raise TaskError(f"{path} is no filled-in sheet: expected the columns item and {column}")
        if strange := [row["item"] for row in rows if row["item"] not in known]:
            raise TaskError(
                f"{path}: there is no item {strange[0]!r} in this sample; it belongs to another"
                " sheet"
            )
        cells = {
            row["item"]: {name: (cell or "").strip() for name, cell in row.items() if name}
            for row in rows
        }
        if any(row.get(column) for row in cells.values()):
            filled[path.stem] = cells
    if not filled:
        raise TaskError(f"nobody filled in the column {column}")
    return Ratings(key, filled)


def _read_key(path: Path) -> SheetKey:
    try:
        held = json.loads(read_file(path))
        items = tuple(
            SheetItem(**{**item, "choices": tuple(item["choices"])}) for item in held["items"]
        )
        return SheetKey(held["ask"], tuple(held["taxonomy"]), items)
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise TaskError(
            f"{path} cannot be read ({exc}); it was written with the sheet and belongs beside it"
        ) from exc


def share_table(ratings: Ratings) -> TextTable:
    """The share of each category among all rows that the sample stands for, by rater, with its 95 %
    interval."""
    held = {rater: ratings.column(rater, "category") for rater in ratings.raters}
    said = dict.fromkeys(value for column in held.values() for value in column.values())
    names = [*ratings.key.taxonomy, *(value for value in said if value not in ratings.key.taxonomy)]
    lines = [
        (
            name,
            *(
                _percent(_share(ratings.key, column, {name}.__contains__))
                for column in held.values()
            ),
        )
        for name in names
    ]
    lines.append(("items", *(str(len(column)) for column in held.values())))
    return TextTable(("category", *held), lines)


def _share(
    key: SheetKey, column: Mapping[str, str], counts: Callable[[str], bool]
) -> tuple[float, float, float] | None:
    """The share of the items that count, weighted by their strata, with its interval over their
    samples."""
    strata: dict[str, list[SheetItem]] = defaultdict(list)
    weights = {item.stratum: item.weight for item in key.items}
    for item in key.items:
        if item.item in column:
            strata[item.stratum].append(item)
    if not strata:
        return None
    whole = sum(weights[name] for name in strata)
    parts = []
    for name, items in strata.items():
        hits = np.array([counts(column[item.item]) for item in items], float)
        parts.append(
            Stratum(hits, [(item.task, item.sample) for item in items], weights[name] / whole)
        )
    found = mean_of_shares(parts)
    return found.value, found.low, found.high


def _percent(share: tuple[float, float, float] | None) -> str:
    return (
        ""
        if share is None
        else f"{100 * share[0]:.1f} [{100 * share[1]:.1f}, {100 * share[2]:.1f}]"
    )


def answer_table(ratings: Ratings) -> TextTable:
    """How many each person answered rightly, over all and by task, and how difficult it was
    found."""
    tasks = list(dict.fromkeys(item.task for item in ratings.key.items))
    lines = []
    for rater in ratings.raters:
        right = _rights(ratings, rater)
        for task in ["all tasks", *tasks] if len(tasks) > 1 else tasks:
            part = replace(
                ratings.key,
                items=tuple(i for i in ratings.key.items if task in ("all tasks", i.task)),
            )
            column = {item.item: right[item.item] for item in part.items if item.item in right}
            rated = ratings.column(rater, "difficulty") if rater != MAJORITY else {}
            marks = [float(rated[i.item]) for i in part.items if _is_number(rated.get(i.item, ""))]
            told = _percent(_share(part, column, "right".__eq__))
            lines.append(
                (rater, task, told, str(len(column)), f"{fmean(marks):.2f}" if marks else "")
            )
    return TextTable(("rater", "task", "right %", "n", "difficulty"), lines, 2)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _rights(ratings: Ratings, rater: str) -> dict[str, str]:
    """Whether the person's answer is the key, "right" or "wrong", by item; an item without a key is
    left out."""
    answers = ratings.column(rater, "human_answer")
    return {
        item.item: (
            "right" if _letter(answers[item.item], item) == letter_or_text(item.key) else "wrong"
        )
        for item in ratings.key.items
        if item.key and item.item in answers
    }


def _letter(answer: str, item: SheetItem) -> str:
    """The answer as a letter, where it is one, begins as "(B) far" does, or is the text of one
    choice."""
    said = letter_or_text(answer.partition(")")[0] if answer.startswith("(") else answer)
    texts = [choice.casefold() for choice in item.choices]
    return chr(65 + texts.index(said)) if texts.count(said) == 1 else said


def agreement_lines(ratings: Ratings) -> Iterator[str]:
    """Cohen's kappa of any two raters on the items that both filled in, and Fleiss' of all on those
    that all did."""
    name = "category" if ratings.key.ask == ERRORS else "human_answer"
    held = {rater: ratings.column(rater, name) for rater in ratings.filled}
    samples = {item.item: (item.task, item.sample) for item in ratings.key.items}
    for one, other in combinations(held, 2):
        if shared := [item for item in held[one] if item in held[other]]:
            mine, theirs = ([held[rater][item] for item in shared] for rater in (one, other))
            same = fmean(float(a == b) for a, b in zip(mine, theirs, strict=True))
            kappa = _kappa(
                "Cohen's kappa", cohens_kappa(mine, theirs, [samples[item] for item in shared])
            )
            yield (
                f"{one} and {other}: {100 * same:.1f} % alike on {counted(len(shared), 'item')},"
                f" {kappa}"
            )
    common = [
        item.item
        for item in ratings.key.items
        if all(item.item in column for column in held.values())
    ]
    if len(held) > 2 and common:
        found = fleiss_kappa(
            [[column[item] for item in common] for column in held.values()],
            [samples[item] for item in common],
        )
        told = _kappa("Fleiss' kappa", found)
        yield f"all {len(held)} raters: {told} on {counted(len(common), 'item')}"


def _kappa(name: str, found: Estimate) -> str:
    return f"{name} {found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def write_humans(ratings: Ratings, path: Path) -> Path:
    """Write the people as a table of logs, which `looktwice compare` sets beside models. Raises
    OSError."""
    items = {item.item: item for item in ratings.key.items}
    rows = [["contestant", "task", "sample", "question", "key", "answer", "value"]]
    for rater in ratings.raters:
        answers = ratings.column(rater, "human_answer")
        for number, verdict in _rights(ratings, rater).items():
            item = items[number]
            told = [item.task, item.sample, item.question, item.key, _letter(answers[number], item)]
            rows.append([rater, *told, verdict])
    write_file(path, csv_text(rows, "\r\n").encode(errors="backslashreplace"))
    return path


def ratings_lines(ratings: Ratings) -> Iterator[str]:
    """What is not in the taxonomy, what is not filled in, and how the raters agree."""
    for rater in ratings.filled:
        column = ratings.column(rater, "human_answer" if ratings.key.ask == ANSWERS else "category")
        if left := len(ratings.key.items) - len(column):
            yield f"{rater}: {counted(left, 'item')} of {len(ratings.key.items)} not filled in"
        strange = dict.fromkeys(
            value for value in column.values() if value not in ratings.key.taxonomy
        )
        if ratings.key.ask == ERRORS and ratings.key.taxonomy and strange:
            yield f"{rater}: not in the taxonomy: {', '.join(strange)}"
    yield from agreement_lines(ratings)
