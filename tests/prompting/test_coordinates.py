"""Coordinates of a model become pixels of the view, by the size at which it was sent."""

import numpy as np
import pytest

from looktwice.pipelines import transforms
from looktwice.pipelines.marks import Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.coordinates import Frame, ShownImage, ToolError, find_new_regions
from looktwice.prompting.views import LongestSide
from tests.prompting.scenes import table

CASES = table("coordinates.yaml")


def start(width: int = 200, height: int = 100) -> State:
    return State.start(Sample("s", "?", (Picture(np.zeros((height, width, 3), np.uint8)),)))


def show(longest: int = 200) -> ShownImage:
    state = start()
    return ShownImage.from_view(state.views[0], LongestSide(longest), state)


@pytest.mark.parametrize(("longest", "frame", "numbers", "expected"), CASES["found"])
def test_places_are_mapped_into_the_view(
    longest: int, frame: Frame, numbers: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    assert show(longest).locate(numbers, frame, "image 1") == pytest.approx(expected)


@pytest.mark.parametrize(("frame", "numbers", "message"), CASES["refused"])
def test_invalid_places_are_refused(frame: Frame, numbers: tuple[float, ...], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        show().locate(numbers, frame, "image 1")


@pytest.mark.parametrize(("frame", "numbers", "sentence"), CASES["cut"])
def test_a_clipped_box_is_reported(frame: Frame, numbers: tuple[float, ...], sentence: str) -> None:
    described = show().describe_cut(numbers, frame, "image 1")
    assert sentence in described
    assert bool(sentence) == bool(described)


def twice(state: State, model: Model) -> State:
    return state.replace(views=(*state.views, *state.views))


def beside(state: State, model: Model) -> State:
    return state.replace(views=(transforms.join_side_by_side([*state.views, *state.views]),))


def none(state: State, model: Model) -> State:
    return state.replace(views=())


@pytest.mark.parametrize("fit", [twice, beside, none])
def test_a_fit_must_return_one_view_with_one_part(fit: Stage) -> None:
    state = start()
    with pytest.raises(ValueError, match=r"fit: .*; use a stage that only resizes"):
        ShownImage.from_view(state.views[0], fit, state)


def test_a_region_is_new_unless_an_earlier_view_shows_it_within_a_pixel() -> None:
    (whole,) = start().views
    crop = transforms.crop(whole, 20, 10, 60, 50)
    near, far = transforms.crop(whole, 21, 10, 61, 50), transforms.crop(whole, 20, 12, 60, 52)
    blank = View(Picture(np.zeros((9, 9, 3), np.uint8)))
    regions = find_new_regions([whole, crop, transforms.rotate(crop, 90), near, far, blank], 1)
    assert regions == ((0, 20, 10, 60, 50), (), (), (0, 20, 12, 60, 52), ())
    assert find_new_regions([whole, crop], 0) == ((0, 0, 0, 200, 100), (0, 20, 10, 60, 50))


def test_a_crop_of_a_crop_maps_to_the_image_of_the_sample() -> None:
    state = start()
    first = transforms.crop(state.views[0], 20, 10, 120, 60)
    image = ShownImage.from_view(first, LongestSide(50), state)
    assert image.sent_view.size == (50, 25)
    assert image.sent_view.to_view(Point("p", 30.5, 20.5))[0].center == pytest.approx((5, 5))
    assert image.locate((5, 5), "pixels", "image 1") == pytest.approx((10.5, 10.5))
