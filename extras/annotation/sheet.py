"""Draws a stratified sample of the rows of logs and writes it as an annotation sheet: a CSV file,
pictures, and a page with forms."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from looktwice.eval.display.printable import format_csv, load_template
from looktwice.eval.page.render import escape_json, make_page_policy, read_page_file
from looktwice.eval.scoring.verdict import Verdict
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.log import Log, make_names_unique, normalize_answer
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.picture import Picture, PictureError, make_thumbnail_url

ASK_ERRORS, ASK_ANSWERS, ASK_REPLIES = "errors", "answers", "replies"
ITEM_COLUMNS = ("contestant", "task", "sample", "question", "choices", "key", "answer", "reply")
"""The columns of a log row that are copied to an item."""
SHOWN_COLUMNS: Mapping[str, tuple[str, ...]] = {
    ASK_ERRORS: ("item", "task", "sample", "contestant", *ITEM_COLUMNS[3:], "pictures"),
    ASK_ANSWERS: ("item", "task", "sample", "question", "choices", "pictures"),
    ASK_REPLIES: ("item", "task", "sample", "contestant", "question", "choices", "reply"),
}
FILLED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    ASK_ERRORS: ("category", "note"),
    ASK_ANSWERS: ("human_answer", "difficulty", "note"),
    ASK_REPLIES: ("human_answer", "note"),
}
"""The columns that people fill in. People who answer see neither the correct answer nor a model's
reply; people who read replies, to be compared with judges, see neither the correct answer nor the
answer that was read."""
TIMING_COLUMNS = ("exposure_ms", "response_ms")
"""Further columns that a page of timed trials fills in: how long the pictures were shown, and the
time from their onset to the answer."""
KEY_FILE, SHEET_FILE, PAGE_FILE = "key.json", "sheet.csv", "sheet.html"
MAX_PICTURE_SIDE = 768
TEMPLATES_PACKAGE = "looktwice.extras.annotation"


@dataclass(frozen=True)
class SheetItem:
    """An item of a sheet: its number, the row of the log, and its stratum, which makes up the share
    `weight` of all rows. A `practice` item shows its correct answer and is not counted."""

    item: str
    contestant: str
    task: str
    sample: str
    question: str
    choices: tuple[str, ...]
    key: str
    answer: str
    reply: str
    stratum: str
    weight: float
    practice: bool = False


@dataclass(frozen=True)
class SheetKey:
    """The part of a sheet that raters do not see: the kind of task, the user's taxonomy, every item
    with its correct answer, and for how many ms pictures are shown (0: until the answer; None: no
    timed trials)."""

    ask: str
    taxonomy: tuple[str, ...]
    items: tuple[SheetItem, ...]
    exposure: float | None = None


def parse_exposure(text: str) -> float:
    """Parse a time such as 200ms; return milliseconds. Raises TaskError."""
    time = re.fullmatch(r"(\d+(?:\.\d+)?)ms", text)
    if time is None:
        raise TaskError(f"--exposure {text}: expected a time such as 200ms (0ms: until the answer)")
    return float(time[1])


def draw_sheet(
    logs: Sequence[Log],
    ask: str = ASK_ERRORS,
    n: int = 60,
    verdict: str = "wrong",
    by: Sequence[str] = (),
    seed: int = 0,
    practice: int = 0,
) -> tuple[SheetItem, ...]:
    """Draw n rows, as equally from all strata as their sizes allow; the same seed gives the same
    rows.

    Strata are defined by `by`, columns of the logs or `contestant`; the default is contestant and
    task. Only the first draw of a sample counts. For ASK_ANSWERS, each sample of the first log is
    drawn at most once, whatever its verdict. `verdict` is one of eval.scoring's, or "any". The n
    rows follow `practice` other rows of each stratum, evenly spaced from the easiest to the hardest
    by the mean value in all logs. Raises TaskError if no row is left.
    """
    if ask not in SHOWN_COLUMNS:
        raise TaskError(f"--ask {ask}: expected {', '.join(SHOWN_COLUMNS)}")
    if verdict not in ("any", *Verdict):
        raise TaskError(f"--verdict {verdict}: expected any, {', '.join(Verdict)}")
    named = make_names_unique([log.whole for log in logs])
    rows = [
        row | {"contestant": log.name}
        for log in (named[:1] if ask == ASK_ANSWERS else named)
        for row in log.rows[log.rows["draw"] == 0].to_dict("records")
        if ask == ASK_ANSWERS or verdict in ("any", row["verdict"])
    ]
    if not rows:
        raise TaskError(f"no row is {verdict}; set --verdict any, or give another log")
    names = by or (("task",) if ask == ASK_ANSWERS else ("contestant", "task"))
    if lacking := [name for name in names if name not in rows[0]]:
        raise TaskError(f"--by {lacking[0]}: no such column; the columns are {', '.join(rows[0])}")
    strata: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        strata[", ".join(str(row[name]) for name in names)].append(row)
    chance = random.Random(seed)
    trained = list[tuple[str, dict[str, Any]]]()
    sizes = {name: len(stratum) for name, stratum in strata.items()}
    for name, stratum in strata.items():
        chance.shuffle(stratum)
        trained += [(name, row) for row in _take_spread_rows(stratum, named, practice)]
    taken = dict.fromkeys(strata, 0)
    while sum(taken.values()) < min(n, len(rows) - len(trained)):
        for name, stratum in strata.items():
            if taken[name] < len(stratum) and sum(taken.values()) < n:
                taken[name] += 1
    chosen = [(name, row) for name in strata for row in strata[name][: taken[name]]]
    chance.shuffle(chosen)
    return tuple(
        SheetItem(
            item=str(number),
            stratum=name,
            weight=sizes[name] / len(rows),
            practice=number <= len(trained),
            **{column: row[column] for column in ITEM_COLUMNS},
        )
        for number, (name, row) in enumerate([*trained, *chosen], 1)
    )


def _take_spread_rows(
    rows: list[dict[str, Any]], logs: Sequence[Log], n: int
) -> list[dict[str, Any]]:
    """Remove up to n rows from the list and return them: rows evenly spaced from the easiest to the
    hardest by their mean value in the logs."""
    import pandas

    if not n:
        return []
    answers = pandas.concat([log.rows for log in logs])
    means = answers.groupby(["task", "sample"])["value"].mean().fillna(0)
    ranked = sorted(rows, key=lambda row: -means[row["task"], row["sample"]])
    places = np.linspace(0, len(ranked) - 1, min(n, len(ranked)))
    spread = [ranked[round(place)] for place in places]
    for row in spread:
        rows.remove(row)
    return spread


def write_sheet(
    items: Sequence[SheetItem],
    logs: Sequence[Log],
    out: Path,
    ask: str = ASK_ERRORS,
    taxonomy: Sequence[str] = (),
    exposure: float | None = None,
) -> Iterator[str]:
    """Write sheet.csv, sheet.html, key.json and the pictures into a folder, and yield lines that
    describe them. Raises OSError.

    The pictures are the ones sent to the model, including marks, if a log keeps them. With an
    `exposure` in ms (0: until the answer), the page shows one item at a time and times it.
    """
    if (out / KEY_FILE).exists():
        raise TaskError(
            f"{out} already holds a sheet, which may be filled in; name another folder with --out"
        )
    by_name = {log.name: log for log in make_names_unique(logs)}
    filled = FILLED_COLUMNS[ask] + (() if exposure is None else TIMING_COLUMNS)
    shown, table = [], [(*SHOWN_COLUMNS[ask], *filled)]
    for item in items:
        sees = "pictures" in SHOWN_COLUMNS[ask]
        pictures = list(_collect_pictures(by_name[item.contestant], item)) if sees else []
        for name, picture in pictures:
            write_file(out / name, picture.payload.data)
        words: dict[str, Any] = asdict(item) | {
            "choices": "\n".join(
                f"({chr(65 + at)}) {text}" for at, text in enumerate(item.choices)
            ),
            "pictures": " ".join(name for name, _ in pictures),
        }
        words = {name: words[name] for name in SHOWN_COLUMNS[ask]}
        table.append((*words.values(), *("" for _ in filled)))
        thumbnails = [make_thumbnail_url(picture, MAX_PICTURE_SIDE) for _, picture in pictures]
        taught = {"key": normalize_answer(item.key)} if item.practice else {}
        shown.append(words | taught | {"pictures": thumbnails})
    write_file(out / SHEET_FILE, format_csv(table, "\r\n"))
    key = SheetKey(ask, tuple(taxonomy), tuple(items), exposure)
    write_file(out / KEY_FILE, json.dumps(asdict(key)) + "\n")
    write_file(out / PAGE_FILE, _render_page(shown, key, filled))
    strata = format_count(len({item.stratum for item in items}), "stratum", "strata")
    yield (
        f"sheet: {out / PAGE_FILE}, or {out / SHEET_FILE}"
        f" ({format_count(len(items), 'item')} of {strata})"
    )
    yield (
        f"each rater saves a copy next to it, such as {out / 'anna.csv'}; then type: looktwice"
        f" annotate {out / '*.csv'}"
    )


def _collect_pictures(log: Log, item: SheetItem) -> Iterator[tuple[str, Picture]]:
    """Yield the pictures that were sent, each once, with their file names."""
    seen: set[str] = set()
    for message in log.get_messages({"task": item.task, "sample": item.sample, "draw": 0}):
        for picture in (view.picture for view in message.views):
            try:
                payload = picture.payload
            except PictureError:
                continue
            if payload.sha not in seen:
                seen.add(payload.sha)
                ending = payload.media_type.rpartition("/")[2]
                yield f"pictures/{payload.sha[:16]}.{ending}", picture


def _render_page(shown: Sequence[Mapping[str, Any]], key: SheetKey, filled: Sequence[str]) -> str:
    """Render the page with forms, which stores entries in the browser and saves them as a CSV
    file."""
    data = {
        "filled": filled,
        "taxonomy": key.taxonomy,
        "items": list(shown),
        "exposure": key.exposure,
    }
    names = ["sheet.js"] if key.exposure is None else ["sheet_trials.js", "sheet.js"]
    script, title = (
        "\n".join(read_page_file(name, TEMPLATES_PACKAGE) for name in names),
        f"Sheet: {key.ask}",
    )
    policy = make_page_policy([script], served=False)
    page = load_template("sheet.html.j2", TEMPLATES_PACKAGE)
    return str(page.render(script=script, policy=policy, data=escape_json(data), title=title))
