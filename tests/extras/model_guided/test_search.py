"""ZoomEye: trees, weights, views, unions and searches equal the reference outputs (`zoomeye.json`,
from om-ai-lab/ZoomEye 6762d79), and a model of known acuity is led to what it is asked about."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looktwice.extras.model_guided import Rules, TreeSearch
from looktwice.extras.model_guided.search import (
    Node,
    QuestionKind,
    count_splits,
    merge_boxes,
    read_confidence,
)
from looktwice.pipelines.marks import bounding_box
from looktwice.pipelines.model import CallOptions, Messages, Reply
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.state import State
from looktwice.prompting.turns import Ask
from looktwice.prompting.views import Crop, LongestSide, Look
from tests.optional import extension
from tests.prompting.scenes import start

scenes = extension("scenes")

VECTORS = json.loads(Path(__file__).with_name("zoomeye.json").read_text())
KINDS = {"existence": 1, "latent": 2, "answering": 3}
PRIMES = (73856093, 19349663, 83492791, 2971215073)


@pytest.mark.parametrize("case", VECTORS["trees"])
def test_trees_match_the_reference(case: Mapping[str, Any]) -> None:
    size, patch, split = (case["size"][0], case["size"][1]), case["patch"], case["split"]
    level = [Node((0, 0, *size))]
    counts = [1]
    assert [list(node.box) for node in level[0].list_children(patch, split)] == case[
        "root_children"
    ]
    assert count_splits(size, patch, split) == case["max_depth"]
    for _ in range(case["max_depth"]):
        level = [child for node in level for child in node.list_children(patch, split)]
        counts.append(len(level))
    assert counts == case["nodes_per_depth"]


def test_weights_views_and_unions_match_the_reference() -> None:
    for case in VECTORS["weight"]:
        depths, rules = range(case["max_depth"] + 1), Rules(bias=case["bias"])
        weights = [rules.get_weight(depth, case["max_depth"]) for depth in depths]
        assert weights == pytest.approx(case["w"], abs=5e-7)  # the file has six digits
    for case in VECTORS["view_box"]:
        node, (width, height) = Node(tuple(case["bbox"])), case["image"]
        box = node.compute_view_box((width, height), case["patch"], case["scale"] or 1.0)
        assert list(box) == case["box"]
    for case in VECTORS["merge"]:
        united = merge_boxes([tuple(box) for box in case["boxes"]])
        assert list(map(list, united)) == sorted(case["out"])


def scripted(seed: int) -> Callable[[QuestionKind, Node], float]:
    """Return the confidence of the reference vectors, by their formula."""

    def ask(asked: QuestionKind, node: Node) -> float:
        number = KINDS[asked] * 433494437 ^ seed * 514229
        for side, prime in zip(node.box, PRIMES, strict=True):
            number ^= side * prime
        return round(2 * (number % 20011 / 20011 - 0.5), 6)

    return ask


@pytest.mark.parametrize("case", VECTORS["search_type1"], ids=lambda case: case["seed"])
def test_searches_match_the_reference(case: Mapping[str, Any]) -> None:
    steps = tuple(case["decrease"])
    rules = Rules(case["upper"], case["lower"], steps, case["bias"], case["patch"])
    (width, height), ask = case["size"], scripted(case["seed"])
    flags = case["force_visit_bottom"], case["force_no_root"]
    (node,), looked = rules.search_best_first((width, height), ask, *flags)
    (wanted,) = case["candidates"]
    assert (list(node.box), node.depth, looked) == (
        wanted["bbox"],
        wanted["depth"],
        case["num_pop"],
    )
    assert ask("answering", node) == wanted["answering"]


@pytest.mark.parametrize("case", VECTORS["search_type2"], ids=lambda case: case["seed"])
def test_searches_for_all_targets_match_the_reference(case: Mapping[str, Any]) -> None:
    root, ask = Node((0, 0, *case["size"])), scripted(case["seed"])
    nodes, _ = Rules(patch=case["patch"]).find_all_parts(root, ask, case["threshold"])
    found = [(list(node.box), node.depth, ask("existence", node)) for node in nodes]
    assert found == [(c["bbox"], c["depth"], c["existence"]) for c in case["candidates"]]


def test_the_search_gives_up_if_nothing_can_be_answered() -> None:
    gave_up = Rules().search_best_first((1600, 1200), lambda asked, node: -1.0)
    assert gave_up == ([], 17)  # 9, and two for each step from 0.6 to below 0
    only_root = Rules().search_best_first((300, 200), lambda asked, node: -1.0)
    assert only_root == ([], 1)


@pytest.mark.parametrize(
    ("reply", "sure"),
    [
        (Reply("Yes", logprobs=({"Yes": math.log(0.6), " no": math.log(0.2)},)), 0.5),
        (Reply("No", logprobs=({"NO": math.log(0.3), "No": math.log(0.3), "y": 0.0},)), -1.0),
        (Reply(" yes, it is", logprobs=({"It": 0.0},)), 1.0),
        (Reply("Not at all"), -1.0),
        (Reply("Yesterday"), -1.0),
    ],
)
def test_yes_and_no_are_parsed(reply: Reply, sure: float) -> None:
    assert read_confidence(reply) == pytest.approx(sure)


class Counted:
    """A near-sighted model that records the sizes of the pictures in each call."""

    identity = "counted"

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        SENT.append([view.size for message in messages for view in message.views])
        reply: Reply = scenes.NearSighted()(messages, draw, options)
        return reply


SENT: list[list[tuple[int, int]]] = []
FIT = LongestSide(400, grow=True)
TREE = TreeSearch(
    words_pattern=r"letter is (\w+)|of the (\w+) shapes",
    fit=FIT,
    whole=False,
    rules=Rules(patch=128),
)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_the_search_leads_a_near_sighted_model_to_the_target(whole: bool) -> None:
    right, before, model = 0, 0, Counted()
    for item in scenes.LettersAndShapes(6, width=640, height=480, smallest=8, largest=16):
        SENT.clear()
        start_state = State.start(item.sample)
        state = Look(replace(TREE, whole=whole), Crop(padding=0, min_px=0))(start_state, model)
        assert {len(sizes) for sizes in SENT} == {1 + whole}
        ends = f"ANSWER: {item.answer}"
        right += Ask()(FIT(state, model), model).reply.endswith(ends)
        before += Ask()(FIT(start_state, model), model).reply.endswith(ends)
    assert before == 0
    assert right >= 5


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("every", [False, True])
def test_every_part_that_shows_the_target_is_found(whole: bool, every: bool) -> None:
    SENT.clear()
    item = next(iter(scenes.LettersAndShapes(1, width=640, height=480, smallest=8, largest=16)))
    state = State.start(item.sample)
    places = replace(TREE, every=every, whole=whole).places(state, Counted())
    assert {len(sizes) for sizes in SENT} == {1 + whole}
    ((x0, y0, x1, y1),) = map(bounding_box, places.regions[0])
    left, top, right, bottom = bounding_box(item.sample.marks[0])
    assert x0 <= left <= right <= x1 and y0 <= top <= bottom <= y1
    assert every or (x1 - x0) * (y1 - y0) < 640 * 480


def test_a_search_reports_missing_requirements() -> None:
    state = Look(TREE)(start(), Scripted("No"))
    assert state.notes[0] == "view 1: no part that answers is seen; kept as it is"
    with pytest.raises(ValueError, match="words must come from one setting"):
        TreeSearch(words=("a",), words_field="b")
