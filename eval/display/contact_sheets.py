"""Contact sheets: a few samples of each task with pictures, the key and the answer of every contestant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.scoring.verdict import PointScores, RunScores, ScoredRecord, Verdict
from looktwice.pipelines.marks import Box, Mark, Mask, mark_from_dict
from looktwice.pipelines.notebook import thumbnail
from looktwice.pipelines.picture import Picture, PictureError

Images = Callable[[str, str], tuple[Picture, ...]]
"""(task id, sample id) -> the sample's own images, empty if they are no longer available."""

SAMPLES_PER_TASK, SAMPLES_PER_VARIANT, MAX_PICTURES, MAX_SENT_PICTURES = 8, 2, 240, 4
THUMBNAIL_SIDE, MAX_CHARACTERS = 224, 600
SIGNS = {"right": "✓", "wrong": "✗", "unreadable": "?", "failed": "!", "hidden": "·", "missing": "–"}


@dataclass(frozen=True)
class SheetAnswer:
    """The answer of one contestant to a sample; `words` is its last reply or the error, shortened."""

    contestant: str
    verdict: str
    answer: str
    reason: str = ""
    words: str = ""

    @property
    def sign(self) -> str:
        """A symbol for the verdict, for readers who cannot tell the colours apart."""
        return SIGNS[self.verdict]


@dataclass(frozen=True)
class Overlay:
    """A mark drawn over a picture: its CSS class, position and label."""

    kind: str
    style: str
    label: str


@dataclass(frozen=True)
class Figure:
    """A picture as a data URL with the marks over it, or a note that says why there is none."""

    caption: str = ""
    image: str = ""
    overlays: tuple[Overlay, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Card:
    """One sample: its pictures, the texts of its `choices` with their letters, and the answers to it."""

    sample: str
    question: str
    key: str
    choices: tuple[str, ...]
    figures: tuple[Figure, ...]
    answers: tuple[SheetAnswer, ...]


@dataclass(frozen=True)
class Sheet:
    """The cards of one task, and how many samples the task has."""

    run: str
    task: str
    total: int
    cards: tuple[Card, ...]


@dataclass
class _Budget:
    """How many more pictures the page may hold."""

    left: int = MAX_PICTURES


def sheets(runs: Sequence[RunScores], images: Images | None = None) -> list[Sheet]:
    """A sheet for each task of each run; samples on which contestants disagree come first."""
    budget = _Budget()
    return [sheet for run in runs for sheet in _sheets(run, images, budget)]


def _sheets(run: RunScores, images: Images | None, budget: _Budget) -> Iterator[Sheet]:
    tasks: dict[str, list[PointScores]] = {}
    for scores in run.points:
        tasks.setdefault(scores.point.task_id, []).append(scores)
    variants = Counter(arms[0].point.task for arms in tasks.values())
    order = {name: number for number, name in enumerate(variants)}
    chosen = {}
    for task_id, arms in sorted(tasks.items(), key=lambda pair: order[pair[1][0].point.task]):
        count = max(SAMPLES_PER_VARIANT, SAMPLES_PER_TASK // variants[arms[0].point.task])
        chosen[task_id] = _choose_samples(arms, arms[0].samples, count)
    shown = {name for names in chosen.values() for name in names}
    records = {(r.point, r.sample): r for r in run.folder.last_records(shown) if r.draw == 0}
    for task_id, names in chosen.items():
        arms, rows = tasks[task_id], tasks[task_id][0].samples
        make_card = _CardMaker(run, task_id, arms, records, images, budget)
        yield Sheet(run.name, arms[0].task, len(rows), tuple(make_card(rows[name]) for name in names))


def _choose_samples(arms: Sequence[PointScores], rows: Mapping[str, SampleRow], count: int) -> list[str]:
    """The samples on which contestants disagree most, then those that the better ones miss, in the task's order."""
    shares_right = [sum(s.verdict is Verdict.RIGHT for s in scores.all) / max(1, len(scores.all)) for scores in arms]

    def disagreement(name: str) -> tuple[float, float]:
        first = [scores.draws(name)[0] for scores in arms]
        right = [s is not None and s.verdict is Verdict.RIGHT for s in first]
        missed = sum(share for share, hit in zip(shares_right, right, strict=True) if not hit)
        return -min(sum(right), len(right) - sum(right)), -missed

    order = {name: number for number, name in enumerate(rows)}
    best = sorted(rows, key=lambda name: (*disagreement(name), order[name]))[:count]
    return sorted(best, key=order.__getitem__)


@dataclass(frozen=True)
class _CardMaker:
    """Makes the cards of one task."""

    run: RunScores
    task_id: str
    arms: Sequence[PointScores]
    records: Mapping[tuple[str, str], Record]
    images: Images | None
    budget: _Budget

    def __call__(self, row: SampleRow) -> Card:
        choices = [c if isinstance(c, str) else "(a picture)" for c in row.sample["choices"]]
        lettered = tuple(f"({chr(ord('A') + i)}) {text}" for i, text in enumerate(choices))
        key = row.answer if row.answer is not None else "hidden"
        answers = tuple(self._answer(scores, row.id) for scores in self.arms)
        return Card(row.id, row.sample["question"], key, lettered, tuple(self._figures(row)), answers)

    def _answer(self, scores: PointScores, name: str) -> SheetAnswer:
        label, scored = scores.contestant, scores.draws(name)[0]
        if scored is None:
            return SheetAnswer(label, "missing", "", "not asked")
        record = self.records.get((scores.point.recorded_as, name))
        words = last["text"] if record and (last := record.last_reply) else ""
        failed = scored.verdict is Verdict.FAILED
        words = scored.detail if failed else words
        return SheetAnswer(label, scored.verdict.value, scored.answer or "", _reason(scored, failed), _cut(words))

    def _figures(self, row: SampleRow) -> Iterator[Figure]:
        """The sample's own images with its marks drawn over them, then sent pictures that differ from these."""
        own = self.images(self.task_id, row.id) if self.images else ()
        marks = [mark_from_dict(mark) for mark in row.sample["marks"]]
        for number, picture in enumerate(own):
            yield self._figure(picture, f"image {number + 1}", [mark for mark in marks if mark.image == number])
        sent = [(sha, label) for sha, label in self._sent(row.id).items() if not own or sha not in row.sample["images"]]
        for sha, label in sent[:MAX_SENT_PICTURES]:
            yield self._figure(_stored_picture(self.run, sha), f"sent to {label}", ())
        if not own and not sent:
            yield Figure(note="no picture of this sample was stored, and its data is not available")

    def _sent(self, name: str) -> dict[str, str]:
        sent: dict[str, str] = {}
        for scores in self.arms:
            record = self.records.get((scores.point.recorded_as, name))
            for sha in record.pictures if record else ():
                sent.setdefault(sha, scores.contestant)
        return sent

    def _figure(self, picture: Picture, caption: str, marks: Sequence[Mark]) -> Figure:
        if self.budget.left <= 0:
            return Figure(note="picture left out: the page has reached its limit")
        self.budget.left -= 1
        try:
            source, size = thumbnail(picture, THUMBNAIL_SIDE, 80), picture.size
        except (PictureError, OSError) as exc:
            return Figure(note=f"{caption} cannot be shown: {exc}")
        return Figure(caption, source, tuple(_overlay(mark, size) for mark in marks))


def _overlay(mark: Mark, size: tuple[int, int]) -> Overlay:
    """A mark positioned over a thumbnail in percent; a mask is shown by its centre."""
    width, height = size
    if isinstance(mark, Box):
        sides = (mark.x0 / width, mark.y0 / height, (mark.x1 - mark.x0) / width, (mark.y1 - mark.y0) / height)
        left, top, across, down = (f"{100 * side:.2f}%" for side in sides)
        return Overlay("box", f"left:{left};top:{top};width:{across};height:{down}", mark.label)
    x, y = mark.center
    style = f"left:{100 * (x + 0.5) / width:.2f}%;top:{100 * (y + 0.5) / height:.2f}%"
    return Overlay("dot area" if isinstance(mark, Mask) else "dot", style, mark.label)


def _stored_picture(run: RunScores, sha: str) -> Picture:
    blobs: Any = run.folder.blobs
    return Picture.lazy(lambda: blobs.get(sha), f"picture {sha[:12]}")


def _reason(scored: ScoredRecord, failed: bool) -> str:
    if failed:
        return (scored.detail.strip().splitlines() or [""])[0][:160]
    return scored.reason if scored.reason in ("", "unread") or not scored.detail else _cut(scored.detail, 160)


def _cut(text: str, length: int = MAX_CHARACTERS) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
