"""Re-perception: the model answers, then looks again, told to doubt or shown zooms on its
evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from looktwice.pipelines.marks import Box, Mark
from looktwice.pipelines.model import Model, strip_thoughts
from looktwice.pipelines.pipeline import calls_made
from looktwice.pipelines.state import Stage, State, WithoutModel
from looktwice.prompting.coordinates import UNITS, Frame, ShownImage, ToolError
from looktwice.prompting.evidence import Missing, shown_sources
from looktwice.prompting.grids.grids import source_box
from looktwice.prompting.ranges import check_ranges
from looktwice.prompting.turns.ask import Ask, measure_turns, read_answer
from looktwice.prompting.views.crop import Crop
from looktwice.prompting.views.zoom import ZoomTargets, zoom_views
from looktwice.prompting.wording.instructions import Text, fill_in, read_texts

LOOK_PROMPT = """{prompt}

Look at the image first. Say what it shows, thing by thing, and what seems to be the answer at \
first sight."""
DOUBT_PROMPT = """\
Now doubt it: at first sight this image may mislead. Look at it again as if you had not seen it \
yet. Search \
for what you passed over or took for granted: edges, overlaps, shadows, sizes, what lies in front \
and what behind. Say \
what you see now, where it contradicts what you said before, and what the answer seems to be."""
CONCLUDE_PROMPT = """\
Look at the image one last time and weigh your observations. Then give your final answer to the \
question.

{prompt}"""


@dataclass(frozen=True)
class Reperceive:
    """Active re-perception in `turns` calls: describe the image, doubt the description, and
    conclude.

    After BLINK-Twice (supplement, B.3), which does not publish its prompts and number of turns;
    these are ours. The first turn sends `look` with the views, the last one `conclude`, those
    between `doubt`; `{prompt}` in them is replaced by the question as worded so far. One turn is
    the question alone, so that `turns` can be swept from 1. `attach` "all" shows the views again in
    every turn, "none" only in the first; `history` of `ask` says what is sent of earlier turns: its
    `images: latest` sends only the latest images.

    The answer is read from the last reply, and when the run is scored from that of every turn. With
    a reader in `read` (`read: ${read}`) the record also notes the answer after each turn and
    measures how often it changed.
    """

    turns: int = 3
    look: Text = LOOK_PROMPT
    doubt: Text = DOUBT_PROMPT
    conclude: Text = CONCLUDE_PROMPT
    attach: Literal["all", "none"] = "all"
    ask: Ask = field(default_factory=Ask)
    read: Stage | None = None

    def __post_init__(self) -> None:
        read_texts(self)
        check_ranges(self, "turns >= 1", "turns <= 100")

    def __call__(self, state: State, model: Model) -> State:
        """The state with all turns. Raises ModelError, and ValueError where there is nothing to
        ask."""
        original, answers, calls = state, list[str | None](), list[int]()
        texts = [self.look, *[self.doubt] * (self.turns - 2), self.conclude]
        for number, text in enumerate(texts if self.turns > 1 else ["{prompt}"]):
            ask = self.ask if number == 0 else replace(self.ask, attach=self.attach)
            state = ask(state.replace(prompt=fill_in(text, prompt=original.prompt)), model)
            calls.append(calls_made(state, model) - 1)
            if self.read is not None:
                answers.append(read_answer(state, self.read)[0])
        return measure_turns(state.replace(prompt=original.prompt), calls, answers)


MAX_BOXES = 50
COORDINATE = r"\s*(-?\d{1,6}(?:\.\d{1,6})?)\s*"
BOX_OR_IMAGE = re.compile(
    rf"\bimage\s*#?(\d{{1,3}})\b|[\[(]{COORDINATE},{COORDINATE},{COORDINATE},{COORDINATE}[\])]",
    re.I,
)
EVIDENCE_LINE = re.compile(r"^[^\w\n]*LOOK\b.*", re.M)
EVIDENCE_PROMPT = """{prompt}

Give your answer, and then say what it rests on: for each thing that decides it a line of its own, \
such as
LOOK: image 1, [left, top, right, bottom]
with the box around it in {unit}."""
CHECK_PROMPT = """\
Here is what you pointed at, larger. Check if it really shows what you said, then give your final \
answer.

{prompt}"""


@dataclass(frozen=True)
class ZoomOnClaim(WithoutModel):
    """Zooms on the boxes [left, top, right, bottom] in the model's last reply; `crop` says how.

    If any lines begin with LOOK, only those are read. "image 2" earlier on the same line says which
    view a box is on, else it is the first. `frame` is the unit that the prompt asked for: pixels of
    the view, or coordinates normalised to 0-1 or 0-1000. A box outside its view, without an area or
    with swapped corners is skipped with a note; if none is left, `missing` decides what is done.
    """

    frame: Frame = "0-1000"
    crop: Crop = field(default_factory=lambda: Crop(upscale=768))
    missing: Missing = "keep"

    def __call__(self, state: State, model: Model) -> State:
        """The state with the zoomed views."""
        regions: dict[int, list[Mark]] = {}
        notes = []
        claims = list(islice(_claimed_boxes(strip_thoughts(state.reply)), MAX_BOXES + 1))
        if len(claims) > MAX_BOXES:
            notes.append(
                f"the reply names more than {MAX_BOXES} places; the first {MAX_BOXES} count"
            )
        for image, numbers in claims[:MAX_BOXES]:
            try:
                region = self._region(state, image, numbers)
            except ToolError as exc:
                notes.append(f"a claimed place was passed over: {exc}")
                continue
            regions.setdefault(region.image, []).append(region)
        targets = ZoomTargets("place that the reply names", regions)
        sources = sorted(regions) or shown_sources(state, None)
        return zoom_views(state, targets, self.crop, self.missing, sources).with_notes(*notes)

    def _region(self, state: State, image: int, numbers: Sequence[float]) -> Box:
        if not 1 <= image <= len(state.views):
            raise ToolError(f"there is no image {image}; there are {len(state.views)}")
        view = state.views[image - 1]
        x0, y0, x1, y1 = ShownImage(view, view).place(numbers, self.frame, f"image {image}")
        seen = source_box(view, Box("", x0, y0, x1, y1))
        if seen is None:
            raise ToolError(f"the box {list(numbers)} shows nothing of the sample's own images")
        return seen


def _claimed_boxes(reply: str) -> Iterator[tuple[int, tuple[float, ...]]]:
    """(number of the image from 1, four coordinates) of every distinct box in a reply."""
    evidence_lines = EVIDENCE_LINE.findall(reply)
    seen = set()
    for line in evidence_lines or reply.splitlines():
        image = 1
        for match in BOX_OR_IMAGE.finditer(line):
            if match[1]:
                image = int(match[1])
                continue
            claim = (image, tuple(float(number) for number in match.groups()[1:]))
            if claim not in seen:
                yield claim
            seen.add(claim)


@dataclass(frozen=True)
class Verify:
    """Asks for an answer and its evidence, then shows zooms on that evidence and asks again,
    `rounds` times.

    The first turn sends `where` ({prompt} and {unit} are filled in), the later ones `check`. `zoom`
    may be any stage that changes views: `ZoomOnClaim`, `prompting.views.ZoomOnCells` with the grid
    that the views have, and as control arms `prompting.controls.OracleCrop` and `RandomCrop`. Each
    zoom is cut from the original views; the new views are sent with the next turn. Without a new
    one the question is asked again all the same, so that every sample makes the same number of
    calls. With a reader in `read` the record notes the answers before and after, and measures how
    often they changed.
    """

    where: Text = EVIDENCE_PROMPT
    check: Text = CHECK_PROMPT
    zoom: Stage = field(default_factory=ZoomOnClaim)
    rounds: int = 1
    ask: Ask = field(default_factory=Ask)
    read: Stage | None = None

    def __post_init__(self) -> None:
        read_texts(self)
        check_ranges(self, "rounds >= 1", "rounds <= 100")

    def __call__(self, state: State, model: Model) -> State:
        """The state with all turns; its views are the original ones and every zoom that was
        shown."""
        first, original, answers, calls = state.views, state.prompt, list[str | None](), list[int]()
        unit = UNITS[getattr(self.zoom, "frame", "pixels")]
        state = self.ask(
            state.replace(prompt=fill_in(self.where, prompt=original, unit=unit)), model
        )
        answers += [read_answer(state, self.read)[0]] if self.read else []
        calls.append(calls_made(state, model) - 1)
        again = replace(self.ask, attach="new")
        for _ in range(self.rounds):
            after = self.zoom(state.replace(views=first, prompt=original), model)
            if after.ended:
                return after
            shown = {view.picture.sha for view in state.views}
            fresh = tuple(view for view in after.views if view.picture.sha not in shown)
            words = fill_in(self.check, prompt=original, unit=unit)
            state = again(after.replace(views=(*state.views, *fresh), prompt=words), model)
            answers += [read_answer(state, self.read)[0]] if self.read else []
            calls.append(calls_made(state, model) - 1)
        return measure_turns(state.replace(prompt=original), calls, answers)
