"""The content of a page as plain values: contestants, tasks, samples and answers, from our runs or
from other programs' logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from looktwice.eval.statistics.intervals import Estimate

RESOURCES = ("seconds", "tokens_in", "tokens_out", "cost")
"""The resources that an answer uses: fields of `PageAnswer`."""


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A picture in a strip: `name` is its sha256, or any other key of `PageData.thumbnails`.

    `marks` are drawn over it: (kind, left, top, width, height, label) with lengths as fractions
    0..1 of the picture; kind is "point" (width and height are 0) or "box".
    """

    name: str
    caption: str = ""
    marks: tuple[tuple[str, float, float, float, float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PageTurn:
    """A turn of a conversation: its role, and its texts and pictures in order."""

    role: str
    parts: tuple[str | PagePicture, ...]


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer of one contestant to one sample in one draw.

    `verdict` is right, wrong, unreadable, failed or hidden, `value` the score in 0..1, `reason` why
    an answer is unreadable or what failed. `reply` is the model's last text and `turns` the whole
    conversation, if either is known; the page shows the turns. `seconds`, tokens and `cost` are
    those of all its calls, None if they were not counted; `served_by` is how the server identifies
    itself. If answers are boxes or points, `places` are the sample's own pictures with the correct
    answer (kinds "box true", "point true") and this one ("box found", "point found") drawn on them.
    """

    verdict: str
    value: float
    answer: str = ""
    reason: str = ""
    reply: str = ""
    turns: tuple[PageTurn, ...] = ()
    seconds: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    served_by: str = ""
    places: tuple[PagePicture, ...] = ()


@dataclass(frozen=True, slots=True)
class PageSample:
    """A question, with the index of its `task` in `PageData.tasks`: its text, choices, correct
    answer `key` (None: hidden) and own pictures.

    Samples of one `group`, such as questions about one picture, are not independent, even across
    tasks.
    """

    task: int
    id: str
    question: str = ""
    choices: tuple[str, ...] = ()
    key: str | None = None
    pictures: tuple[PagePicture, ...] = ()
    group: str = ""


@dataclass(frozen=True)
class PageTask:
    """A task: its label in tables, facts about its data such as split, label version and errata,
    and the human accuracy, if it is known."""

    label: str
    facts: Mapping[str, str] = field(default_factory=dict)
    people: float | None = None


@dataclass(frozen=True)
class PageContestant:
    """A contestant: a unique label, the run, and facts such as the model and its decoding.

    One contestant of each run is its `baseline`, with which the page first compares the run's
    others; without any, the first contestant of the page is the baseline.
    """

    label: str
    run: str = ""
    baseline: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


Point = tuple[float, float, float, float]
"""A point of a curve: (x, accuracy, low, high)."""


@dataclass(frozen=True)
class PageLines:
    """Accuracy, or the quantity that `of` names, along one swept number: lines of (x, value, low,
    high) by label, with values as fractions 0..1. The page draws eight in a chart.

    With `is_chosen`, samples chose the number themselves, such as an agent's looks, so accuracy
    along it reflects a selection rather than the effect of the number.
    """

    factor: str
    task: str
    lines: Mapping[str, Sequence[Point]]
    chance: float | None = None
    is_chosen: bool = False
    of: str = "accuracy"


Level = str | float


@dataclass(frozen=True)
class PageGrid:
    """Accuracy over two swept settings: cells of (x, y, accuracy, n), with levels as numbers or
    names in the order of the study; each cell is a mean over the other settings, which `over`
    names. `baseline` holds the levels of the baseline's cell."""

    x: str
    y: str
    task: str
    contestant: str
    cells: Sequence[tuple[Level, Level, float, int]]
    over: Sequence[str] = ()
    baseline: Sequence[Level] | None = None


@dataclass(frozen=True)
class PageChange:
    """A contestant compared with the baseline of its task: `label` names its only difference;
    shares are in 0..1.

    `difference` counts flips as better and worse; `is_significant` is after correction; `failure`
    says why every answer failed. `answered` is the accuracy of the answers without abstentions, and
    `abstained` the share on which a stage abstained.
    """

    label: str
    contestant: int
    accuracy: Estimate | None
    difference: Estimate | None = None
    is_significant: bool = False
    failure: str = ""
    answered: Estimate | None = None
    abstained: float = 0.0


@dataclass(frozen=True)
class PageFinding:
    """The findings on one task (-1: all tasks), compared with its baseline (None: the baseline was
    not asked).

    `is_one_change` is True if every row differs from the baseline in a single setting.
    """

    title: str
    task: int
    baseline: int | None
    changes: Sequence[PageChange]
    chance: float | None = None
    is_one_change: bool = True


@dataclass(frozen=True)
class PageEvidence:
    """Samples that a contestant flips compared with its rival, and how they were chosen
    (`selection`)."""

    contestant: int
    rival: int
    samples: Sequence[int]
    selection: str
    is_gained: bool


@dataclass(frozen=True)
class PageData:
    """All content of a page, from any source of contestants, samples and answers; statistics are
    computed from it.

    `answers` maps each pair (index of the contestant, index of the sample) to its draws in order; a
    pair without an entry was not asked. `thumbnails` are data URLs of pictures by name. `finding`
    is shown on the first screen, `sentences` above it, `about` next to the title. `provenance` is
    shown as it is, under headings. `detailed` are the samples whose texts are in `answers`, None
    for all; a served page fetches the others.
    """

    title: str
    contestants: Sequence[PageContestant]
    tasks: Sequence[PageTask]
    samples: Sequence[PageSample]
    answers: Mapping[tuple[int, int], Sequence[PageAnswer]]
    thumbnails: Mapping[str, str] = field(default_factory=dict)
    provenance: Sequence[tuple[str, Mapping[str, str]]] = ()
    notes: Sequence[str] = ()
    lines: Sequence[PageLines] = ()
    grids: Sequence[PageGrid] = ()
    detailed: frozenset[int] | None = None
    finding: Sequence[PageFinding] = ()
    sentences: Sequence[str] = ()
    evidence: PageEvidence | None = None
    about: str = ""
