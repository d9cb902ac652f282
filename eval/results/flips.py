"""The samples whose verdict one variant changed against another, and how a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, overload

from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.scoring.verdict import RunScores, ScoredRecord, Verdict
from looktwice.eval.statistics.intervals import Estimate
from looktwice.pipelines.notebook import thumbnail
from looktwice.pipelines.picture import Picture, PictureError

if TYPE_CHECKING:
    import pandas

SHOWN, LONGEST, WORDS = (
    24,
    200,
    400,
)  # samples and pixels that a notebook shows, characters of a reply


@dataclass(frozen=True)
class Side:
    """The first draw of one of the two on a sample: its score, its record, and the run that holds
    the pictures."""

    scored: ScoredRecord
    record: Record | None
    run: RunScores = field(repr=False)

    @property
    def reply(self) -> str:
        """The last reply in its own words; empty where a stage answered."""
        last = self.record.last_reply if self.record else None
        return str(last["text"]) if last else ""

    @property
    def pictures(self) -> list[Picture]:
        """The pictures that were sent, opened when they are looked at."""
        blobs: Any = self.run.folder.blobs
        return [
            Picture.lazy(lambda sha=sha: blobs.get(sha), f"picture {sha[:12]}")  # type: ignore[misc]
            for sha in (self.record.pictures if self.record else ())
        ]


@dataclass(frozen=True)
class Flip:
    """One sample that is right for one of the two and not for the other; `gained` says that the
    second is right."""

    task: str
    row: SampleRow
    before: Side
    after: Side

    @property
    def gained(self) -> bool:
        """Whether the change was for the better."""
        return self.after.scored.verdict is Verdict.RIGHT

    @property
    def sample(self) -> str:
        """The sample's id."""
        return self.row.id


@dataclass(frozen=True)
class Flips(Sequence[Flip]):
    """The samples that flip between `before` and `after`, those that were gained first.

    `n` samples have a key and failed for neither, `left_out` others do not count; of several draws
    the first does. `compared` is the paired difference over them. A notebook shows the first 24
    with pictures and replies.
    """

    before: str
    after: str
    items: tuple[Flip, ...] = field(repr=False)
    n: int
    left_out: int
    compared: Estimate

    @overload
    def __getitem__(self, index: int) -> Flip: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Flip]: ...
    def __getitem__(self, index: int | slice) -> Flip | Sequence[Flip]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    @property
    def gained(self) -> list[Flip]:
        """The samples that are right for `after` alone."""
        return [flip for flip in self.items if flip.gained]

    @property
    def lost(self) -> list[Flip]:
        """The samples that are right for `before` alone."""
        return [flip for flip in self.items if not flip.gained]

    def to_pandas(self) -> pandas.DataFrame:
        """A line per flip: task, sample, question, key, whether it was gained, and the answers and
        replies of both."""
        import pandas

        return pandas.DataFrame([_cells(flip) for flip in self.items], columns=_COLUMNS)

    def __repr__(self) -> str:
        lines = [
            f"  {'+' if flip.gained else '-'} {flip.task} {flip.sample}: {_said(flip.before)} ->"
            f" {_said(flip.after)}, key {flip.row.answer}"
            for flip in self.items
        ]
        return "\n".join([self._summary, *lines])

    def _repr_html_(self) -> str:
        shown = "".join(_flip_html(flip, self.before, self.after) for flip in self.items[:SHOWN])
        more = (
            f"<p>and {len(self) - SHOWN} more; `.to_pandas()` lists all</p>"
            if len(self) > SHOWN
            else ""
        )
        return f"<p>{escape(self._summary)}</p>{shown}{more}"

    @property
    def _summary(self) -> str:
        one = self.compared
        return (
            f"{self.after} against {self.before}: {len(self.gained)} gained, {len(self.lost)} lost"
            f" of {self.n} samples{f' ({self.left_out} left out)' if self.left_out else ''};"
            f" {100 * one.value:+.1f} points [{100 * one.low:+.1f}, {100 * one.high:+.1f}], p ="
            f" {one.p:.4g} ({one.test})"
        )


_COLUMNS = [
    "task",
    "sample",
    "gained",
    "question",
    "key",
    "answer_before",
    "answer_after",
    "verdict_before",
    "verdict_after",
    "reply_before",
    "reply_after",
]


def _cells(flip: Flip) -> list[Any]:
    one, other = flip.before, flip.after
    return [
        flip.task,
        flip.sample,
        flip.gained,
        flip.row.sample["question"],
        flip.row.answer,
        one.scored.answer,
        other.scored.answer,
        one.scored.verdict.value,
        other.scored.verdict.value,
        one.reply,
        other.reply,
    ]


def _said(side: Side) -> str:
    return side.scored.answer or side.scored.reason or side.scored.verdict.value


def _flip_html(flip: Flip, before: str, after: str) -> str:
    sides = "".join(
        _side_html(name, side) for name, side in ((before, flip.before), (after, flip.after))
    )
    sign, choices = ("+", "gained") if flip.gained else ("-", "lost"), flip.row.sample["choices"]
    lettered = "; ".join(
        f"({chr(ord('A') + i)}) {text}" for i, text in enumerate(choices) if isinstance(text, str)
    )
    return (
        f'<div style="border-top:1px solid #888;padding:6px 0"><b>{sign[0]} {escape(flip.task)} '
        f"{escape(flip.sample)}</b> {sign[1]}, key {escape(str(flip.row.answer))}<br>"
        f"{escape(str(flip.row.sample['question']))} {escape(lettered)}"
        f'<div style="display:flex;gap:16px;flex-wrap:wrap">{sides}</div></div>'
    )


def _side_html(name: str, side: Side) -> str:
    return (
        f"<div><b>{escape(name)}</b>: {escape(_said(side))} ({side.scored.verdict.value})<br>"
        f"{''.join(_images(side))}<pre style='white-space:pre-wrap;max-width:420px'>"
        f"{escape(side.reply[:WORDS])}</pre></div>"
    )


def _images(side: Side) -> Iterator[str]:
    for picture in side.pictures:
        try:
            yield f'<img src="{thumbnail(picture, LONGEST)}" alt="sent" style="margin:2px">'
        except (PictureError, OSError) as exc:
            yield f"<i>{escape(str(exc))}</i>"
