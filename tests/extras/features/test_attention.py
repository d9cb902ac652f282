"""Attention of a vision encoder: maps, shares on marks, and refusals of other encoders."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.features import AttentionShare, VisionAttention
from looktwice.extras.features.attention import (
    _attend,
    compute_window_order,
    make_marks_mask,
    select_marks,
    sum_attention,
)
from looktwice.extras.networks import close_networks
from looktwice.extras.shown_results import ScalarOverlay
from looktwice.pipelines.marks import Box, Mask, Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel, Pipeline
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from tests.optional import optional
from tests.planted_network import MORE, write_ink_seeker
from tests.tiny import tiny

torch = optional("torch")
optional("transformers")


def picture(height: int, width: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


FAMILIES = ("llava", "llava_next", "idefics3", "phi4", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")
# patches of 60 x 80 pixels: stretched to 28 x 28, or as 56 x 84
KEPT = {"square": (2, 2), "picture": (4, 6)}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_map_sums_to_one_and_a_batch_equals_single_images(
    family: str, built: Callable[[str], str]
) -> None:
    attention = VisionAttention(model=built(family))
    images = [picture(60, 80), picture(140, 100, 1), picture(140, 100, 2)]
    alone = [attention.predict((image,)).values for image in images]
    assert alone[0].shape == KEPT["picture" if "qwen" in family else "square"]
    together = attention.predict_batch([(image,) for image in images[1:]])
    for first, second in zip(alone[1:], together, strict=True):
        assert first.sum() == pytest.approx(1) and np.allclose(first, second.values, atol=1e-6)
    assert not np.allclose(alone[1], alone[2], atol=1e-5, rtol=0)
    whole = attention(images[0])
    assert whole.shape == (60, 80) and whole.sum() == pytest.approx(1)
    assert whole[0, 0] / whole[-1, -1] == pytest.approx(alone[0][0, 0] / alone[0][-1, -1])


@pytest.mark.parametrize("family", FAMILIES[:4])
@pytest.mark.parametrize("layer", [None, 0, -1])
def test_a_map_is_the_mean_attention_of_transformers(
    family: str, layer: int | None, built: Callable[[str], str]
) -> None:
    attention = VisionAttention(model=built(family), layer=layer)
    image = picture(28, 28)
    processor = attention.network().processor
    mean, std = np.array(processor.image_mean), np.array(processor.image_std)
    planes = torch.from_numpy((image / 255 - mean) / std).permute(2, 0, 1)[None].float()
    name = "vision_model" if family == "idefics3" else "vision_tower"
    inner = open_eager(built(family))
    if family == "phi4":
        inner, name = inner.embed_tokens_extend.image_embed, "img_processor"
    tower = getattr(inner, name)
    with torch.inference_mode():
        given = tower(planes, output_attentions=True).attentions
    assert len(given) == 2
    chosen = torch.stack(list(given) if layer is None else [given[layer]])
    expected = chosen.mean((0, 1, 2, 3))[-4:].numpy()
    result = attention.predict((image,))
    assert np.allclose(result.values.ravel(), expected / expected.sum(), atol=1e-6)
    apart = chosen.mean((1, 2, 3)) if layer is None else chosen.mean((0, 1, 3))
    assert np.allclose(result.parts.reshape(2, 4) / chosen.shape[-1], apart[:, -4:], atol=1e-6)


def open_eager(folder: str) -> Any:
    """Return the network without its language head, opened with eager attention."""
    from transformers import AutoModelForMultimodalLM

    kind = AutoModelForMultimodalLM
    return kind.from_pretrained(folder, attn_implementation="eager").eval().model


@pytest.mark.parametrize("family", FAMILIES[4:])
@pytest.mark.parametrize("layer", [None, 0, 1])
def test_a_windowed_map_holds_the_attention_weights_of_transformers(
    family: str, layer: int | None, built: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """These encoders return no attentions, so their attention function is recorded."""
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    heard: dict[Any, list[Any]] = {}
    function: Any = module.eager_attention_forward

    def listen(block: Any, *given: Any, **more: Any) -> Any:
        said = function(block, *given, **more)
        heard.setdefault(block, []).append(said[1])
        return said

    monkeypatch.setattr(module, "eager_attention_forward", listen)
    attention, image = VisionAttention(model=built(family), layer=layer), picture(84, 140)
    inputs = attention.network().processor(images=[image], return_tensors="pt")
    assert inputs["image_grid_thw"].tolist() == [[1, 6, 10]]
    with torch.inference_mode():
        open_eager(built(family)).visual(inputs["pixel_values"], grid_thw=inputs["image_grid_thw"])
    layers = [torch.cat([each.mean(1).sum(1)[0] for each in calls]) for calls in heard.values()]
    windowed = family == "qwen2_5_vl"
    assert [len(calls) for calls in heard.values()] == ([6, 1] if windowed else [1, 1])
    row = (sum(layers) if layer is None else layers[layer]).numpy()
    expected = np.zeros((6, 10))
    patches = row.reshape(15, 2, 2)
    for number, (down, right) in enumerate(WINDOWS if windowed else sorted(WINDOWS)):
        expected[2 * down : 2 * down + 2, 2 * right : 2 * right + 2] = patches[number]
    assert np.allclose(attention.predict((image,)).values, expected / expected.sum(), atol=1e-6)


# (row, column) of tokens of 2 x 2 patches, three rows of five, in their order
WINDOWS = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3), (0, 4), (1, 4)]
WINDOWS += [(2, column) for column in range(5)]


@pytest.mark.parametrize(
    ("rows", "columns", "side"), [(6, 10, 2), (4, 4, 2), (10, 2, 3), (2, 14, 5), (16, 18, 4)]
)
def test_the_order_of_windows_matches_transformers(rows: int, columns: int, side: int) -> None:
    vision_utils = pytest.importorskip("transformers.vision_utils")
    grid, wide = torch.tensor([[1, rows, columns]]), columns // 2
    index, _ = vision_utils.get_vision_window_index(grid, 2, side * 28, 14)
    order = compute_window_order(rows, columns, 2, side).reshape(-1, 4)
    assert order[:, 0].tolist() == [2 * (n // wide) * columns + 2 * (n % wide) for n in index]
    assert (order - order[:, :1] == [0, 1, columns, columns + 1]).all()


@pytest.mark.parametrize("asking", [None, torch.linspace(-1, 2, 300)])
def test_attention_is_accumulated_block_by_block_without_changing_it(asking: Any) -> None:
    """With more queries than a block, heads that share keys, and a mask."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, heads, 300, 8) for heads in (4, 2, 2))
    mask = torch.full((300, 300), -torch.inf).triu(1)[None, None]
    with sum_attention(asking) as received:
        output, _ = _attend("layer", query, key, value, mask, scaling=0.5)
    wide = key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)
    expected = torch.nn.functional.scaled_dot_product_attention(query, *wide, mask, scale=0.5)
    assert torch.allclose(output, expected.transpose(1, 2), atol=1e-5)
    weights = (query @ wide[0].transpose(2, 3) * 0.5 + mask).softmax(-1)
    total = weights.sum(2) if asking is None else torch.einsum("q,bhqk->bhk", asking, weights)
    assert torch.allclose(received.stack_parts("it", -1), total, atol=1e-4)
    assert torch.allclose(received.stack_parts("it", None)[:, 0], total.mean(1), atol=1e-4)


@pytest.mark.parametrize(("down", "right"), [(0, 0), (1, 6), (5, 2), (7, 7)])
def test_planted_attention_on_a_dark_patch_is_located(
    down: int, right: int, tmp_path: Path
) -> None:
    """Every patch attends to ink: a dark patch receives e^3 times the attention of another
    patch."""
    attention = VisionAttention(model=str(write_ink_seeker(tmp_path / "planted")))
    pixels = np.full((112, 112, 3), 255, np.uint8)
    pixels[14 * down : 14 * down + 14, 14 * right : 14 * right + 14] = 0
    box = Box("star 1", 14 * right, 14 * down, 14 * right + 14, 14 * down + 14)
    in_window, in_all = (np.exp(MORE) / (np.exp(MORE) + others) for others in (15, 63))
    expected = (16 * in_window / 64 + in_all) / 2  # a quarter of the patches share its window
    elsewhere = Box("circle 1", *((0, 0, 14, 14) if down == 7 else (98, 98, 112, 112)))
    sample = Sample("s", "?", (Picture(pixels),), marks=(box, elsewhere))
    share = AttentionShare(attention, labels=("star",), apart=True)
    noted = share(State.start(sample), NoModel())
    measures = {"attention_share": expected, "marked_area": 1 / 64}
    measures |= {"attention_share_layer_0": in_window / 4, "attention_share_layer_1": in_all}
    assert noted.measures == pytest.approx(measures, rel=1e-3)
    both = AttentionShare(attention)(State.start(sample), NoModel()).measures
    assert expected < float(both["attention_share"]) < expected + 0.02  # type: ignore[arg-type]
    close_networks()
    write_ink_seeker(tmp_path / "planted", heads=1)
    last = replace(share, attention=replace(attention, layer=-1))(State.start(sample), NoModel())
    heads = {"attention_share_head_0": in_all, "attention_share_head_1": 1 / 64}
    heads |= {"attention_share": (in_all + 1 / 64) / 2, "marked_area": 1 / 64}
    assert last.measures == pytest.approx(heads, rel=1e-3)


def test_an_encoder_without_a_regular_grid_is_refused(built: Callable[[str], str]) -> None:
    far = VisionAttention(model=built("llava"), layer=5)
    with pytest.raises(WeightsError, match="2 layers"):
        far(picture(56, 56))
    with pytest.raises(WeightsError, match="no plain grid"):
        replace(far, model=built("florence2"))(picture(56, 56))
    with pytest.raises(ValueError, match="`apart` needs"):
        AttentionShare(lambda pixels: np.ones(pixels.shape[:2]), apart=True)


def test_marks_are_selected_by_label_with_or_without_their_number() -> None:
    marks = [Point(label, 1, 1) for label in ("star 1", "star 12", "red star 1", "A", "2")]
    for labels, kept in (((), 5), (("star",), 2), (("star 1", "A"), 2), (("2",), 1), (("red",), 0)):
        assert len(select_marks(marks, labels)) == kept


def test_shares_are_sums_over_the_pixels_under_the_marks() -> None:
    attention = np.zeros((10, 10))
    attention[2:4, 2:4] = 0.1
    attention[8, 8] = 0.6
    corner = np.zeros((10, 10), bool)
    corner[8:, 8:] = True
    box = Box("", 2, 2, 4, 4)
    for marks, radius, share, area in (
        ([box], 3, 0.4, 0.04),
        ([box, box], 3, 0.4, 0.04),
        ([Mask("", corner)], 3, 0.6, 0.04),
        ([Point("", 8, 8)], 1, 0.6, 0.05),
    ):
        covered = make_marks_mask(marks, attention.shape, radius)
        assert (attention[covered].sum(), covered.mean()) == pytest.approx((share, area))


def test_the_stage_records_the_share_and_an_overlay_draws_the_map(tmp_path: Path) -> None:
    attention = VisionAttention(model=str(tiny("llava", tmp_path / "llava")))
    sample = Sample("s", "?", (Picture(picture(60, 80)),), marks=(Box("", 0, 0, 40, 30),))
    draw = ScalarOverlay(attention, layout="blend")
    after = Pipeline({"share": AttentionShare(attention), "draw": draw})(State.start(sample))
    (note,) = [note for note in after.notes if note.startswith("attention on the marks of image 0")]
    assert ": 0." in note and "area 0.2500" in note
    assert not np.array_equal(after.views[0].picture.pixels, sample.images[0].pixels)
