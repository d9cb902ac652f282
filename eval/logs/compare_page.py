"""The page of a comparison: the same page as a report's, made of anybody's logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from looktwice.eval.logs.compare import LogComparison
from looktwice.eval.logs.log import Log
from looktwice.eval.page.conversations import THUMBNAIL
from looktwice.eval.page.data import (
    PageAnswer,
    PageContestant,
    PageData,
    PagePicture,
    PageSample,
    PageTask,
    PageTurn,
)
from looktwice.pipelines.notebook import thumbnail
from looktwice.pipelines.picture import PictureError

MOST_SAMPLES = 20_000
"""Samples of a page; of more, the files beside it tell."""
MOST_WORDED, MOST_THUMBNAILS = 2_000, 300
"""Samples whose replies a page holds, and pictures of runs: those that flipped come first."""


def compare_page(found: LogComparison) -> PageData:
    """The data of the page: the baseline's samples, and the answers of every log to those that
    match.

    Replies are there for the samples that flipped first, and for these also the messages and
    pictures that a run kept.
    """
    base = found.logs[0].units
    tasks = list(dict.fromkeys(base["task"]))
    rows, clusters = base.to_dict("records"), found.logs[0].clusters
    samples = [
        _sample(row, tasks.index(row["task"]), name)
        for row, name in zip(rows, clusters, strict=True)
    ]
    flipped = (np.abs(found.values - found.values[:, :1]) > 0).any(axis=1)
    first = np.argsort(~flipped, kind="stable")[:MOST_WORDED]
    worded, shown = set(first.tolist()), set(np.flatnonzero(flipped).tolist())
    answers: dict[tuple[int, int], list[PageAnswer]] = {}
    thumbnails: dict[str, str] = {}
    for who, log in enumerate(found.logs):
        rows = log.whole.rows.groupby(["task", "sample"], sort=False).indices if len(worded) else {}
        units, records = log.units, log.whole.rows.to_dict("records")
        for sample, place in _places(found, who):
            mine = [
                records[number]
                for number in rows[units["task"].iloc[place], units["sample"].iloc[place]]
            ]
            answers[who, sample] = [
                (
                    _answer(row, log if sample in shown else None, thumbnails)
                    if sample in worded
                    else _brief(row)
                )
                for row in mine
            ]
    return PageData(
        "compare: " + ", ".join(log.name for log in found.logs),
        [
            PageContestant(log.name, log.source, not who, {"log": log.source})
            for who, log in enumerate(found.logs)
        ],
        [PageTask(task or "task") for task in tasks],
        samples,
        answers,
        thumbnails,
        detailed=None if len(worded) == len(samples) else frozenset(worded),
    )


def _places(found: LogComparison, who: int) -> Iterator[tuple[int, int]]:
    """The number of each sample of the baseline with the place of its partner in the log."""
    if who == 0:
        return ((place, place) for place in range(len(found.logs[0].units)))
    pairs = found.matchings[who - 1].pairs
    return zip(pairs["one"].tolist(), pairs["other"].tolist(), strict=True)


def _sample(row: Mapping[str, Any], task: int, group: str) -> PageSample:
    key = None if row["verdict"] == "hidden" else row["key"]
    return PageSample(task, row["sample"], row["question"], row["choices"], key, (), group)


def _brief(row: Mapping[str, Any]) -> PageAnswer:
    value = row["value"] if row["value"] == row["value"] else 0.0
    verdict = row["verdict"] or ("right" if value == 1 else "wrong")
    cost = row["cost"] if row["cost"] == row["cost"] else None
    return PageAnswer(
        verdict, value, row["answer"], cost=cost
    )  # logs tell tokens in and out as one number


def _answer(row: Mapping[str, Any], log: Log | None, thumbnails: dict[str, str]) -> PageAnswer:
    brief = _brief(row)
    turns = () if log is None else tuple(islice(_turns(row, log, thumbnails), 20))
    return replace(brief, reply=row["reply"], turns=turns)


def _turns(row: Mapping[str, Any], log: Log, thumbnails: dict[str, str]) -> Iterator[PageTurn]:
    said = (
        log.transcript(row["task"], row["sample"], row["draw"])
        if log.transcript is not None
        else ()
    )
    for message in said:
        parts: list[str | PagePicture] = []
        for part in message.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            sha = part.picture.sha
            parts.append(PagePicture(sha))
            if sha not in thumbnails and len(thumbnails) < MOST_THUMBNAILS:
                try:
                    thumbnails[sha] = thumbnail(part.picture, *THUMBNAIL)
                except PictureError:
                    continue
        yield PageTurn(message.role, tuple(parts))
