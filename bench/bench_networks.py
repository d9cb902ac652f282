"""Images per second by batch size, for networks of real sizes with random weights: looktwice's, and
the bare forward pass.

It runs on CUDA if available, otherwise on the CPU with fewer and smaller images, where batching
brings no gain. Looktwice's time covers everything from uint8 images to arrays. The bare time is
that of the network alone, on prepared inputs in the same batch. Medians of alternating turns in one
run.
"""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looktwice.extras.detection import GroundingDINO
from looktwice.extras.maps import DepthAnything
from looktwice.extras.matching import LoFTR
from looktwice.extras.networks import Network, close_networks
from looktwice.extras.segmentation import SAM
from looktwice.pipelines.picture import Pixels

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("kornia")

CUDA = torch.cuda.is_available()
BATCHES, TURNS, HIGH, WIDE = ((1, 2, 4, 8, 16, 32), 5, 480, 640) if CUDA else ((1, 2), 3, 240, 320)
LIMIT_SHARE, LIMIT_GAIN = 0.85, 3.0
BOX = np.array([[100.0, 100.0, 300.0, 300.0]])
Bare = Callable[[Network[Any, Any], list[Any]], Callable[[], object]]


def images(count: int) -> list[Pixels]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (HIGH, WIDE, 3), np.uint8) for _ in range(count)]


def loftr(folder: Path) -> tuple[Network[Any, Any], Callable[[int], list[Any]], Bare]:
    import kornia.feature as kornia

    torch.save(kornia.LoFTR(None).state_dict(), folder / "loftr.ckpt")

    def bare(network: Network[Any, Any], items: list[Any]) -> Callable[[], object]:
        place = network.get_place()
        gray = torch.rand(len(items), 1, HIGH, WIDE, device=place.device)
        return lambda: network.network()({"image0": gray, "image1": gray.flip(3)})

    return (
        LoFTR(str(folder / "loftr.ckpt")),
        lambda count: [(each, each[:, ::-1].copy()) for each in images(count)],
        bare,
    )


def prepare_call(network: Network[Any, Any], **given: Any) -> Callable[[], object]:
    """Return a call of a transformers network on inputs that its processor has prepared."""
    opened, place = network.network(), network.get_place()
    inputs = opened.make_inputs(place, **given)
    return lambda: opened.model(**inputs)


def depth_anything(folder: Path) -> tuple[Network[Any, Any], Callable[[int], list[Any]], Bare]:
    from transformers import (
        DepthAnythingConfig,
        DepthAnythingForDepthEstimation,
        Dinov2Config,
        DPTImageProcessorPil,
    )

    backbone = Dinov2Config(
        hidden_size=384,
        num_attention_heads=6,
        image_size=518,
        patch_size=14,
        reshape_hidden_states=False,
        out_features=["stage3", "stage6", "stage9", "stage12"],
        apply_layernorm=True,
    )
    config = DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=384, neck_hidden_sizes=[48, 96, 192, 384]
    )
    DepthAnythingForDepthEstimation(config).save_pretrained(folder)
    size = {"height": 518, "width": 518} if CUDA else {"height": 252, "width": 252}
    DPTImageProcessorPil(size=size, keep_aspect_ratio=True, ensure_multiple_of=14).save_pretrained(
        folder
    )

    def bare(network: Network[Any, Any], items: list[Any]) -> Callable[[], object]:
        return prepare_call(network, images=[item[0] for item in items])

    return DepthAnything(str(folder)), lambda count: [(each,) for each in images(count)], bare


def grounding_dino(folder: Path) -> tuple[Network[Any, Any], Callable[[int], list[Any]], Bare]:
    from transformers import (
        BertTokenizer,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoImageProcessorPil,
        GroundingDinoProcessor,
    )

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", "cat", "dog"]
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(words)})
    GroundingDinoForObjectDetection(GroundingDinoConfig()).save_pretrained(folder)
    sizes = (
        {"shortest_edge": 800, "longest_edge": 1333}
        if CUDA
        else {"shortest_edge": HIGH, "longest_edge": WIDE}
    )
    GroundingDinoProcessor(GroundingDinoImageProcessorPil(size=sizes), tokenizer).save_pretrained(
        folder
    )

    def bare(network: Network[Any, Any], items: list[Any]) -> Callable[[], object]:
        pictures, asked = [item[0] for item in items], [list(item[1]) for item in items]
        return prepare_call(network, images=pictures, text=asked, padding=True)

    return (
        GroundingDINO(str(folder)),
        lambda count: [(each, ("cat", "dog")) for each in images(count)],
        bare,
    )


def sam(folder: Path) -> tuple[Network[Any, Any], Callable[[int], list[Any]], Bare]:
    from transformers import Sam2Config, Sam2Model

    Sam2Model(Sam2Config()).save_pretrained(folder)

    def bare(network: Network[Any, Any], items: list[Any]) -> Callable[[], object]:
        opened = network.network()
        batch = torch.rand(len(items), 3, opened.side, opened.side, device=opened.place.device)
        boxes = torch.tensor(BOX, device=batch.device, dtype=batch.dtype).expand(len(items), 1, 4)
        return lambda: opened.model(pixel_values=batch, input_boxes=boxes, multimask_output=False)

    return SAM(str(folder)), lambda count: [(each, BOX, None) for each in images(count)], bare


def seconds(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    if CUDA:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure_rates(shape: Callable[[Path], Any], folder: Path) -> tuple[float, float]:
    """Print the rates for each batch size; return the best share of the bare forward pass, and the
    speed-up by batches."""
    torch.manual_seed(0)
    network, make, bare = shape(folder)
    print(f"\n{shape.__name__} on {network.get_place().device}, images or pairs a second:")
    rates, shares = [], []
    for size in BATCHES:
        items, sized = make(size), replace(network, batch=size)
        alone = bare(sized, items)
        times: list[tuple[float, float]] = []
        with torch.inference_mode():
            for _ in range(TURNS + 1):
                times.append((seconds(partial(sized.predict_many, items)), seconds(alone)))
        # the first turn is a warm-up
        ours, floor = (statistics.median(each) for each in zip(*times[1:], strict=True))
        rates.append(size / ours)
        shares.append(floor / ours)
        print(
            f"  batch {size:2}: {size / ours:7.2f} ours, {size / floor:7.2f} bare,"
            f" {floor / ours:.0%} of bare"
        )
    close_networks()
    gain = max(rates) / rates[0]
    print(
        f"  speed-up by batching: {gain:.2f}; best share of the bare forward {max(shares):.0%}",
        flush=True,
    )
    return max(shares), gain


@pytest.mark.parametrize("shape", [loftr, depth_anything, grounding_dino, sam])
def test_throughput_over_batch_size(shape: Callable[[Path], Any], tmp_path: Path) -> None:
    """Measure each network in its own process, because leftovers of an earlier one slow it on the
    CPU."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        share, gain = process.submit(measure_rates, shape, tmp_path).result()
    assert share > LIMIT_SHARE
    if CUDA and shape is depth_anything:
        assert gain > LIMIT_GAIN
