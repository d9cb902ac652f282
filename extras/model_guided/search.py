"""ZoomEye's tree search over ever smaller parts of a picture, guided by a model's replies about
each part; and the retrieval of cells of a grid by such replies."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal

from looktwice.pipelines import transforms
from looktwice.pipelines.geometry import PixelRect, Size, grow, overlaps
from looktwice.pipelines.marks import Box, Mark
from looktwice.pipelines.model import CallOptions, Message, Model, Reply
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.markers.regions import Rectangles
from looktwice.prompting.where.places import PerImageSource
from looktwice.prompting.where.sources import check_words, find_words
from looktwice.prompting.where.windows import list_grid_cells
from looktwice.prompting.wording.instructions import Text, fill_in, read_texts

QuestionKind = Literal["existence", "latent", "answering"]
CHILD_GRIDS = {
    4: ((1, 4), (4, 1), (2, 2)),
    9: ((2, 4), (4, 2), (3, 3)),
    16: ((2, 8), (8, 2), (4, 4)),
}
"""The columns and rows of the children in a tall node, a wide node, and any other node, by the
number of children."""
MAX_DEPTH = 5
MERGE_MARGIN = 50  # pixels by which boxes grow before overlapping ones are merged


@dataclass(frozen=True)
class Node:
    """A part of a picture: left, top, width and height in pixels, and its depth in the tree."""

    box: PixelRect
    depth: int = 0

    def list_children(self, patch: int, split: int = 4) -> list[Node]:
        """Return the parts into which the node is split, row by row; none if both of its sides are
        below `patch`."""
        x, y, width, height = self.box
        if max(width, height) < patch:
            return []
        tall, wide, square = CHILD_GRIDS[split]
        columns, rows = tall if height >= 2 * width else wide if width >= 2 * height else square
        across, down = _split_length(x, width, columns), _split_length(y, height, rows)
        return [
            Node((left, top, right - left, bottom - top), self.depth + 1)
            for top, bottom in down
            for left, right in across
        ]

    def compute_view_box(self, size: Size, patch: int, scale: float = 1.2) -> PixelRect:
        """Return the area shown for the node, as left, top, right, bottom. Its sides are those of
        the node, or `patch` where they are shorter, enlarged by `scale`; it is cut off at the
        picture's right and lower edges."""
        sides = [int(max(side, patch) * scale) for side in self.box[2:]]
        starts = (at + side // 2 for at, side in zip(self.box, self.box[2:], strict=False))
        left, top = (max(0, at - side // 2) for at, side in zip(starts, sides, strict=True))
        return left, top, min(left + sides[0], size[0]), min(top + sides[1], size[1])


def _split_length(start: int, length: int, count: int) -> list[tuple[int, int]]:
    """Split a length into equal parts; the last one takes the remainder."""
    cuts = [*range(start, start + length // count * count, length // count)]
    return [*zip(cuts, [*cuts[1:], start + length], strict=True)]


def count_splits(size: Size, patch: int, split: int = 4) -> int:
    """Return the depth of the tree for a picture of this size."""
    level, depth = {Node((0, 0, *size))}, 0
    while level := {child for node in level for child in node.list_children(patch, split)}:
        level, depth = {Node((0, 0, *node.box[2:])) for node in level}, depth + 1
    return depth


def merge_boxes(boxes: Sequence[PixelRect]) -> list[PixelRect]:
    """Merge boxes that are close to each other."""
    united = list[PixelRect]()
    for box in boxes:
        while near := [
            b for b in united if overlaps(grow(b, MERGE_MARGIN), grow(box, MERGE_MARGIN))
        ]:
            united = [b for b in united if b not in near]
            lefts, tops, rights, bottoms = zip(box, *near, strict=True)
            box = min(lefts), min(tops), max(rights), max(bottoms)
        united.append(box)
    return sorted(united)


@dataclass(frozen=True)
class Rules(Ranged):
    """The parameters of ZoomEye's search. The search ends at a node for which the confidence that
    the question can be answered reaches `up`. After three nodes per level `up` decreases by the
    next of `steps`, and the search gives up when `up` falls below `low`.

    `bias` is the weight, at the root, of the confidence that the object is visible; the rest is the
    weight of the confidence that zooming in may reveal it. The weight grows to 1 at the deepest
    nodes. The authors' values: LLaVA up 0.6, InternVL up 0.2 and low -0.2, Qwen up 0.95 and steps
    0.05, 0.1, 0.2; bias 0.2 if the whole picture is not shown. `patch` is the side of the vision
    encoder's input; smaller parts are not split.
    """

    up: float = 0.6
    low: float = 0.0
    steps: tuple[float, ...] = (0.1, 0.1, 0.2)
    bias: float = 0.6
    patch: int = 384

    ranges = ("patch >= 1", "bias >= 0", "bias <= 1")

    def get_weight(self, depth: int, deepest: int) -> float:
        """Return the weight of the confidence that the object is visible at this depth, as
        described for `bias`."""
        return self.bias + (1 - self.bias) * (depth / max(deepest, 1)) ** 2

    def search_best_first(
        self,
        size: Size,
        ask: Callable[[QuestionKind, Node], float],
        bottom: bool = False,
        no_root: bool = False,
    ) -> tuple[list[Node], int]:
        """Return a list with the node at which the question can best be answered, if any, and the
        number of nodes visited.

        `ask` returns confidences from -1 to 1. With `bottom` the search must reach a leaf before it
        ends; with `no_root` the whole picture does not count.
        """
        root, deepest = Node((0, 0, *size)), min(count_splits(size, self.patch), MAX_DEPTH)
        falls = chain(self.steps, iter(lambda: self.steps[-1], None))
        queue, up, limit, at_bottom = [(0.0, root)], self.up, 3 * deepest, not bottom
        seen, enough = list[tuple[float, Node]](), list[Node]()
        while queue:
            _, node = queue.pop(0)
            sure = -1.0 if no_root and not node.depth else ask("answering", node)
            seen.append((sure, node))
            below = node.list_children(self.patch) if node.depth < deepest else []
            at_bottom |= not below
            enough += [node] if sure >= up else []
            if enough and at_bottom:
                break
            if sure < up and len(seen) >= limit:
                up, limit = up - next(falls), limit + 2
                level, best = max(seen, key=lambda pair: pair[0])
                enough += [best] if level >= up else []
                if enough or up < self.low:
                    break
            for child in below:
                weight = self.get_weight(child.depth, deepest)
                there, hidden = ask("existence", child), ask("latent", child)
                queue.append((weight * there + (1 - weight) * hidden, child))
            queue.sort(key=lambda pair: -pair[0])
        return sorted(enough, key=lambda node: -node.depth)[:1], len(seen)

    def find_all_parts(
        self, node: Node, ask: Callable[[QuestionKind, Node], float], threshold: float = 0.6
    ) -> tuple[list[Node], float]:
        """Return every part, down to the second level, in which the object is visible with at least
        the confidence of any part within it; also return the largest confidence."""
        kept, best = list[Node](), threshold
        for child in node.list_children(self.patch) if node.depth < 2 else ():
            inner, sure = self.find_all_parts(child, ask, threshold)
            kept, best = kept + inner, max(best, sure)
        existence = ask("existence", node)
        return ([*kept, node], existence) if existence >= best else (kept, best)


@dataclass(frozen=True)
class AskedParts(Ranged, PerImageSource):
    """A source of parts of each image: the model is asked whether each part shows the object.

    The object comes from `words`, `words_field` or `words_pattern`, as in `Detected`. `existence`
    is the question, in which {cue} is the object. `fit` is a stage that resizes the images that are
    sent, such as `prompting.views.LongestSide`; `options` are passed to the model.
    """

    words: tuple[str, ...] = ()
    words_field: str = ""
    words_pattern: str = ""
    existence: Text = field(default="Is there {cue} in the image? Answer Yes or No.", kw_only=True)
    fit: Stage | None = field(default=None, kw_only=True)
    options: CallOptions = field(default_factory=lambda: CallOptions(logprobs=20), kw_only=True)
    asks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(self)
        read_texts(self)


@dataclass(frozen=True)
class TreeSearch(AskedParts):
    """ZoomEye (arXiv 2411.16044): a search by `rules` for the parts of each image of which the
    model says that the object is there and that the question can be answered.

    The object comes from `words`, `words_field` or `words_pattern`, as in `Detected`; if there are
    several, each is searched in its own tree, down to the smallest parts. Each part takes up to
    three calls, which ask `existence`, `latent` and `answering` with {cue} and {question} filled in
    (the wording is ours). Yes or No is read from the likelihoods of these words, or from the reply
    if there are no likelihoods. With `whole`, the picture with the part outlined is sent before the
    part. `fit` is a stage that resizes the images that are sent, such as
    `prompting.views.LongestSide`; `options` are passed to the model. With `every`, the search finds
    all parts that show the object, down to the second level, as for counting questions. Parts that
    are close to each other are merged. `images` are counted from 0; None means all.
    """

    version: ClassVar[int] = 2
    rules: Rules = field(default_factory=Rules)
    latent: Text = "Could {cue} be there, and be found by zooming in? Answer Yes or No."
    answering: Text = "{question}\nDoes this image show enough to answer? Answer Yes or No."
    whole: bool = True
    every: bool = False
    region_phrase = "part that answers"

    def find_regions(self, state: State, model: Model, number: int) -> list[Mark]:
        """Return the parts of one image. Raises ModelError."""
        size, boxes = state.sample.images[number].size, list[PixelRect]()
        words = find_words(self, state.sample)
        for cue in words:
            ask = partial(self._ask, state, model, number, cue)
            if self.every:
                nodes, _ = self.rules.find_all_parts(Node((0, 0, *size)), ask)
            else:
                nodes = self.rules.search_best_first(size, ask, bottom=len(words) > 1)[0]
            boxes += [node.compute_view_box(size, self.rules.patch) for node in nodes]
        return [Box("", *box, number) for box in merge_boxes(boxes)]

    def _ask(
        self, state: State, model: Model, number: int, cue: str, asked: QuestionKind, node: Node
    ) -> float:
        """Return the model's confidence, -1 to 1."""
        view = View.of(state.sample.images[number], number)
        views = [transforms.crop(view, *node.compute_view_box(view.size, self.rules.patch))]
        if self.whole:
            left, top, width, height = node.box
            outline = Rectangles(
                color="#ff0000", thickness=max(1, max(view.size) // 120), label=None
            )
            box = Box("", left, top, left + width, top + height, number)
            views.insert(0, outline.draw(view, [box]))
        text = fill_in(getattr(self, asked), cue=cue, question=state.sample.question)
        return ask_about_views(self, state, model, views, text)


def ask_about_views(asking: Any, state: State, model: Model, views: list[View], text: str) -> float:
    """Return the model's confidence, -1 to 1, that the answer to `text` about the views is yes. The
    stage `fit` of `asking` resizes the views, and its `options` are passed to the model."""
    if asking.fit is not None:
        views = list(asking.fit(state.replace(views=tuple(views)), model).views)
    sent = (Message("user", (*views, text)),)
    return read_confidence(model(sent, draw=state.draw, options=asking.options))


@dataclass(frozen=True)
class AskedCells(AskedParts):
    """The cells of a grid on which the model is most confident that the object is there, the most
    confident first: a retriever for RAP that uses the model itself.

    The sides of cells are about `side` pixels long. About each cell, the model is asked
    `existence`, with `fit` and `options` as in `TreeSearch`. The object comes from `words`,
    `words_field` or `words_pattern`, as in `Detected`; if there are several objects, the highest
    confidence counts. Cells with a confidence below `least` are left out. `images` are counted from
    0; None means all.
    """

    side: int = 224
    least: float = 0.0

    region_phrase = "cell that shows it"

    ranges = ("side >= 1", "least >= -1", "least <= 1")

    def find_regions(self, state: State, model: Model, number: int) -> list[Mark]:
        """Return the cells of one image. Raises ModelError."""
        view, scores = View.of(state.sample.images[number], number), dict[Mark, float]()
        texts = [fill_in(self.existence, cue=cue) for cue in find_words(self, state.sample)]
        for cell in list_grid_cells(view.size, self.side, number):
            part = transforms.crop(view, *cell.box.xyxy)
            sure = [ask_about_views(self, state, model, [part], text) for text in texts]
            scores[cell.box] = max(sure, default=-1.0)
        kept = [box for box, score in scores.items() if score >= self.least]
        return sorted(kept, key=lambda box: -scores[box])


def read_confidence(reply: Reply) -> float:
    """Return how strongly a reply says Yes, from -1 to 1: by the likelihoods of Yes and No as its
    first token, or else by its first word."""
    likely = {"yes": 0.0, "no": 0.0}
    first = reply.logprobs[0] if reply.logprobs else {}
    for text, likelihood in first.items():
        name = re.sub(r"[\W_]", "", text).lower()
        if name in likely:
            likely[name] += math.exp(likelihood)
    if total := sum(likely.values()):
        return 2 * likely["yes"] / total - 1
    return 1.0 if re.match(r"\W*yes\b", reply.text, re.I) else -1.0
