#!/usr/bin/env bash
# Average precision of boxes that a model wrote without confidences.
#
# Guess: if all boxes get the score 1.0, as evaluations of multimodal models do for boxes without a
#   confidence, COCO's average precision depends on the boxes alone.
# What happens: COCO ranks all boxes of a category by score, and leaves equal scores in the order of
#   the images. Precision along that ranking is what is averaged: if the images that a model gets
#   right come first, AP is higher. Renumbering two images halves AP50, from 0.505 to 0.252; on 100
#   images, half of them right, it lies anywhere between these, and between 0.25 and 0.33 in 30
#   random orders. pycocotools and faster-coco-eval agree.
# Why it matters: multimodal models rarely write confidences. Their AP is quoted beside detectors',
#   and compared between models whose files list the images in different orders. Report F1, or AP
#   with the images in a second order.
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
import random
from importlib.metadata import version

from faster_coco_eval import COCO as FasterCOCO
from faster_coco_eval import COCOeval_faster
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

RIGHT, WRONG = [10, 10, 40, 40], [100, 100, 40, 40]


def ap50(hits, package):
    """Return AP50 where image number i has one object, which was found if hits[i]."""
    ids = range(1, len(hits) + 1)
    truth = {
        "images": [{"id": i, "width": 200, "height": 200} for i in ids],
        "categories": [{"id": 1, "name": "cup"}],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1, "bbox": RIGHT, "area": 1600, "iscrowd": 0}
            for i in ids
        ],
    }
    found = [
        {"image_id": i, "category_id": 1, "bbox": RIGHT if hit else WRONG, "score": 1.0}
        for i, hit in zip(ids, hits)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        if package == "pycocotools":
            own = COCO()
            own.dataset = truth
            own.createIndex()
            result = COCOeval(own, own.loadRes(found), "bbox")
        else:
            own = FasterCOCO(truth)
            result = COCOeval_faster(own, own.loadRes(found), "bbox")
        result.evaluate()
        result.accumulate()
        result.summarize()
    return float(result.stats[1])


hundred = [number < 50 for number in range(100)]
for package in ("pycocotools", "faster-coco-eval"):
    print(package, version(package))
    first, last = ap50([True, False], package), ap50([False, True], package)
    print(f"  two images, one right: AP50 {first:.3f} if it comes first, {last:.3f} if last")
    assert abs(first - 2 * last) < 1e-9
    values = []
    for seed in range(30):
        mixed = hundred[:]
        random.Random(seed).shuffle(mixed)
        values.append(ap50(mixed, package))
    low, high = ap50(hundred[::-1], package), ap50(hundred, package)
    print(f"  100 images, 50 right: AP50 {min(values):.3f} to {max(values):.3f} in 30 random orders,")
    print(f"    {low:.3f} with the wrong ones first, {high:.3f} with the right ones first")
    assert max(values) - min(values) > 0.05 and high > 1.9 * low
PYTHON
