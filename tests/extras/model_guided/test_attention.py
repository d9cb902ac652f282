"""Methods that look into a network. ViCrop's windows and tiles, and contrast, equal the reference
outputs (`local.json`, `vicrop_maps.npz`, from saccharomycetes/mllms_know a64c5d5), and the masks
and dimmed pictures those of yu-rp/apiprompting eed9978. A planted network is found to look at ink,
and its attention and likelihoods match transformers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.engines import LocalVLM
from looktwice.extras.model_guided import ContrastAnswer, Dimmed, ViCrop
from looktwice.extras.model_guided.attention import (
    GENERAL_INSTRUCTION,
    cut_tiles,
    find_sharpest_window,
    keep_fine_detail,
)
from looktwice.extras.model_guided.contrast import contrast_logits
from looktwice.extras.model_guided.dimmed import compute_attention_mask, dim_view
from looktwice.extras.networks.opening import close_networks
from looktwice.pipelines.marks import Box, bounding_box
from looktwice.pipelines.model import CallOptions, Message
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.markers import Cover
from looktwice.prompting.views import LongestSide, Show
from looktwice.prompting.where import OnMarks
from tests.optional import optional
from tests.planted_network import write_ink_seeker
from tests.tiny import tiny

HERE = Path(__file__).parent
VECTORS, MAPS = json.loads((HERE / "local.json").read_text()), np.load(HERE / "vicrop_maps.npz")


@pytest.mark.parametrize("case", VECTORS["boxes"], ids=lambda case: case["id"])
def test_windows_match_the_reference(case: Mapping[str, Any]) -> None:
    width, height = case["image_size"]
    box = find_sharpest_window(MAPS[case["map"]], (width, height), case["bbox_size"])
    assert list(box) == case["box"]
    faint = find_sharpest_window(MAPS[case["map"]] * 1e-12, (width, height), case["bbox_size"])
    assert faint == box


@pytest.mark.parametrize("case", VECTORS["high_res_split"], ids=lambda case: str(case["image"]))
def test_tiles_match_the_reference(case: Mapping[str, Any]) -> None:
    rows = cut_tiles((case["image"][0], case["image"][1]))
    if "error" in case:  # the reference divides by no columns; here there is one
        assert {len(row) for row in rows} == {1}
        return
    assert (len(rows[0]), len(rows)) == (case["columns"], case["rows"])
    assert list(rows[0][0][2:]) == case["tile"]
    assert rows[-1][-1][2] >= case["image"][0] and rows[-1][-1][3] >= case["image"][1]


@pytest.mark.parametrize("case", VECTORS["contrast"]["cases"])
def test_contrasts_match_the_reference(case: Mapping[str, Any]) -> None:
    image, changed = (np.array(VECTORS["contrast"][name]) for name in ("image", "contrast"))
    scores = contrast_logits(image, changed, case["alpha"], case["beta"])
    told = [score if np.isfinite(score) else None for score in scores]
    assert told == pytest.approx(case["out"])
    shares = np.exp(scores - scores.max())
    assert shares / shares.sum() == pytest.approx(case["prob"], abs=1e-6)
    assert scores.argmax() == case["argmax"]


def test_masks_and_dimmed_pictures_match_the_reference() -> None:
    vectors = {name: np.array(values) for name, values in VECTORS["overlay"].items()}
    mask = compute_attention_mask(vectors["cls"].astype(float))
    assert mask == pytest.approx(vectors["llava_mask_of_cls"], abs=1e-6)
    view = View.of(Picture((np.arange(432) * 7 % 256).astype(np.uint8).reshape(12, 12, 3)), 0)
    assert (dim_view(view, mask, 200).pixels[0] == vectors["llava_overlay_gray200_row0"]).all()
    dark = dim_view(view, vectors["clip_mask"], 0)
    assert (dark.pixels[0] == vectors["clip_overlay_gray0_row0"]).all()
    assert dark.parts == view.parts


def scene(left: int, top: int, choices: tuple[str, ...] = ()) -> State:
    """Return a white picture with ink in one place."""
    pixels = np.full((224, 224, 3), 255, np.uint8)
    pixels[top : top + 28, left : left + 28] = 0
    mark = Box("ink", left, top, left + 28, top + 28)
    return State.start(Sample("s", "how many", (Picture(pixels),), choices, (mark,)))


@dataclass(frozen=True)
class Dark:
    """The darkness of a picture, or a map of unknown values."""

    known: bool = True

    def __call__(self, pixels: Pixels, /) -> Any:
        return 255.0 - pixels[..., 0] if self.known else np.full(pixels.shape[:2], np.nan)


def test_any_informative_map_dims_and_a_uniform_one_does_not() -> None:
    state = scene(84, 112)
    bare, grown = LongestSide(112)(state, NoModel()), LongestSide(672, grow=True)(state, NoModel())
    for views, size in ((state, 28), (bare, 14), (grown, 84)):
        (before,) = views.views
        (after,) = Dimmed(scalar=Dark(), ground=200)(views, NoModel()).views
        left, top = 3 * size, 4 * size
        assert (after.pixels[top : top + size, left : left + size] < 200).all()
        assert after.pixels[top + size // 2, left + size // 2, 0] < 20
        assert abs(after.pixels[:size, :size].astype(int) - 200).max() <= 25
        assert after.parts == before.parts
    kept = Dimmed(scalar=Dark(known=False))(state, NoModel())
    assert kept.views == state.views and "has no known value" in kept.notes[0]
    for network, map_of in (("", None), ("a", Dark())):
        with pytest.raises(ValueError, match="`model` or `scalar`"):
            Dimmed(model=network, scalar=map_of)


def test_a_map_of_pixels_counts_where_the_picture_is_detailed() -> None:
    """Compared with the definition, position by position."""
    rng = np.random.default_rng(0)
    values, pixels = rng.random((28, 42)), rng.integers(0, 256, (28, 42, 3), np.uint8)
    side = np.exp(-1 / (2 * 0.8**2))
    kernel = np.array([side, 1, side]) / (1 + 2 * side)
    rim = np.pad(pixels.astype(float), ((1, 1), (1, 1), (0, 0)), mode="reflect")
    blurred = sum(
        kernel[i] * kernel[j] * rim[i : i + 28, j : j + 42] for i in range(3) for j in range(3)
    )
    lost = np.pad(np.sqrt(((pixels - blurred) ** 2).sum(2)), 3, mode="symmetric")
    fine = [[np.median(lost[y : y + 7, x : x + 7]) for x in range(42)] for y in range(28)]
    kept = np.where(fine > np.median(fine), values, 0)
    expected = [
        [kept[y : y + 14, x : x + 14].mean() for x in range(0, 42, 14)] for y in range(0, 28, 14)
    ]
    assert keep_fine_detail(values, pixels, 14) == pytest.approx(np.array(expected))
    large = pixels.repeat(3, 0).repeat(3, 1)
    assert keep_fine_detail(values, large, 14).shape == (2, 3)


optional("torch")
optional("transformers")


@pytest.fixture(scope="module")
def ink(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield str(write_ink_seeker(tmp_path_factory.mktemp("ink")))
    close_networks()


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield str(tiny("llava", tmp_path_factory.mktemp("llava")))
    close_networks()


@pytest.mark.slow
@pytest.mark.parametrize("place", [(28, 140), (168, 56), (84, 84)])
@pytest.mark.parametrize("tiled", [False, True])
def test_a_planted_network_attends_to_ink(place: tuple[int, int], tiled: bool, ink: str) -> None:
    vicrop = ViCrop(model=ink, layer=-1, base=56, general="", tiled=tiled)
    state = scene(*place)
    (box,) = vicrop.places(state, NoModel()).regions[0]
    x0, y0, x1, y1 = bounding_box(box)
    assert x0 <= place[0] and place[0] + 28 <= x1 and y0 <= place[1] and place[1] + 28 <= y1
    assert (x1 - x0) * (y1 - y0) <= 112**2


def test_relative_attention_of_a_uniform_network_highlights_nothing(ink: str) -> None:
    look = replace(ViCrop(model=ink, layer=-1, base=56), general="how many")
    values = look._compute_map(View.of(scene(28, 140).sample.images[0]), "how many")
    assert values == pytest.approx(np.ones_like(values))


def test_everything_outside_the_attended_area_is_dimmed(ink: str) -> None:
    state = scene(84, 84)
    (after,) = Dimmed(model=ink, layer=-1, ground=200)(state, NoModel()).views
    # black ink keeps near half of itself after the smoothing, and white paper all but turns grey
    assert (after.pixels[84:112, 84:112] < 120).all()
    assert (after.pixels[:28, :28] < 225).all() and (after.pixels[:28, :28] >= 200).all()


def test_attention_matches_transformers(llava: str) -> None:
    model = LocalVLM(llava)
    pixels = np.random.default_rng(0).integers(0, 255, (28, 28, 3), dtype=np.uint8)
    messages = [Message("user", (View.of(Picture(pixels)), "which"))]
    look = model.compute_reply_start(messages, "attention")
    assert look.attention.shape[0] == 2 and look.gradient is not None
    assert look.attention.shape == look.gradient.shape
    assert (look.attention > 0).all() and (look.attention.sum(-1) < 1).all()
    assert np.exp(look.log_probabilities).sum() == pytest.approx(1, abs=1e-5)
    choices = ("A", "B", "C")
    (told,) = model(messages, options=CallOptions(choices=choices)).logprobs
    mine = [look.log_probabilities[token] for token in look.find_first_tokens(choices)]
    assert mine == pytest.approx([told[choice] for choice in choices], abs=1e-4)


def test_a_gradient_map_keeps_what_supports_the_most_likely_token(llava: str) -> None:
    vicrop = ViCrop(model=llava, layer=-1, base=28, method="gradient")
    state = State.start(scene(84, 84).sample)
    (box,) = vicrop.places(state, NoModel()).regions[0]
    look = LocalVLM(llava).compute_reply_start(
        [Message("user", (state.views[0], "how many"))], "attention"
    )
    assert look.gradient is not None and look.gradient[-1].min() < 0 < look.gradient[-1].max()
    expected = (look.attention[-1] * look.gradient[-1].clip(0)).mean(0)
    values = vicrop._compute_map(state.views[0], "how many")
    assert values.ravel() == pytest.approx(expected)
    assert bounding_box(box)[2] <= 224


def test_the_pure_gradient_is_the_derivative_by_the_pixels(llava: str) -> None:
    """Compared with the change when single input pixels are changed."""
    import torch

    model, state = LocalVLM(llava), scene(84, 84)
    look = model.compute_reply_start([Message("user", (state.views[0], "how many"))], "pixels")
    assert look.gradient is not None
    pixels = look.inputs["pixel_values"].detach()
    assert look.gradient.shape == pixels.shape
    steepest = np.argsort(-abs(look.gradient), None)[:3]
    for place in np.transpose(np.unravel_index(steepest, pixels.shape)).tolist():
        likely = []
        for step in (0.02, -0.02):
            moved = pixels.clone()
            moved[tuple(place)] += step
            with torch.inference_mode():
                logits = look.network.model(**{**look.inputs, "pixel_values": moved}).logits
            likely.append(float(logits[0, -1].log_softmax(-1)[look.log_probabilities.argmax()]))
        slope = (likely[0] - likely[1]) / 0.04
        assert look.gradient[tuple(place)] == pytest.approx(slope, rel=0.01)


@pytest.mark.parametrize("place", [(28, 140), (168, 56), (84, 84)])
def test_a_pure_gradient_highlights_fine_detail(place: tuple[int, int], llava: str) -> None:
    vicrop, state = ViCrop(model=llava, base=112, method="pure"), scene(*place)
    view = state.views[0]
    norms = [vicrop.measure_gradient(view, words) for words in ("how many", GENERAL_INSTRUCTION)]
    values = vicrop._compute_map(view, "how many")
    block = norms[0].shape[0] // len(values)
    assert values == pytest.approx(keep_fine_detail(norms[0] / norms[1], view.pixels, block))
    (box,) = vicrop.places(state, NoModel()).regions[0]
    x0, y0, x1, y1 = bounding_box(box)
    assert x0 < place[0] + 28 and place[0] < x1 and y0 < place[1] + 28 and place[1] < y1


def test_a_network_without_pixel_planes_is_refused(ink: str) -> None:
    with pytest.raises(WeightsError, match="single plane of pixels"):
        ViCrop(model=ink, method="pure").places(scene(0, 0), NoModel())


def test_contrast_answers_by_the_change_from_the_evidence(llava: str) -> None:
    state = scene(84, 84, ("one", "two", "three"))
    change = Show(OnMarks(), Cover(color="white"))
    eyes = LocalVLM(llava)
    looks = [
        eyes.compute_reply_start([Message("user", (*s.views, s.prompt))])
        for s in (state, change(state, NoModel()))
    ]
    tokens = looks[0].find_first_tokens("ABC")
    difference = 3 * looks[0].log_probabilities[tokens] - 2 * looks[1].log_probabilities[tokens]
    after = ContrastAnswer(model=llava, change=change, alpha=2)(state, NoModel())
    assert after.answer == "ABC"[int(difference.argmax())]
    shares = np.exp(difference - difference.max())
    assert after.confidence == pytest.approx(shares.max() / shares.sum())
    plain = ContrastAnswer(model=llava, change=change, alpha=0)(state, NoModel())
    assert plain.answer == "ABC"[int(looks[0].log_probabilities[tokens].argmax())]
    assert plain.measures["shifted"] == 0
    gone = ContrastAnswer(model=llava, change=change, beta=1)(state, NoModel())
    assert gone.reason == "abstained: no choice is likely enough"
    with pytest.raises(ValueError, match="no choices to compare"):
        ContrastAnswer(model=llava, change=change)(scene(0, 0), NoModel())
