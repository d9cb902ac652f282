"""Requests sent to a model, and the pairing of two sides' requests that ask the same question.

Requests are paired by the content of their pictures and texts, because each program words and
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
from looktwice.extras.request_diff.looks import get_appearance
from looktwice.pipelines.model import CallOptions, Message
from looktwice.pipelines.picture import Picture, measure_hash_distance
from looktwice.prompting.wording.read_choices import ListedChoices, find_choices

MAX_PICTURE_DISTANCE, MAX_TEXT_DISTANCE, MIN_DISTANCE_GAP = 7.0, 8.0, 0.25
"""Two requests ask different questions if their pictures are farther apart than the first number
or their texts farther than the second; partners whose distances differ by at most the third are
equally likely."""
MAX_THUMBNAIL_DIFFERENCE = 16.0  # cap on the difference of thumbnails, in levels
COMMON_WORDS_WEIGHT = 0.5  # joint weight of the words that most questions contain
OPTION_NAMES = tuple(option.name for option in fields(CallOptions))
WORD_PATTERN = re.compile(r"\w+")
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Request:
    """One request: its messages and settings, and, if known, the last reply, the key (as the text
    of a choice) and the number of calls of its sample."""

    sample: str
    messages: tuple[Message, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    reply: str = ""
    key: str = ""
    call_count: int = 1

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all turns, in the order in which they were sent."""
        return tuple(view.picture for message in self.messages for view in message.views)

    @property
    def last_user_turn(self) -> Message:
        """The user's last turn; an empty message if there is none."""
        turns = [message for message in self.messages if message.role == "user"]
        return turns[-1] if turns else Message("user", ())

    @property
    def choice_list(self) -> ListedChoices | None:
        """The choices that the user's last turn lists."""
        return find_choices(self.last_user_turn.text)

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts of the choices, in the order in which they are listed."""
        return self.choice_list.texts if self.choice_list else ()

    @property
    def options(self) -> CallOptions:
        """The settings that a call accepts."""
        given = {name: value for name, value in self.settings.items() if name in OPTION_NAMES}
        return read_options(given)

    def words(self, with_choices: bool) -> set[str]:
        """Return the words of the user's last turn, with or without those of its choices."""
        text, choices = self.last_user_turn.text, None if with_choices else self.choice_list
        if choices is not None:
            text = text[: choices.start] + text[choices.end :]
        return set(WORD_PATTERN.findall(text.casefold()))


@dataclass(frozen=True)
class Requests:
    """One side of a comparison: the requests of one contestant of a run, or of a log.

    `repeat_count` is the number of exact repetitions, which are left out. `path` is the run or log.
    `name` is unique among the compared sides.
    """

    name: str
    requests: tuple[Request, ...]
    repeat_count: int = 0
    path: Path = Path()
    contestant: str = ""


def read_requests(path: Path, columns: Mapping[str, str] | None = None) -> list[Requests]:
    """Read the requests of each contestant of a run folder, or of each log of another program that
    stores its messages. Raises RunError, and TaskError if no messages were stored."""
    if is_run(path):
        sides = list(_read_run(RunFolder(path)))
    else:
        sides = list(map(_read_log, make_names_unique(read_logs(path, columns))))
    if not any(side.requests for side in sides):
        raise TaskError(f"{path} holds no requests with messages; give a run folder or a .eval log")
    return [replace(side, path=path, contestant=side.name) for side in sides if side.requests]


def select_sides(
    sides: Sequence[Requests], baseline: str = "", only: Sequence[str] = ()
) -> list[Requests]:
    """Return the baseline (default: the first side), followed by the sides named in `only`
    (default: all others). Raises TaskError for an unknown name and for fewer than two sides."""
    if len(sides) < 2:
        raise TaskError(f"a comparison needs two sides, found {sides[0].name if sides else 'none'}")
    for form in ("{0.name}", "{0.path.name}: {0.contestant}", "{0.path}: {0.contestant}"):
        names = list(map(form.format, sides))
        if len({*names}) == len(names):
            break
    return [replace(sides[n], name=names[n]) for n in find_places(names, baseline, only)]


def lacks_keys(path: Path) -> bool:
    """Return whether a path is a run without keys, such as a recording of `serve`, whose requests
    can be compared but not its scores."""
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
        settings, call = _merge_settings(point, record), record.calls[0]
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


def _merge_settings(point: PointRow, record: Record) -> dict[str, Any]:
    """Return the settings of a request that are not None: those of the study's model, of the call,
    and further ones that a client sent to `serve`."""
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
        messages = tuple(entry.get_messages(row))
        sent = messages[:-1] if messages and messages[-1].role == "assistant" else messages
        if sent and not row["draw"]:
            key = get_key_text(row["key"], row["choices"])
            requests.append(Request(row["sample"], sent, {}, row["reply"], key))
    return Requests(entry.name, tuple(requests))


class Pairing(NamedTuple):
    """The pairs of requests that ask the same question, as indices into both sides, and (index,
    reason) for each side's requests without a partner."""

    pairs: list[tuple[int, int]]
    unpaired_base: list[tuple[int, str]]
    unpaired_rival: list[tuple[int, str]]


def pair_requests(
    mine: Sequence[Request], theirs: Sequence[Request], is_one_run: bool = False
) -> Pairing:
    """Pair each request of one side with the request of the other side if each is the most similar
    one to the other.

    Similarity compares the pictures (perceptual hash and thumbnails) and the words that distinguish
    a side's questions; if one request has no pictures, the words alone. Requests of one run are
    paired by their samples. A request with several equally likely partners is not paired.
    """
    names = [np.array([request.sample for request in side]) for side in (mine, theirs)]
    if is_one_run and all(len({*side}) == len(side) for side in names):
        distances = np.where(names[0][:, np.newaxis] == names[1], 0.0, np.inf)
    else:
        distances = _measure_distances(mine, theirs)
    remaining, pairs = distances.copy(), list[tuple[int, int]]()
    while new := _find_mutual_nearest(remaining):
        pairs += new
        rows, columns = map(list, zip(*new, strict=True))
        remaining[rows], remaining[:, columns] = np.inf, np.inf
    pairs.sort()
    paired = {row for row, _ in pairs}, {column for _, column in pairs}
    return Pairing(
        pairs,
        list(_explain_unpaired(distances, remaining, paired[0])),
        list(_explain_unpaired(distances.T, remaining.T, paired[1])),
    )


def _find_mutual_nearest(distances: Matrix) -> list[tuple[int, int]]:
    """Return the pairs (row, column) of requests that are clearly nearest to each other."""
    if not distances.size:
        return []
    nearest = distances.argmin(axis=1)
    pairs = []
    for row, column in enumerate(nearest.tolist()):
        distance = distances[row, column]
        near = (distances[row] <= distance + MIN_DISTANCE_GAP).sum() + (
            distances[:, column] <= distance + MIN_DISTANCE_GAP
        ).sum()
        if np.isfinite(distance) and near == 2 and distances[:, column].argmin() == row:
            pairs.append((row, column))
    return pairs


def _explain_unpaired(
    distances: Matrix, remaining: Matrix, paired: set[int]
) -> Iterator[tuple[int, str]]:
    for row in sorted({*range(len(distances))} - paired):
        if np.isfinite(remaining[row]).any():
            yield row, "two requests of the other side are equally likely matches"
        elif np.isfinite(distances[row]).any():
            yield row, "its most likely partner is nearer to another request"
        else:
            yield row, "no request of the other side has the same pictures and question"


def _measure_distances(mine: Sequence[Request], theirs: Sequence[Request]) -> Matrix:
    """Compute the distances (n, m) between all requests of two sides: 0 for equal requests,
    infinite for different questions."""
    sides, pictures = (mine, theirs), list[dict[int, tuple[Picture, ...]]]()
    is_listed = all(any(request.choice_list for request in side) for side in sides)
    similarity = _measure_similarity(
        *([request.words(is_listed) for request in side] for side in sides)
    )
    words = 10 * (1 - similarity)
    distances = np.where(words <= MAX_TEXT_DISTANCE, words, np.inf)
    for side in sides:
        pictures.append({n: r.pictures for n, r in enumerate(side) if r.pictures})
    first, second = pictures
    if first and second:
        cells = np.ix_([*first], [*second])
        between = _measure_picture_distances([*first.values()], [*second.values()])
        distances[cells] = np.where(
            between <= MAX_PICTURE_DISTANCE, distances[cells] + between, np.inf
        )
    return distances


def _measure_similarity(mine: Sequence[set[str]], theirs: Sequence[set[str]]) -> Matrix:
    """Compute the share of words (0 to 1) that each pair of requests has in common, weighted by
    rarity.

    Words that most questions of a side contain weigh almost nothing, so a template does not count.
    """
    columns = {word: n for n, word in enumerate(sorted({*chain(*mine, *theirs)}))}
    present = np.zeros((len(mine) + len(theirs), len(columns)), np.float32)
    for row, words in enumerate(chain(mine, theirs)):
        present[row, [columns[word] for word in words]] = 1
    rarities = []
    for side in np.split(present, [len(mine)]):
        counts = side.sum(axis=0)
        rarities.append(np.where(counts, np.log((len(side) + 1) / np.maximum(counts, 1)), np.inf))
    first, second = np.split(present * np.minimum(*rarities), [len(mine)])
    shared = (first @ present[len(mine) :].T).astype(float)
    union = first.sum(axis=1)[:, np.newaxis] + second.sum(axis=1) - shared
    similarity: Matrix = (shared + COMMON_WORDS_WEIGHT) / (union + COMMON_WORDS_WEIGHT)
    return similarity


def _measure_picture_distances(
    mine: Sequence[Sequence[Picture]], theirs: Sequence[Sequence[Picture]]
) -> Matrix:
    """Compute the distances between the pictures of all requests of two sides.

    The distance of two requests is the mean distance from each picture of the request with fewer
    pictures to the nearest picture of the other request, so that additional pictures do not count.
    """
    appearances = [[*map(get_appearance, chain(*side))] for side in (mine, theirs)]
    first, second = (np.stack([look.thumbnail for look in side]) for side in appearances)
    squares = (first**2).mean(axis=1)[:, np.newaxis] + (second**2).mean(axis=1)
    gaps = np.sqrt(np.maximum(squares - 2 * (first @ second.T / first.shape[1]), 0))
    hashes = [measure_hash_distance(a.hash, b.hash) for a, b in product(*appearances)]
    distances = np.reshape(hashes, gaps.shape) + np.minimum(gaps, MAX_THUMBNAIL_DIFFERENCE) / 2
    sizes = [[*map(len, side)] for side in (mine, theirs)]
    rows, columns = (
        [0, *np.cumsum(side[:-1])] for side in sizes
    )  # the first picture of each request
    to_second = np.add.reduceat(np.minimum.reduceat(distances, columns, axis=1), rows, axis=0)
    to_first = np.add.reduceat(np.minimum.reduceat(distances, rows, axis=0), columns, axis=1)
    nearest: Matrix = np.minimum(to_second / np.c_[sizes[0]], to_first / sizes[1])
    return nearest
