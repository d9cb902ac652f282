"""Evaluates filled-in sheets: the share of each category, agreement between raters, and people as
contestants."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from string import ascii_uppercase

import numpy as np

from looktwice.eval.display.printable import format_csv
from looktwice.eval.display.text_tables import TextTable
from looktwice.eval.records.judgements import NO_JUDGE, read_judgements
from looktwice.eval.records.records import RunFolder
from looktwice.eval.scoring.score import score_run
from looktwice.eval.statistics.answers import cohens_kappa, fleiss_kappa
from looktwice.eval.statistics.intervals import Estimate, Stratum, mean_of_shares
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.table_files import read_texts
from looktwice.extras.annotation.sheet import ASK_ANSWERS, ASK_ERRORS, KEY_FILE, SheetItem, SheetKey
from looktwice.extras.logs.log import normalize_answer
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import read_file, write_file
from looktwice.pipelines.json_input import read_as

MAJORITY, HUMANS_FILE = "majority", "humans/humans.csv"
EXPOSURE_TOLERANCE_MS = 25.0
"""Tolerance of an exposure time in ms: a frame and a half at 60 Hz."""


@dataclass(frozen=True)
class Ratings:
    """The non-empty cells that raters filled in, by rater and item, and the key of the sheet."""

    key: SheetKey
    entries: Mapping[str, Mapping[str, Mapping[str, str]]]

    def get_column(self, rater: str, name: str) -> dict[str, str]:
        """Return one rater's entries in a column, by item. For MAJORITY, return the entries that
        more than half of an item's raters agree on."""
        if rater != MAJORITY:
            rated = self.entries[rater].items()
            return {item: cells[name] for item, cells in rated if cells.get(name)}
        votes: dict[str, list[str]] = defaultdict(list)
        for rater in self.entries:
            for item, value in self.get_column(rater, name).items():
                votes[item].append(value)
        majority = {}
        for item, values in votes.items():
            value, n = Counter(values).most_common(1)[0]
            if 2 * n > len(values):
                majority[item] = value
        return majority

    def get_numbers(self, rater: str, name: str) -> dict[str, float]:
        """Return the numbers that a rater entered in a column, by item."""
        column = self.get_column(rater, name) if rater in self.entries else {}
        return {
            item: float(cell)
            for item, cell in column.items()
            if cell.replace(".", "", 1).isdecimal()
        }

    @property
    def raters(self) -> list[str]:
        """The raters, and MAJORITY if there are three or more."""
        return [*self.entries, *([MAJORITY] if len(self.entries) > 2 else [])]

    @property
    def main_column(self) -> str:
        """The column that every rater has to fill in."""
        return "category" if self.key.ask == ASK_ERRORS else "human_answer"

    def grade_answers(self, rater: str) -> dict[str, bool]:
        """Return whether the rater's answer is correct, by item; items without a correct answer are
        left out."""
        answers = self.get_column(rater, "human_answer")
        return {
            item.item: parse_letter(answers[item.item], item) == normalize_answer(item.key)
            for item in self.key.items
            if item.key and item.item in answers
        }


def is_sheet(path: Path) -> bool:
    """Return whether a file is a filled-in sheet: a CSV file next to the key of a sheet."""
    return path.suffix == ".csv" and (path.parent / KEY_FILE).exists()


def read_ratings(paths: Sequence[Path]) -> Ratings:
    """Read the filled-in sheets of several raters, who are named after their files. Raises
    TaskError."""
    folders = {path.parent for path in paths}
    if len(folders) > 1:
        raise TaskError(
            f"the sheets are in {len(folders)} folders; copy those of one sample into the folder of"
            f" its {KEY_FILE}"
        )
    place = folders.pop() / KEY_FILE
    try:
        key = read_as(SheetKey, read_file(place))
    except (OSError, ValueError) as exc:
        raise TaskError(
            f"{place} cannot be read ({exc}); copy the {KEY_FILE} that was written with the sheet"
            " into this folder"
        ) from exc
    items, filled = {item.item for item in key.items}, {}
    practice = {item.item for item in key.items if item.practice}
    column = Ratings(key, {}).main_column
    for path in paths:
        rows = list(read_texts(path))
        if not rows or not {"item", column} <= rows[0].keys():
            raise TaskError(f"{path} is not a filled-in sheet: it needs columns item and {column}")
        cells = {row["item"]: {name: cell.strip() for name, cell in row.items()} for row in rows}
        if strange := [item for item in cells if item not in items]:
            raise TaskError(
                f"{path}: item {strange[0]!r} is not in {place}; give a sheet that was written with"
                f" this {KEY_FILE}"
            )
        tested = {item: row for item, row in cells.items() if item not in practice}
        if any(row[column] for row in tested.values()):
            filled[path.stem] = tested
    if not filled:
        raise TaskError(f"the column {column} is empty in all sheets")
    counting = tuple(item for item in key.items if not item.practice)
    return Ratings(replace(key, items=counting), filled)


def add_judges(ratings: Ratings, run: Path) -> Ratings:
    """Add the answers that a run's reader and judges found in the same replies; an empty answer
    means that none was found. Raises RunError."""
    items = {(item.contestant, item.task, item.sample): item.item for item in ratings.key.items}
    filled, folder = dict(ratings.entries), RunFolder(run)
    for judge in (NO_JUDGE, *read_judgements(run).judges):
        cells = dict[str, Mapping[str, str]]()
        for scores in score_run(folder, judge=judge).points:
            for sample, draws in scores.scored.items():
                item = items.get((scores.contestant, scores.task, sample))
                if item and 0 in draws and judge in (NO_JUDGE, draws[0].judge):
                    cells[item] = {ratings.main_column: draws[0].answer or NO_JUDGE}
        filled["reader" if judge == NO_JUDGE else judge] = cells
    return replace(ratings, entries=filled)


def tabulate_shares(ratings: Ratings) -> TextTable:
    """Return the share of each category by rater, estimated for all rows that the sheet was drawn
    from, with its 95 % interval."""
    columns = {rater: ratings.get_column(rater, "category") for rater in ratings.raters}
    names = dict.fromkeys(ratings.key.taxonomy)
    for column in columns.values():
        names |= dict.fromkeys(column.values())
    lines = []
    for name in names:
        line = [name]
        for column in columns.values():
            hits = {item: value == name for item, value in column.items()}
            line.append(_format_share(ratings.key.items, hits))
        lines.append(tuple(line))
    lines.append(("items", *map(str, map(len, columns.values()))))
    return TextTable(("category", *columns), lines)


def _format_share(items: Sequence[SheetItem], hits: Mapping[str, bool]) -> str:
    """Format the share of hits in percent, weighted by strata, with its interval over samples;
    empty if there are no items."""
    strata: dict[str, list[SheetItem]] = defaultdict(list)
    for item in items:
        if item.item in hits:
            strata[item.stratum].append(item)
    if not strata:
        return ""
    whole, parts = sum(part[0].weight for part in strata.values()), []
    for part in strata.values():
        values, samples = list[float](), list[tuple[str, str]]()
        for item in part:
            values.append(hits[item.item])
            samples.append((item.task, item.sample))
        parts.append(Stratum(np.array(values, float), samples, part[0].weight / whole))
    share = mean_of_shares(parts)
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def tabulate_answers(ratings: Ratings) -> TextTable:
    """Return the accuracy of each person, overall and by task, and the mean difficulty that they
    reported."""
    tasks: dict[str, list[SheetItem]] = {"all tasks": list(ratings.key.items)}
    for item in ratings.key.items:
        tasks.setdefault(item.task, []).append(item)
    if len(tasks) == 2:
        del tasks["all tasks"]
    lines = []
    for rater in ratings.raters:
        right = ratings.grade_answers(rater)
        rated = ratings.get_numbers(rater, "difficulty")
        for task, items in tasks.items():
            n = sum(item.item in right for item in items)
            numbers = [rated[item.item] for item in items if item.item in rated]
            difficulty = f"{fmean(numbers):.2f}" if numbers else ""
            lines.append((rater, task, _format_share(items, right), str(n), difficulty))
    return TextTable(("rater", "task", "right %", "n", "difficulty"), lines, 2)


def tabulate_times(ratings: Ratings) -> TextTable:
    """Return the median exposure and response times by rater; empty if nobody was timed. `off`
    counts pictures whose exposure differed from the requested time by more than
    `EXPOSURE_TOLERANCE_MS`."""
    lines = []
    for rater in ratings.entries:
        shown = ratings.get_numbers(rater, "exposure_ms").values()
        took, right = ratings.get_numbers(rater, "response_ms"), ratings.grade_answers(rater)
        asked = ratings.key.exposure
        off = sum(abs(time - asked) > EXPOSURE_TOLERANCE_MS for time in shown) if asked else 0
        apart: dict[bool | None, list[float]] = {True: [], False: [], None: []}
        for item, time in took.items():
            apart[right.get(item)].append(time)
        groups = shown, took.values(), apart[True], apart[False]
        if took:
            medians = (f"{median(group):.0f}" if group else "" for group in groups)
            lines.append((rater, str(len(took)), str(off), *medians))
    return TextTable(("rater", "n", "off", "shown", "answered", "rightly", "wrongly"), lines)


def tabulate_difficulties(ratings: Ratings) -> TextTable:
    """Return the accuracy of each person, and of the model whose log was sampled, by the difficulty
    that most people reported; no lines if nobody rated any (Do You See Me, Fig. 6)."""
    rated, items = ratings.get_column(MAJORITY, "difficulty"), ratings.key.items
    right = {rater: ratings.grade_answers(rater) for rater in ratings.entries}
    right[items[0].contestant] = {
        item.item: parse_letter(item.answer, item) == normalize_answer(item.key)
        for item in items
        if item.key
    }
    lines = []
    for level in sorted({*rated.values()}):
        alike = [item for item in items if rated.get(item.item) == level]
        shares = (_format_share(alike, hits) for hits in right.values())
        lines.append((level, str(len(alike)), *shares))
    return TextTable(("difficulty", "n", *right), lines)


def parse_letter(answer: str, item: SheetItem) -> str:
    """Return the letter of the choice that an answer names: the answer is the letter, begins with
    it, as "(B) far" does, or is the text of exactly one choice. Any other answer is returned as it
    is, normalized."""
    given = normalize_answer(answer.partition(")")[0] if answer.startswith("(") else answer)
    texts = [choice.casefold() for choice in item.choices]
    return chr(65 + texts.index(given)) if texts.count(given) == 1 else given


def describe_agreement(ratings: Ratings) -> Iterator[str]:
    """Describe Cohen's kappa of each pair of raters on the items that both filled in, and Fleiss'
    kappa of all raters on the items that all filled in."""
    import pandas

    samples = {item.item: (item.task, item.sample) for item in ratings.key.items}
    items = {item.item: item for item in ratings.key.items}
    columns = {}
    for rater in ratings.entries:
        column = ratings.get_column(rater, ratings.main_column)
        columns[rater] = {
            item: value if ratings.key.ask == ASK_ERRORS else parse_letter(value, items[item])
            for item, value in column.items()
        }
    filled = pandas.DataFrame(columns, list(samples))
    groups = [*map(list, combinations(columns, 2))]
    for raters in [*groups, list(columns)] if len(columns) > 2 else groups:
        both = filled[raters].dropna()
        values, clusters = both.T.to_numpy().tolist(), [*map(samples.__getitem__, both.index)]
        count = format_count(len(clusters), "item")
        if clusters and len(raters) > 2:
            kappa = _format_kappa("Fleiss' kappa", fleiss_kappa(values, clusters))
            yield f"all {len(raters)} raters: {kappa} on {count}"
        elif clusters:
            alike = 100 * fmean(map(str.__eq__, *values))
            kappa = _format_kappa("Cohen's kappa", cohens_kappa(values[0], values[1], clusters))
            yield f"{raters[0]} and {raters[1]}: {alike:.1f} % agreement on {count}, {kappa}"


def _format_kappa(name: str, kappa: Estimate) -> str:
    return f"{name} {kappa.value:.2f} [{kappa.low:.2f}, {kappa.high:.2f}]"


def write_human_log(ratings: Ratings, path: Path) -> Path:
    """Write the people's answers as a log table, which `looktwice compare` compares with models.
    Raises OSError."""
    items = {item.item: item for item in ratings.key.items}
    rows = [["contestant", "task", "sample", "question", "key", "answer", "value"]]
    for rater in ratings.raters:
        answers = ratings.get_column(rater, "human_answer")
        for number, right in ratings.grade_answers(rater).items():
            item, verdict = items[number], "right" if right else "wrong"
            answer = parse_letter(answers[number], item)
            rows.append([rater, item.task, item.sample, item.question, item.key, answer, verdict])
    write_file(path, format_csv(rows, "\r\n"))
    return path


def describe_ratings(ratings: Ratings) -> Iterator[str]:
    """List entries that are outside the taxonomy, missing or not an answer, then describe the
    agreement of raters."""
    taxonomy, n = ratings.key.taxonomy, len(ratings.key.items)
    for rater in ratings.entries:
        column = ratings.get_column(rater, ratings.main_column)
        if left := n - len(column):
            yield f"{rater}: {format_count(left, 'item')} of {n} not filled in"
        strange = [value for value in dict.fromkeys(column.values()) if value not in taxonomy]
        if ratings.key.ask == ASK_ERRORS and taxonomy and strange:
            yield f"{rater}: not in the taxonomy: {', '.join(strange)}"
        right, unread = ratings.grade_answers(rater), list[str]()
        for item in ratings.key.items if ratings.key.ask == ASK_ANSWERS else ():
            letters, answer = ascii_uppercase[: len(item.choices)], column.get(item.item, "")
            is_wrong = letters and right.get(item.item) is False
            if is_wrong and parse_letter(answer, item) not in letters:
                unread.append(f"{answer!r} (item {item.item})")
        if unread:
            wrong = ", ".join(unread)
            yield f"{rater}: counted as wrong, neither a letter nor the text of a choice: {wrong}"
    yield from describe_agreement(ratings)
