#!/usr/bin/env bash
# Average precision of boxes on a sample of a benchmark's images.
#
# Guess: a random sample of 50 images has a wide spread, but on average COCO's average precision is
#   that of all images, as accuracy is; and a bootstrap of images gives its interval.
# What happens: AP is higher on fewer images. Precision is replaced by the best that comes at any
#   higher recall, and the maximum over few steps is biased more than that over many. One model's boxes on 4,000
#   images have an AP of 0.31; cut into parts of 50 images, the parts have 0.34 on average, parts of
#   25 images 0.35, and the strict figure, AP75, goes from 0.28 to 0.34. A bootstrap of 100 images,
#   which see fewer different images still, has the same bias a second time: its percentiles
#   contain the AP of all images in some 80 % of samples instead of 95 %. pycocotools and
#   faster-coco-eval agree.
# Why it matters: multimodal models are asked about some hundred images, and their AP is quoted
#   beside that of detectors on 5,000. Compare on the same images, and correct an interval for its
#   bias (twice the figure less the mean of the draws is its middle).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'pycocotools==2.0.11' \
  'faster-coco-eval==1.8.0' 'numpy==2.3.5'
cd "$folder"
venv/bin/python - <<'PYTHON'
import contextlib
import io
from importlib.metadata import version

import numpy as np
from faster_coco_eval import COCO as FasterCOCO
from faster_coco_eval import COCOeval_faster
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

KINDS, IMAGES = 6, 4000
rng = np.random.default_rng(1)


def draw_image():
    """Return the true boxes of an image and those found: (kind, box) and (kind, box, score)."""
    true, found, ease = [], [], rng.normal(0, 0.7)
    for _ in range(rng.poisson(3)):
        kind, (width, height) = int(rng.integers(KINDS)) + 1, rng.choice([40, 80, 160], 2)
        box = np.array([*rng.integers(0, 400, 2), width, height], float)
        true.append((kind, box.tolist()))
        if rng.random() < 1 / (1 + np.exp(-1 - ease)):
            off = rng.normal(0, 0.07 * np.exp(-ease / 2), 4) * [width, height, width, height]
            found.append((kind, np.maximum(box + off, 1).tolist(), float(rng.beta(4, 2))))
    for _ in range(rng.poisson(1.2 * np.exp(-ease / 2))):
        box = [*map(float, rng.integers(0, 400, 2)), 60.0, 60.0]
        found.append((int(rng.integers(KINDS)) + 1, box, float(rng.beta(2, 3))))
    return true, found


def evaluate(images, package="faster-coco-eval"):
    """Return AP and AP75 of images."""
    annotations, results = [], []
    for number, (true, found) in enumerate(images, 1):
        for kind, box in true:
            flags = {"id": len(annotations) + 1, "area": box[2] * box[3], "iscrowd": 0}
            annotations.append({"image_id": number, "category_id": kind, "bbox": box} | flags)
        results += [
            {"image_id": number, "category_id": kind, "bbox": box, "score": score}
            for kind, box, score in found
        ]
    truth = {
        "images": [{"id": n} for n in range(1, len(images) + 1)],
        "categories": [{"id": n, "name": str(n)} for n in range(1, KINDS + 1)],
        "annotations": annotations,
    }
    with contextlib.redirect_stdout(io.StringIO()):
        if package == "pycocotools":
            own = COCO()
            own.dataset = truth
            own.createIndex()
            result = COCOeval(own, own.loadRes(results), "bbox")
        else:
            quiet = {"print_function": lambda *_: None}
            own = FasterCOCO(truth, **quiet)
            result = COCOeval_faster(own, own.loadRes(results), "bbox", **quiet)
        result.evaluate()
        result.accumulate()
        result.summarize()
    return np.array([result.stats[0], result.stats[2]])


images = [draw_image() for _ in range(IMAGES)]
whole = evaluate(images)
assert np.allclose(whole, evaluate(images, "pycocotools"))
print(f"pycocotools {version('pycocotools')}, faster-coco-eval {version('faster-coco-eval')}")
print(f"all {IMAGES} images: AP {whole[0]:.3f}, AP75 {whole[1]:.3f}")
means = {}
for size in (400, 100, 50, 25):
    parts = [images[at : at + size] for at in range(0, IMAGES, size)]
    figures = np.array([evaluate(part) for part in parts])
    assert np.allclose(figures[0], evaluate(parts[0], "pycocotools"))
    means[size] = figures.mean(0)
    print(f"mean of {len(parts)} parts of {size}: AP {means[size][0]:.3f}, AP75 {means[size][1]:.3f}")
hits, corrected = 0, 0
for at in range(0, IMAGES, 100):
    part, draws = images[at : at + 100], []
    for _ in range(60):
        draws.append(evaluate([part[n] for n in rng.integers(0, 100, 100)])[0])
    low, high = np.quantile(draws, [0.025, 0.975])
    shift = 2 * (np.mean(draws) - evaluate(part)[0])
    hits += low <= whole[0] <= high
    corrected += low - shift <= whole[0] <= high - shift
print(f"intervals of 40 samples of 100 that contain the AP of all: {hits}; moved by the bias: {corrected}")
assert means[25][0] > means[50][0] > means[100][0] > means[400][0] > whole[0]
assert means[25][0] > whole[0] + 0.02 and means[25][1] > whole[1] + 0.04
assert hits <= 35 and corrected > hits
PYTHON
