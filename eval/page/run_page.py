"""The data of a page of scored runs: contestants and answers, with as many texts and pictures as a
file should hold."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, zip_longest
from statistics import fmean
from typing import Any

from looktwice.eval.page.conversations import (
    MAX_PICTURE_CHARACTERS,
    MAX_THUMBNAIL_CHARACTERS,
    THUMBNAIL_SIDE_AND_QUALITY,
    Conversations,
    draw_answer,
    scale_marks,
)
from looktwice.eval.page.data import (
    PageAnswer,
    PageContestant,
    PageData,
    PagePicture,
    PageSample,
    PageTask,
)
from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.scoring.arm_columns import ArmColumns
from looktwice.eval.scoring.columns import VERDICTS, Words
from looktwice.eval.scoring.row import Rows
from looktwice.eval.scoring.run_rows import get_human_accuracies
from looktwice.eval.scoring.verdict import PointScores, RunScores, Samples, Scorer, Verdict
from looktwice.pipelines.disk import dump_yaml
from looktwice.pipelines.extensions import find_extension
from looktwice.pipelines.picture import Picture, PictureError, make_thumbnail_url

ImageLoader = Callable[[str, str], tuple[Picture, ...]]
"""A function (task id, sample id) -> the sample's own images, empty if they are not available."""

MAX_ANSWERS, MAX_CHARACTERS = 16_000, 7_400_000
"""The largest run whose texts a file holds completely: its number of answers, and the characters of
their texts."""
MAX_SHOWN_ANSWERS = 2_000
"""The largest number of answers of a larger run that have their texts in the file; samples on which
contestants disagree come first. `view` shows all texts."""

IMAGE_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff")
"""The first bytes of most image formats; other files may be videos, which an extension shows as
pictures."""

PREFETCHED_SAMPLE_COUNT = 8  # samples whose thumbnails are made before they are needed

TASK_FACTS = ("split", "label_version", "errata", "note", "revision", "left_out")


@dataclass
class RunPage:
    """The data of a page of runs, merged from the arms of all of them. `images` returns the
    samples' own images if the tasks' data is available."""

    runs: Sequence[RunScores]
    images: ImageLoader | None = None

    def __post_init__(self) -> None:
        self.contestants = dict[tuple[int, str], PageContestant]()
        self.tasks, self.samples = dict[str, PageTask](), list[PageSample]()
        self.answers = dict[tuple[int, int], list[PageAnswer]]()
        self.rows, self.run_of = list[SampleRow](), list[int]()
        self._arms = defaultdict[tuple[int, str], list[tuple[int, PointScores]]](list)
        self._scorers = dict[tuple[int, int], Scorer | None]()
        self._numbers, self._with_texts = dict[bytes, int](), set[int]()
        self._sample_numbers = dict[tuple[int, int], tuple[Samples, Mapping[str, int]]]()
        for run, scored in enumerate(self.runs):
            for scores in scored.points:
                self._add_arm(run, scores)

    def make_data(
        self, rows: Rows, *, with_texts: bool = True, first: Sequence[int] = ()
    ) -> PageData:
        """Return the data with the texts and thumbnails that fit into a file, or with none if
        `with_texts` is False.

        `rows` are the rows of the runs' table, from which the curves of a sweep are made. A file
        holds all texts and pictures of the samples `first`, whatever their size.
        """
        thumbnails = self._fill_file(first) if with_texts else {}
        lines: Any = ()
        drawn: Any = ()
        if any(scores.point.changes for run in self.runs for scores in run.points):
            from looktwice.eval.page.sweeps import make_curves, make_grids

            lines, drawn = make_curves(self.runs, rows), make_grids(self.runs, rows)
        is_complete = with_texts and len(self._with_texts) == len(self.samples)
        return PageData(
            ", ".join(run.name for run in self.runs),
            list(self.contestants.values()),
            list(self.tasks.values()),
            self.samples,
            self.answers,
            thumbnails,
            [(run.name, _describe_provenance(run)) for run in self.runs],
            lines=list(lines),
            grids=list(drawn),
            detailed=None if is_complete else frozenset(self._with_texts),
        )

    def iterate_answers(
        self, samples: Collection[int]
    ) -> Iterator[tuple[int, int, int, PageAnswer]]:
        """Yield (contestant, sample, index among its draws, answer with its texts) for every record
        of these samples."""
        wanted = set(samples)
        names = {self.rows[number].id for number in wanted}
        for run, scored in enumerate(self.runs):
            conversations = Conversations(scored.folder)
            for record in scored.records_of(names):
                for who, sample, place in self._find_answers(run, record):
                    if sample in wanted:
                        answer = self.answers[who, sample][place]
                        sources = partial(self.get_own_pictures, sample)
                        detailed = conversations.add_details(record, answer, sources)
                        scorer = self._scorers[who, self.samples[sample].task]
                        places = draw_answer(scorer, answer, self.rows[sample], sources)
                        yield who, sample, place, replace(detailed, places=places)

    def iterate_replies(self) -> Iterator[tuple[int, str]]:
        """Yield (sample, reply) for every call of every record, one record at a time."""
        for run, scored in enumerate(self.runs):
            for record in scored.folder.last_records():
                for _, sample, _ in self._find_answers(run, record):
                    yield from ((sample, reply.text) for reply in record.replies)

    def get_own_pictures(self, number: int) -> list[tuple[PagePicture, Picture]]:
        """Return the sample's own pictures with their marks, as stored by the run or from its
        task."""
        row = self.rows[number]
        named, captions = row.sample["images"], self._make_captions(number)
        own = tuple(self.open_stored(sha) for sha in named)
        if self.images and not all(map(self._is_stored, named)):  # reading a task may be slow
            own = self.images(row.task, row.id) or own
        pictures = []
        for place, (sha, picture, caption) in enumerate(zip(named, own, captions, strict=False)):
            with suppress(PictureError):  # never sent unchanged, and the task's data is gone
                if picture.sha == sha:  # otherwise the data has changed since the run
                    marks = scale_marks(row, place, picture.size)
                    pictures.append((PagePicture(sha, caption, marks), picture))
        return pictures

    def _make_captions(self, number: int) -> list[str]:
        """Return the captions of a sample's own pictures, with the times of video frames."""
        sample = self.rows[number].sample
        times = sample["meta"].get("seconds")
        names = [f"source {n}" for n, _ in enumerate(sample["images"], 1)]
        if not isinstance(times, list) or len(times) != len(names):
            return names
        return [f"{name} at {time} s" for name, time in zip(names, times, strict=True)]

    def get_contestant_number(self, run: int, label: str) -> int:
        """Return the index of a run's contestant, given its label in tables."""
        return list(self.contestants).index((run, self.make_label(run, label)))

    def make_label(self, run: int, label: str) -> str:
        """Return a label of a run's contestant with the run's name, if there are several runs."""
        return f"{label} ({self.runs[run].name})" if len(self.runs) > 1 else label

    def get_sample_number(self, scores: PointScores, sample: str) -> int:
        """Return the index of an arm's sample in the page."""
        return self._numbers[_make_key(scores.task, scores.samples[sample])]

    def open_stored(self, sha: str) -> Picture:
        """Return a picture that one of the runs stored; reading it raises PictureError if it is
        gone."""

        def read() -> bytes:
            for run in self.runs:
                with suppress(OSError, ValueError):  # it is gone, or its name is not a sha256
                    data = run.folder.blobs.get(sha)
                    is_image = data.startswith(IMAGE_SIGNATURES)
                    still = None if is_image else find_extension("parts", "still")
                    return still.open()(data) if still else data
            raise PictureError(f"no run holds the picture {sha[:12]}")

        return Picture.lazy(read, f"picture {sha[:12]}")

    def _is_stored(self, sha: str) -> bool:
        with suppress(ValueError):  # an unreadable picture has no sha256
            return any(sha in run.folder.blobs for run in self.runs)
        return False

    def _add_arm(self, run: int, scores: PointScores) -> None:
        """Add one arm: its contestant, task, samples and answers, merged with those of other
        arms."""
        folder, name = self.runs[run].name, self.make_label(run, scores.contestant)
        present = self.contestants.get((run, name)) or PageContestant(
            name, folder, facts=_describe_contestant(scores)
        )
        is_base = scores.point.baseline and not scores.is_older
        if is_base and not any(w.baseline for w in self.contestants.values() if w.run == folder):
            present = replace(present, baseline=True)
        self.contestants[run, name] = present
        if scores.task not in self.tasks:
            level = get_human_accuracies(self.runs[run]).get(scores.point.task)
            people = level and level / 100
            self.tasks[scores.task] = PageTask(scores.task, _describe_task(scores), people)
        who = self.get_contestant_number(run, scores.contestant)
        task = list(self.tasks).index(scores.task)
        self._arms[run, scores.point.records_id].append((who, scores))
        self._scorers[who, task] = scores.scorer
        numbers = self._number_samples(run, task, scores)
        for name, answers in _list_answers(scores.columns):
            self.answers[who, numbers[name]] = answers

    def _number_samples(self, run: int, task: int, scores: PointScores) -> Mapping[str, int]:
        """Return the indices of an arm's samples in the page; new samples are added."""
        known = self._sample_numbers.get((task, id(scores.samples)))
        if known and known[0] is scores.samples:  # numbered for another arm on this task
            return known[1]
        numbers = dict[str, int]()
        for name, row in scores.samples.items():
            key = _make_key(scores.task, row)
            numbers[name] = self._numbers.setdefault(key, len(self.samples))
            if numbers[name] == len(self.samples):
                texts = (c if isinstance(c, str) else "(a picture)" for c in row.sample["choices"])
                about = row.sample["question"], tuple(texts), row.answer
                group = scores.clusters[row.id]
                self.samples.append(PageSample(task, row.id, *about, group=group))
                self.rows.append(row)
                self.run_of.append(run)
        self._sample_numbers[task, id(scores.samples)] = scores.samples, numbers
        return numbers

    def _find_answers(self, run: int, record: Record) -> Iterator[tuple[int, int, int]]:
        """Yield (contestant, sample, index of the draw) of each answer made from a record: several
        if one arm reads the replies of another."""
        for who, scores in self._arms.get((run, record.point), ()):
            draws, row = scores.scored.get(record.sample, {}), scores.samples.get(record.sample)
            if row is not None and record.draw in draws:
                number = self._numbers[_make_key(scores.task, row)]
                yield who, number, sorted(draws).index(record.draw)

    def _fill_file(self, wanted: Sequence[int]) -> dict[str, str]:
        """Add texts to as many answers as a file holds, and return the thumbnails that still
        fit."""
        first = list(dict.fromkeys([*wanted, *self._sort_by_interest()]))
        counts, chosen = Counter(sample for _, sample in self.answers), list[int]()
        room = MAX_ANSWERS if counts.total() <= MAX_ANSWERS else MAX_SHOWN_ANSWERS
        for number in first:
            room -= counts[number]
            if room < 0 and number not in wanted:
                break
            chosen.append(number)
        worded = list(self.iterate_answers(chosen))
        sizes, seen, length = Counter[int](), set[str](), 0
        for _, sample, _, answer in worded:
            texts = {part for turn in answer.turns for part in turn.parts if isinstance(part, str)}
            sizes[sample] += 120 + sum(map(len, texts - seen))
            seen |= texts
        for number in chosen:
            if length + sizes[number] <= MAX_CHARACTERS or number in wanted:
                length += sizes[number]
                self._with_texts.add(number)
        sent = defaultdict[int, list[str]](list)
        for who, sample, place, answer in worded:
            if sample in self._with_texts:
                self.answers[who, sample][place] = answer
                parts = chain(*(turn.parts for turn in answer.turns))
                sent[sample] += [part.name for part in parts if isinstance(part, PagePicture)]
        sent_first = {number: sent[number] for number in first if number in self._with_texts}
        return self._make_thumbnails(sent_first, length, wanted)

    def _sort_by_interest(self) -> list[int]:
        """Return the samples, taking the tasks in turn: first those on which contestants disagree
        most, then those that most of them miss."""
        values = defaultdict[int, list[float]](list)
        for (_, sample), draws in self.answers.items():
            values[sample].append(draws[0].value)

        def place(sample: int) -> tuple[float, ...]:
            right = sum(value >= 0.5 for value in values[sample])
            smaller = min(right, len(values[sample]) - right)
            return -smaller, fmean(values[sample]), sample

        by_task = defaultdict[int, list[int]](list)
        for number in sorted(values, key=place):
            by_task[self.samples[number].task].append(number)
        turns = chain.from_iterable(zip_longest(*by_task.values()))
        return [number for number in turns if number is not None]

    def _make_thumbnails(
        self, sent: Mapping[int, Sequence[str]], length: int, wanted: Sequence[int]
    ) -> dict[str, str]:
        """Return thumbnails of the wanted samples, then of others in the order of `sent` while
        there is room, and add marks to the samples' own pictures. `sent` are the pictures in each
        sample's conversations."""
        made, making = dict[str, str](), dict[str, Future[str]]()
        submitted, rest = deque[tuple[list[PagePicture], list[str]]](), iter(sent)
        most = min(MAX_PICTURE_CHARACTERS, length + MAX_THUMBNAIL_CHARACTERS)
        # Pillow releases the interpreter's lock
        with ThreadPoolExecutor(os.cpu_count(), "looktwice-thumbnails") as pool:

            def submit(number: int) -> tuple[list[PagePicture], list[str]]:
                own = self.get_own_pictures(number)
                shown = {picture.name: pixels for picture, pixels in own}
                shown |= {
                    name: self.open_stored(name) for name in sent[number] if name not in shown
                }
                for name in shown.keys() - making.keys():
                    making[name] = pool.submit(
                        make_thumbnail_url, shown[name], *THUMBNAIL_SIDE_AND_QUALITY
                    )
                return [picture for picture, _ in own], [*shown]

            for number in sent:
                sources, names = self.rows[number].sample["images"], list[str]()
                if length < most or number in wanted:
                    submitted.extend(
                        map(submit, islice(rest, PREFETCHED_SAMPLE_COUNT - len(submitted)))
                    )
                    shown, names = submitted.popleft()
                elif made.keys().isdisjoint(sources):  # hidden pictures need not be read
                    shown = list(map(PagePicture, sources, self._make_captions(number)))
                else:
                    shown = [picture for picture, _ in self.get_own_pictures(number)]
                self.samples[number] = replace(self.samples[number], pictures=tuple(shown))
                for name in names:
                    if length >= most and number not in wanted:
                        break
                    with suppress(
                        PictureError
                    ):  # it is missing or damaged; the page reports it as missing
                        if name not in made:
                            made[name] = making[name].result()
                            length += len(made[name])
        return made


def _make_key(task: str, row: SampleRow) -> bytes:
    """Return a unique key of a sample, as 16 bytes to save memory: there may be very many."""
    return hashlib.blake2b(
        "\0".join((task, row.id, row.sha)).encode(errors="surrogatepass"), digest_size=16
    ).digest()


def _list_answers(columns: ArmColumns) -> Iterator[tuple[str, list[PageAnswer]]]:
    """Yield the id of each sample that was asked, with the answers of its draws; equal answers
    share one object to save memory."""
    names = ("sample", "words", "verdict", "value", "tokens_in", "tokens_out", "cost")
    places, *facts = (columns[name][columns.rows_by_draw].tolist() for name in names)
    facts[-1] = [None if cost != cost else cost for cost in facts[-1]]
    words, known = columns.pools["words"].values, dict[tuple[Any, ...], PageAnswer]()
    answers, before = list[PageAnswer](), -1
    for place, *own in zip(places, *facts, strict=True):
        if (answer := known.get(key := tuple(own))) is None:
            answer = known[key] = _make_answer(words[own[0]], VERDICTS[own[1]], *own[2:])
        if place == before:
            answers.append(answer)
            continue
        if answers:
            yield columns.ids[before], answers
        answers, before = [answer], place
    if answers:
        yield columns.ids[before], answers


def _make_answer(
    words: Words,
    verdict: Verdict,
    value: float,
    tokens_in: int,
    tokens_out: int,
    cost: float | None,
) -> PageAnswer:
    reasons = [words.detail]
    if verdict is not Verdict.FAILED:
        reasons = [words.reason, words.detail] if words.reason else []
    was_counted = bool(tokens_in or tokens_out)
    return PageAnswer(
        verdict.value,
        value,
        words.answer or "",
        ": ".join(filter(None, dict.fromkeys(reasons))),
        tokens_in=tokens_in if was_counted else None,
        tokens_out=tokens_out if was_counted else None,
        cost=cost,
    )


def _describe_contestant(scores: PointScores) -> Mapping[str, str]:
    """Return the reader, draws, model and stages of a contestant, as they were built."""
    spec = scores.point.spec
    nodes = {"model": spec.get("model"), **(spec.get("stages") or {})}
    facts = {"reader": scores.reader, "draws": str(scores.point.draws)}
    return _drop_empty(facts | {name: _format_node(node) for name, node in nodes.items()})


def _format_node(value: Any) -> str:
    """Format a node of a configuration on one line, without unset values."""
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    settings = [
        f"{k}={_format_node(v)}"
        for k, v in value.items()
        if k != "use" and v not in (None, "", [], {})
    ]
    return f"{str(value.get('use', '')).rpartition('.')[2]}({', '.join(settings)})"


def _describe_task(scores: PointScores) -> Mapping[str, str]:
    facts = {}
    for name in TASK_FACTS:
        value = scores.point.facts.get(name) or ""
        parts = value if isinstance(value, list | tuple) else [value]
        facts[name.replace("_", " ")] = "; ".join(map(str, parts))
    return _drop_empty(facts)


def _describe_provenance(run: RunScores) -> Mapping[str, str]:
    """Return the provenance of a run: versions, limit and shard of the data, judge, arms,
    configuration."""
    facts = dict(run.folder.facts)
    versions, config = facts.get("versions") or {}, facts.get("config")
    return _drop_empty(
        {
            "folder": str(run.folder.path),
            "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
            "limit": str(facts.get("limit") or ""),
            "shard": "" if facts.get("shard") in (None, [1, 1]) else str(facts["shard"]),
            "finished": str(facts.get("finished", "")),
            "judge": run.judged.counting_names,
            "arms (sha256 of what was built)": ", ".join(s.point.id for s in run.points),
            "configuration": dump_yaml(config, width=100) if config else "",
        }
    )


def _drop_empty(facts: Mapping[str, str | None]) -> Mapping[str, str]:
    """Return the facts that are not empty."""
    return {name: text for name, text in facts.items() if text}
