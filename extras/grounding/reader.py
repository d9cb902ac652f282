"""The reader of points and boxes in replies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from looktwice.eval.readers.reader import Reader, Reading
from looktwice.extras.grounding.frames import (
    Frame,
    FrameName,
    Order,
    convert_to_source_pixels,
    find_native_frame,
    find_source_size,
    require_layout,
)
from looktwice.extras.grounding.labels import find_labels, reports_nothing
from looktwice.extras.grounding.places import Place, format_places
from looktwice.pipelines.state import State
from looktwice.prompting.where.claims import LAST_IMAGE, Claim, read_claims

MAX_PLACES = 1000  # places of one reply; a model that repeats itself may write thousands


@dataclass(frozen=True)
class PlacesInReply(Reader):
    """Reads the boxes or, with `points`, the points that a reply names, in pixels of the source
    image.

    It reads the formats of the model families, with labels and confidences: JSON, tags, tokens, and
    lists of numbers in text. The answer is a JSON list such as `[{"label": "cup", "box": [10, 20,
    30, 40]}]`, which `PlacesScorer` compares; it is empty if the reply says that there is nothing.

    `frame` is the unit of coordinates that do not show it themselves: "pixels" of the image as it
    was sent, pixels of the "original", pixels of the image as "seen" by `model` after its own
    resizing (Qwen2.5-VL, Claude), "0-1", "0-100", "0-999" or "0-1000"; "native" takes that of the
    family of `model`. Sweep it as `read.frame`, which repeats no request. `order` "yx" reads plain
    lists and JSON points with y first, as Gemini writes them; its `box_2d` always has y first.
    `square`: coordinates are shares of the image padded to a square, as in Shikra and LLaVA-1.5.

    As `read:`, it takes every sent image to show a whole source image, resized. After stages that
    crop, pad or join images, use it as a stage after the one that asks: it then knows where each
    view comes from. Raises ValueError for a model whose frame is unknown.
    """

    frame: FrameName = "0-1000"
    points: bool = False
    order: Order = "xy"
    square: bool = False
    model: str = ""

    def __post_init__(self) -> None:
        if self.frame == "native" and find_native_frame(self.model) is None:
            raise ValueError(
                "`frame: native` needs a `model` whose family documents its frame, such as"
                f" 'Qwen3-VL-8B-Instruct', got {self.model!r}; or give a frame such as '0-1000'"
            )
        if self._frame.name == "seen":
            require_layout(self.model, (100, 100))

    @property
    def _frame(self) -> Frame:
        if self.frame == "native" and (native := find_native_frame(self.model)):
            return native
        return Frame(self.frame, self.order, self.square)

    def read(self, state: State) -> Reading:
        """Read the places of the last reply."""
        claims = list(islice(read_claims(state.reply, self.points, distinct=False), MAX_PLACES + 1))
        if not claims:
            if reports_nothing(state.reply):
                return Reading("[]")
            return Reading(None, f"unread: it names no {'point' if self.points else 'box'}")
        places = list[Place]()
        for claim, label in zip(
            claims[:MAX_PLACES], find_labels(state.reply, claims), strict=False
        ):
            place = self._convert(state, claim, label)
            if place is None:
                shown = len(state.shown_views or state.views)
                return Reading(None, f"unread: it names image {claim.image}, and there are {shown}")
            places.append(place)
        return Reading(format_places(places))

    def _convert(self, state: State, claim: Claim, label: str) -> Place | None:
        """Return a claim as a place of a source image; None if its image does not exist."""
        views = state.shown_views or state.views
        number = len(views) if claim.image == LAST_IMAGE else claim.image
        if not 1 <= number <= len(views):
            return None
        view, numbers = views[number - 1], claim.numbers
        frame = Frame(claim.frame, "xy") if claim.frame else self._frame
        if frame.order == "yx" and claim.notation != "box_2d":
            numbers = tuple(numbers[k + 1 - 2 * (k % 2)] for k in range(len(numbers)))
        image = view.parts[0].source if view.parts else number - 1
        size = find_source_size(state.sample, image)
        return Place(
            convert_to_source_pixels(numbers, frame, view, size, self.model),
            label,
            claim.score,
            image,
        )
