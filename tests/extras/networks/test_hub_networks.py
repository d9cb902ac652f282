"""Depth, open-vocabulary boxes, and generated-image detection: tiny networks on real code paths."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.extras.detection import DIRE, GroundingDINO
from looktwice.extras.detection.dire import crop_center
from looktwice.extras.detection.grounding_dino import find_most_likely_words, group_words
from looktwice.extras.features import DIFT
from looktwice.extras.maps import DepthAnything, DepthAnything3
from looktwice.extras.maps.depth_anything import compute_authors_size
from looktwice.extras.matching import KeypointMatcher
from looktwice.extras.networks import close_networks
from looktwice.extras.networks.network import Network
from looktwice.extras.networks.opening import Place
from looktwice.extras.networks.tensors import normalize, to_batch
from looktwice.extras.segmentation import SAM
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.weights import WeightsError
from looktwice.specialists.rules import NoEvidence
from tests.optional import optional
from tests.specialists.scenes import noise
from tests.tables import table
from tests.tiny import dire_network

torch = optional("torch")
transformers = optional("transformers")

SIZES = [(60, 90), (90, 60), (70, 70), (33, 120), (60, 90)]


IMAGES = [noise(size, seed) for seed, size in enumerate(SIZES)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["depth_anything", "depth_anything_metric", "glpn"])
def test_depth_of_a_batch_of_mixed_sizes_equals_single_images(
    name: str, built: Callable[[str], str]
) -> None:
    depth = DepthAnything(built(name), device="cpu")
    images = [*IMAGES[:3], IMAGES[4]]  # the next test has the sliver, which takes half of the time
    together = depth.predict_many([(image,) for image in images])
    for image, found in zip(images, together, strict=True):
        alone = depth(image)
        assert found.values.shape == image.shape[:2]
        assert found.larger_is_nearer is (name == "depth_anything")  # the others give metres
        assert np.ptp(found.values) > 0
        np.testing.assert_allclose(found.values, alone.values, atol=1e-4)
    assert not np.allclose(together[0].values, together[3].values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "corners"), [("depth_anything", True), ("depth_anything_1", False)]
)
def test_depth_matches_the_code_of_the_authors(
    name: str, corners: bool, built: Callable[[str], str]
) -> None:
    """`infer_image` of version 2 and `run.py` of version 1 over the same network."""
    network = transformers.AutoModelForDepthEstimation.from_pretrained(built(name)).eval()
    sizes = {(784, 518): IMAGES[0], (1890, 518): IMAGES[3], (518, 602): noise((700, 600))}
    for size, image in sizes.items():
        seen = cv2.resize(image / 255.0, size, interpolation=cv2.INTER_CUBIC)
        seen = ((seen - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(2, 0, 1)
        pixels = torch.tensor(seen[None], dtype=torch.float32)
        expected = run_enlarged(network, image, "bilinear", corners, pixel_values=pixels)
        found = DepthAnything(built(name), device="cpu")(image).values
        np.testing.assert_allclose(found, expected, atol=1e-6)


def run_enlarged(network: Any, image: Pixels, mode: str, corners: bool, **inputs: Any) -> Any:
    """Return the depth of the network alone at the size of the image."""
    with torch.no_grad():
        bare = network(**inputs).predicted_depth[:, None]
    resize = torch.nn.functional.interpolate
    return resize(bare, image.shape[:2], mode=mode, align_corners=corners)[0, 0].numpy()


def test_depth_from_the_hub_matches_transformers(built: Callable[[str], str]) -> None:
    folder, image = built("depth_anything"), IMAGES[0]
    network = transformers.AutoModelForDepthEstimation.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    inputs = processor(images=image, return_tensors="pt")
    expected = run_enlarged(network, image, "bicubic", False, **inputs)
    found = DepthAnything(folder, device="cpu", resize="hub")(image).values
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_size_of_the_authors_reaches_518_on_both_sides() -> None:
    sizes = {(518, 518): (518, 518), (640, 480): (686, 518), (480, 640): (518, 686)}
    sizes |= {(2000, 1500): (686, 518)}
    assert {size: compute_authors_size(*size, 14) for size in sizes} == sizes


def test_an_unknown_depth_direction_must_be_given(built: Callable[[str], str]) -> None:
    with pytest.raises(WeightsError, match="set larger_is_nearer: true"):
        DepthAnything(built("dpt"), device="cpu")(IMAGES[0])
    for nearer in (True, False):
        depth = DepthAnything(built("dpt"), device="cpu", larger_is_nearer=nearer)
        assert depth(IMAGES[0]).larger_is_nearer is nearer
    for name, said in {
        "depth_anything_metric": True,
        "glpn": True,
        "depth_anything": False,
    }.items():
        with pytest.raises(WeightsError, match=f"larger_is_nearer: {str(said).lower()} "):
            DepthAnything(built(name), device="cpu", larger_is_nearer=said)(IMAGES[0])
        depth = DepthAnything(built(name), device="cpu", larger_is_nearer=not said)
        assert depth(IMAGES[0]).larger_is_nearer is not said


def test_specks_slivers_and_uniform_images_give_no_evidence(built: Callable[[str], str]) -> None:
    depth = DepthAnything(built("depth_anything"))
    for high, wide in [(1, 1), (3, 50), (1, 300), (300, 3), (9, 1000)]:
        with pytest.raises(NoEvidence, match=f"{wide} x {high} pixels"):
            depth(noise((high, wide)))
        with pytest.raises(NoEvidence, match="too small"):
            GroundingDINO(built("grounding_dino"))(noise((high, wide)), ["cat"])
    assert depth(noise((5, 7))).values.shape == (5, 7)
    # its processor rounds sides down to 32s
    with pytest.raises(NoEvidence, match="32 x 32"):
        DepthAnything(built("glpn"))(noise((31, 60)))
    with pytest.raises(NoEvidence, match="single colour"):
        depth(np.full((60, 80, 3), 90, np.uint8))


@pytest.mark.parametrize("name", ["grounding_dino", "mm_grounding_dino", "owlv2"])
def test_boxes_of_a_batch_of_mixed_sizes_and_words_equal_single_calls(
    name: str, built: Callable[[str], str]
) -> None:
    detector = GroundingDINO(built(name), threshold=0, text_threshold=0, device="cpu")
    words = [("cat",), ("red box", "dog"), ("mug",), ("the cat", "dog", "mug"), ("dog",)]
    together = detector.predict_many(list(zip(IMAGES, words, strict=True)))
    assert sum(map(len, together)) > 0
    for image, asked, boxes in zip(IMAGES, words, together, strict=True):
        alone = detector(image, asked)
        np.testing.assert_allclose(boxes.xyxy, alone.xyxy, atol=0.05)
        np.testing.assert_allclose(boxes.scores, alone.scores, atol=1e-4)
        assert boxes.labels.tolist() == alone.labels.tolist()
        height, width = image.shape[:2]
        assert (boxes.xyxy >= 0).all() and (boxes.xyxy <= [width, height, width, height]).all()
        assert (np.diff(boxes.scores) <= 0).all()
        assert set(boxes.labels) <= set(asked) or name != "owlv2"


@pytest.mark.parametrize("name", ["grounding_dino", "mm_grounding_dino", "owlv2"])
def test_a_box_has_the_most_likely_phrase_in_any_order(
    name: str, built: Callable[[str], str]
) -> None:
    detector = GroundingDINO(built(name), threshold=0, text_threshold=0, device="cpu")
    words = ["the cat", "red box", "mug"]
    found = [detector(IMAGES[0], words[n:] + words[:n]) for n in range(3)]
    assert len(set(found[0].labels)) > 1
    for boxes in found[1:]:
        np.testing.assert_allclose(boxes.xyxy, found[0].xyxy, atol=0.05)
        assert boxes.labels.tolist() == found[0].labels.tolist()


def test_the_most_likely_phrase_contains_the_highest_token() -> None:
    class Words:
        cls_token_id, sep_token_id, pad_token_id = 0, 9, 0

        def convert_tokens_to_ids(self, token: str) -> int:
            return {".": 1}[token]

    # [CLS] red cat . red dog . st . bernard . [SEP]
    ids = torch.tensor([0, 5, 6, 1, 5, 7, 1, 4, 1, 8, 1, 9])
    rows = torch.full((5, 16), 0.1)
    # cat, dog, the red of the dog, bernard, and the last full stop alone
    rows[range(5), [2, 5, 4, 9, 10]] = 0.8
    rows[0, 4:6] = 0.7  # a red dog fits as well
    rows[4, 1] = 0.5
    rows = rows.logit()
    asked = ["red cat", "red dog", "st. bernard"]
    labels = find_most_likely_words(rows, ids.tolist(), asked, Words())
    assert labels == ["red cat", "red dog", "red dog", "st. bernard", "red cat"]
    assert not find_most_likely_words(rows[:0], ids.tolist(), asked, Words())


def labels_of(found: list[str], words: list[str]) -> list[str]:
    """Return the labels of a package's detections if these words were requested."""
    boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0]] * len(found))
    detection = {"scores": torch.ones(len(found)), "boxes": boxes, "text_labels": found}
    return list(GroundingDINO()._make_boxes(detection, IMAGES[0], words).labels)


def test_labels_of_a_package_are_the_requested_words() -> None:
    words = ["café", "t-shirt", "shirt", "st. bernard"]
    spelt = ["cafe", "t - shirt", "shirt", "bernard", "sock"]
    assert labels_of(spelt, words) == [*words, "sock"]
    for pair in (
        *(("dog", "cat. dog"), ("cat. dog", "dog"), ("3,14", "3.14"), ("t-shirt", "t shirt")),
        *(("café", "cafe"), ("🐱", "🐶"), ("¿", ".cat")),
    ):
        assert labels_of([*pair], [*pair]) == [*pair]


PHRASED = ["grounding_dino", "mm_grounding_dino"]


@pytest.mark.parametrize("name", [*PHRASED, "owlv2"])
def test_a_word_that_is_too_long_is_refused(name: str, built: Callable[[str], str]) -> None:
    detector = GroundingDINO(built(name), device="cpu")
    with pytest.raises(NoEvidence, match=r"30. tokens"):
        detector(IMAGES[0], ["dog", "cat " * 300])


def test_a_detector_needs_a_word_that_has_tokens(built: Callable[[str], str]) -> None:
    detector = GroundingDINO(built("grounding_dino"), device="cpu")
    for words in (["\u200b"], ["\u00ad"], ["dog", "\u00ad"]):
        with pytest.raises(NoEvidence, match="no token"):
            detector(IMAGES[0], words)
    for none in (None, [], [" . "]):
        with pytest.raises(NoEvidence, match="needs words"):
            detector(IMAGES[0], none)


@pytest.mark.parametrize("name", [*PHRASED, "owlv2"])
def test_words_can_contain_full_stops(name: str, built: Callable[[str], str]) -> None:
    detector = GroundingDINO(built(name), threshold=0, text_threshold=0, device="cpu")
    asked = ["st. bernard"], ["cat", "st. bernard", "dog"], ["7.5 mm screw"], ["who? me"]
    for words in (*asked, ["u.s. flag", "a dog"], ["a cat. a dog."]):
        boxes = detector(IMAGES[0], words)
        assert len(boxes) and set(boxes.labels) <= {word.rstrip(".") for word in words}


@pytest.mark.parametrize("name", PHRASED)
def test_words_that_do_not_fit_are_searched_in_several_passes(
    name: str, built: Callable[[str], str]
) -> None:
    detector = GroundingDINO(built(name), threshold=0, text_threshold=0, most=1000, device="cpu")
    words = tuple(f"{color} {thing}" for color in ("red", "cat", "dog") for thing in "abcdefghijkl")
    groups = group_words(detector.network(), words)
    assert len(groups) > 1 and sum(groups, ()) == words
    boxes = detector(IMAGES[0], words)
    alone = [detector(IMAGES[0], group) for group in groups]
    scores = np.concatenate([each.scores for each in alone])
    np.testing.assert_allclose(boxes.scores, np.sort(scores)[::-1], atol=1e-5)
    assert set(boxes.labels) == set().union(*(each.labels for each in alone))
    assert len(replace(detector, most=3)(IMAGES[0], words)) == 3


def test_nan_scores_are_not_treated_as_no_detection(
    built: Callable[[str], str], tmp_path: Path
) -> None:
    more = {"class_head.logit_shift.bias": torch.full((1,), torch.nan)}
    odd = copy_changed(built("owlv2"), tmp_path / "odd", more=more)
    with pytest.raises(ValueError, match="returns NaN scores in float32"):
        GroundingDINO(odd, device="cpu")(IMAGES[0], ["cat"])


def test_dire_is_the_resnet_of_transformers_with_renamed_weights(
    built: Callable[[str], str],
) -> None:
    """Equal weights give equal probabilities in any batch."""
    images = [noise((300, 260), 7), noise((256, 400), 8) // 4, noise((40, 50), 9) // 2 + 120]
    dire = DIRE(built("dire"), device="cpu")
    together = [each.value for each in dire.predict_many([(image,) for image in images])]
    assert together == pytest.approx([dire(image) for image in images], abs=1e-5)
    network = dire_network()
    processor = transformers.ConvNextImageProcessorPil(
        size={"shortest_edge": 224},
        crop_pct=224 / 256,
        resample=2,
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    )
    for image, found in zip(images, together, strict=True):
        with torch.no_grad():
            logit = network(**processor(images=image, return_tensors="pt")).logits.item()
            seen = to_batch([crop_center(image)], Place("cpu", "float32"))
            exact = network(normalize(seen / 255)).logits.sigmoid().item()
        assert found == pytest.approx(exact, abs=1e-5)
        # its crop may be off by a pixel
        assert found == pytest.approx(1 / (1 + np.exp(-logit)), abs=0.03)
    assert np.diff(np.sort(together)).min() > 0.015


@pytest.mark.parametrize("turned", [False, True])
def test_dire_crops_the_centre_and_keeps_proportions(turned: bool) -> None:
    """The longer side of 195 x 130 pixels becomes 384, of which 80 are cropped at either end."""
    ramp = np.repeat(np.arange(195, dtype=np.uint8)[:, None, None], 130, 1).repeat(3, 2)
    seen = crop_center(ramp.transpose(1, 0, 2) if turned else ramp)[..., 0]
    along = seen[112] if turned else seen[:, 112]
    ends = (np.array([80, 303]) + 0.5) * 195 / 384 - 0.5
    np.testing.assert_allclose(along[[0, -1]], ends, atol=0.6)


def test_dire_refuses_pictures_without_traces_and_other_files(
    built: Callable[[str], str], tmp_path: Path
) -> None:
    for image, fact in ((noise((31, 90)), "90 x 31"), (noise((90, 90)) * 0, "single colour")):
        with pytest.raises(NoEvidence, match=fact):
            DIRE(built("dire"), device="cpu")(image)
    whole = torch.load(built("dire"))["model"]
    facts = {
        "layer3.2.conv2.weight": r"layer3\.2\.conv2\.weight",
        "bn1.running_var": "lacks the tensor",
        "layer3.5.": r"\(3, 4, 5, 3\) blocks",
        "": "a ResNet with one output",
    }
    for drop, fact in facts.items():
        few = {name: tensor for name, tensor in whole.items() if drop and drop not in name}
        torch.save({"model": few or {"fc.weight": torch.zeros(1000, 8)}}, tmp_path / "few.pth")
        with pytest.raises(WeightsError, match=fact):
            DIRE(str(tmp_path / "few.pth"), device="cpu")(IMAGES[0])
    with pytest.raises(WeightsError, match=r"nowhere\.pth"):
        DIRE(str(tmp_path / "nowhere.pth"), device="cpu")(IMAGES[2])


TOGETHER = """
import sys, threading
from looktwice.extras.networks.hub import load_from_hub
jobs, said = list(zip(sys.argv[1::2], sys.argv[2::2])) * 4, []
def job(kind, folder):
    try:
        load_from_hub(kind, folder, None).to("cpu")
    except Exception as exc:
        said.append(repr(exc))
threads = [threading.Thread(target=job, args=each) for each in jobs]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit("; ".join(said) or 0)
"""


def copy_changed(
    folder: str, to: Path, less: str = "nothing", more: dict[str, Any] | None = None
) -> str:
    """Copy the folder of a network with some tensors removed and others added."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, to)
    whole = load_file(to / "model.safetensors")
    kept = {name: tensor for name, tensor in whole.items() if less not in name} | (more or {})
    save_file(kept, to / "model.safetensors")
    return str(to)


def ask(name: str, folder: str) -> Any:
    """Return the result of the specialist of a network for the first image."""
    if name in ("grounding_dino", "owlv2"):
        return GroundingDINO(folder, device="cpu")(IMAGES[0], ["cat"])
    if name in ("efficient_loftr", "super_glue"):
        return KeypointMatcher(folder, device="cpu")(IMAGES[0], IMAGES[4])
    return DepthAnything(folder, device="cpu")(IMAGES[0])


def test_weights_of_another_network_are_refused_and_not_initialised_at_random(
    built: Callable[[str], str], tmp_path: Path
) -> None:
    shutil.copytree(built("depth_anything"), tmp_path / "other")
    shutil.copy(Path(built("glpn")) / "model.safetensors", tmp_path / "other")
    with pytest.raises(WeightsError, match=r"other: .*\d+ of the \d+ tensors of DepthAnything"):
        ask("depth_anything", str(tmp_path / "other"))
    with pytest.raises(WeightsError, match="grounding_dino"):
        ask("depth_anything", built("grounding_dino"))


@table
def test_a_file_with_missing_or_additional_tensors_is_refused(
    name: str, less: str, more: str, built: Callable[[str], str], tmp_path: Path
) -> None:
    added = {more: torch.zeros(2)} if more else {}
    other = copy_changed(built(name), tmp_path / "other", less or "nothing", added)
    fact = rf"lack \d+ of the \d+ .*{re.escape(less)}" if less else rf"1 tensors .*\({more}\)"
    with pytest.raises(WeightsError, match=f"other: .*{fact}"):
        ask(name, other)


@pytest.mark.slow
def test_a_tensor_without_influence_on_results_is_optional(
    built: Callable[[str], str], tmp_path: Path
) -> None:
    whole = built("depth_anything")
    for n, (less, more) in enumerate(
        [
            ("mask_token", ""),
            ("nothing", "backbone.embeddings.position_ids"),
            ("nothing", "backbone.pooler.dense.weight"),
        ]
    ):
        added = {more: torch.zeros(2)} if more else {}
        other = copy_changed(whole, tmp_path / str(n), less, added)
        found = ask("depth_anything", other).values
        np.testing.assert_array_equal(found, ask("depth_anything", whole).values)


@pytest.mark.slow
def test_networks_first_used_at_the_same_time_all_open(built: Callable[[str], str]) -> None:
    kinds = {
        "AutoModelForDepthEstimation": ("depth_anything", "glpn"),
        "AutoModelForZeroShotObjectDetection": ("grounding_dino", "owlv2"),
    }
    told = [text for kind, names in kinds.items() for name in names for text in (kind, built(name))]
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER, *told], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.nightly
# by torch itself
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
def test_a_compiled_network_gives_the_same(built: Callable[[str], str]) -> None:
    plain, compiled = (
        DepthAnything(built("glpn"), device="cpu", compile=each) for each in (False, True)
    )
    np.testing.assert_allclose(plain(IMAGES[0]).values, compiled(IMAGES[0]).values, rtol=1e-4)


def test_a_compiled_network_is_a_separate_one_in_memory() -> None:
    plain, compiled = DepthAnything("x"), DepthAnything("x", compile=True)
    assert plain.make_network_key() != compiled.make_network_key()
    assert plain._serialize_settings() == compiled._serialize_settings()


def test_closing_frees_memory_and_the_next_call_opens_again(built: Callable[[str], str]) -> None:
    depth: Network[Any, Any] = DepthAnything(built("depth_anything"), device="cpu")
    first = depth.predict((IMAGES[0],)).values
    close_networks()
    np.testing.assert_array_equal(depth.predict((IMAGES[0],)).values, first)


def test_without_torch_the_documented_extra_and_the_folder_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.chdir(tmp_path)
    install = "^torch is not installed; type: pip install -e '\\S*"
    for extra, look in (
        (r".*\[hf\]'.*'models/small'", lambda: DepthAnything("models/small")(IMAGES[0])),
        (r".*\[diffusion\]'$", lambda: DIFT("models/small")(IMAGES[0])),
        (r".*\[hf\]'$", DepthAnything3("models/small").get_place),
        (r".*\[hf\]'$", SAM("models/small").get_place),
    ):
        with pytest.raises(WeightsError, match=install + extra):
            look()
    Path("models/small").mkdir(parents=True)
    with pytest.raises(WeightsError, match=install + r"\[hf\]'$"):
        DepthAnything("models/small")(IMAGES[0])
