"""Small generated files in the layouts in which the benchmarks are published."""

import base64
import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.tables import read_yaml

WIDE, HIGH = 240, 180  # enough for the labels of a grid


def image(number: int = 0, ending: str = ".png") -> bytes:
    """Return an image of a coloured disc, different for each number."""
    pixels = np.full((HIGH, WIDE, 3), 40 + 30 * number, np.uint8)
    cv2.circle(pixels, (60 + 20 * number, 80), 30, (30, 200, 90), -1)
    return bytes(cv2.imencode(ending, pixels)[1])


def write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def json_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    write(path, "".join(json.dumps(row) + "\n" for row in rows))


# ---- BLINK


TABLES = read_yaml(Path(__file__).with_suffix(".yaml"))
BLINK: dict[str, list[int]] = TABLES["blink"]


def blink(root: Path) -> None:
    """Write parquet files of all fourteen tasks; (A) is correct in the first row of each."""
    text, picture = pa.string(), pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    names = ("idx", "question", "sub_task", "answer", "prompt", "explanation")
    fields = [(name, text) for name in names] + [(f"image_{n}", picture) for n in (1, 2, 3, 4)]
    schema = pa.schema([*fields, ("choices", pa.list_(text))])
    for name, (images, count, questions) in BLINK.items():
        choices, rows = [f"choice {number}" for number in range(count)], list[dict[str, Any]]()
        lines = "".join(f"\n({'ABCD'[n]}) {choice}" for n, choice in enumerate(choices))
        for n in range(1, questions + 1):
            row: dict[str, Any] = {"idx": f"val_{name}_{n}", "question": "Which?"}
            row |= {"sub_task": name.replace("_", " "), "choices": choices, "explanation": ""}
            row |= {"answer": "(B)" if n > 1 else "(A)", "prompt": f"Which of {n}?{lines}"}
            for i in range(1, images + 1):
                row[f"image_{i}"] = {"bytes": image(i + n, ".jpg"), "path": "x.jpg"}
            rows.append(row)
        (root / name).mkdir(parents=True)
        table = pa.Table.from_pylist(rows, schema)
        pq.write_table(table, root / name / "val-00000-of-00001.parquet")


# ---- BLINK-Twice and the joint questions


def twice(root: Path) -> Path:
    """Write two groups of two pictures with two questions each; only the first correct answer is
    No."""
    rows = [
        {"question": f"Is it so {n}?", "image": f"{n // 2}.png", "group_id": n // 4}
        | {"answer": "A) Yes" if n else "B) No"}
        for n in range(8)
    ]
    json_lines(root / "twice.jsonl", rows)
    for number in range(4):
        write(root / f"{number}.png", image(number))
    return root / "twice.jsonl"


def joint(root: Path) -> Path:
    """Write five pictures; (A) is correct for two perception and three reasoning questions."""
    keys = (("(A)", "(A)"), ("3", "(A)"), ("3", "(B)"), ("(A)", "(B)"), ("3", "(A)"))
    rows = [
        {
            "id": str(number),
            "image": f"{number}.png",
            "perception_question": "How many circles?",
            "perception_answer": seen,
            "perception_choices": ["three", "four"] if "A" in seen else [],
            "reasoning_question": "What comes next?",
            "reasoning_answer": thought,
            "reasoning_choices": ["circle", "square"],
        }
        for number, (seen, thought) in enumerate(keys)
    ]
    json_lines(root / "joint.jsonl", rows)
    for number in range(len(keys)):
        write(root / f"{number}.png", image(number))
    return root / "joint.jsonl"


# ---- Do You See Me


def dysm(root: Path) -> None:
    """Write all twelve subtasks with three pictures of the first setting and `second` of the other.

    The first setting has the first of its keys, except that the second question of a picture has
    "2".
    """
    for folder, (settings, keys, second, questions) in TABLES["dysm"].items():
        flat, drawn = folder.startswith("2D"), "closure" not in folder
        asked = not flat or questions > 1 or "geometric" in folder
        lines = ["filename,question,answer,sweep" if asked else "filename,answer,sweep"]
        for number in range(3 + second):
            later = number > 2
            name = f"{number}.{'svg' if flat and drawn else 'png'}"
            for question in range(questions):
                key = keys[1] if later or question else keys[0]
                words = f"How many of {question}?," if asked else ""
                lines.append(f'{name},{words}{key},"{settings[later]}"')
            write(root / folder / f"{number}.png", image(number))
        write(root / folder / "dataset_info.csv", "\n".join(lines) + "\n")


# ---- VLM2-Bench


def vlm2(root: Path, few: bool = False) -> dict[str, str]:
    """Write all nine subtasks and return a reply for each id, some of them wrong.

    `few` writes one pair, two counts or one choice of each, and no video.
    """
    said: dict[str, str] = {}
    pairs, choices = (1, 1) if few else (3, 4)
    truths = {"oc": [(key, length) for length in (2, 3, 4) for key in range(1, length + 1)]}
    times = {2: 6, 3: 5, 4: 13}
    truths["pc"] = [(1 + n % length, length) for length in times for n in range(times[length])]
    for name in ("gc_mat", "gc_trk", "oc_cpr", "pc_cpr"):
        tag = "tf_" if name == "pc_cpr" else name
        ends = ("_p", "_n") if name.endswith("cpr") else ("", "")
        rows = [_asked(f"{tag}{n}{ends[key == 'F']}", key) for n in range(pairs) for key in "TF"]
        json_lines(root / f"jsonl/{name[:2]}/vanilla/{name}.jsonl", rows)
        # one pair right, one of which only the T is, and one that is wrong; or right, but the
        # official code compares whole strings
        replies = ("T.", "F.") * 3 if name == "gc_trk" else tuple("TFTTFT")
        places = [f"{tag}{n}_{side}" for n in range(pairs) for side in "pn"]
        said |= dict(zip(places, replies[: len(places)], strict=True))
    for cue in ("oc", "pc"):
        asked = list(enumerate(truths[cue]))[: 2 if few else None]
        counts = [_asked(f"{cue}cnt{n}", key, long, image_seq_len=long) for n, (key, long) in asked]
        json_lines(root / f"jsonl/{cue}/vanilla/{cue}_cnt.jsonl", counts)
        said |= {f"{cue}cnt{n}": f"There are {key}" for n, (key, _) in asked}
        more: dict[str, Any] = {
            "question": "Which? Choices: A) 1 and 3; B) None; C) 2 and 3; D) 1 and 2"
        }
        groups = [_asked(f"{cue}grp{n}", "D) 1 and 2", **more) for n in range(choices)]
        json_lines(root / f"jsonl/{cue}/vanilla/{cue}_grp.jsonl", groups)
        chosen = ("D) 1 and 2", "D", "(D) 1 and 2", "A) 1 and 3")
        said |= {f"{cue}grp{n}": chosen[n] for n in range(choices)}
    # of the keys 1 (of two images) and 1 (of four)
    said |= {"occnt0": "no idea", "occnt5": "There are 2"}
    for media in ("gc/processed", "oc/original_obj", "pc/image/picks_face"):
        for number in range(4):
            write(root / f"data/{media}/{number}.png", image(number))
    return said if few else said | _videos(root)


def _videos(root: Path) -> dict[str, str]:
    names = ("AB_1", "ABA_1")
    rows = [{"vid": name, "question": "Describe."} for name in names]
    json_lines(root / "jsonl/pc/vallina/pc_v_open-ended.jsonl", rows)
    for name in names:
        film(root / f"data/pc/video/UNI/{name}.avi")
    return dict.fromkeys(names, "Score: 1")


def _asked(q_id: str, key: Any, images: int = 2, **more: Any) -> dict[str, Any]:
    row = {"q_id": q_id, "type": "bag", "question": f"Q {q_id}? T or F", "gt_answer": key}
    return {**row, "images": [f"{number}.png" for number in range(images)], **more}


def film(path: Path, frames: int = 10, step: int = 20) -> Path:
    """Write a video of ten frames a second, each `step` grey levels brighter than the last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10.0, (32, 24))
    for number in range(frames):
        writer.write(np.full((24, 32, 3), step * number, np.uint8))
    writer.release()
    return path


# ---- benchmarks of one table


def _coded(number: int) -> str:
    return base64.b64encode(image(number)).decode()


def _sheet(path: Path, rows: Sequence[Mapping[str, Any]], delimiter: str = "\t") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def _parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [{**row, "image": {"bytes": image(n % 5), "path": None}} for n, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(cells), path)


def v_star(root: Path) -> None:
    """Write three questions on attributes with the keys A, B and A, and one on places with the key
    A."""
    rows = []
    for number, key in enumerate("ABAA"):
        category = "direct_attributes" if number < 3 else "relative_position"
        options = "(A) red\n(B) blue" + "\n(C) green\n(D) black" * (number < 3)
        text = f"What is it?\n{options}\nAnswer with the option's letter."
        name = f"{category}/sa_{number}.jpg"
        rows.append({"image": name, "text": text, "label": key, "category": category})
        write(root / name, image(number, ".jpg"))
    json_lines(root / "test_questions.jsonl", rows)


def hr_bench(root: Path) -> None:
    """Write two questions in four orders: A is right in one order of one, in two of the other."""
    rows: list[dict[str, Any]] = []
    for cycle, keys in enumerate(("AA", "BA", "CB", "DB")):
        for number, key in enumerate(keys):
            asked: dict[str, Any] = {"index": 2 * cycle + number, "question": "Which?"}
            asked |= {letter: f"choice {letter}" for letter in "ABCD"} | {"answer": key}
            asked |= {"category": ("single", "cross")[number], "cycle_category": cycle}
            rows.append(asked | {"image": _coded(number)})
    for size in ("4k", "8k"):
        _sheet(root / f"hr_bench_{size}.tsv", rows)


def mmvp(root: Path) -> None:
    """Write three pairs with the keys a a, a b and b b."""
    rows = []
    for number, key in enumerate("aaabbb", 1):
        asked = {"Index": number, "Question": "Open?", "Options": "(a) Open (b) Closed"}
        rows.append({**asked, "Correct Answer": f"({key})"})
        write(root / "MMVP Images" / f"{number}.jpg", image(number % 5, ".jpg"))
    _sheet(root / "Questions.csv", rows, ",")


def cv_bench(root: Path) -> None:
    """Write questions: A is right for all of ADE20K, one of four of COCO, one of two in 3D."""
    parts = (("2D", "ADE20K", "A"), ("2D", "COCO", "ABBB"), ("3D", "Omni3D", "AB"))
    for kind in ("2D", "3D"):
        rows: list[dict[str, Any]] = []
        for part, source, keys in parts:
            asked = {"type": kind, "task": "Count", "source": source, "question": "How many?"}
            asked |= {"prompt": "How many?\n(A) 1\n(B) 2"}
            for key in keys if part == kind else "":
                rows.append(
                    {"idx": len(rows), **asked, "choices": ["1", "2"], "answer": f"({key})"}
                )
        _parquet(root / f"test_{kind.lower()}.parquet", rows)


def natural_bench(root: Path) -> dict[str, str]:
    """Write two groups and return a reply for each row; only the third is wrong."""
    rows, said = [], ("Yes", "No.", "yes", "Yes", "A", "(B)", "I say b", "a cat, so B")
    for number, key in enumerate(("Yes", "No", "No", "Yes", "A", "B", "B", "A")):
        kind = "yes_no" if number < 4 else "multiple_choice"
        asked = {"index": number, "question": f"Q{number // 2}?", "answer": key, "type": kind}
        rows.append({**asked, "image": _coded(number % 2 + number // 4)})
    _sheet(root / "NaturalBenchDataset.tsv", rows)
    return {str(number): reply for number, reply in enumerate(said)}


def tree_bench(root: Path) -> None:
    """Write keys A and B with the target (0, 0, 10, 10); the second has one more target."""
    rows = []
    boxes = "[[0, 0, 10, 10]]", "[[0, 0, 10, 10], [90, 90, 99, 99]]"
    for number, key in enumerate("AB"):
        asked = {"index": number, "question": "Which?", "A": "red", "B": "blue", "answer": key}
        kind = ("Perception/OCR", "Reasoning/Ordering")[number]
        rows.append(asked | {"category": kind, "target_instances": boxes[number]})
        rows[-1]["image"] = _coded(number)
    _sheet(root / "TreeBench.tsv", rows)


def vlms_are_blind(root: Path) -> None:
    """Write questions; "{3} rows={4} columns={5}, I know" is correct for one of two on squares, a
    grid, and circles."""
    keys = {"Nested Squares": ("3", "2"), "Counting Grid - Word Grids": ("4,5",)}
    keys |= {"Touching Circles": ("No",)}
    rows = [
        {"task": task, "prompt": f"{task}?", "groundtruth": key}
        for task, group in keys.items()
        for key in group
    ]
    _parquet(root / "data" / "valid-00000-of-00001.parquet", rows)


def vp_bench(root: Path) -> None:
    """Write two boxes with the keys A and D and a scribble with the key A; images are JPEG in
    base64."""
    rows = []
    for number, key in enumerate("ADA", 1):
        asked = {"index": number, "context": "Red marks.", "question": "How many?"}
        asked |= dict(zip("ABCD", "1234", strict=True)) | {"answer": key, "image": _coded(number)}
        shape = {"vp_amount": "1", "vp_shape": ("box", "box", "scribble")[number - 1]}
        rows.append(asked | shape | {"vp_properties": "red, 3 pixels"})
    root.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), root / "vp_bench_stage_1.parquet")


def hallusion_bench(root: Path) -> None:
    """Write two figures with two questions; yes is right for both of one, one of the other."""
    rows = []
    for number, key in enumerate("1110"):
        places = {"set_id": "0", "figure_id": str(number // 2), "question_id": str(number % 2)}
        asked = {"category": "VD", "subcategory": "figure", **places, "question": "Is it?"}
        rows.append({**asked, "gt_answer": key})
    _parquet(root / "data" / "image-00000-of-00001.parquet", rows)
