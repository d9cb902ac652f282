"""Write VPBench's files, in the folder `Dataset`, as lines for `eval.tasks.Folder`."""

import json
from pathlib import Path

from PIL import Image

DEPTH = "Which point is closer to the camera?"
SAME = "Which point on the second image corresponds to REF on the first one?"


def depth(root, split):
    """Two points of one picture; the file of val is called dev."""
    name = {"val": "dev"}.get(split, split)
    for row in json.loads((root / f"perceptioneval_depth_{name}.json").read_text()):
        points = [(label, *row[f"point_{label}"]) for label in "AB"]
        marks = [{"label": label, "x": x, "y": y} for label, x, y in points]
        yield {
            "question": DEPTH,
            "image": f"images/{row['original_image']}",
            "marks": marks,
            "choices": ["A is closer", "B is closer"],
            "answer": row["human_answer_2"],
        }


def correspondence(root, split):
    """REF and four points of another picture; both at half of BLINK's size, as the authors draw on them."""
    (root / "half").mkdir(exist_ok=True)
    for number, row in enumerate(
        json.loads((root / "semantic_corr_raw_fixed.json").read_text())[split]
    ):
        _, first, rest = row["images"][0].split("-")  # NUMBER-FIRST-SECOND:CATEGORY_1
        second, kind = rest.split(":")
        points = (
            [row["src_kps"][row["gold_point"]]],
            [row["trg_kps"][k] for k in row["real_consider_points"]],
        )
        marks, images = [], []
        for image, name in enumerate((first, second)):
            photo = Image.open(root / "images" / kind.split("_")[0] / f"{name}.jpg")
            size = [side // 2 for side in row[f"blink_image{image + 1}_size"]]
            images.append(f"half/{split}_{number}_{image}.png")
            photo.resize(size, Image.Resampling.LANCZOS).save(root / images[-1])
            for label, (x, y) in zip((["REF"], "ABCD")[image], points[image], strict=True):
                x, y = x * (size[0] / photo.width), y * (size[1] / photo.height)
                marks.append({"label": label, "x": x, "y": y, "image": image})
        yield {
            "question": SAME,
            "images": images,
            "marks": marks,
            "choices": [f"Point {label}" for label in "ABCD"],
            "answer": row["real_answer"],
        }


# BLINK_depth_data/depth, SPair-71k_data/semantic_correspondence ...
for folder in Path("Dataset").glob("*/*/"):
    rows = depth if folder.name == "depth" else correspondence
    for split in ("val", "test"):
        lines = [{"id": f"{split}_{n}", **row} for n, row in enumerate(rows(folder, split))]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
