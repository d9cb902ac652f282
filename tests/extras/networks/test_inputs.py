"""Inputs of specialists: checked pixels, a string as one word, and several inputs."""

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image

from looktwice.extras.detection import DIRE, FaceCascade, FaceRecognition, GroundingDINO
from looktwice.extras.features import DIFT, DINOv2, EfficientNet, VisionAttention
from looktwice.extras.maps import DepthAnything
from looktwice.extras.matching import KeypointMatcher, LightGlue, LoFTR, XFeat
from looktwice.extras.segmentation import SAM, GroundedSAM, SegmentEverything
from looktwice.specialists.maps import SGBM, ColorRetinex, ConstantShading, DepthCue
from looktwice.specialists.maps.depth_cues import CueKind
from looktwice.specialists.matching import SIFT, RotationSearch
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.results import Boxes
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.segmentation import Felzenszwalb, Slic
from looktwice.specialists.sharing import look_once
from tests.tables import check_all

COLOR = np.random.default_rng(0).integers(0, 256, (64, 96, 3), np.uint8)
BOX = Boxes(np.array([[1.0, 2, 30, 40]]), np.ones(1), np.array(["cat"]))

WRONG: dict[str, tuple[Any, str]] = {
    "floats": (COLOR / 255, "uint8, 0..255, found float64"),
    "halves": (COLOR.astype(np.float32), r"\(255 \* image\)\.round"),
    "int": (COLOR.astype(np.int64), "found int64"),
    "grey": (COLOR[..., 0], r"HxWx3 RGB, found the shape \(64, 96\)"),
    "rgba": (np.dstack([COLOR, COLOR[..., :1]]), r"found the shape \(64, 96, 4\)"),
    "channels first": (COLOR.transpose(2, 0, 1), r"\(3, 64, 96\).* channels come last"),
    "a batch": (COLOR[None], r"\(1, 64, 96, 3\)"),
    "nothing": (COLOR[:0], r"found the shape \(0, 96, 3\)"),
    "a path": ("photo.png", "found a str; pass its pixels"),
    "PIL grey": (Image.fromarray(COLOR).convert("L"), r'mode L; pass image\.convert\("RGB"\)'),
    "PIL with alpha": (Image.fromarray(COLOR).convert("RGBA"), "mode RGBA"),
}
EVERY: dict[str, Callable[[Any], Any]] = {
    "DepthAnything": lambda image: DepthAnything()(image),
    "DINOv2": lambda image: DINOv2()(image),
    "DIFT": lambda image: DIFT()(image, "cat"),
    "EfficientNet": lambda image: EfficientNet()(image),
    "VisionAttention": lambda image: VisionAttention("x")(image),
    "GroundingDINO": lambda image: GroundingDINO()(image, ["cat"]),
    "DIRE": lambda image: DIRE("x.pth")(image),
    "SAM": lambda image: SAM()(image, BOX),
    "SAM.at": lambda image: SAM().at(image, [[1, 2]]),
    "SegmentEverything": lambda image: SegmentEverything()(image),
    "GroundedSAM": lambda image: GroundedSAM(GroundingDINO(), SAM(), ("cat",))(image),
    "KeypointMatcher": lambda image: KeypointMatcher()(COLOR, image),
    "LoFTR": lambda image: LoFTR("x.ckpt")(image, COLOR),
    "LightGlue": lambda image: LightGlue("x.pth")(COLOR, image),
    "XFeat": lambda image: XFeat()(COLOR, image),
    "SIFT": lambda image: SIFT()(COLOR, image),
    "RotationSearch": lambda image: RotationSearch(SIFT())(COLOR, image),
    "SGBM": lambda image: SGBM()(COLOR, image),
    "ColorRetinex": lambda image: ColorRetinex()(image),
    "ConstantShading": lambda image: ConstantShading()(image),
    "Slic": lambda image: Slic()(image),
    "Felzenszwalb": lambda image: Felzenszwalb()(image),
    "FaceCascade": lambda image: FaceCascade()(image),
    "FaceRecognition": lambda image: FaceRecognition()(image),
}
EVERY |= {kind: DepthCue(kind) for kind in get_args(CueKind)}


@pytest.mark.parametrize("kind", WRONG)
def test_invalid_pixels_are_refused_with_a_sentence(kind: str) -> None:
    image, said = WRONG[kind]
    with pytest.raises(ValueError, match=said) as raised:
        require_pixels(image)
    assert "\n" not in str(raised.value)


def test_every_specialist_checks_its_input() -> None:
    def check_gate(name: str) -> None:
        for kind in ("floats", "grey", "a path", "PIL grey"):
            image, said = WRONG[kind]
            with pytest.raises(ValueError, match=said):
                EVERY[name](image)

    check_all((name, partial(check_gate, name)) for name in EVERY)


def test_a_pil_image_is_its_pixels(built: Callable[[str], str]) -> None:
    depth = DepthAnything(built("depth_anything"), device="cpu")
    np.testing.assert_array_equal(depth(Image.fromarray(COLOR)).values, depth(COLOR).values)  # type: ignore[arg-type]
    matches = SIFT()(Image.fromarray(COLOR), COLOR)  # type: ignore[arg-type]
    np.testing.assert_array_equal(matches.xy0, SIFT()(COLOR, COLOR).xy0)


def test_a_single_string_is_one_word(built: Callable[[str], str]) -> None:
    detector = GroundingDINO(built("grounding_dino"), threshold=0, text_threshold=0, device="cpu")
    one, listed = detector(COLOR, "red box"), detector(COLOR, ["red box"])
    np.testing.assert_array_equal(one.xyxy, listed.xyxy)
    assert one.labels.tolist() == listed.labels.tolist()
    grounded = GroundedSAM(detector, SAM(built("sam"), device="cpu"), "red box")  # type: ignore[arg-type]
    assert grounded(COLOR).labels.tolist() == listed.labels.tolist()


def test_batched_calls_follow_the_rules_of_single_calls(built: Callable[[str], str]) -> None:
    flat = np.full((64, 96, 3), 9, np.uint8)
    depth = DepthAnything(built("depth_anything"), device="cpu")
    matcher = KeypointMatcher(built("efficient_loftr"), device="cpu")
    ran = list[int]()
    hook = matcher.network().model.register_forward_hook(lambda *_: ran.append(1))
    assert not any(map(len, matcher.many([(flat, flat), (COLOR, flat)]))) and not ran
    assert len(matcher.many([(flat, flat), (COLOR, COLOR)])[1]) and ran == [1]
    hook.remove()
    for wrong, error in ((flat, NoEvidence), (COLOR[:2], NoEvidence), (COLOR / 255, ValueError)):
        with pytest.raises(error):
            depth.many([COLOR, wrong])
    with pytest.raises(NoEvidence, match="needs words"):
        GroundingDINO(built("grounding_dino"), device="cpu").many([(COLOR, [" ."])])
    with pytest.raises(NoEvidence, match="too small"):
        LoFTR("x.ckpt").many([(COLOR, COLOR[:40])])


def test_without_a_store_neither_files_nor_pixels_are_hashed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("hash_weights", "make_result_key"):
        monkeypatch.setattr(f"looktwice.specialists.sharing.{name}", None)
    assert len(look_once(Slic(segments=1), COLOR)) >= 1
