"""What was sent to a model, a request at a time, and which requests of two sides ask the same: by
what their pictures show and what their words say, as each program words and encodes its own."""

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
from looktwice.eval.runs.requests import SENT, read_options
from looktwice.eval.tasks.base import TaskError
from looktwice.extras.logs.compare import chosen_places
from looktwice.extras.logs.format import read_logs
from looktwice.extras.logs.log import Log, name_apart
from looktwice.extras.sent.looks import look_at
from looktwice.pipelines.model import CallOptions, Message
from looktwice.pipelines.picture import Picture, hash_distance
from looktwice.prompting.wording.read_choices import ListedChoices, find_choices

FAR, UNLIKE, DOUBT = 7.0, 8.0, 0.25
"""Pictures and words that are farther apart ask something else; two partners that are as near as
DOUBT are equally likely."""
MOST_UNLIKE = 16.0  # levels of 255, of which more say no more
COMMON = 0.5  # what words weigh that most questions have
OPTIONS = tuple(option.name for option in fields(CallOptions))
WORD = re.compile(r"\w+")
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Request:
    """A request: its messages and settings, and of its sample the last reply, the key as the text
    of a choice, and the number of calls, where they are known."""

    sample: str
    messages: tuple[Message, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    reply: str = ""
    key: str = ""
    calls: int = 1

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all its turns, in the order in which they were sent."""
        return tuple(view.picture for message in self.messages for view in message.views)

    @property
    def asked(self) -> Message:
        """The last turn of the user; an empty one where there is none."""
        turns = [message for message in self.messages if message.role == "user"]
        return turns[-1] if turns else Message("user", ())

    @property
    def listed(self) -> ListedChoices | None:
        """The choices that this turn lists."""
        return find_choices(self.asked.text)

    @property
    def choices(self) -> tuple[str, ...]:
        """Their texts, in the order in which it lists them."""
        return self.listed.texts if self.listed else ()

    @property
    def options(self) -> CallOptions:
        """Its settings, as far as a call may have them."""
        given = {name: value for name, value in self.settings.items() if name in OPTIONS}
        return read_options(given)

    def words(self, with_choices: bool) -> set[str]:
        """The words of this turn, or those beside its choices."""
        text, choices = self.asked.text, None if with_choices else self.listed
        if choices is not None:
            text = text[: choices.start] + text[choices.end :]
        return set(WORD.findall(text.casefold()))


@dataclass(frozen=True)
class Requests:
    """The requests of one contestant of a run, or of a log. `repeated` counts those that came again
    and are not looked at twice; `path` is where they lie. `name` tells it from other sides."""

    name: str
    requests: tuple[Request, ...]
    repeated: int = 0
    path: Path = Path()
    contestant: str = ""


def read_requests(path: Path, columns: Mapping[str, str] | None = None) -> list[Requests]:
    """What each contestant of a run folder sent, or each log of another program that keeps its
    messages. Raises RunError, and TaskError where nothing was kept."""
    if is_run(path):
        sides = list(_of_run(RunFolder(path)))
    else:
        sides = list(map(_of_log, name_apart(read_logs(path, columns))))
    if not any(side.requests for side in sides):
        raise TaskError(f"{path} holds no request with its messages; give a run folder or a .eval")
    return [replace(side, path=path, contestant=side.name) for side in sides if side.requests]


def choose_sides(
    sides: Sequence[Requests], baseline: str = "", only: Sequence[str] = ()
) -> list[Requests]:
    """The baseline, or the first, and the others, or `only` those of these names. Raises TaskError
    for an unknown name and for fewer than two sides."""
    if len(sides) < 2:
        raise TaskError(f"a comparison needs two sides, found {sides[0].name if sides else 'none'}")
    for form in ("{0.name}", "{0.path.name}: {0.contestant}", "{0.path}: {0.contestant}"):
        names = list(map(form.format, sides))
        if len({*names}) == len(names):
            break
    return [replace(sides[n], name=names[n]) for n in chosen_places(names, baseline, only)]


def is_keyless(path: Path) -> bool:
    """Whether a path is a run that knows no key, as what a server recorded: of it one can compare
    what was sent alone."""
    return is_run(path) and not any(row.answer for row in RunFolder(path).samples.values())


def key_text(key: str, choices: Sequence[Any]) -> str:
    """The text of the choice that a key names by its letter; the key itself where its text is not
    known."""
    letters = ascii_uppercase[: len(choices)]
    choice = choices[letters.index(key)] if key and key in letters else key
    return choice if isinstance(choice, str) else key


def _of_run(folder: RunFolder) -> Iterator[Requests]:
    points = {point.recorded_as: point for point in folder.present_and_older[0]}
    samples, requests = folder.samples, dict[str, dict[tuple[Any, ...], Request]]()
    seen = Counter[str]()
    for record in folder.last_records():
        point = points.get(record.point)
        if point is None or not record.calls:
            continue
        row = samples.get((point.task_id, record.sample))
        settings, call = _settings(point, record), record.calls[0]
        # what a client sent again is the same request
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
                key_text(row.answer or "", row.sample["choices"]) if row else "",
                len(record.calls),
            ),
        )
    for contestant, own in requests.items():
        yield Requests(contestant, tuple(own.values()), seen[contestant] - len(own))


def _settings(point: PointRow, record: Record) -> dict[str, Any]:
    """What a request asks for: the settings of the study's model, those of the call, and what a
    server was sent beside them; without what is None."""
    node = point.spec.get("model") or {}
    settings = {name: node[name] for name in ("model", *OPTIONS) if node.get(name) is not None}
    settings |= record.calls[0].get("options") or {}
    for name, value in (record.measured or {}).items():
        if name.startswith(SENT):
            with suppress(TypeError, ValueError):
                value = json.loads(value)
            settings[name.removeprefix(SENT)] = value
    return settings


def _of_log(entry: Log) -> Requests:
    requests = []
    for row in entry.whole.rows.to_dict("records"):
        messages = tuple(entry.messages(row))
        sent = messages[:-1] if messages and messages[-1].role == "assistant" else messages
        if sent and not row["draw"]:
            key = key_text(row["key"], row["choices"])
            requests.append(Request(row["sample"], sent, {}, row["reply"], key))
    return Requests(entry.name, tuple(requests))


class Pairing(NamedTuple):
    """Which request of one side asks what which of the other asks, as places in both, and why the
    others have no partner: (place, reason) of each side."""

    pairs: list[tuple[int, int]]
    left: list[tuple[int, str]]
    right: list[tuple[int, str]]


def pair_requests(
    mine: Sequence[Request], theirs: Sequence[Request], is_one_run: bool = False
) -> Pairing:
    """Pair each request with the likeliest of the other side, if neither has a likelier one.

    Two are alike by their pictures (perceptual hash, and the thumbnails) and by those of their
    words that tell the questions of one side from one another; where one has no pictures, by the
    words alone. Those of one run are alike by their samples. Partners that are equally likely are
    none.
    """
    names = [np.array([request.sample for request in side]) for side in (mine, theirs)]
    if is_one_run and all(len({*side}) == len(side) for side in names):
        apart = np.where(names[0][:, np.newaxis] == names[1], 0.0, np.inf)
    else:
        apart = _distances(mine, theirs)
    left, pairs = apart.copy(), list[tuple[int, int]]()
    while new := _mutual(left):
        pairs += new
        rows, columns = map(list, zip(*new, strict=True))
        left[rows], left[:, columns] = np.inf, np.inf
    pairs.sort()
    taken = {row for row, _ in pairs}, {column for _, column in pairs}
    return Pairing(
        pairs, list(_alone(apart, left, taken[0])), list(_alone(apart.T, left.T, taken[1]))
    )


def _mutual(apart: Matrix) -> list[tuple[int, int]]:
    """The pairs of which either is the other's nearest, and clearly so."""
    if not apart.size:
        return []
    nearest = apart.argmin(axis=1)
    pairs = []
    for row, column in enumerate(nearest.tolist()):
        distance = apart[row, column]
        near = (apart[row] <= distance + DOUBT).sum() + (apart[:, column] <= distance + DOUBT).sum()
        if np.isfinite(distance) and near == 2 and apart[:, column].argmin() == row:
            pairs.append((row, column))
    return pairs


def _alone(apart: Matrix, left: Matrix, taken: set[int]) -> Iterator[tuple[int, str]]:
    for row in sorted({*range(len(apart))} - taken):
        if np.isfinite(left[row]).any():
            yield row, "two of the other side are equally likely"
        elif np.isfinite(apart[row]).any():
            yield row, "its likeliest partner there is nearer to another"
        else:
            yield row, "no request there shows and asks the same"


def _distances(mine: Sequence[Request], theirs: Sequence[Request]) -> Matrix:
    """How far each request is from each of the other side, (n, m): 0 for the same; infinite where
    they ask something else."""
    sides, pictures = (mine, theirs), list[dict[int, tuple[Picture, ...]]]()
    is_listed = all(any(request.listed for request in side) for side in sides)
    alike = _likeness(*([request.words(is_listed) for request in side] for side in sides))
    words = 10 * (1 - alike)
    apart = np.where(words <= UNLIKE, words, np.inf)
    for side in sides:
        pictures.append({n: r.pictures for n, r in enumerate(side) if r.pictures})
    here, there = pictures
    if here and there:
        cells = np.ix_([*here], [*there])
        shown = _picture_distances([*here.values()], [*there.values()])
        apart[cells] = np.where(shown <= FAR, apart[cells] + shown, np.inf)
    return apart


def _likeness(mine: Sequence[set[str]], theirs: Sequence[set[str]]) -> Matrix:
    """The share of the words of two requests that both have, 0..1; what most questions of a side
    say weighs nothing, so that a template does not count."""
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
    alike: Matrix = (shared + COMMON) / (either + COMMON)
    return alike


def _picture_distances(
    mine: Sequence[Sequence[Picture]], theirs: Sequence[Sequence[Picture]]
) -> Matrix:
    """How far the pictures of two requests are apart, each from its nearest of the other: the mean
    of the side with fewer, so that one that was left out does not count."""
    looks = [[*map(look_at, chain(*side))] for side in (mine, theirs)]
    here, there = (np.stack([look.small for look in side]) for side in looks)
    squares = (here**2).mean(axis=1)[:, np.newaxis] + (there**2).mean(axis=1)
    gaps = np.sqrt(np.maximum(squares - 2 * (here @ there.T / here.shape[1]), 0))
    hashes = [hash_distance(a.hash, b.hash) for a, b in product(*looks)]
    apart = np.reshape(hashes, gaps.shape) + np.minimum(gaps, MOST_UNLIKE) / 2
    sizes = [[*map(len, side)] for side in (mine, theirs)]
    rows, columns = ([0, *np.cumsum(side[:-1])] for side in sizes)  # where a request begins
    to_there = np.add.reduceat(np.minimum.reduceat(apart, columns, axis=1), rows, axis=0)
    to_here = np.add.reduceat(np.minimum.reduceat(apart, rows, axis=0), columns, axis=1)
    nearest: Matrix = np.minimum(to_there / np.c_[sizes[0]], to_here / sizes[1])
    return nearest
