"""How often a task is right whose mark was seen, as `MarkQuestions` on the same samples tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from looktwice.eval.display.text_tables import Column, names, percent, share_cell
from looktwice.eval.scoring.verdict import PointScores, RunScores
from looktwice.eval.statistics.intervals import Estimate, share_interval

NOTE = (
    "A mark counts as seen where what was `asked` about it was answered right; some of that is"
    " guessed. `errors unseen` is the share of wrong answers whose mark was not seen; of 140"
    " errors of GPT-4V, BLINK's authors laid 20.0 % to marks whose place was hallucinated."
)


ALL = "all of these"


@dataclass(frozen=True)
class SeenMarks:
    """The samples of an arm about whose marks its contestant was `asked` too: their values, where
    the mark was seen and where not, with their clusters."""

    contestant: str
    task: str
    asked: str
    seen: Mapping[str, float]
    unseen: Mapping[str, float]
    clusters: Mapping[str, str]

    @property
    def share(self) -> Estimate:
        """The share of samples whose mark was seen."""
        marks = dict.fromkeys(self.seen, 1.0) | dict.fromkeys(self.unseen, 0.0)
        return self._mean(marks)

    @property
    def given_seen(self) -> Estimate | None:
        """The accuracy where it was seen."""
        return self._mean(self.seen) if self.seen else None

    @property
    def given_unseen(self) -> Estimate | None:
        """The accuracy where it was not."""
        return self._mean(self.unseen) if self.unseen else None

    @property
    def errors_unseen(self) -> float | None:
        """The share of what is wrong whose mark was not seen."""
        seen, unseen = (sum(1 - v for v in part.values()) for part in (self.seen, self.unseen))
        return unseen / (seen + unseen) if seen + unseen else None

    def _mean(self, values: Mapping[str, float]) -> Estimate:
        return share_interval([*values.values()], [*map(self.clusters.__getitem__, values)])


COLUMNS: tuple[Column[SeenMarks], ...] = (
    *names("contestant", "task", "asked"),
    Column("mark seen\n%", "share", share_cell),
    Column("n", lambda line: len(line.seen) + len(line.unseen)),
    Column("right if\nseen %", "given_seen", share_cell),
    Column("right if\nnot %", "given_unseen", share_cell),
    Column("errors\nunseen %", "errors_unseen", percent),
)


def seen_marks(run: RunScores) -> Iterator[SeenMarks]:
    """For every arm of whose samples the same contestant was asked about the mark, a line per
    question, and one for all of them."""
    arms = defaultdict[str, list[PointScores]](list)
    for scores in run.points:
        arms[scores.contestant].append(scores)
    for contestant, own in arms.items():
        for scores in own:
            marks = defaultdict[str, dict[str, float]](dict)
            for about in own:
                for name, value in about.comparable.items():
                    row = about.samples[name]
                    aspect, of = row.meta.get("aspect"), str(row.meta.get("of"))
                    # of "no" none was drawn
                    if aspect and of in scores.comparable and row.truth.get("answer") != "no":
                        for kind in (aspect, ALL):
                            marks[kind][of] = min(value, marks[kind].get(of, 1.0))
            whole = marks.pop(ALL, {})
            for kind, values in [*marks.items(), *([(ALL, whole)] if len(marks) > 1 else [])]:
                parts: tuple[dict[str, float], dict[str, float]] = {}, {}
                for sample, value in values.items():
                    parts[value < 1][sample] = scores.comparable[sample]
                yield SeenMarks(contestant, scores.task, kind, *parts, scores.clusters)
