"""Regions that keep their layout, retrieved cells, and views for a token budget."""

import numpy as np
import pytest

from looktwice.extras.model_guided import AskedCells, RetrievedCrops
from looktwice.extras.model_guided.retrieved import keep_layout
from looktwice.pipelines.marks import Box, bounding_box
from looktwice.pipelines.models.image_tokens import find_image_rule
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.turns import Verify
from looktwice.prompting.views import Crop, LongestSide, Look, TokenBudget
from looktwice.prompting.where import BestCells, Claimed, Given, OnMarks
from tests.optional import extension
from tests.prompting.scenes import ScriptedReplies, plain, start

scenes = extension("scenes")


def numbered(width: int = 40, height: int = 30) -> Picture:
    """Return an image whose pixels encode their place."""
    ys, xs = np.mgrid[:height, :width]
    return Picture(np.dstack([xs, ys, np.full_like(xs, 200)]).astype(np.uint8))


CORNERS = Box("a", 0, 0, 10, 10), Box("b", 20, 0, 30, 10), Box("c", 20, 20, 30, 30)


def test_rows_and_columns_without_a_region_are_removed_and_gaps_are_black() -> None:
    view = keep_layout(View.of(numbered(), 0), CORNERS)
    assert view.size == (20, 20)
    assert (view.pixels[10:, :10] == 0).all()  # the one of the four cells that is no region
    for left, top, region in zip((0, 10, 10), (0, 0, 10), CORNERS, strict=True):
        corner = view.pixels[top, left].tolist()
        assert corner == [*map(int, bounding_box(region)[:2]), 200]
    (seen,) = view.to_view(Box("", 21, 21, 29, 29))
    assert bounding_box(seen) == (11, 11, 19, 19)
    assert not view.to_view(Box("", 12, 12, 18, 18))


def test_overlapping_regions_are_unchanged_and_fractions_enlarge() -> None:
    view = keep_layout(View.of(numbered(), 0), (Box("", 5, 5, 15, 15), Box("", 9.6, 9, 30, 19.2)))
    assert view.size == (25, 15)
    assert (view.pixels[4:, 4:, 0] == np.arange(9, 30)).all()
    assert (view.pixels[11:, :4] == 0).all() and (view.pixels[:4, 10:] == 0).all()


def test_the_best_cells_of_a_map() -> None:
    pixels = np.zeros((60, 90, 3), np.uint8)
    pixels[20:40, 60:90], pixels[40:60, 0:30] = 200, 90
    where = BestCells(lambda pixels: pixels[..., 0].astype(float), side=25, most=2)
    state = start(images=(Picture(pixels),))
    cells = where.places(state, NoModel()).regions[0]
    # 60 and 90 pixels hold two and four cells of some 25
    assert [bounding_box(cell) for cell in cells] == [(68, 0, 90, 30), (68, 30, 90, 60)]
    everything = BestCells(where.scalar, side=25).places(state, NoModel()).regions[0]
    edges = np.array([bounding_box(cell) for cell in everything])
    areas = (edges[:, 2] - edges[:, 0]) * (edges[:, 3] - edges[:, 1])
    assert len(everything) == 8 and areas.sum() == 60 * 90


def test_as_many_regions_as_needed_are_kept() -> None:
    def shown(*answers: str, tries: tuple[int, ...] = (1, 2, 0)) -> tuple[State, int]:
        model = ScriptedReplies(*answers)
        stage = RetrievedCrops(OnMarks(), tries, answering="Enough for {question}")
        state = stage(start(*CORNERS, images=(numbered(),)), model)
        assert all("Enough for Which?" in message.text for m in model.calls for message in m[0])
        return state, len(model.calls)

    state, calls = shown("No", "Yes")
    assert calls == 2 and state.measures["crops_kept"] == 2 and state.views[0].size == (20, 10)
    state, calls = shown("No")
    assert calls == 3 and state.measures["crops_kept"] == 1  # never sure
    state, calls = shown("Yes", tries=(0,))
    assert calls == 0 and state.views[0].size == (20, 20)


def test_selected_cells_show_what_a_near_sighted_model_cannot_read() -> None:
    fit = LongestSide(480, grow=True)
    pattern = r"letter is (\w+)|of the (\w+) shapes"
    stage = RetrievedCrops(AskedCells(words_pattern=pattern, side=200, fit=fit))
    hits = []
    for item in list(scenes.LettersAndShapes(n=6)):
        state = State.start(item.sample)
        after = stage(state, scenes.NearSighted())
        region = Given().find_region(state)
        hits.append(bool(after.views[0].to_view(region)))
        assert after.views[0].size < state.views[0].size
    assert sum(hits) >= 5


def test_without_regions_the_view_is_unchanged_and_tries_are_numbers() -> None:
    state = start()
    after = RetrievedCrops(OnMarks())(state, NoModel())
    assert after.views == state.views and "no mark is seen" in " ".join(after.notes)
    assert RetrievedCrops(OnMarks(), whole=True)(start(*CORNERS), NoModel()).views[0].size[0] == 120
    with pytest.raises(ValueError, match="tries must be numbers of regions"):
        RetrievedCrops(OnMarks(), ())


def image_tokens(state: State) -> int:
    """Return the tokens that a stage counted."""
    counted = state.measures["image_tokens"]
    assert isinstance(counted, int)
    return counted


MODELS = "gpt-4o", "claude-opus-4-8", "Qwen2.5-VL-7B-Instruct", "gemini-2.5-pro", ""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("tokens", [800, 1600, 4000])
def test_the_views_together_respect_the_budget(model: str, tokens: int) -> None:
    images = plain(1900, 1200), plain(300, 200), plain(1000, 1400)
    state = start(images=images)
    after = TokenBudget(tokens, model)(state, NoModel())
    costs = [find_image_rule(model).count_tokens(view.size) for view in after.views]
    assert sum(costs) == image_tokens(after) <= tokens
    before = [find_image_rule(model).count_tokens(view.size) for view in state.views]
    assert (sum(before) > tokens) == (after.views != state.views)
    # large ones are reduced; the small one keeps its pixels while they cost more
    if costs[1] < max(costs):
        assert after.views[1].size == (300, 200)
    assert any("an estimate" in note for note in after.notes) == (
        not find_image_rule(model).published
    )


def test_a_budget_is_used_and_one_below_the_minimum_is_refused() -> None:
    state = start(images=(plain(1900, 1200), plain(300, 200)))
    for tokens in (500, 1000, 1500):
        spent = image_tokens(TokenBudget(tokens, "claude-sonnet-4")(state, NoModel()))
        assert 0.93 * tokens < spent <= tokens
    least = "2 views cost at least 510 tokens, more than `tokens: 400`"
    with pytest.raises(ValueError, match=least):
        TokenBudget(400, "gpt-4o")(state, NoModel())


def test_views_of_all_turns_together_respect_the_budget_of_a_fit() -> None:
    """The first look costs 1,120 tokens; the first zoom of 900 takes the rest."""
    budget = TokenBudget(1600, "Qwen2.5-VL-7B-Instruct")
    boxes = ["[0, 0, 300, 300]", "[500, 500, 900, 900]", "[100, 600, 400, 900]"]

    def asked(fit: TokenBudget | None) -> tuple[State, list[int]]:
        model = ScriptedReplies(*boxes, "A")
        zoom = Look(Claimed(), Crop(padding=0, upscale=1008))
        verify = Verify(zoom=zoom, rounds=3, fit=fit)
        state = verify(start(images=(plain(1120, 784),)), model)
        shown = [[v for m in call[0] for v in m.views] for call in model.calls]
        rule = find_image_rule(budget.model)
        return state, [sum(rule.count_tokens(view.size) for view in views) for views in shown]

    state, tokens = asked(budget)
    assert len(tokens) == 4 and max(tokens) == image_tokens(state) <= 1600
    assert tokens[0] == 1120 and tokens[1] > 1550 and state.views[0].size == (1120, 784)
    assert "the token budget has no room for more views" in state.notes
    assert max(asked(None)[1]) == 1120 + 900 + 900
