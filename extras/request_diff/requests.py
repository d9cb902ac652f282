"""Requests that a model was sent, and the pairing of two sides' requests that ask the same.

Pairs are found by what the pictures show and what the text says, because each program words and
encodes requests in its own way.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import chain, product
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from looktwice.eval.records.records import PointRow, RunFolder, is_run
from looktwice.eval.records.schema import Record
from looktwice.eval.runs.requests import SENT_PREFIX, read_options
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.compare import find_places
from looktwice.extras.logs.format import read_logs
from looktwice.extras.logs.log import Log, make_names_unique
from looktwice.extras.request_diff.looks import get_look
from looktwice.pipelines.model import CallOptions, Message
from looktwice.pipelines.picture import Picture, hash_distance
from looktwice.prompting.wording.read_choices import ListedChoices, find_choices

MAX_PICTURE_DISTANCE, MAX_TEXT_DISTANCE, MIN_DISTANCE_GAP = 7.0, 8.0, 0.25
"""Pictures or texts that are farther apart than the first two ask something else; partners whose
distances differ by at most the third are equally likely."""
MAX_THUMBNAIL_DIFFERENCE = 16.0  # largest difference of thumbnails that counts, in levels of 0..255
COMMON_WORDS_WEIGHT = 0.5  # weight of all words that most questions have
OPTION_NAMES = tuple(option.name for option in fields(CallOptions))
WORD_PATTERN = re.compile(r"\w+")
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Request:
    """A request: its messages and settings, and, if known, its sample's last reply, key (as the
    text of a choice) and number of calls."""

    sample: str
    messages: tuple[Message, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    reply: str = ""
    key: str = ""
    calls: int = 1

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all turns, in the order in which they were sent."""
        return tuple(view.picture for message in self.messages for view in message.views)

    @property
    def asked(self) -> Message:
        """The user's last turn; an empty message if there is none."""
        turns = [message for message in self.messages if message.role == "user"]
        return turns[-1] if turns else Message("user", ())

    @property
    def listed(self) -> ListedChoices | None:
        """The choices that this turn lists."""
        return find_choices(self.asked.text)

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts of the choices, in the order in which they are listed."""
        return self.listed.texts if self.listed else ()

    @property
    def options(self) -> CallOptions:
        """The settings that a call accepts."""
        given = {name: value for name, value in self.settings.items() if name in OPTION_NAMES}
        return read_options(given)

    def words(self, with_choices: bool) -> set[str]:
        """Return the words of the user's last turn, with or without those of its choices."""
        text, choices = self.asked.text, None if with_choices else self.listed
        if choices is not None:
            text = text[: choices.start] + text[choices.end :]
        return set(WORD_PATTERN.findall(text.casefold()))


@dataclass(frozen=True)
class Requests:
    """The requests of one contestant of a run, or of a log.

    `repeated` counts the exact repetitions, which are left out. `path` is the run or log. `name`
    distinguishes the side from others.
    """

    name: str
    requests: tuple[Request, ...]
    repeated: int = 0
    path: Path = Path()
    contestant: str = ""


def read_requests(path: Path, columns: Mapping[str, str] | None = None) -> list[Requests]:
    """Read the requests of each contestant of a run folder, or of each log of another program that
    keeps its messages. Raises RunError, and TaskError if no messages were kept."""
    if is_run(path):
        sides = list(_read_run(RunFolder(path)))
    else:
        sides = list(map(_read_log, make_names_unique(read_logs(path, columns))))
    if not any(side.requests for side in sides):
        raise TaskError(f"{path} holds no requests with messages; give a run folder or a .eval")
    return [replace(side, path=path, contestant=side.name) for side in sides if side.requests]


def select_sides(
    sides: Sequence[Requests], baseline: str = "", only: Sequence[str] = ()
) -> list[Requests]:
    """Return the baseline, by default the first, followed by the sides named in `only` or all
    others. Raises TaskError for an unknown name and for fewer than two sides."""
    if len(sides) < 2:
        raise TaskError(f"a comparison needs two sides, found {sides[0].name if sides else 'none'}")
    for form in ("{0.name}", "{0.path.name}: {0.contestant}", "{0.path}: {0.contestant}"):
        names = list(map(form.format, sides))
        if len({*names}) == len(names):
            break
    return [replace(sides[n], name=names[n]) for n in find_places(names, baseline, only)]


def has_no_keys(path: Path) -> bool:
    """Return whether a path is a run without keys, such as one recorded by a server; of such a run
    only the requests can be compared."""
    return is_run(path) and not any(row.answer for row in RunFolder(path).samples.values())


def get_key_text(key: str, choices: Sequence[Any]) -> str:
    """Return the text of the choice that a key names by its letter, or the key itself if the text
    is unknown."""
    letters = ascii_uppercase[: len(choices)]
    choice = choices[letters.index(key)] if key and key in letters else key
    return choice if isinstance(choice, str) else key


def _read_run(folder: RunFolder) -> Iterator[Requests]:
    points = {point.records_id: point for point in folder.current_and_earlier_points[0]}
    samples, requests = folder.samples, dict[str, dict[tuple[Any, ...], Request]]()
    seen = Counter[str]()
    for record in folder.last_records():
        point = points.get(record.point)
        if point is None or not record.calls:
            continue
        row = samples.get((point.task_id, record.sample))
        settings, call = _settings(point, record), record.calls[0]
        # a client's repetition of a request counts as the same request
        content = (*call["messages"], json.dumps(settings, sort_keys=True, default=str))
        own = requests.setdefault(point.contestant, {})
        seen[point.contestant] += 1
        own.setdefault(
            content,
            Request(
                f"{record.sample} ({record.draw})" if record.draw else record.sample,
                folder.messages(record, 0)[: len(call["messages"])],
                settings,
                str((record.last_reply or {}).get("text") or ""),
                get_key_text(row.answer or "", row.sample["choices"]) if row else "",
                len(record.calls),
            ),
        )
    for contestant, own in requests.items():
        yield Requests(contestant, tuple(own.values()), seen[contestant] - len(own))


def _settings(point: PointRow, record: Record) -> dict[str, Any]:
    """Return the settings of a request: the settings of the study's model and of the call, and
    further ones that a server was sent, without None values."""
    node = point.spec.get("model") or {}
    settings = {name: node[name] for name in ("model", *OPTION_NAMES) if node.get(name) is not None}
    settings |= record.calls[0].get("options") or {}
    for name, value in (record.measured or {}).items():
        if name.startswith(SENT_PREFIX):
            with suppress(TypeError, ValueError):
                value = json.loads(value)
            settings[name.removeprefix(SENT_PREFIX)] = value
    return settings


def _read_log(entry: Log) -> Requests:
    requests = []
    for row in entry.whole.rows.to_dict("records"):
        messages = tuple(entry.messages(row))
        sent = messages[:-1] if messages and messages[-1].role == "assistant" else messages
        if sent and not row["draw"]:
            key = get_key_text(row["key"], row["choices"])
            requests.append(Request(row["sample"], sent, {}, row["reply"], key))
    return Requests(entry.name, tuple(requests))


class Pairing(NamedTuple):
    """The pairs of requests that ask the same, as positions in both sides, and (position, reason)
    for the requests of each side without a partner."""

    pairs: list[tuple[int, int]]
    unpaired: list[tuple[int, str]]
    unpaired_rival: list[tuple[int, str]]


def pair_requests(
    mine: Sequence[Request], theirs: Sequence[Request], is_one_run: bool = False
) -> Pairing:
    """Pair each request with the most similar one of the other side, if the preference is mutual.

    Similarity is that of the pictures (perceptual hash and thumbnails) and of the words that
    distinguish a side's questions; if one request has no pictures, of the words alone. Requests of
    one run are paired by their samples. Partners that are equally likely are not paired.
    """
    names = [np.array([request.sample for request in side]) for side in (mine, theirs)]
    if is_one_run and all(len({*side}) == len(side) for side in names):
        apart = np.where(names[0][:, np.newaxis] == names[1], 0.0, np.inf)
    else:
        apart = _measure_distances(mine, theirs)
    left, pairs = apart.copy(), list[tuple[int, int]]()
    while new := _find_mutual_nearest(left):
        pairs += new
        rows, columns = map(list, zip(*new, strict=True))
        left[rows], left[:, columns] = np.inf, np.inf
    pairs.sort()
    taken = {row for row, _ in pairs}, {column for _, column in pairs}
    return Pairing(
        pairs,
        list(_explain_unpaired(apart, left, taken[0])),
        list(_explain_unpaired(apart.T, left.T, taken[1])),
    )


def _find_mutual_nearest(apart: Matrix) -> list[tuple[int, int]]:
    """Return the pairs of requests of which each is clearly the nearest to the other."""
    if not apart.size:
        return []
    nearest = apart.argmin(axis=1)
    pairs = []
    for row, column in enumerate(nearest.tolist()):
        distance = apart[row, column]
        near = (apart[row] <= distance + MIN_DISTANCE_GAP).sum() + (
            apart[:, column] <= distance + MIN_DISTANCE_GAP
        ).sum()
        if np.isfinite(distance) and near == 2 and apart[:, column].argmin() == row:
            pairs.append((row, column))
    return pairs


def _explain_unpaired(apart: Matrix, left: Matrix, taken: set[int]) -> Iterator[tuple[int, str]]:
    for row in sorted({*range(len(apart))} - taken):
        if np.isfinite(left[row]).any():
            yield row, "two requests of the other side are equally likely matches"
        elif np.isfinite(apart[row]).any():
            yield row, "its most likely partner is nearer to another request"
        else:
            yield row, "no request of the other side shows and asks the same"


def _measure_distances(mine: Sequence[Request], theirs: Sequence[Request]) -> Matrix:
    """Measure the distance between each two requests, (n, m): 0 for the same, infinite if they ask
    something else."""
    sides, pictures = (mine, theirs), list[dict[int, tuple[Picture, ...]]]()
    is_listed = all(any(request.listed for request in side) for side in sides)
    alike = _measure_similarity(*([request.words(is_listed) for request in side] for side in sides))
    words = 10 * (1 - alike)
    apart = np.where(words <= MAX_TEXT_DISTANCE, words, np.inf)
    for side in sides:
        pictures.append({n: r.pictures for n, r in enumerate(side) if r.pictures})
    here, there = pictures
    if here and there:
        cells = np.ix_([*here], [*there])
        shown = _measure_picture_distances([*here.values()], [*there.values()])
        apart[cells] = np.where(shown <= MAX_PICTURE_DISTANCE, apart[cells] + shown, np.inf)
    return apart


def _measure_similarity(mine: Sequence[set[str]], theirs: Sequence[set[str]]) -> Matrix:
    """Measure the share of words that two requests have in common, 0..1.

    Words that most questions of a side contain weigh next to nothing, so a template does not count.
    """
    columns = {word: n for n, word in enumerate(sorted({*chain(*mine, *theirs)}))}
    present = np.zeros((len(mine) + len(theirs), len(columns)), np.float32)
    for row, words in enumerate(chain(mine, theirs)):
        present[row, [columns[word] for word in words]] = 1
    rarities = []
    for side in np.split(present, [len(mine)]):
        counts = side.sum(axis=0)
        rarities.append(np.where(counts, np.log((len(side) + 1) / np.maximum(counts, 1)), np.inf))
    here, there = np.split(present * np.minimum(*rarities), [len(mine)])
    shared = (here @ present[len(mine) :].T).astype(float)
    either = here.sum(axis=1)[:, np.newaxis] + there.sum(axis=1) - shared
    alike: Matrix = (shared + COMMON_WORDS_WEIGHT) / (either + COMMON_WORDS_WEIGHT)
    return alike


def _measure_picture_distances(
    mine: Sequence[Sequence[Picture]], theirs: Sequence[Sequence[Picture]]
) -> Matrix:
    """Measure the distance between the pictures of each two requests.

    It is the mean distance from each picture to the nearest one of the other request, over the
    request with fewer pictures, so that a picture that the other lacks does not count.
    """
    looks = [[*map(get_look, chain(*side))] for side in (mine, theirs)]
    here, there = (np.stack([look.small for look in side]) for side in looks)
    squares = (here**2).mean(axis=1)[:, np.newaxis] + (there**2).mean(axis=1)
    gaps = np.sqrt(np.maximum(squares - 2 * (here @ there.T / here.shape[1]), 0))
    hashes = [hash_distance(a.hash, b.hash) for a, b in product(*looks)]
    apart = np.reshape(hashes, gaps.shape) + np.minimum(gaps, MAX_THUMBNAIL_DIFFERENCE) / 2
    sizes = [[*map(len, side)] for side in (mine, theirs)]
    rows, columns = ([0, *np.cumsum(side[:-1])] for side in sizes)  # where a request begins
    to_there = np.add.reduceat(np.minimum.reduceat(apart, columns, axis=1), rows, axis=0)
    to_here = np.add.reduceat(np.minimum.reduceat(apart, rows, axis=0), columns, axis=1)
    nearest: Matrix = np.minimum(to_there / np.c_[sizes[0]], to_here / sizes[1])
    return nearest
