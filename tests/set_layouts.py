"""Small files in the formats of published sets, written as their sources describe them."""

import base64
import csv
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

SIZE = 64, 48  # width and height


def make_image(number: int, ending: str = ".png", size: tuple[int, int] = SIZE) -> bytes:
    """Return a plain image whose colour encodes its number."""
    buffer = io.BytesIO()
    color = (40 * number % 256, 90, 200 - 30 * number % 200)
    Image.new("RGB", size, color).save(buffer, {".png": "PNG", ".jpg": "JPEG"}[ending])
    return buffer.getvalue()


def make_mask(low: int = 0, high: int = 255) -> bytes:
    """Return a mask of columns 10 to 39 and rows 8 to 29, with these two values."""
    pixels = np.full(SIZE[::-1], low, np.uint8)
    pixels[8:30, 10:40] = high
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def write(path: Path, data: bytes | str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON lines."""
    write(path, "".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([*rows]), path)


def write_zip(path: Path, files: Mapping[str, bytes | str]) -> None:
    """Write a zip with these entries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)


def baby_vision_rows() -> list[dict[str, Any]]:
    """Two tasks with choices, whose keys are A and B, and two with the texts (4,7) and 3."""
    kinds = ("Fine-grained Discrimination", "Visual Tracking")
    rows: list[dict[str, Any]] = []
    for number, key in enumerate((0, 1)):
        asked = {"taskId": 10 + number, "type": kinds[0], "subtype": "Find the same"}
        asked |= {"ansType": "choice", "question": "Which?", "options": ["a", "b", "c"]}
        rows.append(asked | {"choiceAns": key, "blankAns": None, "coT": "", "image": ""})
    for number, text in enumerate(("(4,7)", "3"), 2):
        asked = {"taskId": 10 + number, "type": kinds[1], "subtype": "Maze", "ansType": "blank"}
        asked |= {"question": "Which row and column?", "options": [], "choiceAns": None}
        rows.append(asked | {"blankAns": text, "coT": "", "image": ""})
    return rows


def baby_vision(root: Path) -> Path:
    """Write the authors' file next to its images."""
    rows = baby_vision_rows()
    for row in rows:
        row["image"] = f"images/{row['taskId']}.jpg"
        write(root / row["image"], make_image(row["taskId"], ".jpg"))
    write_lines(root / "meta_data.jsonl", rows)
    return root / "meta_data.jsonl"


def baby_vision_hub(root: Path) -> Path:
    """Write the hub's parquet."""
    rows = baby_vision_rows()
    for row in rows:
        row["image"] = {"bytes": make_image(row["taskId"]), "path": None}
    write_parquet(root / "data" / "train-00000-of-00001.parquet", rows)
    return root / "data"


def perception_bench(root: Path) -> Path:
    """Write two questions, with one picture and with two in the text."""
    urls = [f"data:image/png;base64,{base64.b64encode(make_image(n)).decode()}" for n in range(3)]
    rows = [
        {"index": 0, "problem": "<|image_1|>How many fish are there?", "image": urls[:1]},
        {"index": 1, "problem": "<|image_1|> or <|image_2|>: which is darker?", "image": urls[1:]},
    ]
    for row, key, kind in zip(
        rows, ("7", "the second"), ("visual_counting_error", "ocr_error"), strict=True
    ):
        row |= {
            "answer": key,
            "error_category": kind,
            "hint": "",
            "source_bmk": "own",
            "source_idx": 0,
        }
    rows[1]["hint"] = "The images are 64 by 48 pixels."
    write_lines(root / "PerceptionBench.jsonl", rows)
    return root


def da2k_files() -> dict[str, bytes | str]:
    """Return four pairs on three images of two scenes; the closer point is always point1."""
    listed = {
        "images/indoor/a.jpg": [([8, 10], [40, 60]), ([20, 5], [1, 1])],
        "images/indoor/b.jpg": [([30, 3], [2, 50])],
        "images/aerial/c.jpg": [([47, 63], [0, 0])],
    }
    pairs = {
        name: [{"point1": one, "point2": two, "closer_point": "point1"} for one, two in each]
        for name, each in listed.items()
    }
    images = {name: make_image(number, ".jpg") for number, name in enumerate(listed)}
    return {"annotations.json": json.dumps(pairs), **images}


def da2k(root: Path) -> Path:
    """Write the hub's zip, whose files are in a folder."""
    files = {f"DA-2K/{name}": data for name, data in da2k_files().items()}
    write_zip(root / "DA-2K.zip", files)
    return root / "DA-2K.zip"


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def make_example(features: Mapping[str, list[bytes] | list[int]], packed: bool = True) -> bytes:
    """Return a `tf.train.Example`: bytes are a BytesList, whole numbers an Int64List."""
    entries = b""
    for name, values in features.items():
        numbers = [value for value in values if isinstance(value, int)]
        if numbers and packed:
            listed = _message(1, b"".join(map(_varint, numbers)))
        elif numbers:
            listed = b"".join(_varint(1 << 3) + _varint(number) for number in numbers)
        else:
            listed = b"".join(_message(1, value) for value in values if isinstance(value, bytes))
        feature = _message(3 if numbers else 1, listed)
        entries += _message(1, _message(1, name.encode()) + _message(2, feature))
    return _message(1, entries)


def frame_record(record: bytes) -> bytes:
    """Return a record of a TFRecord file; its checksums are 0."""
    return struct.pack("<QI", len(record), 0) + record + struct.pack("<I", 0)


ERQA_CHOICES = "Choices: A. Up. B. Down. Please answer directly with only the letter."


def erqa_records() -> Iterator[bytes]:
    """Yield three questions with the keys A, B and A, and one, two and two images."""
    first, second = "Where does the arm go? ", "Before: "
    asked = [
        (first + ERQA_CHOICES, b"A", 1, [0], "Trajectory Reasoning"),
        (
            second + "After: " + first + ERQA_CHOICES,
            b"B",
            2,
            [len(second), len(second) + 7],
            "Other",
        ),
        (first + ERQA_CHOICES, b"A", 2, [], "Other"),
    ]
    for number, (text, key, count, places, kind) in enumerate(asked):
        features: dict[str, Any] = {
            "question": [text.encode()],
            "answer": [key],
            "question_type": [kind.encode()],
            "image/encoded": [make_image(10 * number + n, ".jpg") for n in range(count)],
        }
        features |= {"visual_indices": places} if places else {}
        yield make_example(features, packed=number != 0)


def erqa(root: Path) -> Path:
    """Write the authors' TFRecord file."""
    write(root / "erqa.tfrecord", b"".join(map(frame_record, erqa_records())))
    return root / "erqa.tfrecord"


def ref_spatial(root: Path) -> Path:
    """Write the hub's parquet files of three tasks, with two questions each."""
    for name in ("location", "placement", "unseen"):
        rows = [
            {
                "id": number,
                "image": {"bytes": make_image(number), "path": None},
                "mask": {"bytes": make_mask(), "path": None},
                "object": "the cup",
                "prompt": "Point at the cup left of the box.",
                "suffix": "Answer as [(x, y)] in shares.",
                "step": number + 1,
            }
            for number in range(2)
        ]
        write_parquet(root / "data" / f"{name}-00000-of-00001.parquet", rows)
    return root


def ref_spatial_raw(root: Path) -> Path:
    """Write a task's folder, which the authors' script reads."""
    rows = []
    for number in range(2):
        row: dict[str, Any] = {
            "id": number,
            "object": "the cup",
            "prompt": "Point at the cup.",
            "suffix": "As (x, y).",
        }
        row |= {"rgb_path": f"image/{number}.png", "mask_path": f"mask/{number}.png"}
        rows.append({**row, "category": "location", "step": 2})
        write(root / row["rgb_path"], make_image(number))
        write(root / row["mask_path"], make_mask(0, 1))
    write(root / "question.json", json.dumps(rows))
    return root


def point_bench(root: Path) -> Path:
    """Write four requests, of which one has no mask, with the hub's zips."""
    asked = [("spatial", "b\u00e9.jpg", 0), ("counting", "c.jpg", 2), ("steerable", "d.jpg", 0)]
    data, images, masks = [], {}, {}
    for number, (kind, name, count) in enumerate(asked):
        item = {"image_filename": name, "mask_filename": f"{number}.png", "category": kind}
        item |= {"user_input": "Point at the cup."} | ({"count": str(count)} if count else {})
        data.append(item)
        images[f"selected_images/{kind}/{name}"] = make_image(number, ".jpg")
        masks[f"selected_masks/{number}.png"] = make_mask()
    data.append({"image_filename": "e.jpg", "category": "spatial", "user_input": "Point."})
    write(root / "data.json", json.dumps(data))
    write_zip(root / "selected_images.zip", images)
    write_zip(root / "selected_masks.zip", masks)
    write(root / "pixmo_metadata.csv", 'image_filename,points\nd.jpg,"[{""x"": 50, ""y"": 25}]"\n')
    return root


def vis_factor(root: Path) -> Path:
    """Write an item of CF1 with two questions (T, F), two of I3 (7), one of CS1 with two words."""
    image = base64.b64encode(make_image(1)).decode()
    shown = "<IMAGE_0> and <IMAGE_1><br><ADDITIONAL_0>? Output: Respond in JSON."
    rows = [
        (0, shown, "T", "CF1", 0, "left;right", f"['{image}', '{image}']"),
        (1, shown, "F", "CF1", 0, "left;right", f"['{image}', '{image}']"),
        (2, "Which? <IMAGE_0>", "7", "I3", 0, "", image),
        (3, "What? <IMAGE_0>", "cat,kitten", "CS1", 5, "", image),
        (4, "Which? <IMAGE_0>", "7", "I3", 1, "", image),
    ]
    names = ("index", "question", "answer", "category_id", "eval_index", "additional", "image")
    path = root / "VisFactor.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([names, *rows])
    return path


def omni_spatial(root: Path) -> Path:
    """Write three questions in a zip, whose ids repeat between two task types."""
    kinds = (("Dynamic_Reasoning", "Manipulation"), ("Complex_Logic", "Geometric_Reasoning"))
    asked = [("0_0", *kinds[0], 0), ("0_1", *kinds[0], 1), ("0_0", *kinds[1], 2)]
    data, files = [], dict[str, bytes | str]()
    for name, kind, part, key in asked:
        item = {"id": name, "question": "Which?", "options": ["a", "b", "c", "d"], "answer": key}
        data.append({**item, "task_type": kind, "sub_task_type": part})
        files[f"OmniSpatial-test/{kind}/0.png"] = make_image(len(kind))
    files["OmniSpatial-test/data.json"] = json.dumps(data)
    write_zip(root / "OmniSpatial-test.zip", files)
    return root / "OmniSpatial-test.zip"


SPATIAL_DISE_ROWS = (
    ("question", "options", "answer", "category", "image", "difficulty", "source", "dise_category"),
    ("Which one?", '"A, B, C, D"', "A", "3D Rotation", "m/0", "easy", "own", "Intrinsic-Dynamic"),
    (
        '"Which, if any, fits?"',
        '"A, B, C"',
        "b ",
        "2D Folding",
        "m/1",
        "hard",
        "own",
        "Extrinsic-Static",
    ),
)
PARTS = ("question_image_path", "option_a_image_path", "option_b_image_path")


def spatial_dise(root: Path) -> Path:
    """Write two questions in a CSV with spaces after its commas, and their images in two tars."""
    lines = [", ".join((*SPATIAL_DISE_ROWS[0], *PARTS))]
    for number, row in enumerate(SPATIAL_DISE_ROWS[1:]):
        cells = [f"images/{cell}.png" if cell.startswith("m/") else cell for cell in row]
        parts = [f"images/s/{part}{number}.png" for part in ("qab", "qa")[number]]
        lines.append(", ".join([*cells, *parts, "", ""][: len(row) + len(PARTS)]))
    write(root / "DISE-bench" / "DISE-benchmark.csv", "\n".join([*lines, ""]))
    names = (("m/0.png", "s/q0.png", "s/a0.png", "s/b0.png"), ("m/1.png", "s/q1.png", "s/a1.png"))
    (root / "image").mkdir()
    for number, group in enumerate(names):
        with tarfile.open(root / "image" / f"shard-{number}.tar", "w") as packed:
            for place, name in enumerate(group):
                data = make_image(10 * number + place)
                member = tarfile.TarInfo(name)
                member.size = len(data)
                packed.addfile(member, io.BytesIO(data))
    return root


def vis_res(root: Path) -> Path:
    """Write two puzzles of a part, with the keys A and B."""
    rows = [
        {
            "id": f"edges_{number}",
            "images": [{"bytes": make_image(number), "path": None}],
            "guided_question": "Which patch continues the edges? Answer with A, B, C or D.",
            "generic_question": "Which patch fits? Answer with A, B, C or D.",
            "answer": key,
        }
        for number, key in enumerate("AB")
    ]
    write_parquet(root / "test-00000-of-00001.parquet", rows)
    return root


def vlm_bias(root: Path) -> Path:
    """Write two questions of the split main, with the keys 5 and Yes."""
    rows = []
    for number, (key, bias) in enumerate((("5", "4"), ("Yes", "No"))):
        row: dict[str, Any] = {"image": {"bytes": make_image(number), "path": None}}
        row |= {"ID": f"q{number}", "topic": "Animals", "sub_topic": "dog", "prompt": "How many?"}
        rows.append({**row, "ground_truth": key, "expected_bias": bias, "pixel": 768})
    write_parquet(root / "data" / "main-00000-of-00001.parquet", rows)
    return root / "data"


def zero_bench(root: Path) -> Path:
    """Write two questions with one and two images."""
    rows = []
    for number, key in enumerate(("12", "3.5")):
        images = [{"bytes": make_image(number + n), "path": None} for n in range(number + 1)]
        row = {"question_id": str(number), "question_text": "How many?", "question_answer": key}
        rows.append({**row, "question_images_decoded": images})
    write_parquet(root / "zerobench-00000-of-00001.parquet", rows)
    return root
