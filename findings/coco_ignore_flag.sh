#!/usr/bin/env bash
# COCO's flag `ignore` of an annotated object.
#
# Guess: an annotation with "ignore": 1 need not be found, as the code of pycocotools suggests, which
#   reads the flag.
# What happens: the next line of that code overwrites it with `iscrowd`. The object counts as missed.
#   faster-coco-eval keeps this. An `iscrowd` object is ignored, but is matched by the share of the
#   found box inside it, so that any small box within it is excused. An object whose area is beyond
#   every range (over 1e10) is ignored with the ordinary IoU.
# Why it matters: data sets converted to COCO's form mark difficult or ambiguous objects with
#   `ignore`. Recall and AP of a model are then too low, without a warning.
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

from faster_coco_eval import COCO as FasterCOCO
from faster_coco_eval import COCOeval_faster
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def ap(package, second, found):
    """Return AP and recall of an image with two objects, the second with more fields."""
    common = {"image_id": 1, "category_id": 1, "iscrowd": 0}
    truth = {
        "images": [{"id": 1, "width": 200, "height": 200}],
        "categories": [{"id": 1, "name": "cup"}],
        "annotations": [
            common | {"id": 1, "bbox": [10, 10, 40, 40], "area": 1600},
            common | {"id": 2, "bbox": [100, 100, 40, 40], "area": 1600} | second,
        ],
    }
    results = [{"image_id": 1, "category_id": 1, "bbox": box, "score": 1.0} for box in found]
    with contextlib.redirect_stdout(io.StringIO()):
        if package == "pycocotools":
            own = COCO()
            own.dataset = truth
            own.createIndex()
            result = COCOeval(own, own.loadRes(results), "bbox")
        else:
            own = FasterCOCO(truth)
            result = COCOeval_faster(own, own.loadRes(results), "bbox")
        result.evaluate()
        result.accumulate()
        result.summarize()
    return round(float(result.stats[0]), 3), round(float(result.stats[8]), 3)


one, inside = [[10, 10, 40, 40]], [[110, 110, 10, 10], [10, 10, 40, 40]]
for package in ("pycocotools", "faster-coco-eval"):
    print(package, version(package), "(AP, recall)")
    for name, fields in (("no flag", {}), ("ignore", {"ignore": 1}), ("iscrowd", {"iscrowd": 1}),
                         ("huge area", {"area": 1e11})):
        print(f"  {name}: only the first found {ap(package, fields, one)},",
              f"and a small box in the second {ap(package, fields, inside)}")
    assert ap(package, {"ignore": 1}, one) == ap(package, {}, one) == (0.505, 0.5)
    assert ap(package, {"iscrowd": 1}, one) == ap(package, {"area": 1e11}, one) == (1.0, 1.0)
    assert ap(package, {"iscrowd": 1}, inside) == (1.0, 1.0)
    assert ap(package, {"area": 1e11}, inside)[0] < 0.6
PYTHON
