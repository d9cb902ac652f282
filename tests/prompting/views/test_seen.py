"""Pixels and tokens equal those of transformers' own processors; losses are reported."""

from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from looktwice.eval.tasks.base import check_items
from looktwice.pipelines.marks import Box, Point
from looktwice.pipelines.model import Message
from looktwice.pipelines.models.image_tokens import find_image_rule
from looktwice.pipelines.models.processors.layouts import Size
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.views import AsSeen, Crop, ZoomOnMarks
from looktwice.prompting.views.seen import cut_tiles, describe_losses, find_layout
from tests import tables
from tests.optional import extension
from tests.prompting.scenes import table

scenes = extension("scenes")

CASES = table("views/seen.yaml")
PROCESSORS = CASES["processors"]
SIZES = ((640, 480), (480, 641), (1920, 1080), (333, 500), (96, 71), (1500, 300), (528, 479))


def picture(size: Size) -> Picture:
    """Return smooth noise, so that a shift by a pixel or another filter changes every pixel."""
    rng = np.random.default_rng(size)
    noise = rng.integers(0, 256, (size[1] // 8 + 1, size[0] // 8 + 1, 3), dtype=np.uint8)
    return Picture(np.asarray(Image.fromarray(noise).resize(size)))


def reference(processor: Any, shown: Picture) -> tuple[list[Pixels], Any]:
    """Return the pictures of transformers' processor as pixels, and its whole output."""
    made = processor(images=Image.fromarray(shown.pixels), return_tensors="np")
    values = np.asarray(made["pixel_values"])
    if "image_grid_thw" in made:
        (_, down, across), side = made["image_grid_thw"][0], processor.patch_size
        merge = 1 if values.ndim == 4 else processor.merge_size
        blocks = values.reshape(down // merge, across // merge, merge, merge, 3, -1, side, side)
        values = blocks[:, :, :, :, :, 0].transpose(4, 0, 2, 5, 1, 3, 6)
        values = values.reshape(1, 3, down * side, across * side)
    several = list(values.reshape(-1, *values.shape[-3:])) if values.ndim > 3 else []
    if "image_position_ids" in made:
        several, side = [], processor.patch_size
        across, down = made["image_position_ids"][0].max(0) + 1
        count = across * down
        blocks = values[0, :count].reshape(down, across, side, side, 3)
        several.append(blocks.transpose(4, 0, 2, 1, 3).reshape(3, down * side, across * side))
    if "target_sizes" in made:
        several, side, start = [], processor.patch_size, 0
        for down, across in made["target_sizes"]:
            stop = start + down * across * side
            blocks = values[0, :, :, start:stop].reshape(3, side, down, across, side)
            several.append(blocks.transpose(0, 2, 1, 3, 4).reshape(3, down * side, across * side))
            start = stop
    mean, std = (np.reshape(v, (3, 1, 1)) for v in (processor.image_mean, processor.image_std))
    pixels = [np.rint((value * std + mean) * 255).transpose(1, 2, 0) for value in several]
    return [np.asarray(value, np.uint8) for value in pixels], made


def reference_tokens(counted: Any, processor: Any, made: Any, tiles: int, size: Size) -> int:
    """Return the number of tokens that transformers inserts into the prompt for the picture."""
    import transformers

    if isinstance(counted, int):
        return int(counted)
    if counted == "patches":
        return int(np.prod(made["image_grid_thw"][0]) // processor.merge_size**2)
    if counted == "soft tokens":
        return int(made["num_soft_tokens_per_image"][0])
    if counted == "slices":
        return int((made["target_sizes"].prod(-1) // 16).sum())
    if counted.startswith("tiles of "):
        return tiles * int(counted.removeprefix("tiles of "))
    if counted == "rows":
        height, width = made["image_sizes"][0] // processor.patch_size["height"]
        return int(height * (width + 1))
    own: Any = getattr(transformers, counted)
    side = made["pixel_values"].shape[-1]
    stub = SimpleNamespace(
        image_processor=processor,
        patch_size=14,
        num_additional_image_tokens=0,
        num_image_tokens=729,
        vision_aspect_ratio="anyres_max_9",
    )
    stub._get_unpadded_features = lambda *sizes: own._get_unpadded_features(stub, *sizes)
    return int(own._get_number_of_features(stub, size[1], size[0], side, side))


def check_layout(model: str, processor: Any, counted: Any, size: Size) -> None:
    """Check that pixels and tokens of one size match the reference, or that both refuse the
    size."""
    shown, layout = picture(size), find_layout(model, size)
    assert layout is not None
    if layout.refusal:
        with pytest.raises(ValueError, match=r"aspect ratio|Size must contain|> 0"):
            reference(processor, shown)
        return
    ours = [view.pixels for view in cut_tiles(View.of(shown), layout)]
    theirs, made = reference(processor, shown)
    if "num_tiles" in made:
        theirs = theirs[: made["num_tiles"][0][0]]
    if "pinpoints" in str(vars(processor)) or "target_sizes" in made:
        theirs = [*theirs[1:], theirs[0]]
    assert [mine.shape for mine in ours] == [other.shape for other in theirs], size
    differences = [
        np.abs(np.subtract(a, b, dtype=int)).max() for a, b in zip(ours, theirs, strict=True)
    ]
    assert max(differences) == 0, size
    assert layout.tokens == reference_tokens(counted, processor, made, len(theirs), size), size


@pytest.mark.parametrize(("model", "name", "settings", "counted"), PROCESSORS)
@pytest.mark.slow
def test_pixels_and_tokens_match_transformers(
    model: str, name: str, settings: dict[str, Any], counted: Any
) -> None:
    """With 27 processors, no pixel and no number of tokens differs."""
    transformers = pytest.importorskip("transformers")
    processor = getattr(transformers, name)(**settings)
    for size in SIZES:
        check_layout(model, processor, counted, size)


@pytest.mark.parametrize(("model", "sizes"), CASES["extreme"])
def test_extreme_sizes_are_accepted_or_refused_as_by_transformers(
    model: str, sizes: list[Size]
) -> None:
    transformers = pytest.importorskip("transformers")
    name, settings, counted = next(row[1:] for row in PROCESSORS if row[0] == model)
    processor = getattr(transformers, name)(**settings)
    for width, height in sizes:
        check_layout(model, processor, counted, (width, height))


@pytest.mark.parametrize(("model", "size", "tokens", "seen"), CASES["mistral_common"])
def test_counts_and_sizes_match_mistral_common(
    model: str, size: list[int], tokens: int, seen: list[int]
) -> None:
    after = AsSeen(model, "mistral-common")(state((size[0], size[1])), NoModel())
    assert [*after.views[0].size] == seen
    assert after.measures["image_tokens"] == tokens
    assert "mistral-common" in after.notes[0]


@pytest.mark.parametrize(("width", "x", "smoothed", "sharp"), CASES["thin_lines"])
def test_a_thin_line_can_vanish_in_one_implementation_only(
    width: int, x: int, smoothed: int, sharp: int
) -> None:
    pixels = np.full((64, width, 3), 255, np.uint8)
    pixels[:, x] = 0
    line = State.start(Sample("s", "?", (Picture(pixels),)))
    darkest = [
        int(stage(line, NoModel()).views[0].pixels.min())
        for stage in (AsSeen("pixtral-12b"), AsSeen("pixtral-12b", "mistral-common"))
    ]
    assert darkest == pytest.approx([smoothed, sharp], abs=1)


def test_sizes_that_an_implementation_refuses_still_have_a_cost() -> None:
    for model, size, fact in (
        ("pixtral-12b", (1073, 1), "1,073 x 1"),
        ("llava-1.5-7b-hf", (4000, 4), "100 megapixels"),
    ):
        with pytest.raises(ValueError, match=f"sample s: .*{fact}"):
            AsSeen(model)(state(size), NoModel())
    for model in ("pixtral-12b", "Mistral-Large-4-1T-A52B", "Qwen2.5-VL-7B-Instruct", "GLM-4.6V"):
        assert find_image_rule(model).count_tokens((1073, 1)) >= 1
    for model in ("Qwen2.5-VL-7B-Instruct", "gpt-4o"):
        with pytest.raises(ValueError, match="does not prepare"):
            AsSeen(model, "mistral-common")


def state(size: Size, *marks: Box | Point) -> State:
    return State.start(Sample("s", "?", (picture(size),), marks=marks))


def test_every_tile_maps_back_to_the_source() -> None:
    """A mark is visible in its tile and in the overview, at the same place of the source."""
    seen = AsSeen("llava-v1.6-vicuna-7b-hf")(state((1000, 400), Point("A", 900, 100)), NoModel())
    assert [view.size for view in seen.views] == [(336, 336)] * 4
    shown = [number for number, view in enumerate(seen.views) if view.to_view(seen.sample.marks[0])]
    assert shown == [2, 3]
    for number in shown:
        (place,) = seen.views[number].to_view(seen.sample.marks[0])
        assert seen.views[number].to_source(*place.center) == pytest.approx((0, 900, 100))


@pytest.mark.parametrize(
    ("model", "size", "tokens", "patches"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", (280, 280), 100, 2.0),  # 56 pixels, patches of 28
        ("llava-1.5-7b-hf", (672, 672), 576, 2.0),  # 28 of 336, patches of 14
        ("gpt-4.1-mini", (640, 480), 486, 1.75),  # 300 patches of 32, times 1.62
        ("anthropic/claude-sonnet-4-5", (1920, 1080), 1560, 56 * 1456 / 1920 / 28),
    ],
)
def test_tokens_and_patches_are_measured(
    model: str, size: Size, tokens: int, patches: float
) -> None:
    measures = AsSeen(model)(state(size, Box("A", 100, 100, 156, 120)), NoModel()).measures
    assert measures["image_tokens"] == tokens
    assert measures["mark_patches"] == pytest.approx(patches, rel=1e-3)


def test_marks_that_cannot_be_seen_are_reported() -> None:
    marks = Box("small", 300, 100, 310, 104), Box("out", 0, 0, 20, 20), Point("A", 500, 300)
    cut = AsSeen("llava-1.5-7b-hf")(state((1000, 600), *marks), NoModel())
    assert cut.measures["mark_patches"] == 0
    _, small, out = cut.notes
    assert "mark small" in small and "0.4 of a patch" in small and "mark out" in out
    # Qwen sees 640 x 480 whole, so a larger crop is the same pixels; llava saw them shrunk
    before = state((640, 480), Box("A", 200, 200, 260, 240))
    zoom = ZoomOnMarks(crop=Crop(padding=0, upscale=512, show="both"))
    views, shown = zoom(before, NoModel()).views, before.sample.marks
    (loss,) = describe_losses(views, shown, "Qwen2.5-VL-7B-Instruct")
    assert loss.startswith("view 2 ") and "view 1 shows" in loss
    assert not [*describe_losses(views, shown, "llava-1.5-7b-hf")]
    assert not [*describe_losses((*before.views, *before.views), (), "Qwen2.5-VL-7B-Instruct")]
    assert not [*describe_losses(views, shown, "some-vlm")]


@pytest.mark.parametrize("model", ["llava-1.5-7b-hf", "llava-v1.6-vicuna-7b-hf", "gemma-3-4b-it"])
def test_a_reader_of_known_acuity_reads_what_the_processor_preserves(model: str) -> None:
    """Letters are read exactly where `mark_patches` reports a height of at least 12 pixels."""
    read = []
    for item in islice(check_items(scenes.LettersAndShapes(n=16)), 0, 16, 2):
        seen = AsSeen(model)(State.start(item.sample), NoModel())
        layout, covered = find_layout(model, (1200, 900)), seen.measures["mark_patches"]
        assert layout and isinstance(covered, float)
        height = covered * layout.patch
        asked = Message("user", (*seen.views, item.sample.question))
        reply = scenes.NearSighted(min_height=12)((asked,)).text
        read.append("large enough" in reply)
        assert read[-1] == (height >= 12) or abs(height - 12) < 1.5
    assert len(set(read)) == 2


@tables.table
def test_a_model_without_a_known_rule_is_refused(model: str) -> None:
    with pytest.raises(ValueError, match=f"the image processing of '{model}' is unknown"):
        AsSeen(model)
